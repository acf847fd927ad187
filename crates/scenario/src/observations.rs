//! Whether levels are long enough for what is demanded of them, as far as the plan can tell.

use crate::plan::{CountPlan, LevelPlan, Objective, Plan, Subject};
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
                let short = self.loads().filter_map(|level| {
                    let expected = self.expected_observations(objective, metric, level)?;
                    (expected < needed as f64).then_some((level.rate(), expected))
                });
                self.tell(&objective.key(), needed, &short.collect::<Vec<_>>())
            }
            _ => None,
        });
        found.collect()
    }

    /// The levels whose rate is known; of a search, its lowest.
    fn loads(&self) -> impl Iterator<Item = LevelPlan> + '_ {
        let listed = self.load.levels.iter().copied().filter(|level| level.rate() > 0.0);
        listed.chain(self.load.search.map(|search| LevelPlan::Rate(search.from)))
    }

    /// Observations in a hold if everything comes to its end: of the population that the objective is about, or of all.
    fn expected_observations(&self, objective: &Objective, metric: Metric, level: LevelPlan) -> Option<f64> {
        let hold = self.hold_of(level).as_secs_f64();
        let shares = self.populations().zip(self.shares_of(level));
        let about =
            |plan: &Plan| objective.population.as_ref().is_none_or(|name| *name == plan.population.name);
        let of_each = shares
            .filter(|(plan, _)| about(plan))
            .map(|(plan, share)| plan.observations(metric, share.rate() * hold));
        of_each.sum()
    }

    /// The same of this population alone, of which so many messages are due.
    pub(crate) fn observations(&self, metric: Metric, due: f64) -> Option<f64> {
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
        let times = needed as f64 / expected;
        let more = |figure: f64, times: f64| grouped((figure * times).ceil());
        let remedy = match self.load.count {
            None => format!("hold for {} s or more", more(self.load.hold.as_secs_f64(), times)),
            Some(CountPlan::Messages(count)) => format!("raise `messages` to {}", more(count.into(), times)),
            Some(CountPlan::Cycles(count)) => format!("raise `cycles` to {}", more(count.into(), times)),
        };
        let [needed, rate, expected] = [needed as f64, rate, expected.round()].map(grouped);
        Some(format!(
            "{key} needs {needed} observations, but the hold of {rate}/s{others} has about {expected} of them: \
             undecided; {remedy}"
        ))
    }
}
