//! Bounds of throughput in the closed model, by operational analysis (Denning and Buzen, 1978; Zahorjan, Sevcik, Eager and Galler,
//! Balanced Job Bound Analysis of Queueing Networks, 1982).
//!
//! With N operations in flight, throughput is at most N / R(1), where R(1) is the time of one alone, and at most m/D of any
//! component. Balanced-job bounds are narrower. They hold where operations wait for processors only: each component has one, and
//! the processor time of all components together explains the time of one operation alone.

use crate::laws::{ComponentLaws, DemandCourse};
use crate::level::LevelSummary;
use plimsoll_model::{Metric, Validity};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// The part of the time of an operation alone that processors must explain for balanced-job bounds.
const EXPLAINED: f64 = 0.9;
/// The share by which a measured throughput may pass a bound, which is measured as well.
const SLACK: f64 = 0.02;

/// What bounds throughput.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ClosedBounds {
    /// Mean seconds of one operation alone, R(1).
    pub alone: f64,
    /// Operations per second at any number in flight: the lowest m/D; null where none is known.
    pub most: Option<f64>,
    /// What balanced-job bounds follow from; null where they do not hold.
    pub balanced: Option<Balanced>,
}

/// Seconds for each operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Balanced {
    /// Processor time at the component with the largest demand.
    pub largest: f64,
    /// R(1) divided by the number of components: what each would need if all needed as much.
    pub average: f64,
}

/// The bounds; `None` where no level has a single operation in flight, or where the platform exceeded them: then it does something
/// that they do not describe, such as work in batches.
pub fn of(levels: &[LevelSummary], laws: &[ComponentLaws]) -> Option<ClosedBounds> {
    let is_valid = |level: &&LevelSummary| level.validity == Validity::Valid && level.death.is_none();
    let closed = || levels.iter().filter(is_valid).filter(|level| level.load.in_flight().is_some());
    let single = closed().find(|level| level.load.in_flight() == Some(1))?;
    let alone = single.times[Metric::PublishTime].mean.filter(|&mean| mean > 0.0)?;
    let highest = laws.iter().filter_map(|laws| Some(laws.demand.as_ref()?.bound_interval?[1]));
    let bounds = ClosedBounds { alone, most: highest.reduce(f64::min), balanced: balanced(alone, laws) };
    let exceeds = |level: &LevelSummary, bound: f64| {
        level
            .achieved_interval()
            .map(|[lo, _]| lo)
            .or(level.achieved)
            .is_some_and(|rate| rate > bound * (1.0 + SLACK))
    };
    let amount = |level: &LevelSummary| level.load.amount();
    if closed().any(|level| exceeds(level, bounds.upper(amount(level)))) {
        return None;
    }
    let left = closed().any(|level| {
        let Some([lo, hi]) = bounds.balanced_at(amount(level)) else { return false };
        let highest = level.achieved_interval().map(|[_, hi]| hi).or(level.achieved);
        exceeds(level, hi) || highest.is_some_and(|rate| rate < lo * (1.0 - SLACK))
    });
    Some(ClosedBounds { balanced: bounds.balanced.filter(|_| !left), ..bounds })
}

fn balanced(alone: f64, laws: &[ComponentLaws]) -> Option<Balanced> {
    let demand = |laws: &ComponentLaws| {
        let demand = laws.demand.as_ref().filter(|demand| demand.course == DemandCourse::Constant)?;
        (laws.servers == Some(1.0) && demand.seconds > 0.0).then_some(demand.seconds)
    };
    let demands: Option<Vec<f64>> = laws.iter().map(demand).collect();
    let demands = demands.filter(|demands| !demands.is_empty())?;
    let sum: f64 = demands.iter().sum();
    let explained = sum >= EXPLAINED * alone && sum <= alone / EXPLAINED;
    let largest = demands.iter().copied().fold(0.0, f64::max);
    explained.then(|| Balanced { largest, average: alone / demands.len() as f64 })
}

impl ClosedBounds {
    /// The asymptotic bound with so many operations in flight, in operations per second.
    pub fn upper(&self, in_flight: f64) -> f64 {
        let linear = in_flight / self.alone;
        self.most.map_or(linear, |most| most.min(linear))
    }

    /// Lower and upper balanced-job bound, where they hold.
    pub fn balanced_at(&self, in_flight: f64) -> Option<[f64; 2]> {
        let Balanced { largest, average } = self.balanced?;
        let with = |each: f64| in_flight / (self.alone + (in_flight - 1.0).max(0.0) * each);
        Some([with(largest), with(average).min(1.0 / largest)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::Demand;
    use crate::time_summary::TimeSummary;
    use plimsoll_model::Load;

    fn levels(measured: &[(u32, f64)]) -> Vec<LevelSummary> {
        let level = |&(count, rate): &(u32, f64)| {
            let mut level = LevelSummary {
                load: Load::InFlight(count),
                achieved: Some(rate),
                validity: Validity::Valid,
                ..LevelSummary::default()
            };
            let mean = Some(f64::from(count) / rate);
            level.times[Metric::PublishTime] = TimeSummary { mean, ..TimeSummary::default() };
            level
        };
        measured.iter().map(level).collect()
    }

    fn laws(demands: &[f64], servers: f64) -> Vec<ComponentLaws> {
        let of = |&seconds: &f64| ComponentLaws {
            component: "one".into(),
            servers: Some(servers),
            demand: Some(Demand {
                seconds,
                interval: Some([seconds, seconds]),
                without_load: 0.0,
                course: DemandCourse::Constant,
                bound: Some(servers / seconds),
                bound_interval: Some([servers / seconds; 2]),
            }),
            levels: Vec::new(),
        };
        demands.iter().map(of).collect()
    }

    /// A closed network of stations with these demands has this throughput by mean value analysis (Reiser and Lavenberg, 1980).
    fn mean_value_analysis(demands: &[f64], in_flight: u32) -> f64 {
        let mut queues = vec![0.0; demands.len()];
        let mut rate = 0.0;
        for n in 1..=in_flight {
            let times: Vec<f64> =
                demands.iter().zip(&queues).map(|(demand, queue)| demand * (1.0 + queue)).collect();
            rate = f64::from(n) / times.iter().sum::<f64>();
            queues = times.iter().map(|time| time * rate).collect();
        }
        rate
    }

    #[test]
    fn throughput_of_a_network_lies_within_its_bounds() {
        for demands in [&[0.002, 0.004, 0.001][..], &[0.003, 0.003], &[0.005]] {
            let measured: Vec<(u32, f64)> =
                [1, 2, 4, 8, 16, 32].map(|n| (n, mean_value_analysis(demands, n))).to_vec();
            let bounds = of(&levels(&measured), &laws(demands, 1.0)).unwrap();
            for &(n, rate) in &measured {
                let n = f64::from(n);
                let [lo, hi] = bounds.balanced_at(n).unwrap();
                let slack = 1.0 + 1e-9;
                assert!(
                    lo <= rate * slack && rate <= hi * slack && hi <= bounds.upper(n) * slack,
                    "{n}: {lo} {rate} {hi}"
                );
            }
            let slowest = demands.iter().copied().fold(0.0, f64::max);
            assert!((bounds.upper(1e6) - 1.0 / slowest).abs() < 1e-6);
        }
    }

    #[test]
    fn bounds_that_do_not_hold_are_not_told() {
        let measured = levels(&[(1, 100.0), (4, 390.0)]);
        assert!(of(&measured, &[]).is_some_and(|bounds| bounds.most.is_none() && bounds.balanced.is_none()));
        assert_eq!(of(&levels(&[(1, 100.0), (4, 500.0)]), &[]), None, "it was exceeded");
        assert_eq!(of(&levels(&[(2, 100.0), (4, 200.0)]), &[]), None, "nobody was alone");
        let bounds = |demand: f64, servers| of(&measured, &laws(&[demand], servers)).unwrap();
        assert_eq!(bounds(0.002, 1.0).balanced, None, "most of the time is no processor's");
        assert_eq!(bounds(0.0095, 4.0).balanced, None, "several processors");
    }
}
