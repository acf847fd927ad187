//! The closed and the open workload model measure the same broker alike where nothing queues.

use crate::harness::{Bench, number, until_valid};
use crate::scripted_broker::{Script, ScriptedBroker};
use std::time::Duration;

/// The broker answers each message exactly 5 ms after it came, however many are under way: the time from sent is
/// then 5 ms and two passages of loopback, whoever asks and how often.
const ANSWER: Duration = Duration::from_millis(5);

fn scenario(broker: &ScriptedBroker, load: &str) -> String {
    format!(
        "name: five milliseconds
platform: {}
population: {{ devices: 5 }}
load: {{ {load}, warm_up: 200ms, hold: 3s, samples: 6, drain: 1s }}
objectives: {{ delivered: null, achieved: null, publish_p99: null }}
",
        broker.platform()
    )
}

#[test]
fn closed_and_open_model_agree_on_a_broker_of_fixed_response_time() {
    let broker = ScriptedBroker::start(Script { delay: Some(ANSWER), ..Script::default() });
    let measure = |load| until_valid(|| Bench::new().run(&scenario(&broker, load))).exits(0);
    let closed = measure("model: closed, in_flight: [1, 5]");
    let open = measure("model: open, levels: [100]");
    assert!(closed.level(0)["offered"].is_null(), "a closed level offers no rate");
    let mean = |level| number(level, &["publish_time_from_send", "mean"]);
    let means = [mean(closed.level(0)), mean(closed.level(1)), mean(open.level(0))];
    // At least the 5 ms of the broker, at most 5 ms more for a machine that is shared: the agreement is what counts.
    assert!(means.iter().all(|mean| (0.005..0.010).contains(mean)), "{means:?}");
    let largest = means.iter().copied().fold(0.0, f64::max);
    let smallest = means.iter().copied().fold(f64::MAX, f64::min);
    assert!(largest < 1.05 * smallest, "means from sent differ by more than 5 %: {means:?}");
    // Little's law: in flight / mean time from due is the rate achieved; 5 % as above.
    for (level, in_flight) in closed.levels().iter().zip([1.0, 5.0]) {
        let expected = in_flight / number(level, &["publish_time", "mean"]);
        let achieved = number(level, &["achieved"]);
        assert!((achieved / expected - 1.0).abs() < 0.05, "{achieved}/s instead of {expected}/s");
    }
}
