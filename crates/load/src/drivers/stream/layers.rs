//! What lies between a session and its socket where that is not nothing: TLS, WebSocket, or WebSocket over TLS. A message
//! counts as sent when the kernel has the last byte of what became of it.

use crate::driver::{Client, Traffic};
use crate::drivers::socket::Socket;
use crate::run_context::RunContext;
use plimsoll_codec::websocket::Opcode;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{TransportPlan, WebSocketPlan};
use plimsoll_stats::distribution::random;
use rustix::io::Errno;
use rustls::ClientConfig;
use std::sync::Arc;
use tls::{Handshake, Terms, Tls};
pub use tls::{authorities, check as check_tls, of_client as tls_of_client};
use websocket::{WebSocket, Wish};

mod records;
mod tls;
pub mod websocket;

/// Most bytes that are wrapped at once: what the kernel may take with one call.
const AT_ONCE: usize = 64 * 1024;
/// Room that is kept for what the kernel does not take at once.
const KEPT: usize = 16 * 1024;
/// What is spoken over a WebSocket that is a layer (MQTT 5 section 6).
const SUBPROTOCOL: &str = "mqtt";
/// Distinguishes the random numbers of masks from others.
const MASKS: u64 = 0x6d61_736b_7300_0000;

/// What the layers of all clients have in common.
pub struct Transport {
    tls: Option<Terms>,
    websocket: Option<Arc<WebSocketPlan>>,
    seed: u64,
}

impl Transport {
    /// Of a plan; what is given says where keys are left.
    ///
    /// # Errors
    /// Certificates and keys that cannot be used.
    pub fn new(plan: &TransportPlan, seed: u64, run_context: &RunContext) -> Result<Transport, String> {
        let websocket = plan.websocket.clone().map(Arc::new);
        let tls = plan.tls.as_ref().map(|plan| Terms::new(plan, run_context.keys.clone())).transpose()?;
        Ok(Transport { tls, websocket, seed })
    }

    /// What one client keeps over its connections.
    ///
    /// # Errors
    /// See [`Terms::of_client`].
    pub fn of_client(&self, client: Client) -> Result<Option<Arc<ClientConfig>>, String> {
        self.tls.as_ref().map(|terms| terms.of_client(client)).transpose()
    }

    /// The layers of a new connection, of that client and with that number; `None` where the session goes directly over TCP.
    ///
    /// # Errors
    /// See [`Tls::new`].
    pub fn layers(
        &self,
        kept: Option<&Arc<ClientConfig>>,
        (client, connection): (u32, u32),
    ) -> Result<Option<Box<Layers>>, String> {
        let tls = match (&self.tls, kept) {
            (Some(terms), Some(config)) => Some(Tls::new(terms, config)?),
            _ => None,
        };
        let websocket = self.websocket.as_ref().map(|plan| {
            let masks = random(self.seed, &[MASKS, u64::from(client), u64::from(connection)]);
            let wish = Wish { subprotocol: Some(SUBPROTOCOL.to_owned()), ..Wish::default() };
            (Arc::clone(plan), WebSocket::new(masks, wish))
        });
        let some = tls.is_some() || websocket.is_some();
        let layers =
            Layers { tls, websocket, began: Nanos::ZERO, open: false, out: Vec::new(), gone: 0, sealed: 0 };
        Ok(some.then(|| Box::new(layers)))
    }
}

/// The layers of one connection.
pub struct Layers {
    tls: Option<Tls>,
    websocket: Option<(Arc<WebSocketPlan>, WebSocket)>,
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
        match &mut self.tls {
            Some(tls) => tls.outgoing(&mut self.out),
            None => self.request(),
        }
    }

    /// What lies under the WebSocket is connected.
    fn request(&mut self) {
        if let Some((plan, websocket)) = &self.websocket {
            let mut request = Vec::new();
            websocket.request(plan, &mut request);
            self.lower(&request);
        }
    }

    /// Passes bytes on to what lies under the WebSocket.
    fn lower(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            Some(tls) => {
                tls.secure(bytes);
                tls.outgoing(&mut self.out);
            }
            None => self.out.extend_from_slice(bytes),
        }
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
        self.tls.as_ref().map_or(0, Tls::round_trips) + u32::from(self.websocket.is_some())
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
        let mut ended = None;
        let mut clear = Vec::new();
        let bytes = match (&mut self.tls, &self.websocket) {
            (None, _) => bytes,
            (Some(tls), websocket) => {
                let handshaking = tls.is_handshaking();
                let into = if websocket.is_some() { &mut clear } else { &mut *session };
                let taken = tls.incoming(bytes, into);
                // Also where it failed: the platform is told why.
                tls.outgoing(&mut self.out);
                taken?;
                if handshaking && !tls.is_handshaking() {
                    ended = Some(Handshake { took: at - self.began, resumed: tls.resumed() });
                    self.request();
                }
                &clear
            }
        };
        if let Some((plan, websocket)) = &mut self.websocket {
            let mut answer = Vec::new();
            let taken = websocket.incoming(plan, bytes, session, &mut answer, &mut binary_alone);
            if !answer.is_empty() {
                self.lower(&answer);
            }
            taken?;
        }
        let secured = self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking());
        self.open = secured && self.websocket.as_ref().is_none_or(|(_, websocket)| websocket.is_open());
        Ok(ended)
    }

    /// Hands over what the session writes; returns how much of it the kernel has in full. What is not taken must be
    /// given again next time.
    pub fn write(&mut self, bytes: &[u8], socket: &Socket, traffic: &mut Traffic) -> Result<usize, Errno> {
        if self.sealed == 0 {
            let some = bytes.get(..AT_ONCE).unwrap_or(bytes);
            self.sealed = some.len();
            match (&mut self.websocket, &self.tls) {
                (Some((_, websocket)), None) => websocket.message(Opcode::Binary, some, &mut self.out),
                (Some((_, websocket)), Some(_)) => {
                    let mut message = Vec::with_capacity(some.len() + 14);
                    websocket.message(Opcode::Binary, some, &mut message);
                    self.lower(&message);
                }
                (None, _) => self.lower(some),
            }
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
        if let Some(tls) = &mut self.tls {
            tls.book(traffic);
        }
        self.gone = 0;
        self.out.clear();
        self.out.shrink_to(KEPT);
        Ok(())
    }

    /// Says that nothing follows.
    pub fn close(&mut self) {
        if let Some((_, websocket)) = &mut self.websocket {
            let mut close = Vec::new();
            websocket.close(&mut close);
            self.lower(&close);
        }
        if let Some(tls) = &mut self.tls {
            tls.close();
            tls.outgoing(&mut self.out);
        }
    }
}

/// A session reads bytes, whatever messages they came in.
fn binary_alone(opcode: Opcode, _: &mut Vec<u8>, _: usize) -> Result<(), String> {
    match opcode {
        Opcode::Text => Err("the platform sent text over the WebSocket, where MQTT is binary".into()),
        _ => Ok(()),
    }
}
