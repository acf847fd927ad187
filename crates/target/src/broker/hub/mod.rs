//! The broker without its sockets: bytes of clients in, bytes for clients out. What a packet does stands in the files
//! beside this one.

mod connect;
mod publish;
mod subscribe;
#[cfg(test)]
mod tests;

use super::context::Context;
use super::link::Link;
use super::memory::Memory;
use super::reasons;
use super::record::Lines;
use super::retained::Retained;
use super::session::Session;
use super::subscriptions::Subscriptions;
use super::timers::{Timer, Timers};
use crate::tcp::Slots;
use plimsoll_codec::mqtt::{
    AckKind, Disconnect, Packet, Properties, Version, encode_pingresp, packet_length,
};
use plimsoll_model::Nanos;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Longest wait for CONNECT on a new connection.
const CONNECT_PATIENCE: Nanos = Nanos::from_secs(60);
/// Bytes of one packet that may be incomplete whatever the memory bound says.
const SMALL_PACKET: usize = 256 * 1024;
/// Bytes of answers that may wait for a client before nothing more is read from it.
const MOST_ANSWERS: usize = 16 * 1024 * 1024;

/// What bounds the broker.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most clients that are connected.
    pub connections: usize,
    /// The largest packet that clients may send, bytes.
    pub packet: usize,
    /// Most deliveries handed to one connection before others have their turn.
    pub handed: u64,
    /// Bytes kept for all clients together.
    pub memory: usize,
}

/// The broker's state.
pub struct Hub {
    limits: Limits,
    context: Context,
    links: Slots<Link>,
    sessions: Slots<Session>,
    /// Sessions by client id.
    names: HashMap<Rc<str>, u64>,
    subscriptions: Subscriptions,
    retained: Retained,
    timers: Timers,
    /// Connections with something to send.
    dirty: Vec<u64>,
    /// Connections that the broker has ended.
    ended: Vec<u64>,
    /// Clients that are connected.
    connected: usize,
    /// Client ids that were assigned.
    assigned: u64,
}

/// A connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The client broke the protocol, or asked for what there is not.
    Refused(u8),
    /// It has got its last packet already, or wants none.
    Silent,
}

impl Hub {
    /// A broker without clients.
    pub fn new(limits: Limits, lines: Option<Rc<RefCell<Lines>>>, now: Nanos) -> Hub {
        let memory = Memory::new(limits.memory);
        Hub {
            limits,
            context: Context { now, memory, most_handed: limits.handed, dropped_for_memory: 0, lines },
            links: Slots::default(),
            sessions: Slots::default(),
            names: HashMap::new(),
            subscriptions: Subscriptions::default(),
            retained: Retained::default(),
            timers: Timers::default(),
            dirty: Vec::new(),
            ended: Vec::new(),
            connected: 0,
            assigned: 0,
        }
    }

    /// Time has passed.
    pub fn set_time(&mut self, now: Nanos) {
        self.context.now = now;
    }

    /// Deliveries that were dropped because of the memory bound.
    pub fn dropped_for_memory(&self) -> u64 {
        self.context.dropped_for_memory
    }

    /// A client has connected over TCP. The id of its connection.
    pub fn open(&mut self) -> u64 {
        let now = self.context.now;
        let held = self.context.memory.hold(size_of::<Link>());
        let id = self.links.insert(Link::new(now, CONNECT_PATIENCE, held));
        self.timers.set(now + CONNECT_PATIENCE, Timer::Silence(id));
        id
    }

    /// A connection.
    pub fn link(&mut self, id: u64) -> Option<&mut Link> {
        self.links.get_mut(id)
    }

    /// Whether so much waits for a client that nothing more is read from it.
    pub fn is_choked(&self, id: u64) -> bool {
        let most = self.limits.packet.saturating_add(MOST_ANSWERS);
        self.links.get(id).is_some_and(|link| link.out.waiting() > most)
    }

    /// Bytes have come.
    pub fn input(&mut self, id: u64, bytes: &[u8]) {
        let now = self.context.now;
        let Some(link) = self.links.get_mut(id).filter(|link| !link.ended) else { return };
        link.heard = now;
        let mut input = std::mem::take(&mut link.input);
        let had_input = !input.is_empty();
        let outcome = if input.is_empty() {
            self.packets(id, bytes)
                .map(|taken| input.extend_from_slice(bytes.get(taken..).unwrap_or_default()))
        } else {
            input.extend_from_slice(bytes);
            self.packets(id, &input).map(|taken| drop(input.drain(..taken)))
        };
        let too_much = input.len() > SMALL_PACKET && self.context.memory.is_exhausted();
        match outcome {
            Ok(()) if too_much => self.end(id, Some(reasons::QUOTA_EXCEEDED)),
            Ok(()) => {
                if let Some(link) = self.links.get_mut(id).filter(|_| had_input || !input.is_empty()) {
                    link.input = if input.is_empty() { Vec::new() } else { input };
                    link.account();
                }
            }
            Err(Over::Refused(reason)) => self.end(id, Some(reason)),
            Err(Over::Silent) => self.end(id, None),
        }
    }

    /// Handles whole packets; the bytes that they took.
    fn packets(&mut self, id: u64, bytes: &[u8]) -> Result<usize, Over> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..) {
            let length = match packet_length(rest) {
                Ok(Some(length)) if length > self.limits.packet => {
                    return Err(Over::Refused(reasons::PACKET_TOO_LARGE));
                }
                Ok(Some(length)) => length,
                Ok(None) => break,
                Err(malformed) => return Err(Over::Refused(reasons::of(malformed))),
            };
            let Some(packet) = rest.get(..length) else { break };
            let Some(link) = self.links.get(id).filter(|link| !link.ended) else { break };
            match link.session {
                None => self.connect(id, packet)?,
                Some(session) => self.packet(id, session, link.version, packet)?,
            }
            taken += length;
        }
        Ok(taken)
    }

    fn packet(&mut self, id: u64, session: u64, version: Version, packet: &[u8]) -> Result<(), Over> {
        let packet =
            Packet::decode(version, packet).map_err(|malformed| Over::Refused(reasons::of(malformed)))?;
        match packet {
            Packet::Publish(publish) => self.publish(id, session, &publish),
            Packet::Ack(ack) => {
                self.acknowledged(id, session, ack.kind, ack.packet_id, ack.reason);
                Ok(())
            }
            Packet::Subscribe(subscribe) => self.subscribe(id, session, &subscribe),
            Packet::Unsubscribe(unsubscribe) => self.unsubscribe(id, session, &unsubscribe),
            Packet::Pingreq => {
                if let Some(link) = self.links.get_mut(id) {
                    encode_pingresp(link.out.bytes());
                    touch(link, id, &mut self.dirty);
                }
                Ok(())
            }
            Packet::Disconnect(disconnect) => self.disconnect(id, session, &disconnect),
            // A second CONNECT, packets that only brokers send, and AUTH, which nobody was asked for.
            _ => Err(Over::Refused(reasons::PROTOCOL_ERROR)),
        }
    }

    fn acknowledged(&mut self, id: u64, session: u64, kind: AckKind, packet_id: u16, reason: u8) {
        let (Some(session), Some(link)) = (self.sessions.get_mut(session), self.links.get_mut(id)) else {
            return;
        };
        let deliveries = &mut session.deliveries;
        match kind {
            AckKind::Puback => deliveries.puback(packet_id, reason, &mut self.context),
            AckKind::Pubrec => deliveries.pubrec(packet_id, reason, link, &mut self.context),
            AckKind::Pubcomp => deliveries.pubcomp(packet_id, &mut self.context),
            AckKind::Pubrel => {
                let known = session.incoming.remove(&packet_id);
                let reason = if known { 0 } else { reasons::PACKET_ID_NOT_FOUND };
                link.acknowledge(AckKind::Pubcomp, packet_id, reason);
            }
        }
        if !session.deliveries.is_idle() {
            session.deliveries.pump(link, &mut self.context);
        }
        touch(link, id, &mut self.dirty);
    }

    /// A connection ends: with a last packet that says why, where the client can read it, else without.
    pub fn end(&mut self, id: u64, reason: Option<u8>) {
        let Some(link) = self.links.get_mut(id).filter(|link| !link.ended) else { return };
        if let (Some(reason), Some(_), Version::V5) = (reason, link.session, link.version) {
            let disconnect = Packet::Disconnect(Disconnect { reason, properties: Properties::default() });
            // The reasons given are those that a DISCONNECT can have.
            let _ = disconnect.encode(Version::V5, link.out.bytes());
        }
        link.ended = true;
        self.ended.push(id);
        self.detach(id);
    }

    /// Connections with something to send, since this was last asked.
    pub fn take_dirty(&mut self, into: &mut Vec<u64>) {
        into.append(&mut self.dirty);
    }

    /// Whether a connection has something to send at once.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Marks a connection as one to be written to.
    pub fn wake(&mut self, id: u64) {
        if let Some(link) = self.links.get_mut(id) {
            touch(link, id, &mut self.dirty);
        }
    }

    /// The socket of a connection has taken what it could: what waits may follow.
    pub fn sent(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(id) else { return };
        link.sent();
        let full = link.out.waiting() > 0;
        let Some(session) = link.session.and_then(|session| self.sessions.get_mut(session)) else { return };
        if session.deliveries.is_idle() {
            return;
        }
        session.deliveries.pump(link, &mut self.context);
        // A full socket reports when it takes more.
        if !full && link.out.waiting() > 0 {
            touch(link, id, &mut self.dirty);
        }
    }

    /// Connections that were ended, since this was last asked.
    pub fn take_ended(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ended)
    }

    /// Forgets a connection that was ended.
    pub fn remove(&mut self, id: u64) -> Option<Link> {
        self.links.remove(id)
    }

    /// When something is due.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.timers.next()
    }

    /// Does what is due.
    pub fn fire(&mut self) {
        let now = self.context.now;
        while let Some(timer) = self.timers.take(now) {
            match timer {
                Timer::Silence(id) => self.check_silence(id),
                Timer::Will(id) => {
                    let due = self
                        .sessions
                        .get_mut(id)
                        .and_then(|session| session.will.take_if(|(at, _)| *at <= now));
                    if let Some((_, will)) = due {
                        self.publish_will(&will, Some(id));
                    }
                }
                Timer::Session(id) => {
                    if self
                        .sessions
                        .get(id)
                        .is_some_and(|session| session.ends.is_some_and(|ends| ends <= now))
                    {
                        self.end_session(id);
                    }
                }
            }
        }
    }

    fn check_silence(&mut self, id: u64) {
        let now = self.context.now;
        let Some(link) = self.links.get(id).filter(|link| !link.ended) else { return };
        let Some(patience) = link.patience else { return };
        // Of a client that does not read we do not read either.
        let heard = if self.is_choked(id) { now } else { link.heard };
        if heard + patience <= now {
            return self.end(id, Some(reasons::KEEP_ALIVE_TIMEOUT));
        }
        self.timers.set(heard + patience, Timer::Silence(id));
    }

    /// The broker ends: clients are told.
    pub fn shut_down(&mut self) {
        let ids: Vec<u64> = self.links.iter_mut().map(|(id, _)| id).collect();
        for id in ids {
            if let Some(link) = self.links.get_mut(id) {
                link.will = None;
            }
            self.end(id, Some(reasons::SHUTTING_DOWN));
        }
    }
}

/// Lists a connection as having something to send.
fn touch(link: &mut Link, id: u64, dirty: &mut Vec<u64>) {
    if !link.dirty {
        link.dirty = true;
        dirty.push(id);
    }
}
