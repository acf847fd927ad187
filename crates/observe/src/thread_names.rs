//! The threads of each component by name: who of them works, who waits for a processor, how often they change. Digits in names
//! are left out, so that the threads of a pool are one.

use crate::rates::Rates;
use crate::sampler::{INTERVAL, ObservedPlatform, Reading, Sampler, SamplerEntry, Unit};
use crate::schedstat;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

/// See the module.
pub const ENTRY: SamplerEntry =
    SamplerEntry { name: "threads", interval: INTERVAL, begin: || Ok(Box::new(ThreadNames::default())) };

/// Most names of one component; further ones are counted together.
const MOST_NAMES: usize = 12;
/// A name appears once its threads use so much of a processor.
const APPEARS: f64 = 0.01;
/// What is left over.
const OTHERS: &str = "others";

/// Of which thread, of which component and name, and which of its counters.
type Counter = (String, String, i32, Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// Nanoseconds on a processor.
    Ran,
    /// Nanoseconds of waiting for one.
    Waited,
    /// How often it was put on one.
    Turns,
}

#[derive(Default)]
struct ThreadNames {
    rates: Rates<Counter>,
    /// The names of each component that have appeared.
    known: BTreeMap<String, BTreeSet<String>>,
}

impl Sampler for ThreadNames {
    fn read(&mut self, platform: &ObservedPlatform<'_>) -> Vec<Reading> {
        let mut counters = HashMap::new();
        let mut readings = Vec::new();
        for family in platform.families {
            let tasks =
                family.members.iter().filter_map(|(process, _)| process.tasks().ok()).flatten().flatten();
            let mut runnable = 0;
            for task in tasks {
                let Ok(stat) = task.stat() else { continue };
                runnable += u32::from(stat.state == 'R');
                let Some(counts) = schedstat::of_thread(task.pid, task.tid) else { continue };
                let name = pooled(&stat.comm);
                for (kind, count) in [Kind::Ran, Kind::Waited, Kind::Turns].into_iter().zip(counts) {
                    counters.insert((family.component.clone(), name.clone(), task.tid, kind), count);
                }
            }
            if !family.members.is_empty() {
                readings.push(Reading::of(
                    &family.component,
                    "runnable threads",
                    Unit::Count,
                    f64::from(runnable),
                ));
            }
        }
        let mut components: BTreeMap<String, Vec<(String, Kind, f64)>> = BTreeMap::new();
        for ((component, name, _, kind), rate) in self.rates.since_last(Instant::now(), counters) {
            components.entry(component).or_default().push((name, kind, rate));
        }
        for (component, rates) in components {
            let of = |kind| rates.iter().filter(move |rate| rate.1 == kind).map(|rate| rate.2).sum::<f64>();
            let turns = of(Kind::Turns);
            readings.push(Reading::of(&component, "context switches", Unit::PerSecond, turns));
            readings.push(Reading::of(&component, "waiting", Unit::Processors, of(Kind::Waited) / 1e9));
            let mut names: BTreeMap<&str, f64> = BTreeMap::new();
            for (name, _, rate) in rates.iter().filter(|rate| rate.1 == Kind::Ran) {
                *names.entry(name).or_default() += rate / 1e9;
            }
            let known = self.known.entry(component.clone()).or_default();
            readings.extend(by_name(&component, names, known));
        }
        readings
    }
}

/// The use of each name. A name that has appeared stays, so that its mean over a level covers all of the level.
fn by_name(component: &str, names: BTreeMap<&str, f64>, known: &mut BTreeSet<String>) -> Vec<Reading> {
    let mut busiest: Vec<(&str, f64)> = names.iter().map(|(name, used)| (*name, *used)).collect();
    busiest.sort_by(|one, other| other.1.total_cmp(&one.1));
    for (name, used) in busiest {
        if known.len() < MOST_NAMES && used >= APPEARS {
            known.insert(name.to_owned());
        }
    }
    let reading = |name: &str, used| Reading::of(component, format!("thread {name}"), Unit::Processors, used);
    let mut readings: Vec<Reading> =
        known.iter().map(|name| reading(name, names.get(name.as_str()).copied().unwrap_or(0.0))).collect();
    let others: f64 = names.iter().filter(|(name, _)| !known.contains(**name)).map(|(_, used)| used).sum();
    if !known.is_empty() {
        readings.push(reading(OTHERS, others));
    }
    readings
}

/// A name of a thread with `*` in place of digits.
fn pooled(name: &str) -> String {
    let mut pooled = String::new();
    for character in name.chars().filter(|character| !character.is_control()) {
        match character.is_ascii_digit() {
            true if pooled.ends_with('*') => {}
            true => pooled.push('*'),
            false => pooled.push(character),
        }
    }
    pooled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::families;
    use std::net::SocketAddr;

    #[test]
    fn threads_of_a_pool_have_one_name() {
        assert_eq!(pooled("pool-12-thread-3"), "pool-*-thread-*");
        assert_eq!((pooled("main"), pooled("a\n1"), pooled("")), ("main".into(), "a*".into(), String::new()));
    }

    #[test]
    fn a_name_that_appeared_stays_and_the_rest_is_counted_together() {
        let mut known = BTreeSet::new();
        let many: Vec<String> = (0..20).map(|number| format!("t{number:02}")).collect();
        let names = many.iter().map(|name| (name.as_str(), 0.5)).chain([("idle", 0.001)]).collect();
        let readings = by_name("broker", names, &mut known);
        assert_eq!((readings.len(), known.len()), (MOST_NAMES + 1, MOST_NAMES));
        assert!((readings.last().unwrap().value - 4.001).abs() < 1e-9, "{readings:?}");
        let later = by_name("broker", BTreeMap::new(), &mut known);
        assert!(later.len() == MOST_NAMES + 1 && later.iter().all(|reading| reading.value == 0.0));
    }

    #[test]
    fn the_thread_that_works_is_named() {
        let script = "exec -a spinner python3 -c 'while True: pass'";
        let mut child = std::process::Command::new("bash").args(["-c", script]).spawn().unwrap();
        let components = [("busy".to_owned(), child.id() as i32)];
        let mut sampler = ThreadNames::default();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        std::thread::sleep(std::time::Duration::from_millis(300));
        sampler.read(&ObservedPlatform { families: &families(&components), address });
        std::thread::sleep(std::time::Duration::from_millis(500));
        let readings = sampler.read(&ObservedPlatform { families: &families(&components), address });
        child.kill().unwrap();
        child.wait().unwrap();
        let named: Vec<&Reading> =
            readings.iter().filter(|reading| reading.quantity.starts_with("thread python")).collect();
        assert!(named.len() == 1 && named[0].value > 0.05 && named[0].value < 1.1, "{readings:?}");
        assert!(readings.iter().any(|reading| reading.quantity == "runnable threads"));
    }
}
