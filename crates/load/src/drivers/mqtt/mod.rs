//! The MQTT driver: sessions of [`session`] over non-blocking TCP [`connection`]s, one epoll a shard.

mod connection;
mod flight;
mod notified;
mod session;
mod users;

use super::queriers::Queriers;
use super::readiness::Ready;
use super::stream::StreamIo;
use super::timers::Timers;
use crate::content::Contents;
use crate::driver::{Client, Driver, Event, Traffic};
use crate::drivers::answers::Answers;
use crate::drivers::{DriverContext, DriverEntry, Part};
use crate::share::Share;
use crate::topology::{subscriptions_of, will_filter, will_of};
use connection::Connection;
use notified::Notified;
use plimsoll_codec::mqtt::{AckKind, Malformed};
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{ConnectionPlan, LinkPlan, MqttPlan, Offline, Plan, Protocol, TransportPlan};
use plimsoll_stats::distribution::{Random, random};
use session::Settings;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use users::Users;

/// Bytes read from a socket at once.
const READ_SIZE: usize = 256 * 1024;
/// Kinds of slips of the protocol that are counted apart.
const MOST_SLIPS: usize = 32;

/// Devices and subscribers, which may be notified by way of the broker, and queriers.
pub const ENTRY: DriverEntry = DriverEntry {
    queriers: Some(|context, queriers| Ok(Box::new(MqttDriver::of_queries(context, queriers)?))),
    broker_url: Some(broker_url),
    ..DriverEntry::of_devices(Protocol::Mqtt, |context| Ok(Box::new(MqttDriver::new(context)?)))
};

/// The broker at that address, as platforms are told of it.
fn broker_url(plan: &Plan, address: SocketAddr) -> String {
    let secured = if plan.connection.transport.tls.is_some() { "s" } else { "" };
    format!("mqtt{secured}://{address}")
}

/// Clients of one shard that speak MQTT, or its queriers.
pub struct MqttDriver {
    share: Share,
    /// What queriers have in common; `None` where these are no queriers.
    queriers: Option<Queriers>,
    /// The part of the subscribers that is this shard's.
    subscribers: Share,
    devices: usize,
    connections: Vec<Connection>,
    io: Io,
}

/// What all connections of a shard use in turn.
struct Io {
    stream: StreamIo,
    /// Devices of the whole population: subscribers are numbered after them.
    population: u32,
    mqtt: MqttPlan,
    connection: ConnectionPlan,
    run: RunId,
    /// Who clients say they are.
    users: Users,
    contents: Contents,
    work: Nanos,
    timers: Timers<Timer>,
    /// Connections with something to send.
    dirty: Vec<u32>,
    /// Messages put away because their device had no connection.
    put_away: Vec<(u32, u32)>,
    /// The filter that tells wills from messages.
    wills: Option<String>,
    /// Answers of the platform that come as messages.
    answers: Option<Answers>,
    /// What subscribers answer to notifications.
    notified: Option<Notified>,
    content: Vec<u8>,
    topic_name: Vec<u8>,
    jitter: Random,
    /// What the platform did against the standard without harm, and how often, since the last level was closed.
    slips: Vec<(Malformed, u64)>,
    /// Acknowledgements that nothing in flight awaited, since the last level was closed: the first, for
    /// people, and how many.
    unknown_acks: Option<(String, u64)>,
}

impl Io {
    fn note_slip(&mut self, slip: Malformed) {
        match self.slips.iter().position(|(known, _)| *known == slip) {
            Some(at) => self.slips[at].1 += 1,
            // A platform that invents ever more of them fills no memory.
            None if self.slips.len() < MOST_SLIPS => self.slips.push((slip, 1)),
            None => {}
        }
    }

    fn note_unknown_ack(&mut self, client: Client, kind: AckKind, packet_id: u16) {
        let first = || {
            let client = match client {
                Client::Device(device) => format!("device {device}"),
                Client::Subscriber(subscriber) => format!("subscriber {subscriber}"),
            };
            (format!("{} for packet {packet_id} of {client}", kind.packet_type()), 0)
        };
        self.unknown_acks.get_or_insert_with(first).1 += 1;
    }
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
    pub fn new(context: &DriverContext) -> std::io::Result<MqttDriver> {
        let &DriverContext { ref plan, run, share, subscribers, .. } = context;
        let content = plan.largest_content();
        let settings = Arc::new(Settings::new(&plan.mqtt, plan.subscribers.qos, content));
        let devices: Vec<u32> = share.numbers(plan.devices).collect();
        let (of_subscribers, count) = subscribers;
        let subscribers = of_subscribers.numbers(count);
        let pauses = plan.connection.reconnect;
        let mut connections: Vec<Connection> = devices
            .iter()
            .map(|&device| {
                let will = will_of(plan, run, device);
                let client = Client::Device(device);
                let filters = Answers::topic(plan, run, device).into_iter().collect();
                Connection::new(client, filters, will, &settings, pauses, plan.link)
            })
            .collect();
        connections.extend(subscribers.map(|subscriber| {
            let filters = subscriptions_of(plan, run, subscriber);
            Connection::new(
                Client::Subscriber(subscriber),
                filters,
                None,
                &settings,
                pauses,
                plan.subscribers.link,
            )
        }));
        let io = Io {
            users: Users::of(context),
            wills: will_filter(plan, run),
            notified: Notified::of(plan, run),
            ..Io::new(context, Contents::new(plan, run), Answers::of(plan, run), &plan.connection.transport)?
        };
        Ok(MqttDriver {
            share,
            queriers: None,
            subscribers: of_subscribers,
            devices: devices.len(),
            connections,
            io,
        })
    }

    /// A driver for so many queriers in all shards: a query is submitted as if it were a message of the device that it is about.
    ///
    /// # Errors
    /// Those of [`Self::new`], or the plan says no query.
    pub fn of_queries(context: &DriverContext, queriers: u32) -> std::io::Result<MqttDriver> {
        let &DriverContext { ref plan, run, share, subscribers: (subscribers, _), .. } = context;
        let query = plan.platform.roles.query.as_ref();
        let (Some(query), Some(said)) = (query, query.and_then(|query| query.ask.said())) else {
            return Err(std::io::Error::other("the plan says no query over MQTT"));
        };
        let settings = Arc::new(Settings::of_queriers(&plan.mqtt));
        let pauses = plan.connection.reconnect;
        let querier = |number: u32| {
            let topic = said.answer.as_ref().and_then(|answer| Answers::topic_of(answer, run, 0, number));
            let filters = topic.into_iter().collect();
            Connection::new(Client::Device(number), filters, None, &settings, pauses, LinkPlan::default())
        };
        let connections: Vec<Connection> = share.queriers(queriers).map(querier).collect();
        let answers = said.answer.clone().map(|answer| Answers::described(answer, run));
        let transport = plan.transport_beside_devices(Protocol::Mqtt, said.port.as_deref());
        let io = Io::new(context, Contents::of_queries(plan, run, said), answers, &transport)?;
        // A query waits until its querier is connected, whatever devices do.
        let connection = ConnectionPlan { offline: Offline::Buffer, ..io.connection.clone() };
        let io = Io { users: Users::of_queries(context, query), connection, ..io };
        Ok(MqttDriver {
            share,
            queriers: Some(Queriers::default()),
            subscribers,
            devices: connections.len(),
            connections,
            io,
        })
    }

    /// Gives a query to the next querier.
    fn ask(&mut self, device: u32, query: u32) {
        self.io.contents.ask(query, device);
        let slot = Queriers::turn(query, self.connections.len());
        if let Some(querier) = self.connections.get_mut(slot as usize) {
            querier.submit(slot, query, &mut self.io);
            let now = self.io.stream.clock.now();
            // Nothing changes where it is connected, or about to be.
            if self.queriers.as_ref().is_some_and(|queriers| queriers.may_connect(now)) {
                querier.schedule_connect(slot, &mut self.io);
            }
        }
    }
}

impl Io {
    /// For clients that say that, and whose answers are known so; nobody says who it is, and nobody is notified.
    fn new(
        context: &DriverContext,
        contents: Contents,
        answers: Option<Answers>,
        transport: &TransportPlan,
    ) -> std::io::Result<Io> {
        let &DriverContext { ref plan, run, share, ref run_context, .. } = context;
        Ok(Io {
            stream: StreamIo::new(context, transport, READ_SIZE)?,
            population: plan.population.first_device.saturating_add(plan.devices),
            mqtt: plan.mqtt.clone(),
            connection: plan.connection.clone(),
            run,
            users: Users::nobody(context),
            contents: contents.in_context(run_context),
            work: plan.subscribers.work,
            timers: Timers::new(),
            dirty: Vec::new(),
            put_away: Vec::new(),
            wills: None,
            answers,
            notified: None,
            content: Vec::new(),
            topic_name: Vec::new(),
            jitter: random(plan.seed, &[u64::from(share.index), 0x6a69_7474_6572]),
            slips: Vec::new(),
            unknown_acks: None,
        })
    }
}

impl MqttDriver {
    fn slot(&self, client: Client) -> usize {
        match client {
            Client::Device(device) => self.share.slot(device) as usize,
            Client::Subscriber(subscriber) => self.devices + self.subscribers.slot(subscriber) as usize,
        }
    }

    fn fire_timers(&mut self, events: &mut Vec<Event>) {
        let now = self.io.stream.clock.now();
        while let Some((at, slot, timer)) = self.io.timers.due(now) {
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

    fn wait(&mut self, until: Nanos, events: &mut Vec<Event>) {
        self.io.stream.readiness.wait(until.min(self.io.timers.next()));
        let found = self.io.stream.readiness.found();
        for &Ready { slot, generation, flags } in &found {
            if let Some(connection) = self.connections.get_mut(slot as usize) {
                connection.ready(slot, generation, flags, &mut self.io, events);
            }
        }
        self.io.stream.readiness.served(found);
    }
}

impl Part for MqttDriver {
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

impl Driver for MqttDriver {
    fn now(&self) -> Nanos {
        self.io.stream.clock.now()
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
        if self.queriers.is_some() {
            return self.ask(device, sequence);
        }
        let slot = self.slot(Client::Device(device));
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.submit(slot as u32, sequence, &mut self.io);
        }
    }

    fn ask_for_arrival(&mut self, device: u32) -> bool {
        let slot = self.slot(Client::Device(device));
        let connection = self.connections.get_mut(slot);
        connection.is_some_and(|connection| connection.ask_for_arrival(slot as u32, &mut self.io))
    }

    fn withdraw(&mut self, events: &mut Vec<Event>) {
        let now = self.io.stream.clock.now();
        self.io.contents.forget_queries();
        for connection in &mut self.connections {
            connection.withdraw(now, events);
        }
        let mut unfinished = self.connections.iter().filter_map(|connection| connection.unfinished(now));
        events.extend(unfinished.next().map(|first| {
            let reason = format!("the platform has begun a packet and not ended it, first one of {first}");
            Event::Incidents { reason, times: 1 + unfinished.count() as u64 }
        }));
        events.extend(self.io.slips.drain(..).map(|(slip, times)| {
            let reason = format!("the platform slipped in its protocol, which was tolerated: {slip}");
            Event::Incidents { reason, times }
        }));
        events.extend(self.io.unknown_acks.take().map(|(first, times)| {
            let reason =
                format!("the platform sent an acknowledgement that no packet awaited, first {first}");
            Event::Incidents { reason, times }
        }));
    }

    fn poll(&mut self, until: Nanos, events: &mut Vec<Event>) {
        let before = events.len();
        self.send_dirty(events);
        self.wait(until, events);
        self.fire_timers(events);
        self.send_dirty(events);
        if !self.io.put_away.is_empty() {
            let at = self.io.stream.clock.now();
            let abandoned = |(device, sequence)| Event::Abandoned { device, sequence, at };
            events.extend(self.io.put_away.drain(..).map(abandoned));
        }
        if let Some(queriers) = &mut self.queriers {
            let new = events.get(before..).unwrap_or_default();
            queriers.saw(new, self.io.stream.clock.now(), self.io.stream.pauses.0);
        }
    }

    fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.io.stream.traffic)
    }

    fn disconnect(&mut self) {
        for connection in &mut self.connections {
            connection.goodbye();
        }
    }
}
