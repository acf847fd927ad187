//! What a load line costs.

use crate::load_line::LoadLine;
use plimsoll_model::cost::{Cost, Priced};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// What the platform costs, and what it sustains for that.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CostSummary {
    /// The currency, as the scenario writes it.
    pub currency: String,
    /// The time that prices are for, as the scenario writes it.
    pub per: String,
    /// What everything costs that has a price.
    pub total: f64,
    /// What is paid for.
    pub priced: Vec<PricedPart>,
    /// Components without a price, which `total` leaves out.
    pub unpriced: Vec<String>,
    /// The load line / `total`; null without a load line, and where nothing has a price.
    pub load_line_per_cost: Option<f64>,
}

/// Something that is paid for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PricedPart {
    /// Its name.
    pub name: String,
    /// The instance type that it runs on; null where it has a price of its own.
    pub on: Option<String>,
    /// How many there are.
    pub count: usize,
    /// The price of one.
    pub price: f64,
}

impl CostSummary {
    /// What sustains that load line costs so much.
    pub fn of(cost: &Cost, line: Option<&LoadLine>) -> CostSummary {
        let total = cost.total();
        let amount = line.and_then(LoadLine::amount).filter(|_| total > 0.0);
        CostSummary {
            currency: cost.currency.clone(),
            per: cost.per.clone(),
            total,
            priced: cost.priced.iter().map(PricedPart::of).collect(),
            unpriced: cost.unpriced.clone(),
            load_line_per_cost: amount.map(|amount| amount / total),
        }
    }
}

impl PricedPart {
    fn of(priced: &Priced) -> PricedPart {
        let Priced { name, on, count, price } = priced.clone();
        PricedPart { name, on, count, price }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priced(name: &str, count: usize, price: f64) -> Priced {
        Priced { name: name.into(), on: None, count, price }
    }

    #[test]
    fn a_load_line_is_divided_by_all_that_has_a_price() {
        let cost = Cost {
            currency: "USD".into(),
            per: "month".into(),
            priced: vec![priced("broker", 2, 94.43), priced("balancer", 1, 11.14)],
            unpriced: vec!["agent".into()],
            types: Vec::new(),
        };
        let line = LoadLine {
            rate: Some(1000.0),
            devices: None,
            connect_rate: None,
            level: 3,
            at_least: false,
            below: None,
            at_most: None,
            limited_by: None,
            next_level: None,
        };
        let found = CostSummary::of(&cost, Some(&line));
        assert_eq!((found.total, found.load_line_per_cost), (200.0, Some(5.0)));
        assert_eq!(CostSummary::of(&cost, None).load_line_per_cost, None);
        let free = Cost { priced: Vec::new(), ..cost };
        assert_eq!(CostSummary::of(&free, Some(&line)).load_line_per_cost, None);
    }
}
