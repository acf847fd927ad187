//! One TCP connection of a station: bytes in, bytes out, both bounded.

use super::StationProtocol;
use super::session::{Message, Session};
use crate::tcp::{Gone, Outgoing, Peer};
use std::os::fd::OwnedFd;

/// Bytes that wait for a peer before it is given up: it does not read.
const MOST_WAITING: usize = 16 * 1024 * 1024;

/// A client's connection.
pub struct Connection {
    /// Its socket, once it is registered.
    pub peer: Option<Peer>,
    /// What was read and is no whole packet yet.
    pub input: Vec<u8>,
    pub session: Session,
    pub out: Outgoing,
}

impl Connection {
    pub fn new(protocol: StationProtocol) -> Connection {
        Connection {
            peer: None,
            input: Vec::new(),
            session: Session::new(protocol),
            out: Outgoing::default(),
        }
    }

    /// Sends what the socket takes.
    pub fn send(&mut self, epoll: &OwnedFd) -> Result<(), Gone> {
        let peer = self.peer.as_mut().ok_or(Gone)?;
        peer.send(&mut self.out)?;
        let waiting = self.out.waiting();
        if waiting == 0 && self.session.is_over() {
            return Err(Gone);
        }
        if waiting + self.session.waiting_bytes() > MOST_WAITING {
            return Err(Gone);
        }
        peer.watch(epoll, true, waiting > 0)
    }

    /// Gives what was read to the session, and keeps what is no whole packet.
    pub fn take_in(&mut self, bytes: &[u8], messages: &mut Vec<Message>) -> Result<(), Gone> {
        let Connection { input, session, out, .. } = self;
        let outcome = if input.is_empty() {
            session.input(bytes, out.bytes(), messages).map(|taken| {
                input.extend_from_slice(bytes.get(taken..).unwrap_or_default());
            })
        } else {
            input.extend_from_slice(bytes);
            session.input(input, out.bytes(), messages).map(|taken| {
                input.drain(..taken);
            })
        };
        if input.is_empty() {
            *input = Vec::new();
        }
        outcome.map_err(|_| Gone)
    }
}
