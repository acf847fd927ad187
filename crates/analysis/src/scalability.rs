//! The laws of scalability (Amdahl; Gunther) over the levels of the closed model. Only there is concurrency set, and not a
//! result of the load. It is measured all the same: Little's law gives the operations in flight from throughput and time.

use crate::level::LevelSummary;
use plimsoll_model::{Metric, Validity};
use plimsoll_stats::Interval;
use plimsoll_stats::scaling::{FEWEST, Law, Measured, Parameter, Scaling};
use plimsoll_stats::student;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// A law describes the levels where none is further from it than this share.
const LARGEST_MISFIT: f64 = 0.1;

/// How throughput grows with concurrency.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Scalability {
    /// Which law describes the levels; null where none does.
    pub law: Option<LawName>,
    /// The least and the most operations in flight that were measured, by Little's law.
    pub concurrency: [f64; 2],
    /// Operations per second of one operation in flight alone, λ.
    pub alone: Estimate,
    /// The share of the work in which operations wait for each other, α.
    pub contention: Estimate,
    /// The cost of agreeing between each two operations, β; zero in Amdahl's law.
    pub coherency: Estimate,
    /// The largest distance of a level from the law, as a share of the law's throughput.
    pub misfit: f64,
    /// The concurrency of the highest throughput; null where the measured range has no peak.
    pub peak: Option<f64>,
    /// Operations per second that more concurrency comes near to, λ/α; null where none is known, or throughput has a peak.
    pub ceiling: Option<f64>,
}

/// A law of scalability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LawName {
    /// Contention alone limits throughput (Amdahl, 1967).
    Amdahl,
    /// Contention and coherency limit it (Gunther, 2007).
    Universal,
}

/// A parameter of a law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Estimate {
    /// Its value.
    pub value: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
}

impl From<Parameter> for Estimate {
    fn from(parameter: Parameter) -> Estimate {
        Estimate { value: parameter.value, ci95: [parameter.interval.lo, parameter.interval.hi] }
    }
}

/// The law that describes the levels; `None` outside the closed model, and with too few levels to fit a law to.
pub fn of(levels: &[LevelSummary], seed: u64) -> Option<Scalability> {
    let (wanted, measured): (Vec<u32>, Vec<Measured>) = levels.iter().filter_map(measured).unzip();
    // Holds of one level differ a little in what was measured, and tell nothing of other levels.
    let different: BTreeSet<u32> = wanted.into_iter().collect();
    if different.len() < FEWEST {
        return None;
    }
    let universal = Scaling::fit(Law::Universal, &measured, seed)?;
    // The simpler law, unless the levels say that coherency costs something.
    let (name, fit) = match universal.coherency.interval.lo > 0.0 {
        true => (LawName::Universal, universal),
        false => (LawName::Amdahl, Scaling::fit(Law::Amdahl, &measured, seed)?),
    };
    let describes = fit.misfit <= LARGEST_MISFIT;
    let amounts = || measured.iter().map(|one| one.concurrency);
    let most = amounts().fold(0.0, f64::max);
    // Beyond what was measured, a law is no measurement.
    let peak = fit.peak().filter(|&peak| describes && peak <= most && falls(&measured));
    Some(Scalability {
        law: describes.then_some(name),
        concurrency: [amounts().fold(f64::INFINITY, f64::min), most],
        alone: fit.alone.into(),
        contention: fit.contention.into(),
        coherency: fit.coherency.into(),
        misfit: fit.misfit,
        peak,
        ceiling: fit.ceiling().filter(|_| describes && name == LawName::Amdahl),
    })
}

impl Scalability {
    /// The law's throughput at a concurrency, where a law describes the levels.
    pub fn throughput(&self, concurrency: f64) -> Option<f64> {
        let others = concurrency - 1.0;
        let waiting = self.contention.value * others + self.coherency.value * concurrency * others;
        self.law.map(|_| self.alone.value * concurrency / (1.0 + waiting))
    }
}

/// Whether a level of more concurrency than the best has less throughput beyond doubt: their 95 % intervals lie apart.
fn falls(measured: &[Measured]) -> bool {
    let of = |one: &Measured| Some((one.concurrency, student::mean_interval(&one.throughput)?));
    let all: Vec<(f64, Interval)> = measured.iter().filter_map(of).collect();
    let best = all.iter().max_by(|(_, a), (_, b)| (a.lo + a.hi).total_cmp(&(b.lo + b.hi)));
    best.is_some_and(|(at, best)| all.iter().any(|(more, other)| more > at && other.hi < best.lo))
}

/// How many operations were wanted in flight, and what was measured.
fn measured(level: &LevelSummary) -> Option<(u32, Measured)> {
    let wanted = level.load.in_flight()?;
    let trusted = level.validity == Validity::Valid && level.death.is_none();
    let time = level.times[Metric::PublishTime].mean.filter(|_| trusted)?;
    let throughput: Vec<f64> = level.achieved_samples.iter().copied().flatten().collect();
    Some((wanted, Measured { concurrency: level.achieved? * time, throughput }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_summary::TimeSummary;
    use plimsoll_model::Load;
    use plimsoll_stats::distribution::random;

    /// Levels of a platform of that law, each with as many operations in flight, 3 % of noise in each of 20 samples.
    fn levels(concurrencies: &[u32], law: impl Fn(f64) -> f64) -> Vec<LevelSummary> {
        let mut random = random(7, &[]);
        let mut level = |&count: &u32| {
            let rate = law(f64::from(count));
            let mut level = LevelSummary {
                load: Load::InFlight(count),
                achieved: Some(rate),
                achieved_samples: (0..20).map(|_| Some(rate * (1.0 + 0.03 * random.normal()))).collect(),
                validity: Validity::Valid,
                ..LevelSummary::default()
            };
            level.times[Metric::PublishTime] =
                TimeSummary { mean: Some(f64::from(count) / rate), ..TimeSummary::default() };
            level
        };
        concurrencies.iter().map(&mut level).collect()
    }

    const ALL: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

    #[test]
    fn contention_alone_has_a_ceiling_and_no_peak() {
        let found = of(&levels(&ALL, |n| 1000.0 * n / (1.0 + 0.1 * (n - 1.0))), 1).unwrap();
        assert_eq!((found.law, found.peak), (Some(LawName::Amdahl), None), "{found:?}");
        let [lo, hi] = found.contention.ci95;
        assert!(lo < 0.1 && 0.1 < hi && (found.ceiling.unwrap() / 1e4 - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.concurrency[0] - 1.0).abs() < 1e-9 && (found.concurrency[1] - 64.0).abs() < 1e-9);
    }

    #[test]
    fn coherency_has_its_peak_where_that_was_measured_and_none_beyond() {
        let law = |n: f64| 1000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.002 * n * (n - 1.0));
        let found = of(&levels(&ALL, law), 1).unwrap();
        assert_eq!((found.law, found.ceiling), (Some(LawName::Universal), None), "{found:?}");
        assert!((found.peak.unwrap() - (0.95_f64 / 0.002).sqrt()).abs() < 2.0, "{found:?}");
        assert!((found.throughput(20.0).unwrap() / law(20.0) - 1.0).abs() < 0.03, "{found:?}");
        assert_eq!(of(&levels(&ALL[..5], law), 1).unwrap().peak, None);
    }

    #[test]
    fn a_curve_of_another_kind_follows_no_law() {
        let found = of(&levels(&ALL, |n| if n > 10.0 { 100.0 } else { 1000.0 * n }), 1).unwrap();
        assert_eq!((found.law, found.peak, found.ceiling, found.throughput(4.0)), (None, None, None, None));
    }

    #[test]
    fn open_levels_and_too_few_have_no_law() {
        let mut open = levels(&ALL, |n| 1000.0 * n);
        open.iter_mut().for_each(|level| level.load = Load::Rate(1000.0));
        assert_eq!(of(&open, 1), None);
        assert_eq!(of(&levels(&ALL[..3], |n| 1000.0 * n), 1), None);
        assert_eq!(of(&levels(&[1, 2, 8, 8], |n| 1000.0 * n), 1), None, "one of them was held twice");
    }
}
