//! The answer to a request for records, read piece by piece as it comes: each record is taken when it is there, whatever the size of the
//! whole. Records that were packed together are one piece.

use super::batch::{BEFORE_CHECKED, BEFORE_LENGTH, COMPRESSION, CONTROL, MAGIC, Record, record};
use super::fields::{Malformed, Reader};
use super::{crc32c, crc32c_behind};
use crate::packing::{self, Packing};

/// Bytes before the topics: how long the broker held the client back, and how many topics there are.
const HEAD: usize = 8;
/// Bytes of a partition before and behind its list of transactions that were given up.
const BEFORE_ABORTED: usize = 26;
const BATCHES_LENGTH: usize = 4;
/// Bytes of a batch before its records.
const BATCH_HEAD: usize = 61;
/// Where its version stands in it, also of one in an older format.
const MAGIC_AT: usize = 16;
/// The most that is unpacked of one batch, bytes.
pub const UNPACKED: usize = 8 << 20;
/// Bytes of the length of a record at most, as 32 bits need.
const LONGEST_LENGTH: usize = 5;

/// See the module.
#[derive(Clone, Debug)]
pub struct Records {
    state: State,
    /// Bytes of the answer, of which none was taken yet.
    left: usize,
    /// Topics, and partitions of the topic, that have not begun.
    topics: usize,
    partitions: usize,
    /// Bytes of the partition's batches that were not taken yet.
    batches: usize,
    position: (i32, Option<i64>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Topic,
    Partition,
    Batch,
    Record(Batch),
    /// The records of a batch, packed together.
    Packed(Batch, Packing),
    /// So many bytes of a batch that is of no use to us.
    Skipped(usize),
    Done,
}

/// A batch of which records are still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batch {
    base: i64,
    /// The offset behind it.
    next: i64,
    /// Bytes and records that were not taken yet.
    left: usize,
    count: i32,
    /// What the checksum shall be, and what it is so far.
    checksum: u32,
    so_far: u32,
}

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Nothing that matters outside.
    Nothing,
    /// The broker holds the client back for so many milliseconds.
    HeldBack(i32),
    /// What follows is of a partition with which that went wrong.
    Partition(i16),
    /// A record.
    Record(Record<'a>),
    /// The records of a batch, packed together.
    Packed(PackedRecords<'a>),
    /// A batch that is not read here, and why.
    Unreadable(&'static str),
}

/// Records that came packed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedRecords<'a> {
    base: i64,
    count: i32,
    packing: Packing,
    bytes: &'a [u8],
}

impl PackedRecords<'_> {
    /// Unpacks them and gives each to `taker`.
    ///
    /// # Errors
    /// They are none, or more than [`UNPACKED`] bytes.
    pub fn unpack(&self, taker: &mut dyn FnMut(Record<'_>)) -> Result<(), Malformed> {
        packing::unpack(self.packing, self.bytes, UNPACKED, |records| {
            let mut reader = Reader::new(records);
            for _ in 0..self.count {
                taker(record(self.base, &mut reader)?);
            }
            Ok(())
        })
    }
}

impl Records {
    /// Of an answer of so many bytes behind its number.
    pub fn new(length: usize) -> Records {
        let position = (0, None);
        Records { state: State::Head, left: length, topics: 0, partitions: 0, batches: 0, position }
    }

    /// Whether all of the answer was taken.
    pub fn are_whole(&self) -> bool {
        self.left == 0
    }

    /// The partition that was read last, and from which offset on it is to be read further, where a batch of it came to its end.
    pub fn position(&self) -> (i32, Option<i64>) {
        self.position
    }

    /// The length of the piece that comes next, by what came of it; `None` until that can be known.
    ///
    /// # Errors
    /// It is none.
    pub fn length(&self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut reader = Reader::new(bytes);
        let length = match self.state {
            State::Head => HEAD,
            State::Topic => {
                let Ok(name) = reader.i16() else { return Ok(None) };
                2 + usize::try_from(name).unwrap_or_default() + 4
            }
            State::Partition => {
                let Ok(_) = reader.take(BEFORE_ABORTED - 4) else { return Ok(None) };
                let Ok(aborted) = reader.i32() else { return Ok(None) };
                let aborted = usize::try_from(aborted).unwrap_or_default();
                BEFORE_ABORTED + aborted.checked_mul(16).ok_or(Malformed)? + BATCHES_LENGTH
            }
            // The last batch may be cut off.
            State::Batch if self.batches < BATCH_HEAD => self.batches,
            State::Batch => BATCH_HEAD,
            State::Record(batch) => {
                let Ok(length) = reader.varint() else {
                    let is_wrong = bytes.len() >= LONGEST_LENGTH;
                    return if is_wrong { Err(Malformed) } else { Ok(None) };
                };
                let length = usize::try_from(length).map_err(|_| Malformed)?;
                let whole = length.checked_add(bytes.len() - reader.rest().len());
                whole.filter(|whole| *whole <= batch.left).ok_or(Malformed)?
            }
            State::Packed(batch, _) => batch.left,
            State::Skipped(left) => left.min(bytes.len()),
            State::Done => return Err(Malformed),
        };
        if length > self.left { Err(Malformed) } else { Ok(Some(length)) }
    }

    /// Takes a piece of the length that [`Records::length`] gave.
    ///
    /// # Errors
    /// It is none, or a batch is not what its checksum says.
    pub fn take<'a>(&mut self, piece: &'a [u8]) -> Result<Piece<'a>, Malformed> {
        self.left = self.left.checked_sub(piece.len()).ok_or(Malformed)?;
        let mut reader = Reader::new(piece);
        let mut found = Piece::Nothing;
        match self.state {
            State::Head => {
                let throttled = reader.i32()?;
                if throttled > 0 {
                    found = Piece::HeldBack(throttled);
                }
                self.topics = usize::try_from(reader.i32()?).unwrap_or_default();
                self.state = State::Batch;
            }
            State::Topic => {
                let _name = reader.text()?;
                self.partitions = usize::try_from(reader.i32()?).unwrap_or_default();
                self.topics -= 1;
                self.state = State::Batch;
            }
            State::Partition => {
                self.position = (reader.i32()?, None);
                found = Piece::Partition(reader.i16()?);
                let length = piece.last_chunk::<BATCHES_LENGTH>().ok_or(Malformed)?;
                self.batches = usize::try_from(i32::from_be_bytes(*length)).unwrap_or_default();
                if self.batches > self.left {
                    return Err(Malformed);
                }
                self.partitions -= 1;
                self.state = State::Batch;
            }
            State::Batch => {
                self.batches = self.batches.checked_sub(piece.len()).ok_or(Malformed)?;
                match piece.get(MAGIC_AT) {
                    Some(magic) if magic.cast_signed() != MAGIC => {
                        found = Piece::Unreadable("they are in an older format");
                        self.state = State::Skipped(self.batches);
                    }
                    _ if piece.len() == BATCH_HEAD => (self.state, found) = self.batch(piece)?,
                    _ => {}
                }
            }
            State::Record(mut batch) => {
                self.batches = self.batches.checked_sub(piece.len()).ok_or(Malformed)?;
                batch.left = batch.left.checked_sub(piece.len()).ok_or(Malformed)?;
                batch.count -= 1;
                batch.so_far = crc32c_behind(batch.so_far, piece);
                self.state = State::Record(batch);
                found = Piece::Record(record(batch.base, &mut reader)?);
            }
            State::Packed(mut batch, packing) => {
                self.batches = self.batches.checked_sub(piece.len()).ok_or(Malformed)?;
                let Batch { base, count, .. } = batch;
                found = Piece::Packed(PackedRecords { base, count, packing, bytes: piece });
                batch.left = batch.left.checked_sub(piece.len()).ok_or(Malformed)?;
                (batch.count, batch.so_far) = (0, crc32c_behind(batch.so_far, piece));
                self.state = State::Record(batch);
            }
            State::Skipped(left) => {
                self.batches = self.batches.checked_sub(piece.len()).ok_or(Malformed)?;
                self.state = State::Skipped(left.checked_sub(piece.len()).ok_or(Malformed)?);
            }
            State::Done => return Err(Malformed),
        }
        self.go_on()?;
        if self.left == 0 && self.state != State::Done { Err(Malformed) } else { Ok(found) }
    }

    /// What follows the head of a batch, and what is to be told of it.
    fn batch(&mut self, head: &[u8]) -> Result<(State, Piece<'static>), Malformed> {
        let mut reader = Reader::new(head);
        let (base, length) = (reader.i64()?, reader.i32()?);
        let left = usize::try_from(length).ok().and_then(|all| all.checked_sub(BATCH_HEAD - BEFORE_LENGTH));
        let left = left.ok_or(Malformed)?;
        if left > self.batches {
            // It comes whole the next time.
            return Ok((State::Skipped(self.batches), Piece::Nothing));
        }
        let _epoch_and_magic = (reader.i32()?, reader.i8()?);
        let (checksum, attributes, last) = (reader.i32()?.cast_unsigned(), reader.i16()?, reader.i32()?);
        let next = base.checked_add(i64::from(last)).and_then(|last| last.checked_add(1)).ok_or(Malformed)?;
        if attributes & CONTROL != 0 {
            self.position.1 = Some(next);
            return Ok((State::Skipped(left), Piece::Nothing));
        }
        let count = head.last_chunk::<4>().map_or(0, |count| i32::from_be_bytes(*count));
        let so_far = crc32c(head.get(BEFORE_CHECKED..).unwrap_or_default());
        let batch = Batch { base, next, left, count, checksum, so_far };
        let packing = match attributes & COMPRESSION {
            0 => return Ok((State::Record(batch), Piece::Nothing)),
            1 => Packing::Gzip,
            2 => Packing::Snappy,
            3 => Packing::Lz4,
            4 => Packing::Zstd,
            _ => {
                let told = "they are compressed in a way that is not known";
                return Ok((State::Skipped(left), Piece::Unreadable(told)));
            }
        };
        Ok((State::Packed(batch, packing), Piece::Nothing))
    }

    /// Goes on with what follows what was taken.
    fn go_on(&mut self) -> Result<(), Malformed> {
        match self.state {
            State::Packed(..) => return Ok(()),
            State::Record(batch) if batch.count > 0 => return Ok(()),
            State::Record(batch) if batch.left != 0 || batch.so_far != batch.checksum => {
                return Err(Malformed);
            }
            State::Record(batch) => self.position.1 = Some(batch.next),
            State::Skipped(left) if left > 0 => return Ok(()),
            _ => {}
        }
        self.state = match () {
            () if self.batches > 0 => State::Batch,
            () if self.partitions > 0 => State::Partition,
            () if self.topics > 0 => State::Topic,
            () => State::Done,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::{self, Entry, NOBODY};
    use super::*;
    use proptest::prelude::*;

    /// An answer with these batches in partition 3 of one topic.
    fn answer(batches: &[u8]) -> Vec<u8> {
        let mut out = vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 3, 0, 0];
        out.extend([0; 16]);
        out.extend((-1_i32).to_be_bytes());
        out.extend((batches.len() as i32).to_be_bytes());
        out.extend_from_slice(batches);
        out
    }

    fn batch(values: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let entries = values.iter().map(|value| Entry { key: Some(b"k"), value });
        batch::write(entries, (NOBODY, -1), 1, &mut out);
        out
    }

    /// The values of an answer that comes in chunks of that size, and from where its partition is read on.
    fn read(bytes: &[u8], chunk: usize) -> Result<(Vec<Vec<u8>>, Option<i64>), Malformed> {
        let (mut records, mut values, mut pending) = (Records::new(bytes.len()), Vec::new(), Vec::new());
        for some in bytes.chunks(chunk) {
            pending.extend_from_slice(some);
            while !pending.is_empty() {
                let Some(length) = records.length(&pending)? else { break };
                if length > pending.len() {
                    break;
                }
                let piece: Vec<u8> = pending.drain(..length).collect();
                let mut take = |record: Record<'_>| {
                    assert_eq!(record.key, Some(&b"k"[..]));
                    values.push(record.value.unwrap_or_default().to_vec());
                };
                match records.take(&piece)? {
                    Piece::Record(record) => take(record),
                    Piece::Packed(packed) => packed.unpack(&mut take)?,
                    _ => {}
                }
            }
        }
        let is_whole = records.are_whole();
        if is_whole { Ok((values, records.position().1)) } else { Err(Malformed) }
    }

    #[test]
    fn records_come_one_by_one_however_the_answer_is_cut() {
        let batches = [batch(&[b"one", b"two"]), batch(&[b""])].concat();
        let bytes = answer(&batches);
        for chunk in 1..bytes.len() {
            let expected = vec![b"one".to_vec(), b"two".to_vec(), Vec::new()];
            assert_eq!(read(&bytes, chunk), Ok((expected, Some(1))), "{chunk}");
        }
        assert_eq!(read(&answer(&[]), 5), Ok((Vec::new(), None)));
    }

    #[test]
    fn how_long_a_client_is_held_back_is_read() {
        // A broker that holds a client back gives no records.
        let mut records = Records::new(HEAD);
        assert_eq!(records.take(&[0, 0, 1, 44, 0, 0, 0, 0]), Ok(Piece::HeldBack(300)));
        assert!(records.are_whole());
        assert_eq!(Records::new(HEAD).take(&[0; HEAD]), Ok(Piece::Nothing));
    }

    #[test]
    fn a_batch_that_is_cut_off_is_left_for_the_next_time() {
        let second = batch(&[b"two"]);
        for cut in [1, 12, 60, 61, second.len() - 1] {
            let batches = [&batch(&[b"one"])[..], second.get(..cut).unwrap()].concat();
            assert_eq!(read(&answer(&batches), 7), Ok((vec![b"one".to_vec()], Some(1))), "{cut}");
        }
    }

    #[test]
    fn what_was_changed_on_the_way_is_malformed() {
        let good = batch(&[b"value"]);
        let compressed = 22;
        for place in (17..good.len()).filter(|place| *place != compressed) {
            let mut wrong = good.clone();
            wrong[place] ^= 1;
            assert_eq!(read(&answer(&wrong), 1000), Err(Malformed), "byte {place}");
        }
    }

    /// A batch whose records are packed. It says that it has one more for each of `more`.
    fn packed(values: &[&[u8]], (packing, number): (Packing, u8), more: u8) -> Vec<u8> {
        let mut bytes = batch(values);
        let records = packing::pack(packing, &bytes.split_off(BATCH_HEAD)).unwrap();
        bytes.extend(records);
        bytes[22] = number;
        bytes[BATCH_HEAD - 1] += more;
        let length = (bytes.len() - BEFORE_LENGTH) as i32;
        bytes[8..BEFORE_LENGTH].copy_from_slice(&length.to_be_bytes());
        let checksum = crc32c(&bytes[BEFORE_CHECKED..]);
        bytes[BEFORE_CHECKED - 4..BEFORE_CHECKED].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    #[test]
    fn records_that_are_packed_come_together() {
        let ways = [(Packing::Gzip, 1), (Packing::Snappy, 2), (Packing::Lz4, 3), (Packing::Zstd, 4)];
        for way in ways {
            let both = [packed(&[b"one", b"two"], way, 0), batch(&[b"three"])].concat();
            let expected = ["one", "two", "three"].map(|text| text.as_bytes().to_vec()).to_vec();
            for chunk in [1, 7, 1000] {
                assert_eq!(read(&answer(&both), chunk), Ok((expected.clone(), Some(1))), "{way:?}");
            }
            // Fewer than it says, and bytes that were changed on the way.
            assert_eq!(read(&answer(&packed(&[b"one"], way, 1)), 1000), Err(Malformed));
            let mut wrong = packed(&[b"one"], way, 0);
            wrong[BATCH_HEAD + 3] ^= 1;
            assert_eq!(read(&answer(&wrong), 1000), Err(Malformed));
        }
    }

    #[test]
    fn batches_that_are_not_read_here_are_told() {
        let told = |place: usize, value: u8| {
            let mut bytes = batch(&[b"value"]);
            bytes[place] = value;
            let answer = answer(&bytes);
            let (mut records, mut rest, mut told) = (Records::new(answer.len()), &answer[..], Vec::new());
            while !rest.is_empty() {
                let length = records.length(rest).unwrap().unwrap();
                let (piece, after) = rest.split_at(length);
                if let Piece::Unreadable(why) = records.take(piece).unwrap() {
                    told.push(why);
                }
                rest = after;
            }
            told
        };
        assert_eq!(told(22, 5), ["they are compressed in a way that is not known"]);
        assert_eq!(told(MAGIC_AT, 1), ["they are in an older format"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_malformed(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            is_of_records: bool,
            chunk in 1..50_usize,
        ) {
            let bytes = if is_of_records { answer(&bytes) } else { bytes };
            let _ = read(&bytes, chunk);
        }
    }
}
