//! What a platform costs.

use crate::quantity::{AsText, Memory};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a platform costs, for load lines by money.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Prices {
    /// The currency, as reports write it, such as `USD`.
    #[cfg_attr(test, schemars(length(min = 1, max = 20)))]
    pub currency: String,
    /// The time that a price is for, as reports write it. Default: `month`.
    #[serde(default = "month")]
    #[cfg_attr(test, schemars(length(min = 1, max = 20)))]
    pub per: String,
    /// A table of instance types: comma-separated values with the columns `type`, `price`, and, if sizes are known, `processors` and
    /// `memory` (such as `8 GiB`). `types` adds to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Instance types by name: what one of them costs, and what it has.
    #[serde(default)]
    pub types: BTreeMap<String, InstanceType>,
    /// What components run on, by name: an instance type, or a price of their own. A component that is not named here has the
    /// cheapest type with as much as `platform.quotas` gives it. Without a quota, it has the price a month of its profile, if any.
    #[serde(default)]
    pub components: BTreeMap<String, PriceOf>,
    /// What else is paid for, by name, such as a load balancer.
    #[serde(default)]
    pub others: BTreeMap<String, PriceOf>,
}

/// An instance type: its price, or its price with what it has.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum InstanceType {
    /// Its price.
    Price(f64),
    /// The same with its size.
    Sized(SizedType),
}

/// An instance type with its size.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SizedType {
    /// Its price.
    pub price: f64,
    /// Processors that it has.
    pub processors: f64,
    /// Memory that it has, such as `8 GiB`. Default: enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<AsText<Memory>>,
}

/// What something costs: a price, or that of an instance type.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum PriceOf {
    /// The price of one.
    Price(f64),
    /// The name of an instance type.
    Type(String),
}

fn month() -> String {
    "month".to_owned()
}
