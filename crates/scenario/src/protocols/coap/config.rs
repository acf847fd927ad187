//! How devices speak CoAP.

use crate::config::secret::SecretSource;
use crate::quantity::{AsText, Duration, Size};
use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};

/// How devices speak CoAP over UDP (RFC 7252) or TCP (RFC 8323).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Coap {
    /// Whether requests are repeated until they are acknowledged. Default true.
    pub confirmable: bool,
    /// Requests of a device that can be under way, the standard's NSTART; further messages wait. Default 1.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub outstanding: u32,
    /// Sockets that all devices share, over TCP connections, in place of one of their own each.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 60_000)))]
    pub sockets: Option<u32>,
    /// The least time until a request is repeated for the first time. By chance, the wait is up to half as long again. It
    /// doubles with each repetition. Default 2 s.
    pub ack_timeout: Duration,
    /// How often a request is repeated at most. Default 4.
    #[cfg_attr(test, schemars(range(max = 20)))]
    pub max_retransmit: u32,
    /// How long an answer is awaited at most, repetitions included. Default 93 s.
    pub timeout: Duration,
    /// Bytes of a block in which larger messages are sent (RFC 7959): 16, 32, 64, 128, 256, 512 or 1024. Without it
    /// only messages that fit in no datagram are sent in blocks, of 1,024 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<AsText<Size>>,
    /// Whether both sides say at the beginning of a TCP connection what they take (CSM). Some platforms do not. Default
    /// true.
    pub csm: bool,
    /// How long nothing may come over a TCP connection before a ping asks whether the platform is still there. It has as long to
    /// answer. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping: Option<Duration>,
    /// How datagrams are secured, for an address that begins with `coaps://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtls: Option<Dtls>,
}

/// DTLS with pre-shared keys (RFC 7252 section 9.1.3.1), for an address that begins with `coaps://`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Dtls {
    /// Who a device says that it is. With `{device}` in it each device has an identity of its own.
    pub identity: String,
    /// The key that belongs to the identity.
    pub key: Key,
    /// Who a subscriber says that it is, with `{subscriber}` as a possible variable. Default: the identity of the devices,
    /// where it is one for all. Needs `subscriber_key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscriber_identity: Option<String>,
    /// The key that belongs to `subscriber_identity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscriber_key: Option<Key>,
}

/// A pre-shared key: the bytes of a text, or after `0x` its hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Key {
    /// A text, with the variable of its identity; the run store has asterisks in its place.
    Text(String),
    /// An environment variable, of which the run store keeps the name alone; its value is taken as it stands.
    Environment(SecretSource),
}

/// ACK_TIMEOUT, MAX_RETRANSMIT and MAX_TRANSMIT_WAIT of RFC 7252 section 4.8.
impl Default for Coap {
    fn default() -> Coap {
        Coap {
            confirmable: true,
            outstanding: 1,
            sockets: None,
            ack_timeout: AsText(Nanos::from_secs(2)),
            max_retransmit: 4,
            timeout: AsText(Nanos::from_secs(93)),
            block_size: None,
            csm: true,
            ping: None,
            dtls: None,
        }
    }
}

impl Coap {
    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Coap::default()
    }
}
