//! The access token that a profile or a scenario asks for.

use super::{Compiler, RoleError};
use crate::config::With;
use crate::plan::{Grant, Secret, TokenEndpoint, TokenPlan};
use crate::profiles::token::{ClientIn, GrantConfig, Token};

/// Fills in what the token's terms leave open. `variable` looks up an environment variable. What is wrong is among the
/// errors, by its key, and then the result is of no use.
pub(crate) fn resolve(
    token: &Token,
    compiler: &Compiler<'_>,
    variable: &dyn Fn(&str) -> Option<String>,
    errors: &mut Vec<RoleError>,
) -> TokenPlan {
    let mut error = |key: &str, message: String, help: &str| {
        errors.push(RoleError { path: key.into(), message, help: help.into() });
    };
    let mut text = |key: &str, value: &With| match value {
        With::Text(text) => compiler.fill(text),
        With::Environment(source) => variable(&source.env).unwrap_or_else(|| {
            let message = format!("the environment variable `{}` is not set", source.env);
            error(
                &format!("{key}.env"),
                message,
                &format!("set it before the run: `export {}=...`", source.env),
            );
            String::new()
        }),
    };
    let url = text("url", &token.url);
    let client_id = text("client_id", &token.client_id);
    let client_secret = token.client_secret.as_ref().map(|value| Secret(text("client_secret", value)));
    let scope = token.scope.as_ref().map(|value| text("scope", value));
    let username = token.username.as_ref().map(|value| text("username", value));
    let password = token.password.as_ref().map(|value| Secret(text("password", value)));
    let grant = match (token.grant, username, password) {
        (GrantConfig::Password, Some(username), Some(password)) => Grant::Password { username, password },
        (GrantConfig::Password, ..) => {
            let help = "write both; the password as `{ env: NAME }`";
            error("grant", "the grant `password` needs `username` and `password`".into(), help);
            Grant::ClientCredentials
        }
        (GrantConfig::ClientCredentials, None, None) => Grant::ClientCredentials,
        (GrantConfig::ClientCredentials, ..) => {
            let message = "the grant `client_credentials` has no user".to_owned();
            error("grant", message, "remove `username` and `password`, or write `grant: password`");
            Grant::ClientCredentials
        }
    };
    let whole = url.starts_with("http://") || url.starts_with("https://");
    if !whole && !url.starts_with('/') || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        let help = "write `https://host/path`, or `/path` at the platform itself";
        error("url", format!("`{url}` is no address"), help);
    }
    if whole && token.port.is_some() {
        error("port", "the address has a port of its own".into(), "remove `port`, or write the path alone");
    }
    let endpoint = match whole {
        true => TokenEndpoint::Url(url),
        false => TokenEndpoint::Platform { port: token.port.clone(), path: url },
    };
    let client_in_body = token.client_in == ClientIn::Body;
    TokenPlan { endpoint, grant, client_id, client_secret, client_in_body, scope }
}
