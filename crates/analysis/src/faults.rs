//! Planned faults of a level, and a spike of its load: from when to when each was there, what became of messages before, during and after it, and whether
//! the platform recovered.

mod phase;
mod recovery;

pub use phase::PhaseSummary;
pub use recovery::{Outcome, RecoverySummary};

use crate::level::{LevelSummary, LevelVerdict};
use crate::objective::Standing;
use phase::Phases;
use plimsoll_model::fault::FaultRecord;
use plimsoll_model::objective::Objective;
use plimsoll_model::record::{LevelRecord, Terms};
use plimsoll_model::text::grouped;
use plimsoll_model::{LoadCurve, Nanos};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::Range;

/// A planned fault, or a spike of the load, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FaultSummary {
    /// What went wrong, as the scenario calls it; `spike` of a spike of the load.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub kind: &'static str,
    /// The component that had the fault, or to which the way leads; `load` of a spike.
    pub component: String,
    /// What happened, for people.
    pub what: String,
    /// From when to when it was planned, in seconds from the beginning of the hold.
    pub planned: [f64; 2],
    /// From when to when it was there in fact; null where it was not there.
    pub actual: Option<[f64; 2]>,
    /// By which means, for people.
    pub means: String,
    /// Why it could not be done as planned, for people; null where it was.
    pub failed: Option<String>,
    /// Whether and when the platform met its objectives again.
    pub recovery: RecoverySummary,
    /// The samples before it: since the hold began, or since the recovery from the fault before.
    pub before: PhaseSummary,
    /// The samples in which it was there.
    pub during: PhaseSummary,
    /// The samples after it in which the platform had not recovered; null where there were none.
    pub recovering: Option<PhaseSummary>,
    /// The samples from the recovery on, up to the next fault; null where there were none.
    pub after: Option<PhaseSummary>,
}

/// The planned faults of a level, in the order of time, or its spike.
pub fn of(record: &LevelRecord, terms: &Terms) -> Vec<FaultSummary> {
    let Some(level_end) = &record.end else { return Vec::new() };
    if let Some(curve) = &record.start.curve
        && let Some(span) = curve.spike()
    {
        return vec![spike(record, terms, curve, span)];
    }
    let done = level_end.faults.iter().chain(std::iter::repeat(&UNKNOWN));
    let mut all = Vec::new();
    let mut begin = 0;
    for (place, (planned, done)) in record.start.faults.iter().zip(done).enumerate() {
        let next = record.start.faults.get(place + 1);
        let until = next.map_or(record.samples.len(), |next| sample_at(record, next.at));
        let span = done
            .span()
            .map(|(began, ended)| (began - record.start.hold_start, ended - record.start.hold_start));
        let around = Around::of(record, terms, begin..until, span, (planned.at, planned.end()));
        begin = around.next;
        all.push(FaultSummary {
            kind: planned.kind.name(),
            component: planned.component.clone(),
            what: planned.to_string(),
            planned: seconds((planned.at, planned.end())),
            actual: span.map(seconds),
            means: done.means.clone(),
            failed: done.failed.clone().or_else(|| span.is_none().then(|| UNTOLD.to_owned())),
            recovery: around.recovery,
            before: around.before,
            during: around.during,
            recovering: around.recovering,
            after: around.after,
        });
    }
    all
}

/// A spike of the load, from which the platform has to recover as from a fault.
fn spike(record: &LevelRecord, terms: &Terms, curve: &LoadCurve, span: (Nanos, Nanos)) -> FaultSummary {
    let around = Around::of(record, terms, 0..record.samples.len(), Some(span), span);
    let [usual, high] = [curve.first(), curve.highest()].map(grouped);
    FaultSummary {
        kind: "spike",
        component: "load".to_owned(),
        what: format!("a spike of {high}/s instead of {usual}/s"),
        planned: seconds(span),
        actual: Some(seconds(span)),
        means: String::new(),
        failed: None,
        recovery: around.recovery,
        before: around.before,
        during: around.during,
        recovering: around.recovering,
        after: around.after,
    }
}

/// What came before a disturbance, with it and after it.
struct Around {
    recovery: RecoverySummary,
    before: PhaseSummary,
    during: PhaseSummary,
    recovering: Option<PhaseSummary>,
    after: Option<PhaseSummary>,
    /// The first sample that is before the next one.
    next: usize,
}

impl Around {
    /// Among those samples, of a disturbance that was there from when to when, or was planned to be.
    fn of(
        record: &LevelRecord,
        terms: &Terms,
        samples: Range<usize>,
        span: Option<(Nanos, Nanos)>,
        planned: (Nanos, Nanos),
    ) -> Around {
        let until = samples.end;
        let phases = Phases::of(record, samples.start, span.unwrap_or(planned), until);
        let (recovery, recovered) = recovery::of(record, terms, &phases, span);
        let of = |range: Range<usize>| PhaseSummary::of(record, terms, range);
        let end = phases.during.end;
        // Where nobody can say, nothing is said to be recovering either.
        let is_known = recovery.outcome != Outcome::Unknown;
        let recovered_at = recovered.unwrap_or(if is_known { until } else { end }).max(end);
        Around {
            recovery,
            before: of(phases.before.clone()),
            during: of(phases.during.clone()),
            recovering: Some(end..recovered_at).filter(|range| !range.is_empty()).map(of),
            after: Some(recovered_at..until).filter(|range| !range.is_empty()).map(of),
            // What follows from a platform that had not recovered, its own samples say.
            next: recovered.unwrap_or(end).max(end),
        }
    }
}

/// Of a fault of which nobody has told.
static UNKNOWN: FaultRecord = FaultRecord { began: None, ended: None, means: String::new(), failed: None };

/// The same for people.
const UNTOLD: &str = "nobody has reported that it happened";

/// The sample in which a time of the hold lies.
fn sample_at(record: &LevelRecord, at: Nanos) -> usize {
    let samples = record.samples.len();
    (0..samples).find(|sample| record.start.sample_begin(sample + 1) > at).unwrap_or(samples)
}

fn seconds((from, to): (Nanos, Nanos)) -> [f64; 2] {
    [from.as_secs_f64(), to.as_secs_f64()]
}

impl FaultSummary {
    /// In a line, for people: what happened, and whether the platform recovered.
    pub fn in_words(&self) -> String {
        let Some([from, to]) = self.actual else {
            return format!("{}: not done: {}", self.what, self.failed.as_deref().unwrap_or(UNTOLD));
        };
        format!("{} from {from:.2} s to {to:.2} s: {}", self.what, self.recovery.in_words())
    }

    /// Whether the platform met its objectives apart from it: none was missed before it, nor after the recovery from it.
    pub fn alone_missed(&self) -> bool {
        let is_fine = |phase: &PhaseSummary| phase.verdict != LevelVerdict::Missed;
        let recovered = matches!(self.recovery.outcome, Outcome::Recovered | Outcome::Undisturbed);
        recovered && is_fine(&self.before) && self.after.as_ref().is_some_and(is_fine)
    }
}

/// Takes back what a level that is invalid cannot say of recovery.
pub(crate) fn judge_validity(level: &mut LevelSummary) {
    if level.verdict == LevelVerdict::Invalid {
        level.faults.iter_mut().for_each(|fault| fault.recovery.in_invalid());
    }
}

/// The longest recovery from the faults of a level, in seconds; `None` where there was none, or not from all of them.
pub fn longest_recovery(level: &LevelSummary) -> Option<f64> {
    let all: Option<Vec<f64>> = level.faults.iter().map(|fault| fault.recovery.from_end).collect();
    all?.into_iter().reduce(f64::max)
}

/// Judges an objective on recovery. A level without faults meets it; one that did not recover misses it.
pub(crate) fn judge(objective: &Objective, level: &LevelSummary) -> Standing {
    let mut open = None;
    for fault in &level.faults {
        let told = || format!("{objective}: {}", fault.in_words());
        match (fault.recovery.outcome, fault.recovery.from_end) {
            (_, Some(took)) if objective.comparison.holds(took, objective.bound) => {}
            (_, Some(took)) => {
                let took = objective.subject.show(took);
                return Standing::Missed(format!(
                    "{} {took} (objective {objective}): {}",
                    objective.key(),
                    fault.what
                ));
            }
            (Outcome::NotRecovered | Outcome::Metastable, None) => return Standing::Missed(told()),
            (_, None) => open = open.or_else(|| Some(told())),
        }
    }
    open.map_or(Standing::Met, Standing::Undecided)
}

#[cfg(test)]
mod tests;
