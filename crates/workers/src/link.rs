//! A link between two processes of a run: each message arrives once and in its order, or the link is broken and says so.
//!
//! What carries the frames may lose, repeat and reorder them. So an end keeps what was not acknowledged, and sends it again from the first
//! missing piece on (go-back-N). It is without I/O and without a clock: who holds it gives the time.

use crate::frame::{LinkFrame, Piece};
use plimsoll_model::Nanos;
use std::collections::VecDeque;

/// Largest piece of a message: far below what a server takes by default (1 MiB).
const PIECE: usize = 128 * 1024;
/// Bytes that may be under way at once.
const WINDOW: usize = 2 * 1024 * 1024;
/// Largest message that is put together.
const LARGEST: usize = 256 * 1024 * 1024;
/// Without an acknowledgement for so long, pieces are sent again; then after twice that time, up to the longest.
const PATIENCE: Nanos = Nanos::from_millis(200);
const LONGEST_PATIENCE: Nanos = Nanos::from_secs(1);
/// An end that has nothing to say speaks all the same after so long, so that the other one knows of it.
const BEAT: Nanos = Nanos::from_millis(500);
/// Who was not heard of for so long is away: its lease has run out.
pub const LEASE: Nanos = Nanos::from_secs(5);
/// Who was not heard of for so long does not come back.
pub const GONE: Nanos = Nanos::from_secs(30);

/// Why a link carries nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The other end acknowledges nothing, and more waits for it than may.
    #[error("{0} MiB wait for the other end, which acknowledges nothing: no more are kept")]
    Full(usize),
    /// A message is too large.
    #[error("a message is larger than {} MiB", LARGEST / 1024 / 1024)]
    TooLarge,
    /// The other end acknowledges what was never sent.
    #[error("the other end acknowledges what was never sent")]
    Nonsense,
}

/// One end of a link.
#[derive(Debug)]
pub struct Link {
    run: u64,
    /// Pieces that were not acknowledged, in order.
    kept: VecDeque<Kept>,
    /// The number of the first of them.
    first: u64,
    /// How many of them are under way.
    under_way: usize,
    /// Their bytes, and those of all that are kept.
    bytes_under_way: usize,
    bytes: usize,
    /// Bytes that may be kept at most.
    most: usize,
    /// When the pieces under way are sent again.
    again_at: Option<Nanos>,
    patience: Nanos,
    /// So many pieces of the other end have come.
    received: u64,
    /// A message of which some pieces have come.
    partly: Vec<u8>,
    owes_acknowledgement: bool,
    /// Whether it speaks where it has nothing to say.
    beats: bool,
    last_sent: Nanos,
    last_heard: Nanos,
    broken: Option<Broken>,
}

#[derive(Clone, Debug)]
struct Kept {
    goes_on: bool,
    bytes: Vec<u8>,
}

impl Link {
    /// A link of that run that begins now and keeps at most so many bytes for the other end.
    pub fn new(run: u64, most: usize, now: Nanos) -> Link {
        Link {
            run,
            kept: VecDeque::new(),
            first: 0,
            under_way: 0,
            bytes_under_way: 0,
            bytes: 0,
            most,
            again_at: None,
            patience: PATIENCE,
            received: 0,
            partly: Vec::new(),
            owes_acknowledgement: true,
            beats: true,
            last_sent: now,
            last_heard: now,
            broken: None,
        }
    }

    /// The same without a word where there is nothing to say, and so without a lease: among many workers each has a link to each other
    /// one, and few of these carry anything.
    pub fn quiet(run: u64, most: usize, now: Nanos) -> Link {
        Link { owes_acknowledgement: false, beats: false, ..Link::new(run, most, now) }
    }

    /// Takes a message for the other end.
    ///
    /// # Errors
    /// The link is broken, or breaks with it.
    pub fn push(&mut self, message: &[u8]) -> Result<(), Broken> {
        self.check()?;
        if message.len() > LARGEST {
            return self.fail(Broken::TooLarge);
        }
        if self.bytes + message.len() > self.most {
            return self.fail(Broken::Full(self.bytes / 1024 / 1024));
        }
        self.bytes += message.len();
        if message.is_empty() {
            self.kept.push_back(Kept { goes_on: false, bytes: Vec::new() });
        }
        let mut pieces = message.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            self.kept.push_back(Kept { goes_on: pieces.peek().is_some(), bytes: piece.to_vec() });
        }
        Ok(())
    }

    /// The next frame that is to be sent now; `None` where there is none yet.
    pub fn next(&mut self, now: Nanos) -> Option<LinkFrame> {
        if self.broken.is_some() {
            return None;
        }
        if self.again_at.is_some_and(|at| at <= now) {
            (self.under_way, self.bytes_under_way, self.again_at) = (0, 0, None);
            self.patience = (self.patience * 2).min(LONGEST_PATIENCE);
        }
        let room = self.bytes_under_way < WINDOW;
        let piece = self.kept.get(self.under_way).filter(|_| room).map(|kept| Piece {
            number: self.first + self.under_way as u64,
            goes_on: kept.goes_on,
            bytes: kept.bytes.clone(),
        });
        if let Some(piece) = &piece {
            self.under_way += 1;
            self.bytes_under_way += piece.bytes.len();
            self.again_at.get_or_insert(now + self.patience);
        }
        let is_beat = self.beats && now >= self.last_sent + BEAT;
        if piece.is_none() && !self.owes_acknowledgement && !is_beat {
            return None;
        }
        (self.owes_acknowledgement, self.last_sent) = (false, now);
        Some(LinkFrame { run: self.run, received: self.received, piece })
    }

    /// Takes a frame of the other end; the messages that are whole now.
    ///
    /// # Errors
    /// The link is broken, or breaks with it.
    pub fn take(&mut self, frame: LinkFrame, now: Nanos) -> Result<Option<Vec<u8>>, Broken> {
        self.check()?;
        if frame.run != self.run {
            return Ok(None);
        }
        self.last_heard = now;
        self.acknowledge(frame.received, now)?;
        let Some(piece) = frame.piece else { return Ok(None) };
        self.owes_acknowledgement = true;
        if piece.number != self.received {
            return Ok(None);
        }
        self.received += 1;
        if self.partly.len() + piece.bytes.len() > LARGEST {
            return self.fail(Broken::TooLarge);
        }
        self.partly.extend(piece.bytes);
        Ok((!piece.goes_on).then(|| std::mem::take(&mut self.partly)))
    }

    fn acknowledge(&mut self, received: u64, now: Nanos) -> Result<(), Broken> {
        let Some(count) = received.checked_sub(self.first).filter(|count| *count > 0) else { return Ok(()) };
        if count > self.kept.len() as u64 {
            return self.fail(Broken::Nonsense);
        }
        for place in 0..count as usize {
            let Some(kept) = self.kept.pop_front() else { break };
            self.bytes -= kept.bytes.len();
            // What was to be sent again may be acknowledged before it is.
            if place < self.under_way {
                self.bytes_under_way -= kept.bytes.len();
            }
        }
        self.first = received;
        self.under_way = self.under_way.saturating_sub(count as usize);
        self.patience = PATIENCE;
        self.again_at = (self.under_way > 0).then(|| now + PATIENCE);
        Ok(())
    }

    /// Whether the other end was not heard of for as long as a lease.
    pub fn is_away(&self, now: Nanos) -> bool {
        now - self.last_heard > LEASE
    }

    /// For how long the other end was not heard of.
    pub fn silence(&self, now: Nanos) -> Nanos {
        now - self.last_heard
    }

    /// Bytes that wait for the other end.
    pub fn waiting(&self) -> usize {
        self.bytes
    }

    /// Whether all was acknowledged.
    pub fn is_idle(&self) -> bool {
        self.kept.is_empty()
    }

    /// Why it is broken, if it is.
    pub fn broken(&self) -> Option<Broken> {
        self.broken
    }

    fn check(&self) -> Result<(), Broken> {
        self.broken.map_or(Ok(()), Err)
    }

    fn fail<T>(&mut self, broken: Broken) -> Result<T, Broken> {
        self.broken = Some(broken);
        self.kept.clear();
        self.partly = Vec::new();
        Err(broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: usize = 64 * 1024 * 1024;

    /// What a network does to the next frame.
    #[derive(Clone, Copy, Debug)]
    enum Fate {
        Arrives,
        Lost,
        Twice,
        /// Behind the next one.
        Later,
    }

    fn fate() -> impl Strategy<Value = Fate> {
        prop_oneof![
            6 => Just(Fate::Arrives),
            2 => Just(Fate::Lost),
            1 => Just(Fate::Twice),
            1 => Just(Fate::Later),
        ]
    }

    /// Sends messages both ways over a network with such fates, which becomes a good one when they are used up; what arrived.
    fn carried(messages: [&[Vec<u8>]; 2], fates: &[Fate]) -> [Vec<Vec<u8>>; 2] {
        let mut ends = [0, 1].map(|_| Link::new(9, MOST, Nanos::ZERO));
        for (end, messages) in ends.iter_mut().zip(messages) {
            messages.iter().for_each(|message| end.push(message).unwrap());
        }
        let mut arrived = [Vec::new(), Vec::new()];
        let mut fates = fates.iter().copied();
        let mut now = Nanos::ZERO;
        while !ends.iter().all(Link::is_idle) {
            assert!(now < Nanos::from_secs(3_600), "it comes to an end");
            for from in [0, 1] {
                let mut under_way = Vec::new();
                while let Some(frame) = ends[from].next(now) {
                    match fates.next().unwrap_or(Fate::Arrives) {
                        Fate::Arrives => under_way.push(frame),
                        Fate::Lost => {}
                        Fate::Twice => under_way.extend([frame.clone(), frame]),
                        Fate::Later => under_way.insert(under_way.len().saturating_sub(1), frame),
                    }
                }
                for frame in under_way {
                    arrived[1 - from].extend(ends[1 - from].take(frame, now).unwrap());
                }
            }
            now += Nanos::from_millis(20);
        }
        arrived
    }

    proptest! {
        #[test]
        fn every_message_arrives_once_and_in_order(
            there in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..40),
            back in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..40),
            fates in prop::collection::vec(fate(), 0..300),
        ) {
            let [at_first, at_second] = carried([&there, &back], &fates);
            prop_assert_eq!(at_second, there);
            prop_assert_eq!(at_first, back);
        }

        #[test]
        fn no_frame_makes_it_panic(frames in prop::collection::vec((0..3_u64, 0..5_u64, 0..5_u64, any::<bool>()), 0..50)) {
            let mut link = Link::new(1, MOST, Nanos::ZERO);
            let _ = link.push(&[1]);
            for (run, received, number, goes_on) in frames {
                let _ = link.next(Nanos::ZERO);
                let piece = Some(Piece { number, goes_on, bytes: vec![2] });
                let _ = link.take(LinkFrame { run, received, piece }, Nanos::ZERO);
            }
        }
    }

    #[test]
    fn large_messages_go_in_pieces_and_the_window_bounds_what_is_under_way() {
        let large = vec![7; 5 * 1024 * 1024];
        let mut link = Link::new(1, MOST, Nanos::ZERO);
        link.push(&large).unwrap();
        let sent = std::iter::from_fn(|| link.next(Nanos::ZERO)).count();
        assert_eq!(sent, WINDOW / PIECE);
        let [at_first, at_second] = carried([std::slice::from_ref(&large), &[]], &[Fate::Lost; 5]);
        assert!(at_first.is_empty() && at_second == [large]);
    }

    #[test]
    fn who_takes_nothing_breaks_the_link_and_the_memory_is_bounded() {
        let mut link = Link::new(1, 1024, Nanos::ZERO);
        link.push(&[0; 1000]).unwrap();
        assert_eq!(link.push(&[0; 1000]), Err(Broken::Full(0)));
        assert_eq!((link.broken(), link.next(Nanos::ZERO)), (Some(Broken::Full(0)), None));
    }

    #[test]
    fn a_quiet_link_speaks_only_of_what_is_under_way() {
        let later = |seconds| Nanos::from_secs(seconds);
        let mut ends = [0, 1].map(|_| Link::quiet(1, 1024, Nanos::ZERO));
        assert_eq!(ends[0].next(later(9)), None);
        ends[0].push(&[5]).unwrap();
        let lost = ends[0].next(later(10));
        assert!(lost.is_some());
        let again = ends[0].next(later(11)).unwrap();
        assert_eq!(ends[1].take(again, later(11)), Ok(Some(vec![5])));
        let acknowledged = ends[1].next(later(11)).unwrap();
        assert_eq!(ends[0].take(acknowledged, later(11)), Ok(None));
        assert!(ends.iter_mut().all(|end| end.is_idle() && end.next(later(100)).is_none()));
    }

    #[test]
    fn who_is_silent_is_away_after_a_lease_and_who_has_nothing_to_say_beats() {
        let mut link = Link::new(1, 1024, Nanos::ZERO);
        assert!(link.next(Nanos::ZERO).is_some_and(|frame| frame.piece.is_none()), "it introduces itself");
        assert_eq!(link.next(Nanos::ZERO), None);
        assert!(link.next(BEAT - Nanos(1)).is_none() && link.next(BEAT).is_some());
        assert!(!link.is_away(LEASE) && link.is_away(LEASE + Nanos(1)));
        link.take(LinkFrame { run: 1, received: 0, piece: None }, LEASE).unwrap();
        assert!(!link.is_away(LEASE * 2));
        // What belongs to another run is no sign of life.
        link.take(LinkFrame { run: 2, received: 0, piece: None }, LEASE * 3).unwrap();
        assert!(link.is_away(LEASE * 3));
    }

    #[test]
    fn what_was_never_sent_cannot_be_acknowledged() {
        let mut link = Link::new(1, 1024, Nanos::ZERO);
        assert_eq!(
            link.take(LinkFrame { run: 1, received: 1, piece: None }, Nanos::ZERO),
            Err(Broken::Nonsense)
        );
    }
}
