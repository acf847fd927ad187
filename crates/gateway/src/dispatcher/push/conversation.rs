//! What a device says on its connection, with the time and the memory that it may take for that: the same for both dispatchers.

use crate::configuration::PushProtocol;
use crate::push::{Reply, Said, Session, session};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Bytes that are held of a device while an event of it is handled; with more it has to wait.
pub(super) const BACKLOG: usize = 1 << 16;
/// Bytes of messages that have begun, of all devices together, before they are short of memory.
const PLENTY: usize = 1 << 28;
/// What is left to each device where all of them are short.
const SHORT: usize = 1 << 12;

/// All devices, which share the memory for messages that are not whole yet.
#[derive(Debug)]
pub(super) struct Crowd {
    held: AtomicUsize,
    plenty: usize,
}

impl Crowd {
    pub fn new() -> Crowd {
        Crowd { held: AtomicUsize::new(0), plenty: PLENTY }
    }

    fn is_short(&self) -> bool {
        self.held.load(Ordering::Relaxed) > self.plenty
    }
}

/// The session of a device.
pub(super) struct Conversation<'a> {
    session: Box<dyn Session>,
    /// When it became silent, or began a message: whatever comes of that does not begin its time anew.
    since: Instant,
    /// Bytes of it that the crowd knows of.
    held: usize,
    crowd: &'a Crowd,
}

impl<'a> Conversation<'a> {
    pub fn new(protocol: PushProtocol, crowd: &'a Crowd) -> Conversation<'a> {
        Conversation { session: session(protocol), since: Instant::now(), held: 0, crowd }
    }

    /// More has come.
    pub fn add(&mut self, bytes: &[u8]) {
        if !self.session.is_begun() {
            self.since = Instant::now();
        }
        self.session.add(bytes);
        self.count(self.session.waiting());
    }

    /// The next thing that the device has said as a whole.
    pub fn next(&mut self) -> Option<Said> {
        let said = self.session.next();
        if said.is_some() {
            self.since = Instant::now();
        }
        self.count(self.session.waiting());
        said
    }

    /// The event that was said last is over.
    pub fn over(&mut self, is_done: bool) -> Reply {
        self.since = Instant::now();
        self.session.over(is_done)
    }

    /// Whether a message has begun that is not whole yet; asked when all that came was looked at.
    pub fn is_begun(&self) -> bool {
        self.session.is_begun()
    }

    /// Why the device has to go, if it has to; asked as above.
    pub fn fault(&self) -> Option<&'static str> {
        let is_begun = self.session.is_begun();
        let is_late = self.session.patience().is_some_and(|patience| self.since.elapsed() > patience);
        match (is_late, is_begun) {
            (true, true) => Some("a message takes it too long"),
            (true, false) => Some("it was silent for too long"),
            (false, true) if self.held > SHORT && self.crowd.is_short() => {
                Some("there is no memory for a message of its length")
            }
            (false, _) => None,
        }
    }

    /// Whether nothing more should be read of the device while its event is handled.
    pub fn is_full(&self) -> bool {
        self.held > if self.crowd.is_short() { SHORT } else { BACKLOG }
    }

    fn count(&mut self, held: usize) {
        // Modulo the largest number, so that less is added as well.
        self.crowd.held.fetch_add(held.wrapping_sub(self.held), Ordering::Relaxed);
        self.held = held;
    }
}

impl Drop for Conversation<'_> {
    fn drop(&mut self) {
        self.count(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(plenty: usize) -> Crowd {
        Crowd { plenty, ..Crowd::new() }
    }

    /// White space counts like all that is held: nobody can send it without end behind an event.
    #[test]
    fn a_device_is_full_with_whatever_it_says_behind_an_event() {
        let crowd = Crowd::new();
        let mut device = Conversation::new(PushProtocol::Tcp, &crowd);
        device.add(b"{\"name\":\"event\",\"args\":[\"a\"]}");
        assert!(matches!(device.next(), Some(Said::Event(_))));
        device.add(&[b' '; BACKLOG]);
        assert!(!device.is_full());
        device.add(b" ");
        assert!(device.is_full());
        device.over(true);
        assert_eq!((device.next(), device.is_full(), device.is_begun()), (None, false, false));
    }

    #[test]
    fn who_has_begun_much_goes_where_all_are_short_of_memory() {
        let crowd = crowd(10_000);
        let head = b"POST / HTTP/1.1\r\nContent-Length: 9000\r\n\r\n";
        let [mut one, mut other, mut small] = [(); 3].map(|()| Conversation::new(PushProtocol::Http, &crowd));
        for device in [&mut one, &mut other, &mut small] {
            device.add(head);
            assert_eq!(device.next(), None);
        }
        one.add(&[b'x'; 8000]);
        small.add(&[b'x'; 100]);
        for device in [&mut one, &mut small] {
            assert_eq!((device.next(), device.fault()), (None, None));
        }
        other.add(&[b'x'; 5000]);
        assert_eq!(other.next(), None);
        let too_long = Some("there is no memory for a message of its length");
        assert_eq!((other.fault(), other.is_full(), small.fault()), (too_long, true, None));
        // With one of them the shortage goes, too.
        drop(other);
        assert_eq!((one.fault(), one.is_full()), (None, false));
        one.add(&[b'x'; 1000]);
        assert!(matches!(one.next(), Some(Said::Event(_))));
        assert_eq!(crowd.held.load(Ordering::Relaxed), 100);
        drop((one, small));
        assert_eq!(crowd.held.load(Ordering::Relaxed), 0);
    }

    /// A byte at a time does not begin a message anew, nor does the word that a client waits for; the end of a message does.
    #[test]
    fn the_time_of_a_message_is_that_of_its_beginning() {
        let crowd = Crowd::new();
        let mut device = Conversation::new(PushProtocol::Http, &crowd);
        device.add(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(device.next(), None);
        let begin = device.since;
        for _ in 0..3 {
            device.add(b"1\r\na\r\n");
            assert_eq!((device.next(), device.since), (None, begin));
        }
        device.add(b"0\r\n\r\nP");
        assert!(matches!(device.next(), Some(Said::Event(_))));
        device.over(true);
        assert_eq!(device.next(), None);
        let next = device.since;
        assert!(next >= begin);
        device.add(b"OST");
        assert_eq!((device.next(), device.since, device.fault()), (None, next, None));
    }
}
