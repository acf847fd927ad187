//! Values of variables, which may be secrets.

use super::secret::SecretSource;
use serde::{Deserialize, Serialize};

/// A value that may be a secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum With {
    /// A text, which the run store keeps.
    Text(String),
    /// An environment variable, of which the run store keeps the name alone.
    Environment(SecretSource),
}
