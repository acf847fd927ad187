//! What a subscriber reads: partitions of the topic, each from where it was read to. Brokers may share the lead; then each of them has
//! a connection of its own, over which its partitions are read.

use crate::drivers::messaging::KEPT;
use plimsoll_codec::kafka::{self, Malformed, Position, error, streamed};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// How long the broker waits where there are no records, in milliseconds, and the bytes that it gives at once.
const WAIT: i32 = 500;
const MOST_BYTES: i32 = 1 << 20;
/// The same for a subscriber that works on each of them: it has to answer to its group in between.
const FEW_BYTES: i32 = 16 << 10;
/// Where a partition is read from that nobody has told of yet.
const UNKNOWN: i64 = -1;

/// Where a subscriber reads on in each of its partitions, in their order, over all of its connections. They are of one thread.
#[derive(Clone, Default)]
struct Positions(Arc<[(i32, AtomicI64)]>);

impl Positions {
    fn place(&self, partition: i32) -> Option<&AtomicI64> {
        let place = self.0.binary_search_by_key(&partition, |(number, _)| *number).ok()?;
        self.0.get(place).map(|(_, offset)| offset)
    }

    fn of(&self, partition: i32) -> i64 {
        self.place(partition).map_or(UNKNOWN, |offset| offset.load(Ordering::Relaxed))
    }

    /// Those of which it is known from where on they are read.
    fn known(&self) -> Vec<(i32, i64)> {
        let all = self.0.iter().map(|(number, offset)| (*number, offset.load(Ordering::Relaxed)));
        all.filter(|(_, offset)| *offset != UNKNOWN).collect()
    }
}

/// See the module.
#[derive(Default)]
pub struct Reading {
    positions: Positions,
    /// The partitions that are read over this connection, in their order.
    own: Vec<i32>,
    /// Positions as the group has taken them last, and as it is being told.
    told: Vec<(i32, i64)>,
    telling: Vec<(i32, i64)>,
    /// Whether the subscriber works on each record.
    works: bool,
    /// The answer that is coming.
    coming: Option<streamed::Records>,
    /// What came packed together last, and where the values in it are that are wanted.
    unpacked: Vec<u8>,
    values: Vec<Range<usize>>,
}

impl Reading {
    /// Of a subscriber that `works` on each record, or not.
    pub fn of(works: bool) -> Reading {
        Reading { works, ..Reading::default() }
    }

    /// The same subscriber's over another connection, where it reads these partitions.
    pub fn over_another(&self, own: Vec<i32>) -> Reading {
        Reading { positions: self.positions.clone(), own, works: self.works, ..Reading::default() }
    }

    /// The subscriber reads these partitions from now on, all of them over this connection. What is known of them stays known, unless
    /// somebody else has read `meanwhile`.
    pub fn assign(&mut self, partitions: &[i32], meanwhile: bool) {
        self.own = partitions.to_vec();
        self.own.sort_unstable();
        self.own.dedup();
        let known = |number: &i32| if meanwhile { UNKNOWN } else { self.positions.of(*number) };
        let positions = self.own.iter().map(|number| (*number, AtomicI64::new(known(number)))).collect();
        self.positions = Positions(positions);
        self.told.clear();
        self.telling.clear();
    }

    /// Only these of its partitions are read over this connection.
    pub fn keep(&mut self, own: Vec<i32>) {
        self.own = own;
    }

    /// The partitions that are read over this connection.
    pub fn partitions(&self) -> &[i32] {
        &self.own
    }

    /// Those of them of which it is not known from where on they are read.
    pub fn unknown(&self) -> Vec<i32> {
        self.own.iter().copied().filter(|number| self.positions.of(*number) == UNKNOWN).collect()
    }

    /// Whether there is nothing to read over this connection.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// The offset from which on a partition is read over this connection; `None` where it is not read here.
    fn offset(&self, partition: i32) -> Option<i64> {
        self.own.binary_search(&partition).ok().map(|_| self.positions.of(partition))
    }

    /// A partition of this connection is read on from that offset. A negative one says that nobody knows.
    pub fn found(&mut self, partition: i32, offset: i64) {
        if self.own.binary_search(&partition).is_ok()
            && let Some(place) = self.positions.place(partition)
        {
            place.store(offset.max(UNKNOWN), Ordering::Relaxed);
        }
    }

    /// What the group is to be told: all positions of the subscriber that are known, where one has changed since it took them.
    pub fn untold(&mut self) -> Option<Vec<(i32, i64)>> {
        let known = self.positions.known();
        if self.told == known {
            return None;
        }
        self.telling.clone_from(&known);
        Some(known)
    }

    /// The group has taken what it was told.
    pub fn was_told(&mut self) {
        self.told = std::mem::take(&mut self.telling);
    }

    /// Appends a request for what comes next.
    pub fn ask(&self, topic: &str, correlation: i32, out: &mut Vec<u8>) {
        let position = |&partition: &i32| Position { topic, partition, offset: self.positions.of(partition) };
        let positions: Vec<Position<'_>> = self.own.iter().map(position).collect();
        let most = if self.works { FEW_BYTES } else { MOST_BYTES };
        kafka::fetch(&positions, (WAIT, most), correlation, out);
    }

    /// An answer of so many bytes behind its number begins.
    pub fn begin(&mut self, length: usize) {
        self.coming = Some(streamed::Records::new(length));
        self.unpacked.clear();
        self.unpacked.shrink_to(KEPT);
        self.values.clear();
        self.values.shrink_to(KEPT);
    }

    /// Whether an answer is coming.
    pub fn is_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// The partition whose records come next.
    pub fn partition(&self) -> i32 {
        self.coming.as_ref().map_or(0, |coming| coming.position().0)
    }

    /// No answer is coming: the connection that it came over is no more.
    pub fn forget_coming(&mut self) {
        self.coming = None;
        (self.unpacked, self.values) = (Vec::new(), Vec::new());
    }

    /// The length of the next piece of the answer; `None` until that can be known.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn length(&self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        self.coming.as_ref().map_or(Err(Malformed), |coming| coming.length(bytes))
    }

    /// The records that came packed together last: their values, and where each of them stands.
    pub fn together(&self) -> (&[u8], &[Range<usize>]) {
        (&self.unpacked, &self.values)
    }

    /// Takes a piece of the answer. Of records that come packed together, those are kept whose key is `wanted`.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn take<'a>(
        &mut self,
        piece: &'a [u8],
        wanted: &dyn Fn(Option<&[u8]>) -> bool,
    ) -> Result<Taken<'a>, Malformed> {
        let Some(mut coming) = self.coming.take() else { return Err(Malformed) };
        let found = coming.take(piece)?;
        let (partition, next) = coming.position();
        let from = self.offset(partition);
        let is_new = |record: &kafka::batch::Record<'_>| from.is_some_and(|from| record.offset >= from);
        let taken = match found {
            streamed::Piece::Partition(error) if error != error::NONE => Taken::Error(partition, error),
            streamed::Piece::Unreadable(why) => Taken::Unreadable(why),
            streamed::Piece::HeldBack(_) => Taken::HeldBack,
            streamed::Piece::Packed(packed) => {
                self.unpacked.clear();
                self.values.clear();
                let unpacked = packed.unpack(&mut |record| {
                    // A batch may begin before what was asked for.
                    if let Some(value) = record.value.filter(|_| is_new(&record) && wanted(record.key)) {
                        let begin = self.unpacked.len();
                        self.unpacked.extend_from_slice(value);
                        self.values.push(begin..self.unpacked.len());
                    }
                });
                match unpacked {
                    Ok(()) => Taken::Together,
                    Err(Malformed) => Taken::Unreadable("they are not packed as they say, or above 8 MiB"),
                }
            }
            streamed::Piece::Record(record) if is_new(&record) => {
                self.found(partition, record.offset.saturating_add(1));
                Taken::Record(record.key, record.value)
            }
            _ => Taken::Nothing,
        };
        let is_read = !matches!(taken, Taken::Unreadable(_));
        if let Some(next) = next.filter(|next| is_read && from.is_some_and(|from| *next > from)) {
            self.found(partition, next);
        }
        self.coming = (!coming.are_whole()).then_some(coming);
        Ok(taken)
    }
}

/// What a piece was.
pub enum Taken<'a> {
    /// Nothing that matters.
    Nothing,
    /// Something went wrong with a partition.
    Error(i32, i16),
    /// Records that are not read here, and why.
    Unreadable(&'static str),
    /// The broker holds the client back.
    HeldBack,
    /// Records that came packed together.
    Together,
    /// A record: its key, and its value.
    Record(Option<&'a [u8]>, Option<&'a [u8]>),
}
