//! A socket, and the DTLS sessions with those who speak to it, where datagrams are secured.

use super::secured::{Secret, Secured};
use super::{LOOK, Lwm2mError};
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

/// See the module.
pub struct Channel {
    socket: UdpSocket,
    secured: Option<Secured>,
}

impl Channel {
    /// Listens there; a reading ends after a while though nothing has come.
    ///
    /// # Errors
    /// The port is taken, or the secret cannot be used.
    pub fn bind(address: SocketAddr, secret: Option<&Secret>) -> Result<Channel, Lwm2mError> {
        let socket = UdpSocket::bind(address).map_err(|cause| Lwm2mError::Listen { address, cause })?;
        socket.set_read_timeout(Some(LOOK))?;
        let secured = secret.map(Secured::new).transpose().map_err(Lwm2mError::Secret)?;
        Ok(Channel { socket, secured })
    }

    /// The socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Its address.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<SocketAddr, Lwm2mError> {
        Ok(self.socket.local_addr()?)
    }

    /// How addresses of resources here begin.
    pub fn scheme(&self) -> &'static str {
        if self.secured.is_some() { "coaps" } else { "coap" }
    }

    /// Reads a datagram: its length, and whose it is. `None` where nothing came for a while.
    ///
    /// # Errors
    /// The system refuses the socket.
    pub fn read(&self, room: &mut [u8]) -> Result<Option<(usize, SocketAddr)>, Lwm2mError> {
        use std::io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
        match self.socket.recv_from(room) {
            Ok(read) => Ok(Some(read)),
            // Nothing came, or nobody is where the last answer went.
            Err(error) if matches!(error.kind(), ConnectionRefused | Interrupted | TimedOut | WouldBlock) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What a datagram says that was secured; `None` where datagrams are messages as they come.
    pub fn opened(&mut self, datagram: &[u8], from: SocketAddr) -> Option<Vec<Vec<u8>>> {
        let outcome = self.secured.as_mut()?.incoming(from, datagram, Instant::now());
        // What cannot be sent is lost, as datagrams are.
        outcome.outgoing.iter().for_each(|datagram| _ = self.socket.send_to(datagram, from));
        Some(outcome.messages)
    }

    /// Sends a message. What cannot be sent is lost, as datagrams are: it is asked for again.
    pub fn send(&mut self, message: &[u8], to: SocketAddr) {
        match &mut self.secured {
            Some(secured) => {
                let datagrams = secured.secure(to, message);
                datagrams.iter().for_each(|datagram| _ = self.socket.send_to(datagram, to));
            }
            None => _ = self.socket.send_to(message, to),
        }
    }
}
