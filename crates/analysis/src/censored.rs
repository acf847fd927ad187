//! Times of messages that never came to their end: longer than any bound. A quantile objective looks at all that was due,
//! so each missing one takes a place behind the longest time that was seen, in the sample in which it was due.

use crate::time_summary::TimeSummary;
use plimsoll_model::metric::Owed;
use plimsoll_model::objective::Subject;
use plimsoll_model::record::{LevelRecord, Terms};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use std::collections::BTreeMap;

/// Stands for a time without an end: a histogram tells no longer ones apart.
pub const NEVER: Nanos = Nanos::from_secs(3600);

/// The times that quantile objectives look at and of which some are missing, the missing ones counted as [`NEVER`].
pub fn with_censored(record: &LevelRecord, terms: &Terms) -> BTreeMap<Metric, TimeSummary> {
    let metrics = terms.objectives.level.iter().filter_map(|objective| match objective.subject {
        Subject::Quantile(metric, _) => Some(metric),
        _ => None,
    });
    metrics.filter_map(|metric| Some((metric, completed(record, terms, metric)?))).collect()
}

/// `None` where nothing is missing.
fn completed(record: &LevelRecord, terms: &Terms, metric: Metric) -> Option<TimeSummary> {
    if metric == Metric::ConnectTime {
        return connecting(record);
    }
    let owed = owed_of_all(record, terms, metric);
    let samples = record.samples.iter().zip(owed).filter_map(|(sample, owed)| Some((sample.as_ref()?, owed)));
    let mut any = false;
    let whole: Vec<Histogram> = samples
        .map(|(sample, owed)| {
            let mut times = sample.histograms.get(&metric).cloned().unwrap_or_else(Histogram::packed);
            let missing = owed.saturating_sub(times.count());
            times.record_n(NEVER, missing);
            any |= missing > 0;
            times
        })
        .collect();
    any.then(|| TimeSummary::of(&whole.iter().collect::<Vec<_>>(), false))
}

/// Observations that each sample owes: of several populations the sum of what each owes, for of some nothing is acknowledged, and
/// their messages have different numbers of receivers.
pub(crate) fn owed_of_all(record: &LevelRecord, terms: &Terms, metric: Metric) -> Vec<u64> {
    if record.populations.is_empty() {
        return owed(record, terms, metric);
    }
    let mut sums = vec![0_u64; record.samples.len()];
    for (own, of) in record.populations.iter().zip(&terms.populations) {
        for (sum, owed) in sums.iter_mut().zip(owed(own, &of.terms, metric)) {
            *sum += owed;
        }
    }
    sums
}

/// The same of one population, nothing of a sample that was not taken.
fn owed(record: &LevelRecord, terms: &Terms, metric: Metric) -> Vec<u64> {
    let (expected, sent) = record.samples.iter().flatten().fold((0, 0), |(expected, sent), sample| {
        (expected + sample.counts.expected_deliveries, sent + sample.counts.sent)
    });
    // What was not sent would have had as many receivers on average as what was, of which each sample knows its own.
    let receivers = expected as f64 / sent.max(1) as f64;
    let of = |counts: &Counts| match metric.row().owed {
        Owed::Due | Owed::Sent if !terms.acknowledges() => 0,
        Owed::Due => counts.due,
        Owed::Sent => counts.sent,
        Owed::DeliveriesOfDue => {
            let unsent = counts.due.saturating_sub(counts.sent);
            let expected = counts.expected_deliveries + (unsent as f64 * receivers).round() as u64;
            expected.saturating_sub(counts.superseded)
        }
        Owed::DeliveriesOfSent => counts.expected_deliveries.saturating_sub(counts.superseded),
        Owed::Queries => counts.queries,
        Owed::Nothing => 0,
    };
    record.samples.iter().map(|sample| sample.as_ref().map_or(0, |sample| of(&sample.counts))).collect()
}

/// Devices that a level began to connect and that were not connected when it ended.
fn connecting(record: &LevelRecord) -> Option<TimeSummary> {
    let missing = record.start.load.devices()?.saturating_sub(record.end.as_ref()?.connected);
    let mut all = Histogram::new();
    let samples = record.samples.iter().flatten().chain([&record.warm_up]);
    samples
        .filter_map(|sample| sample.histograms.get(&Metric::ConnectTime))
        .for_each(|times| all.merge(times));
    all.record_n(NEVER, missing.into());
    (missing > 0).then(|| TimeSummary::of_independent(&all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::objective::{Comparison, Objective, Objectives};
    use plimsoll_model::record::{LevelStart, PopulationTerms, SampleRecord};

    /// Of messages at QoS 0 no acknowledgement is missing, whatever other populations send.
    #[test]
    fn nothing_is_missing_of_a_population_that_is_not_acknowledged() {
        let sample = |due: u64, acknowledged: u64| {
            let mut times = Histogram::new();
            times.record_n(Nanos::from_millis(1), acknowledged);
            let counts = Counts { due, sent: due, ..Counts::default() };
            Some(SampleRecord { counts, histograms: [(Metric::PublishTime, times)].into() })
        };
        let level = |due, acknowledged| LevelRecord {
            start: LevelStart { samples: 2, ..LevelStart::default() },
            samples: vec![sample(due, acknowledged); 2],
            ..LevelRecord::default()
        };
        let subject = Subject::Quantile(Metric::PublishTime, 0.5);
        let objective = Objective { population: None, subject, comparison: Comparison::Below, bound: 1.0 };
        let objectives = Objectives { level: vec![objective], load_line: None };
        let of =
            |qos| PopulationTerms { terms: Terms { qos, ..Terms::default() }, ..PopulationTerms::default() };
        let terms = Terms { qos: 1, objectives, populations: vec![of(1), of(0)], ..Terms::default() };
        let whole = |acknowledged| LevelRecord {
            populations: vec![level(10, acknowledged), level(90, 0)],
            ..level(100, acknowledged)
        };
        assert_eq!(with_censored(&whole(10), &terms).len(), 0, "all that could be acknowledged were");
        let missing = with_censored(&whole(8), &terms);
        assert_eq!(missing[&Metric::PublishTime].n, 20, "two of ten are missing in each sample");
        let alone = Terms { populations: Vec::new(), ..terms };
        assert_eq!(with_censored(&level(10, 8), &alone)[&Metric::PublishTime].n, 20);
    }
}
