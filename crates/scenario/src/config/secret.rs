//! Where a secret comes from.

use serde::{Deserialize, Serialize};

/// Where a secret comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretSource {
    /// Name of the environment variable that holds it.
    pub env: String,
}
