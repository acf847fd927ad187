//! What a subscriber reads: partitions of the topic, each from where it was read to. Brokers may share the lead; then each of them has
//! a connection of its own, over which its partitions are read.

use plimsoll_codec::kafka::{self, Malformed, Position, error, streamed};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long the broker waits where there are no records, in milliseconds, and the bytes that it gives at once.
const WAIT: i32 = 500;
const MOST_BYTES: i32 = 1 << 20;
/// The same for a subscriber that works on each of them: it has to answer to its group in between.
const FEW_BYTES: i32 = 16 << 10;
/// Where a partition is read from that nobody has told of yet.
const UNKNOWN: i64 = -1;

/// Where a subscriber reads on in each of its partitions, over all of its connections.
#[derive(Clone, Default)]
struct Positions(Arc<Mutex<Vec<(i32, i64)>>>);

impl Positions {
    fn all(&self) -> MutexGuard<'_, Vec<(i32, i64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, partition: i32) -> Option<i64> {
        self.all().iter().find(|(number, _)| *number == partition).map(|(_, offset)| *offset)
    }
}

/// See the module.
#[derive(Default)]
pub struct Reading {
    positions: Positions,
    /// The partitions that are read over this connection.
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
        let mut positions = self.positions.all();
        let known = std::mem::take(&mut *positions);
        let position = |number: &i32| {
            let known = known.iter().find(|(own, _)| own == number && !meanwhile);
            known.copied().unwrap_or((*number, UNKNOWN))
        };
        *positions = partitions.iter().map(position).collect();
        drop(positions);
        self.own = partitions.to_vec();
        self.told.clear();
        self.telling.clear();
    }

    /// Only these partitions are read over this connection.
    pub fn keep(&mut self, own: Vec<i32>) {
        self.own = own;
    }

    /// The partitions that are read over this connection.
    pub fn partitions(&self) -> &[i32] {
        &self.own
    }

    /// Those of them of which it is not known from where on they are read.
    pub fn unknown(&self) -> Vec<i32> {
        let positions = self.positions.all();
        let unknown = positions.iter().filter(|(number, offset)| *offset < 0 && self.own.contains(number));
        unknown.map(|(number, _)| *number).collect()
    }

    /// Whether there is nothing to read over this connection.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// A partition is read on from that offset.
    pub fn found(&mut self, partition: i32, offset: i64) {
        if let Some(own) = self.positions.all().iter_mut().find(|(number, _)| *number == partition) {
            own.1 = offset;
        }
    }

    /// What the group is to be told: all positions of the subscriber, where one has changed since it took them.
    pub fn untold(&mut self) -> Option<Vec<(i32, i64)>> {
        let positions = self.positions.all();
        if self.told == *positions || positions.iter().any(|(_, offset)| *offset < 0) {
            return None;
        }
        self.telling.clone_from(&positions);
        Some(self.telling.clone())
    }

    /// The group has taken what it was told.
    pub fn was_told(&mut self) {
        self.told = std::mem::take(&mut self.telling);
    }

    /// Appends a request for what comes next.
    pub fn ask(&self, topic: &str, correlation: i32, out: &mut Vec<u8>) {
        let known = self.positions.all();
        let of_own = known.iter().filter(|(number, _)| self.own.contains(number));
        let position = |&(partition, offset): &(i32, i64)| Position { topic, partition, offset };
        let positions: Vec<Position<'_>> = of_own.map(position).collect();
        let most = if self.works { FEW_BYTES } else { MOST_BYTES };
        kafka::fetch(&positions, (WAIT, most), correlation, out);
    }

    /// An answer of so many bytes behind its number begins.
    pub fn begin(&mut self, length: usize) {
        self.coming = Some(streamed::Records::new(length));
    }

    /// Whether an answer is coming.
    pub fn is_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// No answer is coming: the connection that it came over is no more.
    pub fn forget_coming(&mut self) {
        self.coming = None;
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
        let from = self.positions.of(partition).filter(|_| self.own.contains(&partition));
        let taken = match found {
            streamed::Piece::Partition(error) if error != error::NONE => Taken::Error(partition, error),
            streamed::Piece::Unreadable(why) => Taken::Unreadable(why),
            streamed::Piece::Packed(packed) => {
                self.unpacked.clear();
                self.values.clear();
                packed.unpack(&mut |record| {
                    let is_new = from.is_some_and(|from| record.offset >= from);
                    if let Some(value) = record.value.filter(|_| is_new && wanted(record.key)) {
                        let begin = self.unpacked.len();
                        self.unpacked.extend_from_slice(value);
                        self.values.push(begin..self.unpacked.len());
                    }
                })?;
                Taken::Together
            }
            // A batch may begin before what was asked for.
            streamed::Piece::Record(record) if from.is_some_and(|from| record.offset >= from) => {
                self.found(partition, record.offset.saturating_add(1));
                Taken::Record(record.key, record.value)
            }
            _ => Taken::Nothing,
        };
        if let Some(next) = next.filter(|next| from.is_some_and(|from| *next > from)) {
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
    /// Records that came packed together.
    Together,
    /// A record: its key, and its value.
    Record(Option<&'a [u8]>, Option<&'a [u8]>),
}
