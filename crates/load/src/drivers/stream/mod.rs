//! What drivers over TCP share: a connection's socket, with TLS or a WebSocket above it where there is; what all of a shard use in
//! turn; the pause before connecting again.

mod backoff;
pub mod layers;
pub mod link;
pub mod outgoing;

use super::DriverContext;
use super::readiness::{Readiness, data};
use super::socket::{Interest, Reading, Socket};
use crate::clock::Clock;
use crate::driver::{Client, Event, Traffic};
use crate::refusal;
use crate::sources::Sources;
pub use backoff::Backoff;
use layers::{Layers, Transport};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::TransportPlan;
use rustix::io::Errno;
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::Arc;

/// What all streams of a shard use in turn.
pub struct StreamIo {
    pub clock: Clock,
    pub readiness: Readiness,
    /// Where the platform is.
    pub address: SocketAddr,
    sources: Sources,
    transport: Transport,
    /// What the platform's address begins with, before `://`.
    scheme: &'static str,
    /// How long connecting may take, with what lies above TCP.
    pub timeout: Nanos,
    /// The first and the longest pause before connecting again.
    pub pauses: (Nanos, Nanos),
    /// Room for what is read from a socket.
    pub scratch: Vec<u8>,
    /// What came, with the layers taken off.
    pub clear: Vec<u8>,
    pub traffic: Traffic,
}

impl StreamIo {
    /// For the streams of a shard, which have these layers and read so many bytes at once.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance, or certificates cannot be used.
    pub fn new(
        context: &DriverContext,
        transport: &TransportPlan,
        read_size: usize,
    ) -> std::io::Result<StreamIo> {
        let &DriverContext { ref plan, address, clock, ref run_context, .. } = context;
        Ok(StreamIo {
            clock,
            readiness: Readiness::new(clock, &plan.load)?,
            address,
            sources: Sources::new(plan.connection.source_addresses.clone(), address),
            transport: Transport::new(transport, plan.seed, run_context).map_err(std::io::Error::other)?,
            scheme: plan.platform.endpoint().scheme(),
            timeout: plan.connection.timeout,
            pauses: plan.connection.reconnect,
            scratch: vec![0; read_size],
            clear: Vec::new(),
            traffic: Traffic::default(),
        })
    }

    /// What was missing when connecting had taken too long, for people. A platform that has said nothing may be waiting for the first
    /// words of another protocol.
    pub fn late(&self, what: &str, is_silent: bool) -> String {
        let (timeout, scheme) = (self.timeout, self.scheme);
        match is_silent {
            true => format!(
                "{what} within {timeout}; that port may speak another protocol than that of `{scheme}://`"
            ),
            false => format!("{what} within {timeout}"),
        }
    }
}

/// One client's connection over TCP, up to where its protocol begins.
pub struct Stream {
    socket: Option<Socket>,
    /// What lies between protocol and socket; `None` for nothing.
    layers: Option<Box<Layers>>,
    /// The same, where the protocol says when it begins.
    held: Option<Box<Layers>>,
    /// What the client keeps over its secured connections.
    tls: Option<Arc<ClientConfig>>,
    /// Tells events of this socket from those of the one before.
    generation: u32,
    interest: Interest,
    /// When the present attempt to connect began.
    began: Nanos,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream {
            socket: None,
            layers: None,
            held: None,
            tls: None,
            generation: 0,
            interest: Interest { read: true, write: true },
            began: Nanos::ZERO,
        }
    }
}

impl Stream {
    /// One that takes the slot of this one, for another client. Events of this one's sockets are not those of its own.
    pub fn successor(&self) -> Stream {
        Stream { generation: self.generation, ..Stream::default() }
    }

    /// Begins to connect. `client` is whose certificate is shown, and `number` chooses a source address.
    ///
    /// # Errors
    /// Why that cannot be, for people.
    pub fn open(&mut self, slot: u32, whose: (Client, u32), io: &mut StreamIo) -> Result<(), String> {
        self.open_at(slot, whose, io.address, io)
    }

    /// The same at another server of the platform.
    ///
    /// # Errors
    /// Why that cannot be, for people.
    pub fn open_at(
        &mut self,
        slot: u32,
        (client, number): (Client, u32),
        address: SocketAddr,
        io: &mut StreamIo,
    ) -> Result<(), String> {
        self.began = io.clock.now();
        self.generation = self.generation.wrapping_add(1);
        self.interest = Interest { read: true, write: true };
        if self.tls.is_none() {
            self.tls = io.transport.of_client(client)?;
        }
        self.layers = io.transport.layers(self.tls.as_ref(), (number, self.generation))?;
        let opened = Socket::connect(address, io.sources.of(number)).and_then(|socket| {
            socket.register(io.readiness.epoll(), data(slot, self.generation), self.interest)?;
            Ok(socket)
        });
        self.socket = Some(opened.map_err(refusal::told)?);
        Ok(())
    }

    /// The layers wait until the protocol wants them: it begins without them.
    pub fn hold_layers(&mut self) {
        self.held = self.layers.take();
    }

    /// The layers that were held begin; whether there are any.
    pub fn begin_layers(&mut self, at: Nanos) -> bool {
        let Some(mut held) = self.held.take() else { return false };
        held.begin(at);
        self.layers = Some(held);
        true
    }

    /// When the present attempt to connect began.
    pub fn began(&self) -> Nanos {
        self.began
    }

    /// Which connection of its client it is.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether there is a socket.
    pub fn is_there(&self) -> bool {
        self.socket.is_some()
    }

    /// Whether an event of a socket of that generation is about this one.
    pub fn is_of(&self, generation: u32) -> bool {
        generation == self.generation && self.is_there()
    }

    /// TCP has come to its end: whether the layers begin now; without any the protocol does.
    ///
    /// # Errors
    /// There is no connection: why, for people.
    pub fn connected(&mut self, at: Nanos) -> Result<bool, String> {
        if let Some(Err(error)) = self.socket.as_ref().map(Socket::take_error) {
            return Err(refusal::told(error));
        }
        if let Some(layers) = &mut self.layers {
            layers.begin(at);
        }
        Ok(self.layers.is_some())
    }

    /// Whether anything lies between protocol and socket.
    pub fn is_layered(&self) -> bool {
        self.layers.is_some()
    }

    /// Whether the protocol may begin, as far as the layers are concerned.
    pub fn is_open(&self) -> bool {
        self.layers.as_ref().is_none_or(|layers| layers.is_open())
    }

    /// Ways there and back that the layers took.
    pub fn round_trips(&self) -> u32 {
        self.layers.as_ref().map_or(0, |layers| layers.round_trips())
    }

    /// Bytes from the front of what the protocol writes that cannot be called back.
    pub fn sealed(&self) -> usize {
        self.layers.as_ref().map_or(0, |layers| layers.sealed())
    }

    /// Whether something of the layers waits for the kernel.
    pub fn is_waiting(&self) -> bool {
        self.layers.as_ref().is_some_and(|layers| layers.is_waiting())
    }

    /// Hands bytes to the kernel, through what lies between; how many it has taken in full.
    pub fn write(&mut self, bytes: &[u8], traffic: &mut Traffic) -> Result<usize, Errno> {
        match (&self.socket, &mut self.layers) {
            (None, _) => Ok(0),
            (Some(socket), Some(layers)) => layers.write(bytes, socket, traffic),
            (Some(socket), None) => {
                let count = socket.write(bytes)?;
                traffic.sent += count as u64;
                Ok(count)
            }
        }
    }

    /// Hands over what the layers have to say by themselves.
    pub fn flush(&mut self, traffic: &mut Traffic) -> Result<(), Errno> {
        match (&self.socket, &mut self.layers) {
            (Some(socket), Some(layers)) => layers.flush(socket, traffic),
            _ => Ok(()),
        }
    }

    /// Reads what is there; `None` when there is nothing at present.
    pub fn read(&self, into: &mut [u8]) -> Result<Option<Reading>, Errno> {
        self.socket.as_ref().map_or(Ok(None), |socket| socket.read(into))
    }

    /// Takes the layers off what came at that time, and appends what of it is for the protocol. Tells of a handshake that came to its
    /// end by it.
    ///
    /// # Errors
    /// The connection is of no use any more: why, for people.
    pub fn unwrap(
        &mut self,
        bytes: &[u8],
        at: Nanos,
        clear: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        let Some(layers) = &mut self.layers else { return Ok(()) };
        if let Some(handshake) = layers.incoming(bytes, at, clear)? {
            events.push(Event::Secured { took: handshake.took, resumed: handshake.resumed });
        }
        Ok(())
    }

    /// Changes what to be woken for.
    pub fn want(&mut self, slot: u32, interest: Interest, readiness: &Readiness) {
        if interest != self.interest {
            if let Some(socket) = &self.socket {
                // Fails only for a socket that is not registered, which ours is.
                let _ = socket.modify(readiness.epoll(), data(slot, self.generation), interest);
            }
            self.interest = interest;
        }
    }

    /// Says the last words of the protocol, and of the layers where `ends` tells that nothing follows, as well as the socket lets it;
    /// and closes.
    pub fn close_with(&mut self, last_words: &[u8], ends: bool, traffic: &mut Traffic) {
        if !last_words.is_empty() {
            let _ = self.write(last_words, traffic);
        }
        if let Some(layers) = self.layers.as_mut().filter(|_| ends) {
            layers.close();
        }
        // The platform learns of the end by the closed connection all the same.
        let _ = self.flush(traffic);
        self.close();
    }

    /// Forgets the socket and what lay above it. Closing the descriptor takes it out of the epoll set.
    pub fn close(&mut self) {
        self.socket = None;
        (self.layers, self.held) = (None, None);
    }
}
