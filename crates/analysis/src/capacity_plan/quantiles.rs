//! Times at a load that nobody ran, by simulation of what limits: a queue before workers. Beside its wait, a message takes what it took
//! at a low load; or its service there, and all else takes equally long for each. Which of both it is, how many workers there are and
//! how their service times vary follows from the levels that were run: their quantiles must be reproduced, or nothing is predicted.

use crate::level::LevelSummary;
use crate::summary::Summary;
use plimsoll_model::objective::{Comparison, Objective, Subject};
use plimsoll_model::record::{LevelRecord, RunRecord};
use plimsoll_model::text::grouped;
use plimsoll_model::{Histogram, Metric, Nanos, Validity};
use plimsoll_stats::distribution::{InterArrival, Random, random};
use plimsoll_stats::queue::{Queue, Service, ServiceTime, Settings};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// The quantiles that are predicted.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];
/// A level shows what messages take without waits where what limits is no fuller than that.
const FREE: f64 = 0.25;
/// Fuller than that, a queue needs longer than a level lasts until its waits are those of its load.
const FULL: f64 = 0.95;
/// Other components may be so full: their own waits are not simulated.
pub(super) const OTHERS: f64 = 0.6;
/// A queue whose quantiles are further from those of the levels, in logarithms, does not describe the platform.
const MISFIT: f64 = 0.25;
/// So many times that distance, a quantile is hardly ever away.
const SURELY: f64 = 2.0;
/// No quantile is known to better than that.
const LEAST_MISFIT: f64 = 0.05;
/// Levels are compared up to that: within their hold, fuller ones do not show their waits well.
const COMPARABLE: f64 = 0.85;
/// Messages that a level must have so that it is compared, and beyond a quantile so that this is.
const ENOUGH: u64 = 500;
const BEYOND: f64 = 10.0;
/// Levels that are compared at least, the one that shows what messages take without waits among them.
const COMPARED: usize = 2;
/// Messages of a simulation, and those at its beginning that do not count.
const MESSAGES: usize = 60_000;
const FILLING: usize = 5_000;
/// Workers and variations of service times (standard deviation by mean) that are tried.
const WORKERS: [usize; 7] = [1, 2, 3, 4, 8, 16, 32];
const VARIATIONS: [f64; 4] = [0.0, 0.5, 1.0, 2.0];
/// Names the streams of random numbers: of gaps, and of times without waits.
const GAPS: u64 = 0x706c_616e_0000_0000;
const FREE_TIMES: u64 = 0x706c_616e_0000_0001;

/// What is predicted of times at a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct TimesAt {
    /// Operations per second.
    pub rate: f64,
    /// Which time, such as `publish time`.
    pub time: String,
    /// Its quantiles.
    pub quantiles: Vec<PredictedQuantile>,
    /// Workers of what limits, as the levels show it.
    pub workers: usize,
    /// Standard deviation of their service times by the mean, as the levels show it.
    pub variation: f64,
    /// By which factor the quantiles may be wrong: twice the distance of simulated ones from those of the levels that were run.
    pub misfit: f64,
    /// Whether the objectives about these quantiles are met: both ends say so; null where the ends say different things, or no objective
    /// is about them.
    pub is_within: Option<bool>,
}

/// A quantile of a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PredictedQuantile {
    /// The share of messages that take no longer.
    pub share: f64,
    /// Seconds at least: added servers take messages from one queue.
    pub least: f64,
    /// Seconds at most: each added server has a queue of its own.
    pub most: f64,
}

/// What limits, as a queue that reproduces the levels of a run.
#[derive(Clone)]
pub struct Model {
    metric: Metric,
    beside: Beside,
    /// Operations per second that it can do.
    capacity: f64,
    workers: usize,
    variation: f64,
    /// The distance of its quantiles from those that were measured, in logarithms: the root of the mean square.
    misfit: f64,
    /// What a level must meet.
    objectives: Vec<Objective>,
}

/// What a message takes beside its wait.
#[derive(Clone)]
enum Beside {
    /// What it took at a low load.
    Measured(Histogram),
    /// Its service, and so many seconds.
    Service(f64),
}

impl Model {
    /// The queue that is nearest to the levels of some runs, of which `limiting` limits. It can do so many operations per second.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub fn of(runs: &[(&RunRecord, &Summary)], limiting: &str, capacity: f64) -> Result<Model, String> {
        let metric =
            runs.first().map(|(record, _)| record.terms.leading_time()).unwrap_or(Metric::PublishTime);
        let levels = levels(runs, metric);
        let fullness = |rate: f64| rate / capacity;
        let free = levels.iter().filter(|(rate, _)| fullness(*rate) <= FREE);
        let free = free.max_by(|(one, _), (other, _)| one.total_cmp(other)).ok_or_else(|| {
            format!(
                "times are predicted from a level with {} messages at {}/s or less, where {} makes nobody wait",
                grouped(ENOUGH as f64),
                grouped((capacity * FREE).floor()),
                limiting
            )
        })?;
        let compared: Vec<&(f64, Histogram)> =
            levels.iter().filter(|(rate, _)| *rate >= free.0 && fullness(*rate) <= COMPARABLE).collect();
        if compared.len() < COMPARED {
            return Err(format!(
                "times are predicted from {COMPARED} levels up to {}/s, and there are {}",
                grouped((capacity * COMPARABLE).floor()),
                compared.len()
            ));
        }
        let objectives = runs.first().map(|(record, _)| record.terms.objectives.level.clone());
        let objectives = objectives.unwrap_or_default();
        let candidates = WORKERS.iter().flat_map(|workers| VARIATIONS.map(|variation| (*workers, variation)));
        let models = candidates.flat_map(|(workers, variation)| {
            let beside = Beside::Measured(free.1.clone());
            let objectives = objectives.clone();
            let measured = Model { metric, beside, capacity, workers, variation, misfit: 0.0, objectives };
            let service = Model { beside: Beside::Service(0.0), ..measured.clone() };
            let rest = free.1.mean().unwrap_or_default()
                - service.run(free.0, workers, 1.0).mean().unwrap_or_default();
            [measured, Model { beside: Beside::Service(rest.max(0.0)), ..service }]
        });
        let models = models.map(|model| {
            let workers = model.workers;
            let distances = compared.iter().flat_map(|(rate, seen)| {
                let found = model.simulated(*rate, workers, 1.0);
                let is_known = |share: f64| seen.count() as f64 * (1.0 - share) >= BEYOND;
                QUANTILES.into_iter().zip(found).filter(move |(share, _)| is_known(*share)).filter_map(
                    |(share, found)| {
                        let seen = seen.quantile(share)?.as_secs_f64();
                        (seen > 0.0 && found > 0.0).then(|| (found / seen).ln())
                    },
                )
            });
            let distances: Vec<f64> = distances.collect();
            let squares = distances.iter().map(|distance| distance * distance).sum::<f64>();
            Model { misfit: (squares / distances.len().max(1) as f64).sqrt(), ..model }
        });
        let best = models.min_by(|one, other| one.misfit.total_cmp(&other.misfit));
        best.filter(|model| model.misfit <= MISFIT).ok_or_else(|| {
            "no queue reproduces the times of the levels that were run, so none are predicted".to_owned()
        })
    }

    /// Times at a load, if what limits has so many times its capacity.
    ///
    /// # Errors
    /// Why they are not known, for people.
    pub fn at(&self, rate: f64, factor: f64, limiting: &str) -> Result<TimesAt, String> {
        if rate > self.capacity * factor * FULL {
            return Err(format!("at {}/s, {limiting} is full, and waits have no end", grouped(rate)));
        }
        let is_whole = factor.fract() == 0.0;
        let [one_queue, queues] = match is_whole {
            true => [
                self.simulated(rate, self.workers * factor as usize, 1.0),
                self.simulated(rate / factor, self.workers, 1.0),
            ],
            // Not more servers, but faster ones.
            false => [self.simulated(rate, self.workers, factor), self.simulated(rate, self.workers, factor)],
        };
        let misfit = (self.misfit * SURELY).max(LEAST_MISFIT).exp();
        let quantiles = QUANTILES.into_iter().zip(one_queue.into_iter().zip(queues));
        let quantiles: Vec<PredictedQuantile> = quantiles
            .map(|(share, (one, other))| PredictedQuantile {
                share,
                least: one.min(other) / misfit,
                most: one.max(other) * misfit,
            })
            .collect();
        Ok(TimesAt {
            rate,
            time: self.metric.name().replace('_', " "),
            is_within: self.is_within(&quantiles),
            quantiles,
            workers: self.workers,
            variation: self.variation,
            misfit,
        })
    }

    /// Whether the objectives about some quantiles are met; `None` where that is open, or none is about them.
    fn is_within(&self, quantiles: &[PredictedQuantile]) -> Option<bool> {
        let is_upper = |own: &&Objective| matches!(own.comparison, Comparison::Below | Comparison::AtMost);
        let judged = self.objectives.iter().filter(is_upper).filter_map(|own| match own.subject {
            Subject::Quantile(metric, share) if metric == self.metric && own.population.is_none() => {
                let found = quantiles.iter().find(|found| (found.share - share).abs() < 1e-9)?;
                let holds = |value: f64| own.comparison.holds(value, own.bound);
                Some((holds(found.least), holds(found.most)))
            }
            _ => None,
        });
        let judged: Vec<(bool, bool)> = judged.collect();
        match () {
            () if judged.iter().any(|(least, _)| !least) => Some(false),
            () if judged.iter().any(|(_, most)| !most) || judged.is_empty() => None,
            () => Some(true),
        }
    }

    fn simulated(&self, rate: f64, workers: usize, faster: f64) -> [f64; QUANTILES.len()] {
        let seen = self.run(rate, workers, faster);
        QUANTILES.map(|share| seen.quantile(share).map_or(0.0, Nanos::as_secs_f64))
    }

    /// The times of messages that arrive at random before so many workers, each so many times as fast.
    fn run(&self, rate: f64, workers: usize, faster: f64) -> Histogram {
        let mean = Nanos::from_secs_f64(self.workers as f64 / self.capacity / faster);
        let service = match self.variation {
            0.0 => ServiceTime::Deterministic(mean),
            1.0 => ServiceTime::Exponential(mean),
            cv => ServiceTime::LogNormal { mean, cv },
        };
        let mut queue = Queue::new(Settings { workers, service, limit: None, stall: None, seed: 1 });
        let mut gaps = random(1, &[GAPS]);
        let mut beside = BesideTimes::of(&self.beside);
        let mut seen = Histogram::new();
        let mut now = 0.0;
        for number in 0..MESSAGES {
            now += InterArrival::Exponential.sample(&mut gaps) / rate;
            let at = Nanos::from_secs_f64(now);
            let Some(served) = queue.arrive(at) else { continue };
            if number >= FILLING {
                seen.record(beside.whole(at, served));
            }
        }
        seen
    }
}

/// Draws what messages take beside their waits.
enum BesideTimes {
    /// Times and how many messages took no longer.
    Measured(Vec<(u64, u64)>, Random),
    Service(Nanos),
}

impl BesideTimes {
    fn of(beside: &Beside) -> BesideTimes {
        match beside {
            Beside::Service(rest) => BesideTimes::Service(Nanos::from_secs_f64(*rest)),
            Beside::Measured(measured) => {
                let mut below = 0;
                let steps = measured.buckets().map(|(value, count)| {
                    below += count;
                    (value, below)
                });
                BesideTimes::Measured(steps.collect(), random(1, &[FREE_TIMES]))
            }
        }
    }

    /// The whole time of a message that arrives then and is served so.
    fn whole(&mut self, at: Nanos, served: Service) -> Nanos {
        match self {
            BesideTimes::Service(rest) => served.departure - at + *rest,
            BesideTimes::Measured(steps, random) => {
                let count = steps.last().map_or(0, |(_, below)| *below);
                let drawn = random.below(count);
                let place = steps.partition_point(|(_, below)| *below <= drawn);
                served.begin - at + Nanos(steps.get(place).map_or(0, |(value, _)| *value as i64))
            }
        }
    }
}

/// The valid levels of all runs with enough messages: their rates and times, those of equal rates together.
fn levels(runs: &[(&RunRecord, &Summary)], metric: Metric) -> Vec<(f64, Histogram)> {
    let mut found: Vec<(f64, Histogram)> = Vec::new();
    for (record, summary) in runs {
        let is_sound = |level: &&LevelSummary| level.validity == Validity::Valid && level.finished;
        for level in summary.levels.iter().filter(is_sound) {
            let own = record.levels.iter().find(|own| own.start.index == level.index);
            let Some((own, rate)) = own.zip(level.load.offered()) else { continue };
            match found.iter_mut().find(|(known, _)| *known == rate) {
                Some((_, seen)) => seen.merge(&times(own, metric)),
                None => found.push((rate, times(own, metric))),
            }
        }
    }
    found.retain(|(_, seen)| seen.count() >= ENOUGH);
    found
}

fn times(level: &LevelRecord, metric: Metric) -> Histogram {
    let mut merged = Histogram::new();
    let samples = level.samples.iter().flatten();
    samples.filter_map(|sample| sample.histograms.get(&metric)).for_each(|seen| merged.merge(seen));
    merged
}
