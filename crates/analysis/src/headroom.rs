//! How much more a platform sustains if the component that limits it gets more capacity, by the asymptotic bounds of operational
//! analysis (Denning and Buzen, 1978): until another component is full, the load line grows with the capacity.

use crate::laws::ComponentLaws;
use crate::limits::LimitKind;
use crate::summary::Summary;
use plimsoll_model::Validity;

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

impl Headroom {
    /// That of a run; `None` without a load line, and where no single component is known to limit.
    pub fn of(summary: &Summary) -> Option<Headroom> {
        let line = summary.load_line.as_ref()?;
        let limit = summary.limits.first()?;
        let component = limit.component.clone()?;
        let laws = |name: &str| summary.laws.iter().find(|laws| laws.component == name);
        let computes = matches!(limit.kind, LimitKind::Processor | LimitKind::Quota);
        let of_processors = laws(&component).filter(|_| computes).and_then(|laws| used(laws, line.level));
        let used_by_it = of_processors.or_else(|| of_throughput(summary))?;
        let others = summary.laws.iter().filter(|laws| laws.component != component);
        let others = others.filter_map(|laws| {
            Some(NextComponent { component: laws.component.clone(), used: used(laws, line.level)? })
        });
        let next = others.max_by(|one, other| one.used.total_cmp(&other.used));
        Some(Headroom { component, used: used_by_it.clamp(0.01, 1.0), next })
    }

    /// By which factor the load line changes, at least and at most, if a component has so many times its capacity. At least: the
    /// component that then limits is as full as what limits now. At most: it is full.
    ///
    /// Nothing is predicted of less capacity of a component that does not limit: it may limit then.
    pub fn predicted(&self, component: &str, factor: f64) -> Option<[f64; 2]> {
        if component != self.component {
            return (factor >= 1.0).then_some([1.0, 1.0]);
        }
        let next = self.next.as_ref().map_or(f64::INFINITY, |next| 1.0 / next.used);
        Some([factor.min(next * self.used), (factor / self.used).min(next)])
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

    #[test]
    fn the_load_line_grows_with_what_limits_until_the_next_component_is_full() {
        assert_eq!(headroom(0.8, None).predicted("store", 2.0), Some([2.0, 2.5]));
        assert_eq!(headroom(0.8, Some(0.1)).predicted("store", 2.0), Some([2.0, 2.5]));
        // The front has room for twice as much, and for 1.6 times as much if it is to be as full as the store was.
        assert_eq!(headroom(0.8, Some(0.5)).predicted("store", 4.0), Some([1.6, 2.0]));
        assert_eq!(headroom(0.8, Some(0.5)).predicted("store", 0.5), Some([0.5, 0.625]));
    }

    #[test]
    fn more_of_what_does_not_limit_changes_nothing() {
        assert_eq!(headroom(0.8, Some(0.5)).predicted("front", 3.0), Some([1.0, 1.0]));
        assert_eq!(headroom(0.8, Some(0.5)).predicted("front", 0.5), None);
    }
}
