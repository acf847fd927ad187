//! What a subscriber reads: partitions of the topic, each from where it was read to.

use plimsoll_codec::kafka::{self, Malformed, Position, error, streamed};

/// How long the broker waits where there are no records, in milliseconds, and the bytes that it gives at once.
const WAIT: i32 = 500;
const MOST_BYTES: i32 = 1 << 20;
/// The same for a subscriber that works on each of them: it has to answer to its group in between.
const FEW_BYTES: i32 = 16 << 10;
/// Where a partition is read from that nobody has told of yet.
const UNKNOWN: i64 = -1;

/// See the module.
#[derive(Default)]
pub struct Reading {
    /// Partitions, and the next offset of each.
    positions: Vec<(i32, i64)>,
    /// The same, as the group has taken it last, and as it is being told.
    told: Vec<(i32, i64)>,
    telling: Vec<(i32, i64)>,
    /// Whether the subscriber works on each record.
    works: bool,
    /// The answer that is coming.
    coming: Option<streamed::Records>,
}

impl Reading {
    /// Of a subscriber that `works` on each record, or not.
    pub fn of(works: bool) -> Reading {
        Reading { works, ..Reading::default() }
    }

    /// Reads these partitions from now on. What is known of them stays known, unless somebody else has read `meanwhile`.
    pub fn assign(&mut self, partitions: &[i32], meanwhile: bool) {
        let known = std::mem::take(&mut self.positions);
        let position = |number: &i32| {
            let known = known.iter().find(|(own, _)| own == number && !meanwhile);
            known.copied().unwrap_or((*number, UNKNOWN))
        };
        self.positions = partitions.iter().map(position).collect();
        self.told.clear();
        self.telling.clear();
    }

    /// The partitions.
    pub fn partitions(&self) -> Vec<i32> {
        self.positions.iter().map(|(number, _)| *number).collect()
    }

    /// Those of which it is not known from where on they are read.
    pub fn unknown(&self) -> Vec<i32> {
        let unknown = self.positions.iter().filter(|(_, offset)| *offset < 0);
        unknown.map(|(number, _)| *number).collect()
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// A partition is read on from that offset.
    pub fn found(&mut self, partition: i32, offset: i64) {
        if let Some(own) = self.positions.iter_mut().find(|(number, _)| *number == partition) {
            own.1 = offset;
        }
    }

    /// What the group is to be told: all positions, where one has changed since it took them.
    pub fn untold(&mut self) -> Option<Vec<(i32, i64)>> {
        if self.told == self.positions || self.positions.iter().any(|(_, offset)| *offset < 0) {
            return None;
        }
        self.telling.clone_from(&self.positions);
        Some(self.telling.clone())
    }

    /// The group has taken what it was told.
    pub fn was_told(&mut self) {
        self.told = std::mem::take(&mut self.telling);
    }

    /// Appends a request for what comes next.
    pub fn ask(&self, topic: &str, correlation: i32, out: &mut Vec<u8>) {
        let position = |&(partition, offset): &(i32, i64)| Position { topic, partition, offset };
        let positions: Vec<Position<'_>> = self.positions.iter().map(position).collect();
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

    /// Takes a piece of the answer.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn take<'a>(&mut self, piece: &'a [u8]) -> Result<Taken<'a>, Malformed> {
        let Some(mut coming) = self.coming.take() else { return Err(Malformed) };
        let found = coming.take(piece)?;
        let (partition, next) = coming.position();
        let from = self.positions.iter().find(|(number, _)| *number == partition).map(|(_, offset)| *offset);
        let taken = match found {
            streamed::Piece::Partition(error) if error != error::NONE => Taken::Error(partition, error),
            streamed::Piece::Unreadable(why) => Taken::Unreadable(why),
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
    /// A record: its key, and its value.
    Record(Option<&'a [u8]>, Option<&'a [u8]>),
}
