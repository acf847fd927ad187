//! What a slower component does to the times that objectives look at, under a load that leaves room. Its elasticity is that of the
//! time: 1 where it rises as much as the component becomes slower, more where queues grow with it. A message that comes while the
//! component is stopped waits for the rest of the stop, and so would it before any other component: that wait accuses nobody, and is
//! taken off.

use super::Estimate;
use super::effect::{delivered, student};
use crate::usage;
use plimsoll_model::experiment::{Block, Means, Perturbation, Stage};
use plimsoll_model::objective::{Objective, Subject};
use plimsoll_model::record::{ComponentUsage, Gauge, LevelRecord, RunRecord, Terms};
use plimsoll_model::{Histogram, Load, Metric, Nanos};
use plimsoll_stats::Interval;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// A time that an objective looks at, and by how much it rises with the time that components take.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Latency {
    /// The objective's key, such as `publish_p99`.
    pub objective: String,
    /// Operations per second meanwhile.
    pub rate: f64,
    /// The time in seconds while nothing was slowed: mean over blocks.
    pub untouched: Estimate,
    /// The components that were slowed, the highest elasticity first.
    pub parts: Vec<LatencyPart>,
}

/// What one component does to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LatencyPart {
    /// The component.
    pub component: String,
    /// The relative rise of the time by the relative rise of what the component takes. For a quantile above the median, the lower end
    /// of the interval takes a whole stop off, and the mean lies between that and the mean wait.
    pub elasticity: Estimate,
}

/// The objectives that look at a time of messages, of all populations together.
pub fn objectives(terms: &Terms) -> impl Iterator<Item = &Objective> {
    use Metric::{PublishTime, PublishTimeFromSend, SubscribeTime, SubscribeTimeFromSend};
    terms.objectives.level.iter().filter(|objective| {
        let metric = match objective.subject {
            Subject::Quantile(metric, _) | Subject::Mean(metric) => metric,
            _ => return false,
        };
        objective.population.is_none()
            && matches!(metric, PublishTime | PublishTimeFromSend | SubscribeTime | SubscribeTimeFromSend)
    })
}

/// Processors that a component used in the hold of a level.
pub fn processor_of(name: &str, level: &LevelRecord, components: &[ComponentUsage]) -> Option<f64> {
    usage::share(components, name, &usage::hold(&level.start), |usage| Some(usage.cpu))
}

/// One for each objective whose time was seen; none where no level was for that.
pub fn of(record: &RunRecord) -> Vec<Latency> {
    let is_it = |level: &&LevelRecord| level.start.stage() == Some(Stage::Latency);
    let Some(level) = record.experiment.iter().find(is_it) else { return Vec::new() };
    objectives(&record.terms).filter_map(|objective| of_objective(objective, level, &record.gauges)).collect()
}

fn of_objective(objective: &Objective, level: &LevelRecord, doses: &[Gauge]) -> Option<Latency> {
    let blocks = level.start.blocks();
    let times: Vec<Option<f64>> =
        blocks.iter().map(|block| time_in(block, level, objective.subject)).collect();
    let untouched =
        |place: usize| blocks.get(place).filter(|block| block.perturbation.is_none()).and(times[place]);
    let all: Vec<f64> = (0..blocks.len()).filter_map(untouched).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let mut seen: Vec<(String, Vec<Rise>)> = Vec::new();
    for (place, block) in blocks.iter().enumerate() {
        let Some(perturbation) = &block.perturbation else { continue };
        let beside = [place.checked_sub(1), Some(place + 1).filter(|next| *next < blocks.len())];
        let beside: Vec<f64> = beside.into_iter().flatten().filter_map(untouched).collect();
        let (Some(time), Some(dose)) = (times[place], delivered(level, block, perturbation, doses)) else {
            continue;
        };
        if beside.is_empty() {
            continue;
        }
        let rise = Rise::of((time, mean(&beside)), dose, perturbation);
        let component = perturbation.components.join(" and ");
        match seen.iter_mut().find(|(known, _)| *known == component) {
            Some((_, rises)) => rises.push(rise),
            None => seen.push((component, vec![rise])),
        }
    }
    let is_tail = matches!(objective.subject, Subject::Quantile(_, q) if q > 0.5);
    let part = |(component, rises): (String, Vec<Rise>)| {
        let all = |of: fn(&Rise) -> f64| rises.iter().map(of).collect::<Vec<f64>>();
        let (values, whole) = (all(|rise| rise.elasticity), all(|rise| rise.elasticity + rise.of_wait));
        let (more, slower) = (mean(&all(|rise| rise.of_rest)), mean(&all(|rise| rise.slower)));
        let mut elasticity = Estimate::of(mean(&values), of_skewed(&values, slower));
        // Where the time surely rose by less than the wait, the messages did not wait there: it ends before they come to the component.
        let waits = student(&whole).is_none_or(|whole| whole.hi > mean(&all(|rise| rise.of_wait)));
        if !waits {
            elasticity = Estimate::of(mean(&whole), of_skewed(&whole, slower));
        } else if is_tail {
            // The slowest messages waited for some part of a stop between the mean and all of it.
            elasticity.mean -= more / 2.0;
            elasticity.ci95 = elasticity.ci95.map(|[lo, hi]| [lo - more, hi]);
        }
        LatencyPart { component, elasticity }
    };
    let mut parts: Vec<LatencyPart> = seen.into_iter().map(part).collect();
    parts.sort_by(|a, b| b.elasticity.mean.total_cmp(&a.elasticity.mean));
    let Load::Rate(rate) = level.start.load else { return None };
    (!parts.is_empty()).then(|| Latency {
        objective: objective.key(),
        rate,
        untouched: Estimate::of(mean(&all), student(&all)),
        parts,
    })
}

/// The 95 % interval of the mean of elasticities, for parts that take longer by so much of their time. Times in queues are skewed: their
/// logarithms hardly are, and half of the variance of these is what the mean has more than the median. `None` with fewer than two.
fn of_skewed(elasticities: &[f64], slower: f64) -> Option<Interval> {
    let ratio = |elasticity: &f64| Some(1.0 + elasticity * slower).filter(|ratio| *ratio > 0.0);
    let Some(logs) = elasticities.iter().map(|own| ratio(own).map(f64::ln)).collect::<Option<Vec<f64>>>()
    else {
        return student(elasticities);
    };
    let ends = student(&logs)?;
    let middle = (ends.lo + ends.hi) / 2.0;
    let variance = logs.iter().map(|log| (log - middle).powi(2)).sum::<f64>() / (logs.len() as f64 - 1.0);
    let of = |end: f64| ((end + variance / 2.0).exp() - 1.0) / slower;
    Some(Interval { lo: of(ends.lo), hi: of(ends.hi) })
}

/// What became of a time in one block.
struct Rise {
    elasticity: f64,
    /// By how much the component took longer, as a part of its time.
    slower: f64,
    /// What was taken off it for the wait in a stop.
    of_wait: f64,
    /// What the elasticity would be less, had the message waited for a whole stop.
    of_rest: f64,
}

impl Rise {
    fn of((time, untouched): (f64, f64), dose: f64, perturbation: &Perturbation) -> Rise {
        let stop = perturbation.stop.as_secs_f64();
        // Of the messages that come while it is stopped, each waits for half of a stop on average.
        let (stop, waited) = match perturbation.means {
            Means::Stop => (stop, dose * stop / 2.0),
            Means::Quota | Means::Occupy | Means::Delay => (0.0, 0.0),
        };
        let slower = 1.0 / (1.0 - dose) - 1.0;
        let of = |longer: f64| longer / untouched / slower;
        Rise {
            elasticity: of(time - waited - untouched),
            slower,
            of_wait: of(waited),
            of_rest: of(stop - waited),
        }
    }
}

/// The time of the messages in the part of a block that counts.
fn time_in(block: &Block, level: &LevelRecord, subject: Subject) -> Option<f64> {
    let metric = match subject {
        Subject::Quantile(metric, _) | Subject::Mean(metric) => metric,
        _ => return None,
    };
    let mut all = Histogram::new();
    for sample in block.measured..block.end {
        let sample = level.samples.get(usize::from(sample))?.as_ref()?;
        sample.histograms.get(&metric).into_iter().for_each(|own| all.merge(own));
    }
    let seconds = |time: Nanos| time.as_secs_f64();
    match subject {
        Subject::Quantile(_, q) => all.quantile(q).map(seconds),
        _ => all.mean().map(|nanos| nanos / 1e9),
    }
    .filter(|time| *time > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_skewed_times_reaches_further_up() {
        // Times that are 1.5, 2 and 4 times as long, of a part that takes twice as long.
        let of = of_skewed(&[0.5, 1.0, 3.0], 1.0).unwrap();
        let even = student(&[0.5, 1.0, 3.0]).unwrap();
        assert!(of.lo > -1.0 && of.hi > even.hi && of.lo > even.lo, "{of:?}, {even:?}");
        let same = of_skewed(&[1.0, 1.0, 1.0], 0.5).unwrap();
        assert!((same.lo - 1.0).abs() < 1e-9 && (same.hi - 1.0).abs() < 1e-9, "{same:?}");
        assert_eq!(of_skewed(&[1.0], 1.0), None);
        let below = [-1.5, 1.0];
        assert_eq!(of_skewed(&below, 1.0), student(&below), "a time of less than nothing has no logarithm");
    }
}
