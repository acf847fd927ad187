//! A socket of devices: the requests that are under way over it, the devices that speak over it, and when it is opened again
//! after the platform could not be reached.

use super::channel::Peer;
use super::dtls::Session;
use super::endpoint::{Endpoint, Remote};
use super::message_ids::{IDS, MessageIds};
use crate::driver::Traffic;
use plimsoll_codec::coap::Kind;
use plimsoll_model::Nanos;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

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
pub struct DeviceSocket {
    /// What it sends and reads with.
    pub endpoint: Endpoint,
    pub state: State,
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
    /// The message id of the ping with which it was opened.
    pub ping: Option<u16>,
    /// When it was opened.
    pub began: Nanos,
    /// The pause before it is opened again, should it fail.
    pub pause: Nanos,
    /// Whether a datagram ever came over it: only then is it tried again by itself.
    pub was_ready: bool,
    /// When its timer is due; one that fires at another time is of an earlier wish.
    pub timer_at: Nanos,
}

impl DeviceSocket {
    /// A socket that is not open.
    pub fn new(pause: Nanos) -> DeviceSocket {
        DeviceSocket {
            endpoint: Endpoint::default(),
            state: State::Closed,
            exchanges: HashMap::new(),
            waiting: Vec::new(),
            members: Vec::new(),
            gathered: Vec::new(),
            blocked: Vec::new(),
            crowded: Vec::new(),
            ping: None,
            began: Nanos::ZERO,
            pause,
            was_ready: false,
            timer_at: Nanos::MAX,
        }
    }

    /// The number of its openings and closings so far: timers and readiness of an earlier one are known by that.
    pub fn generation(&self) -> u32 {
        self.endpoint.generation()
    }

    /// Opens it at its time of beginning, and sends a ping or begins the handshake. Its message ids begin at `first_id`.
    /// Where it `gathers`, messages go together that are sent together.
    ///
    /// # Errors
    /// The kernel refuses the socket, or the platform cannot be reached: why, for people.
    pub fn open(
        &mut self,
        slot: u32,
        (address, source): (SocketAddr, Option<IpAddr>),
        (first_id, session, gathers): (u16, Option<Session>, bool),
        epoll: &OwnedFd,
        traffic: &mut Traffic,
    ) -> Result<(), String> {
        let (ids, secured) = (MessageIds::beginning_at(first_id, self.began), session.is_some());
        self.endpoint.connect(Remote { address, source, session, gathers }, ids, (epoll, slot))?;
        (self.state, self.timer_at) = (State::Asking, Nanos::MAX);
        if secured {
            return self.endpoint.tick(self.began, traffic);
        }
        let id = self.take_id(self.began).unwrap_or_default();
        self.ping = Some(id);
        self.endpoint.say(Kind::Confirmable, id, Peer::Connected, self.began, traffic);
        Ok(())
    }

    /// Says that nothing follows, and closes it.
    pub fn leave(&mut self, now: Nanos, traffic: &mut Traffic) {
        self.endpoint.leave(now, traffic);
        self.forget();
    }

    /// Closes it; what was under way over it is the caller's to tell.
    pub fn close(&mut self) {
        self.endpoint.close();
        self.forget();
    }

    fn forget(&mut self) {
        self.ping = None;
        self.exchanges.clear();
        self.gathered.clear();
        self.blocked.clear();
        self.crowded.clear();
        self.state = State::Closed;
    }

    /// Whether so many requests are under way over it that no further one has a message id: one is kept for pings.
    pub fn is_full(&self) -> bool {
        self.exchanges.len() + 1 >= IDS
    }

    /// A message id that nothing under way has; `None` where all are taken.
    pub fn take_id(&mut self, now: Nanos) -> Option<u16> {
        if self.is_full() {
            return None;
        }
        self.endpoint.take_id(now, |id| self.exchanges.contains_key(&id))
    }

    /// Whether anything is to be expected from a further reading.
    pub fn expects(&self) -> bool {
        !self.exchanges.is_empty() || self.endpoint.has_more()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_is_kept_when_all_others_are_under_way() {
        let mut socket = DeviceSocket::new(Nanos::ZERO);
        socket.exchanges.insert(0, 7);
        assert_eq!([0, 0].map(|_| socket.take_id(Nanos::ZERO)), [Some(1), Some(2)]);
        for id in 0..u16::MAX {
            socket.exchanges.insert(id, 0);
        }
        assert!(socket.is_full());
        assert_eq!(socket.take_id(Nanos::ZERO), None);
    }
}
