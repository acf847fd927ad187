//! The CoAP driver: each device has one request under way, and its next waits for the answer, which the platform answers
//! for. [`exchange`] says what goes over the wire; here are sockets, timers and one epoll a shard.

mod exchange;

use crate::arrivals::Share;
use crate::clock::Clock;
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::Part;
use crate::refusal;
use crate::sources::Sources;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::Plan;
use plimsoll_stats::distribution::{Random, random};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with,
    sockopt,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Sockets told of by one look.
const READY: usize = 128;
/// Bytes read from a socket at once.
const READ_SIZE: usize = 64 * 1024;
/// What came of the bytes of an answer.
enum Answer {
    /// It is not whole yet, or it is no answer to what was asked.
    NotYet,
    /// The request was done.
    Done,
    /// The request was refused, with the platform's words.
    Refused(String),
}

/// Devices of one shard that send requests.
pub struct CoapDriver {
    share: Share,
    devices: Vec<Device>,
    io: Io,
}

/// What all devices of a shard use in turn.
struct Io {
    clock: Clock,
    epoll: OwnedFd,
    address: SocketAddr,
    sources: Sources,
    /// Path before the topic.
    path: String,
    contents: Contents,
    connect_timeout: Nanos,
    pauses: (Nanos, Nanos),
    timers: BinaryHeap<Reverse<(Nanos, u32, u32)>>,
    dirty: Vec<u32>,
    scratch: Vec<u8>,
    content: Vec<u8>,
    topic: Vec<u8>,
    random: Random,
    traffic: Traffic,
}

struct Device {
    number: u32,
    state: State,
    socket: Option<OwnedFd>,
    generation: u32,
    queue: VecDeque<u32>,
    /// The request under way.
    current: Option<UnderWay>,
    out: Vec<u8>,
    written: usize,
    began: Nanos,
    pause: Nanos,
    was_ready: bool,
    /// CoAP's message id.
    id: u16,
    /// When the request under way is looked at for having waited too long; zero where no timer is set.
    watch_at: Nanos,
}

struct UnderWay {
    sequence: u32,
    content: u32,
    sent: bool,
    /// When it is given up.
    give_up_at: Nanos,
    /// CoAP: when it is sent again, after how long, and how often it was.
    repeat_at: Nanos,
    timeout: Nanos,
    repeated: u32,
    acknowledged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Connecting,
    Ready,
    Waiting,
}

impl CoapDriver {
    /// A driver for the devices of a share, none of them connected yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance.
    pub fn new(
        plan: &Arc<Plan>,
        run: RunId,
        address: SocketAddr,
        share: Share,
        clock: Clock,
    ) -> std::io::Result<CoapDriver> {
        let endpoint = plan.platform.address.as_ref();
        let owned = (0..plan.devices).filter(|&device| share.owns(device));
        let devices = owned.map(|number| Device::new(number, plan.mqtt.reconnect.0)).collect();
        let io = Io {
            clock,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            address,
            sources: Sources::new(plan.source_addresses.clone(), address),
            path: endpoint.map(|endpoint| endpoint.path.trim_end_matches('/').to_owned()).unwrap_or_default(),
            contents: Contents::new(plan, run),
            connect_timeout: plan.mqtt.connect_timeout,
            pauses: plan.mqtt.reconnect,
            timers: BinaryHeap::new(),
            dirty: Vec::new(),
            scratch: vec![0; READ_SIZE],
            content: Vec::new(),
            topic: Vec::new(),
            random: random(plan.seed, &[u64::from(share.index), 0x7265_7175_6573_7400]),
            traffic: Traffic::default(),
        };
        Ok(CoapDriver { share, devices, io })
    }

    fn device(&mut self, client: Client) -> Option<(u32, &mut Device, &mut Io)> {
        let Client::Device(number) = client else { return None };
        let slot = number / self.share.of;
        Some((slot, self.devices.get_mut(slot as usize)?, &mut self.io))
    }

    fn send_dirty(&mut self, events: &mut Vec<Event>) {
        let mut dirty = std::mem::take(&mut self.io.dirty);
        for slot in dirty.drain(..) {
            if let Some(device) = self.devices.get_mut(slot as usize) {
                device.go_on(slot, &mut self.io, events);
            }
        }
        // What became dirty meanwhile stands in the other vector.
        dirty.append(&mut self.io.dirty);
        self.io.dirty = dirty;
    }

    fn fire_timers(&mut self, events: &mut Vec<Event>) {
        let now = self.io.clock.now();
        while let Some(&Reverse((at, slot, generation))) = self.io.timers.peek() {
            if at > now {
                return;
            }
            self.io.timers.pop();
            if let Some(device) = self.devices.get_mut(slot as usize) {
                device.timer(slot, generation, now, &mut self.io, events);
            }
        }
    }
}

impl Part for CoapDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.epoll.as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.io.timers.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at)
    }

    fn is_urgent(&self) -> bool {
        true
    }
}

impl Driver for CoapDriver {
    fn now(&self) -> Nanos {
        self.io.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let Some((slot, device, io)) = self.device(client) else { return false };
        let idle = device.state == State::Idle;
        if idle {
            device.state = State::Waiting;
            io.timers.push(Reverse((io.clock.now(), slot, device.generation)));
        }
        idle
    }

    fn release(&mut self, client: Client) -> bool {
        let Some((_, device, io)) = self.device(client) else { return false };
        let was_ready = device.state == State::Ready;
        let number = device.number;
        *device =
            Device { generation: device.generation.wrapping_add(1), ..Device::new(number, io.pauses.0) };
        was_ready
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        if let Some((slot, device, io)) = self.device(Client::Device(device)) {
            device.queue.push_back(sequence);
            io.dirty.push(slot);
        }
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        let at = self.io.clock.now();
        for device in &mut self.devices {
            device.queue.clear();
            let (number, packet) = (device.number, device.out.len() as u32);
            let Some(UnderWay { sequence, content, sent, .. }) = device.current.take() else { continue };
            if !sent && device.written > 0 {
                // Its first bytes cannot be called back.
                events.push(Event::Sent { device: number, sequence, at, content, packet });
            }
            if sent || device.written > 0 {
                events.push(Event::Abandoned { device: number, sequence, at });
            }
            device.out.clear();
            device.written = 0;
        }
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.send_dirty(events);
        let next_timer = self.io.timers.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at);
        let wait = (until.min(next_timer) - self.io.clock.now()).0.max(0);
        let timeout = Timespec { tv_sec: wait / 1_000_000_000, tv_nsec: wait % 1_000_000_000 };
        let mut room = [const { MaybeUninit::uninit() }; READY];
        // The only error of a sound epoll instance is an interrupting signal, after which we look again anyway.
        if let Ok((ready, _)) = epoll::wait(&self.io.epoll, &mut room[..], Some(&timeout)) {
            for event in ready {
                let data = event.data.u64();
                let (slot, generation) = ((data >> 32) as u32, data as u32);
                if let Some(device) = self.devices.get_mut(slot as usize) {
                    device.ready(slot, generation, event.flags, &mut self.io, events);
                }
            }
        }
        self.fire_timers(events);
        self.send_dirty(events);
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.io.traffic)
    }

    fn disconnect(&mut self) {
        for device in &mut self.devices {
            device.socket = None;
            device.state = State::Idle;
        }
    }
}

impl Device {
    fn new(number: u32, pause: Nanos) -> Device {
        Device {
            number,
            state: State::Idle,
            socket: None,
            generation: 0,
            queue: VecDeque::new(),
            current: None,
            out: Vec::new(),
            written: 0,
            began: Nanos::ZERO,
            pause,
            was_ready: false,
            id: 0,
            watch_at: Nanos::ZERO,
        }
    }

    fn timer(&mut self, slot: u32, generation: u32, now: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        if generation != self.generation {
            return;
        }
        match self.state {
            State::Waiting => self.open(slot, io, events),
            State::Connecting if now >= self.began + io.connect_timeout => {
                let reason = format!("no TCP connection within {}", io.connect_timeout);
                self.failed(slot, reason, io, events);
            }
            State::Ready => {
                if self.watch_at != Nanos::ZERO && now >= self.watch_at {
                    let next = self.current.as_ref().map(|current| current.give_up_at);
                    self.watch_at = next.filter(|&at| at > now).unwrap_or(Nanos::ZERO);
                    if self.watch_at != Nanos::ZERO {
                        io.timers.push(Reverse((self.watch_at, slot, self.generation)));
                    }
                }
                let expired = |current: &UnderWay| now >= current.give_up_at;
                match self.current.as_ref().is_some_and(expired) {
                    false => exchange::repeat(self, slot, now, io),
                    true => self.give_up(slot, now, io, events),
                }
            }
            _ => {}
        }
    }

    fn open(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        self.began = io.clock.now();
        self.generation = self.generation.wrapping_add(1);
        self.watch_at = Nanos::ZERO;
        // Drawn anew, since a server remembers those of an earlier socket with the same port (RFC 7252 section 4.4).
        self.id = io.random.below(1 << 16) as u16;
        let opened = (|| {
            let family = if io.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let kind = SocketType::DGRAM;
            let socket = socket_with(family, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
            if let Some(source) = io.sources.of(self.number) {
                net::bind(&socket, &SocketAddr::new(source, 0))?;
            }
            match connect(&socket, &io.address) {
                Ok(()) | Err(Errno::INPROGRESS) => {}
                Err(error) => return Err(error),
            }
            let data = u64::from(slot) << 32 | u64::from(self.generation);
            epoll::add(&io.epoll, &socket, EventData::new_u64(data), EventFlags::IN | EventFlags::OUT)?;
            Ok(socket)
        })();
        match opened {
            Ok(socket) => {
                self.socket = Some(socket);
                self.state = State::Connecting;
                io.timers.push(Reverse((self.began + io.connect_timeout, slot, self.generation)));
            }
            Err(error) => self.failed(slot, refusal::told(error), io, events),
        }
    }

    fn ready(&mut self, slot: u32, generation: u32, flags: EventFlags, io: &mut Io, events: &mut Vec<Event>) {
        let Some(socket) = self.socket.as_ref().filter(|_| generation == self.generation) else { return };
        if self.state == State::Connecting {
            if let Ok(Err(error)) | Err(error) = sockopt::socket_error(socket) {
                return self.failed(slot, refusal::told(error), io, events);
            }
            self.state = State::Ready;
            self.pause = io.pauses.0;
            let again = std::mem::replace(&mut self.was_ready, true);
            let took = io.clock.now() - self.began;
            events.push(Event::Ready { client: Client::Device(self.number), took, again });
        } else if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.read(slot, io, events);
        }
        self.go_on(slot, io, events);
    }

    /// Begins the next request where none is under way, and sends what the socket takes.
    fn go_on(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        while self.state == State::Ready {
            if self.current.is_none() {
                let Some(sequence) = self.queue.pop_front() else { break };
                self.begin(slot, sequence, io);
            }
            let Some(socket) = &self.socket else { return };
            let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) else { break };
            // Before, not after: a platform on this host may have answered by the time that the call returns.
            let at = io.clock.now();
            match send(socket, rest, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.written += count;
                    io.traffic.sent += count as u64;
                    self.report_sent(at, events);
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return self.failed(slot, format!("cannot send: {error}"), io, events),
            }
        }
        self.want(slot, io);
    }

    fn begin(&mut self, slot: u32, sequence: u32, io: &mut Io) {
        io.content.clear();
        io.contents.render(self.number, sequence, &mut io.content);
        io.topic.clear();
        io.contents.render_topic(self.number, sequence, &mut io.topic);
        self.out.clear();
        self.written = 0;
        let now = io.clock.now();
        self.id = self.id.wrapping_add(1);
        exchange::request(&io.path, &io.topic, &io.content, self.id, &mut self.out);
        let timeout = exchange::first_timeout(io.random.fraction());
        let patience = exchange::patience(timeout);
        let give_up_at = now + patience;
        // One timer watches over all requests of a device, for nearly all are answered long before.
        if self.watch_at == Nanos::ZERO {
            self.watch_at = give_up_at;
            io.timers.push(Reverse((give_up_at, slot, self.generation)));
        }
        if timeout > Nanos::ZERO {
            io.timers.push(Reverse((now + timeout, slot, self.generation)));
        }
        self.current = Some(UnderWay {
            sequence,
            content: io.content.len() as u32,
            sent: false,
            repeat_at: now + timeout,
            give_up_at,
            timeout,
            repeated: 0,
            acknowledged: false,
        });
    }

    fn report_sent(&mut self, at: Nanos, events: &mut Vec<Event>) {
        let whole = self.written == self.out.len();
        if let Some(current) = self.current.as_mut().filter(|current| whole && !current.sent) {
            current.sent = true;
            let (device, sequence) = (self.number, current.sequence);
            let (content, packet) = (current.content, self.out.len() as u32);
            events.push(Event::Sent { device, sequence, at, content, packet });
        }
    }

    fn read(&mut self, slot: u32, io: &mut Io, events: &mut Vec<Event>) {
        let Some(socket) = &self.socket else { return };
        let mut scratch = std::mem::take(&mut io.scratch);
        let outcome = match recv(socket, &mut scratch[..], RecvFlags::empty()) {
            Ok((count, _)) => {
                io.traffic.received += count as u64;
                self.take_in(slot, scratch.get(..count).unwrap_or_default(), io, events);
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(format!("connection lost: {error}")),
        };
        io.scratch = scratch;
        if let Err(reason) = outcome {
            self.failed(slot, reason, io, events);
        }
    }

    fn take_in(&mut self, slot: u32, bytes: &[u8], io: &mut Io, events: &mut Vec<Event>) {
        let at = io.clock.now();
        let refused = match exchange::answer(self, bytes, io) {
            Answer::NotYet => return,
            Answer::Done => None,
            Answer::Refused(reason) => Some(reason),
        };
        let (device, current) = (self.number, self.current.take());
        if let Some(UnderWay { sequence, .. }) = current {
            events.push(match refused {
                None => Event::Acknowledged { device, sequence, at },
                Some(reason) => Event::Refused { device, sequence, at, reason },
            });
        }
        io.dirty.push(slot);
    }

    /// Gives up the request under way; the connection stays.
    fn give_up(&mut self, slot: u32, at: Nanos, io: &mut Io, events: &mut Vec<Event>) {
        if let Some(UnderWay { sequence, .. }) = self.current.take() {
            events.push(Event::Abandoned { device: self.number, sequence, at });
            io.dirty.push(slot);
        }
    }

    fn want(&mut self, slot: u32, io: &Io) {
        let Some(socket) = &self.socket else { return };
        let mut flags = EventFlags::IN;
        flags.set(EventFlags::OUT, self.written < self.out.len() || self.state == State::Connecting);
        let data = u64::from(slot) << 32 | u64::from(self.generation);
        // Fails only for a socket that is not registered, which ours is.
        let _ = epoll::modify(&io.epoll, socket, EventData::new_u64(data), flags);
    }

    /// The connection is no more: a request that was sent is given up, and the device tries again after a pause.
    fn failed(&mut self, slot: u32, reason: String, io: &mut Io, events: &mut Vec<Event>) {
        let (at, device, was_ready) = (io.clock.now(), self.number, self.state == State::Ready);
        self.socket = None;
        match self.current.take() {
            Some(UnderWay { sequence, sent: true, .. }) => {
                events.push(Event::Abandoned { device, sequence, at });
            }
            Some(UnderWay { sequence, .. }) => self.queue.push_front(sequence),
            None => {}
        }
        self.out.clear();
        self.written = 0;
        let client = Client::Device(device);
        if was_ready {
            events.push(Event::Disconnected { client, at, reason });
        } else {
            events.push(Event::ConnectFailed { client, reason });
        }
        self.generation = self.generation.wrapping_add(1);
        self.watch_at = Nanos::ZERO;
        if self.was_ready {
            let pause = Nanos::from_secs_f64(self.pause.as_secs_f64() * (0.5 + 0.5 * io.random.fraction()));
            self.pause = (self.pause * 2).min(io.pauses.1);
            self.state = State::Waiting;
            io.timers.push(Reverse((at + pause, slot, self.generation)));
        } else {
            self.state = State::Idle;
        }
    }
}
