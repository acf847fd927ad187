//! The plan does not depend on the number of load threads.

use crate::harness::{Bench, Finished, count};

#[test]
fn as_much_is_due_on_two_load_threads_as_on_one() {
    let run = |threads: u16, seed: u16| -> Finished {
        Bench::beside_others().run(&format!(
            "name: threads
seed: {seed}
platform: embedded
population: {{ devices: 7, subscribers: 1 }}
load:
  arrivals: poisson
  levels: [300, 500]
  warm_up: 200ms
  hold: 1s
  samples: 5
  drain: 1s
  threads: {threads}
objectives: {{ publish_p99: null, delivered: null, achieved: null }}
"
        ))
    };
    let due = |run: &Finished| -> Vec<u64> { run.levels().iter().map(|level| count(level, "due")).collect() };
    let (one, two) = (run(1, 7), run(2, 7));
    assert_eq!(one.summary["provenance"]["placement"]["load threads"], "1");
    assert_eq!(two.summary["provenance"]["placement"]["load threads"], "2");
    assert_eq!(due(&one), due(&two));
    assert_ne!(due(&one), due(&run(1, 8)), "another seed gives other arrivals");
}
