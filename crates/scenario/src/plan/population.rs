//! One of the populations of a run: how its devices are numbered, and what it has of the load.

use super::{CountPlan, LevelPlan, MarkerForm, Plan};
use plimsoll_codec::numbering::Numbering;
use plimsoll_model::Nanos;

/// One of the populations of a run. The default is that of a run which has no other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PopulationPlan {
    /// Its name; empty where the run has no other.
    pub name: String,
    /// The number of its first device: devices are numbered through all populations, in their order.
    pub first_device: u32,
    /// The number of the first subscriber that receives from it; subscribers are numbered in the same way.
    pub first_subscriber: u32,
    /// Who receives what its devices send.
    pub receivers: ReceiversPlan,
    /// What it has of each level; `None` for all of it.
    pub share: Option<SharePlan>,
    /// The forms of the markers that its subscribers look for; empty for that of its own messages.
    pub markers: Vec<MarkerForm>,
    /// How the markers of the run are divided; `None` where the run has no other population.
    pub numbering: Option<Numbering>,
    /// Operations that its devices may have in flight together at most; `None` where nothing bounds it.
    pub most_in_flight: Option<u64>,
}

/// Who receives what the devices of a population send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiversPlan {
    /// Subscribers of its own.
    #[default]
    Own,
    /// Subscribers that all populations have in common, and that connect by a plan of their own.
    Common,
    /// It has no devices: it is the subscribers that others have in common.
    OfOthers,
}

/// What a population has of each level.
#[derive(Clone, Debug, PartialEq)]
pub enum SharePlan {
    /// Of what populations with a rate of their own leave, a part in proportion to the weights of the others.
    Weight(f64),
    /// So many operations per second, whatever the level.
    Rate(f64),
    /// So many operations per second in each listed level.
    Rates(Vec<f64>),
}

impl Plan {
    /// This population and the others of the run, in the order of their numbers.
    pub fn populations(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(self).chain(self.others.iter().map(|plan| &**plan))
    }

    /// The populations that have devices.
    pub fn with_devices(&self) -> impl Iterator<Item = &Plan> {
        self.populations().filter(|plan| plan.devices > 0)
    }

    /// Devices of all populations.
    pub fn all_devices(&self) -> u32 {
        self.populations().map(|plan| plan.devices).sum()
    }

    /// How the markers of the run are divided.
    pub fn numbering(&self) -> Numbering {
        self.population.numbering.unwrap_or_else(|| Numbering::of(self.devices))
    }

    /// The plan by which those connect who receive what the devices of a population of this run send.
    pub fn receivers_of<'a>(&'a self, population: &'a Plan) -> &'a Plan {
        let of_others = |plan: &&Plan| plan.population.receivers == ReceiversPlan::OfOthers;
        match population.population.receivers {
            ReceiversPlan::Common => self.populations().find(of_others).unwrap_or(population),
            ReceiversPlan::Own | ReceiversPlan::OfOthers => population,
        }
    }

    /// Subscribers that connect by this plan.
    pub fn own_subscribers(&self) -> u32 {
        match self.population.receivers {
            ReceiversPlan::Own | ReceiversPlan::OfOthers => self.subscribers.count,
            ReceiversPlan::Common => 0,
        }
    }

    /// Subscribers of all populations.
    pub fn all_subscribers(&self) -> u32 {
        self.populations().map(Plan::own_subscribers).sum()
    }

    /// What each population has of a level of the run, in their order.
    pub fn shares_of(&self, level: LevelPlan) -> Vec<LevelPlan> {
        let plans: Vec<&Plan> = self.populations().collect();
        if let [_] = plans.as_slice() {
            return vec![level];
        }
        match level {
            LevelPlan::Rate(_) | LevelPlan::Listed { .. } => {
                let left = self.left_of(level).max(0.0);
                let weights: f64 = plans.iter().map(|plan| plan.weight()).sum();
                let part = |plan: &Plan| left * plan.weight() / weights.max(f64::MIN_POSITIVE);
                let rate = |plan: &&Plan| plan.own_rate(level).unwrap_or_else(|| part(plan));
                plans.iter().map(rate).map(LevelPlan::Rate).collect()
            }
            LevelPlan::ExperimentRate(rate) => {
                let weights: f64 = plans.iter().map(|plan| plan.weight()).sum();
                let part = |plan: &&Plan| rate * plan.weight() / weights.max(f64::MIN_POSITIVE);
                plans.iter().map(|plan| LevelPlan::ExperimentRate(part(plan))).collect()
            }
            LevelPlan::InFlight(count) | LevelPlan::Experiment(count) => {
                let weights = plans.iter().map(|plan| plan.weight()).collect::<Vec<_>>();
                let share = if level == LevelPlan::Experiment(count) {
                    LevelPlan::Experiment
                } else {
                    LevelPlan::InFlight
                };
                apportioned(count, &weights).into_iter().map(share).collect()
            }
            LevelPlan::Devices { devices, rate } => {
                let sizes = plans.iter().map(|plan| f64::from(plan.devices)).collect::<Vec<_>>();
                let each = |own: u32| rate * f64::from(own) / f64::from(devices.max(1));
                let level = |own| LevelPlan::Devices { devices: own, rate: each(own) };
                apportioned(devices, &sizes).into_iter().map(level).collect()
            }
            LevelPlan::ConnectRate(rate) => {
                let part = |plan: &&Plan| f64::from(plan.devices) / f64::from(self.all_devices().max(1));
                plans.iter().map(|plan| LevelPlan::ConnectRate(rate * part(plan))).collect()
            }
        }
    }

    /// After how many messages of all populations together the hold of a level of the run ends; `None` where it ends by time.
    pub fn messages_of(&self, level: LevelPlan) -> Option<u64> {
        let count = self.load.count.filter(|_| !level.is_of_experiment())?;
        Some(count.messages(level, self.all_devices()))
    }

    /// How many of them each population sends, where it does not depend on their due times: in proportion to what it has in flight, or
    /// to its devices.
    pub fn messages_of_each(&self, level: LevelPlan) -> Vec<Option<u64>> {
        let shares = self.shares_of(level);
        match self.load.count.filter(|_| !level.is_of_experiment()) {
            Some(CountPlan::Messages(messages)) => {
                let weights: Vec<f64> = shares.iter().map(|share| share.load()).collect();
                apportioned(messages, &weights).into_iter().map(u64::from).map(Some).collect()
            }
            Some(CountPlan::Cycles(cycles)) => {
                let devices = self.populations().map(|plan| u64::from(plan.devices));
                devices.map(|devices| Some(u64::from(cycles) * devices)).collect()
            }
            None => vec![None; shares.len()],
        }
    }

    /// How long a level of the run is held, as far as the plan can tell: where the platform decides, how long it may take at most.
    pub fn hold_of(&self, level: LevelPlan) -> Nanos {
        let counted = self.load.count.and_then(|count| count.hold(level, self.all_devices()));
        counted.map_or(self.load.hold, |hold| hold.min(self.load.hold))
    }

    /// Its part of what is shared by weight, beside those of the others.
    fn weight(&self) -> f64 {
        match self.population.share {
            _ if self.devices == 0 => 0.0,
            Some(SharePlan::Weight(weight)) => weight,
            Some(SharePlan::Rate(_) | SharePlan::Rates(_)) => 0.0,
            None => f64::from(self.devices),
        }
    }

    /// What populations with rates of their own leave of a level to the others, in operations per second.
    pub(crate) fn left_of(&self, level: LevelPlan) -> f64 {
        level.load() - self.populations().filter_map(|plan| plan.own_rate(level)).sum::<f64>()
    }

    /// What it has of a level whatever others have; `None` where it has a part of what they leave.
    fn own_rate(&self, level: LevelPlan) -> Option<f64> {
        match (&self.population.share, level) {
            (Some(SharePlan::Rate(rate)), _) => Some(*rate),
            (Some(SharePlan::Rates(rates)), LevelPlan::Listed { place, .. }) => {
                rates.get(usize::from(place)).copied()
            }
            _ => None,
        }
    }
}

/// Whole parts of a count in proportion to weights: what whole parts leave goes to the largest remainders (Hamilton's method).
fn apportioned(count: u32, weights: &[f64]) -> Vec<u32> {
    let all: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let exact: Vec<f64> = weights.iter().map(|weight| f64::from(count) * weight / all).collect();
    let left = count.saturating_sub(exact.iter().map(|part| *part as u32).sum());
    let mut order: Vec<usize> =
        (0..).zip(weights).filter(|(_, weight)| **weight > 0.0).map(|(place, _)| place).collect();
    let remainder = |place: &usize| exact.get(*place).map_or(0.0, |part| part.fract());
    order.sort_by(|a, b| remainder(b).total_cmp(&remainder(a)));
    order.truncate(left as usize);
    let whole = |(place, part): (usize, &f64)| *part as u32 + u32::from(order.contains(&place));
    exact.iter().enumerate().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_parts_add_up() {
        assert_eq!(apportioned(10, &[1.0, 1.0, 1.0]), [4, 3, 3]);
        assert_eq!(apportioned(7, &[70.0, 20.0, 10.0]), [5, 1, 1]);
        assert_eq!(apportioned(2, &[1.0, 0.0, 1.0]), [1, 0, 1]);
        assert_eq!(apportioned(3, &[0.0, 0.0]), [0, 0]);
        for count in 0..50 {
            assert_eq!(apportioned(count, &[0.3, 5.0, 1.1, 17.0]).iter().sum::<u32>(), count);
        }
    }
}
