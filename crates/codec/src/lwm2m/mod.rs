//! What LwM2M (OMA LightweightM2M 1.0.2 and 1.1.1) puts into messages of CoAP: paths, values, and the formats in which they travel.
//!
//! [`path`] names a resource, [`value`] is what it holds. [`payload`] reads and writes them in any format; [`tlv`], [`senml`]
//! and [`text`] are these formats. [`link`] lists what a device has, and [`attributes`] says when it notifies.

pub mod attributes;
pub mod link;
pub mod path;
pub mod payload;
pub mod senml;
pub mod text;
pub mod tlv;
pub mod value;

pub use attributes::Attributes;
pub use path::Path;
pub use value::{Given, Kind, Value};

/// Numbers of the formats of payloads (registry of CoAP content formats; 1.1 core, section 7.4).
pub mod format {
    /// Plain text: one value.
    pub const TEXT: u16 = 0;
    /// Links (RFC 6690).
    pub const LINK: u16 = 40;
    /// Bytes as they are: one opaque value.
    pub const OPAQUE: u16 = 42;
    /// SenML in JSON (RFC 8428).
    pub const SENML_JSON: u16 = 110;
    /// SenML in CBOR (RFC 8428).
    pub const SENML_CBOR: u16 = 112;
    /// Type, length, value (1.0 core, section 6.4.3).
    pub const TLV: u16 = 11542;
    /// The number of TLV before it was registered, which older servers still use.
    pub const OLD_TLV: u16 = 1542;
    /// The number of plain text of those servers.
    pub const OLD_TEXT: u16 = 1541;
    /// Those that name the path of each value, so that a message may have several paths.
    pub const OF_SEVERAL_PATHS: [u16; 2] = [SENML_JSON, SENML_CBOR];
    /// Those that carry values.
    pub const OF_VALUES: [u16; 7] = [TEXT, OPAQUE, SENML_JSON, SENML_CBOR, TLV, OLD_TLV, OLD_TEXT];
}

/// Values or records that one payload may have: more than any device holds, and few enough to be kept.
pub(crate) const MOST_ENTRIES: usize = 1 << 16;

/// Bytes that are not what they should be, for people: which format, and what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {format}: {what}")]
pub struct Malformed {
    /// The format.
    pub format: &'static str,
    /// What is wrong.
    pub what: &'static str,
}
