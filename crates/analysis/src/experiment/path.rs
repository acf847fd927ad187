//! What a delay before a component says: in how many places operations are kept while they are there. Where those places bound the
//! throughput, each operation keeps its own for longer, by there and back, and throughput falls by Little's law: in n places, a
//! second more makes the time from one end to the next longer by 1/n seconds. It does so from the shortest delay on. Where something
//! else limits, there is room: a part of the delay changes nothing, which two delays show. An operation that goes there and back
//! several times is kept longer by each of them, so that n then is the number of places / that of its round trips.

use super::Estimate;
use super::effect::{self, Seen};
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{Means, Stage};
use plimsoll_model::record::{Gauge, LevelRecord, RunRecord};
use plimsoll_stats::Interval;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// As many places as this part of the operations that are in flight are not few.
const FEW: f64 = 0.5;
/// The longest delay is so many times the shortest one, at least: else both would show the same room.
const APART: f64 = 3.0;
/// The most room that there may be, as a part of the time from one operation's end to the next.
const ROOM: f64 = 0.15;
/// The same part, by which throughput may fall more than the places explain.
const MORE: f64 = 0.3;

/// The path to a component, as the relay before it delayed it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Path {
    /// The component.
    pub component: String,
    /// The components that had connections to the relay before it; empty where these could not be seen.
    pub callers: Vec<String>,
    /// The delays of each way, in seconds, the shortest first.
    pub delays: Vec<f64>,
    /// Blocks with one of them.
    pub blocks: usize,
    /// Places in which operations are kept while they are on the path or in the component, divided by the round trips that an operation
    /// makes there; null where they do not bound the throughput.
    pub at_once: Option<Estimate>,
    /// Round trips that were there at once on average, by the longest delay alone: what was shown to be possible. Null where too few
    /// blocks had it.
    pub at_least: Option<f64>,
}

/// The paths that were delayed in a run's experiment, with so many operations in flight.
pub fn of(record: &RunRecord, in_flight: u32) -> Vec<Path> {
    let of_level = |level: &LevelRecord| of_level(level, &record.gauges, f64::from(in_flight));
    let levels = record.experiment.iter().filter(|level| level.start.stage() == Some(Stage::Delays));
    levels.flat_map(of_level).collect()
}

/// The paths that were delayed in a level.
pub fn of_level(level: &LevelRecord, doses: &[Gauge], in_flight: f64) -> Vec<Path> {
    let seen = effect::seen_in(level, doses);
    let delayed = || seen.iter().filter(|(perturbation, _)| perturbation.means == Means::Delay);
    let mut components: Vec<&String> = delayed().flat_map(|(own, _)| &own.components).collect();
    components.sort();
    components.dedup();
    let path = |component: &String| {
        let own = || delayed().filter(|(own, _)| own.components.contains(component));
        let mut delays: Vec<_> = own().map(|(own, _)| own.stop).collect();
        delays.sort();
        delays.dedup();
        let of = |delay| own().filter(move |(own, _)| own.stop == delay).map(|(_, seen)| seen);
        let of_longest = delays
            .last()
            .map(|longest| of(*longest).map(|seen| seen.on_its_way(*longest)).collect::<Vec<f64>>());
        let callers = level.start.experiment.as_ref().and_then(|own| own.callers.get(component));
        Path {
            component: component.clone(),
            callers: callers.cloned().unwrap_or_default(),
            delays: delays.iter().map(|delay| delay.as_secs_f64()).collect(),
            blocks: own().count(),
            at_once: bound(&delays, of).filter(|at_once| at_once.ends()[1] < FEW * in_flight),
            at_least: of_longest.and_then(|all| effect::student(&all)).map(|all| all.lo.max(0.0)),
        }
    };
    components.into_iter().map(path).collect()
}

/// In how many places operations are kept, where there is no room.
fn bound<'a, I: Iterator<Item = &'a Seen>>(delays: &[Nanos], of: impl Fn(Nanos) -> I) -> Option<Estimate> {
    let (&short, &long) = (delays.first()?, delays.last()?);
    let apart = long.as_secs_f64() / short.as_secs_f64();
    if apart < APART {
        return None;
    }
    // By how much the time from end to end grew, as a part of it.
    let longer = |delay| of(delay).map(|seen| seen.longer()).collect::<Vec<f64>>();
    let [by_short, by_long] = [longer(short), longer(long)];
    let [short_ends, long_ends] = [effect::student(&by_short)?, effect::student(&by_long)?];
    // A line through both at a delay of nothing: with room it is below zero. The errors add up by squares.
    let [of_short, of_long] = [apart / (apart - 1.0), 1.0 / (apart - 1.0)];
    let [short_half, long_half] = [short_ends, long_ends].map(|ends| (ends.hi - ends.lo) / 2.0);
    let [short_mean, long_mean] = [short_ends, long_ends].map(|ends| (ends.hi + ends.lo) / 2.0);
    let at_zero = of_short * short_mean - of_long * long_mean;
    let half = (of_short * short_half).hypot(of_long * long_half);
    let per_second: Vec<f64> = of(long).map(|seen| seen.longer_by(long)).collect();
    let ends = effect::student(&per_second).filter(|ends| ends.lo > 0.0)?;
    let mean = per_second.iter().sum::<f64>() / per_second.len() as f64;
    let has_no_room = at_zero - half > -ROOM && at_zero + half < MORE && short_ends.lo > 0.0;
    let at_once = Interval { lo: 1.0 / ends.hi, hi: 1.0 / ends.lo };
    has_no_room.then(|| Estimate::of(1.0 / mean, Some(at_once)))
}

impl Path {
    /// What the delays did, for people.
    pub fn in_words(&self) -> String {
        let delays: Vec<String> = self.delays.iter().map(|delay| format!("{:.1}", delay * 1e3)).collect();
        let delayed = format!(
            "messages to and from {} took {} ms longer each way",
            self.component,
            delays.join(" and ")
        );
        match (&self.at_once, self.at_least) {
            (Some(at_once), _) => {
                let [lo, hi] = at_once.ends();
                let whose = match &self.callers[..] {
                    [] => String::new(),
                    callers => format!("; the connections there are those of {}", callers.join(" and ")),
                };
                format!(
                    "{delayed}: throughput fell as if each operation kept one of {:.1} places ({lo:.1} to {hi:.1}) for one round trip \
                     there{whose}",
                    at_once.mean
                )
            }
            (None, Some(least)) => {
                format!(
                    "{delayed}: no bound shows, and {least:.0} round trips or more were under way at once, if each operation \
                     makes its own"
                )
            }
            (None, None) => format!("{delayed}: in too few blocks to show anything"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Counts;
    use plimsoll_model::experiment::{Block, ExperimentLevel, Perturbation};
    use plimsoll_model::record::{LevelStart, SampleRecord};

    /// A level with untouched blocks of a second around those with a delay of 10 or 40 ms each way, by the operations in them.
    fn path(untouched: u64, delayed: [&[u64]; 2]) -> Path {
        let delays = [10, 40].map(Nanos::from_millis);
        let with = delays
            .iter()
            .zip(delayed)
            .flat_map(|(delay, all)| all.iter().map(move |ended| (Some(*delay), *ended)));
        let mut blocks = vec![(None, untouched)];
        blocks.extend(with.flat_map(|block| [block, (None, untouched)]));
        let block = |(place, (delay, _)): (u16, &(Option<Nanos>, u64))| Block {
            perturbation: delay.map(|stop| Perturbation::new(vec!["b".into()], Means::Delay, 1.0, stop)),
            begin: place,
            measured: place,
            end: place + 1,
        };
        let samples = blocks.iter().map(|(_, ended)| {
            Some(SampleRecord {
                counts: Counts { due: *ended, ..Counts::default() },
                ..SampleRecord::default()
            })
        });
        let start = LevelStart {
            hold: Nanos::from_secs(blocks.len() as i64),
            samples: blocks.len() as u16,
            experiment: Some(ExperimentLevel::new(Stage::Delays, (0..).zip(&blocks).map(block).collect())),
            ..LevelStart::default()
        };
        let level = LevelRecord { start, samples: samples.collect(), ..LevelRecord::default() };
        of_level(&level, &[], 200.0).remove(0)
    }

    #[test]
    fn a_pool_keeps_each_place_for_longer_by_each_delay() {
        // Three places, of which each is taken for 30 ms: 100 a second, and 3 / 50 ms, 3 / 110 ms with the delays.
        let found = path(100, [&[60, 61, 59, 60], &[27, 28, 27, 27]]);
        let at_once = found.at_once.unwrap();
        let [lo, hi] = at_once.ends();
        assert!((at_once.mean - 3.0).abs() < 0.1 && lo > 2.7 && hi < 3.3, "{found:?}");
        assert!(found.in_words().contains("one of 3.0 places (2.9 to 3.1)"), "{}", found.in_words());
    }

    #[test]
    fn a_path_that_has_room_for_a_short_delay_bounds_nothing() {
        let found = path(100, [&[100, 99, 101, 100], &[27, 28, 27, 27]]);
        assert_eq!(found.at_once, None, "another one limits while the delay is short");
        let half = path(100, [&[75, 76, 75, 74], &[27, 28, 27, 27]]);
        assert_eq!(half.at_once, None, "there is room for a third of the short delay: {half:?}");
        let none = path(100, [&[100, 99, 101, 100], &[100, 101, 99, 100]]);
        assert_eq!(none.at_once, None);
        let least = none.at_least.unwrap();
        assert!((7.5..8.0).contains(&least), "100 a second for 80 ms: {least}");
        // All that is in flight is there at once: 150 operations that take 1.5 s.
        let own = path(100, [&[99, 98, 99, 99], &[95, 95, 94, 95]]);
        assert_eq!(own.at_once, None, "{own:?}");
    }
}
