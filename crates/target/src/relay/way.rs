//! What is on its way from one end of a connection to the other.

use crate::tcp::Outgoing;
use plimsoll_model::Nanos;
use std::collections::VecDeque;

/// Bytes under way and not taken by the receiver beyond which nothing more is read from the sender.
pub const MOST_HELD: usize = 1 << 20;

/// See the module.
#[derive(Default)]
pub struct Way {
    /// What was sent, with the time at which it gets there; an empty piece is the end.
    pieces: VecDeque<(Nanos, Vec<u8>)>,
    held: usize,
    /// What has got there and is not taken.
    pub out: Outgoing,
    /// Whether the sender has sent its last.
    pub ended: bool,
    /// Whether the receiver knows that.
    pub told: bool,
}

impl Way {
    /// Bytes get there at that time, and not before what was sent earlier. No bytes mean the end. Returns when the first piece gets
    /// there where it is that one.
    pub fn put(&mut self, arrival: Nanos, bytes: &[u8]) -> Option<Nanos> {
        self.ended |= bytes.is_empty();
        let arrival = self.pieces.back().map_or(arrival, |(last, _)| arrival.max(*last));
        self.held += bytes.len();
        self.pieces.push_back((arrival, bytes.to_vec()));
        (self.pieces.len() == 1).then_some(arrival)
    }

    /// Hands over what has got there by now; when the next piece does. Sets `told` when the end has.
    pub fn take_arrived(&mut self, now: Nanos) -> Option<Nanos> {
        while let Some((arrival, _)) = self.pieces.front() {
            if *arrival > now {
                return Some(*arrival);
            }
            let Some((_, bytes)) = self.pieces.pop_front() else { break };
            self.held -= bytes.len();
            self.told |= bytes.is_empty();
            self.out.bytes().extend_from_slice(&bytes);
        }
        None
    }

    /// The receiver takes nothing any more, so that nothing more needs to be sent.
    pub fn give_up(&mut self) {
        *self = Way { ended: true, told: true, ..Way::default() };
    }

    /// Whether there is room for more.
    pub fn has_room(&self) -> bool {
        self.held + self.out.waiting() < MOST_HELD
    }

    /// Whether the end has got there, and all before it was taken.
    pub fn is_over(&self) -> bool {
        self.told && self.out.waiting() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_arrive_in_order_and_the_end_comes_last() {
        let mut way = Way::default();
        assert_eq!(way.put(Nanos(50), b"ab"), Some(Nanos(50)));
        assert_eq!(way.put(Nanos(30), b"cd"), None, "never before what was sent earlier");
        assert_eq!(way.put(Nanos(60), b""), None);
        assert_eq!((way.take_arrived(Nanos(49)), way.out.rest()), (Some(Nanos(50)), &b""[..]));
        assert_eq!((way.take_arrived(Nanos(50)), way.out.rest()), (Some(Nanos(60)), &b"abcd"[..]));
        assert!(way.ended && !way.told);
        assert_eq!(way.take_arrived(Nanos(60)), None);
        assert!(way.told && !way.is_over());
        way.out.advance(4);
        assert!(way.is_over());
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut way = Way::default();
        way.put(Nanos(1), &vec![0; MOST_HELD - 1]);
        assert!(way.has_room());
        way.put(Nanos(1), &[0]);
        assert!(!way.has_room());
        way.take_arrived(Nanos(1));
        assert!(!way.has_room(), "the receiver has not taken it");
        way.out.advance(MOST_HELD);
        assert!(way.has_room());
    }
}
