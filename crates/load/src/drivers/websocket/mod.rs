//! The plain WebSocket driver: each operation sends one message, text or binary, and what comes back is its answer, known by
//! what the profile says, else by the marker in it, else by its order. One epoll a shard.
//!
//! [`connection`] is one WebSocket; [`asking`] and [`opening`] how it is asked for, and what it begins with; [`device`] and [`subscriber`] who
//! has one.

mod asking;
mod connection;
mod device;
mod opening;
mod subscriber;
mod unanswered;

pub use super::stream::layers::websocket::{Compression, WebSocket, Wish};
pub use asking::place;

use super::queriers::Queriers;
use super::readiness::Ready;
use super::stream::StreamIo;
use super::timers::Timers;
use crate::content::{Contents, run_tag};
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::answers::Answers;
use crate::drivers::{BoxedPart, DriverContext, DriverEntry, Part};
use crate::share::Share;
use asking::Asking;
use connection::READ_SIZE;
use device::Device;
use opening::Opening;
use plimsoll_codec::websocket::Opcode;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{MarkerForm, Protocol, TransportPlan, WebSocketPlan, WebSocketRole};
use plimsoll_stats::distribution::{Random, random};
use std::os::fd::{AsFd, BorrowedFd};
use unanswered::Unanswered;

/// Distinguishes the random numbers of pauses from others.
const PAUSES: u64 = 0x7061_7573_6573_0000;

/// Devices and queriers.
pub const ENTRY: DriverEntry = DriverEntry {
    queriers: Some(|context, queriers| Ok(Box::new(WebSocketDriver::of_queries(context, queriers)?))),
    ..DriverEntry::of_devices(Protocol::WebSocket, |context| Ok(Box::new(WebSocketDriver::new(context)?)))
};

/// Subscribers that receive over WebSockets of their own.
///
/// # Errors
/// The kernel refuses an epoll instance, or certificates cannot be used.
pub fn receivers(context: &DriverContext, role: &WebSocketRole) -> std::io::Result<BoxedPart> {
    Ok(Box::new(subscriber::SubscriberDriver::new(context, role)?))
}

/// Devices of one shard that speak WebSocket, or its queriers.
pub struct WebSocketDriver {
    share: Share,
    /// What queriers have in common; `None` where these are no queriers.
    queriers: Option<Queriers>,
    devices: Vec<Device>,
    io: Io,
}

/// What all devices of a shard use in turn.
struct Io {
    stream: StreamIo,
    /// What is asked for when a connection is made.
    wanted: WebSocketPlan,
    contents: Contents,
    /// How answers are known; `None` where markers or their order tell.
    answers: Option<Answers>,
    /// Whether no message is answered.
    is_unanswered: bool,
    /// Whether Socket.IO acknowledges each message.
    are_acknowledged: bool,
    asking: Asking,
    opening: Opening,
    /// What our messages are: text where the content is.
    opcode: Opcode,
    tag: u16,
    seed: u64,
    timers: Timers<Timer>,
    /// Devices with something to send.
    dirty: Vec<u32>,
    /// A message's content.
    content: Vec<u8>,
    /// What one reading has brought.
    came: Vec<Event>,
    random: Random,
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
        let &DriverContext { ref plan, run, share, .. } = context;
        let opcode = match plan.message.marker {
            MarkerForm::Binary => Opcode::Binary,
            MarkerForm::Ascii | MarkerForm::Integer => Opcode::Text,
        };
        let (contents, answers) = (Contents::new(plan, run), Answers::of(plan, run));
        let role = &plan.platform.roles.device.websocket;
        let transport = plan.connection.transport.clone();
        let numbers = share.numbers(plan.devices).collect();
        WebSocketDriver::with(context, (role, transport), (contents, answers, opcode), numbers)
    }

    /// A driver for so many queriers in all shards, each over a WebSocket of its own: a query is submitted as if it were a message of
    /// the device that it is about.
    ///
    /// # Errors
    /// Those of [`Self::new`], or the plan says no query.
    pub fn of_queries(context: &DriverContext, queriers: u32) -> std::io::Result<WebSocketDriver> {
        let &DriverContext { ref plan, run, share, .. } = context;
        let query = plan.platform.roles.query.as_ref();
        let missing = || std::io::Error::other("the plan says no query over WebSocket");
        let (Some(query), Some(said)) = (query, query.and_then(|query| query.ask.said())) else {
            return Err(missing());
        };
        let answers = said.answer.clone().map(|answer| Answers::described(answer, run));
        let contents = (Contents::of_queries(plan, run, said), answers, Opcode::Text);
        let port = said.port.as_deref();
        let websocket = Some(plan.websocket_beside_devices(context.address, port));
        let below = plan.transport_beside_devices(Protocol::WebSocket, port);
        let transport = TransportPlan { websocket, ..below };
        let numbers = share.queriers(queriers).collect();
        let driver = WebSocketDriver::with(context, (&query.websocket, transport), contents, numbers)?;
        Ok(WebSocketDriver { queriers: Some(Queriers::default()), ..driver })
    }

    fn with(
        context: &DriverContext,
        (role, transport): (&WebSocketRole, TransportPlan),
        (contents, answers, opcode): (Contents, Option<Answers>, Opcode),
        numbers: Vec<u32>,
    ) -> std::io::Result<WebSocketDriver> {
        let &DriverContext { ref plan, run, share, ref run_context, .. } = context;
        let TransportPlan { tls, websocket } = transport;
        // A platform that was started has an address without a path.
        let wanted = websocket.unwrap_or_else(|| asking::at(context.address));
        let wanted = asking::place(&wanted, role);
        // Messages are ours to cut, so that only TLS lies below.
        let below = TransportPlan { tls, websocket: None };
        let are_acknowledged = role.socket_io.as_ref().is_some_and(|socket_io| socket_io.acknowledges);
        let io = Io {
            stream: StreamIo::new(context, &below, READ_SIZE)?,
            wanted,
            contents: contents.in_context(run_context),
            answers,
            is_unanswered: role.is_unanswered,
            are_acknowledged,
            asking: Asking::new(context, role),
            opening: Opening::new(context, &role.opening),
            opcode,
            tag: run_tag(plan.message.marker, run),
            seed: plan.seed,
            timers: Timers::new(),
            dirty: Vec::new(),
            content: Vec::new(),
            came: Vec::new(),
            random: random(plan.seed, &[PAUSES, u64::from(share.index)]),
        };
        let are_named = are_acknowledged || io.answers.as_ref().is_some_and(Answers::are_named);
        let device = |number| Device::new(number, plan.connection.reconnect, Unanswered::new(are_named));
        let devices = numbers.into_iter().map(device).collect();
        Ok(WebSocketDriver { share, queriers: None, devices, io })
    }

    fn device(&mut self, client: Client) -> Option<(u32, &mut Device, &mut Io)> {
        let Client::Device(number) = client else { return None };
        let slot = self.share.slot(number);
        Some((slot, self.devices.get_mut(slot as usize)?, &mut self.io))
    }

    /// Gives a query to the next querier.
    fn ask(&mut self, device: u32, query: u32) {
        self.io.contents.ask(query, device);
        let slot = Queriers::turn(query, self.devices.len());
        if let Some(querier) = self.devices.get_mut(slot as usize) {
            querier.submit(slot, query, &mut self.io);
            let now = self.io.stream.clock.now();
            // Nothing changes where it is connected, or about to be.
            if self.queriers.as_ref().is_some_and(|queriers| queriers.may_connect(now)) {
                querier.schedule_connect(slot, &mut self.io);
            }
        }
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
        self.io.stream.readiness.wait(until.min(self.io.timers.next()));
        let found = self.io.stream.readiness.found();
        for &Ready { slot, generation, flags } in &found {
            if let Some(device) = self.devices.get_mut(slot as usize) {
                device.ready(slot, generation, flags, &mut self.io, events);
            }
        }
        self.io.stream.readiness.served(found);
    }
}

impl Part for WebSocketDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.stream.readiness.epoll().as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.io.timers.next()
    }

    fn is_urgent(&self) -> bool {
        self.io.stream.readiness.is_urgent()
    }
}

impl Driver for WebSocketDriver {
    fn now(&self) -> Nanos {
        self.io.stream.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        self.device(client).is_some_and(|(slot, device, io)| device.schedule_connect(slot, io))
    }

    fn release(&mut self, client: Client) -> bool {
        self.device(client).is_some_and(|(_, device, io)| device.release(io))
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        if self.queriers.is_some() {
            return self.ask(device, sequence);
        }
        if let Some((slot, device, io)) = self.device(Client::Device(device)) {
            device.submit(slot, sequence, io);
        }
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        self.io.contents.forget_queries();
        for (slot, device) in (0..).zip(&mut self.devices) {
            device.withdraw(slot, &mut self.io, events);
        }
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        let before = events.len();
        self.send_dirty(events);
        self.wait(until, events);
        let now = self.io.stream.clock.now();
        while let Some((at, slot, timer)) = self.io.timers.due(now) {
            if let Some(device) = self.devices.get_mut(slot as usize) {
                device.timer(slot, timer, at, &mut self.io, events);
            }
        }
        self.send_dirty(events);
        if let Some(queriers) = &mut self.queriers {
            let new = events.get(before..).unwrap_or_default();
            queriers.saw(new, self.io.stream.clock.now(), self.io.stream.pauses.0);
        }
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.io.stream.traffic)
    }

    fn disconnect(&mut self) {
        for device in &mut self.devices {
            device.goodbye(&mut self.io);
        }
    }
}
