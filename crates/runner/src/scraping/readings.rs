//! What values of a source become: gauges of the run, and what is reported of those that are missing.

use super::Out;
use crate::sampling::late;
use plimsoll_codec::credentials::hide_query_secrets;
use plimsoll_model::record::Gauge;
use plimsoll_scenario::plan::{MetricKind, MetricsPlan};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// The sampler under whose name the values stand.
const METRICS: &str = "metrics";
/// So many different troubles of a source are reported.
const REPORTED: usize = 4;

/// The metrics of a source, with what was read of them before.
pub struct Readings {
    /// What is read, and where.
    pub plan: MetricsPlan,
    /// Of counters, by the places of the metrics: when, and what they were.
    last: Vec<Option<(Instant, f64)>>,
    reported: HashSet<String>,
}

impl Readings {
    /// Nothing was read yet.
    pub fn new(plan: MetricsPlan) -> Readings {
        Readings { last: vec![None; plan.metrics.len()], plan, reported: HashSet::new() }
    }

    /// The gauge of a metric, by its place, that had a value at a time; none of a counter that is read for the first time or began
    /// again.
    ///
    /// # Errors
    /// Why the value is none.
    pub fn gauge(
        &mut self,
        place: usize,
        at: Instant,
        value: f64,
        out: &Out,
    ) -> Result<Option<Gauge>, String> {
        let Some(metric) = self.plan.metrics.get(place) else { return Ok(None) };
        let value = value * metric.scale;
        if !value.is_finite() {
            return Err(format!("the value is {value}"));
        }
        let last = self.last.get_mut(place);
        let grown = match metric.kind {
            MetricKind::Gauge => Some(value),
            MetricKind::Counter => last.and_then(|last| growth(last, at, value)),
        };
        Ok(grown.map(|value| Gauge {
            at: out.at(at),
            sampler: METRICS.to_owned(),
            subject: self.plan.component.clone(),
            quantity: metric.name.clone(),
            unit: metric.unit.to_owned(),
            value,
        }))
    }

    /// What reading costs since the last time, and the gap where that is longer ago than it should be.
    pub fn cost(&self, since_last: Duration, cost: Duration, out: &Out) -> Vec<Gauge> {
        let name = format!("metrics of {}", self.plan.component);
        late(&name, out.at(Instant::now()), since_last, self.plan.every, cost)
    }

    /// What is to be reported of a trouble; each is reported once.
    pub fn report(&mut self, trouble: String) -> Option<String> {
        if self.reported.len() >= REPORTED || !self.reported.insert(trouble.clone()) {
            return None;
        }
        let MetricsPlan { component, url, .. } = &self.plan;
        let url = hide_query_secrets(url);
        Some(format!("metrics of {component} from {url} have a gap: {trouble}"))
    }
}

/// The growth of a counter per second since the last reading; none where it began again.
fn growth(last: &mut Option<(Instant, f64)>, now: Instant, value: f64) -> Option<f64> {
    let (then, before) = last.replace((now, value))?;
    let seconds = (now - then).as_secs_f64();
    (value >= before && seconds > 0.0).then(|| (value - before) / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_began_again_leaves_a_gap() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut last = None;
        let seen: Vec<_> = [(0, 10.0), (2, 30.0), (4, 5.0), (5, 6.0)]
            .map(|(seconds, value)| growth(&mut last, at(seconds), value))
            .into();
        assert_eq!(seen, [None, Some(10.0), None, Some(1.0)]);
    }
}
