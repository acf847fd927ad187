//! What is other in a configuration than in the runs.

use plimsoll_model::cost::Cost;
use plimsoll_model::text::grouped;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// How far a count may be from a whole one: what a binary fraction adds.
const WHOLE: f64 = 1e-6;

/// What is other in a configuration than in the runs: nothing, or the capacities of components.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Change {
    /// How many times its present capacity each component has; those that are not named stay as they are.
    pub times: BTreeMap<String, f64>,
    /// How many times as fast the processors of components are; those that are not named stay as they are.
    pub faster: BTreeMap<String, f64>,
    /// On what components run that have moved to another instance type; their capacity is in `times`.
    pub instances: BTreeMap<String, Instances>,
}

/// Instances of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Instances {
    /// The instance type.
    pub on: String,
    /// How many there are.
    pub count: u32,
}

impl Change {
    /// Components with so many times their present capacity.
    pub fn of(times: &BTreeMap<String, f64>) -> Change {
        Change { times: times.clone(), ..Change::default() }
    }

    /// By which factor the capacity of each component changes, what is added and what is faster apart.
    pub fn factors(&self) -> Vec<(&str, f64)> {
        self.times.iter().chain(&self.faster).map(|(name, factor)| (name.as_str(), *factor)).collect()
    }

    /// By which factor the capacity of one component changes.
    pub fn factor(&self, name: &str) -> f64 {
        [&self.times, &self.faster].iter().filter_map(|own| own.get(name)).product()
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let times = self.times.iter().map(|(name, times)| match self.instances.get(name) {
            Some(own) => format!("{name} on {} {}", own.count, own.on),
            None => format!("{name} x {}", short(*times)),
        });
        let faster =
            self.faster.iter().map(|(name, times)| format!("{name} {} times as fast", short(*times)));
        let each: Vec<String> = times.chain(faster).collect();
        if each.is_empty() { "as it is".to_owned() } else { each.join(", ") }
    }

    /// What the platform costs then; `None` where nothing has a price, or what has one is not a whole number of it.
    pub fn cost(&self, cost: &Cost) -> Option<f64> {
        if cost.total() <= 0.0 {
            return None;
        }
        let mut total = 0.0;
        for part in &cost.priced {
            // What faster processors cost is another price.
            if self.faster.contains_key(&part.name) {
                return None;
            }
            total += match self.instances.get(&part.name) {
                Some(own) => {
                    let kind = cost.types.iter().find(|kind| kind.name == own.on)?;
                    f64::from(own.count) * kind.price
                }
                None => {
                    let count = part.count as f64 * self.times.get(&part.name).copied().unwrap_or(1.0);
                    if (count - count.round()).abs() > WHOLE {
                        return None;
                    }
                    count.round() * part.price
                }
            };
        }
        Some(total)
    }
}

/// A factor with two decimals at most.
fn short(factor: f64) -> String {
    grouped((factor * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::cost::{InstanceType, Priced};

    #[test]
    fn a_change_costs_what_its_instances_do() {
        let cost = Cost {
            currency: "USD".into(),
            per: "month".into(),
            priced: vec![
                Priced { name: "store".into(), on: Some("small".into()), count: 1, price: 100.0 },
                Priced { name: "front".into(), on: None, count: 3, price: 5.0 },
            ],
            unpriced: Vec::new(),
            types: vec![InstanceType { name: "large".into(), price: 170.0, processors: 4.0, memory: None }],
        };
        let times = |all: &[(&str, f64)]| {
            Change::of(&all.iter().map(|(name, times)| ((*name).to_owned(), *times)).collect())
        };
        assert_eq!(Change::default().cost(&cost), Some(115.0));
        assert_eq!(times(&[("store", 2.0), ("front", 4.0 / 3.0)]).cost(&cost), Some(220.0));
        assert_eq!(times(&[("store", 1.5)]).cost(&cost), None, "one and a half of it cannot be paid for");
        let instances = BTreeMap::from([("store".to_owned(), Instances { on: "large".into(), count: 2 })]);
        let moved = Change { instances, ..times(&[("store", 4.0)]) };
        assert_eq!((moved.cost(&cost), moved.in_words().as_str()), (Some(355.0), "store on 2 large"));
        let faster = BTreeMap::from([("store".to_owned(), 1.3)]);
        let faster = Change { faster, ..times(&[("store", 2.0)]) };
        assert_eq!((faster.cost(&cost), faster.factor("store")), (None, 2.6));
        assert_eq!(faster.in_words(), "store x 2, store 1.3 times as fast");
        assert_eq!(times(&[("front", 4.0 / 3.0)]).in_words(), "front x 1.33");
        assert_eq!(Change::default().in_words(), "as it is");
        assert_eq!(Change::default().cost(&Cost::default()), None);
    }
}
