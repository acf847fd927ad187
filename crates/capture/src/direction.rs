//! One direction of a conversation: what waits to be read, the message that is being read, and the markers in it.

use crate::marker::{MessageId, Search};
use plimsoll_model::Nanos;
use rustc_hash::FxHashMap;

/// Markers of one message that are kept until it is complete.
const MARKERS: usize = 4096;
/// Messages that are read in turn, a part of each at a time.
const PARTS: usize = 4096;

/// What is known of one direction.
#[derive(Default)]
pub(crate) struct Direction {
    /// Said and not taken yet.
    pub kept: Vec<u8>,
    /// When the first of it came.
    pub kept_since: Nanos,
    /// Nothing can be done before so much is kept.
    pub need: usize,
    /// Content still to be passed.
    pub pass: u64,
    /// When the message that is being read began, and its bytes so far.
    pub begun: Option<Nanos>,
    pub bytes: u64,
    /// A message's beginning is looked for.
    pub lost: bool,
    /// Of the message that is being read.
    pub markers: Vec<MessageId>,
    /// The marker of a message that prepares the next request.
    pub prepared: Option<MessageId>,
    /// The end of what was searched, in which a marker may begin.
    pub tail: Vec<u8>,
    /// Messages whose parts come between those of others.
    parts: FxHashMap<u64, Part>,
}

/// What there is of a message.
#[derive(Default)]
struct Part {
    begun: Option<Nanos>,
    bytes: u64,
    markers: Vec<MessageId>,
}

impl Direction {
    /// Bytes of the message that is being read were used.
    pub fn took(&mut self, at: Nanos, bytes: &[u8], clean: bool, search: &Search) {
        self.begun.get_or_insert(at);
        self.bytes += bytes.len() as u64;
        if !clean {
            self.search(bytes, search);
        }
    }

    /// Looks for markers in the next bytes, and across the border to those before.
    pub fn search(&mut self, bytes: &[u8], search: &Search) {
        if !search.is_wanted() {
            return;
        }
        if self.tail.is_empty() {
            search.find(bytes, &mut self.markers);
            self.tail.extend_from_slice(search.open_end(bytes));
        } else {
            let joined = [&self.tail, bytes].concat();
            let (mut found, mut known) = (Vec::new(), Vec::new());
            search.find(&joined, &mut found);
            // A marker of another form may stand whole behind one that begins: it was found before.
            search.find(&self.tail, &mut known);
            found.retain(|id| match known.iter().position(|known| known == id) {
                Some(place) => {
                    known.swap_remove(place);
                    false
                }
                None => true,
            });
            self.markers.append(&mut found);
            self.tail.clear();
            self.tail.extend_from_slice(search.open_end(&joined));
        }
        self.markers.dedup();
        self.markers.truncate(MARKERS);
    }

    /// Looks for markers in content that stands alone.
    pub fn search_alone(&mut self, bytes: &[u8], search: &Search) {
        search.find(bytes, &mut self.markers);
        self.markers.dedup();
        self.markers.truncate(MARKERS);
    }

    /// What is being read goes on with the message of that number.
    pub fn join(&mut self, id: u64) {
        if let Some(mut part) = self.parts.remove(&id) {
            self.begun = part.begun.or(self.begun);
            self.bytes += part.bytes;
            part.markers.append(&mut self.markers);
            part.markers.truncate(MARKERS);
            self.markers = part.markers;
        }
    }

    /// What is being read is a part of the message of that number, which comes to its end later.
    pub fn set_aside(&mut self, id: u64) {
        if self.parts.len() >= PARTS {
            self.parts.clear();
        }
        let (begun, bytes) = (self.begun.take(), std::mem::take(&mut self.bytes));
        self.parts.insert(id, Part { begun, bytes, markers: std::mem::take(&mut self.markers) });
    }

    /// The thread is lost: what was half read is void.
    pub fn forget(&mut self) {
        *self = Direction { lost: self.lost, ..Direction::default() };
    }
}
