//! Whose limit was it: a generator and a receiver that cannot keep up are told from a broker that cannot.

use crate::harness::{Bench, count, on_a_calm_host, until_told};
use crate::scripted_broker::{Script, ScriptedBroker};
use std::time::Duration;

/// Tests that measure.
mod alone {
    use super::*;

    /// Five million messages a second are more than one thread can take up, by a factor of ten or so. The objective lets
    /// the generator be late by 10 ms, which a shared machine alone does not exceed.
    #[test]
    fn a_starved_generator_ends_in_time_and_is_told_from_a_slow_platform() {
        let run = on_a_calm_host(|| {
            let bench = Bench::new();
            let run = bench.run(
                "name: starved
platform: embedded
population: { devices: 10 }
load: { levels: [5000000], warm_up: 0s, hold: 1s, samples: 5, drain: 1s }
objectives: { publish_p99: \"< 100 ms\" }
",
            );
            run.exits(3)
        });
        let level = run.level(0);
        assert_eq!(level["validity"], "generator_bound", "{level:#}");
        assert_eq!(run.summary["verdict"], "invalid");
        assert!(count(level, "due") > 4_900_000, "all that was due is counted: {level:#}");
        assert_eq!(count(level, "due"), count(level, "sent") + count(level, "unsent"));
        // One second of load and one of drain; the rest is for starting, for counting what was never taken up, for
        // ending, and for a machine that is shared.
        assert!(run.took < Duration::from_secs(20), "took {:?}", run.took);
        // What was taken up in a second, at a hundred bytes or so each.
        assert!(run.peak_memory < 1 << 30, "used {} bytes", run.peak_memory);
    }

    /// A subscriber that works 5 ms on a message reads 200 of the 400 that come in a second. All of them came in time;
    /// our reading is what is slow.
    #[test]
    fn a_slow_subscriber_is_told_from_a_slow_broker() {
        let run = until_told("receiver_bound", || {
            let broker = ScriptedBroker::start(Script::default());
            let bench = Bench::new();
            let run = bench.run(&format!(
                "name: slow subscriber
platform: {}
population: {{ devices: 4, subscribers: {{ count: 1, work: 5ms }} }}
load: {{ levels: [400], warm_up: 0s, hold: 3s, samples: 6, drain: 500ms }}
",
                broker.platform()
            ));
            run.exits(3)
        });
        let level = run.level(0);
        assert_eq!(
            (&level["validity"], &level["verdict"]),
            (&"receiver_bound".into(), &"invalid".into()),
            "{level:#}"
        );
        assert_eq!(run.summary["verdict"], "invalid");
        assert!(run.summary["load_line"].is_null());
        assert_eq!(count(level, "acknowledged"), count(level, "due"), "the broker took everything");
    }

    #[test]
    fn a_subscriber_that_works_gets_each_message_once() {
        let broker = ScriptedBroker::start(Script::default());
        let bench = Bench::new();
        let run = bench.run(&format!(
            "name: busy subscriber
platform: {}
population: {{ devices: 4, subscribers: {{ count: 1, work: 1500us }} }}
load: {{ levels: [500], warm_up: 0s, hold: 2s, samples: 4, drain: 10s }}
",
            broker.platform()
        ));
        let level = run.level(0);
        let figures = ["delivered", "duplicated", "lost"].map(|figure| count(level, figure));
        assert_eq!(figures, [count(level, "due"), 0, 0], "{level:#}");
    }
}
