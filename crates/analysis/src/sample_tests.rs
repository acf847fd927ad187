//! What each sample of a hold says of the objectives: of those on deliveries, and on quantiles of times. Recovery from a fault is looked
//! for by them, and so are the times at which a level along a curve missed.

use crate::{censored, validity};
use plimsoll_model::objective::{Comparison, Objective, Subject};
use plimsoll_model::record::{LevelRecord, SampleRecord, Terms};
use plimsoll_model::{Histogram, Metric, Nanos};
use std::ops::Range;

/// So many samples in a row must meet the objectives of a platform that meets them again.
pub(crate) const IN_A_ROW: usize = 3;
/// How many standard errors more messages of a sample may lie beyond a bound than the objective allows: one sample in a thousand of
/// a platform that just meets it has more.
const ERRORS: f64 = 3.3;

/// The tests of a level.
pub(crate) struct SampleTests<'a> {
    all: Vec<SampleTest<'a>>,
    /// Of each sample, whether our generator was late: such a one says nothing of the platform.
    late: Vec<bool>,
}

/// The tests of one objective.
pub(crate) struct SampleTest<'a> {
    /// What is demanded.
    pub objective: &'a Objective,
    record: &'a LevelRecord,
    /// Observations that each sample owes.
    owed: Vec<u64>,
}

impl<'a> SampleTests<'a> {
    /// Of a level with its terms.
    pub fn of(record: &'a LevelRecord, terms: &'a Terms) -> SampleTests<'a> {
        let test = |objective: &'a Objective| {
            let own =
                terms.populations.iter().position(|own| Some(&own.name) == objective.population.as_ref());
            let own = own.and_then(|place| {
                Some((record.populations.get(place)?, &terms.populations.get(place)?.terms))
            });
            let (record, terms) = own.unwrap_or((record, terms));
            let metric = match (objective.subject, objective.comparison) {
                (Subject::Delivered, Comparison::AtLeast | Comparison::Above) => Metric::SubscribeTime,
                (Subject::Quantile(metric, _), Comparison::Below | Comparison::AtMost)
                    if is_of_messages(metric) =>
                {
                    metric
                }
                _ => return None,
            };
            Some(SampleTest { objective, record, owed: censored::owed_of_all(record, terms, metric) })
        };
        // The bounds by which a level is valid.
        let bound = Nanos::from_secs_f64(validity::bound(terms, record.seconds()).min(1e6));
        let allowed = 1.0 - validity::quantile(terms);
        let is_late = |sample: &Option<SampleRecord>| {
            let lateness = sample.as_ref().and_then(|sample| sample.histograms.get(&Metric::Lateness));
            lateness.is_some_and(|seen| seen.count_above(bound) as f64 > seen.count() as f64 * allowed + 1.0)
        };
        SampleTests {
            all: terms.objectives.level.iter().filter_map(test).collect(),
            late: record.samples.iter().map(is_late).collect(),
        }
    }

    /// Whether there is no objective that a sample could be tested for.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The objectives.
    pub fn each(&self) -> impl Iterator<Item = &SampleTest<'a>> {
        self.all.iter()
    }

    /// Whether our generator was late in a sample.
    pub fn is_late(&self, sample: usize) -> bool {
        self.late.get(sample).copied().unwrap_or(false)
    }

    /// Whether a sample meets all of them; `None` where nothing was owed in it, or our generator was late.
    pub fn meets(&self, sample: usize) -> Option<bool> {
        if self.is_late(sample) {
            return None;
        }
        let judged = self.all.iter().filter_map(|test| test.meets(sample));
        judged.reduce(|one, other| one && other)
    }
}

/// Whether it is a time that each message has.
fn is_of_messages(metric: Metric) -> bool {
    use Metric::{PublishTime, PublishTimeFromSend, QueryTime, SubscribeTime, SubscribeTimeFromSend};
    matches!(metric, PublishTime | PublishTimeFromSend | SubscribeTime | SubscribeTimeFromSend | QueryTime)
}

impl SampleTest<'_> {
    fn meets(&self, sample: usize) -> Option<bool> {
        let (beyond, n) = self.beyond(sample)?;
        Some(match self.objective.subject {
            Subject::Quantile(_, q) => beyond < n && beyond <= most_beyond(n, q),
            _ => {
                let delivered = (n - beyond) as f64 / n as f64;
                self.objective.comparison.holds(delivered, self.objective.bound)
            }
        })
    }

    /// How many observations of a sample lie beyond the bound or never came, of how many; `None` where nothing was owed.
    pub fn beyond(&self, sample: usize) -> Option<(u64, u64)> {
        let seen = self.record.samples.get(sample)?.as_ref()?;
        let owed = self.owed.get(sample).copied().unwrap_or(0);
        let (beyond, n) = match self.objective.subject {
            Subject::Quantile(metric, _) => {
                let times = seen.histograms.get(&metric);
                let count = times.map_or(0, Histogram::count);
                let bound = Nanos::from_secs_f64(self.objective.bound.clamp(0.0, 1e6));
                let beyond = times.map_or(0, |times| times.count_above(bound)) + owed.saturating_sub(count);
                (beyond, owed.max(count))
            }
            _ => (owed.saturating_sub(seen.counts.delivered), owed),
        };
        (n > 0).then_some((beyond, n))
    }

    /// The share of observations that may lie beyond the bound.
    pub fn allowed(&self) -> f64 {
        match self.objective.subject {
            Subject::Quantile(_, q) => 1.0 - q,
            _ => (1.0 - self.objective.bound).clamp(0.0, 1.0),
        }
    }
}

/// How many of so many messages may lie beyond a bound of which an objective says that the quantile `q` is below it.
fn most_beyond(n: u64, q: f64) -> u64 {
    let expected = n as f64 * (1.0 - q);
    (expected + ERRORS * (expected * q).sqrt() + 1.0).floor() as u64
}

/// The first of so many samples in a row that meet the objectives; those in which nothing was due are passed over.
pub(crate) fn first_of_row(samples: Range<usize>, meets: impl Fn(usize) -> Option<bool>) -> Option<usize> {
    let (mut begin, mut row) = (None, 0);
    for sample in samples {
        match meets(sample) {
            Some(true) => {
                begin = begin.or(Some(sample));
                row += 1;
                if row == IN_A_ROW {
                    return begin;
                }
            }
            Some(false) => (begin, row) = (None, 0),
            None => {}
        }
    }
    None
}
