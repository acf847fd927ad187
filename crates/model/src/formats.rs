//! Sizes of what devices sent, by the format of its payload (LwM2M).

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Messages of one format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sizes {
    /// How many, those that were sent again counted once.
    pub messages: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Bytes of them as messages of the protocol.
    pub packet_bytes: u64,
}

/// The same of each format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ByFormat {
    /// Plain text.
    pub text: Sizes,
    /// Bytes as they are.
    pub opaque: Sizes,
    /// Type, length, value.
    pub tlv: Sizes,
    /// SenML in JSON.
    pub senml_json: Sizes,
    /// SenML in CBOR.
    pub senml_cbor: Sizes,
}

impl Sizes {
    /// Adds a message of those sizes.
    pub fn add(&mut self, payload: u64, packet: u64) {
        *self += Sizes { messages: 1, payload_bytes: payload, packet_bytes: packet };
    }
}

impl ByFormat {
    /// Each format by its name, in the order of their numbers.
    pub fn all(&self) -> [(&'static str, Sizes); 5] {
        [
            ("text", self.text),
            ("opaque", self.opaque),
            ("SenML JSON", self.senml_json),
            ("SenML CBOR", self.senml_cbor),
            ("TLV", self.tlv),
        ]
    }

    /// Whether nothing was sent in any of them.
    pub fn is_empty(&self) -> bool {
        *self == ByFormat::default()
    }
}

impl AddAssign for Sizes {
    fn add_assign(&mut self, other: Sizes) {
        self.messages = self.messages.saturating_add(other.messages);
        self.payload_bytes = self.payload_bytes.saturating_add(other.payload_bytes);
        self.packet_bytes = self.packet_bytes.saturating_add(other.packet_bytes);
    }
}

impl AddAssign for ByFormat {
    fn add_assign(&mut self, other: ByFormat) {
        self.text += other.text;
        self.opaque += other.opaque;
        self.tlv += other.tlv;
        self.senml_json += other.senml_json;
        self.senml_cbor += other.senml_cbor;
    }
}
