//! Who is to blame that a level was not met: one name, or nobody's. A name is given only where the others are excluded; else
//! it is unknown.

use crate::inference::PublishCause;
use crate::level::{LevelSummary, LevelVerdict};
use crate::usage;
use plimsoll_model::Validity;
use plimsoll_model::record::{ComponentUsage, LevelStart};
use schemars::JsonSchema;
use serde::Serialize;

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

/// Who is to blame for a level; `None` of one that was met or not finished.
pub fn of(
    level: &LevelSummary,
    start: &LevelStart,
    components: &[ComponentUsage],
    local: bool,
) -> Option<Blame> {
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
    if let Some(stall) = level.silence {
        // All at once is no overload. What else could stand still is the network, which its own round trips tell.
        let culprit = match (local, stall.network_answered) {
            (true, _) => Culprit::Platform,
            (false, Some(answered)) if answered >= ANSWERED => Culprit::Platform,
            (false, Some(answered)) if answered <= SILENT => Culprit::Network,
            (false, _) => Culprit::Unknown,
        };
        return blame(culprit, None, stall.in_words());
    }
    if let Some(evidence) = lost(level) {
        // Of what came too late rather than never the reason is where it waited.
        let full = level.overload.then(|| fullest(components, start)).flatten();
        return match full {
            Some((component, used)) => {
                blame(Culprit::Platform, Some(component), format!("{evidence}; {used}"))
            }
            None => blame(Culprit::Platform, None, evidence),
        };
    }
    let because = level.inference.as_ref().map(|inference| inference.publish_because);
    let culprit = match because {
        Some(PublishCause::Network | PublishCause::Retransmissions) => Culprit::Network,
        Some(PublishCause::Both) => Culprit::PlatformAndNetwork,
        Some(PublishCause::Platform) => Culprit::Platform,
        // A backlog that grows is the platform's: a network that only delays has none.
        _ if level.overload => Culprit::Platform,
        Some(PublishCause::Unknown | PublishCause::NoRise) | None => Culprit::Unknown,
    };
    // Who is at its limit leaves something behind; else that it uses one processor may be chance.
    let grows = level.overload || level.achieved_ci95.is_some_and(|[_, most]| most < 1.0);
    let at_limit = culprit == Culprit::Platform && grows;
    let full = at_limit.then(|| fullest(components, start)).flatten();
    match full {
        Some((component, evidence)) => blame(culprit, Some(component), evidence),
        None => blame(culprit, None, first()),
    }
}

/// Messages that the platform lost, or whose acknowledgements it did.
fn lost(level: &LevelSummary) -> Option<String> {
    let lost = |count: u64, of: u64| count as f64 > of as f64 * 0.001;
    let acknowledged = level.lost_acknowledged.filter(|&count| lost(count, level.expected_deliveries));
    if let Some(count) = acknowledged {
        return Some(format!("{count} messages were acknowledged and never delivered"));
    }
    if lost(level.lost, level.expected_deliveries) {
        return Some(format!("{} of {} deliveries never came", level.lost, level.expected_deliveries));
    }
    let unanswered = level.acknowledged.map(|count| level.sent.saturating_sub(count + level.refused));
    let unanswered = unanswered.filter(|&count| lost(count, level.sent))?;
    Some(format!("{unanswered} of {} messages were never acknowledged", level.sent))
}

/// The only component that used as much processor as it can, and that in words.
fn fullest(components: &[ComponentUsage], start: &LevelStart) -> Option<(String, String)> {
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
