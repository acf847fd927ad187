//! Batches of records, and the message sets of old (Apache Kafka, "Message Format"): what is compressed in them is opened.

use crate::dissect::{KEPT, Output, UNPACKED};
use plimsoll_codec::packing::{Packing, unpack};

/// Bytes of a batch up to the version of its format.
const BEGINNING: usize = 17;
/// Bytes of a batch before its records.
const HEAD: usize = 61;
/// Bytes that the length of a batch does not count: itself, and the offset before it.
const UNCOUNTED: u64 = 12;

/// What is to be done with the next bytes of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// So many are done with, or need not be looked at.
    Skip(u64),
    /// So many are needed.
    Need(usize),
}

/// Looks at the batch with which those bytes begin, the records being that long.
pub(super) fn batch(bytes: &[u8], records: u64, out: &mut Output<'_>) -> Next {
    // Without anybody who looks for markers, nothing in them is of use.
    if !out.searches() || records < BEGINNING as u64 {
        return Next::Skip(records);
    }
    let Some(beginning) = bytes.get(..BEGINNING) else { return Next::Need(BEGINNING) };
    let length = beginning
        .get(8..)
        .and_then(|length| length.first_chunk())
        .map_or(0, |length| u32::from_be_bytes(*length));
    let whole = u64::from(length) + UNCOUNTED;
    // A server may cut the last batch short.
    if whole > records || whole < BEGINNING as u64 + 1 {
        return Next::Skip(records);
    }
    let is_batch = beginning[BEGINNING - 1] >= 2;
    let attributes = if is_batch { 22 } else { 17 };
    let Some(&attributes) = bytes.get(attributes) else { return Next::Need(attributes + 1) };
    let packing = match attributes & 7 {
        1 => Packing::Gzip,
        2 => Packing::Snappy,
        3 => Packing::Lz4,
        4 => Packing::Zstd,
        _ => return Next::Skip(whole),
    };
    if whole > KEPT as u64 {
        return Next::Skip(whole);
    }
    let Some(batch) = bytes.get(..whole as usize) else { return Next::Need(whole as usize) };
    let packed = if is_batch { batch.get(HEAD..) } else { value(batch) };
    if let Some(packed) = packed {
        unpack(packing, packed, UNPACKED, |content| out.opened(content));
    }
    Next::Skip(whole)
}

/// The value of a message of old.
fn value(message: &[u8]) -> Option<&[u8]> {
    // The first version has no time.
    let key_at = if message[BEGINNING - 1] == 0 { 18 } else { 26 };
    let length = |at: usize| {
        message.get(at..)?.first_chunk().map(|length| i32::from_be_bytes(*length).max(0) as usize)
    };
    let value_at = key_at + 4 + length(key_at)?;
    let begin = value_at.checked_add(4)?;
    message.get(begin..begin.checked_add(length(value_at)?)?)
}
