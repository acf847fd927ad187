//! How devices speak LwM2M.

use crate::quantity::{AsText, Duration};
use plimsoll_model::Nanos;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;

/// How devices speak LwM2M. How they repeat messages and whether notifications are confirmable says `coap`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Lwm2m {
    /// The name by which the server knows a device, with `{run}` and `{device}` as possible variables. Default
    /// `plimsoll-{device}`.
    pub endpoint: String,
    /// The version that devices register with. Default 1.0.
    pub version: Lwm2mVersion,
    /// For how long a registration holds. Default a day.
    pub lifetime: Duration,
    /// Whether devices renew their registration before its lifetime ends. Default true.
    pub update: bool,
    /// Whether devices deregister at the end. Default true.
    pub deregister: bool,
    /// Whether devices listen only for a while after they sent something, and say so (queue mode). Default false.
    pub queue_mode: bool,
    /// For how long a device in queue mode listens after it sent something. Default 93 s (`MAX_TRANSMIT_WAIT`, RFC 7252).
    pub awake: Duration,
    /// Whether devices learn of their server from another one first, at the port `bootstrap` of the platform. Default false.
    pub bootstrap: bool,
    /// After how long a device comes from another port, without knowing it, as behind a NAT that forgets. Default never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nat_rebinding: Option<Duration>,
    /// For how long a registered device waits to be observed. One that nobody observes sends nothing. Default 10 s.
    pub observed_within: Duration,
    /// The resource that holds a device's message: notifications of it are the messages. Default: what the profile says, else
    /// bytes at `19/0/0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageResource>,
    /// Whether devices send their messages of themselves (operation Send of 1.1), and need not be observed. Default false.
    pub send: bool,
    /// The format of a value for a server that names none. Default: what the profile says, else `tlv`; for messages that are sent (`send`), where it must be one
    /// of SenML, `senml_cbor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<ValueFormat>,
    /// New firmware that a server may give to devices (object 5). Default: they take none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Firmware>,
    /// What else a device has: paths such as `3303/0/5701`, and what is there.
    pub resources: BTreeMap<String, Resource>,
}

/// New firmware that a server may give to devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Firmware {
    /// For how long a device installs it. Default 5 s.
    pub install: Duration,
}

impl Default for Firmware {
    fn default() -> Firmware {
        Firmware { install: AsText(Nanos::from_secs(5)) }
    }
}

/// A version of LwM2M.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) enum Lwm2mVersion {
    /// 1.0.
    #[default]
    #[serde(rename = "1.0")]
    V10,
    /// 1.1.
    #[serde(rename = "1.1")]
    V11,
}

/// A bare 1.1 is a number in YAML.
impl<'de> Deserialize<'de> for Lwm2mVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(1.0) => Ok(Lwm2mVersion::V10),
            Written::Number(1.1) => Ok(Lwm2mVersion::V11),
            Written::Text(text) if text == "1.0" => Ok(Lwm2mVersion::V10),
            Written::Text(text) if text == "1.1" => Ok(Lwm2mVersion::V11),
            _ => Err(de::Error::custom("versions of LwM2M are 1.0 and 1.1")),
        }
    }
}

/// The resource that holds a device's message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageResource {
    /// Its path: object, instance and resource, such as `19/0/0`.
    pub path: String,
    /// The kind of value that it holds.
    pub kind: MessageKind,
    /// The format of values for a server that names none, unless `lwm2m.format` says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ValueFormat>,
}

/// A format of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ValueFormat {
    /// Type, length, value.
    Tlv,
    /// Plain text.
    Text,
    /// Bytes as they are, of opaque values alone.
    Opaque,
    /// SenML in JSON.
    SenmlJson,
    /// SenML in CBOR.
    SenmlCbor,
}

/// A kind of value that can hold a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageKind {
    /// Bytes.
    Opaque,
    /// Text. The marker must be one of text.
    String,
    /// A number. The marker must be `integer`; it is all that a message has.
    Float,
    /// A whole number. The marker must be `integer`; it is all that a message has.
    Integer,
}

/// What is at a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Resource {
    /// A value that stays.
    Plain(Plain),
    /// Something that changes, or that a server may change.
    Detailed(Box<Detailed>),
}

/// A resource with more than a value: one of `value`, `sine`, `uniform`, `walk`, `feed` and `execute`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Detailed {
    /// What it holds at first: a number, a text, true or false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Plain>,
    /// A number that goes up and down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sine: Option<Sine>,
    /// A number by chance, between two bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uniform: Option<Uniform>,
    /// A number that goes a random step up or down each time, between two bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk: Option<Walk>,
    /// A column of `message.feed`, one row after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<FeedColumn>,
    /// Whether it is nothing to read, but to execute. Default false.
    #[serde(default)]
    pub execute: bool,
    /// Whether a server may write it. Default false.
    #[serde(default)]
    pub writable: bool,
}

/// A value that stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Plain {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A text, with `{run}` and `{device}` as possible variables.
    Text(String),
}

/// A number that goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Sine {
    /// The lowest value.
    pub min: f64,
    /// The highest value.
    pub max: f64,
    /// From one highest value to the next.
    pub period: Duration,
    /// For how long each value stays. Default a second.
    #[serde(default = "second")]
    pub every: Duration,
}

/// A number by chance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Uniform {
    /// The lowest value.
    pub min: f64,
    /// The highest value.
    pub max: f64,
    /// For how long it stays.
    pub every: Duration,
}

/// A number that goes a random step up or down each time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Walk {
    /// The lowest value, from which it turns back.
    pub min: f64,
    /// The highest value, from which it turns back.
    pub max: f64,
    /// The size of a step: its standard deviation.
    pub step: f64,
    /// For how long each value stays. Default a second.
    #[serde(default = "second")]
    pub every: Duration,
}

/// A column of the scenario's feed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct FeedColumn {
    /// Its name.
    pub column: String,
    /// What stands in it. Default `float`.
    #[serde(default)]
    pub kind: ColumnKind,
    /// For how long each row stays. Default a second.
    #[serde(default = "second")]
    pub every: Duration,
}

/// What stands in a column of a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ColumnKind {
    /// Numbers.
    #[default]
    Float,
    /// Whole numbers.
    Integer,
    /// Texts.
    String,
}

const fn second() -> Duration {
    AsText(Nanos::from_secs(1))
}

impl Default for Lwm2m {
    fn default() -> Lwm2m {
        Lwm2m {
            endpoint: "plimsoll-{device}".to_owned(),
            version: Lwm2mVersion::V10,
            lifetime: AsText(Nanos::from_secs(86_400)),
            update: true,
            deregister: true,
            queue_mode: false,
            awake: AsText(Nanos::from_secs(93)),
            bootstrap: false,
            nat_rebinding: None,
            observed_within: AsText(Nanos::from_secs(10)),
            message: None,
            send: false,
            format: None,
            firmware: None,
            resources: BTreeMap::new(),
        }
    }
}

impl Lwm2m {
    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Lwm2m::default()
    }
}
