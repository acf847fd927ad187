//! Whether levels are long enough for what is demanded of them, as far as the plan can tell.

use crate::plan::{LevelPlan, Plan, Subject};
use plimsoll_model::Metric;
use plimsoll_model::text::grouped;
use plimsoll_stats::quantile::fewest_observations;

impl Plan {
    /// Objectives for which levels will have too few observations, so that they will be undecided, for people. Nothing is
    /// said of levels whose load the platform decides.
    pub fn too_few_observations(&self) -> Vec<String> {
        let found = self.objectives.level.iter().filter_map(|objective| match objective.subject {
            Subject::Quantile(metric, q) => {
                let needed = fewest_observations(q);
                let short = self.rates().filter_map(|rate| {
                    let expected = self.expected_observations(metric, rate)?;
                    (expected < needed as f64).then_some((rate, expected))
                });
                self.tell(&objective.subject.key(), needed, &short.collect::<Vec<_>>())
            }
            _ => None,
        });
        found.collect()
    }

    /// The rates of the levels; of a search, that of its lowest.
    fn rates(&self) -> impl Iterator<Item = f64> + '_ {
        let listed = self.load.levels.iter().filter_map(|level| match level {
            LevelPlan::Rate(rate) | LevelPlan::Listed { rate, .. } | LevelPlan::Devices { rate, .. }
                if *rate > 0.0 =>
            {
                Some(*rate)
            }
            _ => None,
        });
        listed.chain(self.load.search.map(|search| search.from))
    }

    /// Observations in a hold if everything comes to its end.
    fn expected_observations(&self, metric: Metric, rate: f64) -> Option<f64> {
        let due = rate * self.load.hold.as_secs_f64();
        match metric {
            Metric::PublishTime | Metric::PublishTimeFromSend => Some(due),
            Metric::SubscribeTime | Metric::SubscribeTimeFromSend => {
                Some(due * f64::from(self.subscribers.count))
            }
            _ => None,
        }
    }

    fn tell(&self, key: &str, needed: u64, short: &[(f64, f64)]) -> Option<String> {
        let &(rate, expected) = short.first()?;
        let others = match short.len() - 1 {
            0 => String::new(),
            1 => " and one other level".to_owned(),
            more => format!(" and {more} other levels"),
        };
        let hold = (self.load.hold.as_secs_f64() * needed as f64 / expected).ceil();
        let [needed, rate, expected, hold] = [needed as f64, rate, expected.round(), hold].map(grouped);
        Some(format!(
            "{key} needs {needed} observations, but the hold of {rate}/s{others} has about {expected} of them: \
             undecided; hold for {hold} s or more"
        ))
    }
}
