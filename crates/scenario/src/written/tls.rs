//! TLS.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How connections are secured, for an address that begins with `mqtts://` or `wss://`. Files are in PEM, their paths
/// relative to the scenario's folder.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tls {
    /// File with the authorities of which one must have signed the platform's certificate. Default: those that this host
    /// trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// File with the certificate that the clients show, and those that lead to its authority. Needs `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// File with the private key of `certificate`, not encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The name that the platform's certificate must have. Default: the host of the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Whether the platform's certificate is checked.
    pub verify: bool,
    /// Whether a client that connects again resumes its earlier session, which saves the platform most of the work of a
    /// handshake.
    pub resumption: bool,
}

impl Default for Tls {
    fn default() -> Tls {
        Tls { ca: None, certificate: None, key: None, server_name: None, verify: true, resumption: true }
    }
}
