//! The DTLS sessions of devices: what goes to the network and what comes from it lies between here and the sockets, so that a session
//! needs none of its own.

use crate::driver::{Records, Traffic};
use crate::drivers::coap::dtls::{Session, Terms};
use crate::drivers::timers::Timers;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::DtlsPlan;

/// See the module.
pub struct Sessions {
    terms: Terms,
    sessions: Vec<Option<Box<Session>>>,
    /// Handshakes in which something is to be repeated.
    timers: Timers<()>,
    /// Datagrams that the sessions have made, by device.
    outgoing: Vec<(u32, Vec<u8>)>,
}

impl Sessions {
    /// Of so many devices, none of them begun.
    ///
    /// # Errors
    /// Certificates cannot be used: why, for people.
    pub fn new(plan: &DtlsPlan, devices: u32) -> Result<Sessions, String> {
        Ok(Sessions {
            terms: Terms::of_devices(plan)?,
            sessions: (0..devices).map(|_| None).collect(),
            timers: Timers::new(),
            outgoing: Vec::new(),
        })
    }

    fn session(&mut self, slot: u32) -> Option<&mut Box<Session>> {
        self.sessions.get_mut(slot as usize)?.as_mut()
    }

    /// Begins the handshake of a device in the place of an earlier session; `number` is the device's.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn begin(&mut self, slot: u32, number: u32, now: Nanos) -> Result<(), String> {
        let session = self.terms.session(number, now)?;
        if let Some(place) = self.sessions.get_mut(slot as usize) {
            *place = Some(Box::new(session));
        }
        self.tick(slot, now)
    }

    /// The next device whose handshake waits for time to pass.
    pub fn due(&mut self, now: Nanos) -> Option<u32> {
        while let Some((at, slot, ())) = self.timers.due(now) {
            if self.session(slot).is_some_and(|session| session.wakes_at() == Some(at)) {
                return Some(slot);
            }
        }
        None
    }

    /// When the first of them is due.
    pub fn next_timer(&self) -> Nanos {
        self.timers.next()
    }

    /// Repeats what of a handshake was not answered.
    ///
    /// # Errors
    /// It took too long: why, for people.
    pub fn tick(&mut self, slot: u32, now: Nanos) -> Result<(), String> {
        let outcome = self.session(slot).map_or(Ok(()), |session| session.tick(now));
        self.collect(slot);
        self.forget_failed(slot, outcome)
    }

    /// Secures a message.
    ///
    /// # Errors
    /// The session is of no use any more: why, for people.
    pub fn secure(
        &mut self,
        slot: u32,
        message: &[u8],
        now: Nanos,
        traffic: &mut Traffic,
    ) -> Result<(), String> {
        let session = self.session(slot).ok_or("the device has no DTLS session")?;
        let outcome = session.secure(message, now);
        let before = self.outgoing.len();
        self.collect(slot);
        let bytes = self.outgoing.iter().skip(before).map(|(_, datagram)| datagram.len() as u64).sum();
        traffic.records_sent += Records { count: 1, bytes, secured: message.len() as u64 };
        self.forget_failed(slot, outcome)
    }

    /// Takes in a datagram of the network; how long the handshake took, if it came to its end by it.
    ///
    /// # Errors
    /// The session is of no use any more: why, for people.
    pub fn incoming(&mut self, slot: u32, datagram: &[u8], now: Nanos) -> Result<Option<Nanos>, String> {
        let outcome = self.session(slot).map_or(Ok(None), |session| session.incoming(datagram, now));
        self.collect(slot);
        self.forget_failed(slot, outcome)
    }

    /// Takes a message that came in a datagram of that size.
    pub fn message(&mut self, slot: u32, datagram: usize, traffic: &mut Traffic) -> Option<Vec<u8>> {
        let message = self.session(slot)?.message()?;
        let (bytes, secured) = (datagram as u64, message.len() as u64);
        traffic.records_received += Records { count: 1, bytes, secured };
        Some(message)
    }

    /// Says that nothing follows, and forgets the session.
    fn close(&mut self, slot: u32, now: Nanos) {
        if let Some(session) = self.session(slot) {
            session.close(now);
        }
        self.collect(slot);
        if let Some(place) = self.sessions.get_mut(slot as usize) {
            *place = None;
        }
    }

    /// Closes all of them.
    pub fn close_all(&mut self, now: Nanos) {
        (0..self.sessions.len() as u32).for_each(|slot| self.close(slot, now));
    }

    /// Takes the datagrams that are to go to the network; the empty list that is given back keeps its memory.
    pub fn take_outgoing(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.outgoing)
    }

    /// Keeps datagrams that found no room, before what came since.
    pub fn keep(&mut self, mut unsent: Vec<(u32, Vec<u8>)>) {
        unsent.append(&mut self.outgoing);
        self.outgoing = unsent;
    }

    /// A session that has failed is of no use any more.
    fn forget_failed<T>(&mut self, slot: u32, outcome: Result<T, String>) -> Result<T, String> {
        if let (Err(_), Some(place)) = (&outcome, self.sessions.get_mut(slot as usize)) {
            *place = None;
        }
        outcome
    }

    /// Collects what a session has made, and wakes it again where it waits for something.
    fn collect(&mut self, slot: u32) {
        let Sessions { sessions, timers, outgoing, .. } = self;
        let Some(Some(session)) = sessions.get_mut(slot as usize) else { return };
        while let Some(datagram) = session.outgoing() {
            outgoing.push((slot, datagram));
        }
        if let Some(at) = session.wakes_at() {
            timers.set(at, slot, ());
        }
    }
}
