//! The conversations that are open, of one thread, and what is observed in them.

use crate::action::ClientAction;
use crate::component::{Components, Party};
use crate::conversation::{Conversation, DissectionContext, Opening};
use crate::dissect::Carrier;
use crate::duplicate_packets::DuplicatePackets;
use crate::marker::Search;
use crate::observations::{ConversationId, Exchange, Observations, Sighting};
use crate::packet::{Endpoint, Packet, Tcp, Transport};
use crate::phases::Phases;
use crate::side::Side;
use crate::tally::{Service, Tally};
use crate::tcp::{Connection, Meter, Receiver};
use crate::tls::keys::Keys;
use plimsoll_model::Nanos;
use plimsoll_model::wire::WireProtocol;
use rustc_hash::FxHashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An exchange and who took part in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Located<T> {
    /// The endpoint of who opened the conversation.
    pub client: Endpoint,
    /// Of who was called.
    pub server: Endpoint,
    /// Whose they were.
    pub parties: [Party; 2],
    /// What was spoken.
    pub protocol: WireProtocol,
    /// What was observed.
    pub observed: T,
}

/// What was observed in a stretch of the capture and is given on beside the tally, in the order of the capture.
#[derive(Debug, Default)]
pub struct ObservationBatch {
    /// Where they are wanted.
    pub exchanges: Vec<Located<Exchange>>,
    /// Where markers are looked for.
    pub sightings: Vec<Located<Sighting>>,
    /// Where they are wanted.
    pub actions: Vec<Located<ClientAction>>,
}

/// What a thread needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What markers look like.
    pub search: Search,
    /// Whose endpoints are whose.
    pub components: Arc<Components>,
    /// The phases of the run.
    pub phases: Arc<Phases>,
    /// Open TLS; captures that carry keys add theirs.
    pub keys: Arc<Keys>,
    /// Whether exchanges are given on.
    pub exchanges: bool,
    /// Whether what clients do is given on.
    pub actions: bool,
    /// Whether conversations between strangers, of whom neither is a component, are left out.
    pub only_known: bool,
    /// Conversations that are open at once; above them the one that was silent for the longest time is given up.
    pub open: usize,
    /// Ends the reading.
    pub stop: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    ends: [Endpoint; 2],
    tcp: bool,
}

/// A conversation and the connection that carries it.
struct Flow {
    id: ConversationId,
    ends: [Endpoint; 2],
    /// Whose each end was when the conversation began, as that of who called and as that of who was called.
    whose: [[Party; 2]; 2],
    last: Nanos,
    /// The number of the SYN that opened it.
    opening: Option<u32>,
    over: bool,
    /// Nobody's whom we know.
    stranger: bool,
    connection: Option<Box<Connection>>,
    conversation: Option<Box<Conversation>>,
    /// Where the last exchange of it was counted: protocol, client and phase may change.
    place: Option<(WireProtocol, usize, u16, u32)>,
    counted: bool,
    /// The present second and phase, which what is not booked yet belongs to, and the bytes of its datagrams.
    second: i64,
    phase: u16,
    since: Nanos,
    bytes: [u64; 2],
    /// The last datagrams of each direction, to know duplicates of them.
    duplicates: [DuplicatePackets<DUPLICATES>; 2],
}

/// Datagrams of one direction among which a duplicate is recognised, and how soon it comes where IP does not count.
const DUPLICATES: usize = 4;
const AT_ONCE: Nanos = Nanos::from_micros(100);
/// Bytes that all conversations of a thread may keep until a dissector can use them.
const KEPT: usize = 24 << 20;

/// Measurements of one packet.
#[derive(Default)]
struct Readings {
    round_trip: Option<Nanos>,
    delays: Vec<Option<Nanos>>,
}

impl Meter for Readings {
    fn round_trip(&mut self, _: usize, time: Nanos) {
        self.round_trip = Some(time);
    }

    fn retransmission(&mut self, _: usize, delay: Option<Nanos>) {
        self.delays.push(delay);
    }
}

/// All that is open.
pub struct Table {
    settings: Settings,
    places: FxHashMap<Key, u32>,
    flows: Vec<Option<Box<Flow>>>,
    free: Vec<u32>,
    next: u32,
    observations: Observations,
    readings: Readings,
    /// Bytes that wait in all conversations.
    kept: usize,
    /// What was counted.
    pub tally: Tally,
    /// What is to be given on.
    pub batch: ObservationBatch,
}

impl Table {
    /// Nothing is open.
    pub fn new(settings: Settings) -> Table {
        let actions = settings.actions.then(Vec::new);
        Table {
            settings,
            places: FxHashMap::default(),
            flows: Vec::new(),
            free: Vec::new(),
            next: 0,
            observations: Observations { actions, ..Observations::default() },
            readings: Readings::default(),
            kept: 0,
            tally: Tally::default(),
            batch: ObservationBatch::default(),
        }
    }

    /// Takes the next packet and its content.
    pub fn packet(&mut self, packet: &Packet, bytes: &[u8]) {
        let swapped = packet.from > packet.to;
        let ends = if swapped { [packet.to, packet.from] } else { [packet.from, packet.to] };
        let direction = usize::from(swapped);
        let tcp = match &packet.transport {
            Transport::Tcp(tcp) => Some(tcp),
            Transport::Udp => None,
        };
        let opens = tcp.is_some_and(|tcp| tcp.flags.syn() && !tcp.flags.ack());
        let key = Key { ends, tcp: tcp.is_some() };
        let place = match self.places.get(&key) {
            Some(&place) => place,
            None => self.open(key, packet.at, opens),
        };
        let Some(mut flow) = self.flows[place as usize].take() else { return };
        if flow.stranger {
            flow.last = packet.at;
            self.flows[place as usize] = Some(flow);
            return;
        }
        if let Some(tcp) = tcp {
            let anew = flow.connection.as_ref().is_some_and(|known| known.is_opened_anew(direction, tcp));
            if anew {
                self.kept = self.kept.saturating_sub(flow.kept());
                self.close(&mut flow, packet.at);
                flow = self.flow(key, packet.at, opens);
            }
        }
        if let Some(tcp) = tcp.filter(|tcp| tcp.flags.syn() && !tcp.flags.ack()) {
            // One that is sent again is the kernel's doing.
            let first = flow.opening.replace(tcp.sequence) != Some(tcp.sequence);
            if first {
                self.tally.pulse.opened(packet.at, flow.whose[direction][0]);
            }
        }
        flow.last = packet.at;
        self.turn(&mut flow, packet.at);
        let before = flow.kept();
        match tcp {
            Some(tcp) => self.segment(&mut flow, direction, packet, tcp, bytes),
            None => self.datagram(&mut flow, direction, packet, bytes),
        }
        self.kept = (self.kept + flow.kept()).saturating_sub(before);
        if self.kept > KEPT && flow.kept() > 0 {
            // Whoever would keep more when there is no room gives all up.
            self.kept = self.kept.saturating_sub(flow.kept());
            self.tally.evicted += 1;
            self.give_up(&mut flow, packet.at);
            // Whose its ends are was found when it was opened.
            let whose = flow.whose;
            flow = self.flow(key, packet.at, opens);
            flow.whose = whose;
        }
        self.flows[place as usize] = Some(flow);
    }

    fn segment(&mut self, flow: &mut Flow, direction: usize, packet: &Packet, tcp: &Tcp, bytes: &[u8]) {
        let Some(mut connection) = flow.connection.take() else { return };
        let (id, ports, client) = (flow.id, flow.ends.map(|end| end.port), connection.client());
        let components = &self.settings.components;
        let mut context = DissectionContext {
            search: &self.settings.search,
            keys: &self.settings.keys,
            observations: &mut self.observations,
        };
        connection.packet(
            direction,
            packet,
            tcp,
            bytes,
            &mut Receiver {
                conversation: &mut flow.conversation,
                begin: &|| {
                    Conversation::new(id, Carrier::Stream, ports, Opening::new(client, components, ports))
                },
                context: &mut context,
                meter: &mut self.readings,
            },
        );
        let over = connection.is_over();
        let unusual = !self.readings.delays.is_empty() || self.readings.round_trip.is_some();
        if unusual {
            self.count_readings(flow);
        }
        flow.connection = Some(connection);
        self.book(flow);
        if over && !flow.over {
            flow.over = true;
            self.end(flow);
        }
    }

    fn datagram(&mut self, flow: &mut Flow, direction: usize, packet: &Packet, bytes: &[u8]) {
        let print = print(packet, bytes);
        if flow.duplicates[direction].has(print, packet.at, packet.ip_id != 0, AT_ONCE) {
            self.tally.duplicate_packets += 1;
            return;
        }
        let (id, ports) = (flow.id, flow.ends.map(|end| end.port));
        let mut context = DissectionContext {
            search: &self.settings.search,
            keys: &self.settings.keys,
            observations: &mut self.observations,
        };
        let components = &self.settings.components;
        let opening = || Opening::new(None, components, ports);
        let begin = || Box::new(Conversation::new(id, Carrier::Datagrams, ports, opening()));
        flow.conversation.get_or_insert_with(begin).data(direction, packet.at, bytes, &mut context);
        flow.bytes[direction] += u64::from(packet.length) + u64::from(packet.missing);
        self.book(flow);
    }

    /// Bytes and what befell segments are summed up over a second, or until the phase changes, before they are booked.
    fn turn(&mut self, flow: &mut Flow, at: Nanos) {
        let (second, phase) = (at.0.div_euclid(1_000_000_000), self.settings.phases.at(at));
        if (second, phase) != (flow.second, flow.phase) {
            self.book_bytes(flow);
            (flow.second, flow.phase, flow.since) = (second, phase, at);
        }
    }

    fn book_bytes(&mut self, flow: &mut Flow) {
        let seen = flow.connection.as_mut().map(|connection| connection.take_seen());
        let something = seen.is_some_and(|seen| seen.iter().any(|seen| *seen != Default::default()));
        if flow.bytes == [0, 0] && !something {
            return;
        }
        let (place, client) = self.place(flow, flow.since, None);
        let counted = self.tally.at(place);
        let mut bytes = std::mem::take(&mut flow.bytes);
        for direction in [0, 1] {
            bytes[direction] += seen.map_or(0, |seen| seen[direction].bytes);
        }
        counted.bytes_of(flow.second, if client == 0 { bytes } else { [bytes[1], bytes[0]] });
        if let Some(seen) = seen {
            for direction in [0, 1] {
                let side = direction ^ client;
                counted.retransmissions[side] += seen[direction].retransmissions;
                counted.zero_windows += seen[direction].zero_windows;
                counted.missing += seen[direction].missing;
            }
            self.tally.duplicate_packets += seen.iter().map(|seen| seen.duplicates).sum::<u64>();
            self.tally.reordered += seen.iter().map(|seen| seen.reordered).sum::<u64>();
        }
    }

    fn count_readings(&mut self, flow: &mut Flow) {
        let (place, _) = self.place(flow, flow.last, None);
        let counted = self.tally.at(place);
        if let Some(time) = self.readings.round_trip.take() {
            counted.round_trips.record(time);
        }
        for delay in self.readings.delays.drain(..).flatten() {
            counted.retransmission_delays.record(delay);
        }
    }

    /// The place where a conversation is counted now, and the direction of its client. A message that was `spoken` in another
    /// protocol, before the conversation changed to its own, counts there.
    fn place(&mut self, flow: &mut Flow, at: Nanos, spoken: Option<WireProtocol>) -> (u32, usize) {
        let phase = self.settings.phases.at(at);
        let (protocol, client) = match &flow.conversation {
            Some(conversation) => (spoken.unwrap_or(conversation.protocol()), conversation.client()),
            None => {
                let seen = flow.connection.as_ref().and_then(|connection| connection.client());
                let ports = flow.ends.map(|end| end.port);
                let opening = Opening::new(seen, &self.settings.components, ports);
                (WireProtocol::Unknown, opening.client(ports))
            }
        };
        if let Some((known, whose, when, place)) = flow.place
            && (known, whose, when) == (protocol, client, phase)
        {
            return (place, client);
        }
        let [caller, called] = flow.parties(client);
        let service = Service { client: caller, server: called, protocol, phase };
        let place = self.tally.place(service);
        flow.place = Some((protocol, client, phase, place));
        (place, client)
    }

    /// Books what was observed since the last time, which all belongs to that conversation.
    fn book(&mut self, flow: &mut Flow) {
        let observations = &self.observations;
        if observations.exchanges.is_empty()
            && observations.notices.is_empty()
            && observations.sightings.is_empty()
            && observations.breaches.is_empty()
            && observations.actions.as_ref().is_none_or(Vec::is_empty)
            && observations.secured.is_empty()
            && observations.skipped == 0
        {
            return;
        }
        let mut observations = std::mem::take(&mut self.observations);
        for exchange in &observations.exchanges {
            let (place, client) = self.place(flow, exchange.request.first, Some(exchange.protocol));
            let counted = self.tally.at(place);
            counted.exchange(exchange);
            counted.conversations += u64::from(!std::mem::replace(&mut flow.counted, true));
            let located = located(flow, client, exchange.protocol, *exchange);
            let parties = located.asker_and_asked();
            self.tally.pulse.exchange(exchange, parties);
            if self.settings.exchanges {
                self.batch.exchanges.push(located);
            }
        }
        for notice in &observations.notices {
            let (place, client) = self.place(flow, notice.span.first, Some(notice.protocol));
            let [from, to] = flow.parties(client);
            let parties = if notice.from == Side::Client { [from, to] } else { [to, from] };
            self.tally.pulse.notice(notice, parties);
            let counted = self.tally.at(place);
            counted.notice(notice);
            counted.conversations += u64::from(!std::mem::replace(&mut flow.counted, true));
        }
        for breach in &observations.breaches {
            let (place, _) = self.place(flow, breach.at, Some(breach.protocol));
            self.tally.at(place).malformed += 1;
            *self.tally.malformed.entry((breach.protocol, breach.reason)).or_default() += 1;
        }
        if !observations.sightings.is_empty() {
            let (_, client) = self.place(flow, flow.last, None);
            let protocol = flow.conversation.as_ref().map_or(WireProtocol::Unknown, |known| known.protocol());
            self.batch.sightings.extend(
                observations.sightings.iter().map(|sighting| located(flow, client, protocol, *sighting)),
            );
        }
        if let Some(actions) = observations.actions.as_mut().filter(|actions| !actions.is_empty()) {
            let (_, client) = self.place(flow, flow.last, None);
            self.batch
                .actions
                .extend(actions.drain(..).map(|action| located(flow, client, action.protocol, action)));
        }
        observations.secured.drain(..).for_each(|outcome| self.tally.secured(outcome));
        self.tally.skipped += observations.skipped;
        observations.exchanges.clear();
        observations.notices.clear();
        observations.breaches.clear();
        observations.sightings.clear();
        observations.skipped = 0;
        self.observations = observations;
    }

    fn open(&mut self, key: Key, at: Nanos, opens: bool) -> u32 {
        if self.places.len() >= self.settings.open {
            self.make_room(at);
        }
        let flow = self.flow(key, at, opens);
        let place = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() as u32 - 1
        });
        self.flows[place as usize] = Some(flow);
        self.places.insert(key, place);
        place
    }

    /// `opens` says that its first packet opens the connection.
    fn flow(&mut self, key: Key, at: Nanos, opens: bool) -> Box<Flow> {
        let id = ConversationId(self.next);
        self.next = self.next.wrapping_add(1);
        let components = &self.settings.components;
        let whose = [0, 1].map(|end| {
            [
                components.caller(&key.ends[end], &key.ends[1 - end], at, opens),
                components.called(&key.ends[end], at),
            ]
        });
        let is_known =
            |parties: &[Party; 2]| parties.iter().any(|party| matches!(party, Party::Component(_)));
        Box::new(Flow {
            id,
            ends: key.ends,
            last: at,
            opening: None,
            over: false,
            stranger: self.settings.only_known && !whose.iter().any(is_known),
            whose,
            connection: key.tcp.then(Box::default),
            conversation: None,
            place: None,
            counted: false,
            second: at.0.div_euclid(1_000_000_000),
            phase: self.settings.phases.at(at),
            since: at,
            bytes: [0, 0],
            duplicates: Default::default(),
        })
    }

    /// Removes what is over, and where that is too little, a quarter of the rest: what was silent for the longest time.
    fn make_room(&mut self, at: Nanos) {
        let over = |flow: &Option<Box<Flow>>| flow.as_ref().is_some_and(|flow| flow.over);
        let few = self.flows.iter().filter(|flow| over(flow)).count() < self.settings.open / 4;
        let mut lasts: Vec<Nanos> = self.flows.iter().flatten().map(|flow| flow.last).collect();
        let quarter = lasts.len() / 4;
        let limit =
            if few && !lasts.is_empty() { *lasts.select_nth_unstable(quarter).1 } else { Nanos(i64::MIN) };
        for place in 0..self.flows.len() {
            let goes = self.flows[place].as_ref().is_some_and(|flow| flow.over || flow.last <= limit);
            if goes && let Some(mut flow) = self.flows[place].take() {
                self.tally.evicted += u64::from(!flow.over && !flow.stranger);
                self.kept = self.kept.saturating_sub(flow.kept());
                self.give_up(&mut flow, at);
                self.places.remove(&Key { ends: flow.ends, tcp: flow.connection.is_some() });
                self.free.push(place as u32);
            }
        }
    }

    /// Leaves a conversation that may go on.
    fn give_up(&mut self, flow: &mut Flow, at: Nanos) {
        if let Some(conversation) = flow.conversation.as_mut().filter(|_| !flow.over) {
            conversation.leave(&mut DissectionContext {
                search: &self.settings.search,
                keys: &self.settings.keys,
                observations: &mut self.observations,
            });
            self.book(flow);
        }
        self.close(flow, at);
    }

    /// Books all that is left of a conversation.
    fn close(&mut self, flow: &mut Flow, at: Nanos) {
        if let Some(mut connection) = flow.connection.take() {
            let (id, ports, client) = (flow.id, flow.ends.map(|end| end.port), connection.client());
            let components = &self.settings.components;
            let mut context = DissectionContext {
                search: &self.settings.search,
                keys: &self.settings.keys,
                observations: &mut self.observations,
            };
            connection.flush(
                at,
                &mut Receiver {
                    conversation: &mut flow.conversation,
                    begin: &|| {
                        Conversation::new(id, Carrier::Stream, ports, Opening::new(client, components, ports))
                    },
                    context: &mut context,
                    meter: &mut self.readings,
                },
            );
            flow.connection = Some(connection);
            self.count_readings(flow);
        }
        self.end(flow);
        self.book_bytes(flow);
    }

    /// What still waits in a conversation was not answered.
    fn end(&mut self, flow: &mut Flow) {
        if let Some(conversation) = &mut flow.conversation {
            conversation.end(&mut DissectionContext {
                search: &self.settings.search,
                keys: &self.settings.keys,
                observations: &mut self.observations,
            });
        }
        self.book(flow);
    }

    /// The capture is over.
    pub fn finish(&mut self, at: Nanos) {
        for place in 0..self.flows.len() {
            if let Some(mut flow) = self.flows[place].take() {
                self.close(&mut flow, at);
            }
        }
        self.places.clear();
    }
}

impl Flow {
    /// Who calls and who is called, where that is the direction of the client.
    fn parties(&self, client: usize) -> [Party; 2] {
        [self.whose[client][0], self.whose[1 - client][1]]
    }

    /// Bytes that wait.
    fn kept(&self) -> usize {
        let conversation = self.conversation.as_ref().map_or(0, |conversation| conversation.kept());
        conversation + self.connection.as_ref().map_or(0, |connection| connection.kept())
    }
}

/// Tells duplicates of a datagram from datagrams alike.
fn print(packet: &Packet, bytes: &[u8]) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    (packet.ip_id, packet.length).hash(&mut hasher);
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn located<T>(flow: &Flow, client: usize, protocol: WireProtocol, observed: T) -> Located<T> {
    let (parties, [one, other]) = (flow.parties(client), flow.ends);
    let (client, server) = if client == 0 { (one, other) } else { (other, one) };
    Located { client, server, parties, protocol, observed }
}

impl Located<Sighting> {
    /// From whom, and to whom.
    pub fn ends(&self) -> [Endpoint; 2] {
        match self.observed.from {
            Side::Client => [self.client, self.server],
            Side::Server => [self.server, self.client],
        }
    }
}

impl Located<Exchange> {
    /// Who asked whom.
    pub fn asker_and_asked(&self) -> [Party; 2] {
        let [client, server] = self.parties;
        match self.observed.requester {
            Side::Client => [client, server],
            Side::Server => [server, client],
        }
    }
}
