//! A stretch of a capture and the records in it.

use plimsoll_model::Nanos;

/// Bytes read at once.
pub(super) const BLOCK: usize = 1 << 20;
/// The longest record that is believed, bytes: a packet of the largest snapshot length and its framing.
pub(super) const LONGEST: usize = BLOCK / 2;

/// Where a record lies in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was captured, since 1970.
    pub at: Nanos,
    /// Of its first byte.
    pub offset: u32,
    /// Bytes that are there.
    pub captured: u32,
    /// Bytes that it had on the wire.
    pub original: u32,
    /// What its first bytes are: a link type.
    pub link: u16,
    /// Its interface, counted over the sections of the file.
    pub interface: u16,
}

/// A stretch of a capture.
#[derive(Debug, Default)]
pub struct Block {
    /// The bytes; behind those of the file may stand datagrams put together from fragments.
    pub bytes: Vec<u8>,
    /// The records in it.
    pub records: Vec<Record>,
}
