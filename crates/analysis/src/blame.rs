//! Who is to blame that a level was not met: one name, or nobody's. A name is given only where the others are excluded; else
//! it is unknown.

mod captured;

use crate::dissection::DissectionSummary;
use crate::inference::PublishCause;
use crate::level::{LevelSummary, LevelVerdict};
use crate::usage;
use captured::{Captured, Named};
use plimsoll_model::Validity;
use plimsoll_model::record::{ComponentUsage, LevelStart};
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::Range;

/// Share of what it may use from which on a component is at its limit.
const FULL: f64 = 0.9;
/// What one thread can use of one processor, with what is read too much.
const ONE_THREAD: std::ops::Range<f64> = 0.93..1.03;
/// Of the network's round trips in a stall, the share from which on the network is not the reason, and the share up to which
/// it is: TCP waits twice as long after each loss, so that half of a silence may lie behind the end of a cut.
const ANSWERED: f64 = 0.85;
const SILENT: f64 = 0.65;
/// Another component that uses more than this share of what the fullest one does may be the reason as well.
const NEXT: f64 = 0.75;

/// Who is to blame, and why.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Blame {
    /// Who.
    pub culprit: Culprit,
    /// The component, where it is known which one.
    pub component: Option<String>,
    /// What shows it, for people.
    pub evidence: String,
}

/// Who can be to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Culprit {
    /// The platform.
    Platform,
    /// The way between us and the platform.
    Network,
    /// Both of them.
    PlatformAndNetwork,
    /// The load generator.
    Generator,
    /// Our subscribers.
    Receiver,
    /// The host of the generator or of the platform.
    Host,
    /// It cannot be said.
    Unknown,
}

impl Culprit {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Culprit::Platform => "the platform",
            Culprit::Network => "the network",
            Culprit::PlatformAndNetwork => "the platform and the network",
            Culprit::Generator => "the load generator",
            Culprit::Receiver => "our subscribers",
            Culprit::Host => "the host",
            Culprit::Unknown => "not known",
        }
    }
}

/// What blame rests on, beside the level's own summary.
pub struct Evidence<'a> {
    /// The level.
    pub start: &'a LevelStart,
    /// Readings of the components.
    pub components: &'a [ComponentUsage],
    /// What was captured; `None` where nothing was.
    pub capture: Option<&'a DissectionSummary>,
    /// Messages that were refused in the whole run, of which the errors in the capture tell.
    pub refused: u64,
    /// Whether the platform's address is one of this host's.
    pub local: bool,
}

/// Who is to blame for a level; `None` of one that was met or not finished.
pub fn of(level: &LevelSummary, evidence: &Evidence<'_>) -> Option<Blame> {
    let &Evidence { start, components, capture, refused, local } = evidence;
    let captured = Captured::new(capture, start, components);
    let blame = |culprit, component, evidence| Some(Blame { culprit, component, evidence });
    let first = || level.reasons.first().cloned().unwrap_or_default();
    if let Some(death) = &level.death {
        return blame(Culprit::Platform, Some(death.component.clone()), first());
    }
    match (level.verdict, level.validity) {
        (LevelVerdict::Met | LevelVerdict::Unfinished, _) => return None,
        (LevelVerdict::Undecided, _) => return blame(Culprit::Unknown, None, first()),
        (LevelVerdict::Invalid, Validity::GeneratorBound) => return blame(Culprit::Generator, None, first()),
        (LevelVerdict::Invalid, Validity::ReceiverBound) => return blame(Culprit::Receiver, None, first()),
        (LevelVerdict::Invalid, Validity::HostBound) => return blame(Culprit::Host, None, first()),
        _ => {}
    }
    // The component of a platform whose fault it is, where somebody is known, and both in words.
    let platform = |named: Named, what: String| match named {
        Some((component, why)) => blame(Culprit::Platform, Some(component), format!("{what}; {why}")),
        None => blame(Culprit::Platform, None, what),
    };
    if let Some(stall) = level.silence {
        // All at once is no overload. What else could stand still is the network, which its own round trips tell.
        let span = [stall.from, stall.to].map(|time| (start.hold_start + time).as_secs_f64());
        let span = span[0]..span[1];
        let stopped = || stopped(components, &span).or_else(|| captured.who_stood_still(&span));
        return match (local, stall.network_answered) {
            (true, _) => platform(stopped(), stall.in_words()),
            (false, Some(answered)) if answered >= ANSWERED => platform(stopped(), stall.in_words()),
            (false, Some(answered)) if answered <= SILENT => blame(Culprit::Network, None, stall.in_words()),
            (false, _) => blame(Culprit::Unknown, None, stall.in_words()),
        };
    }
    let full = || fullest(components, start);
    if is_many(level.refused, level.sent) {
        let what = format!("{} of {} messages were refused", level.refused, level.sent);
        return platform(captured.who_failed(refused), what);
    }
    if let Some(what) = lost(level) {
        // Of what came too late rather than never the reason is where it waited.
        let full = level.overload.then(full).flatten();
        return platform(full.or_else(|| captured.who_lost(level.lost)), what);
    }
    let because = level.inference.as_ref().map(|inference| inference.publish_because);
    let culprit = match because {
        Some(PublishCause::Network | PublishCause::Retransmissions) => Culprit::Network,
        Some(PublishCause::Both) => Culprit::PlatformAndNetwork,
        Some(PublishCause::Platform) => Culprit::Platform,
        // A backlog that grows is the platform's: a network that only delays has none.
        _ if level.overload => Culprit::Platform,
        // A valid level is neither the generator's nor the receiver's miss, and there is no network to a local address.
        Some(PublishCause::Unknown | PublishCause::NoRise) | None if local => Culprit::Platform,
        Some(PublishCause::Unknown | PublishCause::NoRise) | None => Culprit::Unknown,
    };
    if culprit != Culprit::Platform {
        return blame(culprit, None, first());
    }
    // Who is at its limit leaves something behind; else that it uses one processor may be chance.
    let grows = level.overload || level.achieved_ci95.is_some_and(|[_, most]| most < 1.0);
    platform(grows.then(full).flatten().or_else(|| captured.who_kept_them()), first())
}

/// The only component that was stopped between two times of the run, in seconds.
fn stopped(components: &[ComponentUsage], span: &Range<f64>) -> Named {
    let within = |usage: &&ComponentUsage| usage.stopped && span.contains(&usage.at.as_secs_f64());
    let mut names: Vec<&str> =
        components.iter().filter(within).map(|usage| usage.component.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    match names[..] {
        [name] => Some((name.to_owned(), format!("{name} was stopped by a signal"))),
        _ => None,
    }
}

/// Whether so many of them are not chance.
fn is_many(count: u64, of: u64) -> bool {
    count as f64 > of as f64 * 0.001
}

/// Messages that the platform lost, or whose acknowledgements it did.
fn lost(level: &LevelSummary) -> Option<String> {
    let acknowledged = level.lost_acknowledged.filter(|&count| is_many(count, level.expected_deliveries));
    if let Some(count) = acknowledged {
        return Some(format!("{count} messages were acknowledged and never delivered"));
    }
    if is_many(level.lost, level.expected_deliveries) {
        return Some(format!("{} of {} deliveries never came", level.lost, level.expected_deliveries));
    }
    let unanswered = level.acknowledged.map(|count| level.sent.saturating_sub(count + level.refused));
    let unanswered = unanswered.filter(|&count| is_many(count, level.sent))?;
    Some(format!("{unanswered} of {} messages were never acknowledged", level.sent))
}

/// The only component that used as much processor as it can, and that in words.
fn fullest(components: &[ComponentUsage], start: &LevelStart) -> Named {
    let span = usage::hold(start);
    let of = |name: &str| {
        let used = usage::share(components, name, &span, |usage| Some(usage.cpu))?;
        let own = components.iter().find(|usage| usage.component == name);
        Some((name.to_owned(), used, own.and_then(|usage| usage.processors)))
    };
    let mut used: Vec<(String, f64, Option<u16>)> =
        usage::names(components).into_iter().filter_map(of).collect();
    used.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (name, share, processors) = used.first()?;
    let most = processors.map_or(f64::INFINITY, f64::from);
    let is_full = *share >= FULL * most || ONE_THREAD.contains(share);
    let alone = used.get(1).is_none_or(|(_, next, _)| *next < share * NEXT);
    (is_full && alone).then(|| {
        let next = used.get(1).map(|(next, used, _)| format!(", {next} {:.0} %", used * 100.0));
        let share = share * 100.0;
        (name.clone(), format!("{name} used {share:.0} % of a processor{}", next.unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::Stall;
    use plimsoll_model::Nanos;

    fn missed() -> LevelSummary {
        LevelSummary {
            verdict: LevelVerdict::Missed,
            sent: 1000,
            expected_deliveries: 1000,
            acknowledged: Some(1000),
            reasons: vec!["publish_p99 was 90 ms".into()],
            ..LevelSummary::default()
        }
    }

    fn blamed(level: &LevelSummary, components: &[ComponentUsage], local: bool) -> (Culprit, Option<String>) {
        let start = LevelStart {
            hold_start: Nanos::from_secs(10),
            hold: Nanos::from_secs(10),
            samples: 10,
            ..LevelStart::default()
        };
        let evidence = Evidence { start: &start, components, capture: None, refused: 0, local };
        let blame = of(level, &evidence).unwrap();
        (blame.culprit, blame.component)
    }

    fn usage(name: &str, at: i64, stopped: bool) -> ComponentUsage {
        let (at, window) = (Nanos::from_secs(at), Nanos::from_secs(1));
        ComponentUsage { component: name.into(), at, window, stopped, ..ComponentUsage::default() }
    }

    #[test]
    fn a_component_that_was_stopped_during_a_silence_is_named_if_it_was_alone() {
        let stall = Stall { from: Nanos::from_secs(2), to: Nanos::from_secs(5), network_answered: None };
        let level = LevelSummary { silence: Some(stall), ..missed() };
        let store = Some("store".to_owned());
        let one = [usage("store", 13, true), usage("front", 13, false)];
        assert_eq!(blamed(&level, &one, true), (Culprit::Platform, store));
        let both = [usage("store", 13, true), usage("front", 14, true)];
        assert_eq!(blamed(&level, &both, true), (Culprit::Platform, None));
        assert_eq!(blamed(&level, &[usage("store", 19, true)], true), (Culprit::Platform, None), "later");
    }

    #[test]
    fn what_was_slow_at_a_local_address_was_the_platform_and_elsewhere_nobody_knows() {
        assert_eq!(blamed(&missed(), &[], true).0, Culprit::Platform);
        assert_eq!(blamed(&missed(), &[], false).0, Culprit::Unknown);
    }

    #[test]
    fn refusals_are_the_platforms() {
        let level = LevelSummary { refused: 40, acknowledged: Some(960), ..missed() };
        assert_eq!(blamed(&level, &[], false), (Culprit::Platform, None));
    }
}
