//! How much more a platform sustains if the component that limits it gets more capacity: until another component is full, the
//! load line grows with the capacity (the asymptotic bounds of operational analysis; Denning and Buzen, 1978).

use crate::laws::ComponentLaws;
use crate::limits::LimitKind;
use crate::summary::Summary;
use plimsoll_model::Validity;

/// Share of its processors from which on a component is full.
const FULL: f64 = 0.9;
/// Nothing is fuller than this, for what is computed from the rest.
const ALMOST_FULL: f64 = 0.99;
/// Halvings of an interval, each of which adds a binary digit.
const STEPS: usize = 40;

/// What limits a platform, and how full it and the next component are at the load line.
#[derive(Clone, Debug, PartialEq)]
pub struct Headroom {
    /// The component that limits.
    pub component: String,
    /// How full it is at the load line: 1 is all of its capacity.
    pub used: f64,
    /// The fullest of the others; `None` where none uses any processor.
    pub next: Option<NextComponent>,
}

/// The component that is full next.
#[derive(Clone, Debug, PartialEq)]
pub struct NextComponent {
    /// Its name.
    pub component: String,
    /// How full its processors are at the load line.
    pub used: f64,
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
        let laws = |name: &str| summary.laws.iter().find(|laws| laws.component == name);
        let (component, computes) = match summary.limits.first() {
            Some(limit) => {
                (limit.component.clone()?, matches!(limit.kind, LimitKind::Processor | LimitKind::Quota))
            }
            None => (first_full(&summary.laws, line.level)?, true),
        };
        let of_processors = laws(&component).filter(|_| computes).and_then(|laws| used(laws, line.level));
        let used_by_it = of_processors.or_else(|| of_throughput(summary))?;
        let others = summary.laws.iter().filter(|laws| laws.component != component);
        let others = others.filter_map(|laws| {
            Some(NextComponent { component: laws.component.clone(), used: used(laws, line.level)? })
        });
        let next = others.max_by(|one, other| one.used.total_cmp(&other.used));
        Some(Headroom { component, used: used_by_it.clamp(0.01, 1.0), next })
    }

    /// By which factor the load line changes, at least and at most, if a component has so many times its capacity.
    ///
    /// Waits grow with one over what of a server is free. If the capacity is added as servers with a queue each, each is as full
    /// as before; if it serves one queue, as much of it stays free as before, in messages per second. The component that is full
    /// next makes messages wait, too, and takes no more than all of its capacity.
    ///
    /// Nothing is predicted of less capacity of a component that does not limit: it may limit then.
    pub fn predicted(&self, component: &str, factor: f64) -> Option<[f64; 2]> {
        if component != self.component {
            return (factor >= 1.0).then_some([1.0, 1.0]);
        }
        let next = self.next.as_ref().map_or(0.0, |next| next.used);
        let shared = 1.0 + (factor - 1.0) / self.used;
        let (low, high) = (self.with_a_queue_each(factor, next), shared.min(1.0 / next).max(0.0));
        // More never does harm, and less no good.
        Some(if factor >= 1.0 { [low.max(1.0), high.max(1.0)] } else { [low.min(high), factor] })
    }

    /// The load, in load lines, at which messages wait as long as now, if the capacity has a queue for each part of it.
    fn with_a_queue_each(&self, factor: f64, next: f64) -> f64 {
        let now = 1.0 / (1.0 - self.used.min(ALMOST_FULL));
        let waits = |load: f64| {
            let free = (1.0 - load * self.used / factor, 1.0 - load * next);
            // What next adds counts where messages really wait for it.
            if free.0 <= 0.0 || free.1 <= 0.0 { f64::INFINITY } else { 1.0 / free.0 + 1.0 / free.1 - 1.0 }
        };
        let (mut low, mut high) = (0.0, factor / self.used);
        for _ in 0..STEPS {
            let middle = f64::midpoint(low, high);
            if waits(middle) <= now { low = middle } else { high = middle }
        }
        low
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
        let next = next.map(|used| NextComponent { component: "front".into(), used });
        Headroom { component: "store".into(), used, next }
    }

    #[track_caller]
    fn assert_near(found: Option<[f64; 2]>, expected: [f64; 2]) {
        let found = found.unwrap();
        let is_near = |place: usize| (found[place] - expected[place]).abs() < 0.005;
        assert!(is_near(0) && is_near(1), "{found:?} is not {expected:?}");
    }

    #[test]
    fn the_load_line_grows_with_what_limits_until_the_next_component_is_full() {
        // Two servers with a queue each are as full as one was; of two that share one, a fifth of a server stays free.
        assert_near(headroom(0.8, None).predicted("store", 2.0), [2.0, 2.25]);
        // The front has room for twice as much, at most.
        assert_near(headroom(0.8, Some(0.5)).predicted("store", 4.0), [1.56, 2.0]);
        assert_near(headroom(0.8, Some(0.1)).predicted("store", 2.0), [1.97, 2.25]);
    }

    #[test]
    fn less_of_what_limits_lowers_the_load_line_by_more_than_that() {
        assert_near(headroom(0.8, None).predicted("store", 0.5), [0.375, 0.5]);
        // As little as that leaves nothing free.
        assert_near(headroom(0.8, None).predicted("store", 0.1), [0.0, 0.1]);
    }

    #[test]
    fn more_of_what_does_not_limit_changes_nothing() {
        assert_eq!(headroom(0.8, Some(0.5)).predicted("front", 3.0), Some([1.0, 1.0]));
        assert_eq!(headroom(0.8, Some(0.5)).predicted("front", 0.5), None);
    }
}
