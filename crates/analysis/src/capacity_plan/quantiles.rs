//! Times at a load that nobody ran, by simulation of what limits. The time of a message is what it took at a low load, plus what it
//! waits for the component that limits. That one is a queue before workers. How many workers there are and how their service times
//! vary follows from the levels that were run: the queue must reproduce their quantiles, or nothing is predicted.

use crate::headroom::Headroom;
use crate::level::LevelSummary;
use crate::summary::Summary;
use plimsoll_model::record::{LevelRecord, RunRecord};
use plimsoll_model::text::grouped;
use plimsoll_model::{Histogram, Metric, Nanos, Validity};
use plimsoll_stats::distribution::{InterArrival, Random, random};
use plimsoll_stats::queue::{Queue, ServiceTime, Settings};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The quantiles that are predicted.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];
/// A level shows what messages take without waits where what limits is no fuller than that.
const FREE: f64 = 0.25;
/// Fuller than that, a queue needs longer than a level lasts until its waits are those of its load.
const FULL: f64 = 0.95;
/// Other components may be so full: their own waits are not simulated.
const OTHERS: f64 = 0.6;
/// A queue whose quantiles are further from those of a level, in logarithms, does not describe the platform.
const MISFIT: f64 = 0.35;
/// No quantile is known to better than that.
const LEAST_MISFIT: f64 = 0.05;
/// Levels are compared up to that: within their hold, fuller ones do not show their waits well.
const COMPARABLE: f64 = 0.85;
/// Messages that a level must have so that it is compared, and beyond a quantile so that this is.
const ENOUGH: u64 = 500;
const BEYOND: f64 = 10.0;
/// Levels that are compared beside the one that shows what messages take without waits.
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
    /// How far a simulated quantile is from one that was measured at most, as a factor.
    pub misfit: f64,
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

impl TimesAt {
    /// What several runs predict, between the ends of all of them.
    pub(super) fn together(each: Vec<TimesAt>) -> Option<TimesAt> {
        each.into_iter().reduce(|mut all, other| {
            for (all, other) in all.quantiles.iter_mut().zip(&other.quantiles) {
                (all.least, all.most) = (all.least.min(other.least), all.most.max(other.most));
            }
            all.misfit = all.misfit.max(other.misfit);
            all
        })
    }
}

/// What limits, as a queue that reproduces the levels of a run.
pub struct Model {
    metric: Metric,
    /// What messages take without waits.
    free: Histogram,
    /// Operations per second that it can do.
    capacity: f64,
    workers: usize,
    variation: f64,
    /// The largest distance of a quantile, in logarithms.
    misfit: f64,
}

impl Model {
    /// The queue that is nearest to the levels of a run.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub fn of(record: &RunRecord, summary: &Summary, headroom: &Headroom) -> Result<Model, String> {
        let line = summary.load_line.as_ref().and_then(|line| line.rate).unwrap_or_default();
        let capacity = line / headroom.used;
        let metric = record.terms.leading_time();
        let levels = levels(record, summary, metric);
        let fullness = |rate: f64| rate / capacity;
        let free = levels.iter().filter(|(rate, _)| fullness(*rate) <= FREE);
        let free = free.max_by(|(one, _), (other, _)| one.total_cmp(other)).ok_or_else(|| {
            format!(
                "times are predicted from a level with {} messages at {}/s or less, where {} makes nobody wait",
                grouped(ENOUGH as f64),
                grouped((capacity * FREE).floor()),
                headroom.component
            )
        })?;
        let compared: Vec<&(f64, Histogram)> =
            levels.iter().filter(|(rate, _)| *rate > free.0 && fullness(*rate) <= COMPARABLE).collect();
        if compared.len() < COMPARED {
            return Err(format!(
                "times are predicted from {COMPARED} levels between {}/s and {}/s, and there are {}",
                grouped(free.0),
                grouped((capacity * COMPARABLE).floor()),
                compared.len()
            ));
        }
        let candidates = WORKERS.iter().flat_map(|workers| VARIATIONS.map(|variation| (*workers, variation)));
        let models = candidates.map(|(workers, variation)| {
            let model = Model { metric, free: free.1.clone(), capacity, workers, variation, misfit: 0.0 };
            let distances = compared.iter().flat_map(|(rate, seen)| {
                let found = model.simulated(*rate, workers, 1.0);
                let is_known = |share: f64| seen.count() as f64 * (1.0 - share) >= BEYOND;
                QUANTILES.into_iter().zip(found).filter(move |(share, _)| is_known(*share)).filter_map(
                    |(share, found)| {
                        let seen = seen.quantile(share)?.as_secs_f64();
                        (seen > 0.0 && found > 0.0).then(|| (found / seen).ln().abs())
                    },
                )
            });
            let misfit = distances.fold(0.0, f64::max);
            Model { misfit, ..model }
        });
        let best = models.min_by(|one, other| one.misfit.total_cmp(&other.misfit));
        best.filter(|model| model.misfit <= MISFIT).ok_or_else(|| {
            "no queue reproduces the times of the levels that were run, so none are predicted".to_owned()
        })
    }

    /// Times at a load, if what limits has so many times its capacity; `times` has that of the others, too, and `line` is the load line
    /// at which the headroom was seen.
    ///
    /// # Errors
    /// Why they are not known, for people.
    pub fn at(
        &self,
        rate: f64,
        factor: f64,
        headroom: &Headroom,
        line: f64,
        times: &BTreeMap<String, f64>,
    ) -> Result<TimesAt, String> {
        let shown = grouped(rate);
        if rate > self.capacity * factor * FULL {
            return Err(format!("at {shown}/s, {} is full, and waits have no end", headroom.component));
        }
        let capacity = |name: &String| times.get(name).copied().unwrap_or(1.0);
        let others = headroom.others.iter();
        let fullest = others.map(|other| (other, other.used * rate / line / capacity(&other.component)));
        if let Some((other, used)) =
            fullest.max_by(|(_, one), (_, two)| one.total_cmp(two)).filter(|(_, used)| *used > OTHERS)
        {
            return Err(format!(
                "at {shown}/s, {} is {:.0} % full, and its waits are not simulated",
                other.component,
                used * 100.0
            ));
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
        let misfit = self.misfit.max(LEAST_MISFIT).exp();
        let quantiles = QUANTILES.into_iter().zip(one_queue.into_iter().zip(queues));
        Ok(TimesAt {
            rate,
            time: self.metric.name().to_owned(),
            quantiles: quantiles
                .map(|(share, (one, other))| PredictedQuantile {
                    share,
                    least: one.min(other) / misfit,
                    most: one.max(other) * misfit,
                })
                .collect(),
            workers: self.workers,
            variation: self.variation,
            misfit,
        })
    }

    /// Quantiles of the time of messages that arrive at random before so many workers, each so many times as fast.
    fn simulated(&self, rate: f64, workers: usize, faster: f64) -> [f64; QUANTILES.len()] {
        let mean = Nanos::from_secs_f64(self.workers as f64 / self.capacity / faster);
        let service = match self.variation {
            none if none == 0.0 => ServiceTime::Deterministic(mean),
            one if one == 1.0 => ServiceTime::Exponential(mean),
            cv => ServiceTime::LogNormal { mean, cv },
        };
        let mut queue = Queue::new(Settings { workers, service, limit: None, stall: None, seed: 1 });
        let (mut gaps, mut free) = (random(1, &[GAPS]), FreeTimes::of(&self.free));
        let mut seen = Histogram::new();
        let mut now = 0.0;
        for number in 0..MESSAGES {
            now += InterArrival::Exponential.sample(&mut gaps) / rate;
            let at = Nanos::from_secs_f64(now);
            let Some(served) = queue.arrive(at) else { continue };
            let waited = served.begin - at;
            if number >= FILLING {
                seen.record(waited + free.draw());
            }
        }
        QUANTILES.map(|share| seen.quantile(share).map_or(0.0, Nanos::as_secs_f64))
    }
}

/// Draws from what was measured.
struct FreeTimes {
    /// Times and how many messages took no longer.
    steps: Vec<(u64, u64)>,
    random: Random,
}

impl FreeTimes {
    fn of(measured: &Histogram) -> FreeTimes {
        let mut below = 0;
        let steps = measured.buckets().map(|(value, count)| {
            below += count;
            (value, below)
        });
        FreeTimes { steps: steps.collect(), random: random(1, &[FREE_TIMES]) }
    }

    fn draw(&mut self) -> Nanos {
        let count = self.steps.last().map_or(0, |(_, below)| *below);
        let drawn = self.random.below(count);
        let place = self.steps.partition_point(|(_, below)| *below <= drawn);
        Nanos(self.steps.get(place).map_or(0, |(value, _)| *value as i64))
    }
}

/// The valid levels of a run with enough messages: their rates and times. Of equal loads the last one counts.
fn levels(record: &RunRecord, summary: &Summary, metric: Metric) -> Vec<(f64, Histogram)> {
    let mut found: Vec<(f64, Histogram)> = Vec::new();
    let is_sound = |level: &&LevelSummary| level.validity == Validity::Valid && level.finished;
    for level in summary.levels.iter().filter(is_sound) {
        let own = record.levels.iter().find(|own| own.start.index == level.index);
        let Some((own, rate)) = own.zip(level.load.offered()) else { continue };
        let seen = times(own, metric);
        if seen.count() >= ENOUGH {
            found.retain(|(known, _)| *known != rate);
            found.push((rate, seen));
        }
    }
    found
}

fn times(level: &LevelRecord, metric: Metric) -> Histogram {
    let mut merged = Histogram::new();
    let samples = level.samples.iter().flatten();
    samples.filter_map(|sample| sample.histograms.get(&metric)).for_each(|seen| merged.merge(seen));
    merged
}
