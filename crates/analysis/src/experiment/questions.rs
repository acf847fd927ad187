//! What is known and what is open after some levels of an experiment: it decides which level comes next.

use super::effect::{self, Effect};
use super::evidence::Waits;
use super::{
    CONTENDS, DECIDED, Estimate, InTurn, MediumStops, NOTHING, Part, SETTLED, SHARED, agreed, argument, can,
    capacity, evidence, in_turn, parts, path, single,
};
use plimsoll_model::experiment::{Means, Perturbation};
use plimsoll_model::record::{ComponentUsage, LevelRecord};
use plimsoll_stats::Interval;

/// The components whose effect under a large dose leaves open whether they limit, alone or with others. Of one that seems to limit alone,
/// it does not exclude that something else does that allows up to a tenth less, and that stops do not slow.
pub fn open(large: &LevelRecord) -> Vec<Effect> {
    let may_limit = |effect: &Effect| effect.interval.is_none_or(|interval| interval.hi > NOTHING);
    let mut effects = effect::of(&[large], &[]);
    effects.retain(|effect| !effect.components.is_empty() && may_limit(effect));
    effects
}

/// The components that may decide the throughput, alone or with others; none where it is known that two stop each other.
pub fn contenders(levels: &[&LevelRecord]) -> Vec<String> {
    let parts = parts(levels, &[], Estimate::of(1.0, None));
    if coupled(&parts).is_empty() { contending(&parts) } else { Vec::new() }
}

/// The components that may decide the throughput, alone or with others, those that stop each other included.
pub fn all_contenders(levels: &[&LevelRecord]) -> Vec<String> {
    contending(&parts(levels, &[], Estimate::of(1.0, None)))
}

/// Whether several components surely have elasticities that leave open whether they limit.
pub fn several_surely_contend(levels: &[&LevelRecord]) -> bool {
    let parts = parts(levels, &[], Estimate::of(1.0, None));
    let surely = |part: &&Part| part.components.len() == 1 && part.elasticity.ends()[0] > CONTENDS;
    parts.iter().filter(surely).count() > 1
}

fn contending(parts: &[Part]) -> Vec<String> {
    let may = |part: &&Part| part.components.len() == 1 && part.elasticity.ends()[1] > CONTENDS;
    parts.iter().filter(may).flat_map(|part| part.components.clone()).collect()
}

/// Whether it is known from a large dose that full processors limit, by what components used while nothing was slowed.
pub fn processors_limit(large: &LevelRecord, untouched: &LevelRecord, components: &[ComponentUsage]) -> bool {
    let parts = parts(&[large], &[], Estimate::of(1.0, None));
    // What components used is known of the platform as it was then.
    let is_steady =
        capacity(untouched).zip(capacity(large)).is_none_or(|(then, now)| evidence::is_near(then, now));
    is_steady && argument::full_processors(&parts, &evidence::used_in(untouched, components)).is_some()
}

/// The perturbation of the processors in a large dose whose effect is not known well enough for what each component does on them.
pub fn open_processors(large: &LevelRecord) -> Option<Perturbation> {
    let effects = effect::of(&[large], &[]);
    let own = effects.iter().find(|effect| effect.means == Means::Occupy)?;
    let is_wide = own.interval.is_none_or(|interval| interval.hi - interval.lo > 2.0 * SHARED);
    let mut all = large.start.blocks().iter().filter_map(|block| block.perturbation.as_ref());
    all.find(|wanted| wanted.means == Means::Occupy).filter(|_| is_wide).cloned()
}

/// The components whose quota kept them from running for a while, in a level in which nothing was slowed.
pub fn used_up_quotas(untouched: &LevelRecord, components: &[ComponentUsage]) -> Vec<String> {
    let used = evidence::used_in(untouched, components);
    used.into_iter().filter(|(_, used)| used.is_throttled()).map(|(name, _)| name).collect()
}

/// Whether some of those computed all the time, in a level in which nothing was slowed.
pub fn compute_all_the_time(
    names: &[String],
    untouched: &LevelRecord,
    components: &[ComponentUsage],
) -> bool {
    let used = evidence::used_in(untouched, components);
    names.iter().any(|name| used.get(name).is_some_and(|used| used.computes()))
}

/// The components of which medium stops could tell more: of several that may decide, or that slow the platform by a small dose as well, those
/// that had none, or too few.
pub fn open_by_medium_stops(levels: &[&LevelRecord]) -> Vec<String> {
    let parts = parts(levels, &[], Estimate::of(1.0, None));
    let single = single(&parts);
    if argument::alone_by_medium_stops(&single).is_some() {
        return Vec::new();
    }
    let slows = |part: &&Part| {
        let [lo, hi] = part.elasticity.ends();
        hi > CONTENDS || part.small.is_some() && lo > NOTHING
    };
    let slow: Vec<&Part> = single.into_iter().filter(slows).collect();
    let is_open = |part: &&&Part| part.under_medium_stops.is_none_or(MediumStops::is_open);
    // Where all of them lose such stops, more of these exclude nobody.
    let may_exclude = |part: &&Part| part.under_medium_stops.is_none_or(MediumStops::may_exclude);
    let is_worth_while = slow.len() > 1 && slow.iter().any(may_exclude);
    let open = slow.iter().filter(is_open).filter(|_| is_worth_while);
    open.flat_map(|part| part.components.clone()).collect()
}

/// The components that may decide and had no small dose, by their effects under the large one.
pub fn open_without_small_dose(levels: &[&LevelRecord]) -> Vec<Effect> {
    let parts = parts(levels, &[], Estimate::of(1.0, None));
    let is_open = |part: &&Part| part.small.is_none() && part.elasticity.ends()[1] > CONTENDS;
    let open: Vec<&Part> = parts.iter().filter(is_open).collect();
    let mut effects = effect::of(levels.get(..1).unwrap_or_default(), &[]);
    effects.retain(|effect| open.iter().any(|part| part.components == effect.components));
    effects
}

/// The components that medium stops have shown to feed the one that limits, and not to limit.
pub fn excluded_by_medium_stops(levels: &[&LevelRecord]) -> Vec<String> {
    let parts = parts(levels, &[], Estimate::of(1.0, None));
    let single = single(&parts);
    let Some(alone) = argument::alone_by_medium_stops(&single) else { return Vec::new() };
    let is_excluded =
        |part: &&&Part| part.under_medium_stops.is_some() && part.components != alone.components;
    single.iter().filter(is_excluded).flat_map(|part| part.components.clone()).collect()
}

/// Whether short stops have told which component decides alone, whatever it does meanwhile.
pub fn short_stops_tell(levels: &[&LevelRecord]) -> bool {
    let parts = parts(levels, &[], Estimate::of(1.0, None));
    let contenders = single(&parts);
    argument::alone_by_short_stops(&contenders, |_| false).is_some()
}

/// The components that decide the throughput, where delays have shown that it is limited by how few operations can be on the path to one
/// of them at once; none where they have not.
pub fn limited_by_path(levels: &[&LevelRecord], delays: &LevelRecord) -> Vec<String> {
    let in_flight = delays.start.load.in_flight().unwrap_or_default();
    let paths = path::of_level(delays, &[], f64::from(in_flight));
    let parts = parts(levels, &[], Estimate::of(1.0, None));
    let single = single(&parts);
    argument::keep_few_at_once(&single, &paths).iter().flat_map(|part| part.components.clone()).collect()
}

/// For which part of the time components waited for a processor, in a level in which nothing was slowed.
pub fn waits_in(untouched: &LevelRecord, components: &[ComponentUsage]) -> Waits {
    evidence::waits_of(&evidence::used_in(untouched, components))
}

/// The components of which stops in turn have shown that one can hardly work without the other; none where they have not.
pub fn share_something(levels: &[&LevelRecord], waits: &Waits) -> Vec<String> {
    let parts = parts(levels, &[], Estimate::of(1.0, None));
    let decides = |name: &String| {
        let is_it = |part: &&Part| part.components == [name.clone()];
        parts.iter().find(is_it).is_some_and(argument::decides)
    };
    let loses_medium = |name: &String| {
        let own = parts.iter().find(|part| part.components == [name.clone()]);
        own.is_none_or(argument::loses_medium_stops)
    };
    let is_shared = |own: &InTurn| match own.loses_all() {
        true => own.components.iter().all(loses_medium),
        false => own.is_exclusive(can(&parts, 1.0, waits)),
    };
    let is_it = |own: &InTurn| is_shared(own) && own.components.iter().any(decides);
    in_turn::of(levels, &[]).into_iter().find(is_it).map(|own| own.components).unwrap_or_default()
}

/// The components that were stopped in turn, of which more such stops may show what is between them.
pub fn open_in_turn(levels: &[&LevelRecord], waits: &Waits) -> Vec<Vec<String>> {
    let parts = parts(levels, &[], Estimate::of(1.0, None));
    let all = in_turn::of(levels, &[]).into_iter();
    all.filter(|own| own.is_open(can(&parts, 1.0, waits))).map(|own| own.components).collect()
}

/// The two components that decide and stop each other, where that is known.
fn coupled(parts: &[Part]) -> Vec<String> {
    let single = parts.iter().filter(|part| part.components.len() == 1);
    let deciding: Vec<&Part> = single.filter(|part| argument::decides(part)).collect();
    let names = || deciding.iter().flat_map(|part| part.components.clone()).collect();
    if argument::stop_each_other(&deciding) { names() } else { Vec::new() }
}

/// The perturbations of the last of some levels whose effect is not known well enough over all of them.
pub fn unsettled(levels: &[&LevelRecord]) -> Vec<Perturbation> {
    let coupled = coupled(&parts(levels, &[], Estimate::of(1.0, None)));
    let effects = effect::of(levels, &[]);
    let is_wide = |perturbation: &Perturbation| {
        let own = effects.iter().find(|effect| {
            let same = (&effect.components, effect.means, effect.stop);
            same == (&perturbation.components, perturbation.means, perturbation.stop)
                && effect.wanted == perturbation.share
        });
        // What surely slows next to nothing, and pairs, decide nothing by a narrower interval.
        let matters = |interval: &Interval| {
            (interval.hi > NOTHING || interval.lo < -NOTHING) && interval.hi - interval.lo > 2.0 * SETTLED
        };
        let large = effects
            .iter()
            .filter(|effect| {
                effect.components == perturbation.components && effect.means == perturbation.means
            })
            .max_by(|a, b| a.wanted.total_cmp(&b.wanted));
        let both = own.zip(large).filter(|(own, large)| own.wanted < large.wanted);
        let decided = both.and_then(|(own, large)| agreed(own, large)?.ci95).map(|[lo, hi]| hi - lo);
        // Who sometimes holds what others need is known by that, and so are those who stop each other.
        let is_known = own.is_some_and(|effect| effect.during_stops.is_sometimes())
            || coupled.iter().any(|name| perturbation.components == [name.clone()]);
        let is_open = match decided {
            Some(width) => width > 2.0 * DECIDED,
            None => own.is_some_and(|own| own.interval.is_none_or(|interval| matters(&interval))),
        };
        perturbation.components.len() <= 1 && !is_known && is_open
    };
    let Some(last) = levels.last() else { return Vec::new() };
    let mut wide: Vec<Perturbation> = Vec::new();
    for perturbation in last.start.blocks().iter().filter_map(|block| block.perturbation.as_ref()) {
        if !wide.contains(perturbation) && is_wide(perturbation) {
            wide.push(perturbation.clone());
        }
    }
    wide
}
