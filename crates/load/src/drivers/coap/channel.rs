//! What messages go over: a UDP socket, connected to one peer, alone or under DTLS, or bound for many.

use super::dtls::Session;
use crate::driver::{Records, Traffic};
use crate::drivers::socket::{Interest, SEGMENT_BYTES, SEGMENTS, Socket};
use crate::refusal;
use plimsoll_model::Nanos;
use rustix::io::Errno;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

/// See the module.
pub struct Channel {
    socket: Socket,
    /// Whether anybody may send to it; such a channel has no session.
    is_bound: bool,
    session: Option<Box<Session>>,
    /// Whether messages of one size are handed over together.
    gathers: bool,
    /// When the newest datagram came, on the run's clock.
    heard_at: Option<Nanos>,
    /// How long it had lain in the kernel.
    lag: Option<Nanos>,
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// The one that the socket is connected to.
    Connected,
    /// One of many, at that address.
    At(SocketAddr),
}

/// What one look at a channel gave.
pub enum Reading {
    /// There is nothing at present.
    Nothing,
    /// A message of that many bytes, how long it had lain in the kernel, and whose it is.
    Message(usize, Option<Nanos>, Peer),
    /// A part of what DTLS needs for itself.
    Part,
    /// The handshake is over, after so long: messages can go.
    Secured(Nanos),
}

impl Channel {
    /// Opens a socket to that address, registered for reading; with a session it is of use once that is secured.
    pub fn open(
        (address, source): (SocketAddr, Option<IpAddr>),
        (epoll, data): (&OwnedFd, u64),
        session: Option<Session>,
    ) -> Result<Channel, Errno> {
        Channel::over(Socket::datagrams(address, source)?, (epoll, data), session)
    }

    /// The same over a socket that is there.
    pub fn over(
        socket: Socket,
        (epoll, data): (&OwnedFd, u64),
        session: Option<Session>,
    ) -> Result<Channel, Errno> {
        socket.register(epoll, data, Interest { read: true, write: false })?;
        let session = session.map(Box::new);
        Ok(Channel { socket, is_bound: false, session, gathers: false, heard_at: None, lag: None })
    }

    /// Takes over a bound socket, to which anybody may send, registered for reading.
    pub fn bound(socket: UdpSocket, registration: (&OwnedFd, u64)) -> std::io::Result<Channel> {
        let channel = Channel::over(Socket::bound(socket)?, registration, None)?;
        Ok(Channel { is_bound: true, ..channel })
    }

    /// Hands over messages of one size together, where they are not secured and for as long as the kernel does so.
    pub fn gathering(self) -> Channel {
        Channel { gathers: self.session.is_none(), ..self }
    }

    /// When to let time pass for the handshake; `None` where nothing waits for it.
    pub fn wakes_at(&self) -> Option<Nanos> {
        self.session.as_ref().and_then(|session| session.wakes_at())
    }

    /// Whether there is a session that the other side may have lost: nothing came since.
    pub fn is_silent_since(&self, since: Nanos) -> bool {
        self.session.is_some() && self.heard_at.is_none_or(|heard| heard < since)
    }

    /// Lets time pass: begins the handshake, and repeats what of it was not answered.
    pub fn tick(&mut self, now: Nanos, traffic: &mut Traffic) -> Result<(), String> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let outcome = session.tick(now);
        self.flush(traffic)?;
        outcome
    }

    /// Sends a message; whether there was room. To one of many, a failure counts as no room: what became of one says
    /// nothing of the others.
    pub fn send(
        &mut self,
        message: &[u8],
        to: Peer,
        now: Nanos,
        traffic: &mut Traffic,
    ) -> Result<bool, String> {
        if let (true, Peer::At(address)) = (self.is_bound, to) {
            let count = self.socket.write_to(message, address);
            traffic.sent_datagram(count);
            return Ok(count > 0);
        }
        match &mut self.session {
            None => self.write(message, traffic),
            Some(session) => {
                session.secure(message, now)?;
                let before = traffic.sent;
                let room = self.flush(traffic)?;
                let (bytes, secured) = (traffic.sent - before, message.len() as u64);
                if room {
                    traffic.records_sent += Records { count: 1, bytes, secured };
                }
                Ok(room)
            }
        }
    }

    /// Sends the first of these messages to the connected peer, or with one call as many as can go together; how many that
    /// were, none where there was no room.
    pub fn send_first<'a>(
        &mut self,
        mut messages: impl Iterator<Item = &'a [u8]>,
        now: Nanos,
        traffic: &mut Traffic,
    ) -> Result<usize, String> {
        let Some(first) = messages.next() else { return Ok(0) };
        if self.gathers {
            let (mut run, mut count) = ([IoSlice::new(first); SEGMENTS], 1);
            let most = SEGMENT_BYTES / first.len().max(1);
            let alike =
                messages.take_while(|message| message.len() == first.len()).take(most.saturating_sub(1));
            for (place, message) in run.iter_mut().skip(1).zip(alike) {
                *place = IoSlice::new(message);
                count += 1;
            }
            if let Some(taken) = self.write_run(run.get(..count).unwrap_or_default(), traffic)? {
                return Ok(taken);
            }
        }
        Ok(usize::from(self.send(first, Peer::Connected, now, traffic)?))
    }

    /// Sends messages of one size; how many went, all or none. `None` where they have to go one by one.
    fn write_run(&mut self, run: &[IoSlice<'_>], traffic: &mut Traffic) -> Result<Option<usize>, String> {
        if run.len() < 2 {
            return Ok(None);
        }
        let taken = self.socket.write_segments(run).map_err(refusal::told_of_datagram)?;
        // Who refuses it once would do so each time.
        self.gathers = taken.is_some();
        let Some(bytes) = taken else { return Ok(None) };
        let sent = if bytes > 0 { run } else { &[] };
        sent.iter().for_each(|datagram| traffic.sent_datagram(datagram.len()));
        Ok(Some(sent.len()))
    }

    /// Sends what DTLS has made. What finds no room is lost, as datagrams are: it is made anew.
    fn flush(&mut self, traffic: &mut Traffic) -> Result<bool, String> {
        let mut room = true;
        while let Some(datagram) = self.session.as_mut().and_then(|session| session.outgoing()) {
            room &= self.write(&datagram, traffic)?;
        }
        Ok(room)
    }

    fn write(&self, datagram: &[u8], traffic: &mut Traffic) -> Result<bool, String> {
        let count = self.socket.write(datagram).map_err(refusal::told_of_datagram)?;
        traffic.sent_datagram(count);
        Ok(count > 0)
    }

    /// Reads into the front of `scratch`.
    pub fn read(&mut self, scratch: &mut [u8], now: Nanos, traffic: &mut Traffic) -> Result<Reading, String> {
        if self.is_bound {
            return self.read_from_anybody(scratch, traffic);
        }
        if let Some(reading) = self.message(scratch) {
            return Ok(reading);
        }
        let Some(reading) = self.socket.read(scratch).map_err(refusal::told_of_datagram)? else {
            return Ok(Reading::Nothing);
        };
        traffic.received_datagram(reading.length);
        let Some(session) = &mut self.session else {
            return Ok(Reading::Message(reading.length, reading.lag, Peer::Connected));
        };
        (self.heard_at, self.lag) = (Some(now), reading.lag);
        let outcome = session.incoming(scratch.get(..reading.length).unwrap_or_default(), now);
        // Also where it failed: the platform may be told why. That it cannot be reached is told by the next reading.
        let _ = self.flush(traffic);
        match outcome? {
            Some(took) => Ok(Reading::Secured(took)),
            None => {
                let read = self.message(scratch).unwrap_or(Reading::Part);
                if let Reading::Message(length, ..) = read {
                    let (bytes, secured) = (reading.length as u64, length as u64);
                    traffic.records_received += Records { count: 1, bytes, secured };
                }
                Ok(read)
            }
        }
    }

    fn read_from_anybody(&self, scratch: &mut [u8], traffic: &mut Traffic) -> Result<Reading, String> {
        let read = self.socket.read_from(scratch).map_err(refusal::told_of_datagram)?;
        let Some((reading, from)) = read else { return Ok(Reading::Nothing) };
        traffic.received_datagram(reading.length);
        Ok(Reading::Message(reading.length, reading.lag, Peer::At(from)))
    }

    /// Whether a message waits that came together with one that was read.
    pub fn has_more(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.has_message())
    }

    fn message(&mut self, scratch: &mut [u8]) -> Option<Reading> {
        let message = self.session.as_mut()?.message()?;
        // A record carries less than a datagram, for which there is room.
        let length = message.len().min(scratch.len());
        scratch.get_mut(..length)?.copy_from_slice(message.get(..length)?);
        Some(Reading::Message(length, self.lag, Peer::Connected))
    }

    /// Says that nothing follows.
    pub fn close(&mut self, now: Nanos, traffic: &mut Traffic) {
        if let Some(session) = &mut self.session {
            session.close(now);
            // Whoever does not hear it notices in time.
            let _ = self.flush(traffic);
        }
    }

    /// Wants to be woken for room, or not any more.
    pub fn wants_room(&self, wanted: bool, epoll: &OwnedFd, data: u64) {
        // Fails only for a socket that is not registered, which ours is.
        let _ = self.socket.modify(epoll, data, Interest { read: true, write: wanted });
    }
}
