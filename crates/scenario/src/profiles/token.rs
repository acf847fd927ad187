//! How an access token is got from an authorization server, as written: OAuth 2.0 (RFC 6749).

use crate::config::with::With;
use serde::{Deserialize, Serialize};

/// An access token (OAuth 2.0, RFC 6749) that is got before the set-up and renewed while the run goes on; `{token}` stands
/// for it in headers, options and bodies. Values are texts, in which `{NAME}` stands for a variable of the profile, or
/// `{ env: NAME }` for one that is a secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    /// The token endpoint: a whole address, or its path at the platform itself.
    pub url: With,
    /// Name of the platform's port, where `url` is a path and the port is not the one that requests go to by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// What is shown to get the token.
    pub grant: GrantConfig,
    /// The client's identifier.
    pub client_id: With,
    /// The client's secret; none for a public client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<With>,
    /// How the client shows who it is: in the header Authorization (Basic, the default), or in the body.
    #[serde(default)]
    pub client_in: ClientIn,
    /// The user's name, for the grant `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<With>,
    /// The user's password, for the grant `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<With>,
    /// What the token allows, for a server that asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<With>,
}

/// A grant of OAuth 2.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum GrantConfig {
    /// A user's name and password (RFC 6749 section 4.3).
    Password,
    /// The client's own right (section 4.4).
    ClientCredentials,
}

/// Where the client's identifier and secret stand (RFC 6749 section 2.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientIn {
    /// In the header Authorization.
    #[default]
    Header,
    /// In the body.
    Body,
}
