//! The laws of operational analysis over what was measured (Denning and Buzen, The Operational Analysis of Queueing Network
//! Models, 1978): how much processor time a component needs for each completed operation (service demand, D = U/X), how full its
//! processors are (utilisation law, U = X·D), and at which rate they would be full (X ≤ m/D).

use crate::level::LevelSummary;
use crate::usage;
use plimsoll_model::Validity;
use plimsoll_model::record::{ComponentUsage, Gauge, LevelStart};
use plimsoll_stats::regression::{self, Point};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// A component was seen at the end of its processors where it used so much of them in one reading.
const FULL: f64 = 0.9;
/// So many readings must show it: one alone may be of another time than the count of threads.
const READINGS: usize = 3;
/// The sampler and the quantity that say how many threads wanted a processor at once.
const RUNNABLE: (&str, &str) = ("threads", "runnable threads");
/// The sampler and the quantity that say how many processors its control group lets a component use.
const QUOTA: (&str, &str) = ("cgroup", "quota");

/// What the laws say of one component.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ComponentLaws {
    /// Its name.
    pub component: String,
    /// Processors that it can use at once: those that it may run on, or fewer where its control group has a quota, or where it was
    /// seen at its end with fewer threads.
    pub servers: Option<f64>,
    /// Its service demand; null where fewer than two levels of different rates can be compared.
    pub demand: Option<Demand>,
    /// What it did in each level.
    pub levels: Vec<ComponentLevel>,
}

/// The processor time that a component needs for each operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Demand {
    /// Processor seconds of one more operation: the slope of busy time over completions.
    pub seconds: f64,
    /// Its 95 % interval; null with fewer than three levels.
    pub interval: Option<[f64; 2]>,
    /// Processors that it uses without load: where the line meets zero.
    pub without_load: f64,
    /// Whether one more operation costs as much at any rate.
    pub course: DemandCourse,
    /// Operations per second at which its processors are full, m/D; null where demand is not constant, none was seen, or the
    /// platform exceeded it.
    pub bound: Option<f64>,
    /// The 95 % interval of the bound, from that of the demand.
    pub bound_interval: Option<[f64; 2]>,
}

/// How the demand depends on the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DemandCourse {
    /// No change was seen: the curvature may be zero.
    Constant,
    /// An operation costs more at higher rates.
    Grows,
    /// An operation costs less at higher rates, as with larger batches.
    Falls,
    /// Fewer than four levels: not known.
    Unknown,
}

/// A component in one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ComponentLevel {
    /// The level's number within the run.
    pub level: u16,
    /// Operations per second that the platform completed.
    pub rate: f64,
    /// Processors that it used.
    pub used: f64,
    /// The share of what it can use at once; null where that is not known.
    pub utilisation: Option<f64>,
}

/// For each component that was observed, by name.
pub fn of(
    levels: &[(&LevelStart, &LevelSummary)],
    components: &[ComponentUsage],
    gauges: &[Gauge],
) -> Vec<ComponentLaws> {
    let of = |name: &str| of_component(name, levels, components, gauges);
    usage::names(components).into_iter().map(of).filter(|laws| !laws.levels.is_empty()).collect()
}

fn of_component(
    name: &str,
    levels: &[(&LevelStart, &LevelSummary)],
    components: &[ComponentUsage],
    gauges: &[Gauge],
) -> ComponentLaws {
    let servers = servers(name, components, gauges);
    let mut points = Vec::new();
    let mut seen = Vec::new();
    for (start, level) in levels {
        let used = usage::share(components, name, &usage::hold(start), |usage| Some(usage.cpu));
        let Some((used, rate)) = used.zip(level.achieved).filter(|_| level.death.is_none()) else { continue };
        let utilisation = servers.map(|servers| used / servers);
        seen.push(ComponentLevel { level: level.index, rate, used, utilisation });
        // What a hiccup of ours or of the host distorted says nothing of the component.
        if level.validity == Validity::Valid || level.validity == Validity::GeneratorBound {
            points.push(Point { x: rate, y: used, weight: level.hold });
        }
    }
    ComponentLaws { component: name.to_owned(), servers, demand: Demand::of(&points, servers), levels: seen }
}

impl Demand {
    fn of(points: &[Point], servers: Option<f64>) -> Option<Demand> {
        let line = regression::line(points)?;
        let course = match regression::curvature(points) {
            None => DemandCourse::Unknown,
            Some(bend) if bend.lo > 0.0 => DemandCourse::Grows,
            Some(bend) if bend.hi < 0.0 => DemandCourse::Falls,
            Some(_) => DemandCourse::Constant,
        };
        let free = servers.map(|servers| servers - line.intercept.max(0.0)).filter(|&free| free > 0.0);
        let bound = |slope: f64| Some(free? / slope).filter(|_| slope > 0.0);
        let straight = matches!(course, DemandCourse::Constant);
        let interval = line.slope_interval.map(|interval| [interval.lo, interval.hi]);
        // A demand that may be zero bounds nothing.
        let certain = interval.is_some_and(|[lo, _]| lo > 0.0) && straight;
        let bounds = interval.and_then(|[lo, hi]| Some([bound(hi)?, bound(lo)?]));
        // A bound that was exceeded is none: the component can do something that the line does not show.
        let most = points.iter().map(|point| point.x).fold(0.0, f64::max);
        let certain = certain && bounds.is_some_and(|[_, highest]| highest >= most);
        Some(Demand {
            seconds: line.slope,
            interval,
            without_load: line.intercept,
            course,
            bound: bound(line.slope).filter(|_| certain),
            bound_interval: bounds.filter(|_| certain),
        })
    }
}

/// Processors that a component can use at once. One that was seen with all its runnable threads busy cannot use more than these;
/// of any other it is only known where it may run, and how much its control group lets it.
fn servers(name: &str, components: &[ComponentUsage], gauges: &[Gauge]) -> Option<f64> {
    let own = || components.iter().filter(|usage| usage.component == name);
    let processors = own().filter_map(|usage| usage.processors).max().map(f64::from)?;
    let of = |(sampler, quantity): (&'static str, &'static str)| {
        let is_it = move |gauge: &&Gauge| gauge.sampler == sampler && gauge.quantity == quantity;
        gauges.iter().filter(move |gauge| gauge.subject == name).filter(is_it).map(|gauge| gauge.value)
    };
    let threads = of(RUNNABLE).fold(0.0, f64::max);
    // One that was changed meanwhile was at least so large at some time.
    let quota = of(QUOTA).reduce(f64::max).filter(|quota| *quota > 0.0);
    let processors = quota.map_or(processors, |quota| quota.min(processors));
    let read = own().filter(|usage| usage.window.0 > 0);
    let used: Vec<f64> = read.map(|usage| usage.cpu.as_secs_f64() / usage.window.as_secs_f64()).collect();
    let most = used.iter().copied().fold(0.0, f64::max);
    // Readings of runnable threads are moments: more may have been used in between.
    let at_end = used.iter().filter(|used| **used >= FULL * threads).count() >= READINGS;
    let full = threads >= 1.0 && threads < processors && at_end;
    Some(if full { threads.max(most.ceil()).min(processors) } else { processors })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::tests::Levels;
    use plimsoll_model::Nanos;

    fn laws(levels: &[(f64, f64)], processors: u16, runnable: Option<f64>) -> ComponentLaws {
        of_gauges(
            levels,
            processors,
            &runnable.map(|value| (RUNNABLE, value)).into_iter().collect::<Vec<_>>(),
        )
    }

    fn of_gauges(levels: &[(f64, f64)], processors: u16, gauges: &[((&str, &str), f64)]) -> ComponentLaws {
        let Levels { starts, summaries, components } = Levels::of_broker(levels, processors);
        let gauge = |&((sampler, quantity), value): &((&str, &str), f64)| Gauge {
            at: Nanos::from_secs(5),
            sampler: sampler.into(),
            subject: "broker".into(),
            quantity: quantity.into(),
            unit: "count".into(),
            value,
        };
        let gauges: Vec<Gauge> = gauges.iter().map(gauge).collect();
        let pairs: Vec<_> = starts.iter().zip(&summaries).collect();
        of(&pairs, &components, &gauges).pop().unwrap()
    }

    #[test]
    fn demand_is_the_slope_and_the_bound_is_what_is_left_by_it() {
        let found = laws(&[(100.0, 0.15), (200.0, 0.25), (400.0, 0.45), (500.0, 0.55)], 1, None);
        let demand = found.demand.unwrap();
        assert!(
            (demand.seconds - 1e-3).abs() < 1e-9 && (demand.without_load - 0.05).abs() < 1e-9,
            "{demand:?}"
        );
        assert_eq!(demand.course, DemandCourse::Constant);
        assert!((demand.bound.unwrap() - 950.0).abs() < 1e-3, "{demand:?}");
        let utilisation: Vec<f64> = found.levels.iter().filter_map(|level| level.utilisation).collect();
        assert_eq!(utilisation, [0.15, 0.25, 0.45, 0.55]);
    }

    #[test]
    fn one_thread_on_two_processors_has_one_server() {
        let levels = [(100.0, 0.2), (200.0, 0.4), (460.0, 0.92), (470.0, 0.94), (480.0, 0.96)];
        let one = laws(&levels, 2, Some(1.0));
        assert_eq!(one.servers, Some(1.0));
        assert!((one.demand.unwrap().bound.unwrap() - 500.0).abs() < 1e-3);
        assert_eq!(laws(&levels[..4], 2, Some(1.0)).servers, Some(2.0), "it was hardly seen at its end");
        assert_eq!(laws(&levels, 2, None).servers, Some(2.0));
    }

    #[test]
    fn a_quota_is_what_it_can_use() {
        let levels = [(100.0, 0.1), (200.0, 0.2), (300.0, 0.3), (400.0, 0.4)];
        let half = of_gauges(&levels, 2, &[(QUOTA, 0.5), (RUNNABLE, 1.0)]);
        assert_eq!(half.servers, Some(0.5));
        assert!((half.demand.unwrap().bound.unwrap() - 500.0).abs() < 1e-3);
        assert_eq!(of_gauges(&levels, 2, &[(QUOTA, 8.0)]).servers, Some(2.0), "more than there are");
    }

    /// Seven processors' worth of work on one that was seen full: more is done at the same use, as where waiting is counted
    /// as work.
    #[test]
    fn a_bound_that_was_exceeded_is_not_told() {
        let flat = [(100.0, 0.3), (200.0, 0.6), (300.0, 0.9), (800.0, 0.99), (900.0, 0.99)];
        let found = laws(&flat, 1, None).demand.unwrap();
        assert_eq!((found.bound, found.bound_interval), (None, None), "{found:?}");
    }

    #[test]
    fn a_demand_that_grows_has_no_bound_by_a_straight_line() {
        let bent: Vec<(f64, f64)> =
            [100.0, 200.0, 300.0, 400.0, 500.0].map(|x| (x, 1e-4 * x + 1e-6 * x * x)).to_vec();
        let demand = laws(&bent, 1, None).demand.unwrap();
        assert_eq!((demand.course, demand.bound), (DemandCourse::Grows, None));
        let few = laws(&bent[..2], 1, None).demand.unwrap();
        assert_eq!((few.course, few.interval, few.bound), (DemandCourse::Unknown, None, None));
        assert_eq!(laws(&bent[..1], 1, None).demand, None);
    }
}
