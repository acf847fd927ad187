//! What is demanded.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Objectives by name, as conditions. `null` switches a default off.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Objectives(pub BTreeMap<String, Option<String>>);
