//! How an access token is got: OAuth 2.0 (RFC 6749), resolved.

use super::Secret;

/// An access token that is got before the set-up and renewed while the run goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenPlan {
    /// Where it is got.
    pub endpoint: TokenEndpoint,
    /// What is shown to get it.
    pub grant: Grant,
    /// The client's identifier.
    pub client_id: String,
    /// The client's secret; `None` for a public client.
    pub client_secret: Option<Secret>,
    /// Whether identifier and secret stand in the body; else in the header Authorization (section 2.3.1).
    pub client_in_body: bool,
    /// What the token shall allow; `None` leaves it to the server.
    pub scope: Option<String>,
}

/// Where a token is got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenEndpoint {
    /// A whole address.
    Url(String),
    /// A path at a port of the platform, by the port's name; `None` for the one that requests go to by themselves.
    Platform {
        /// The port's name.
        port: Option<String>,
        /// Path and query.
        path: String,
    },
}

/// A grant of OAuth 2.0.
#[derive(Clone, Debug, PartialEq)]
pub enum Grant {
    /// A user's name and password (RFC 6749 section 4.3).
    Password {
        /// The user's name.
        username: String,
        /// The user's password.
        password: Secret,
    },
    /// The client's own right (section 4.4).
    ClientCredentials,
}

impl Grant {
    /// The `grant_type` of requests.
    pub fn name(&self) -> &'static str {
        match self {
            Grant::Password { .. } => "password",
            Grant::ClientCredentials => "client_credentials",
        }
    }
}
