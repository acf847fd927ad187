//! The whole, and the time that passes in it.

use crate::calendar::{Calendar, Hindrance};
use crate::memory::Memory;
use crate::network::Network;
use crate::processors::Processors;
use crate::spec::{FaultKind, Spec, StationSpec};
use crate::station::{Fate, Job, Service, Station};
use plimsoll_model::Nanos;
use plimsoll_model::experiment::{Dose, Order, Slowable};
use plimsoll_stats::distribution::{Random, random};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod orders;
mod service;

use service::{Lock, Outbox};

/// Names the stream of random numbers of what belongs to no part.
const STREAM: u64 = 0x0077_6f72_6c64;
/// From one component to the next.
const HOP: Nanos = Nanos::from_micros(50);
/// From one try to connect again to the next.
const CONNECT_AGAIN: Nanos = Nanos::from_secs(1);
/// From one probe of the network to the next.
const PROBE: Nanos = Nanos::from_millis(250);
/// How far back probes go: nobody probes for a generator that stood still for longer.
const PROBED: Nanos = Nanos::from_secs(3600);

/// A connection of the simulated population.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// A device, by its number.
    Device(u32),
    /// A subscriber, by its number.
    Subscriber(u32),
}

/// What comes to the generator, or is known to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A client is connected; whether it had been before.
    Ready(Client, Nanos, bool),
    /// A try to connect again failed.
    ConnectFailed(Client),
    /// A connection was lost.
    Disconnected(Client),
    /// A message of a device was handed to the kernel.
    Sent(u32, u32),
    /// A message of a device was acknowledged.
    Acknowledged(u32, u32),
    /// A message of a device will never be acknowledged, since its connection was lost.
    Abandoned(u32, u32),
    /// A subscriber received a message of a device.
    Received(u32, u32, u32),
    /// The platform answered a ping of a device: all that the device had sent before it has arrived.
    Answered(u32),
}

/// What something used since the simulation began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Processor time.
    pub processor: Nanos,
    /// Of a component: how many threads share it, each on a processor of its own.
    pub threads: u16,
    /// Of a component: its resident memory in bytes.
    pub memory: u64,
    /// Time that it waited for a processor that others held.
    pub starved: Nanos,
    /// Time for which its quota kept it from running.
    pub throttled: Nanos,
    /// Of the generator: time that the hypervisor took from it.
    pub stolen: Nanos,
    /// Of the generator: how often it was put on a processor.
    pub turns: u64,
}

/// What the host of the simulation tells, as a kernel would.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The load generator.
    pub generator: Used,
    /// The components, by name.
    pub components: Vec<(String, Used)>,
    /// Packets between generator and platform.
    pub packets: u64,
    /// Of them, those that were sent again.
    pub sent_again: u64,
    /// Connections of clients.
    pub connections: u64,
    /// Processors that all components share; `None` where each worker has one of its own.
    pub processors: Option<usize>,
}

/// A handle on the one world; copies share it.
#[derive(Clone, Debug)]
pub struct Simulation(Arc<Mutex<World>>);

#[derive(Debug)]
struct World {
    spec: Spec,
    now: Nanos,
    stations: Vec<Station>,
    /// Of each station.
    memories: Vec<Memory>,
    /// Of each station; of those that have the same, the first one's counts.
    locks: Vec<Lock>,
    /// Of each station.
    outboxes: Vec<Outbox>,
    /// Those that all stations share.
    processors: Option<Processors>,
    network: Network,
    random: Random,
    planned: BinaryHeap<Planned>,
    order: u64,
    devices: Vec<End>,
    subscribers: Vec<End>,
    generator: Calendar,
    used: Used,
    next_probe: Nanos,
    /// Components that ended by themselves, and when; those that were told are gone.
    deaths: Vec<(String, Nanos)>,
    /// What orders do or did, and when each is over; those that were told are gone.
    doses: Vec<(Nanos, Dose)>,
}

/// One end of a connection.
#[derive(Clone, Debug, Default)]
struct End {
    connected: bool,
    /// When its last packet arrived at the platform, and at the generator.
    up: Nanos,
    down: Nanos,
    /// Messages that were sent and not acknowledged.
    outstanding: Vec<u32>,
    /// Messages that wait for a connection.
    waiting: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    Arrive(usize, Job),
    GoOn(Service),
    SliceEnds(Service),
    /// A lock is free, and somebody who waits for it works again.
    Give(usize),
    EmptyOutbox(usize),
    /// A station before that one hears that so many places there are free.
    HearOfPlaces(usize, usize),
    Shared(usize, u32),
    ToGenerator(Happening),
    Die(usize),
    Revive(usize),
    Connect(Client),
}

#[derive(Debug)]
struct Planned {
    at: Nanos,
    order: u64,
    due: Due,
}

/// The earliest is the greatest, as a heap wants it; of equally early ones the one planned first.
impl Ord for Planned {
    fn cmp(&self, other: &Planned) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Planned) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Planned) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Planned {}

impl Simulation {
    /// A world at time zero; equal specs and seeds have the same history.
    pub fn of(spec: Spec, seed: u64) -> Simulation {
        Simulation(Arc::new(Mutex::new(World::new(spec, seed))))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.world().now
    }

    /// Says how many clients there will be. Every subscriber receives every message.
    pub fn populate(&self, devices: u32, subscribers: u32) {
        let mut world = self.world();
        world.devices = vec![End::default(); devices as usize];
        world.subscribers = vec![End::default(); subscribers as usize];
    }

    /// Begins to connect a client.
    pub fn connect(&self, client: Client) {
        let mut world = self.world();
        let now = world.now;
        world.plan(now, Due::Connect(client));
    }

    /// Disconnects a client; whether it was connected.
    pub fn release(&self, client: Client) -> bool {
        let mut world = self.world();
        world.end(client).is_some_and(|end| std::mem::take(end).connected)
    }

    /// Sends a message of a device, now or once it is connected again.
    pub fn send(&self, device: u32, sequence: u32) {
        let mut world = self.world();
        world.spend();
        match world.devices.get_mut(device as usize) {
            Some(end) if !end.connected => end.waiting.push(sequence),
            Some(_) => world.send(device, sequence),
            None => {}
        }
    }

    /// Asks the platform for an answer on the connection of a device.
    pub fn ping(&self, device: u32) {
        let mut world = self.world();
        world.transmit(Job { device, sequence: None });
    }

    /// Forgets the messages that wait for a connection.
    pub fn withdraw(&self) {
        self.world().devices.iter_mut().for_each(|end| end.waiting.clear());
    }

    /// Waits until then, or until something comes to the generator, and adds what came: when, and how long it lay in the
    /// kernel before the generator read it.
    pub fn wait(&self, until: Nanos, happened: &mut Vec<(Happening, Nanos, Nanos)>) {
        self.world().wait(until, happened);
    }

    /// The processor time that the generator has used.
    pub fn processor_time(&self) -> Nanos {
        self.world().used.processor
    }

    /// What host and kernel tell.
    pub fn host(&self) -> Host {
        let world = self.world();
        let component = |(station, memory): (&Station, &Memory)| {
            let used = Used {
                processor: station.processor,
                threads: station.threads(),
                memory: memory.at(world.now),
                starved: station.starved,
                throttled: station.throttled.0,
                ..Used::default()
            };
            (station.name().to_owned(), used)
        };
        let connected = world.devices.iter().chain(&world.subscribers).filter(|end| end.connected).count();
        Host {
            generator: world.used,
            components: world.stations.iter().zip(&world.memories).map(component).collect(),
            packets: world.network.sent,
            sent_again: world.network.sent_again,
            connections: connected as u64,
            processors: world.spec.processors,
        }
    }

    /// The network's own round trips, of probes since the last call.
    pub fn round_trips(&self) -> Vec<Nanos> {
        let mut world = self.world();
        let mut seen = Vec::new();
        world.next_probe = world.next_probe.max(world.now - PROBED);
        // Where time has come to its end, no probe is the next one.
        while world.next_probe <= world.now && world.next_probe < Nanos::MAX {
            let at = world.next_probe;
            seen.extend(world.network.round_trip(at));
            world.next_probe += PROBE;
        }
        seen
    }

    /// Ends a component, as a planned kill does: nobody is told of a death.
    pub fn kill(&self, component: &str) {
        let mut world = self.world();
        if let Some(station) = world.position(component) {
            world.die(station);
        }
    }

    /// Starts a component that was ended; one that a fault keeps dead stays so, and is a death.
    pub fn start_again(&self, component: &str) {
        let mut world = self.world();
        let Some(station) = world.position(component) else { return };
        let now = world.now;
        if world.stations[station].is_doomed(now) {
            world.deaths.push((component.to_owned(), now));
        } else {
            world.revive(station);
        }
    }

    /// Carries out an order from its beginning on, or from now on where that has passed. Names of unknown components mean
    /// nothing, nor does an order that is over. Work that has begun keeps its end: an order is given ahead of its time.
    pub fn slow(&self, order: &Order) {
        self.world().slow(order);
    }

    /// The components.
    pub fn slowable(&self) -> Vec<Slowable> {
        let part = |station: &StationSpec| Slowable {
            component: station.name.clone(),
            quota: station.quota,
            has_relay: station.relay,
        };
        self.world().spec.stations.iter().map(part).collect()
    }

    /// By component behind a relay: the one before it in the row, if there is one.
    pub fn callers(&self) -> BTreeMap<String, Vec<String>> {
        let world = self.world();
        let pairs = world.spec.stations.windows(2).filter(|pair| pair[1].relay);
        pairs.map(|pair| (pair[1].name.clone(), vec![pair[0].name.clone()])).collect()
    }

    /// What came of the orders that are over by now, each told once: a dose of each component, or one of the processors.
    pub fn take_doses(&self) -> Vec<Dose> {
        self.world().take_doses()
    }

    /// A component that has ended by itself since the last call, and when.
    pub fn take_death(&self) -> Option<(String, Nanos)> {
        let mut world = self.world();
        (!world.deaths.is_empty()).then(|| world.deaths.remove(0))
    }
}

impl World {
    fn new(spec: Spec, seed: u64) -> World {
        let mut generator = Calendar::default();
        for fault in &spec.faults {
            let hindrance = match fault.kind {
                FaultKind::StarveGenerator(share) | FaultKind::StealGenerator(share) => {
                    Hindrance::Starved(share)
                }
                FaultKind::PauseGenerator => Hindrance::Paused,
                _ => continue,
            };
            generator.add(fault.from, fault.to, hindrance);
        }
        let station = |(position, station)| Station::new(Clone::clone(station), position, &spec.faults, seed);
        let memory = |position| Memory::of(position, &spec.faults, seed);
        let mut world = World {
            memories: (0..spec.stations.len()).map(memory).collect(),
            now: Nanos::ZERO,
            stations: spec.stations.iter().enumerate().map(station).collect(),
            locks: spec.stations.iter().map(|_| Lock::default()).collect(),
            outboxes: spec.stations.iter().map(|_| Outbox::default()).collect(),
            processors: spec.processors.map(Processors::new),
            network: Network::new(spec.network, &spec.faults, seed),
            random: random(seed, &[STREAM]),
            planned: BinaryHeap::new(),
            order: 0,
            devices: Vec::new(),
            subscribers: Vec::new(),
            generator,
            used: Used::default(),
            next_probe: Nanos::ZERO,
            deaths: Vec::new(),
            doses: Vec::new(),
            spec,
        };
        for fault in world.spec.faults.clone() {
            if let FaultKind::Die(station) = fault.kind {
                world.plan(fault.from, Due::Die(station));
                if fault.to < Nanos::MAX {
                    world.plan(fault.to, Due::Revive(station));
                }
            }
        }
        world
    }

    fn position(&self, component: &str) -> Option<usize> {
        self.stations.iter().position(|station| station.name() == component)
    }

    fn end(&mut self, client: Client) -> Option<&mut End> {
        match client {
            Client::Device(device) => self.devices.get_mut(device as usize),
            Client::Subscriber(subscriber) => self.subscribers.get_mut(subscriber as usize),
        }
    }

    fn plan(&mut self, at: Nanos, due: Due) {
        if at < Nanos::MAX {
            self.order += 1;
            self.planned.push(Planned { at, order: self.order, due });
        }
    }

    /// The generator works for a moment.
    fn spend(&mut self) {
        let cost = self.spec.generator.cost;
        let (now, waited) = self.generator.walk(self.now, cost);
        self.used.processor += cost;
        self.book_wait(waited);
        self.now = now;
    }

    fn book_wait(&mut self, waited: Nanos) {
        let steals = |kind: &FaultKind| matches!(kind, FaultKind::StealGenerator(_));
        let now = self.now;
        if self.spec.faults.iter().any(|fault| steals(&fault.kind) && fault.is_on(now)) {
            self.used.stolen += waited;
        } else {
            self.used.starved += waited;
        }
    }

    fn send(&mut self, device: u32, sequence: u32) {
        if let Some(end) = self.devices.get_mut(device as usize) {
            end.outstanding.push(sequence);
        }
        let now = self.now;
        self.plan(now, Due::ToGenerator(Happening::Sent(device, sequence)));
        self.transmit(Job { device, sequence: Some(sequence) });
    }

    fn transmit(&mut self, job: Job) {
        let Some(end) = self.devices.get_mut(job.device as usize).filter(|end| end.connected) else { return };
        let at = self.network.transit(self.now, &mut end.up);
        let delayed = self.stations[0].delayed(self.now);
        self.plan(at + delayed, Due::Arrive(0, job));
    }

    /// Something goes back from the platform to a client.
    fn bring(&mut self, at: Nanos, client: Client, happening: Happening) {
        let mut last = match self.end(client) {
            Some(end) if end.connected => end.down,
            _ => return,
        };
        let delayed = self.stations[0].delayed(at);
        let arrives = self.network.transit(at, &mut last) + delayed;
        if let Some(end) = self.end(client) {
            end.down = last;
        }
        self.plan(arrives, Due::ToGenerator(happening));
    }

    fn wait(&mut self, until: Nanos, happened: &mut Vec<(Happening, Nanos, Nanos)>) {
        let asked = until.max(self.now);
        let mut wake = self.generator.next_work(asked);
        // A generator that never works again ends with its simulation.
        wake = if wake == Nanos::MAX { asked } else { wake };
        let mut woken_at = asked;
        let mut came = Vec::new();
        while self.planned.peek().is_some_and(|planned| planned.at <= wake) {
            let Some(Planned { at, due, .. }) = self.planned.pop() else { break };
            if let Due::ToGenerator(happening) = due {
                came.push((happening, at));
                let read = self.generator.next_work(at.max(self.now));
                if read < wake {
                    (wake, woken_at) = (read, at.max(self.now));
                }
            } else {
                self.perform(at, due);
            }
        }
        self.used.turns += u64::from(wake > self.now);
        let waited = self.generator.walk(woken_at.min(wake), Nanos::ZERO).1;
        self.now = self.now.max(wake);
        self.book_wait(waited);
        for (happening, at) in came {
            self.spend();
            self.note(happening);
            happened.push((happening, at, self.now - at));
        }
    }

    /// What the generator has read.
    fn note(&mut self, happening: Happening) {
        if let Happening::Acknowledged(device, sequence) = happening
            && let Some(end) = self.devices.get_mut(device as usize)
            && let Some(place) = end.outstanding.iter().position(|known| *known == sequence)
        {
            end.outstanding.swap_remove(place);
        }
    }

    fn perform(&mut self, now: Nanos, due: Due) {
        match due {
            Due::Arrive(station, job) => {
                let fate = self.stations[station].arrive(job, now);
                self.follow(station, fate, now);
            }
            Due::GoOn(service) => self.go_on(service, now),
            Due::SliceEnds(service) => self.end_slice(service, now),
            Due::Give(lock) => self.give(lock, now),
            Due::EmptyOutbox(station) => self.empty_outbox(station, now),
            Due::HearOfPlaces(station, count) => self.hear_of_places(station, count, now),
            Due::Shared(station, life) if self.stations[station].life == life => {
                for job in self.stations[station].take_shared(now) {
                    self.pass_on(station, job, now);
                }
                self.follow(station, Fate::Shares, now);
            }
            Due::Die(station) => {
                self.deaths.push((self.stations[station].name().to_owned(), now));
                self.die_at(station, now);
            }
            Due::Revive(station) => self.revive(station),
            Due::Connect(client) => self.try_to_connect(client, now),
            // Planned before the station died or what it shares changed.
            Due::Shared(..) | Due::ToGenerator(_) => {}
        }
    }

    fn follow(&mut self, station: usize, fate: Fate, now: Nanos) {
        match fate {
            Fate::Begun(service, at) => self.plan(at, Due::GoOn(service)),
            Fate::Shares => {
                if let Some(next) = self.stations[station].next_shared() {
                    let life = self.stations[station].life;
                    self.plan(next, Due::Shared(station, life));
                }
            }
            Fate::Waits => {}
            Fate::Lost => self.free_places(station, 1, now),
        }
    }

    /// A station has served a job.
    fn pass_on(&mut self, station: usize, job: Job, now: Nanos) {
        let device = Client::Device(job.device);
        let Some(sequence) = job.sequence else {
            return self.bring(now, device, Happening::Answered(job.device));
        };
        self.free_places(station, 1, now);
        if station == self.spec.acknowledged_by && !self.loses_acknowledgement(now) {
            self.bring(now, device, Happening::Acknowledged(job.device, sequence));
        }
        if self.stations[station].loses(now) {
            return;
        }
        if station + 1 < self.stations.len() {
            return self.hand_over(station, job, now);
        }
        for subscriber in 0..self.subscribers.len() as u32 {
            let received = Happening::Received(subscriber, job.device, sequence);
            self.bring(now, Client::Subscriber(subscriber), received);
        }
    }

    fn loses_acknowledgement(&mut self, now: Nanos) -> bool {
        let share = self.spec.faults.iter().filter(|fault| fault.is_on(now)).map(|fault| match fault.kind {
            FaultKind::LoseAcknowledgements(share) => share,
            _ => 0.0,
        });
        let share: f64 = share.sum();
        share > 0.0 && self.random.fraction() < share
    }

    fn try_to_connect(&mut self, client: Client, now: Nanos) {
        let again = self.end(client).is_some_and(|end| end.down > Nanos::ZERO);
        if !self.stations.first().is_some_and(|station| station.alive) {
            self.plan(now, Due::ToGenerator(Happening::ConnectFailed(client)));
            return self.plan(now + CONNECT_AGAIN, Due::Connect(client));
        }
        // SYN, SYN-ACK, CONNECT, CONNACK.
        let mut last = Nanos::ZERO;
        let mut at = now;
        for _ in 0..4 {
            at = self.network.transit(at, &mut last);
        }
        let Some(end) = self.end(client) else { return };
        if end.connected {
            return;
        }
        (end.connected, end.up, end.down) = (true, at, at);
        let waiting = std::mem::take(&mut end.waiting);
        self.plan(at, Due::ToGenerator(Happening::Ready(client, at - now, again)));
        if let Client::Device(device) = client {
            for sequence in waiting {
                self.send(device, sequence);
            }
        }
    }

    fn die(&mut self, station: usize) {
        let now = self.now;
        self.die_at(station, now);
    }

    fn die_at(&mut self, station: usize, now: Nanos) {
        let lost = self.stations[station].jobs();
        self.stations[station].die();
        self.unlock(station, now);
        self.clear_outbox(station);
        self.free_places(station, lost, now);
        if station > 0 {
            return;
        }
        let clients = (0..self.devices.len() as u32)
            .map(Client::Device)
            .chain((0..self.subscribers.len() as u32).map(Client::Subscriber));
        for client in clients.collect::<Vec<_>>() {
            let Some(end) = self.end(client).filter(|end| end.connected) else { continue };
            end.connected = false;
            let abandoned = std::mem::take(&mut end.outstanding);
            self.plan(now, Due::ToGenerator(Happening::Disconnected(client)));
            if let Client::Device(device) = client {
                for sequence in abandoned {
                    self.plan(now, Due::ToGenerator(Happening::Abandoned(device, sequence)));
                }
            }
            let pause = Nanos((self.random.fraction() * CONNECT_AGAIN.0 as f64) as i64);
            self.plan(now + pause, Due::Connect(client));
        }
    }

    fn revive(&mut self, station: usize) {
        self.stations[station].alive = true;
    }
}

#[cfg(test)]
mod tests;
