//! Samples of a level, put together where there are too many to draw or too few observations in one.

use crate::chart::{MOST_POINTS, Path};
use plimsoll_analysis::time_summary::quantile_of;
use plimsoll_model::record::{LevelRecord, SampleRecord};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};

/// Consecutive samples as one.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// Begin on the run's clock, in seconds.
    pub begin: f64,
    /// End, in seconds.
    pub end: f64,
    /// What was counted; `None` where one of the samples was not taken.
    pub counts: Option<Counts>,
    /// What the metric that was asked for took, where it was seen.
    pub times: Histogram,
}

impl Piece {
    /// Its middle.
    pub fn middle(&self) -> f64 {
        (self.begin + self.end) / 2.0
    }

    /// A count of it per second; `None` in a gap.
    pub fn per_second(&self, count: impl Fn(&Counts) -> u64) -> Option<f64> {
        let length = self.end - self.begin;
        Some(count(self.counts.as_ref()?) as f64 / length).filter(|rate| rate.is_finite())
    }
}

/// How many samples are put together, so that a run of so many levels has at most [`MOST_POINTS`] points, or one for each level.
fn together(samples: usize, levels: usize) -> usize {
    samples.div_ceil((MOST_POINTS / levels.max(1)).max(1)).max(1)
}

/// The samples of a level of so many levels, with what a metric took.
pub fn pieces(level: &LevelRecord, levels: usize, metric: Option<Metric>) -> Vec<Piece> {
    let start = &level.start;
    let together = together(level.samples.len(), levels);
    let begin = start.hold_start.as_secs_f64();
    let mut at = begin;
    let piece = |(number, samples): (usize, &[Option<SampleRecord>])| {
        let lengths = (number * together..).zip(samples).map(|(sample, _)| start.sample_seconds(sample));
        let mut piece = Piece {
            begin: at,
            end: at + lengths.sum::<f64>(),
            counts: Some(Counts::default()),
            ..Piece::default()
        };
        at = piece.end;
        piece.times = Histogram::packed();
        for sample in samples {
            let Some(sample) = sample else {
                piece.counts = None;
                continue;
            };
            if let Some(counts) = &mut piece.counts {
                *counts += sample.counts;
            }
            let seen = metric.and_then(|metric| sample.histograms.get(&metric));
            seen.into_iter().for_each(|seen| piece.times.merge(seen));
        }
        piece
    };
    level.samples.chunks(together).enumerate().map(piece).collect()
}

/// Pieces, put together until each has enough observations for a quantile; `None` where one was not taken. Nothing where the level
/// has not enough for one value.
pub fn enough_for(pieces: &[Piece], q: f64) -> Vec<Option<Piece>> {
    let mut groups: Vec<Option<Piece>> = Vec::new();
    let mut open: Option<Piece> = None;
    let is_enough = |piece: &Piece| quantile_of(&piece.times, q).is_some();
    for piece in pieces {
        if piece.counts.is_none() {
            close(&mut groups, open.take(), is_enough);
            groups.push(None);
            continue;
        }
        let mut group = open.take().unwrap_or_else(|| Piece {
            begin: piece.begin,
            times: Histogram::packed(),
            ..Piece::default()
        });
        group.end = piece.end;
        group.times.merge(&piece.times);
        if is_enough(&group) {
            groups.push(Some(group));
        } else {
            open = Some(group);
        }
    }
    close(&mut groups, open, is_enough);
    groups
}

/// A time over the run, in milliseconds: what `of` makes of each group of observations. What was not taken is a gap.
pub fn over_time(groups: &[Option<Piece>], of: impl Fn(&Histogram) -> Option<Nanos>) -> Path {
    let value = |group: &Piece| Some(of(&group.times)?.as_secs_f64() * 1e3);
    let end = |place: usize| groups.get(place).and_then(Option::as_ref).map_or(0.0, |group| group.end);
    let points = groups.iter().enumerate().map(|(place, group)| match group {
        Some(group) => (group.middle(), value(group)),
        None => (end(place.saturating_sub(1)), None),
    });
    points.collect()
}

/// What is left at the end has too few observations by itself: it joins the group before it.
fn close(groups: &mut Vec<Option<Piece>>, rest: Option<Piece>, is_enough: impl Fn(&Piece) -> bool) {
    let Some(rest) = rest else { return };
    match groups.last_mut() {
        Some(Some(last)) => {
            last.end = rest.end;
            last.times.merge(&rest.times);
        }
        _ if is_enough(&rest) => groups.push(Some(rest)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::record::LevelStart;

    /// A level whose samples of a second have so many observations of a millisecond each; `None` was not taken.
    fn level(observations: &[Option<u64>]) -> LevelRecord {
        let sample = |count: &Option<u64>| {
            let mut times = Histogram::new();
            times.record_n(Nanos::from_millis(1), (*count)?);
            let counts = Counts { completed: (*count)?, ..Counts::default() };
            Some(SampleRecord { counts, histograms: [(Metric::PublishTime, times)].into() })
        };
        let start = LevelStart {
            hold_start: Nanos::from_secs(10),
            hold: Nanos::from_secs(observations.len() as i64),
            samples: observations.len() as u16,
            ..LevelStart::default()
        };
        LevelRecord { start, samples: observations.iter().map(sample).collect(), ..LevelRecord::default() }
    }

    fn of(observations: &[Option<u64>]) -> Vec<Piece> {
        pieces(&level(observations), 1, Some(Metric::PublishTime))
    }

    fn quantile(pieces: &[Piece], q: f64) -> Path {
        over_time(&enough_for(pieces, q), |times| quantile_of(times, q))
    }

    fn times(points: &[(f64, Option<f64>)]) -> Vec<(f64, bool)> {
        points.iter().map(|(at, value)| (*at, value.is_some())).collect()
    }

    #[test]
    fn a_sample_that_was_not_taken_stays_a_gap() {
        let pieces = of(&[Some(5), None, Some(7)]);
        let rates: Vec<_> =
            pieces.iter().map(|piece| (piece.middle(), piece.per_second(|c| c.completed))).collect();
        assert_eq!(rates, [(10.5, Some(5.0)), (11.5, None), (12.5, Some(7.0))]);
    }

    #[test]
    fn many_samples_are_put_together() {
        let pieces = of(&vec![Some(4); 1000]);
        assert_eq!(pieces.len(), MOST_POINTS);
        assert!(pieces.iter().all(|piece| piece.per_second(|counts| counts.completed) == Some(4.0)));
        assert_eq!((together(30, 6), together(1000, 6), together(30, 500)), (1, 31, 30));
    }

    #[test]
    fn a_quantile_has_enough_observations_in_every_point() {
        // 1,000 for each p99: two samples of 600 make one point, and the last joins those before it.
        let points = quantile(&of(&[Some(600); 5]), 0.99);
        assert_eq!(times(&points), [(11.0, true), (13.5, true)]);
        assert_eq!(times(&quantile(&of(&[Some(600); 5]), 0.5)).len(), 5);
        assert!(quantile(&of(&[Some(100); 5]), 0.99).is_empty(), "not told from 500");
        let gap = quantile(&of(&[Some(1000), None, Some(400), Some(700)]), 0.99);
        assert_eq!(times(&gap), [(10.5, true), (11.0, false), (13.0, true)]);
    }
}
