//! A scenario whose arrivals are those of a trace: any file is read or refused with a reason, and what is read can be played.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_load::arrivals::Arrivals;
use plimsoll_load::replay::Playing;
use plimsoll_load::share::Share;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::Model;
use plimsoll_scenario::{Environment, SourceFile, load};

const SCENARIO: &str = "name: trace
platform: embedded
population: { devices: 60 }
load: { arrivals: { trace: { file: trace.csv } }, levels: [100], hold: 1s, samples: 2, warm_up: 1s }
";

fuzz_target!(|text: &str| {
    let file = |_: &str| Ok(text.to_owned());
    let environment = Environment { profile: &file, variable: &|_| None };
    let source = SourceFile { name: "scenario.yaml".into(), text: SCENARIO.into() };
    let Ok(plan) = load(&source, &[], &environment) else { return };
    let Model::Trace(trace) = plan.load.model else { return };
    let [hold_start, hold_end] = [1, 2].map(Nanos::from_secs);
    let playing = Playing { rate: 100.0, devices: 60, hold_start, hold_end };
    let all: Vec<_> = Arrivals::replayed(trace, playing, Share::WHOLE).take(10_000).collect();
    assert!(all.is_sorted_by_key(|arrival| arrival.due));
    assert!(all.iter().all(|arrival| arrival.due >= Nanos::ZERO && arrival.due < hold_end));
});
