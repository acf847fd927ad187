//! One TCP connection of a station: bytes in, bytes out, both bounded.

use super::StationProtocol;
use super::session::Session;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

/// Bytes that wait for a peer before it is given up: it does not read.
const MOST_WAITING: usize = 16 * 1024 * 1024;

/// A client's connection.
pub struct Connection {
    stream: TcpStream,
    /// Its id in epoll: slot and generation.
    pub id: u64,
    /// What was read and is no whole packet yet.
    pub input: Vec<u8>,
    pub session: Session,
    out: Vec<u8>,
    written: usize,
    wants_write: bool,
}

/// The peer is gone, or must go.
#[derive(Clone, Copy, Debug)]
pub struct Gone;

impl Connection {
    pub fn new(
        stream: TcpStream,
        id: u64,
        protocol: StationProtocol,
        epoll: &OwnedFd,
    ) -> std::io::Result<Connection> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        epoll::add(epoll, &stream, EventData::new_u64(id), EventFlags::IN | EventFlags::RDHUP)?;
        Ok(Connection {
            stream,
            id,
            input: Vec::new(),
            session: Session::new(protocol),
            out: Vec::new(),
            written: 0,
            wants_write: false,
        })
    }

    /// Where replies are appended; [`Connection::send`] sends them.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
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
    pub fn send(&mut self, epoll: &OwnedFd) -> Result<(), Gone> {
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Err(Gone),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        } else if self.written > MOST_WAITING / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
        let waiting = self.out.len() - self.written;
        if waiting == 0 && self.session.is_over() {
            return Err(Gone);
        }
        if waiting + self.session.waiting_bytes() > MOST_WAITING {
            return Err(Gone);
        }
        if (waiting > 0) != self.wants_write {
            self.wants_write = waiting > 0;
            let mut flags = EventFlags::IN | EventFlags::RDHUP;
            flags.set(EventFlags::OUT, self.wants_write);
            epoll::modify(epoll, &self.stream, EventData::new_u64(self.id), flags).map_err(|_| Gone)?;
        }
        Ok(())
    }
}
