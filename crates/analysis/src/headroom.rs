//! How much more a platform sustains if the component that limits it gets more capacity: until another component is full, the
//! load line grows with the capacity (the asymptotic bounds of operational analysis; Denning and Buzen, 1978).

use crate::experiment::{Experiment, Part};
use crate::laws::ComponentLaws;
use crate::limits::LimitKind;
use crate::load_line::LoadLine;
use crate::summary::Summary;
use plimsoll_model::Validity;

/// Share of its processors from which on a component is full.
const FULL: f64 = 0.9;
/// Nothing is fuller than this, for what is computed from the rest.
const ALMOST_FULL: f64 = 0.99;
/// Halvings of an interval, each of which adds a binary digit.
const STEPS: usize = 40;

/// What limits a platform, and how full it and the other components are at the load line.
#[derive(Clone, Debug, PartialEq)]
pub struct Headroom {
    /// The component that limits.
    pub component: String,
    /// How full it is at the load line: 1 is all of its capacity.
    pub used: f64,
    /// The others of which that is known, the fullest first.
    pub others: Vec<OtherComponent>,
}

/// A component that does not limit.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherComponent {
    /// Its name.
    pub component: String,
    /// How full its processors are at the load line, or how near it is to what an experiment found that it allows.
    pub used: f64,
    /// How full it is at most; `None` where nobody slowed it. It may then wait for something that its processors do not show.
    pub at_most: Option<f64>,
}

/// What is predicted of other capacities.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The load line at least and at most, in present ones.
    pub ratio: [f64; 2],
    /// The component that limits then, as far as all of them are known.
    pub limited_by: String,
}

/// How full a component is at a level.
fn used(laws: &ComponentLaws, level: u16) -> Option<f64> {
    laws.levels.iter().find(|own| own.level == level)?.utilisation.filter(|used| *used > 0.0)
}

/// The component that was full at the lowest load at which any was, if it was so alone, and is the fullest at the level of the
/// load line.
fn first_full(laws: &[ComponentLaws], level: u16) -> Option<String> {
    let full = laws.iter().flat_map(|own| own.levels.iter().map(move |at| (own, at)));
    let mut full: Vec<_> = full.filter(|(_, at)| at.utilisation.is_some_and(|used| used >= FULL)).collect();
    full.sort_by(|(_, one), (_, other)| one.rate.total_cmp(&other.rate));
    let (one, lowest) = *full.first()?;
    let is_other = |own: &ComponentLaws| own.component != one.component;
    let is_alone = full.iter().all(|(own, at)| !is_other(own) || at.level != lowest.level);
    let at_line = used(one, level)?;
    let mut others = laws.iter().filter(|own| is_other(own)).filter_map(|own| used(own, level));
    (is_alone && others.all(|other| other < at_line)).then(|| one.component.clone())
}

impl Headroom {
    /// That of a run; `None` without a load line, and where no single component is known to limit. Where blame names none, it is
    /// the one that was full first as the load rose.
    pub fn of(summary: &Summary) -> Option<Headroom> {
        let line = summary.load_line.as_ref()?;
        match summary.limits.first() {
            Some(limit) => {
                let computes = matches!(limit.kind, LimitKind::Processor | LimitKind::Quota);
                Headroom::where_limits(limit.component.clone()?, Some(computes), summary)
            }
            None => Headroom::where_limits(first_full(&summary.laws, line.level)?, Some(true), summary),
        }
    }

    /// The same where another run, or the user, says which component limits, and whether it computes meanwhile. `None` where nobody
    /// says that: then it does if any level saw it full, since what limits is full beyond the load line.
    pub fn where_limits(component: String, computes: Option<bool>, summary: &Summary) -> Option<Headroom> {
        let line = summary.load_line.as_ref()?;
        let laws = summary.laws.iter().find(|laws| laws.component == component);
        let of_processors = || laws.and_then(|laws| used(laws, line.level));
        let was_full = || {
            laws.is_some_and(|laws| {
                laws.levels.iter().any(|at| at.utilisation.is_some_and(|own| own >= FULL))
            })
        };
        let used_by_it = match computes {
            Some(true) => of_processors().or_else(|| of_throughput(summary))?,
            Some(false) => of_throughput(summary)?,
            None if was_full() => of_processors()?,
            None => of_throughput(summary).or_else(of_processors)?,
        };
        let others = summary.laws.iter().filter(|laws| laws.component != component);
        let others = others.filter_map(|laws| OtherComponent::of(laws, line, summary.experiment.as_ref()));
        let mut others: Vec<OtherComponent> = others.collect();
        others.sort_by(|one, other| other.used.total_cmp(&one.used));
        Some(Headroom { component, used: used_by_it.clamp(0.01, 1.0), others })
    }

    /// By which factor the load line changes, at least and at most, if components have so many times their capacity.
    ///
    /// Waits grow with one over what of a server is free. If the capacity is added as servers with a queue each, each is as full
    /// as before; if it serves one queue, as much of it stays free as before, in messages per second. Components that are full
    /// next make messages wait, too, and take no more than all of their capacity.
    ///
    /// Nothing is predicted of less capacity of a component that does not limit: it may limit then.
    pub fn predicted(&self, factors: &[(&str, f64)]) -> Option<Prediction> {
        let factor_of = |name: &str| {
            factors.iter().filter(|(component, _)| *component == name).map(|(_, factor)| factor).product()
        };
        let factor: f64 = factor_of(&self.component);
        let others: Vec<f64> = self.others.iter().map(|other| factor_of(&other.component)).collect();
        let is_less = |(name, factor): &(&str, f64)| *name != self.component && *factor < 1.0;
        if factors.iter().any(is_less) {
            return None;
        }
        let others = || self.others.iter().zip(&others);
        let full = self.used / factor;
        let limited_by = others()
            .map(|(other, factor)| (other, other.used / factor))
            .filter(|(_, used)| *used > full)
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
            .map_or(&self.component, |(other, _)| &other.component);
        let most: Vec<f64> = others().map(|(other, factor)| other.most() / factor).collect();
        let low = self.with_a_queue_each(factor, &most);
        let room = others().map(|(other, factor)| factor / other.used).fold(f64::INFINITY, f64::min);
        let high = (1.0 + (factor - 1.0) / self.used).min(room).max(0.0);
        // More never does harm, and less no good.
        let ratio = match factor {
            more if more > 1.0 => [low.max(1.0), high.max(1.0)],
            less if less < 1.0 => [low.min(high), less],
            _ => [1.0, 1.0],
        };
        Some(Prediction { ratio, limited_by: limited_by.clone() })
    }

    /// The load, in load lines, at which messages wait as long as now, if the capacity has a queue for each part of it, while the
    /// others are so full at the present load line.
    fn with_a_queue_each(&self, factor: f64, others: &[f64]) -> f64 {
        let now = 1.0 / (1.0 - self.used.min(ALMOST_FULL));
        // What others add counts where messages really wait for them.
        let added = |load: f64, used: f64| {
            let free = 1.0 - load * used;
            if free <= 0.0 { f64::INFINITY } else { 1.0 / free - 1.0 }
        };
        let waits = |load: f64| {
            1.0 + added(load, self.used / factor) + others.iter().map(|used| added(load, *used)).sum::<f64>()
        };
        let (mut low, mut high) = (0.0, factor / self.used);
        for _ in 0..STEPS {
            let middle = f64::midpoint(low, high);
            if waits(middle) <= now { low = middle } else { high = middle }
        }
        low
    }
}

impl OtherComponent {
    /// A component at the level of the load line; `None` where it used no processor there and nobody slowed it.
    fn of(laws: &ComponentLaws, line: &LoadLine, experiment: Option<&Experiment>) -> Option<OtherComponent> {
        let is_it = |part: &&Part| part.components == [laws.component.as_str()];
        let part = experiment.and_then(|experiment| experiment.parts.iter().find(is_it));
        let rate = line.rate.filter(|rate| *rate > 0.0);
        let of = |allowed: f64| rate.filter(|_| allowed > 0.0).map(|rate| (rate / allowed).min(1.0));
        let allowed = part.and_then(|part| of(part.capacity?.mean));
        let used = [used(laws, line.level), allowed].into_iter().flatten().reduce(f64::max);
        let at_most = part.and_then(|part| of(part.at_least));
        let used = used.or(at_most.map(|_| 0.0))?;
        Some(OtherComponent {
            component: laws.component.clone(),
            used,
            at_most: at_most.map(|most| most.max(used)),
        })
    }

    /// How full it is, as far as is known.
    fn most(&self) -> f64 {
        self.at_most.unwrap_or(self.used)
    }
}

/// How near a load line is to the most that the platform did at any load.
fn of_throughput(summary: &Summary) -> Option<f64> {
    let valid = summary.levels.iter().filter(|level| level.validity == Validity::Valid);
    let most = valid.filter_map(|level| level.achieved).fold(0.0, f64::max);
    let line = summary.load_line.as_ref()?.rate?;
    (most > 0.0).then(|| line / most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headroom(used: f64, next: Option<f64>) -> Headroom {
        let other = |used| OtherComponent { component: "front".into(), used, at_most: None };
        Headroom { component: "store".into(), used, others: next.map(other).into_iter().collect() }
    }

    #[track_caller]
    fn assert_near(headroom: &Headroom, factor: f64, expected: [f64; 2]) {
        let found = headroom.predicted(&[("store", factor)]).unwrap().ratio;
        let is_near = |place: usize| (found[place] - expected[place]).abs() < 0.005;
        assert!(is_near(0) && is_near(1), "{found:?} is not {expected:?}");
    }

    #[test]
    fn the_load_line_grows_with_what_limits_until_the_next_component_is_full() {
        // Two servers with a queue each are as full as one was; of two that share one, a fifth of a server stays free.
        assert_near(&headroom(0.8, None), 2.0, [2.0, 2.25]);
        // The front has room for twice as much, at most.
        assert_near(&headroom(0.8, Some(0.5)), 4.0, [1.56, 2.0]);
        assert_near(&headroom(0.8, Some(0.1)), 2.0, [1.97, 2.25]);
    }

    #[test]
    fn less_of_what_limits_lowers_the_load_line_by_more_than_that() {
        assert_near(&headroom(0.8, None), 0.5, [0.375, 0.5]);
        // As little as that leaves nothing free.
        assert_near(&headroom(0.8, None), 0.1, [0.0, 0.1]);
    }

    #[test]
    fn more_of_what_does_not_limit_changes_nothing() {
        let ratio = |factor: f64| {
            headroom(0.8, Some(0.5)).predicted(&[("front", factor)]).map(|prediction| prediction.ratio)
        };
        assert_eq!(ratio(3.0), Some([1.0, 1.0]));
        assert_eq!(ratio(0.5), None);
    }

    /// With twice the store, the front limits; with twice of both, the store does again.
    #[test]
    fn several_changes_count_together_and_say_what_limits_then() {
        let headroom = headroom(0.8, Some(0.5));
        let of = |factors: &[(&str, f64)]| headroom.predicted(factors).unwrap();
        assert_eq!(of(&[]), Prediction { ratio: [1.0, 1.0], limited_by: "store".into() });
        assert_eq!(of(&[("store", 2.0)]).limited_by, "front");
        let both = of(&[("store", 2.0), ("front", 2.0)]);
        assert_eq!((both.limited_by.as_str(), both.ratio[1]), ("store", 2.25));
        assert!(both.ratio[0] > of(&[("store", 2.0)]).ratio[0]);
    }

    /// Servers that sleep are full while their processors are not: what they did at most says how full they were.
    #[test]
    fn who_limits_without_a_full_processor_is_as_full_as_its_throughput() {
        use crate::laws::ComponentLevel;
        use crate::level::LevelSummary;
        let level = |index: u16, achieved| LevelSummary {
            index,
            achieved: Some(achieved),
            ..LevelSummary::default()
        };
        let line = LoadLine {
            rate: Some(180.0),
            devices: None,
            connect_rate: None,
            level: 1,
            at_least: false,
            below: Some(190.0),
            at_most: None,
            limited_by: None,
            next_level: None,
        };
        let of = |utilisations: [f64; 2], computes: Option<bool>| {
            let at = |(index, used): (u16, f64)| ComponentLevel {
                level: index,
                rate: 180.0,
                used,
                utilisation: Some(used),
            };
            let laws = ComponentLaws {
                component: "store".into(),
                servers: Some(1.0),
                demand: None,
                levels: (1..).zip(utilisations).map(at).collect(),
            };
            let summary = Summary {
                load_line: Some(line.clone()),
                levels: vec![level(1, 180.0), level(2, 200.0)],
                laws: vec![laws],
                ..crate::summarize(&plimsoll_model::record::RunRecord::default())
            };
            Headroom::where_limits("store".into(), computes, &summary).map(|found| found.used)
        };
        assert_eq!(of([0.02, 0.03], None), Some(0.9));
        assert_eq!(of([0.85, 0.97], None), Some(0.85));
        assert_eq!(of([0.02, 0.03], Some(true)), Some(0.02));
        assert_eq!(of([0.85, 0.97], Some(false)), Some(0.9));
    }

    /// What an experiment found bounds a component that hardly computes.
    #[test]
    fn what_may_be_full_lowers_the_least_and_not_the_most() {
        let mut headroom = headroom(0.8, Some(0.02));
        let before = headroom.predicted(&[("store", 2.0)]).unwrap().ratio;
        headroom.others[0].at_most = Some(0.6);
        let after = headroom.predicted(&[("store", 2.0)]).unwrap().ratio;
        assert!(after[0] < before[0] - 0.2 && after[1] == before[1], "{before:?} {after:?}");
    }
}
