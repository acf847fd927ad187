//! A stretch of a hold, from one sample to another: its ledger by due time, and what its objectives say.

use crate::level::LevelVerdict;
use crate::measured;
use plimsoll_model::record::{LevelEnd, LevelRecord, LevelStart, Terms};
use plimsoll_model::{Counts, Load, Metric, Nanos};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::Range;

/// The samples of a hold around a fault.
pub(super) struct Phases {
    /// Those that ended before it began.
    pub before: Range<usize>,
    /// Those in which it was there.
    pub during: Range<usize>,
    /// Those up to the next fault, or to the end of the hold.
    pub rest: Range<usize>,
}

impl Phases {
    /// Of a fault between two times of the hold; what is before begins with that sample, and the rest ends before that one.
    pub fn of(record: &LevelRecord, begin: usize, (from, to): (Nanos, Nanos), until: usize) -> Phases {
        let at = |time| super::sample_at(record, time).min(until);
        let first = at(from).max(begin);
        // A fault has a moment at least.
        let last = (at(Nanos((to.0 - 1).max(from.0))) + 1).clamp(first, until);
        Phases { before: begin..first, during: first..last, rest: last..until }
    }
}

/// A stretch of a hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PhaseSummary {
    /// When it begins and ends, in seconds from the beginning of the hold.
    pub span: [f64; 2],
    /// Its samples.
    pub samples: usize,
    /// Messages due in it.
    pub due: u64,
    /// Of them, those that were handed to the kernel.
    pub sent: u64,
    /// Of them, those that were not sent when the drain ended.
    pub unsent: u64,
    /// One per sent message and matching subscriber.
    pub expected_deliveries: u64,
    /// Expected deliveries that came before the drain ended.
    pub delivered: u64,
    /// Expected deliveries that came after it.
    pub late: u64,
    /// Expected deliveries replaced by newer ones as the delivery contract allows.
    pub superseded: u64,
    /// Expected deliveries that never came.
    pub lost: u64,
    /// Deliveries beyond the first of a message to a subscriber.
    pub duplicated: u64,
    /// First deliveries behind a newer message of the same device.
    pub reordered: u64,
    /// Messages that the platform refused.
    pub refused: u64,
    /// Messages sent again in its time, each time counted.
    pub repeated: u64,
    /// Acknowledgements in its time of messages that were at their end already.
    pub acknowledged_again: u64,
    /// Connections lost in its time.
    pub disconnected: u64,
    /// Operations completed in its time, per second.
    pub achieved: Option<f64>,
    /// 99 % quantile of the publish time, in seconds; null with too few observations.
    pub publish_p99: Option<f64>,
    /// 99 % quantile of the subscribe time, in seconds; null with too few observations.
    pub subscribe_p99: Option<f64>,
    /// What the objectives say of it as if it were a level.
    pub verdict: LevelVerdict,
    /// Why it is not met.
    pub reasons: Vec<String>,
}

impl PhaseSummary {
    /// Those samples of a level.
    pub(super) fn of(record: &LevelRecord, terms: &Terms, samples: Range<usize>) -> PhaseSummary {
        let begin = record.start.sample_begin(samples.start);
        let end = record.start.sample_begin(samples.end);
        let own = cut_out(record, &samples);
        let mut counts = Counts::default();
        own.samples.iter().flatten().for_each(|sample| counts += sample.counts);
        if samples.is_empty() {
            let span = super::seconds((begin, end));
            return PhaseSummary { span, verdict: LevelVerdict::Undecided, ..PhaseSummary::default() };
        }
        let level = measured::summarize(&own, terms, &[]);
        PhaseSummary {
            span: super::seconds((begin, end)),
            samples: samples.len(),
            due: counts.due,
            sent: counts.sent,
            unsent: counts.unsent,
            expected_deliveries: counts.expected_deliveries,
            delivered: counts.delivered,
            late: counts.late,
            superseded: counts.superseded,
            lost: counts.lost(),
            duplicated: counts.duplicated,
            reordered: counts.reordered,
            refused: counts.refused,
            repeated: counts.repeated,
            acknowledged_again: counts.acknowledged_again,
            disconnected: counts.disconnected,
            achieved: level.achieved,
            publish_p99: level.times[Metric::PublishTime].p99,
            subscribe_p99: level.times[Metric::SubscribeTime].p99,
            verdict: level.verdict,
            reasons: level.reasons,
        }
    }
}

/// What was offered between two times of the hold.
fn own_load(start: &LevelStart, (from, to): (Nanos, Nanos)) -> Load {
    start.curve.as_ref().map_or(start.load, |curve| Load::Rate(curve.mean_between(from, to)))
}

/// Those samples as a level of its own.
fn cut_out(record: &LevelRecord, samples: &Range<usize>) -> LevelRecord {
    let at = |sample: usize| record.start.sample_begin(sample);
    let hold = at(samples.end) - at(samples.start);
    let hold_start = record.start.hold_start + at(samples.start);
    let start = LevelStart {
        hold,
        hold_start,
        samples: u16::try_from(samples.len()).unwrap_or(u16::MAX),
        faults: Vec::new(),
        curve: None,
        load: own_load(&record.start, (at(samples.start), at(samples.end))),
        ..record.start.clone()
    };
    // What is known of the end of the whole is not said of a part.
    let end = record.end.as_ref().map(|end| LevelEnd {
        index: end.index,
        at: end.at.max(hold_start + hold),
        connected: end.connected,
        ..LevelEnd::default()
    });
    let within = |sample: u16| samples.contains(&usize::from(sample));
    let threads = record.threads.iter().filter(|usage| within(usage.sample)).copied();
    LevelRecord {
        start,
        end,
        samples: record.samples.get(samples.clone()).unwrap_or_default().to_vec(),
        threads: threads.collect(),
        populations: record.populations.iter().map(|own| cut_out(own, samples)).collect(),
        ..LevelRecord::default()
    }
}
