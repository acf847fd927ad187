//! What a platform costs, as far as it is priced.

use serde::{Deserialize, Serialize};

/// What a platform costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The currency, for people.
    pub currency: String,
    /// The time that prices are for, for people.
    pub per: String,
    /// What is paid for.
    pub priced: Vec<Priced>,
    /// Components without a price.
    pub unpriced: Vec<String>,
    /// Instance types of known size, the cheapest first: what components could run on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<InstanceType>,
}

/// Something that is paid for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Priced {
    /// Its name.
    pub name: String,
    /// The instance type that it runs on; `None` where it has a price of its own.
    pub on: Option<String>,
    /// How many there are.
    pub count: usize,
    /// The price of one.
    pub price: f64,
}

/// What a component can run on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstanceType {
    /// Its name.
    pub name: String,
    /// The price of one.
    pub price: f64,
    /// Processors that it has.
    pub processors: f64,
    /// Memory that it has, in bytes; `None` where the scenario does not say it.
    pub memory: Option<u64>,
}

impl Cost {
    /// What everything costs that has a price.
    pub fn total(&self) -> f64 {
        self.priced.iter().map(|own| own.price * own.count as f64).sum()
    }
}
