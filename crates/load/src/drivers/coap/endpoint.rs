//! One socket: its message ids, the exchanges that are under way over it, the devices that speak over it.

use crate::driver::Traffic;
use crate::drivers::readiness;
use crate::drivers::socket::{Interest, Socket};
use plimsoll_codec::coap::{Kind, Message};
use plimsoll_model::Nanos;
use rustix::io::Errno;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

/// Message ids that there are; one is kept for pings.
const IDS: usize = 1 << 16;

/// How a socket stands with the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not open, and nobody wants it to be.
    Closed,
    /// Open; a ping (RFC 7252 section 4.3) asks whether anybody is there.
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
    /// Exchanges whose datagram found no room.
    pub blocked: Vec<u32>,
    /// Devices that wait for a message id.
    pub crowded: Vec<u32>,
    /// When it was opened.
    pub began: Nanos,
    /// The pause before it is opened again, should it fail.
    pub pause: Nanos,
    /// Whether a datagram ever came over it: only then is it tried again by itself.
    pub was_ready: bool,
    socket: Option<Socket>,
    next_id: u16,
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
            blocked: Vec::new(),
            crowded: Vec::new(),
            began: Nanos::ZERO,
            pause,
            was_ready: false,
            socket: None,
            next_id: 0,
            empty: Vec::new(),
        }
    }

    /// Opens it and sends a ping. Its message ids begin at `first_id`: a platform may remember those of an earlier
    /// socket with the same port (RFC 7252 section 4.4).
    pub fn open(
        &mut self,
        slot: u32,
        (address, source): (SocketAddr, Option<IpAddr>),
        first_id: u16,
        epoll: &OwnedFd,
        traffic: &mut Traffic,
    ) -> Result<(), Errno> {
        self.generation = self.generation.wrapping_add(1);
        self.next_id = first_id;
        let socket = Socket::datagrams(address, source)?;
        let data = readiness::data(slot, self.generation);
        socket.register(epoll, data, Interest { read: true, write: false })?;
        self.socket = Some(socket);
        self.state = State::Asking;
        let id = self.take_id().unwrap_or_default();
        self.say(Kind::Confirmable, id, traffic);
        Ok(())
    }

    /// Closes it; what was under way over it is the caller's to tell.
    pub fn close(&mut self) {
        self.socket = None;
        self.exchanges.clear();
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
    pub fn take_id(&mut self) -> Option<u16> {
        if self.is_full() {
            return None;
        }
        loop {
            let id = self.next_id;
            self.next_id = id.wrapping_add(1);
            if !self.exchanges.contains_key(&id) {
                return Some(id);
            }
        }
    }

    /// Sends an empty message. One that finds no room is lost, as datagrams are: who waits for it asks again.
    pub fn say(&mut self, kind: Kind, id: u16, traffic: &mut Traffic) {
        self.empty.clear();
        Message::empty(kind, id).encode(&mut self.empty);
        if let Some(Ok(count)) = self.socket.as_ref().map(|socket| socket.write(&self.empty)) {
            traffic.sent_datagram(count);
        }
    }

    /// Sends a datagram; whether there was room.
    pub fn send(&self, datagram: &[u8], traffic: &mut Traffic) -> Result<bool, Errno> {
        let count = self.socket.as_ref().ok_or(Errno::NOTCONN)?.write(datagram)?;
        traffic.sent_datagram(count);
        Ok(count > 0)
    }

    /// Reads a datagram: its length and how long it had lain in the kernel; `None` when there is none.
    pub fn read(&self, scratch: &mut [u8]) -> Result<Option<(usize, Option<Nanos>)>, Errno> {
        let reading = self.socket.as_ref().ok_or(Errno::NOTCONN)?.read(scratch)?;
        Ok(reading.map(|reading| (reading.length, reading.lag)))
    }

    /// Wants to be woken for room, or not any more.
    pub fn wants_room(&self, slot: u32, wanted: bool, epoll: &OwnedFd) {
        if let Some(socket) = &self.socket {
            let interest = Interest { read: true, write: wanted };
            // Fails only for a socket that is not registered, which ours is.
            let _ = socket.modify(epoll, readiness::data(slot, self.generation), interest);
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
        assert_eq!([endpoint.take_id(), endpoint.take_id()], [Some(65_534), Some(1)]);
        for id in 0..=u16::MAX {
            endpoint.exchanges.insert(id, 0);
        }
        assert_eq!(endpoint.take_id(), None);
    }
}
