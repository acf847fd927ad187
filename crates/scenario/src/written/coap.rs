//! How devices speak CoAP.

use super::Duration;
use crate::quantity::{Size, Written};
use plimsoll_model::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How devices speak CoAP over UDP (RFC 7252).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Coap {
    /// Whether requests are repeated until they are acknowledged. Default true.
    pub confirmable: bool,
    /// Requests of a device that can be under way, the standard's NSTART; further messages wait. Default 1.
    #[schemars(range(min = 1, max = 1000))]
    pub outstanding: u32,
    /// Sockets that all devices share, in place of one of their own each.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 60_000))]
    pub sockets: Option<u32>,
    /// The least time until a request is repeated for the first time; the wait is up to half as long again, by chance,
    /// and doubles with each repetition. Default 2 s.
    pub ack_timeout: Duration,
    /// How often a request is repeated at most. Default 4.
    #[schemars(range(max = 20))]
    pub max_retransmit: u32,
    /// How long an answer is awaited at most, repetitions included. Default 93 s.
    pub timeout: Duration,
    /// Bytes of a block in which larger messages are sent (RFC 7959): 16, 32, 64, 128, 256, 512 or 1024. Without it
    /// only messages that fit in no datagram are sent in blocks, of 1,024 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<Written<Size>>,
}

/// ACK_TIMEOUT, MAX_RETRANSMIT and MAX_TRANSMIT_WAIT of RFC 7252 section 4.8.
impl Default for Coap {
    fn default() -> Coap {
        Coap {
            confirmable: true,
            outstanding: 1,
            sockets: None,
            ack_timeout: Written(Nanos::from_secs(2)),
            max_retransmit: 4,
            timeout: Written(Nanos::from_secs(93)),
            block_size: None,
        }
    }
}

impl Coap {
    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Coap::default()
    }
}
