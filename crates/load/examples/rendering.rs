//! What it costs to make a message: the street segment of work B from its template, alone and in the envelopes that
//! platforms want around it.
//!
//!     cargo run --release -p plimsoll-load --example rendering
//!
//! prints nanoseconds per message, the median and the range of several rounds.

use plimsoll_load::content::Contents;
use plimsoll_model::RunId;
use plimsoll_scenario::{Environment, Source, load};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 15;
const MESSAGES: u32 = 200_000;
const DEVICES: u32 = 19_884;

const SCENARIO: &str = r#"
name: rendering
platform: { profile: ./never-spoken-to.yaml, address: "http://127.0.0.1:9" }
population: { devices: 19884 }
load: { model: closed, in_flight: [1] }
message:
  feed: { city: {} }
  template: >-
    {"last_hour_average":{feed:last_hour_average},"weekly_average":{feed:weekly_average},"combined_average":{feed:combined_average},"edge_id":{feed:edge_id},"lon":{feed:lon},"lat":{feed:lat},"m":"{marker}"}
"#;
const PROFILE: &str = r#"
name: never-spoken-to
title: only what messages are is of interest
device:
  speaks: http
  marker: ascii
  request:
    path: /
    body: 'BODY'
components: []
"#;

fn main() {
    for (name, body) in [
        ("alone", "{message}"),
        ("as a value within JSON", r#"{"message":{"type":"StructuredValue","value":{message}}}"#),
        ("as a text within JSON", r#"{"content":{"con":"{message:json}"}}"#),
    ] {
        measure(name, body);
    }
}

fn measure(name: &str, body: &str) {
    let source = Source { name: "rendering.yaml".into(), text: SCENARIO.into() };
    let profile = |_: &str| Ok(PROFILE.replace("BODY", body));
    let environment = Environment { profile: &profile, variable: &|_| None };
    let plan = load(&source, &[], &environment).unwrap_or_else(|found| {
        eprintln!("{found}");
        std::process::exit(1);
    });
    let mut contents = Contents::new(&plan, RunId::from_bits(1));
    let (mut out, mut bytes) = (Vec::new(), 0);
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            for message in 0..MESSAGES {
                out.clear();
                contents.render(message % DEVICES, message / DEVICES, &mut out);
                bytes = black_box(&out).len();
            }
            begin.elapsed().as_nanos() as f64 / f64::from(MESSAGES)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (least, median, most) = (rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
    println!("{name:24} {median:6.0} ns ({least:.0} to {most:.0}), {bytes} bytes");
}
