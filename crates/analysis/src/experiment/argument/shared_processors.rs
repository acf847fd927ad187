//! Full processors that components share.

use super::super::evidence::{self, Evidence, Used};
use super::super::{Estimate, NOTHING, Part};
use super::{decides, effect_in_words, percent};
use crate::limits::{Limit, LimitKind};
use plimsoll_model::experiment::Means;
use std::collections::BTreeMap;

/// A component that computes so much of all that is computed limits full processors by itself.
const MOST: f64 = 0.8;

/// The platform's processors, where they limit: occupying them slows the platform by that, and the components use all of them. A thread that
/// has one of several processors for itself, and decides, would gain nothing by more of them.
pub fn full_processors<'a>(parts: &'a [Part], used: &BTreeMap<String, Used>) -> Option<&'a Part> {
    let several = evidence::processors_of(used).is_some_and(|processors| processors > 1.5);
    let has_own = |part: &Part| {
        let own = part.components.first().filter(|_| part.components.len() == 1);
        decides(part) && own.and_then(|name| used.get(name)).is_some_and(Used::has_full_thread)
    };
    let shared = parts.iter().find(|part| part.means == Means::Occupy)?;
    let is_it = decides(shared) && evidence::are_full(used);
    (is_it && !(several && parts.iter().any(has_own))).then_some(shared)
}

/// The processors that all components share; of a component that computes nearly all that is computed, it is that one.
pub(super) fn processors(shared: &Part, evidence: &Evidence<'_>) -> Limit {
    let mut said = vec![effect_in_words(shared)];
    let all = evidence.all_used();
    said.push(format!(
        "the components used {all:.2} of {} processors while nothing was slowed",
        evidence.processors.unwrap_or(0.0)
    ));
    let mut by_use: Vec<(&String, f64)> = evidence
        .used
        .iter()
        .map(|(name, used)| (name, used.processor))
        .filter(|(_, used)| *used > 0.01)
        .collect();
    by_use.sort_by(|a, b| b.1.total_cmp(&a.1));
    let told: Vec<String> =
        by_use.iter().map(|(name, used)| format!("{name} {}", percent(used / all))).collect();
    said.push(format!("of what was computed: {}", told.join(", ")));
    if let [(name, used), ..] = by_use[..]
        && used > MOST * all
        && evidence
            .single()
            .any(|part| part.components == [name.clone()] && part.elasticity.ends()[0] > NOTHING)
    {
        return Limit {
            component: Some(name.clone()),
            components: Vec::new(),
            kind: LimitKind::Processor,
            evidence: said,
            elasticity: Some(shared.elasticity.times(used / all)),
        };
    }
    Limit {
        component: None,
        components: by_use.into_iter().map(|(name, _)| name.clone()).collect(),
        kind: LimitKind::Processors,
        evidence: said,
        elasticity: Some(shared.elasticity),
    }
}

/// Where full processors limit, the elasticity of each component is its part of what is computed on them: a stop of it lets the others
/// compute meanwhile, and tells how much it allows alone. Its interval has the errors of both figures.
pub fn share_processors(parts: &mut [Part], used: &BTreeMap<String, Used>) {
    let whole = parts.iter().find(|part| part.means == Means::Occupy).map(|part| part.elasticity);
    let all: f64 = used.values().map(|used| used.processor).sum();
    let (Some(whole), true) = (whole, all > 0.0) else { return };
    let squares: f64 = used.values().map(|used| used.processor_half.powi(2)).sum();
    for part in parts.iter_mut() {
        let [name] = &part.components[..] else { continue };
        let Some(own) = used.get(name) else { continue };
        let share = own.processor / all;
        let others = squares - own.processor_half.powi(2);
        let of_share =
            ((1.0 - share).powi(2) * own.processor_half.powi(2) + share.powi(2) * others).sqrt() / all;
        let mean = whole.mean * share;
        let half = |end: f64| ((end - whole.mean) * share).hypot(whole.mean * of_share);
        part.elasticity =
            Estimate { mean, ci95: whole.ci95.map(|[lo, hi]| [mean - half(lo), mean + half(hi)]) };
    }
    parts.sort_by(|a, b| b.elasticity.mean.total_cmp(&a.elasticity.mean));
}
