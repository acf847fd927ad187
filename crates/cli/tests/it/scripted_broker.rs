//! An MQTT broker that follows a script: it can drop, repeat and swap messages, answer late, stall, refuse, lie and
//! die, each at a place that is known beforehand. QoS 0 and 1, clean sessions.

use plimsoll_codec::marker::Marker;
use plimsoll_codec::mqtt::{
    Ack, AckKind, Connack, Connect, Disconnect, Packet, Properties, Property, Publish, QoS, Suback, Version,
    encode_pingresp, packet_length, topic,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the broker does; the default is to do all well and at once.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Clients from this one on (counted from 1) are refused with that CONNACK code.
    pub refuse_from: Option<(usize, u8)>,
    /// CONNECT is never answered.
    pub silent: bool,
    /// SUBSCRIBE is never answered.
    pub no_suback: bool,
    /// The receive maximum in CONNACK (MQTT 5).
    pub receive_maximum: Option<u16>,
    /// How PUBLISH is answered.
    pub acknowledge: Acknowledge,
    /// What befalls a message, by device and number; messages of a device are numbered from 1.
    pub faults: BTreeMap<(u32, u32), Fault>,
    /// Every acknowledgement and delivery leaves so long after its message came, whatever else is under way.
    pub delay: Option<Duration>,
    /// One message after the other is served for so long and then answered: the capacity is one message in that time.
    pub service: Option<Duration>,
    /// Before the message with this number, counted from 1 over all devices, the whole broker stands still.
    pub stall: Option<(u64, Duration)>,
    /// With the message of this number everything ends: connections, listening.
    pub die_at: Option<u64>,
    /// Foreign messages that each subscriber gets before each delivery.
    pub flood: u32,
    /// The sender of the message with this number is answered with those bytes.
    pub noise_at: Option<(u64, &'static [u8])>,
    /// The sender of the message with this number gets DISCONNECT with that reason code (MQTT 5).
    pub goodbye_at: Option<(u64, u8)>,
}

/// How PUBLISH is answered.
#[derive(Clone, Copy, Debug, Default)]
pub enum Acknowledge {
    /// With PUBACK.
    #[default]
    Always,
    /// With PUBACK, and each so-manieth message, over all devices, with a second one.
    TwiceEach(u64),
    /// Not at all.
    Never,
    /// With PUBACK, but each so-manieth message, over all devices, not at all.
    AllButEach(u64),
    /// The message with this number, counted from 1 over all devices, with that reason code (MQTT 5) and not
    /// delivered; all others with PUBACK.
    Refuse(u64, u8),
}

/// What befalls a message on its way to the subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is acknowledged and not delivered.
    Drop,
    /// It is delivered twice.
    Repeat,
    /// It is delivered after the next one of its device.
    Swap,
}

/// The running broker; it ends when it is dropped.
pub struct ScriptedBroker {
    address: SocketAddr,
    broker: Arc<Broker>,
    threads: Vec<JoinHandle<()>>,
}

struct Broker {
    script: Script,
    state: Mutex<State>,
    posted: Condvar,
}

#[derive(Default)]
struct State {
    over: bool,
    connects: usize,
    clients: HashMap<usize, Client>,
    /// PUBLISH packets so far.
    messages: u64,
    /// When the last message taken will have been served.
    served: Option<Instant>,
    /// Messages held back to be swapped with the next one of their device.
    held: HashMap<u32, Vec<u8>>,
    post: BinaryHeap<Reverse<Letter>>,
    letters: u64,
}

/// A packet that leaves at a time; equal times leave in the order of posting.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Letter {
    at: Instant,
    number: u64,
    client: usize,
    packet: Vec<u8>,
}

struct Client {
    stream: TcpStream,
    version: Version,
    filters: Vec<(String, QoS)>,
    next_id: u16,
}

impl ScriptedBroker {
    /// Listens on a free port.
    pub fn start(script: Script) -> ScriptedBroker {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let broker = Arc::new(Broker { script, state: Mutex::default(), posted: Condvar::new() });
        let (accepting, posting) = (Arc::clone(&broker), Arc::clone(&broker));
        let threads = vec![
            std::thread::spawn(move || accept(&accepting, &listener, address)),
            std::thread::spawn(move || posting.deliver_post()),
        ];
        ScriptedBroker { address, broker, threads }
    }

    /// `mqtt://host:port`.
    pub fn url(&self) -> String {
        format!("mqtt://{}", self.address)
    }

    /// The `platform` of a scenario.
    pub fn platform(&self) -> String {
        format!("{{ profile: existing, address: \"{}\" }}", self.url())
    }
}

impl Drop for ScriptedBroker {
    fn drop(&mut self) {
        self.broker.end(&mut self.broker.lock(), self.address);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

fn accept(broker: &Arc<Broker>, listener: &TcpListener, address: SocketAddr) {
    for number in 0.. {
        let Ok((stream, _)) = listener.accept() else { return };
        if broker.lock().over {
            return;
        }
        stream.set_nodelay(true).unwrap();
        let broker = Arc::clone(broker);
        // Ends with its connection, which the end of the broker closes.
        std::thread::spawn(move || serve(&broker, number, stream, address));
    }
}

fn serve(broker: &Broker, number: usize, mut stream: TcpStream, address: SocketAddr) {
    let mut pending = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        pending.extend_from_slice(&chunk[..length]);
        let mut begin = 0;
        while let Ok(Some(length)) = packet_length(&pending[begin..]) {
            let Some(packet) = pending.get(begin..begin + length) else { break };
            if broker.receive(number, &stream, packet, address).is_none() {
                broker.lock().clients.remove(&number);
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
            begin += length;
        }
        pending.drain(..begin);
    }
    broker.lock().clients.remove(&number);
}

impl Broker {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one packet; `None` where the connection is to be closed.
    fn receive(&self, number: usize, stream: &TcpStream, packet: &[u8], address: SocketAddr) -> Option<()> {
        let mut state = self.lock();
        if state.over {
            return None;
        }
        let Some(version) = state.clients.get(&number).map(|client| client.version) else {
            return self.connect(&mut state, number, stream, packet);
        };
        match Packet::decode(version, packet).unwrap() {
            Packet::Publish(publish) => self.publish(&mut state, number, version, &publish, address),
            Packet::Subscribe(_) if self.script.no_suback => Some(()),
            Packet::Subscribe(subscribe) => {
                let granted = |qos: QoS| qos.min(QoS::AtLeastOnce);
                let filters = subscribe.subscriptions.iter();
                let filters: Vec<(String, QoS)> =
                    filters.map(|wanted| (wanted.filter.to_owned(), granted(wanted.qos))).collect();
                let codes: Vec<u8> = filters.iter().map(|(_, qos)| qos.level()).collect();
                let packet_id = subscribe.packet_id;
                let properties = Properties::default();
                let suback = Packet::Suback(Suback { packet_id, codes: &codes, properties });
                self.post(&mut state, number, encoded(version, &suback));
                state.clients.get_mut(&number)?.filters = filters;
                Some(())
            }
            Packet::Pingreq => {
                let mut answer = Vec::new();
                encode_pingresp(&mut answer);
                self.post(&mut state, number, answer);
                Some(())
            }
            Packet::Disconnect(_) => None,
            _ => Some(()),
        }
    }

    fn connect(&self, state: &mut State, number: usize, stream: &TcpStream, packet: &[u8]) -> Option<()> {
        let version = Connect::decode(packet).unwrap().version;
        if self.script.silent {
            return Some(());
        }
        state.connects += 1;
        let refused = self.script.refuse_from.filter(|(from, _)| state.connects >= *from);
        let window: Vec<Property> =
            self.script.receive_maximum.map(Property::ReceiveMaximum).into_iter().collect();
        let properties = if refused.is_some() { Properties::default() } else { Properties::List(&window) };
        let code = refused.map_or(0, |(_, code)| code);
        let connack = Packet::Connack(Connack { session_present: false, code, properties });
        let stream = stream.try_clone().unwrap();
        state.clients.insert(number, Client { stream, version, filters: Vec::new(), next_id: 0 });
        self.post(state, number, encoded(version, &connack));
        refused.is_none().then_some(())
    }

    fn publish(
        &self,
        state: &mut State,
        sender: usize,
        version: Version,
        publish: &Publish,
        address: SocketAddr,
    ) -> Option<()> {
        state.messages += 1;
        let count = state.messages;
        if let Some(service) = self.script.service {
            // By the clock of the script, so that a scheduler that is late costs the broker no capacity.
            let begin = state.served.map_or_else(Instant::now, |served| served.max(Instant::now()));
            state.served = Some(begin + service);
        }
        if let Some((_, pause)) = self.script.stall.filter(|(at, _)| *at == count) {
            // With the lock held, so that nobody is served.
            std::thread::sleep(pause);
        }
        if self.script.die_at == Some(count) {
            self.end(state, address);
            return None;
        }
        if let Some((_, noise)) = self.script.noise_at.filter(|(at, _)| *at == count) {
            self.post(state, sender, noise.to_vec());
            return Some(());
        }
        if let Some((_, reason)) = self.script.goodbye_at.filter(|(at, _)| *at == count) {
            let goodbye = Packet::Disconnect(Disconnect { reason, properties: Properties::default() });
            self.post(state, sender, encoded(version, &goodbye));
            return None;
        }
        let reason = match self.script.acknowledge {
            Acknowledge::Always | Acknowledge::TwiceEach(_) => Some(0),
            Acknowledge::Never => None,
            Acknowledge::AllButEach(step) => (!count.is_multiple_of(step)).then_some(0),
            Acknowledge::Refuse(at, reason) => Some(if at == count { reason } else { 0 }),
        };
        if let (Some(packet_id), Some(reason)) = (publish.packet_id, reason) {
            let ack = Ack { kind: AckKind::Puback, packet_id, reason, properties: Properties::default() };
            let twice =
                matches!(self.script.acknowledge, Acknowledge::TwiceEach(step) if count.is_multiple_of(step));
            for _ in 0..1 + u8::from(twice) {
                self.post(state, sender, encoded(version, &Packet::Ack(ack.clone())));
            }
        }
        if reason.unwrap_or(0) < 0x80 {
            self.deliver_as_scripted(state, publish);
        }
        Some(())
    }

    fn deliver_as_scripted(&self, state: &mut State, publish: &Publish) {
        let marker = Marker::read_binary(publish.payload).expect("every message carries a binary marker");
        let fault = self.script.faults.get(&(marker.device, marker.sequence + 1)).copied();
        if fault == Some(Fault::Swap) {
            state.held.insert(marker.device, publish.payload.to_vec());
            return;
        }
        let times = match fault {
            Some(Fault::Drop) => 0,
            Some(Fault::Repeat) => 2,
            _ => 1,
        };
        for _ in 0..times {
            self.deliver(state, publish.topic, publish.qos, publish.payload);
        }
        if let Some(held) = state.held.remove(&marker.device) {
            self.deliver(state, publish.topic, publish.qos, &held);
        }
    }

    /// Once to each subscriber of which a filter matches.
    fn deliver(&self, state: &mut State, name: &str, qos: QoS, payload: &[u8]) {
        let mut packets = Vec::new();
        for (&number, client) in &mut state.clients {
            let granted = client.filters.iter().filter(|(filter, _)| topic::matches(filter, name));
            let Some(granted) = granted.map(|(_, qos)| *qos).max() else { continue };
            for _ in 0..self.script.flood {
                packets.push((number, client.publish(name, QoS::AtMostOnce, b"nobody of this run sent me")));
            }
            packets.push((number, client.publish(name, qos.min(granted), payload)));
        }
        for (number, packet) in packets {
            self.post(state, number, packet);
        }
    }

    /// Sends now or, where the script delays or serves one after the other, later.
    fn post(&self, state: &mut State, client: usize, packet: Vec<u8>) {
        let delayed = self.script.delay.map(|delay| Instant::now() + delay);
        match delayed.max(state.served.filter(|served| *served > Instant::now())) {
            None => state.write(client, &packet),
            Some(at) => {
                state.letters += 1;
                let letter = Letter { at, number: state.letters, client, packet };
                state.post.push(Reverse(letter));
                self.posted.notify_one();
            }
        }
    }

    fn deliver_post(&self) {
        let mut state = self.lock();
        while !state.over {
            let now = Instant::now();
            let next = state.post.peek().map(|Reverse(letter)| letter.at);
            let wait = next.map_or(Duration::from_secs(1), |at| at.saturating_duration_since(now));
            if wait.is_zero() {
                if let Some(Reverse(letter)) = state.post.pop() {
                    state.write(letter.client, &letter.packet);
                }
                continue;
            }
            state = self.posted.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Closes everything.
    fn end(&self, state: &mut State, address: SocketAddr) {
        if std::mem::replace(&mut state.over, true) {
            return;
        }
        for client in state.clients.values() {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
        self.posted.notify_one();
        // Wakes the accepting thread, which then closes the port.
        let _ = TcpStream::connect(address);
    }
}

impl State {
    fn write(&mut self, client: usize, packet: &[u8]) {
        // A client that has gone needs no answer.
        let _ = self.clients.get(&client).map(|client| (&client.stream).write_all(packet));
    }
}

impl Client {
    fn publish(&mut self, name: &str, qos: QoS, payload: &[u8]) -> Vec<u8> {
        let packet_id = (qos != QoS::AtMostOnce).then(|| {
            self.next_id = self.next_id.checked_add(1).unwrap_or(1);
            self.next_id
        });
        let properties = Properties::default();
        let publish = Publish { dup: false, qos, retain: false, topic: name, packet_id, properties, payload };
        encoded(self.version, &Packet::Publish(publish))
    }
}

fn encoded(version: Version, packet: &Packet) -> Vec<u8> {
    let mut out = Vec::new();
    packet.encode(version, &mut out).unwrap();
    out
}
