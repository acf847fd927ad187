//! Who is to blame that a level was not met: one name, or nobody's. A name is given only where the others are excluded; else
//! it is unknown. Only what bears on the first objective that was missed counts.

mod at_limit;
mod captured;

use crate::censored::NEVER;
use crate::clear::may_be_unread;
use crate::dissection::DissectionSummary;
use crate::faults::{FaultSummary, Outcome};
use crate::inference::{SMALL, sent_again};
use crate::level::{Blame, Culprit, LevelSummary, LevelVerdict, PopulationLevel, PublishCause};
use crate::limits::LimitKind;
use crate::objective::Standing;
use crate::standing::standing;
use crate::usage;
use at_limit::at_limit;
use captured::{Captured, Named, Which};
use plimsoll_model::objective::{Objectives, Subject};
use plimsoll_model::record::{ComponentUsage, LevelRecord, LevelStart};
use plimsoll_model::text::grouped;
use plimsoll_model::{Metric, Nanos, Validity};
use std::ops::Range;

/// Of the network's round trips in a stall, the share from which on the network is not the reason, and the share up to which
/// it is: TCP waits twice as long after each loss, so that half of a silence may lie behind the end of a cut.
const ANSWERED: f64 = 0.85;
const SILENT: f64 = 0.65;

/// What a platform on this host lacks of which no process is known.
const UNNAMED: &str = "list the components under `platform.components` to learn which one it was";

/// What relays do to a verdict.
const RELAYED: &str =
    "the scenario's relays add the faults of a network, which look like those of the platform";

/// What planned faults do to a verdict.
const BESIDE_FAULTS: &str = "objectives were missed apart from the planned faults, too, or not met again after them; the same level \
                             without `faults` would show by whom";

impl Blame {
    /// No component in particular.
    fn on(culprit: Culprit, what: String) -> Blame {
        Blame { culprit, component: None, claim: what.clone(), evidence: what }
    }

    /// The same of a level in whose hold something went wrong on purpose: whatever it shows of the platform may come of that.
    pub(crate) fn beside_faults(self, level: &LevelSummary) -> Blame {
        let is_ours = matches!(self.culprit, Culprit::Generator | Culprit::Receiver | Culprit::Host);
        if level.faults.is_empty() || level.death.is_some() || is_ours {
            return self;
        }
        if level.faults.iter().all(FaultSummary::alone_missed) {
            let what: Vec<&str> = level.faults.iter().map(|fault| fault.what.as_str()).collect();
            let what = format!("as planned, {}", what.join("; "));
            let evidence = format!("{what}; before and after it, no objective was missed");
            return Blame { culprit: Culprit::PlannedFault, component: None, claim: what, evidence };
        }
        if let Some(fault) = level.faults.iter().find(|fault| fault.recovery.outcome == Outcome::Metastable) {
            let claim = format!("metastable failure after a planned fault: {}", fault.what);
            let evidence = format!("{claim}; {}", fault.recovery.why);
            return Blame { culprit: Culprit::Unknown, component: None, claim, evidence };
        }
        Blame::on(Culprit::Unknown, BESIDE_FAULTS.to_owned())
    }

    /// Of the component whose fault it is, where one is known.
    fn named(self, named: Option<Named>) -> Blame {
        let Some(Named { component, did, evidence }) = named else { return self };
        let (claim, evidence) = (format!("{component} {did}"), format!("{}; {evidence}", self.evidence));
        Blame { component: Some(component), claim, evidence, ..self }
    }
}

/// What of a component was at its limit in a level; `None` where it was not it, or not it alone.
pub(crate) fn kind_of(name: &str, components: &[ComponentUsage], start: &LevelStart) -> Option<LimitKind> {
    let found = at_limit(components, start).filter(|found| found.who.component == name)?;
    Some(if found.by_quota { LimitKind::Quota } else { LimitKind::Processor })
}

/// What blame rests on, beside the level's own summary.
pub struct Evidence<'a> {
    /// The level as it was recorded.
    pub record: &'a LevelRecord,
    /// Readings of the components.
    pub components: &'a [ComponentUsage],
    /// What was captured; `None` where nothing was.
    pub capture: Option<&'a DissectionSummary>,
    /// Messages that were refused in the whole run, of which the errors in the capture tell.
    pub refused: u64,
    /// Whether the platform's address is one of this host's.
    pub local: bool,
    /// Whether relays with the faults of a network stand before components.
    pub relayed: bool,
    /// Whether messages travel as datagrams, which a network may lose.
    pub datagrams: bool,
    /// How often a publish goes to the platform and back.
    pub trips: u32,
    /// What the level was to meet.
    pub objectives: &'a Objectives,
}

/// What the first objective that was missed looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// How much came to its end.
    Amount,
    /// How long messages took.
    Times(Which),
    /// Something that says nothing of messages, as connecting.
    Other,
}

/// Who is to blame for a level; `None` of one that was met or not finished.
pub fn of(level: &LevelSummary, evidence: &Evidence<'_>) -> Option<Blame> {
    let blame = who(level, evidence)?;
    let is_of_way =
        matches!(blame.culprit, Culprit::Platform | Culprit::Network | Culprit::PlatformAndNetwork);
    // A refusal is an answer, which no relay gives.
    let is_refused = is_many(level.refused, level.sent);
    if evidence.relayed && is_of_way && blame.component.is_none() && !is_refused {
        let evidence = format!("{}; {RELAYED}", blame.evidence);
        return Some(Blame { culprit: Culprit::Unknown, evidence, ..blame });
    }
    let is_of_a_whole = blame.culprit == Culprit::Platform && blame.component.is_none();
    // Processes can be watched only on this host.
    if is_of_a_whole && evidence.local && evidence.components.is_empty() {
        return Some(Blame { evidence: format!("{}; {UNNAMED}", blame.evidence), ..blame });
    }
    Some(blame)
}

fn who(level: &LevelSummary, evidence: &Evidence<'_>) -> Option<Blame> {
    let &Evidence { record, components, capture, refused, local, datagrams, .. } = evidence;
    let start = &record.start;
    let captured = Captured::new(capture, start, components);
    // What a relay adds is a wait like any other.
    let seen = |named: Option<Named>| named.filter(|_| !evidence.relayed);
    let first = || level.reasons.first().cloned().unwrap_or_default();
    if let Some(death) = &level.death {
        let (component, claim) = (Some(death.component.clone()), format!("{} died", death.component));
        let after = if evidence.relayed { format!("; {RELAYED}") } else { String::new() };
        let evidence = format!("{}{after}", first());
        return Some(Blame { culprit: Culprit::Platform, component, claim, evidence });
    }
    let at_once = match (level.verdict, level.validity) {
        (LevelVerdict::Met | LevelVerdict::Unfinished, _) => return None,
        (LevelVerdict::Invalid, Validity::Interrupted) => return None,
        (LevelVerdict::Undecided, _) | (LevelVerdict::Invalid, Validity::ClockBound) => {
            Some(Culprit::Unknown)
        }
        (LevelVerdict::Invalid, Validity::GeneratorBound) => Some(Culprit::Generator),
        (LevelVerdict::Invalid, Validity::ReceiverBound) => Some(Culprit::Receiver),
        (LevelVerdict::Invalid, Validity::HostBound) => Some(Culprit::Host),
        _ => None,
    };
    if let Some(culprit) = at_once {
        return Some(Blame::on(culprit, first()));
    }
    let platform = |what| Blame::on(Culprit::Platform, what);
    let (about, missed, population) = about(level, record, evidence.objectives);
    // What did not arrive is counted where it was demanded.
    let counted = population.map_or(level, |own| &own.figures);
    let of_it = |what: String| population.map_or(what.clone(), |own| format!("{}: {what}", own.name));
    // Other objectives may stand before it that were not decided, and so may what was refused.
    let gone = record.end.as_ref().is_some_and(|end| end.platform_gone);
    let missed = || missed.clone().filter(|_| !gone).unwrap_or_else(first);
    // What was acknowledged had arrived, whatever stood still.
    let taken = is_many(level.lost_acknowledged.unwrap_or(0), level.expected_deliveries) && !datagrams;
    if let Some(stall) = level.silence.filter(|_| !(about == About::Amount && taken)) {
        // All at once is no overload. What else could stand still is the network, which its own round trips tell.
        let span = [stall.from, stall.to].map(|time| (start.hold_start + time).as_secs_f64());
        let span = span[0]..span[1];
        let stopped = || stopped(components, &span).or_else(|| seen(captured.who_stood_still(&span)));
        let what = stall.in_words();
        return Some(match stall.network_answered {
            _ if local => platform(what).named(stopped()),
            Some(answered) if answered >= ANSWERED => platform(what).named(stopped()),
            Some(answered) if answered <= SILENT => Blame::on(Culprit::Network, what),
            _ => Blame::on(Culprit::Unknown, what),
        });
    }
    // Who is at its limit leaves something behind; else that it uses a whole processor may be chance.
    let grows = level.validity == Validity::Valid
        && (level.overload || level.achieved_ci95.is_some_and(|[_, most]| most < 1.0));
    let full = || at_limit(components, start).filter(|named| grows || named.by_quota).map(|named| named.who);
    if about == About::Amount {
        if is_many(counted.refused, counted.sent) {
            let what = format!("{} of {} messages were refused", count(counted.refused), count(counted.sent));
            return Some(platform(of_it(what)).named(captured.who_failed(refused)));
        }
        if let Some(loss) = lost(counted) {
            if loss.of_deliveries && may_be_unread(record) {
                let said = format!("{}: our subscribers read more slowly than messages came", loss.what);
                return Some(Blame::on(Culprit::Receiver, of_it(said)));
            }
            let lost = || seen(captured.who_lost(level.lost, level.expected_deliveries));
            let named = loss.of_deliveries.then(lost).flatten();
            return Some(match named.or_else(full) {
                None if datagrams && !local => Blame::on(Culprit::Unknown, of_it(loss.what)),
                named => platform(of_it(loss.what)).named(named),
            });
        }
    }
    let which = match about {
        About::Times(which) => which,
        About::Amount => Which::Slowest,
        About::Other => {
            let culprit = if local { Culprit::Platform } else { Culprit::Unknown };
            return Some(Blame::on(culprit, missed()));
        }
    };
    let because = level.inference.as_ref().map(|inference| inference.publish_because);
    let (culprit, is_inferred) = match because {
        Some(PublishCause::Network | PublishCause::Retransmissions) => (Culprit::Network, true),
        Some(PublishCause::Both) => (Culprit::PlatformAndNetwork, true),
        Some(PublishCause::Platform) => (Culprit::Platform, true),
        Some(PublishCause::Unknown | PublishCause::NoRise) | None => {
            // There is no network to a local address, and our own lateness was taken off.
            let excluded = local || grows && is_near(level, evidence.trips);
            (if excluded { Culprit::Platform } else { Culprit::Unknown }, false)
        }
    };
    let words = level.inference.as_ref().filter(|_| is_inferred).and_then(|inference| {
        inference.in_words(level, |seconds| Nanos::from_secs_f64(seconds).to_string()).into_iter().next()
    });
    let blame = Blame::on(culprit, missed());
    let blame = match words {
        Some(words) => Blame { evidence: format!("{}; {words}", blame.evidence), ..blame },
        None => blame,
    };
    let named = || seen(captured.who_kept_them(which)).or_else(full);
    Some(blame.named((culprit == Culprit::Platform).then(named).flatten()))
}

/// What the first missed objective looks at, and how it was missed; where none was missed for certain, the first that was not
/// met, and the population that this was demanded of.
fn about<'a>(
    level: &'a LevelSummary,
    record: &LevelRecord,
    objectives: &Objectives,
) -> (About, Option<String>, Option<&'a PopulationLevel>) {
    use Metric::{Freshness, PublishTime, PublishTimeFromSend, SubscribeTime, SubscribeTimeFromSend};
    let standings: Vec<_> = objectives.level.iter().map(|one| (one, standing(one, level, record))).collect();
    let missed = standings.iter().find(|(_, standing)| matches!(standing, Standing::Missed(_)));
    let first = missed.or_else(|| standings.iter().find(|(_, standing)| *standing != Standing::Met));
    let population = first.and_then(|(objective, _)| level.population_of(objective));
    let level = population.map_or(level, |own| &own.figures);
    let about = match first.map(|(objective, _)| objective.subject) {
        Some(Subject::Delivered | Subject::Achieved) => About::Amount,
        Some(Subject::Quantile(metric, q)) if never_ended(level, metric, q) => About::Amount,
        Some(Subject::Connected | Subject::FaultRecovery) => About::Other,
        Some(subject @ (Subject::Quantile(metric, _) | Subject::Mean(metric))) => match metric {
            PublishTime | PublishTimeFromSend | SubscribeTime | SubscribeTimeFromSend | Freshness => {
                About::Times(match subject {
                    Subject::Quantile(_, q) => Which::of(q),
                    _ => Which::Mean,
                })
            }
            _ => About::Other,
        },
        None => About::Times(Which::Slowest),
    };
    (about, first.and_then(|(_, standing)| standing.reason()), population)
}

/// Whether so much never came to its end that a quantile does not exist.
fn never_ended(level: &LevelSummary, metric: Metric, q: f64) -> bool {
    let value = level.with_censored.get(&metric).and_then(|time| time.quantile(q).0);
    value.is_some_and(|value| value >= NEVER.as_secs_f64())
}

/// Whether the network's round trips are a small part of the publish time, and it lost next to nothing.
fn is_near(level: &LevelSummary, trips: u32) -> bool {
    let trip = level.wire.network_rtt.p50.map(|trip| trip * f64::from(trips));
    let took = level.times[Metric::PublishTimeFromSend].p50;
    !is_many(sent_again(level), level.sent) && trip.zip(took).is_some_and(|(trip, took)| trip < took * SMALL)
}

/// The only component that was stopped between two times of the run, in seconds, for at least half of it.
fn stopped(components: &[ComponentUsage], span: &Range<f64>) -> Option<Named> {
    let within = |usage: &&ComponentUsage| usage.stopped && span.contains(&usage.at.as_secs_f64());
    let stopped = || components.iter().filter(within);
    match usage::names(stopped())[..] {
        [name] => {
            let covered: f64 = stopped().map(|usage| usage.window.as_secs_f64()).sum();
            (2.0 * covered >= span.end - span.start).then(|| Named::who(name, "was stopped by a signal"))
        }
        _ => None,
    }
}

/// Whether so many of them are not chance.
fn is_many(count: u64, of: u64) -> bool {
    count as f64 > of as f64 * 0.001
}

/// Messages that did not come to their end.
struct Loss {
    /// How many, for people.
    what: String,
    /// Whether subscribers miss them; else their acknowledgements are missing.
    of_deliveries: bool,
}

/// A count for people.
fn count(number: u64) -> String {
    grouped(number as f64)
}

/// Messages that were lost on their way, or whose acknowledgements were.
fn lost(level: &LevelSummary) -> Option<Loss> {
    let deliveries = |what| Some(Loss { what, of_deliveries: true });
    let acknowledged = level.lost_acknowledged.filter(|&count| is_many(count, level.expected_deliveries));
    if let Some(lost) = acknowledged {
        return deliveries(format!("{} deliveries of acknowledged messages never came", count(lost)));
    }
    if is_many(level.lost, level.expected_deliveries) {
        return deliveries(format!(
            "{} of {} deliveries never came",
            count(level.lost),
            count(level.expected_deliveries)
        ));
    }
    let unanswered = Some(level.unacknowledged()).filter(|&count| is_many(count, level.sent))?;
    let what = format!("{} of {} messages were never acknowledged", count(unanswered), count(level.sent));
    Some(Loss { what, of_deliveries: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::Stall;
    use crate::time_summary::TimeSummary;
    use plimsoll_model::objective::{Comparison, Objective};
    use plimsoll_model::record::{LevelStart, SampleRecord};
    use plimsoll_model::{Counts, Histogram};
    use std::sync::LazyLock;

    fn missed() -> LevelSummary {
        LevelSummary {
            verdict: LevelVerdict::Missed,
            sent: 1000,
            expected_deliveries: 1000,
            delivered: 1000,
            acknowledged: Some(1000),
            reasons: vec!["publish_p99 was 90 ms".into()],
            ..LevelSummary::default()
        }
    }

    fn objective(subject: Subject, comparison: Comparison, bound: f64) -> Objectives {
        Objectives {
            level: vec![Objective { population: None, subject, comparison, bound }],
            load_line: None,
        }
    }

    fn p99() -> Objective {
        let subject = Subject::Quantile(Metric::PublishTime, 0.99);
        Objective { population: None, subject, comparison: Comparison::Below, bound: 0.05 }
    }

    /// Everything is to be delivered.
    fn amount() -> Objectives {
        objective(Subject::Delivered, Comparison::AtLeast, 0.999)
    }

    fn blamed_for(
        level: &LevelSummary,
        components: &[ComponentUsage],
        local: bool,
        objectives: &Objectives,
    ) -> (Culprit, Option<String>) {
        let start = LevelStart {
            hold_start: Nanos::from_secs(10),
            hold: Nanos::from_secs(10),
            samples: 10,
            ..LevelStart::default()
        };
        let record = LevelRecord { start, ..LevelRecord::default() };
        let evidence = Evidence { record: &record, components, local, objectives, ..nothing() };
        let blame = of(level, &evidence).unwrap();
        (blame.culprit, blame.component)
    }

    /// Evidence that says nothing.
    fn nothing() -> Evidence<'static> {
        static RECORD: LazyLock<LevelRecord> = LazyLock::new(LevelRecord::default);
        static OBJECTIVES: LazyLock<Objectives> = LazyLock::new(Objectives::default);
        Evidence {
            record: &RECORD,
            components: &[],
            capture: None,
            refused: 0,
            local: false,
            relayed: false,
            datagrams: true,
            trips: 1,
            objectives: &OBJECTIVES,
        }
    }

    #[test]
    fn what_a_relay_of_the_scenario_may_have_done_is_blamed_on_nobody() {
        let stall = Stall { from: Nanos::from_secs(2), to: Nanos::from_secs(5), network_answered: None };
        let silent = LevelSummary { silence: Some(stall), ..missed() };
        let record = LevelRecord {
            start: LevelStart { hold_start: Nanos::from_secs(10), ..LevelStart::default() },
            ..LevelRecord::default()
        };
        let stopped = [usage("store", 13, true), usage("store", 14, true)];
        let of = |level: &LevelSummary, components| {
            let evidence = Evidence { record: &record, components, local: true, relayed: true, ..nothing() };
            of(level, &evidence).unwrap()
        };
        let blame = of(&silent, &[]);
        assert_eq!(blame.culprit, Culprit::Unknown);
        assert!(blame.evidence.contains("the scenario's relays"), "{}", blame.evidence);
        assert_eq!(of(&missed(), &[]).culprit, Culprit::Unknown);
        assert_eq!(of(&silent, &stopped).component.as_deref(), Some("store"), "a signal is no network's");
    }

    fn blamed(level: &LevelSummary, components: &[ComponentUsage], local: bool) -> (Culprit, Option<String>) {
        blamed_for(level, components, local, &Objectives::default())
    }

    fn usage(name: &str, at: i64, stopped: bool) -> ComponentUsage {
        let (at, window) = (Nanos::from_secs(at), Nanos::from_secs(1));
        ComponentUsage { component: name.into(), at, window, stopped, ..ComponentUsage::default() }
    }

    #[test]
    fn a_component_that_was_stopped_during_a_silence_is_named_if_it_was_alone_and_for_long_enough() {
        let stall = Stall { from: Nanos::from_secs(2), to: Nanos::from_secs(5), network_answered: None };
        let level = LevelSummary { silence: Some(stall), ..missed() };
        let store = Some("store".to_owned());
        let one = [usage("store", 13, true), usage("store", 14, true), usage("front", 13, false)];
        assert_eq!(blamed(&level, &one, true), (Culprit::Platform, store));
        let both = [usage("store", 13, true), usage("store", 14, true), usage("front", 14, true)];
        assert_eq!(blamed(&level, &both, true), (Culprit::Platform, None));
        assert_eq!(blamed(&level, &[usage("store", 13, true)], true), (Culprit::Platform, None), "too short");
        assert_eq!(blamed(&level, &[usage("store", 19, true)], true), (Culprit::Platform, None), "later");
    }

    #[test]
    fn what_was_missed_by_few_observations_is_the_reason_and_not_what_was_not_decided() {
        let mut times = Histogram::new();
        times.record_n(Nanos::from_millis(1), 21);
        times.record_n(Nanos::from_millis(100), 22);
        let counts = Counts { due: 43, sent: 43, completed: 43, ..Counts::default() };
        let sample = SampleRecord { counts, histograms: [(Metric::PublishTime, times)].into() };
        let start = LevelStart { hold: Nanos::from_secs(8), samples: 1, ..LevelStart::default() };
        let record = &LevelRecord { start, samples: vec![Some(sample)], ..LevelRecord::default() };
        let open =
            Objective { population: None, subject: Subject::Quantile(Metric::QueryTime, 0.99), ..p99() };
        let objectives = &Objectives { level: vec![open, p99()], load_line: None };
        let level = LevelSummary { due: 43, sent: 43, refused: 0, ..missed() };
        let evidence = Evidence { record, local: true, datagrams: false, objectives, ..nothing() };
        let blame = of(&level, &evidence).unwrap();
        assert!(blame.claim.starts_with("22 of 43 took longer"), "{}", blame.claim);
    }

    #[test]
    fn what_was_slow_at_a_local_address_was_the_platform_and_elsewhere_nobody_knows() {
        assert_eq!(blamed(&missed(), &[], true).0, Culprit::Platform);
        assert_eq!(blamed(&missed(), &[], false).0, Culprit::Unknown);
    }

    #[test]
    fn refusals_are_the_platforms_where_an_amount_missed_and_none_of_the_reason_where_a_time_did() {
        let level = LevelSummary { refused: 40, delivered: 960, acknowledged: Some(960), ..missed() };
        assert_eq!(blamed_for(&level, &[], false, &amount()), (Culprit::Platform, None));
        let p99 = objective(Subject::Quantile(Metric::PublishTime, 0.99), Comparison::Below, 0.05);
        assert_eq!(blamed_for(&level, &[], false, &p99), (Culprit::Unknown, None));
    }

    #[test]
    fn datagrams_that_never_came_may_have_been_lost_by_a_network_and_by_none_on_this_host() {
        let level = LevelSummary { lost: 20, delivered: 980, ..missed() };
        assert_eq!(blamed_for(&level, &[], false, &amount()), (Culprit::Unknown, None));
        assert_eq!(blamed_for(&level, &[], true, &amount()), (Culprit::Platform, None));
    }

    #[test]
    fn a_time_of_something_else_than_messages_names_no_component() {
        let queries = objective(Subject::Quantile(Metric::QueryTime, 0.99), Comparison::Below, 0.05);
        let full = [full("broker", 10), full("broker", 12)];
        let level = LevelSummary { overload: true, achieved_ci95: Some([0.5, 0.6]), ..missed() };
        assert_eq!(blamed_for(&level, &full, true, &queries), (Culprit::Platform, None));
        assert_eq!(blamed_for(&level, &full, false, &queries), (Culprit::Unknown, None));
    }

    /// Idle at first, then at the limit of one of its threads.
    fn full(name: &str, at: i64) -> ComponentUsage {
        let cpu = if at > 10 { Nanos::from_millis(980) } else { Nanos::ZERO };
        ComponentUsage { cpu, busiest_thread: Some(cpu), processors: Some(8), ..usage(name, at, false) }
    }

    #[test]
    fn a_component_is_full_by_one_thread_and_not_by_many_that_are_idle_nor_if_it_always_is() {
        let growing = LevelSummary { achieved_ci95: Some([0.5, 0.6]), ..missed() };
        let broker = (Culprit::Platform, Some("broker".to_owned()));
        let nobody = (Culprit::Platform, None);
        assert_eq!(blamed(&growing, &[full("broker", 10), full("broker", 12)], true), broker);
        assert_eq!(blamed(&missed(), &[full("broker", 10), full("broker", 12)], true), nobody, "no backlog");
        let many = ComponentUsage { busiest_thread: Some(Nanos::from_millis(120)), ..full("broker", 12) };
        assert_eq!(blamed(&growing, &[full("broker", 10), many], true), nobody);
        assert_eq!(blamed(&growing, &[full("broker", 11), full("broker", 12)], true), nobody, "it spins");
    }

    /// It uses a tenth of a processor, and may not use more.
    #[test]
    fn a_component_that_its_quota_keeps_from_running_is_named_though_others_use_more() {
        let growing = LevelSummary { achieved_ci95: Some([0.5, 0.6]), ..missed() };
        let limited = |kept: i64| ComponentUsage {
            cpu: Nanos::from_millis(100),
            throttled: Nanos::from_millis(kept),
            ..usage("worker", 12, false)
        };
        let store = ComponentUsage { cpu: Nanos::from_millis(400), ..usage("store", 12, false) };
        let named = (Culprit::Platform, Some("worker".to_owned()));
        let before = usage("worker", 10, false);
        let who = |other: &ComponentUsage, kept: i64| {
            blamed(&growing, &[before.clone(), limited(kept), usage("store", 10, false), other.clone()], true)
        };
        assert_eq!(who(&store, 800), named);
        assert_eq!(who(&store, 50).1, None, "it was hardly kept");
        let both = ComponentUsage { throttled: Nanos::from_millis(700), ..store.clone() };
        assert_eq!(who(&both, 800).1, None, "two were kept");
        assert_eq!(who(&full("store", 12), 800).1, None, "another one was full");
        let level = LevelSummary { achieved_ci95: None, ..growing.clone() };
        let held = [before.clone(), limited(800), usage("store", 10, false), store.clone()];
        assert_eq!(
            blamed(&level, &held, true),
            named,
            "its quota makes messages wait without a backlog, too"
        );
        let always = [limited(800), store];
        assert_eq!(blamed(&growing, &always, true).1, None, "it is kept at any load");
    }

    #[test]
    fn a_backlog_of_a_platform_far_away_is_its_own_only_if_round_trips_are_short() {
        let time = |p50: f64| TimeSummary { p50: Some(p50), ..TimeSummary::default() };
        let mut level = LevelSummary {
            overload: true,
            achieved_ci95: Some([0.5, 0.6]),
            times: [(Metric::PublishTimeFromSend, time(2.0))].into(),
            ..missed()
        };
        assert_eq!(blamed(&level, &[], false).0, Culprit::Unknown, "nothing is known of the network");
        level.wire.network_rtt = time(0.01);
        assert_eq!(blamed(&level, &[], false).0, Culprit::Platform);
        level.wire.tcp_retransmissions = Some(40);
        assert_eq!(blamed(&level, &[], false).0, Culprit::Unknown, "packets were lost");
        level.wire.tcp_retransmissions = None;
        level.wire.network_rtt = time(1.5);
        assert_eq!(blamed(&level, &[], false).0, Culprit::Unknown, "they are long");
        level.wire.network_rtt = time(0.01);
        level.validity = Validity::GeneratorBound;
        assert_eq!(blamed(&level, &[], false).0, Culprit::Unknown, "the backlog may be ours");
    }
}
