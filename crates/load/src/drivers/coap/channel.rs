//! What messages go over: a UDP socket, alone or under DTLS.

use super::dtls::Session;
use crate::driver::{Records, Traffic};
use crate::drivers::socket::{Interest, SEGMENT_BYTES, SEGMENTS, Socket};
use crate::refusal;
use plimsoll_model::Nanos;
use rustix::io::Errno;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

/// See the module.
pub struct Channel {
    socket: Socket,
    session: Option<Box<Session>>,
    /// Whether messages of one size are handed over together.
    together: bool,
    /// When the newest datagram came, on the run's clock.
    heard_at: Option<Nanos>,
    /// How long it had lain in the kernel.
    lag: Option<Nanos>,
}

/// What one look at a channel gave.
pub enum Reading {
    /// There is nothing at present.
    Nothing,
    /// A message of that many bytes, and how long it had lain in the kernel.
    Message(usize, Option<Nanos>),
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
        Ok(Channel { socket, session: session.map(Box::new), together: false, heard_at: None, lag: None })
    }

    /// Hands over messages of one size together, where they are not secured and for as long as the kernel does so.
    pub fn together(self) -> Channel {
        Channel { together: self.session.is_none(), ..self }
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

    /// Sends a message; whether there was room.
    pub fn send(&mut self, message: &[u8], now: Nanos, traffic: &mut Traffic) -> Result<bool, String> {
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

    /// Sends the first of these messages, or with one call as many as can go together; how many that were, none where
    /// there was no room.
    pub fn send_first<'a>(
        &mut self,
        mut messages: impl Iterator<Item = &'a [u8]>,
        now: Nanos,
        traffic: &mut Traffic,
    ) -> Result<usize, String> {
        let Some(first) = messages.next() else { return Ok(0) };
        if self.together {
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
        Ok(usize::from(self.send(first, now, traffic)?))
    }

    /// Sends messages of one size; how many went, all or none. `None` where they have to go one by one.
    fn write_run(&mut self, run: &[IoSlice<'_>], traffic: &mut Traffic) -> Result<Option<usize>, String> {
        if run.len() < 2 {
            return Ok(None);
        }
        let taken = self.socket.write_segments(run).map_err(refusal::told_of_datagram)?;
        // Who refuses it once would do so each time.
        self.together = taken.is_some();
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
        if let Some(reading) = self.message(scratch) {
            return Ok(reading);
        }
        let Some(reading) = self.socket.read(scratch).map_err(refusal::told_of_datagram)? else {
            return Ok(Reading::Nothing);
        };
        traffic.received_datagram(reading.length);
        let Some(session) = &mut self.session else {
            return Ok(Reading::Message(reading.length, reading.lag));
        };
        (self.heard_at, self.lag) = (Some(now), reading.lag);
        let outcome = session.incoming(scratch.get(..reading.length).unwrap_or_default(), now);
        // Also where it failed: the platform may be told why. That it cannot be reached is told by the next reading.
        let _ = self.flush(traffic);
        match outcome? {
            Some(took) => Ok(Reading::Secured(took)),
            None => {
                let read = self.message(scratch).unwrap_or(Reading::Part);
                if let Reading::Message(length, _) = read {
                    let (bytes, secured) = (reading.length as u64, length as u64);
                    traffic.records_received += Records { count: 1, bytes, secured };
                }
                Ok(read)
            }
        }
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
        Some(Reading::Message(length, self.lag))
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
