//! One socket: its message ids, the exchanges that are under way over it, the devices that speak over it.

use super::channel::{Channel, Reading};
use super::dtls::Session;
use crate::driver::Traffic;
use crate::drivers::readiness;
use crate::refusal;
use plimsoll_codec::coap::{Kind, Message};
use plimsoll_model::Nanos;
use rustix::io::Errno;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

/// Message ids that there are; one is kept for pings.
const IDS: usize = 1 << 16;
/// How long a platform may remember a message by its id: EXCHANGE_LIFETIME (RFC 7252 section 4.8.2).
const EXCHANGE_LIFETIME: Nanos = Nanos::from_secs(247);

/// How a socket stands with the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not open, and nobody wants it to be.
    Closed,
    /// Open; a ping (RFC 7252 section 4.3) asks whether anybody is there, or the handshake of DTLS.
    Asking,
    /// Requests go over it.
    Ready,
    /// To be opened again after a pause.
    Pausing,
}

/// See the module.
pub struct Endpoint {
    pub state: State,
    pub generation: u32,
    /// Exchanges under way, by message id.
    pub exchanges: HashMap<u16, u32>,
    /// Devices that wait for it, and those that speak over it.
    pub waiting: Vec<u32>,
    pub members: Vec<u32>,
    /// Exchanges whose datagram goes at the end of this turn, and those whose datagram found no room.
    pub gathered: Vec<u32>,
    pub blocked: Vec<u32>,
    /// Devices that wait for a message id.
    pub crowded: Vec<u32>,
    /// When it was opened.
    pub began: Nanos,
    /// The pause before it is opened again, should it fail.
    pub pause: Nanos,
    /// Whether a datagram ever came over it: only then is it tried again by itself.
    pub was_ready: bool,
    /// When its timer is due; one that fires at another time is of an earlier wish.
    pub timer_at: Nanos,
    channel: Option<Channel>,
    next_id: u16,
    /// Message ids taken since they last began to come round, and when that was.
    taken: usize,
    round_at: Nanos,
    /// Whether they came round too soon.
    too_soon: bool,
    /// An empty message as bytes.
    empty: Vec<u8>,
}

impl Endpoint {
    /// A socket that is not open.
    pub fn new(pause: Nanos) -> Endpoint {
        Endpoint {
            state: State::Closed,
            generation: 0,
            exchanges: HashMap::new(),
            waiting: Vec::new(),
            members: Vec::new(),
            gathered: Vec::new(),
            blocked: Vec::new(),
            crowded: Vec::new(),
            began: Nanos::ZERO,
            pause,
            was_ready: false,
            timer_at: Nanos::MAX,
            channel: None,
            next_id: 0,
            taken: 0,
            round_at: Nanos::ZERO,
            too_soon: false,
            empty: Vec::new(),
        }
    }

    /// Opens it at its time of beginning, and sends a ping or begins the handshake. Its message ids begin at `first_id`:
    /// a platform may remember those of an earlier socket with the same port (RFC 7252 section 4.4). Where it
    /// `gathers`, messages go together that are sent together.
    pub fn open(
        &mut self,
        slot: u32,
        (address, source): (SocketAddr, Option<IpAddr>),
        (first_id, session, gathers): (u16, Option<Session>, bool),
        epoll: &OwnedFd,
        traffic: &mut Traffic,
    ) -> Result<(), String> {
        self.generation = self.generation.wrapping_add(1);
        (self.next_id, self.taken, self.round_at) = (first_id, 0, self.began);
        let data = readiness::data(slot, self.generation);
        let secured = session.is_some();
        let channel = Channel::open((address, source), (epoll, data), session).map_err(refusal::told)?;
        let channel = self.channel.insert(if gathers { channel.together() } else { channel });
        (self.state, self.timer_at) = (State::Asking, Nanos::MAX);
        if secured {
            return channel.tick(self.began, traffic);
        }
        let id = self.take_id(self.began).unwrap_or_default();
        self.say(Kind::Confirmable, id, self.began, traffic);
        Ok(())
    }

    /// Puts a channel in the place of the one that it has.
    #[cfg(test)]
    pub fn replace_channel(&mut self, channel: Channel) {
        self.channel = Some(channel);
    }

    /// When its handshake is to be looked at; `None` where there is none under way.
    pub fn wakes_at(&self) -> Option<Nanos> {
        self.channel.as_ref().and_then(Channel::wakes_at)
    }

    /// Repeats what of the handshake was not answered.
    pub fn tick(&mut self, now: Nanos, traffic: &mut Traffic) -> Result<(), String> {
        self.channel.as_mut().map_or(Ok(()), |channel| channel.tick(now, traffic))
    }

    /// Whether it has a session that the platform may have lost: nothing came since.
    pub fn is_silent_since(&self, since: Nanos) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.is_silent_since(since))
    }

    /// Says that nothing follows, and closes it.
    pub fn leave(&mut self, now: Nanos, traffic: &mut Traffic) {
        if let Some(channel) = &mut self.channel {
            channel.close(now, traffic);
        }
        self.close();
    }

    /// Closes it; what was under way over it is the caller's to tell.
    pub fn close(&mut self) {
        self.channel = None;
        self.exchanges.clear();
        self.gathered.clear();
        self.blocked.clear();
        self.crowded.clear();
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Closed;
    }

    /// Whether so many requests are under way over it that no further one has a message id.
    pub fn is_full(&self) -> bool {
        self.exchanges.len() + 1 >= IDS
    }

    /// A message id that nothing under way has; `None` where all are taken.
    pub fn take_id(&mut self, now: Nanos) -> Option<u16> {
        if self.is_full() {
            return None;
        }
        loop {
            if self.taken == IDS {
                self.too_soon = now - self.round_at < EXCHANGE_LIFETIME;
                (self.taken, self.round_at) = (0, now);
            }
            self.taken += 1;
            let id = self.next_id;
            self.next_id = id.wrapping_add(1);
            if !self.exchanges.contains_key(&id) {
                return Some(id);
            }
        }
    }

    /// Whether message ids have come round before the platform had to forget them, told once a round.
    pub fn came_round(&mut self) -> bool {
        std::mem::take(&mut self.too_soon)
    }

    /// Sends an empty message. One that finds no room is lost, as datagrams are: who waits for it asks again.
    pub fn say(&mut self, kind: Kind, id: u16, now: Nanos, traffic: &mut Traffic) {
        self.empty.clear();
        Message::empty(kind, id).encode(&mut self.empty);
        if let Some(channel) = &mut self.channel {
            let _ = channel.send(&self.empty, now, traffic);
        }
    }

    /// Sends the first of these messages, or as many as can go together; how many that were, none without room.
    pub fn send_first<'a>(
        &mut self,
        messages: impl Iterator<Item = &'a [u8]>,
        now: Nanos,
        traffic: &mut Traffic,
    ) -> Result<usize, String> {
        let channel = self.channel.as_mut().ok_or_else(|| refusal::told_of_datagram(Errno::NOTCONN))?;
        channel.send_first(messages, now, traffic)
    }

    /// Reads into the front of `scratch`.
    pub fn read(&mut self, scratch: &mut [u8], now: Nanos, traffic: &mut Traffic) -> Result<Reading, String> {
        self.channel.as_mut().map_or(Ok(Reading::Nothing), |channel| channel.read(scratch, now, traffic))
    }

    /// Whether anything is to be expected from a further reading.
    pub fn expects(&self) -> bool {
        !self.exchanges.is_empty() || self.channel.as_ref().is_some_and(Channel::has_more)
    }

    /// Wants to be woken for room, or not any more.
    pub fn wants_room(&self, slot: u32, wanted: bool, epoll: &OwnedFd) {
        if let Some(channel) = &self.channel {
            channel.wants_room(wanted, epoll, readiness::data(slot, self.generation));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_round_and_leave_out_what_is_under_way() {
        let mut endpoint = Endpoint::new(Nanos::ZERO);
        endpoint.next_id = 65_534;
        endpoint.exchanges.insert(65_535, 0);
        endpoint.exchanges.insert(0, 1);
        assert_eq!([0, 0].map(|_| endpoint.take_id(Nanos::ZERO)), [Some(65_534), Some(1)]);
        for id in 0..=u16::MAX {
            endpoint.exchanges.insert(id, 0);
        }
        assert_eq!(endpoint.take_id(Nanos::ZERO), None);
    }

    #[test]
    fn it_is_told_when_ids_come_round_before_a_platform_forgets_them() {
        for (gap, told) in [(Nanos::from_millis(3), true), (Nanos::from_millis(4), false)] {
            let mut endpoint = Endpoint::new(Nanos::ZERO);
            let take =
                |number: usize, endpoint: &mut Endpoint| endpoint.take_id(gap * number as i64).unwrap();
            let first = take(0, &mut endpoint);
            (1..IDS).for_each(|number| assert_ne!(take(number, &mut endpoint), first));
            assert!(!endpoint.came_round());
            assert_eq!(take(IDS, &mut endpoint), first);
            assert_eq!([0, 0].map(|_| endpoint.came_round()), [told, false]);
        }
    }
}
