//! The MQTT driver: sessions of [`session`] over non-blocking TCP [`connection`]s, one epoll a shard.

mod connection;
mod flight;
mod layers;
mod link;
mod session;
pub(super) mod socket;
mod tls;
mod websocket;

use crate::arrivals::Share;
use crate::clock::Clock;
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::Part;
use crate::sources::Sources;
use crate::topology::{subscriptions_of, will_filter, will_of};
use connection::Connection;
use layers::Transport;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{MqttPlan, Plan};
use plimsoll_stats::distribution::{Random, random};
use rustix::event::{Timespec, epoll};
use rustix::thread::clock_nanosleep_relative;
use rustix::time::ClockId;
use session::Settings;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Sockets told of by one look.
const READY: usize = 256;
/// Bytes read from a socket at once.
const READ_SIZE: usize = 256 * 1024;

/// Clients of one shard that speak MQTT.
pub struct MqttDriver {
    share: Share,
    devices: usize,
    connections: Vec<Connection>,
    io: Io,
    /// How long what has arrived may lie unread, so that a wake-up reads more of it.
    coalescing: Nanos,
    spin: Nanos,
    /// Whether the last look found something.
    lively: bool,
}

/// What all connections of a shard use in turn.
struct Io {
    clock: Clock,
    epoll: OwnedFd,
    address: SocketAddr,
    sources: Sources,
    /// Devices of the whole population: subscribers are numbered after them.
    population: u32,
    mqtt: MqttPlan,
    run: RunId,
    contents: Contents,
    work: Nanos,
    timers: BinaryHeap<Reverse<(Nanos, u32, Timer)>>,
    /// Connections with something to send.
    dirty: Vec<u32>,
    /// Messages put away because their device had no connection.
    put_away: Vec<(u32, u32)>,
    scratch: Vec<u8>,
    /// What lies between sessions and sockets.
    transport: Transport,
    /// What came, with that taken off.
    unwrapped: Vec<u8>,
    /// The filter that tells wills from messages.
    wills: Option<String>,
    content: Vec<u8>,
    topic_name: Vec<u8>,
    jitter: Random,
    traffic: Traffic,
    /// When the last look at the sockets but one began: what is read now was not there to be read before.
    looked_at: Nanos,
    /// Connections whose next step waits for the platform: their bytes are read at once.
    urgent: u32,
}

/// What a connection wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    ConnectTimeout,
    KeepAlive,
    Reconnect,
    WorkDone,
    Link,
}

impl MqttDriver {
    /// A driver for the clients of a share, none of them connected yet.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance, or certificates cannot be used.
    pub fn new(
        plan: &Arc<Plan>,
        run: RunId,
        address: SocketAddr,
        share: Share,
        clock: Clock,
    ) -> std::io::Result<MqttDriver> {
        let content = crate::content::largest(plan);
        let settings = Arc::new(Settings::new(&plan.mqtt, plan.subscribers.qos, content));
        let devices: Vec<u32> = (0..plan.devices).filter(|&device| share.owns(device)).collect();
        let subscribers = (0..plan.subscribers.count).filter(|&subscriber| share.owns(subscriber));
        let first_pause = plan.mqtt.reconnect.0;
        let mut connections: Vec<Connection> = devices
            .iter()
            .map(|&device| {
                let will = will_of(plan, run, device);
                let client = Client::Device(device);
                Connection::new(client, Vec::new(), will, &settings, first_pause, plan.link)
            })
            .collect();
        connections.extend(subscribers.map(|subscriber| {
            let filters = subscriptions_of(plan, run, subscriber);
            Connection::new(
                Client::Subscriber(subscriber),
                filters,
                None,
                &settings,
                first_pause,
                plan.subscribers.link,
            )
        }));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // Waiting with nanoseconds came with Linux 5.11; without it every wait would fail at once, unseen.
        epoll::wait(&epoll, &mut [MaybeUninit::uninit(); 1][..], Some(&timespec(Nanos::ZERO)))?;
        let io = Io {
            clock,
            epoll,
            address,
            sources: Sources::new(plan.source_addresses.clone(), address),
            population: plan.devices,
            mqtt: plan.mqtt.clone(),
            run,
            contents: Contents::new(plan, run),
            work: plan.subscribers.work,
            timers: BinaryHeap::new(),
            dirty: Vec::new(),
            put_away: Vec::new(),
            scratch: vec![0; READ_SIZE],
            transport: Transport::new(&plan.mqtt.transport, plan.seed).map_err(std::io::Error::other)?,
            unwrapped: Vec::new(),
            wills: will_filter(plan, run),
            content: Vec::new(),
            topic_name: Vec::new(),
            jitter: random(plan.seed, &[u64::from(share.index), 0x6a69_7474_6572]),
            traffic: Traffic::default(),
            urgent: 0,
            looked_at: Nanos::ZERO,
        };
        Ok(MqttDriver {
            share,
            devices: devices.len(),
            connections,
            io,
            coalescing: plan.load.coalescing(),
            spin: plan.load.spin,
            lively: false,
        })
    }

    fn slot(&self, client: Client) -> usize {
        match client {
            Client::Device(device) => (device / self.share.of) as usize,
            Client::Subscriber(subscriber) => self.devices + (subscriber / self.share.of) as usize,
        }
    }

    fn fire_timers(&mut self, events: &mut Vec<Event>) {
        let now = self.io.clock.now();
        while let Some(&Reverse((at, slot, timer))) = self.io.timers.peek() {
            if at > now {
                return;
            }
            self.io.timers.pop();
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                connection.timer(slot, timer, at, &mut self.io, events);
            }
        }
    }

    fn send_dirty(&mut self, events: &mut Vec<Event>) {
        let mut dirty = std::mem::take(&mut self.io.dirty);
        for slot in dirty.drain(..) {
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                connection.send(slot, &mut self.io, events);
            }
        }
        self.io.dirty = dirty;
    }

    /// Waits for the network until then at most. Where much arrives, it is left to gather for a while, for a wake-up
    /// costs more than a reading; when it came is known from the kernel's stamps.
    fn wait(&mut self, until: Nanos, events: &mut Vec<Event>) {
        let until = until.min(self.next_timer());
        let now = self.io.clock.now();
        if self.lively && self.coalescing > Nanos::ZERO && self.io.urgent == 0 && until > now {
            // Cut short by a signal, it only gathers less.
            let _ = clock_nanosleep_relative(ClockId::Monotonic, &timespec(self.coalescing.min(until - now)));
            return self.look(Nanos::ZERO, events);
        }
        self.look(until - now - self.spin, events);
        while !self.lively && self.spin > Nanos::ZERO && self.io.clock.now() < until {
            self.look(Nanos::ZERO, events);
        }
    }

    /// Waits so long at most for sockets to be ready and serves them.
    fn look(&mut self, wait: Nanos, events: &mut Vec<Event>) {
        let timeout = timespec(wait.max(Nanos::ZERO));
        let begun = self.io.clock.now();
        let mut room = [const { MaybeUninit::uninit() }; READY];
        // The only error of a sound epoll instance is an interrupting signal, after which we look again anyway.
        let Ok((ready, _)) = epoll::wait(&self.io.epoll, &mut room[..], Some(&timeout)) else { return };
        self.lively = !ready.is_empty();
        for event in ready {
            let data = event.data.u64();
            let (slot, generation) = ((data >> 32) as u32, data as u32);
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                connection.ready(slot, generation, event.flags, &mut self.io, events);
            }
        }
        self.io.looked_at = begun;
    }
}

fn timespec(span: Nanos) -> Timespec {
    Timespec { tv_sec: span.0 / 1_000_000_000, tv_nsec: span.0 % 1_000_000_000 }
}

impl Part for MqttDriver {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.epoll.as_fd()
    }

    fn next_timer(&self) -> Nanos {
        self.io.timers.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at)
    }

    fn is_urgent(&self) -> bool {
        self.io.urgent > 0
    }
}

impl Driver for MqttDriver {
    fn now(&self) -> Nanos {
        self.io.clock.now()
    }

    fn connect(&mut self, client: Client) -> bool {
        let slot = self.slot(client);
        let connection = self.connections.get_mut(slot);
        connection.is_some_and(|connection| connection.schedule_connect(slot as u32, &mut self.io))
    }

    fn release(&mut self, client: Client) -> bool {
        let slot = self.slot(client);
        self.connections.get_mut(slot).is_some_and(|connection| connection.release(&mut self.io))
    }

    fn submit(&mut self, device: u32, sequence: u32) {
        let slot = self.slot(Client::Device(device));
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.submit(slot as u32, sequence, &mut self.io);
        }
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        let now = self.io.clock.now();
        for connection in &mut self.connections {
            connection.withdraw(now, events);
        }
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.send_dirty(events);
        self.wait(until, events);
        self.fire_timers(events);
        self.send_dirty(events);
        if !self.io.put_away.is_empty() {
            let at = self.io.clock.now();
            let abandoned = |(device, sequence)| Event::Abandoned { device, sequence, at };
            events.extend(self.io.put_away.drain(..).map(abandoned));
        }
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.io.traffic)
    }

    fn disconnect(&mut self) {
        for connection in &mut self.connections {
            connection.goodbye();
        }
    }
}
