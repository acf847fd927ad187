//! No coordinated omission: a broker that stands still makes every message late that was due meanwhile, also those
//! that the receive maximum kept from being sent.

use crate::harness::{Bench, Finished, count, number, until_valid};
use crate::scripted_broker::{Script, ScriptedBroker};
use std::time::Duration;

const STALL: Duration = Duration::from_millis(1500);

/// One device sends 200 messages a second, evenly spaced. One observation in a hundred of a 10 s level is 20.
fn scenario(broker: &ScriptedBroker, levels: &str) -> String {
    format!(
        "name: stall
platform: {}
population: {{ devices: 1 }}
mqtt: {{ version: 5, keep_alive: 0s }}
load: {{ arrivals: constant, levels: {levels}, warm_up: 0s, hold: 10s, samples: 10, drain: 3s }}
objectives: {{ delivered: null, achieved: null }}
",
        broker.platform()
    )
}

/// What the stall implies for p99 from due. A message due x into the stall waits 1.5 s - x for its end, then for
/// those before it. Of 2,000 messages the 20 with the longest times are those due in the first 20 x 5 ms = 0.1 s,
/// so that p99 is 1.5 s - 0.1 s = 1.4 s, longer by what 20 messages take, one after the other through a window of
/// one: a few milliseconds. The band allows 30 ms below for the grid of 5 ms, the place in the grid where the stall
/// begins and the histogram's resolution, and 150 ms above for a stall that the scheduler makes longer.
#[track_caller]
fn assert_p99_from_due_tells_the_stall(run: &Finished, level: usize) {
    let p99 = number(run.level(level), &["publish_time", "p99"]);
    assert!((1.37..1.55).contains(&p99), "p99 from due is {p99} s");
}

/// With a receive maximum of one, a single message is in flight when the broker stands still, and only one of 2,000
/// times from sent is long: p99 from sent sees nothing of the stall, and a tool that measures from sent would report
/// a healthy broker. p99 from due tells.
#[test]
fn behind_a_window_of_one_only_the_time_from_due_tells_a_stall() {
    // The first level has 1,999 messages, since one that is due at its very end belongs to no level; the stall
    // comes 2 s into the second.
    let run = until_valid(|| {
        let stall = Some((1999 + 400, STALL));
        let broker = ScriptedBroker::start(Script { receive_maximum: Some(1), stall, ..Script::default() });
        let bench = Bench::new();
        // The first level is met, the second is not.
        bench.run(&scenario(&broker, "[200, 200]"))
    });
    assert_eq!((count(run.level(0), "acknowledged"), count(run.level(1), "acknowledged")), (1999, 1999));
    assert_p99_from_due_tells_the_stall(&run, 1);
    let from_send = |level| number(run.level(level), &["publish_time_from_send", "p99"]);
    let (calm, stalled) = (from_send(0), from_send(1));
    assert!(stalled < 2.0 * calm, "p99 from sent: {calm} s without, {stalled} s with the stall");
    // The one message that was in flight is seen, and seen once.
    let longest = number(run.level(1), &["publish_time_from_send", "max"]);
    assert!(longest > 1.45, "the longest time from sent is {longest} s");
    assert_ne!(run.level(1)["verdict"], "met", "p99 from due is what the objective is about");
}

/// Without the window all 300 messages that are due in the stall are handed to the kernel at once and wait there:
/// each counts from due and from sent alike.
#[test]
fn without_a_window_both_times_tell_a_stall() {
    let run = until_valid(|| {
        let broker = ScriptedBroker::start(Script { stall: Some((400, STALL)), ..Script::default() });
        let bench = Bench::new();
        bench.run(&scenario(&broker, "[200]"))
    });
    assert_p99_from_due_tells_the_stall(&run, 0);
    let from_send = number(run.level(0), &["publish_time_from_send", "p99"]);
    assert!((1.37..1.55).contains(&from_send), "p99 from sent is {from_send} s");
}
