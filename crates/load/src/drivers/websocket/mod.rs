//! The plain WebSocket driver: each operation sends one message, text or binary, and what comes back is its answer, known by
//! the marker in it, else by its order. One epoll a shard; [`device`] is one connection.

mod device;
mod unanswered;

use super::layers::Transport;
use super::readiness::{Readiness, Ready};
use super::timers::Timers;
use crate::clock::Clock;
use crate::content::{Contents, run_tag};
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::{DriverContext, DriverEntry, Part};
use crate::share::Share;
use crate::sources::Sources;
use device::Device;
use plimsoll_codec::websocket::Opcode;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{MarkerForm, Protocol, TransportPlan, WebSocketPlan};
use plimsoll_stats::distribution::{Random, random};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes read from a socket at once.
const READ_SIZE: usize = 256 * 1024;
/// Distinguishes the random numbers of pauses from others.
const PAUSES: u64 = 0x7061_7573_6573_0000;

/// Devices alone.
pub const ENTRY: DriverEntry =
    DriverEntry::of_devices(Protocol::WebSocket, |context| Ok(Box::new(WebSocketDriver::new(context)?)));

/// Devices of one shard that speak WebSocket.
pub struct WebSocketDriver {
    share: Share,
    devices: Vec<Device>,
    io: Io,
}

/// What all devices of a shard use in turn.
struct Io {
    clock: Clock,
    readiness: Readiness,
    address: SocketAddr,
    sources: Sources,
    /// What is asked for when a connection is made.
    wanted: WebSocketPlan,
    /// TLS, where there is.
    transport: Transport,
    contents: Contents,
    /// What our messages are: text where the content is.
    opcode: Opcode,
    tag: u16,
    seed: u64,
    connect_timeout: Nanos,
    pauses: (Nanos, Nanos),
    timers: Timers<Timer>,
    /// Devices with something to send.
    dirty: Vec<u32>,
    scratch: Vec<u8>,
    /// What came, with TLS taken off.
    clear: Vec<u8>,
    /// A message's content.
    content: Vec<u8>,
    random: Random,
    traffic: Traffic,
}

/// What a device wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    ConnectTimeout,
    Reconnect,
    Answer,
}

impl WebSocketDriver {
    /// A driver for the devices of a share, none of them connected yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance, or certificates cannot be used.
    pub fn new(context: &DriverContext) -> std::io::Result<WebSocketDriver> {
        let &DriverContext { ref plan, run, address, share, clock, ref given, .. } = context;
        let TransportPlan { tls, websocket } = plan.connection.transport.clone();
        let wanted = websocket.ok_or_else(|| std::io::Error::other("the address names no WebSocket"))?;
        // Messages are ours to cut, so that only TLS lies below.
        let transport = Transport::new(&TransportPlan { tls, websocket: None }, plan.seed, given);
        let owned = share.numbers(plan.devices);
        let opcode = match plan.message.marker {
            MarkerForm::Binary => Opcode::Binary,
            MarkerForm::Ascii | MarkerForm::Integer => Opcode::Text,
        };
        let io = Io {
            clock,
            readiness: Readiness::new(clock, &plan.load)?,
            address,
            sources: Sources::new(plan.connection.source_addresses.clone(), address),
            wanted,
            transport: transport.map_err(std::io::Error::other)?,
            contents: Contents::new(plan, run),
            opcode,
            tag: run_tag(plan.message.marker, run),
            seed: plan.seed,
            connect_timeout: plan.connection.timeout,
            pauses: plan.connection.reconnect,
            timers: Timers::new(),
            dirty: Vec::new(),
            scratch: vec![0; READ_SIZE],
            clear: Vec::new(),
            content: Vec::new(),
            random: random(plan.seed, &[PAUSES, u64::from(share.index)]),
            traffic: Traffic::default(),
        };
        let devices = owned.map(|number| Device::new(number, plan.connection.reconnect.0)).collect();
        Ok(WebSocketDriver { share, devices, io })
    }

    fn device(&mut self, client: Client) -> Option<(u32, &mut Device, &mut Io)> {
        let Client::Device(number) = client else { return None };
        let slot = self.share.slot(number);
        Some((slot, self.devices.get_mut(slot as usize)?, &mut self.io))
    }

    fn send_dirty(&mut self, events: &mut Vec<Event>) {
        let mut dirty = std::mem::take(&mut self.io.dirty);
        for slot in dirty.drain(..) {
            if let Some(device) = self.devices.get_mut(slot as usize) {
                device.send(slot, &mut self.io, events);
            }
        }
        self.io.dirty = dirty;
    }

    fn wait(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.io.readiness.wait(until.min(self.io.timers.next()));
        let found = self.io.readiness.found();
        for &Ready { slot, generation, flags } in &found {
            if let Some(device) = self.devices.get_mut(slot as usize) {
                device.ready(slot, generation, flags, &mut self.io, events);
            }
        }
        self.io.readiness.served(found);
    }
}

impl Part for WebSocketDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.io.timers.next()
    }

    fn is_urgent(&self) -> bool {
        self.io.readiness.is_urgent()
    }
}

impl Driver for WebSocketDriver {
    fn now(&self) -> Nanos {
        self.io.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        self.device(client).is_some_and(|(slot, device, io)| device.schedule_connect(slot, io))
    }

    fn release(&mut self, client: Client) -> bool {
        self.device(client).is_some_and(|(_, device, io)| device.release(io))
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        if let Some((slot, device, io)) = self.device(Client::Device(device)) {
            device.submit(slot, sequence, io);
        }
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        for (slot, device) in (0..).zip(&mut self.devices) {
            device.withdraw(slot, &mut self.io, events);
        }
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.send_dirty(events);
        self.wait(until, events);
        let now = self.io.clock.now();
        while let Some((at, slot, timer)) = self.io.timers.due(now) {
            if let Some(device) = self.devices.get_mut(slot as usize) {
                device.timer(slot, timer, at, &mut self.io, events);
            }
        }
        self.send_dirty(events);
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.io.traffic)
    }

    fn disconnect(&mut self) {
        for device in &mut self.devices {
            device.goodbye();
        }
    }
}
