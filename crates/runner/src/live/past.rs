//! How a run has gone so far: what it did at equal distances of time. The longer it goes on, the larger they are.

use super::now::Now;
use serde::{Deserialize, Serialize};

/// Most moments that are kept. With one more, every second one goes, and the distance doubles.
const MOST: usize = 160;
/// Seconds from one moment to the next in the beginning.
const DISTANCE: f64 = 1.0;

/// What a run did at a time. What was not known then is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Seconds since the run is followed.
    pub at: f64,
    /// The number of the level that went on, from 1.
    pub level: Option<usize>,
    /// Operations per second that it offered.
    pub offered: Option<f64>,
    /// Operations per second that came to their end.
    pub rate: Option<f64>,
    /// Median of the time that tells of the platform, in seconds.
    pub p50: Option<f64>,
    /// Its 99 % quantile.
    pub p99: Option<f64>,
    /// Processors that the platform's components on this host used.
    pub processors: Option<f64>,
}

/// Gathers them.
#[derive(Debug, Default)]
pub(super) struct Past {
    run: String,
    began: f64,
    distance: f64,
    moments: Vec<Moment>,
}

impl Past {
    /// Takes in what a run does at that time, in seconds of any steady clock, and adds to it what it did before. Another run has a past of
    /// its own.
    pub fn add_to(&mut self, now: &mut Now, at: f64) {
        if self.run != now.run || self.distance == 0.0 {
            *self = Past { run: now.run.clone(), began: at, distance: DISTANCE, moments: Vec::new() };
        }
        let since = at - self.began;
        let next = self.moments.last().map_or(0.0, |last| last.at + self.distance);
        if since >= next && !now.is_over && !now.run.is_empty() {
            self.moments.push(Moment { at: since, ..Moment::of(now) });
        }
        if self.moments.len() > MOST {
            let mut is_kept = false;
            self.moments.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.distance *= 2.0;
        }
        now.past.clone_from(&self.moments);
    }
}

impl Moment {
    fn of(now: &Now) -> Moment {
        let processors = now.components.iter().map(|component| component.processors).sum();
        let level = now.level.as_ref();
        Moment {
            at: 0.0,
            level: level.map(|level| level.number),
            offered: level.and_then(|level| level.offered),
            rate: level.and_then(|level| level.rate),
            p50: level.and_then(|level| level.p50),
            p99: level.and_then(|level| level.p99),
            processors: (!now.components.is_empty()).then_some(processors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{ComponentNow, LevelNow};

    #[test]
    fn a_long_run_is_seen_at_equal_and_growing_distances() {
        let mut past = Past::default();
        let mut now = Now { run: "a".into(), ..Now::default() };
        for half in 0..10_000 {
            past.add_to(&mut now, 77.0 + f64::from(half) / 2.0);
            assert!(now.past.len() <= MOST, "{half}");
        }
        let times: Vec<f64> = now.past.iter().map(|moment| moment.at).collect();
        assert!(times.len() > MOST / 2 - 1 && times[0] == 0.0, "{times:?}");
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == times[1]), "{times:?}");
        assert!(5_000.0 - times[times.len() - 1] <= times[1], "{times:?}");
    }

    #[test]
    fn another_run_begins_with_nothing_and_one_that_is_over_stays_as_it_was() {
        let mut past = Past::default();
        let level = LevelNow { number: 2, offered: Some(9.0), p99: Some(0.5), ..LevelNow::default() };
        let component = ComponentNow { name: "broker".into(), processors: 0.25, memory: 1 };
        let mut now = Now {
            run: "a".into(),
            level: Some(level),
            components: vec![component.clone(), component],
            ..Now::default()
        };
        past.add_to(&mut now, 3.0);
        past.add_to(&mut now, 3.5);
        let seen = Moment {
            level: Some(2),
            offered: Some(9.0),
            p99: Some(0.5),
            processors: Some(0.5),
            ..Moment::default()
        };
        assert_eq!(now.past, [seen]);
        now.is_over = true;
        past.add_to(&mut now, 9.0);
        assert_eq!(now.past.len(), 1);
        let mut other = Now { run: "b".into(), ..Now::default() };
        past.add_to(&mut other, 10.0);
        assert_eq!(other.past, [Moment::default()]);
        let mut unknown = Now::default();
        past.add_to(&mut unknown, 11.0);
        assert_eq!(unknown.past, [], "a run that is not in the store yet has none");
    }
}
