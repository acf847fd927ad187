//! Values that must not be shown.

use crate::config::secret::SecretSource;
use crate::context::Context;

/// A value that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The value of an environment variable, which is reported at the key where it is not set.
pub(crate) fn from_environment(
    source: &SecretSource,
    key: &str,
    context: &mut Context<'_>,
) -> Option<Secret> {
    let found = (context.environment.variable)(&source.env).map(Secret);
    if found.is_none() {
        context.error_with_help(
            key,
            format!("the environment variable `{}` is not set", source.env),
            format!("set it before the run: `export {}=...`", source.env),
        );
    }
    found
}
