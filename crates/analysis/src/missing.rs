//! Times of messages that never came to their end: longer than any bound. A quantile objective looks at all that was due,
//! so each missing one takes a place behind the longest time that was seen, in the sample in which it was due.

use crate::summary::TimeSummary;
use plimsoll_model::metric::Owed;
use plimsoll_model::objective::Subject;
use plimsoll_model::record::{LevelRecord, SampleRecord, Terms};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use std::collections::BTreeMap;

/// Stands for a time without an end: a histogram tells no longer ones apart.
pub const NEVER: Nanos = Nanos::from_secs(3600);

/// The times that quantile objectives look at and of which some are missing, the missing ones counted as [`NEVER`].
pub fn with_missing(record: &LevelRecord, terms: &Terms) -> BTreeMap<Metric, TimeSummary> {
    let metrics = terms.objectives.level.iter().filter_map(|objective| match objective.subject {
        Subject::Quantile(metric, _) => Some(metric),
        _ => None,
    });
    metrics.filter_map(|metric| Some((metric, completed(record, metric)?))).collect()
}

/// `None` where nothing is missing.
fn completed(record: &LevelRecord, metric: Metric) -> Option<TimeSummary> {
    if metric == Metric::ConnectTime {
        return connecting(record);
    }
    let samples: Vec<&SampleRecord> = record.samples.iter().flatten().collect();
    let (expected, sent) = samples.iter().fold((0, 0), |(expected, sent), sample| {
        (expected + sample.counts.expected_deliveries, sent + sample.counts.sent)
    });
    // What was not sent would have had as many receivers on average as what was, of which each sample knows its own.
    let receivers = expected as f64 / sent.max(1) as f64;
    let owed = |counts: &Counts| match metric.row().owed {
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
    let mut any = false;
    let whole: Vec<Histogram> = samples
        .iter()
        .map(|sample| {
            let mut times = sample.histograms.get(&metric).cloned().unwrap_or_else(Histogram::packed);
            let missing = owed(&sample.counts).saturating_sub(times.count());
            times.record_n(NEVER, missing);
            any |= missing > 0;
            times
        })
        .collect();
    any.then(|| TimeSummary::of(&whole.iter().collect::<Vec<_>>(), false))
}

/// Devices that a level began to connect and that were not connected when it ended.
fn connecting(record: &LevelRecord) -> Option<TimeSummary> {
    let missing = record.start.devices?.saturating_sub(record.end.as_ref()?.connected);
    let mut all = Histogram::new();
    let samples = record.samples.iter().flatten().chain([&record.warm_up]);
    samples
        .filter_map(|sample| sample.histograms.get(&Metric::ConnectTime))
        .for_each(|times| all.merge(times));
    all.record_n(NEVER, missing.into());
    (missing > 0).then(|| TimeSummary::of_independent(&all))
}
