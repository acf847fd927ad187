//! Kinds of planted faults. What is identifiable is fixed by the planted strength, before anything is judged: each kind says
//! for each seed what it plants and who may be named. A wrong name fails at once; of the right ones nine in ten must be given.

use super::bench::{Named, Setup, between, blamed, certifies, seeds};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Verdict;

/// What is right to say of a run.
struct Truth {
    /// Those who may be named, the best first.
    named: Vec<Named>,
    /// Whether the planted strength makes it identifiable.
    identifiable: bool,
    /// What else must hold.
    holds: fn(&Summary) -> bool,
}

struct Kind {
    name: &'static str,
    plant: fn(u64) -> (Setup, Truth),
}

fn truth(named: &[Named]) -> Truth {
    Truth { named: named.to_vec(), identifiable: true, holds: |_| true }
}

fn component(name: &str) -> Named {
    Named::Component(name.to_owned())
}

/// Levels of 150/s and 300/s begin to be measured at about 1.1 s and 12.2 s.
const SECOND_LEVEL: &str = "11.5s";

const CHAIN: &str =
    "{ name: agent, service: SERVICE_A }, { name: broker, service: 300us }, { name: db, service: SERVICE_D }";

fn chain(agent: &str, db: &str) -> String {
    CHAIN.replace("SERVICE_A", agent).replace("SERVICE_D", db)
}

/// The first level is as it should be, the second is not.
const ONLY_SECOND: fn(&Summary) -> bool =
    |summary| summary.load_line.as_ref().is_some_and(|line| line.level == 0);

const KINDS: &[Kind] = &[
    Kind {
        name: "healthy",
        plant: |_| (Setup::default(), Truth { holds: certifies, ..truth(&[Named::Nobody]) }),
    },
    Kind {
        name: "healthy, slow and wide (edges)",
        plant: |seed| {
            let service = between(seed, 60.0, 150.0);
            let stations = format!("{{ name: broker, workers: 500, service: {service:.0}ms }}");
            let load = "levels: [150, 300], hold: 10s, samples: 20, warm_up: 1s".into();
            let objectives =
                "delivered: \">= 99.9 %\", achieved: \">= 99 %\", publish_p99: \"< 10 s\"".into();
            (
                Setup { stations, load, objectives, ..Setup::default() },
                Truth { holds: certifies, ..truth(&[Named::Nobody]) },
            )
        },
    },
    Kind {
        name: "healthy at QoS 0 without subscribers",
        plant: |_| {
            let objectives = "achieved: \">= 99 %\"".into();
            (
                Setup { qos: 0, subscribers: 0, objectives, ..Setup::default() },
                Truth { holds: certifies, ..truth(&[Named::Nobody]) },
            )
        },
    },
    Kind {
        name: "platform robbed of its processor",
        plant: |seed| {
            let share = between(seed, 82.0, 95.0);
            let faults = format!("{{ kind: starve, share: {share:.0} %, at: 0s }}");
            (Setup { faults, ..Setup::default() }, truth(&[Named::Host]))
        },
    },
    Kind {
        name: "one component robbed of its processor",
        plant: |seed| {
            let share = between(seed, 82.0, 95.0);
            let faults = format!("{{ kind: starve, station: db, share: {share:.0} %, at: 0s }}");
            let more = "  acknowledged_by: db\n".into();
            (Setup { stations: chain("1ms", "1ms"), more, faults, ..Setup::default() }, truth(&[Named::Host]))
        },
    },
    Kind {
        name: "starved generator",
        plant: |seed| {
            let share = between(seed, 40.0, 90.0);
            let faults = format!("{{ kind: starve_generator, share: {share:.0} %, at: 0s }}");
            (Setup { faults, ..Setup::default() }, truth(&[Named::Host]))
        },
    },
    Kind {
        name: "generator's processor stolen",
        plant: |seed| {
            let share = between(seed, 40.0, 90.0);
            let faults = format!("{{ kind: steal_generator, share: {share:.0} %, at: 0s }}");
            (Setup { faults, ..Setup::default() }, truth(&[Named::Host]))
        },
    },
    Kind {
        name: "Plimsoll stopped",
        plant: |seed| {
            let (at, length) = (between(seed, 13.0, 19.5), between(seed, 1.5, 3.0));
            let faults = format!("{{ kind: pause_generator, at: {at:.2}s, for: {length:.2}s }}");
            (Setup { faults, ..Setup::default() }, Truth { holds: ONLY_SECOND, ..truth(&[Named::Host]) })
        },
    },
    Kind {
        name: "overloaded generator",
        plant: |seed| {
            let cost = between(seed, 2.0, 3.0);
            let more = format!("  generator_cost: {cost:.2}ms\n");
            let stations = "{ name: broker, service: 50us }".into();
            (Setup { stations, more, ..Setup::default() }, truth(&[Named::Generator]))
        },
    },
    Kind {
        name: "platform frozen for a while",
        plant: |seed| {
            let (at, length) = (between(seed, 13.0, 18.0), between(seed, 1.0, 3.0));
            let faults = format!("{{ kind: pause, at: {at:.2}s, for: {length:.2}s }}");
            let more = "  network: { local: true }\n".into();
            (
                Setup { faults, more, ..Setup::default() },
                Truth { holds: ONLY_SECOND, ..truth(&[Named::Platform]) },
            )
        },
    },
    Kind {
        name: "platform frozen for longer than others held its processor",
        plant: |seed| {
            let (at, length) = (between(seed, 15.5, 17.5), between(seed, 2.5, 3.0));
            let faults = format!(
                "{{ kind: pause, at: {at:.2}s, for: {length:.2}s }}, {{ kind: starve, share: 12 %, at: 0s }}"
            );
            let more = "  network: { local: true }\n".into();
            (
                Setup { faults, more, ..Setup::default() },
                Truth { holds: ONLY_SECOND, ..truth(&[Named::Platform]) },
            )
        },
    },
    Kind {
        name: "a remote platform frozen in its only level",
        plant: |seed| {
            let (at, length) = (between(seed, 3.0, 7.0), between(seed, 1.5, 3.0));
            let faults = format!("{{ kind: pause, at: {at:.2}s, for: {length:.2}s }}");
            let load = Setup::default().load.replace("[150, 300]", "[150]");
            (Setup { faults, load, ..Setup::default() }, truth(&[Named::Platform]))
        },
    },
    Kind {
        name: "a network cut for a while",
        plant: |seed| {
            let (at, length) = (between(seed, 3.0, 7.0), between(seed, 1.5, 3.0));
            let faults = format!("{{ kind: network_loss, share: 100 %, at: {at:.2}s, for: {length:.2}s }}");
            let load = Setup::default().load.replace("[150, 300]", "[150]");
            (
                Setup { faults, load, ..Setup::default() },
                Truth { identifiable: length >= 1.8, ..truth(&[Named::Network]) },
            )
        },
    },
    Kind {
        name: "platform frozen for good",
        plant: |seed| {
            let faults = format!("{{ kind: pause, at: {:.2}s }}", between(seed, 13.0, 18.0));
            (Setup { faults, ..Setup::default() }, Truth { holds: ONLY_SECOND, ..truth(&[Named::Platform]) })
        },
    },
    Kind {
        name: "frozen at QoS 0, nobody receives",
        plant: |seed| {
            let faults = format!("{{ kind: pause, at: {:.2}s }}", between(seed, 2.0, 9.0));
            let objectives = "achieved: \">= 99 %\"".into();
            (
                Setup { qos: 0, subscribers: 0, objectives, faults, ..Setup::default() },
                Truth {
                    identifiable: false,
                    holds: |summary| !certifies(summary) && summary.load_line.is_none(),
                    ..truth(&[Named::Unknown])
                },
            )
        },
    },
    Kind {
        name: "overloaded platform",
        plant: |seed| {
            let service = between(seed, 3.5, 4.5);
            let stations = format!("{{ name: broker, service: {service:.2}ms }}");
            let objectives =
                "delivered: \">= 99.9 %\", achieved: \">= 99 %\", publish_p99: \"< 200 ms\"".into();
            (
                Setup { stations, objectives, ..Setup::default() },
                Truth { holds: ONLY_SECOND, ..truth(&[component("broker"), Named::Platform]) },
            )
        },
    },
    Kind {
        name: "slow database",
        plant: |seed| {
            let service = between(seed, 3.5, 4.5);
            let objectives = "delivered: \">= 99.9 %\", publish_p99: \"< 200 ms\"".into();
            let stations = chain("500us", &format!("{service:.2}ms"));
            let more = "  acknowledged_by: db\n".into();
            (
                Setup { stations, more, objectives, ..Setup::default() },
                truth(&[component("db"), Named::Platform]),
            )
        },
    },
    Kind {
        name: "slow agent",
        plant: |seed| {
            let service = between(seed, 3.5, 4.5);
            let objectives = "delivered: \">= 99.9 %\", publish_p99: \"< 200 ms\"".into();
            let stations = chain(&format!("{service:.2}ms"), "500us");
            let more = "  acknowledged_by: db\n".into();
            (
                Setup { stations, more, objectives, ..Setup::default() },
                truth(&[component("agent"), Named::Platform]),
            )
        },
    },
    Kind {
        name: "slower for a while",
        plant: |seed| {
            let times = between(seed, 20.0, 60.0);
            let faults = format!("{{ kind: slow, times: {times:.0}, at: {SECOND_LEVEL} }}");
            (Setup { faults, ..Setup::default() }, truth(&[component("broker"), Named::Platform]))
        },
    },
    Kind {
        name: "a lock",
        plant: |seed| {
            let lock = between(seed, 75.0, 100.0);
            let stations =
                format!("{{ name: broker, workers: 8, service: 8ms, processor: 10 %, lock: {lock:.0} % }}");
            (Setup { stations, ..Setup::default() }, truth(&[Named::Platform]))
        },
    },
    Kind {
        name: "a quota",
        plant: |seed| {
            let quota = between(seed, 19.0, 25.0);
            let stations = format!("{{ name: broker, service: 1ms, quota: {quota:.0} % }}");
            (Setup { stations, ..Setup::default() }, truth(&[component("broker"), Named::Platform]))
        },
    },
    Kind {
        name: "a small pool that waits",
        plant: |seed| {
            let service = between(seed, 14.0, 18.0);
            let stations = format!("{{ name: broker, workers: 4, service: {service:.1}ms, processor: 5 % }}");
            let objectives = "delivered: \">= 99.9 %\", publish_p99: \"< 200 ms\"".into();
            (Setup { stations, objectives, ..Setup::default() }, truth(&[Named::Platform]))
        },
    },
    Kind {
        name: "a shared processor",
        plant: |seed| {
            let service = between(seed, 3.5, 4.5);
            let stations = format!("{{ name: broker, service: {service:.1}ms, sharing: true }}");
            let objectives = "delivered: \">= 99.9 %\", publish_p99: \"< 500 ms\"".into();
            (
                Setup { stations, objectives, ..Setup::default() },
                truth(&[component("broker"), Named::Platform]),
            )
        },
    },
    Kind {
        name: "lost acknowledgements",
        plant: |seed| {
            let share = between(seed, 2.0, 20.0);
            let faults = format!("{{ kind: lose_acknowledgements, share: {share:.1} % }}");
            (Setup { faults, ..Setup::default() }, truth(&[Named::Platform]))
        },
    },
    Kind {
        name: "deliveries lost after acknowledgement",
        plant: |seed| {
            let share = between(seed, 1.0, 20.0);
            let faults = format!("{{ kind: lose, share: {share:.1} % }}");
            (Setup { faults, ..Setup::default() }, truth(&[Named::Platform]))
        },
    },
    Kind {
        name: "deliveries lost behind the one that acknowledges",
        plant: |seed| {
            let faults = format!("{{ kind: lose, station: db, share: {:.1} % }}", between(seed, 1.0, 20.0));
            (Setup { stations: chain("1ms", "1ms"), faults, ..Setup::default() }, truth(&[Named::Platform]))
        },
    },
    Kind {
        name: "acknowledged and lost on a starved host",
        plant: |seed| {
            let (lost, starved) = (between(seed, 2.0, 20.0), between(seed, 20.0, 60.0));
            let faults = format!(
                "{{ kind: lose, share: {lost:.1} % }}, {{ kind: starve_generator, share: {starved:.0} % }}"
            );
            (Setup { faults, ..Setup::default() }, truth(&[Named::Platform]))
        },
    },
    Kind {
        name: "acknowledged and lost by a robbed platform",
        plant: |seed| {
            let lost = between(seed, 2.0, 20.0);
            let faults = format!("{{ kind: lose, share: {lost:.1} % }}, {{ kind: starve, share: 30 % }}");
            (Setup { faults, ..Setup::default() }, truth(&[Named::Platform]))
        },
    },
    Kind {
        name: "a full queue at QoS 0",
        plant: |seed| {
            let service = between(seed, 6.0, 10.0);
            let stations = format!("{{ name: broker, service: {service:.1}ms, limit: 20 }}");
            let objectives = "delivered: \">= 99.9 %\"".into();
            (
                Setup { qos: 0, stations, objectives, ..Setup::default() },
                truth(&[Named::Platform, component("broker")]),
            )
        },
    },
    Kind {
        name: "a clear miss on a bad host",
        plant: |seed| {
            let starved = between(seed, 20.0, 50.0);
            let stations =
                "{ name: broker, workers: 400, service: 887ms, processor: 0 %, law: deterministic }".into();
            let faults = format!("{{ kind: starve_generator, share: {starved:.0} % }}");
            let objectives =
                "delivered: \">= 99.9 %\", publish_p50: \"< 5 ms\", publish_p99: \"< 10 s\"".into();
            (
                Setup { stations, faults, objectives, ..Setup::default() },
                Truth {
                    // There is nothing to compare the first level with, and the second is as slow.
                    named: vec![Named::Unknown, Named::Platform],
                    identifiable: false,
                    holds: |summary| summary.verdict == Verdict::Missed,
                },
            )
        },
    },
    Kind {
        name: "a network that became slow",
        plant: |seed| {
            let by = between(seed, 15.0, 60.0);
            let faults = format!("{{ kind: network_delay, by: {by:.1}ms, at: {SECOND_LEVEL} }}");
            let objectives =
                "delivered: \">= 99.9 %\", publish_p50: \"< 20 ms\", publish_p99: \"< 10 s\"".into();
            (Setup { faults, objectives, ..Setup::default() }, truth(&[Named::Network]))
        },
    },
    Kind {
        name: "network and platform became slow",
        plant: |seed| {
            let times = between(seed, 18.0, 24.0);
            let faults = format!(
                "{{ kind: network_delay, by: 10ms, at: {SECOND_LEVEL} }}, {{ kind: slow, times: {times:.0}, at: {SECOND_LEVEL} }}"
            );
            let stations = "{ name: broker, workers: 50, service: 1ms, processor: 10 % }".into();
            let objectives =
                "delivered: \">= 99.9 %\", publish_p50: \"< 15 ms\", publish_p99: \"< 10 s\"".into();
            (Setup { stations, faults, objectives, ..Setup::default() }, truth(&[Named::Both]))
        },
    },
    Kind {
        name: "a network that lost packets",
        plant: |seed| {
            let share = between(seed, 1.5, 6.0);
            let faults = format!("{{ kind: network_loss, share: {share:.1} %, at: {SECOND_LEVEL} }}");
            (Setup { faults, ..Setup::default() }, truth(&[Named::Network]))
        },
    },
    Kind {
        name: "a slow platform behind a far network",
        plant: |seed| {
            let times = between(seed, 60.0, 120.0);
            let more = "  network: { round_trip: 30ms, jitter: 2ms }\n".into();
            let stations = "{ name: broker, workers: 50, service: 1ms, processor: 10 % }".into();
            let faults = format!("{{ kind: slow, times: {times:.0}, at: {SECOND_LEVEL} }}");
            let objectives =
                "delivered: \">= 99.9 %\", publish_p50: \"< 40 ms\", publish_p99: \"< 10 s\"".into();
            (Setup { stations, more, faults, objectives, ..Setup::default() }, truth(&[Named::Platform]))
        },
    },
    Kind {
        name: "a broker that dies",
        plant: |seed| {
            let faults = format!("{{ kind: die, at: {:.2}s }}", between(seed, 13.0, 20.0));
            (
                Setup { faults, ..Setup::default() },
                Truth {
                    holds: |summary| summary.verdict == Verdict::Missed && ONLY_SECOND(summary),
                    ..truth(&[component("broker")])
                },
            )
        },
    },
    Kind {
        name: "a database that dies",
        plant: |seed| {
            let faults = format!("{{ kind: die, station: db, at: {:.2}s }}", between(seed, 13.0, 20.0));
            (
                Setup { stations: chain("1ms", "1ms"), faults, ..Setup::default() },
                Truth {
                    holds: |summary| summary.verdict == Verdict::Missed && ONLY_SECOND(summary),
                    ..truth(&[component("db"), Named::Platform])
                },
            )
        },
    },
    Kind {
        name: "a broker that dies and comes back",
        plant: |seed| {
            let faults = format!("{{ kind: die, at: {:.2}s, for: 2s }}", between(seed, 13.0, 18.0));
            (
                Setup { faults, ..Setup::default() },
                Truth {
                    holds: |summary| summary.verdict == Verdict::Missed,
                    ..truth(&[component("broker")])
                },
            )
        },
    },
    Kind {
        name: "a platform that warms up",
        plant: |seed| {
            let times = between(seed, 60.0, 120.0);
            let faults = format!("{{ kind: warm_up, times: {times:.0}, at: 0s, for: 6s }}");
            let stations = "{ name: broker, workers: 50, service: 1ms, processor: 10 % }".into();
            let load = "levels: [150], hold: 10s, samples: 10, warm_up: 1s".into();
            (
                Setup { stations, faults, load, ..Setup::default() },
                Truth {
                    holds: |summary| certifies(summary) && summary.levels.len() > 1,

                    ..truth(&[Named::Nobody])
                },
            )
        },
    },
];

#[test]
fn nobody_is_blamed_who_was_not_to_blame_and_who_was_is_named() {
    let seeds = seeds();
    // Kinds are judged side by side; each has a history of its own.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let parts: Vec<Vec<(usize, String, Vec<String>)>> = std::thread::scope(|scope| {
        let part = |first: usize| {
            let own = KINDS.iter().enumerate().skip(first).step_by(threads);
            own.map(|(place, kind)| judge(place, kind, seeds)).collect::<Vec<_>>()
        };
        let running: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut judged: Vec<(usize, String, Vec<String>)> = parts.into_iter().flatten().collect();
    judged.sort();
    println!("| kind | runs | identifiable | named rightly | by the best name |\n|---|---|---|---|---|");
    judged.iter().for_each(|(_, row, _)| println!("{row}"));
    let wrong: Vec<&String> = judged.iter().flat_map(|(.., wrong)| wrong).collect();
    let shown: Vec<&str> = wrong.iter().map(|wrong| wrong.as_str()).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), shown.join("\n"));
}

/// A row of the table, and what is wrong.
fn judge(place: usize, kind: &Kind, seeds: u64) -> (usize, String, Vec<String>) {
    let mut wrong = Vec::new();
    let (mut named, mut identifiable, mut best) = (0, 0, 0);
    for seed in 1..=seeds {
        let (setup, truth) = (kind.plant)(seed);
        let summary = setup.run(seed);
        let says = blamed(&summary);
        let is_right = truth.named.contains(&says);
        if !is_right && says != Named::Unknown || !(truth.holds)(&summary) {
            let levels: Vec<String> = summary
                .levels
                .iter()
                .map(|level| format!("{} {:?}: {:?}", level.load, level.verdict, level.reasons))
                .collect();
            wrong.push(format!("{}, seed {seed}: {says:?}, {}: {levels:#?}", kind.name, summary.reason));
        }
        if truth.identifiable && says == Named::Unknown {
            println!("{}, seed {seed}: not named: {}", kind.name, summary.reason);
        }
        identifiable += u64::from(truth.identifiable);
        named += u64::from(truth.identifiable && is_right);
        best += u64::from(truth.named.first() == Some(&says));
    }
    if (named as f64) < 0.9 * identifiable as f64 {
        wrong.push(format!("{}: {named} of {identifiable} identifiable ones were named", kind.name));
    }
    (place, format!("| {} | {seeds} | {identifiable} | {named} | {best} |", kind.name), wrong)
}
