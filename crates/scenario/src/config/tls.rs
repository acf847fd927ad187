//! TLS.

use serde::{Deserialize, Serialize};

/// How connections are secured, for an address that begins with `mqtts://`, `wss://`, `https://` or `coaps://`. Files are in
/// PEM, their paths relative to the scenario's folder. Over `coaps://` (DTLS) clients must have a `certificate`, with a key
/// for the curve P-256 or P-384, and sessions are not resumed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tls {
    /// File with the authorities of which one must have signed the platform's certificate. Default: those that this host
    /// trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// File with the certificate that the clients show, and those that lead to its authority. With `{device}` in it each
    /// device has its own, such as `devices/{device}.pem`. Needs `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// File with the private key of `certificate`, not encrypted; with `{device}` as there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// File with the certificate that subscribers show; with `{subscriber}` in it each has its own. Default: that of the
    /// devices, where it is one for all. Needs `subscriber_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscriber_certificate: Option<String>,
    /// File with the private key of `subscriber_certificate`, not encrypted; with `{subscriber}` as there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscriber_key: Option<String>,
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
        Tls {
            ca: None,
            certificate: None,
            key: None,
            subscriber_certificate: None,
            subscriber_key: None,
            server_name: None,
            verify: true,
            resumption: true,
        }
    }
}
