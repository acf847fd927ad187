//! What a capture adds to blame: which component of the platform it was.

use crate::dissection::{DissectionSummary, OURSELVES, PhaseSummary, StallSummary, TimesSummary};
use crate::level;
use crate::usage;
use plimsoll_model::record::{ComponentUsage, LevelStart};
use std::ops::Range;

/// The part of what was lost or refused that one component must have lost or refused first.
const MOST: f64 = 0.9;
/// The part of all stays that messages must have had in one component.
const STAYED: f64 = 0.6;
/// The same where that component alone stood still for a while.
const STAYED_IN_STALL: f64 = 0.5;
/// The part of the times that the objective looks at which the same ones of its stays must make.
const OF_TIMES: f64 = 0.5;
/// The quantile from which on an objective is about the slowest.
const SLOW: f64 = 0.9;
/// The part of the hold from which on a component waited so often for others that its messages may have waited for them, too.
const ASKS: f64 = 0.3;
/// The part of the hold from which on it waited so long for a processor that others may have kept it from its work.
const STARVED: f64 = 0.3;

/// A capture, where one was taken and read, and the level that it is asked about.
pub(super) struct Captured<'a> {
    summary: Option<&'a DissectionSummary>,
    start: &'a LevelStart,
    components: &'a [ComponentUsage],
}

/// Which of many times an objective looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Their mean.
    Mean,
    /// Those of the most.
    Usual,
    /// Those of the slowest.
    Slowest,
}

impl Which {
    /// Those of a quantile.
    pub fn of(q: f64) -> Which {
        if q < SLOW { Which::Usual } else { Which::Slowest }
    }

    fn among(self, times: &TimesSummary) -> Option<f64> {
        match self {
            Which::Mean => times.mean,
            Which::Usual => times.p50,
            Which::Slowest => times.p99,
        }
    }
}

/// A component that was it.
#[derive(Debug, PartialEq)]
pub(super) struct Named {
    /// Its name.
    pub component: String,
    /// What it did, as a predicate: `lost 139 of 3209 deliveries`.
    pub did: String,
    /// What shows that it was it.
    pub evidence: String,
}

impl Named {
    /// One of whom no more is to be shown than what it did.
    pub fn who(component: &str, did: &str) -> Named {
        Named { component: component.to_owned(), did: did.to_owned(), evidence: format!("{component} {did}") }
    }
}

impl<'a> Captured<'a> {
    pub fn new(
        summary: Option<&'a DissectionSummary>,
        start: &'a LevelStart,
        components: &'a [ComponentUsage],
    ) -> Captured<'a> {
        Captured { summary, start, components }
    }

    /// The capture, if it has all that was said: what is missing could have told something else.
    fn whole(&self) -> Option<&DissectionSummary> {
        self.summary.filter(|summary| summary.missing_bytes == 0 && summary.evicted == 0)
    }

    /// Who alone stood still between two times of the run, in seconds.
    pub fn who_stood_still(&self, span: &Range<f64>) -> Option<Named> {
        let stalls = &self.summary?.stalls;
        let within = |stall: &&StallSummary| {
            let both = stall.to.min(span.end) - stall.from.max(span.start);
            // One that was shorter than half of the silence does not explain it.
            2.0 * both > span.end - span.start
        };
        let mut found = stalls.iter().filter(within);
        let stall = found.next()?;
        let other = found.any(|other| other.component != stall.component);
        let component = stall.component.clone().filter(|name| !other && name != OURSELVES)?;
        let evidence = format!("on the wire {}", stall.told());
        let did = format!("answered nothing for {:.1} s", stall.to - stall.from);
        Some(Named { component, did, evidence })
    }

    /// The first stall of the level's hold, where all of them are one component's.
    fn who_alone_stood_still(&self) -> Option<&StallSummary> {
        let hold = usage::hold(self.start);
        let mut within =
            self.whole()?.stalls.iter().filter(|stall| stall.from < hold.end && stall.to > hold.start);
        let first = within.next()?;
        within.all(|other| other.component == first.component).then_some(first)
    }

    /// Who answered first with the errors that became so many refusals in the whole run.
    pub fn who_failed(&self, refused: u64) -> Option<Named> {
        let errors = &self.whole()?.errors;
        let all: u64 = errors.iter().map(|error| error.count).sum();
        let most = errors.first()?;
        let enough = most.count as f64 >= MOST * refused.max(all) as f64;
        let component = most.component.clone().filter(|name| enough && name != OURSELVES)?;
        Some(Named { component, did: most.did(), evidence: most.told() })
    }

    /// Who had the messages last that the level lost.
    pub fn who_lost(&self, lost: u64, of: u64) -> Option<Named> {
        let hops = &self.phase()?.traces.residences;
        let all: u64 = hops.iter().map(|hop| hop.lost).sum();
        let most = hops.iter().max_by_key(|hop| hop.lost)?;
        let enough = most.lost as f64 >= MOST * lost.max(all) as f64 && most.lost > 0;
        (enough && self.is_watched(&most.component)).then(|| {
            let did = format!("lost {} of {of} deliveries", most.lost);
            let evidence = format!("{} of them were last seen at {}", most.lost, most.component);
            Named { component: most.component.clone(), did, evidence }
        })
    }

    /// In whom messages stayed for most of their way, without that it waited for another component or for a processor. Who
    /// stood still alone waited for nobody. Its stays make up the times that were too long, and not others: jitter of a few
    /// messages elsewhere excuses nobody who keeps all of them.
    pub fn who_kept_them(&self, which: Which) -> Option<Named> {
        let traces = &self.phase()?.traces;
        let hop = traces.residences.iter().max_by(|one, other| one.share.total_cmp(&other.share))?;
        let all = which.among(&traces.total)?;
        let waited =
            usage::share(self.components, &hop.component, &usage::hold(self.start), |usage| usage.run_delay);
        let still =
            self.who_alone_stood_still().filter(|stall| stall.component.as_ref() == Some(&hop.component));
        // Behind one that stood still messages queue in others, too.
        let most = if still.is_some() { STAYED_IN_STALL } else { STAYED };
        let is_it = hop.share >= most
            && which.among(&hop.times).is_some_and(|stay| stay >= OF_TIMES * all)
            && (still.is_some() || hop.asks.is_some_and(|asks| asks < ASKS))
            && waited.is_some_and(|waited| waited < STARVED)
            && self.is_watched(&hop.component);
        is_it.then(|| {
            let share = hop.share * 100.0;
            let stayed = format!("messages stayed in {} for {share:.0} % of their way", hop.component);
            let still = still.map(|stall| format!("; on the wire {}", stall.told())).unwrap_or_default();
            let did = format!("kept messages for {share:.0} % of their way");
            Named { component: hop.component.clone(), did, evidence: stayed + &still }
        })
    }

    /// The level's hold.
    fn phase(&self) -> Option<&PhaseSummary> {
        // Earlier versions wrote numbers without commas.
        let plain = |name: &str| name.replace(',', "");
        let name = plain(&level::phase(self.start));
        self.whole()?.phases.iter().find(|phase| phase.measured && plain(&phase.name) == name)
    }

    /// Whether that is one of the platform's processes, and not whatever answers at an address.
    fn is_watched(&self, name: &str) -> bool {
        name != OURSELVES && self.components.iter().any(|usage| usage.component == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dissection::{ErrorSummary, ResidenceSummary, TimesSummary, TraceSummary};
    use plimsoll_model::{Load, Nanos};

    fn start() -> LevelStart {
        LevelStart {
            load: Load::Rate(40.0),
            hold_start: Nanos::from_secs(2),
            hold: Nanos::from_secs(8),
            samples: 8,
            ..LevelStart::default()
        }
    }

    fn usages(waited: i64) -> Vec<ComponentUsage> {
        let usage = |name: &str, second: i64| ComponentUsage {
            component: name.into(),
            at: Nanos::from_secs(second),
            window: Nanos::from_secs(1),
            run_delay: Some(Nanos::from_millis(waited)),
            ..ComponentUsage::default()
        };
        ["front", "store"].iter().flat_map(|name| (3..11).map(|second| usage(name, second))).collect()
    }

    fn hop(component: &str, share: f64, asks: f64, lost: u64) -> ResidenceSummary {
        let times = TimesSummary { p99: Some(share), ..TimesSummary::default() };
        ResidenceSummary { component: component.into(), times, share, asks: Some(asks), lost, present: None }
    }

    fn summary(hops: Vec<ResidenceSummary>) -> DissectionSummary {
        let total = TimesSummary { p99: Some(1.0), ..TimesSummary::default() };
        let traces = TraceSummary { messages: 300, total, residences: hops, ..TraceSummary::default() };
        let phase =
            PhaseSummary { name: level::phase(&start()), measured: true, traces, ..PhaseSummary::default() };
        DissectionSummary { phases: vec![phase], ..DissectionSummary::default() }
    }

    fn ask<T>(summary: &DissectionSummary, waited: i64, question: impl Fn(&Captured<'_>) -> T) -> T {
        let (start, components) = (start(), usages(waited));
        question(&Captured::new(Some(summary), &start, &components))
    }

    #[test]
    fn who_stood_still_meanwhile_is_named_if_it_was_alone() {
        let stall = |from: f64, to: f64, name: Option<&str>| StallSummary {
            from,
            to,
            component: name.map(str::to_owned),
            waiting: Vec::new(),
        };
        let named = |stalls: Vec<StallSummary>| {
            let summary = DissectionSummary { stalls, ..DissectionSummary::default() };
            ask(&summary, 0, |captured| captured.who_stood_still(&(4.0..6.0)).map(|named| named.component))
        };
        assert_eq!(named(vec![stall(3.9, 6.1, Some("store"))]).as_deref(), Some("store"));
        assert_eq!(named(vec![stall(3.9, 6.1, Some("store")), stall(4.2, 5.9, None)]), None);
        assert_eq!(named(vec![stall(3.9, 6.1, None)]), None);
        assert_eq!(named(vec![stall(3.9, 6.1, Some(OURSELVES))]), None);
        assert_eq!(named(vec![stall(5.8, 9.0, Some("store"))]), None, "another time");
        assert_eq!(named(Vec::new()), None);
    }

    #[test]
    fn who_refused_first_is_named_for_nearly_all_of_it_and_not_for_less() {
        let error = |name: &str, count: u64| ErrorSummary {
            component: Some(name.into()),
            status: Some("503".into()),
            count,
            ..ErrorSummary::default()
        };
        let named = |errors: Vec<ErrorSummary>, missing_bytes| {
            let summary = DissectionSummary { errors, missing_bytes, ..DissectionSummary::default() };
            ask(&summary, 0, |captured| captured.who_failed(100).map(|named| named.component))
        };
        assert_eq!(named(vec![error("front", 98)], 0).as_deref(), Some("front"));
        assert_eq!(named(vec![error("front", 98)], 1), None, "the capture has a hole");
        assert_eq!(named(vec![error("front", 60)], 0), None);
        assert_eq!(named(vec![error("front", 98), error("store", 30)], 0), None);
    }

    #[test]
    fn who_lost_nearly_all_is_named() {
        let named = |hops| {
            ask(&summary(hops), 0, |captured| captured.who_lost(100, 3000).map(|named| named.component))
        };
        assert_eq!(named(vec![hop("front", 0.5, 0.0, 97)]).as_deref(), Some("front"));
        assert_eq!(named(vec![hop("front", 0.5, 0.0, 60), hop("store", 0.5, 0.0, 40)]), None);
        assert_eq!(named(vec![hop("front or behind it", 0.0, 0.0, 100)]), None);
        assert_eq!(named(vec![hop("front", 0.5, 0.0, 50)]), None, "half of it was never seen");
    }

    #[test]
    fn whose_messages_wait_is_named_unless_it_waits_itself() {
        let named = |share, asks, waited| {
            let summary = summary(vec![hop("front", share, asks, 0), hop("store", 1.0 - share, 0.0, 0)]);
            ask(&summary, waited, |captured| {
                captured.who_kept_them(Which::Slowest).map(|named| named.component)
            })
        };
        assert_eq!(named(0.8, 0.05, 10).as_deref(), Some("front"));
        assert_eq!(named(0.8, 0.95, 10), None, "it waits for the store");
        assert_eq!(named(0.8, 0.05, 700), None, "it had no processor");
        assert_eq!(named(0.55, 0.05, 10), None, "so does the other one");
    }

    #[test]
    fn a_few_slow_messages_elsewhere_do_not_excuse_who_keeps_all_of_them() {
        let times = |p50, p99| TimesSummary {
            mean: Some(p50),
            p50: Some(p50),
            p99: Some(p99),
            ..TimesSummary::default()
        };
        let mut summary = summary(vec![hop("front", 0.2, 0.0, 0), hop("store", 0.8, 0.0, 0)]);
        let traces = &mut summary.phases[0].traces;
        traces.total = times(25.0, 55.0);
        (traces.residences[0].times, traces.residences[1].times) = (times(2.0, 30.0), times(20.0, 24.0));
        let named =
            |which| ask(&summary, 10, |captured| captured.who_kept_them(which).map(|named| named.component));
        assert_eq!(named(Which::of(0.5)).as_deref(), Some("store"));
        assert_eq!(named(Which::Mean).as_deref(), Some("store"));
        assert_eq!(named(Which::of(0.99)), None, "the slowest were slow elsewhere");
    }

    #[test]
    fn who_alone_stood_still_needs_less_of_the_way_and_may_ask_others_as_often_as_it_likes() {
        let stall = |name: &str| StallSummary {
            from: 4.0,
            to: 5.0,
            component: Some(name.to_owned()),
            waiting: Vec::new(),
        };
        let named = |stalls: Vec<StallSummary>| {
            let mut summary = summary(vec![hop("front", 0.55, 0.95, 0), hop("store", 0.45, 0.0, 0)]);
            summary.stalls = stalls;
            ask(&summary, 10, |captured| captured.who_kept_them(Which::Slowest))
        };
        let Named { component, did, evidence } = named(vec![stall("front")]).unwrap();
        assert_eq!((component.as_str(), did.as_str()), ("front", "kept messages for 55 % of their way"));
        assert!(
            evidence.contains("55 % of their way; on the wire from 4.0 s to 5.0 s front answered nothing"),
            "{evidence}"
        );
        assert_eq!(named(vec![stall("store")]), None);
        assert_eq!(named(vec![stall("front"), stall("store")]), None);
        assert_eq!(named(Vec::new()), None);
    }
}
