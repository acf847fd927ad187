//! The socket of one client.

use super::Outgoing;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::sockopt::set_socket_linger;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The peer is gone, or must go.
#[derive(Clone, Copy, Debug)]
pub struct Gone;

/// A client's socket, registered in epoll until it is dropped.
pub struct Peer {
    stream: TcpStream,
    /// Its id in epoll.
    id: u64,
    interest: EventFlags,
    /// Whether epoll does not know it at present.
    forgotten: bool,
}

impl Peer {
    /// Registers a socket that was just accepted.
    pub fn new(stream: TcpStream, id: u64, epoll: &OwnedFd) -> std::io::Result<Peer> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let interest = EventFlags::IN | EventFlags::RDHUP;
        epoll::add(epoll, &stream, EventData::new_u64(id), interest)?;
        Ok(Peer { stream, id, interest, forgotten: false })
    }

    /// Reads once into `scratch`; the number of bytes, `None` when there is nothing at present.
    pub fn read(&mut self, scratch: &mut [u8]) -> Result<Option<usize>, Gone> {
        match self.stream.read(scratch) {
            Ok(0) => Err(Gone),
            Ok(count) => Ok(Some(count)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(_) => Err(Gone),
        }
    }

    /// Sends what the socket takes.
    pub fn send(&mut self, out: &mut Outgoing) -> Result<(), Gone> {
        while out.waiting() > 0 {
            match self.stream.write(out.rest()) {
                Ok(0) => return Err(Gone),
                Ok(count) => out.advance(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }

    /// Chooses which events epoll reports.
    pub fn watch(&mut self, epoll: &OwnedFd, reading: bool, writing: bool) -> Result<(), Gone> {
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN | EventFlags::RDHUP, reading);
        interest.set(EventFlags::OUT, writing);
        if self.forgotten {
            if !interest.is_empty() {
                epoll::add(epoll, &self.stream, EventData::new_u64(self.id), interest).map_err(|_| Gone)?;
                (self.forgotten, self.interest) = (false, interest);
            }
        } else if interest != self.interest {
            self.interest = interest;
            epoll::modify(epoll, &self.stream, EventData::new_u64(self.id), interest).map_err(|_| Gone)?;
        }
        Ok(())
    }

    /// Says that nothing more will be sent.
    pub fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Asks epoll for nothing, not even whether the peer is gone, until there is something to watch again.
    pub fn forget(&mut self, epoll: &OwnedFd) {
        self.forgotten |= epoll::delete(epoll, &self.stream).is_ok();
    }

    /// Resets the connection: the other side is told that something went wrong.
    pub fn reset(self) {
        reset(self.stream);
    }

    /// Says that nothing more will be sent, and reads what has come meanwhile: a socket that is closed with unread bytes
    /// resets the connection, and the peer may lose our last packet.
    pub fn finish(mut self, scratch: &mut [u8]) {
        self.end();
        for _ in 0..4 {
            if !matches!(self.read(scratch), Ok(Some(_))) {
                return;
            }
        }
    }
}

/// Closes a connection by a reset.
pub fn reset(stream: TcpStream) {
    // Where it fails, the connection is closed in the usual way.
    let _ = set_socket_linger(&stream, Some(Duration::ZERO));
}
