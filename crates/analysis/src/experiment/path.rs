//! What a delay before a component says: how many operations can be on the path to it and in it at once. Where that number bounds the
//! throughput, each operation keeps its place for longer, by there and back, and throughput falls by Little's law: n operations that
//! take a second longer each make the time from one end to the next longer by 1/n seconds. It does so by a short delay already. A
//! path that would only bound the throughput of a faster component has room for a short delay.

use super::{Estimate, effect};
use plimsoll_model::experiment::{Means, Stage};
use plimsoll_model::record::{Gauge, LevelRecord, RunRecord};
use plimsoll_stats::Interval;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// As many operations as this part of those that are in flight are not few.
const FEW: f64 = 0.5;

/// The path to a component, as the relay before it delayed it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Path {
    /// The component.
    pub component: String,
    /// The delays of each way, in seconds, the shortest first.
    pub delays: Vec<f64>,
    /// Blocks with one of them.
    pub blocks: usize,
    /// Operations that can be on the path and in the component at once, where that bounds the throughput; null where it does not.
    pub at_once: Option<Estimate>,
    /// Operations that can be there at once at least.
    pub at_least: f64,
}

/// The paths that were delayed in a run's experiment, with so many operations in flight.
pub fn of(record: &RunRecord, in_flight: u32) -> Vec<Path> {
    let of_level = |level: &LevelRecord| of_level(level, &record.gauges, f64::from(in_flight));
    let levels = record.experiment.iter().filter(|level| level.start.stage() == Some(Stage::Delays));
    levels.flat_map(of_level).collect()
}

fn of_level(level: &LevelRecord, doses: &[Gauge], in_flight: f64) -> Vec<Path> {
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
        let longer = |delay| {
            own().filter(move |(own, _)| own.stop == delay).map(|(own, seen)| seen.longer_by(own.stop))
        };
        let apart: Vec<Vec<f64>> = delays.iter().map(|delay| longer(*delay).collect()).collect();
        let all = apart.concat();
        Path {
            component: component.clone(),
            delays: delays.iter().map(|delay| delay.as_secs_f64()).collect(),
            blocks: all.len(),
            at_once: bound(&apart).filter(|at_once| at_once.ends()[1] < FEW * in_flight),
            at_least: apart
                .last()
                .and_then(|longest| effect::student(longest))
                .map_or(0.0, |longer| if longer.hi > 1.0 / in_flight { 1.0 / longer.hi } else { in_flight }),
        }
    };
    components.into_iter().map(path).collect()
}

/// How many operations can be there at once, if each delay says the same.
fn bound(apart: &[Vec<f64>]) -> Option<Estimate> {
    let intervals: Vec<Interval> =
        apart.iter().map(|longer| effect::student(longer)).collect::<Option<_>>()?;
    let lowest = intervals.iter().map(|own| own.lo).reduce(f64::min)?;
    let agree = intervals.iter().all(|one| intervals.iter().all(|other| one.lo <= other.hi));
    if lowest <= 0.0 || !agree || intervals.len() < 2 {
        return None;
    }
    let all = apart.concat();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let of_all = effect::student(&all)?;
    let at_once = Interval { lo: 1.0 / of_all.hi, hi: 1.0 / of_all.lo };
    Some(Estimate::of(1.0 / mean, Some(at_once)))
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
        match &self.at_once {
            Some(at_once) => {
                let [lo, hi] = at_once.ends();
                format!(
                    "{delayed}: throughput fell as if at most {:.1} ({lo:.1} to {hi:.1}) operations could be there at once",
                    at_once.mean
                )
            }
            None => format!("{delayed}: {:.0} operations or more can be there at once", self.at_least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::experiment::{Block, ExperimentLevel, Perturbation};
    use plimsoll_model::record::{LevelStart, SampleRecord};
    use plimsoll_model::{Counts, Nanos};

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
            perturbation: delay.map(|stop| Perturbation {
                components: vec!["b".into()],
                means: Means::Delay,
                share: 1.0,
                stop,
            }),
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
            experiment: Some(ExperimentLevel {
                stage: Stage::Delays,
                blocks: (0..).zip(&blocks).map(block).collect(),
            }),
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
        assert!(
            found.in_words().contains("as if at most 3.0 (2.9 to 3.1) operations"),
            "{}",
            found.in_words()
        );
    }

    #[test]
    fn a_path_that_has_room_for_a_short_delay_bounds_nothing() {
        let found = path(100, [&[100, 99, 101, 100], &[27, 28, 27, 27]]);
        assert_eq!(found.at_once, None, "another one limits while the delay is short");
        let none = path(100, [&[100, 99, 101, 100], &[100, 101, 99, 100]]);
        assert_eq!(none.at_once, None);
        assert!(none.at_least > 100.0, "{none:?}");
        // All that is in flight is there at once: 150 operations that take 1.5 s.
        let own = path(100, [&[99, 98, 99, 99], &[95, 95, 94, 95]]);
        assert_eq!(own.at_once, None, "{own:?}");
    }
}
