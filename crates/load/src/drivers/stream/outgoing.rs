//! What a connection has encoded and the kernel has not taken yet, and where messages stand in it.

use crate::driver::Event;
use plimsoll_model::Nanos;
use std::collections::VecDeque;

/// Encoded bytes beyond which further messages wait unencoded, so that they can still be withdrawn.
const LIMIT: usize = 64 * 1024;
/// Room for encoded bytes that a connection keeps when it has nothing to send.
const KEPT: usize = 16 * 1024;

/// See the module.
#[derive(Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    /// The kernel has the first so many, or a layer that does not give them back.
    taken: usize,
    marks: VecDeque<Mark>,
}

/// Where a message begins and ends.
pub struct Mark {
    begin: usize,
    end: usize,
    /// The message.
    pub sequence: u32,
    content: u32,
    /// Already reported as sent, when its level was closed in the middle of it.
    reported: bool,
}

impl Mark {
    /// The message as sent, unless that was reported before.
    pub fn sent(&self, device: u32, at: Nanos) -> Option<Event> {
        let packet = (self.end - self.begin) as u32;
        let (sequence, content) = (self.sequence, self.content);
        (!self.reported).then_some(Event::Sent { device, sequence, at, content, packet })
    }
}

impl Outgoing {
    /// Bytes for the kernel.
    pub fn rest(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    /// Whether nothing is left for the kernel.
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// Whether messages have to wait unencoded.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= LIMIT
    }

    /// Whether so much waits that the platform does not take what we answer: nothing more of it is to be read.
    pub fn is_stuck(&self) -> bool {
        self.rest().len() > 2 * LIMIT
    }

    /// Where bytes are appended.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What was appended since there were `begin` bytes is a message.
    pub fn mark(&mut self, begin: usize, sequence: u32, content: usize) {
        let (end, content) = (self.bytes.len(), content as u32);
        self.marks.push_back(Mark { begin, end, sequence, content, reported: false });
    }

    /// The kernel took so many more bytes.
    pub fn take(&mut self, count: usize) {
        self.taken += count;
    }

    /// The next message that was taken to its last byte.
    pub fn next_taken(&mut self) -> Option<Mark> {
        self.marks.front().filter(|mark| mark.end <= self.taken)?;
        self.marks.pop_front()
    }

    /// Forgets bytes that the kernel took, where that is cheap.
    pub fn tidy(&mut self) {
        if self.is_empty() {
            self.bytes.clear();
            self.taken = 0;
            if self.bytes.capacity() > KEPT {
                self.bytes = Vec::new();
            }
        } else if self.marks.is_empty() && self.taken > LIMIT {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Takes out every message of which no byte is taken or, in a layer, sealed, and tells them, the newest first. What
    /// stands between messages is kept.
    pub fn withdraw(&mut self, sealed: usize, mut withdrawn: impl FnMut(u32)) {
        self.withdraw_those(sealed, |sequence| {
            withdrawn(sequence);
            true
        });
    }

    /// The same for those messages that are unwanted; all are asked about, the newest first.
    pub fn withdraw_those(&mut self, sealed: usize, mut is_unwanted: impl FnMut(u32) -> bool) {
        let gone = self.taken + sealed;
        for place in (0..self.marks.len()).rev() {
            let Some(mark) = self.marks.get(place).filter(|mark| mark.begin >= gone) else { return };
            if !is_unwanted(mark.sequence) {
                continue;
            }
            let (begin, end) = (mark.begin, mark.end);
            self.bytes.drain(begin..end);
            self.marks.remove(place);
            for later in self.marks.range_mut(place..) {
                later.begin -= end - begin;
                later.end -= end - begin;
            }
        }
    }

    /// Reports as sent what has begun to be, because its level is closed.
    pub fn report_begun(&mut self, device: u32, at: Nanos, events: &mut Vec<Event>) {
        for mark in &mut self.marks {
            events.extend(mark.sent(device, at));
            mark.reported = true;
        }
    }

    /// The messages that stand in it, taken out; their bytes stay.
    pub fn take_marks(&mut self) -> impl Iterator<Item = Mark> {
        self.marks.drain(..)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
        self.marks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three messages of three bytes with two bytes of something else after the first.
    fn three() -> Outgoing {
        let mut out = Outgoing::default();
        for sequence in 0..3 {
            let begin = out.bytes().len();
            out.bytes().extend([sequence as u8; 3]);
            out.mark(begin, sequence, 1);
            if sequence == 0 {
                out.bytes().extend(b"..");
            }
        }
        out
    }

    #[test]
    fn a_message_is_sent_with_its_last_byte() {
        let mut out = three();
        out.take(2);
        assert!(out.next_taken().is_none());
        out.take(6);
        let sent: Vec<u32> = std::iter::from_fn(|| out.next_taken()).map(|mark| mark.sequence).collect();
        assert_eq!((sent, out.rest()), (vec![0, 1], &[2; 3][..]));
    }

    #[test]
    fn what_has_not_begun_is_withdrawn_and_what_stands_between_stays() {
        let (mut out, mut withdrawn, mut events) = (three(), Vec::new(), Vec::new());
        out.take(1);
        out.withdraw(0, |sequence| withdrawn.push(sequence));
        assert_eq!((withdrawn, out.rest()), (vec![2, 1], &[0, 0, b'.', b'.'][..]));
        out.report_begun(7, Nanos(1), &mut events);
        out.report_begun(7, Nanos(2), &mut events);
        let at = Nanos(1);
        assert_eq!(events, [Event::Sent { device: 7, sequence: 0, at, content: 1, packet: 3 }]);
        out.take(4);
        assert!(out.next_taken().unwrap().sent(7, at).is_none(), "reported once");
    }

    #[test]
    fn one_message_of_several_is_withdrawn() {
        let (mut out, mut asked) = (three(), Vec::new());
        out.withdraw_those(0, |sequence| {
            asked.push(sequence);
            sequence == 1
        });
        assert_eq!((asked, out.rest()), (vec![2, 1, 0], &[0, 0, 0, b'.', b'.', 2, 2, 2][..]));
        out.take(8);
        let sent: Vec<u32> = std::iter::from_fn(|| out.next_taken()).map(|mark| mark.sequence).collect();
        assert_eq!(sent, [0, 2]);
    }

    #[test]
    fn what_a_layer_has_sealed_has_begun() {
        let mut out = three();
        out.take(3);
        out.withdraw(3, drop);
        assert_eq!(out.rest(), [b'.', b'.', 1, 1, 1]);
    }
}
