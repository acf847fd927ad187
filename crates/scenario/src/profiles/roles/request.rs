//! Requests of HTTP and CoAP, as written.

use serde::Deserialize;
use std::collections::BTreeMap;

/// A request of HTTP or CoAP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Name of the port, where it is not the one that devices speak to.
    #[serde(default)]
    pub port: Option<String>,
    /// The method.
    #[serde(default = "post")]
    #[cfg_attr(test, schemars(regex(pattern = "^[A-Z]+$")))]
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header fields, of HTTP. Host and Content-Length are added; one whose value is empty is left out.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Options of CoAP beside path and query, by number: a whole number, or a text with variables.
    #[serde(default)]
    pub options: BTreeMap<String, OptionConfig>,
    /// The body. A device's must have `{message}` in it, or `{message:json}` within a string of JSON.
    #[serde(default)]
    pub body: Option<String>,
    /// What the body becomes on the way: nothing else, or CBOR, for which it is written as JSON.
    #[serde(default)]
    pub body_format: BodyFormat,
    /// Status codes that mean success; default any of 200 to 299. CoAP's are written without the point: 2.04 is 204.
    #[serde(default)]
    pub expect: Vec<u16>,
    /// Status codes after which the same request is sent again after a pause, such as 503.
    #[serde(default)]
    pub retry: Vec<u16>,
    /// HTTP: whether a request whose connection was lost before its answer is sent again after a pause. The platform may
    /// then take it twice.
    #[serde(default)]
    pub retry_lost: bool,
}

impl Request {
    /// A GET of nothing yet.
    pub(crate) fn get() -> Request {
        Request {
            port: None,
            method: "GET".into(),
            path: String::new(),
            headers: BTreeMap::new(),
            options: BTreeMap::new(),
            body: None,
            body_format: BodyFormat::Text,
            expect: Vec::new(),
            retry: Vec::new(),
            retry_lost: false,
        }
    }
}

fn post() -> String {
    "POST".into()
}

/// What a body becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum BodyFormat {
    /// It goes as it is written.
    #[default]
    Text,
    /// It is written as JSON and goes as CBOR (RFC 8949). What is the same in each message is encoded once. Its content format (60,
    /// `application/cbor`) is added.
    Cbor,
}

/// The value of a CoAP option.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum OptionConfig {
    /// A whole number.
    Number(u32),
    /// A text with variables.
    Text(String),
}
