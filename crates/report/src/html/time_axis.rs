//! The run's time on an axis, with the levels' holds shaded.

use crate::chart::{Axis, Region};
use crate::html::level;
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Nanos;
use plimsoll_model::record::{LevelRecord, RunRecord};

/// The time of a run, in a unit that suits its length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunTime {
    unit: &'static str,
    seconds: f64,
    end: f64,
}

impl RunTime {
    /// From the run's epoch to the last hold or the last reading of a component.
    pub fn of(record: &RunRecord) -> RunTime {
        let holds = record.levels.iter().map(|level| hold(level).1);
        let readings = record.components.iter().map(|usage| usage.at.as_secs_f64());
        let end = holds.chain(readings).fold(1.0, f64::max);
        let (unit, seconds) = match end {
            end if end > 4.0 * 3600.0 => ("h", 3600.0),
            end if end > 900.0 => ("min", 60.0),
            _ => ("s", 1.0),
        };
        RunTime { unit, seconds, end }
    }

    /// The axis.
    pub fn axis(self) -> Axis {
        let name = format!("Time since the run began ({})", self.unit);
        Axis::span(&name, 0.0, self.at(self.end) * 1.01)
    }

    /// Seconds of the run in the unit of the axis.
    pub fn at(self, seconds: f64) -> f64 {
        seconds / self.seconds
    }

    /// Every hold in the colour of its verdict, with its name.
    pub fn regions(self, record: &RunRecord, summary: &Summary) -> Vec<Region> {
        let region = |(record, level): (&LevelRecord, &LevelSummary)| {
            let (from, to) = hold(record);
            let ink = level::ink(level.verdict);
            Region { from: self.at(from), to: self.at(to), name: level::name(level), ink }
        };
        levels(record, summary).map(region).collect()
    }
}

/// Each level with its record.
pub fn levels<'a>(
    record: &'a RunRecord,
    summary: &'a Summary,
) -> impl Iterator<Item = (&'a LevelRecord, &'a LevelSummary)> {
    record.levels.iter().zip(&summary.levels)
}

/// Begin and end of a level's hold, in seconds of the run's clock.
fn hold(level: &LevelRecord) -> (f64, f64) {
    let begin: Nanos = level.start.hold_start;
    (begin.as_secs_f64(), (begin + level.start.hold).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::synthetic;

    #[test]
    fn the_unit_suits_the_length() {
        let mut record = synthetic::record();
        record.components.clear();
        let unit = |record: &RunRecord| RunTime::of(record).unit;
        assert_eq!(unit(&record), "s");
        record.levels[5].start.hold_start = Nanos::from_secs(3000);
        assert_eq!(unit(&record), "min");
        record.levels[5].start.hold_start = Nanos::from_secs(30_000);
        assert_eq!((unit(&record), RunTime::of(&record).at(7200.0)), ("h", 2.0));
    }
}
