//! What limits the load: which component, or what else, by which evidence.

use crate::blame;
use crate::experiment::Estimate;
use crate::level::{Blame, Culprit, LevelSummary, LevelVerdict};
use crate::load_line;
use plimsoll_model::record::RunRecord;
use plimsoll_model::text::grouped;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// What limits the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Limit {
    /// The component; null where it is none of them alone.
    pub component: Option<String>,
    /// The components that share what limits; empty where one component is named, or none.
    pub components: Vec<String>,
    /// What of it is at its limit.
    pub kind: LimitKind,
    /// What speaks for it and against it, for people.
    pub evidence: Vec<String>,
    /// Elasticity of the platform's capacity to its speed; null where nobody slowed it.
    pub elasticity: Option<Estimate>,
}

/// What is at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// The component computes all the time: all of its processors, or the one of its only busy thread.
    Processor,
    /// The component's quota of processor time.
    Quota,
    /// The component is busy without computing: its workers wait, for a pool, a lock, a disk or another service.
    Waiting,
    /// The processors that several components share.
    Processors,
    /// Only one of several components works at a time, and each now and then without the other one: they share something such as a lock, or
    /// one calls the other for some operations only.
    Lock,
    /// Components keep few operations at once, as by a pool of connections or workers that wait for an answer.
    Pool,
    /// None of several components works while another one is stopped: few messages can be between them, as where one calls the next or
    /// has a small pool of connections to it, or they share something that one has at a time, even while it waits for it.
    Coupled,
    /// The platform refuses most operations, as where they exceed a limit in its configuration.
    Refusal,
    /// The load generator.
    Generator,
    /// The subscribers of the scenario: they work on messages nearly all the time.
    Subscribers,
    /// It is not known what of the component is at its limit.
    Unknown,
}

impl Limit {
    /// What limits, as a sentence without its end; with the operations per second at which it does.
    pub fn in_words(&self, at: Option<f64>) -> String {
        let at = at.map(|rate| format!(" at {}/s", grouped(rate.round()))).unwrap_or_default();
        let name = self.name();
        let one = |why: &str| format!("{name} limits the load{at}{why}");
        let several = |why: &str| format!("{name} limit the load{at}{why}");
        match self.kind {
            LimitKind::Processor => one(": it computes, or waits for a processor, all the time"),
            LimitKind::Quota => one(": its quota of processor time is used up"),
            LimitKind::Waiting => one(": its workers are occupied, and hardly compute"),
            LimitKind::Processors => several(": all components share them"),
            LimitKind::Lock => several(
                ": only one of them works at a time, as with a lock, or a call that some operations make",
            ),
            LimitKind::Pool => several(": they keep few operations at once, and each until it is through"),
            LimitKind::Coupled => several(
                ": each stops while the other does, as with a call, a small pool or a lock between them",
            ),
            LimitKind::Subscribers => several(": they work on messages nearly all the time"),
            LimitKind::Refusal | LimitKind::Generator | LimitKind::Unknown => one(""),
        }
    }

    /// What limits and what of it, in a few words, such as `worker (quota)`.
    pub fn in_short(&self) -> String {
        let name = self.name();
        match self.kind {
            LimitKind::Processor => format!("{name} (processor)"),
            LimitKind::Quota => format!("{name} (quota)"),
            LimitKind::Waiting => format!("{name} (waiting)"),
            LimitKind::Lock => format!("{name} (lock)"),
            LimitKind::Pool => format!("{name} (pool)"),
            LimitKind::Coupled => format!("{name} (coupled)"),
            LimitKind::Processors
            | LimitKind::Refusal
            | LimitKind::Generator
            | LimitKind::Subscribers
            | LimitKind::Unknown => name,
        }
    }

    /// Whether it is these components, or they are among those that share what limits. True of none: the processors.
    pub fn names(&self, components: &[String]) -> bool {
        components.iter().all(|name| self.component.as_ref() == Some(name) || self.components.contains(name))
    }

    /// What limits, for people.
    pub fn name(&self) -> String {
        match (&self.component, self.kind) {
            (Some(component), _) => component.clone(),
            (None, LimitKind::Processors) => "the platform's processors".to_owned(),
            (None, LimitKind::Refusal) => "a bound above which the platform refuses".to_owned(),
            (None, LimitKind::Generator) => "the load generator".to_owned(),
            (None, LimitKind::Subscribers) => "the subscribers".to_owned(),
            (None, _) => self.components.join(" and "),
        }
    }
}

/// What the levels of a run say, where nothing was slowed: whoever is to blame for the lowest level that was not met. One that
/// decided nothing says nothing of that, if a higher one missed.
pub(crate) fn of_levels(levels: &[LevelSummary], record: &RunRecord) -> Vec<Limit> {
    let above = || load_line::rising(levels).into_iter().filter(|level| !level.is_met());
    let says_something = |level: &&LevelSummary| level.verdict != LevelVerdict::Undecided;
    let bounding = above().find(says_something).or_else(|| above().next());
    let Some((level, blame)) = bounding.and_then(|level| Some((level, level.blame.as_ref()?))) else {
        return Vec::new();
    };
    let limit = |component: Option<String>, kind| Limit {
        component,
        components: Vec::new(),
        kind,
        evidence: vec![format!("{}: {}", level.load, blame.evidence)],
        elasticity: None,
    };
    match blame {
        // What killed it need not have been the load.
        Blame { culprit: Culprit::Platform, component: Some(name), .. } if level.death.is_none() => {
            let start = record.levels.iter().map(|own| &own.start).find(|start| start.index == level.index);
            let kind = start.and_then(|start| blame::kind_of(name, &record.components, start));
            vec![limit(Some(name.clone()), kind.unwrap_or(LimitKind::Unknown))]
        }
        Blame { culprit: Culprit::Generator, .. } => vec![limit(None, LimitKind::Generator)],
        _ => Vec::new(),
    }
}
