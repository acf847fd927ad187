//! Batches of records, and the message sets of old (Apache Kafka, "Message Format"): what is compressed in them is opened, and who wants
//! to know is given each record.

use crate::action::{Action, Publish, name};
use crate::dissect::{KEPT, Output, UNPACKED};
use plimsoll_codec::packing::{Packing, unpack};

/// Bytes of a batch up to the version of its format.
const BEGINNING: usize = 17;
/// Bytes of a batch before its records, and where their number stands.
const HEAD: usize = 61;
const COUNT: usize = 57;
/// Of the attributes of a batch: its records are the broker's own.
const CONTROL: u8 = 0x20;
/// Bytes that the length of a batch does not count: itself, and the offset before it.
const UNCOUNTED: u64 = 12;
/// Records of a message that are reported. No client of today puts more together.
const REPORTED: usize = 1 << 16;

/// What is to be done with the next bytes of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// So many are done with, or need not be looked at.
    Skip(u64),
    /// So many are needed.
    Need(usize),
}

/// Whose records a message has, where somebody wants to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Whose {
    /// Nobody wants to know.
    #[default]
    Unasked,
    /// A client's that sends them to a topic; the second says which copies acknowledge, as [`Publish::qos`] does.
    Sent(String, u8),
    /// They come to a client.
    Received,
}

/// Reports the records of a message.
#[derive(Debug, Default)]
pub(super) struct Reporter {
    pub whose: Whose,
    reported: usize,
}

impl Reporter {
    fn is_asked(&self) -> bool {
        self.whose != Whose::Unasked
    }

    /// Reports a record: its key, and the bytes of its value.
    fn report(&mut self, key: Option<&[u8]>, bytes: u64, out: &mut Output<'_>) {
        if self.reported >= REPORTED {
            return;
        }
        self.reported += 1;
        match &self.whose {
            Whose::Unasked => {}
            Whose::Received => out.act(Action::Receive),
            Whose::Sent(topic, qos) => out.act(Action::Publish(Publish {
                method: "PRODUCE",
                target: key.map(name).unwrap_or_default(),
                topic: topic.clone(),
                qos: *qos,
                bytes,
                ..Publish::default()
            })),
        }
    }

    /// Reports the records of a batch; what is cut short ends it.
    fn report_all(&mut self, records: &[u8], count: usize, out: &mut Output<'_>) {
        let mut rest = records;
        for _ in 0..count.min(REPORTED) {
            let Some((key, bytes, behind)) = record(rest) else { return };
            self.report(key, bytes, out);
            rest = behind;
        }
    }

    /// The same of messages of old.
    fn report_old(&mut self, mut set: &[u8], out: &mut Output<'_>) {
        while let Some(length) = set.get(8..).and_then(|length| length.first_chunk()) {
            let whole = u64::from(u32::from_be_bytes(*length)) + UNCOUNTED;
            let Some((message, behind)) =
                usize::try_from(whole).ok().and_then(|whole| set.split_at_checked(whole))
            else {
                return;
            };
            let Some((key, value)) = parts(message) else { return };
            self.report(key, value.map_or(0, |value| value.len() as u64), out);
            set = behind;
        }
    }
}

/// Looks at the batch with which those bytes begin, the records being that long.
pub(super) fn batch(bytes: &[u8], records: u64, reporter: &mut Reporter, out: &mut Output<'_>) -> Next {
    // Without anybody who looks for markers or for records, nothing in them is of use.
    if !out.searches() && !reporter.is_asked() || records < BEGINNING as u64 {
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
        // Markers are seen in it as it is.
        _ if !reporter.is_asked() => return Next::Skip(whole),
        _ => Packing::None,
    };
    if whole > KEPT as u64 {
        return Next::Skip(whole);
    }
    let Some(batch) = bytes.get(..whole as usize) else { return Next::Need(whole as usize) };
    if is_batch {
        let count = batch.get(COUNT..).and_then(|count| count.first_chunk());
        let count = count.map_or(0, |count| i32::from_be_bytes(*count).max(0) as usize);
        // The broker's own, and none where nobody asks.
        let count = if attributes & CONTROL != 0 || !reporter.is_asked() { 0 } else { count };
        let records = batch.get(HEAD..).unwrap_or_default();
        match packing {
            Packing::None => reporter.report_all(records, count, out),
            packing => unpack(packing, records, UNPACKED, |content| {
                out.opened(content);
                reporter.report_all(content, count, out);
            }),
        }
        return Next::Skip(whole);
    }
    match (packing, parts(batch)) {
        (Packing::None, _) => reporter.report_old(batch, out),
        (packing, Some((_, Some(packed)))) => unpack(packing, packed, UNPACKED, |content| {
            out.opened(content);
            if reporter.is_asked() {
                reporter.report_old(content, out);
            }
        }),
        (_, _) => {}
    }
    Next::Skip(whole)
}

/// A field that may be null.
type Field<'a> = Option<&'a [u8]>;

/// Reads a record: its key, the bytes of its value, and what follows it.
fn record(bytes: &[u8]) -> Option<(Field<'_>, u64, &[u8])> {
    let mut rest = bytes;
    let length = usize::try_from(varint(&mut rest)?).ok()?;
    let (mut record, behind) = rest.split_at_checked(length)?;
    // Attributes, the time, and the place.
    record = record.get(1..)?;
    varint(&mut record)?;
    varint(&mut record)?;
    let key = match usize::try_from(varint(&mut record)?) {
        Ok(length) => {
            let (key, rest) = record.split_at_checked(length)?;
            record = rest;
            Some(key)
        }
        Err(_) => None,
    };
    let bytes = u64::try_from(varint(&mut record)?).unwrap_or(0);
    (bytes <= record.len() as u64).then_some((key, bytes, behind))
}

/// A signed number of up to ten bytes of seven bits each.
fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
    None
}

/// Key and value of a message of old.
fn parts(message: &[u8]) -> Option<(Field<'_>, Field<'_>)> {
    // The first version has no time.
    let key_at = if *message.get(BEGINNING - 1)? == 0 { 18 } else { 26 };
    let (key, behind) = field(message, key_at)?;
    let (value, _) = field(message, behind)?;
    Some((key, value))
}

/// A field with its length before it, which is negative for none; and where it ends.
fn field(message: &[u8], at: usize) -> Option<(Field<'_>, usize)> {
    let length = i32::from_be_bytes(*message.get(at..)?.first_chunk()?);
    let begin = at + 4;
    let Ok(length) = usize::try_from(length) else { return Some((None, begin)) };
    let end = begin.checked_add(length)?;
    Some((Some(message.get(begin..end)?), end))
}
