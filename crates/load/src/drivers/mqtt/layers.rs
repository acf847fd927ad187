//! What lies between a session and its socket where that is not nothing. A message counts as sent when the kernel has the
//! last byte of what became of it.

use super::socket::Socket;
use super::tls::{Handshake, Terms, Tls};
use crate::driver::Traffic;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::TransportPlan;
use rustix::io::Errno;
use rustls::ClientConfig;
use std::sync::Arc;

/// Most bytes that are secured at once: what the kernel may take with one call.
const AT_ONCE: usize = 64 * 1024;
/// Room that is kept for what the kernel does not take at once.
const KEPT: usize = 16 * 1024;

/// What the layers of all clients have in common.
pub struct Transport {
    tls: Option<Terms>,
}

impl Transport {
    /// Of a plan.
    ///
    /// # Errors
    /// Certificates and keys that cannot be used.
    pub fn new(plan: &TransportPlan) -> Result<Transport, String> {
        Ok(Transport { tls: plan.tls.as_ref().map(Terms::new).transpose()? })
    }

    /// What one client keeps over its connections.
    pub fn of_client(&self) -> Option<Arc<ClientConfig>> {
        self.tls.as_ref().map(Terms::of_client)
    }

    /// The layers of a new connection; `None` where MQTT goes directly over TCP.
    ///
    /// # Errors
    /// See [`Tls::new`].
    pub fn layers(&self, client: Option<&Arc<ClientConfig>>) -> Result<Option<Box<Layers>>, String> {
        let tls = match (&self.tls, client) {
            (Some(terms), Some(config)) => Some(Tls::new(terms, config)?),
            _ => None,
        };
        Ok(tls.map(|tls| {
            Box::new(Layers { tls, began: Nanos::ZERO, open: false, out: Vec::new(), gone: 0, sealed: 0 })
        }))
    }
}

/// The layers of one connection.
pub struct Layers {
    tls: Tls,
    /// When TCP was connected.
    began: Nanos,
    /// Whether the session may begin.
    open: bool,
    /// For the kernel, which has taken the first `gone` bytes.
    out: Vec<u8>,
    gone: usize,
    /// Of what the session writes next, so many bytes are in `out` already.
    sealed: usize,
}

impl Layers {
    /// TCP is connected.
    pub fn begin(&mut self, at: Nanos) {
        self.began = at;
        self.tls.outgoing(&mut self.out);
    }

    /// Whether the session may begin.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// How many bytes from the front of what the session writes cannot be called back.
    pub fn sealed(&self) -> usize {
        self.sealed
    }

    /// Whether something waits for the kernel.
    pub fn is_waiting(&self) -> bool {
        self.gone < self.out.len()
    }

    /// Ways there and back that it took until the session could begin, that of TCP apart.
    pub fn round_trips(&self) -> u32 {
        self.tls.round_trips()
    }

    /// Takes in what the kernel received at that time, and appends what of it is for the session. Returns a handshake of
    /// TLS that came to its end by it.
    ///
    /// # Errors
    /// The connection is of no use any more: why, for people.
    pub fn incoming(
        &mut self,
        bytes: &[u8],
        at: Nanos,
        session: &mut Vec<u8>,
    ) -> Result<Option<Handshake>, String> {
        let taken = self.tls.incoming(bytes, session);
        // Also where it failed: the platform is told why.
        self.tls.outgoing(&mut self.out);
        taken?;
        let ended = !self.open && !self.tls.is_handshaking();
        self.open |= ended;
        Ok(ended.then(|| Handshake { took: at - self.began, resumed: self.tls.resumed() }))
    }

    /// Hands over what the session writes; returns how much of it the kernel has in full. What is not taken must be
    /// given again next time.
    pub fn write(&mut self, bytes: &[u8], socket: &Socket, traffic: &mut Traffic) -> Result<usize, Errno> {
        if self.sealed == 0 {
            let some = bytes.get(..AT_ONCE).unwrap_or(bytes);
            self.sealed = self.tls.secure(some);
            self.tls.outgoing(&mut self.out);
        }
        self.flush(socket, traffic)?;
        let through = !self.is_waiting();
        Ok(if through { std::mem::take(&mut self.sealed) } else { 0 })
    }

    /// Hands over what waits for the kernel.
    pub fn flush(&mut self, socket: &Socket, traffic: &mut Traffic) -> Result<(), Errno> {
        while let Some(rest) = self.out.get(self.gone..).filter(|rest| !rest.is_empty()) {
            let count = socket.write(rest)?;
            if count == 0 {
                return Ok(());
            }
            self.gone += count;
            traffic.sent += count as u64;
        }
        self.gone = 0;
        self.out.clear();
        self.out.shrink_to(KEPT);
        Ok(())
    }

    /// Says that nothing follows.
    pub fn close(&mut self) {
        self.tls.close();
        self.tls.outgoing(&mut self.out);
    }
}
