//! The client side of an MQTT session, without I/O: bytes in, bytes and meanings out. A lost connection ends a clean
//! session, and what was in flight is neither repeated nor asked for again; a persistent one goes on with the next
//! connection.

mod opening;

use super::flight::{Flight, Message};
use super::users::User;
use crate::driver::Client;
use crate::drivers::words;
pub use opening::closed_at_once;
use plimsoll_codec::mqtt::{
    AckKind, Connack, Connect, Disconnect, Malformed, Packet, Properties, Property, Publish, PublishHeader,
    QoS, Suback, Version, Will, connack_text, encode_ack, encode_connect, encode_pingreq, encode_publish,
    encode_subscribe, reason_text,
};
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{MqttPlan, Secret, WillPlan};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What all sessions of a run have in common.
pub struct Settings {
    version: Version,
    qos: QoS,
    subscribe_qos: QoS,
    retain: bool,
    username: Option<String>,
    password: Option<Secret>,
    receive_maximum: Option<u16>,
    keep_alive: Nanos,
    /// Most messages of a client in flight.
    window: u16,
    /// The largest content that will be sent, bytes.
    content: u32,
    /// How long sessions outlive their connections, in seconds; `None` for clean ones.
    expiry: Option<u32>,
    will: Option<WillPlan>,
    /// Whether topics are sent under an alias where the platform takes one.
    topic_alias: bool,
    /// The letter before the number in a device's client id.
    letter: char,
}

/// The reason code of PUBREL and PUBCOMP for an id that is not known.
const PACKET_ID_NOT_FOUND: u8 = 0x92;
/// The alias of a device's only topic.
const ALIAS: u16 = 1;

impl Settings {
    /// Of a plan. `content` is the largest content that will be sent, in bytes.
    pub fn new(mqtt: &MqttPlan, subscribe_qos: QoS, content: u32) -> Settings {
        Settings {
            version: mqtt.version,
            qos: mqtt.qos,
            subscribe_qos,
            retain: mqtt.retain,
            username: mqtt.username.clone(),
            password: mqtt.password.clone(),
            receive_maximum: mqtt.receive_maximum,
            keep_alive: mqtt.keep_alive,
            // A packet id must be left for the next message.
            window: mqtt.in_flight.min(u16::MAX - 1),
            content,
            expiry: mqtt.session.expiry,
            will: mqtt.session.will.clone(),
            topic_alias: mqtt.session.topic_alias,
            letter: 'd',
        }
    }

    /// Of queriers, which are known as devices are: what a querier has asked ends with its connection.
    pub fn of_queriers(mqtt: &MqttPlan) -> Settings {
        let settings = Settings::new(mqtt, mqtt.qos, 0);
        Settings { retain: false, expiry: None, will: None, topic_alias: false, letter: 'q', ..settings }
    }
}

/// One client's session.
pub struct Session {
    settings: Arc<Settings>,
    client: Client,
    filters: Box<[String]>,
    /// Topic and content of its will.
    will: Option<Box<(String, String)>>,
    /// Whether the platform takes topic aliases, and the message that gave our topic its own.
    takes_alias: bool,
    aliased_by: Option<u32>,
    /// Whether the platform has kept the session, and whether it goes on with one that need not be ours.
    resumed: bool,
    session_present: bool,
    /// Whether there is nothing to go on with.
    fresh: bool,
    /// Whether the platform has granted the subscriptions of the present session.
    subscribed: bool,
    /// The window in force: the smaller of ours and the platform's receive maximum.
    window: u16,
    /// The largest packet that the platform takes, bytes.
    largest_packet: u32,
    keep_alive: Nanos,
    flight: Flight,
    phase: Phase,
    /// QoS 2 messages received whose PUBREL is still to come.
    incoming: BTreeSet<u16>,
    /// What the last packet did against the standard without any harm.
    slip: Option<Malformed>,
    /// Whether the platform refused in a way that another attempt does not change.
    refused: bool,
}

/// What the platform owes us first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// CONNACK.
    Connecting,
    /// SUBACK.
    Subscribing,
    /// Nothing.
    Ready,
}

/// What a packet meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Happened<'a> {
    /// Nothing that matters outside the session.
    Nothing,
    /// Connected and, for a subscriber, subscribed.
    Ready,
    /// CONNACK came, SUBACK is awaited.
    Subscribing,
    /// A message was acknowledged in full.
    Acknowledged(u32),
    /// A message was refused, with the platform's reason.
    Refused(u32, String),
    /// An acknowledgement that nothing in flight awaits: of an unknown packet id, a second one, one out of
    /// turn.
    UnknownAck(AckKind, u16),
    /// A delivery.
    Delivered {
        /// The content.
        payload: &'a [u8],
        /// Where it was published to.
        topic: &'a str,
        /// From the platform's memory of retained messages.
        retained: bool,
    },
    /// PINGRESP.
    Pong,
}

impl Session {
    /// A session that was never connected. `filters` are what the client subscribes to.
    pub fn new(client: Client, filters: Vec<String>, settings: &Arc<Settings>) -> Session {
        Session {
            settings: Arc::clone(settings),
            client,
            filters: filters.into_boxed_slice(),
            will: None,
            takes_alias: false,
            aliased_by: None,
            resumed: false,
            session_present: false,
            fresh: true,
            subscribed: false,
            window: settings.window,
            largest_packet: u32::MAX,
            keep_alive: settings.keep_alive,
            flight: Flight::default(),
            phase: Phase::Connecting,
            incoming: BTreeSet::new(),
            slip: None,
            refused: false,
        }
    }

    /// What the last packet did against the standard without any harm.
    pub fn take_slip(&mut self) -> Option<Malformed> {
        self.slip.take()
    }

    /// Whether the platform refused in a way that another attempt does not change.
    pub fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }

    /// Whether nothing has come from the platform on this connection.
    pub fn awaits_connack(&self) -> bool {
        self.phase == Phase::Connecting
    }

    /// The same with topic and content of a will.
    pub fn with_will(self, will: Option<(String, String)>) -> Session {
        Session { will: will.map(Box::new), ..self }
    }

    /// Whether the session outlives its connections.
    pub fn is_persistent(&self) -> bool {
        self.settings.expiry.is_some()
    }

    /// Writes CONNECT, as that user, or as the one of the run. The client id names run, role and number.
    pub fn connect(&mut self, run: RunId, user: Option<&User>, out: &mut Vec<u8>) -> Result<(), String> {
        let client_id = match self.client {
            Client::Device(device) => format!("plm-{run}-{}{device}", self.settings.letter),
            Client::Subscriber(subscriber) => format!("plm-{run}-s{subscriber}"),
        };
        let version = self.settings.version;
        let mut properties: Vec<Property> =
            self.settings.receive_maximum.map(Property::ReceiveMaximum).into_iter().collect();
        let expiry = self.settings.expiry.filter(|_| version == Version::V5);
        properties.extend(expiry.map(Property::SessionExpiryInterval));
        let delay = self.settings.will.as_ref().map(|will| will.delay).filter(|&delay| delay > 0);
        let will_properties: Vec<Property> = delay.map(Property::WillDelayInterval).into_iter().collect();
        let will = self.settings.will.as_ref().zip(self.will.as_ref()).map(|(plan, will)| Will {
            qos: plan.qos,
            retain: plan.retain,
            topic: &will.0,
            payload: will.1.as_bytes(),
            properties: Properties::List(&will_properties),
        });
        let (username, password) = match user {
            Some(user) => (Some(user.name.as_str()), user.password.as_deref()),
            None => {
                let password = self.settings.password.as_ref().map(|secret| secret.0.as_bytes());
                (self.settings.username.as_deref(), password)
            }
        };
        let connect = Connect {
            version: self.settings.version,
            client_id: &client_id,
            // In MQTT 3.1.1 a session that begins clean also ends with its connection.
            clean_start: !self.is_persistent() || (self.fresh && version == Version::V5),
            keep_alive: (self.settings.keep_alive.as_secs_f64().ceil() as u64).min(u64::from(u16::MAX))
                as u16,
            username,
            password,
            will,
            properties: Properties::List(&properties),
        };
        encode_connect(&connect, out).map_err(|error| error.to_string())
    }

    /// Whether the window has room for another message.
    pub fn may_publish(&self) -> bool {
        self.settings.qos == QoS::AtMostOnce || self.flight.len() < usize::from(self.window)
    }

    /// Writes a PUBLISH; `user` are its user properties.
    ///
    /// # Errors
    /// The platform said that it takes no packet of that size, or the packet cannot be written at all: the reason.
    pub fn publish(
        &mut self,
        sequence: u32,
        topic: &[u8],
        payload: &[u8],
        user: &[(&str, String)],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let packet_id = if self.settings.qos == QoS::AtMostOnce { 0 } else { self.flight.begin(sequence) };
        let begin = out.len();
        let message = Outgoing { dup: false, packet_id, topic, payload, user };
        let encoded = self.write(sequence, message, out);
        let length = out.len() - begin;
        let largest = self.largest_packet;
        let fits = encoded.and_then(|()| match length > largest as usize {
            true => Err(format!(
                "a PUBLISH of {length} bytes exceeds the platform's maximum packet size {largest}"
            )),
            false => Ok(()),
        });
        if fits.is_err() {
            out.truncate(begin);
            self.flight.end(packet_id);
            self.forget_alias(sequence);
        }
        fits
    }

    /// Writes a PUBLISH that answers what was received, at QoS 0: who awaits it notices where it is lost.
    ///
    /// # Errors
    /// The packet cannot be written: the reason.
    pub fn answer(&self, topic: &[u8], payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let header = PublishHeader { dup: false, qos: QoS::AtMostOnce, retain: false, topic, packet_id: 0 };
        encode_publish(self.settings.version, &header, payload, out).map_err(|error| error.to_string())
    }

    /// Writes a PUBLISH again that the platform may have had, over an earlier connection.
    ///
    /// # Errors
    /// The packet cannot be written: the reason.
    pub fn repeat(
        &mut self,
        (packet_id, sequence): (u16, u32),
        topic: &[u8],
        payload: &[u8],
        user: &[(&str, String)],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.write(sequence, Outgoing { dup: true, packet_id, topic, payload, user }, out)
    }

    /// Writes PUBREL again, over a later connection.
    pub fn release_again(&mut self, packet_id: u16, out: &mut Vec<u8>) {
        if let Some(message) = self.flight.get_mut(packet_id) {
            message.released_again = true;
        }
        encode_ack(self.settings.version, AckKind::Pubrel, packet_id, out);
    }

    fn write(&mut self, sequence: u32, message: Outgoing<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let Settings { version, qos, retain, .. } = *self.settings;
        let Outgoing { dup, packet_id, topic, payload, user } = message;
        if !self.takes_alias && user.is_empty() {
            let header = PublishHeader { dup, qos, retain, topic, packet_id };
            return encode_publish(version, &header, payload, out).map_err(|error| error.to_string());
        }
        let mut properties: Vec<Property> =
            user.iter().map(|(name, value)| Property::UserProperty(name, value)).collect();
        let mut topic = std::str::from_utf8(topic).map_err(|error| error.to_string())?;
        if self.takes_alias {
            properties.push(Property::TopicAlias(ALIAS));
            if self.aliased_by.is_some() {
                topic = "";
            } else {
                self.aliased_by = Some(sequence);
            }
        }
        let packet_id = (qos != QoS::AtMostOnce).then_some(packet_id);
        let properties = Properties::List(&properties);
        let publish = Publish { dup, qos, retain, topic, packet_id, properties, payload };
        Packet::Publish(publish).encode(version, out).map_err(|error| error.to_string())
    }

    /// The message that was to give the topic its alias does not leave.
    fn forget_alias(&mut self, sequence: u32) {
        if self.aliased_by == Some(sequence) {
            self.aliased_by = None;
        }
    }

    /// Takes back a message that was encoded but never begun to be sent.
    pub fn withdraw(&mut self, sequence: u32) {
        self.flight.withdraw(sequence);
        self.forget_alias(sequence);
    }

    /// Writes PINGREQ.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        encode_pingreq(out);
    }

    /// Writes DISCONNECT.
    pub fn disconnect(&mut self, out: &mut Vec<u8>) {
        // A DISCONNECT always fits.
        // A session that is not needed any more is not left behind; MQTT 3.1.1 has no way to say that.
        let ends = [Property::SessionExpiryInterval(0)];
        let persistent = self.is_persistent() && self.settings.version == Version::V5;
        let properties = Properties::List(if persistent { &ends } else { &[] });
        let goodbye = Packet::Disconnect(Disconnect { reason: 0, properties });
        let _ = goodbye.encode(self.settings.version, out);
    }

    /// Longest silence before PINGREQ; zero for never.
    pub fn keep_alive(&self) -> Nanos {
        self.keep_alive
    }

    /// The messages in flight, given up because the connection is lost.
    pub fn abandon(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.flight.drain()
    }

    /// What is in flight of a session that the platform has kept, in the order in which it was sent first; empty for
    /// one that begins.
    pub fn unanswered(&self) -> Vec<(u16, Message)> {
        let mut unanswered: Vec<(u16, Message)> =
            if self.resumed { self.flight.iter().collect() } else { Vec::new() };
        unanswered.sort_by_key(|(_, message)| message.sequence);
        unanswered
    }

    /// Whether something that was sent on this connection waits for its acknowledgement.
    pub fn awaits_answers(&self) -> bool {
        self.flight.len() > 0
    }

    /// Whether the platform has begun the session anew, so that what was in flight is to be given up.
    pub fn begins(&self) -> bool {
        !self.resumed
    }

    /// Back to the state before CONNECT, as if there had been no session.
    pub fn reset(&mut self) {
        self.flight.drain().for_each(drop);
        self.incoming.clear();
        self.fresh = true;
        self.suspend();
    }

    /// Back to the state before CONNECT, with the session's memory of messages.
    pub fn suspend(&mut self) {
        self.takes_alias = false;
        self.aliased_by = None;
        self.resumed = false;
        self.session_present = false;
        self.window = self.settings.window;
        self.keep_alive = self.settings.keep_alive;
        self.largest_packet = u32::MAX;
        self.phase = Phase::Connecting;
    }

    /// Takes one whole packet and writes what the protocol wants answered.
    ///
    /// # Errors
    /// A malformed or forbidden packet, a refusal to connect or to subscribe, a goodbye: the reason, after which
    /// the connection is to be closed.
    pub fn receive<'a>(&mut self, packet: &'a [u8], out: &mut Vec<u8>) -> Result<Happened<'a>, String> {
        if self.phase == Phase::Connecting
            && let Some(told) = opening::other_version(self.settings.version, packet)
        {
            self.refused = true;
            return Err(told);
        }
        let (packet, slip) = Packet::decode_tolerantly(self.settings.version, packet)
            .map_err(|error| format!("malformed packet: {error}"))?;
        self.slip = slip;
        match packet {
            Packet::Connack(connack) if self.phase == Phase::Connecting => {
                let code = connack.code;
                let taken = self.connack(&connack, out);
                self.refused = taken.is_err() && !opening::may_change(self.settings.version, code);
                taken
            }
            Packet::Disconnect(goodbye) => {
                let reason = self.reason(goodbye.reason, goodbye.properties.reason_string());
                Err(format!("the platform said goodbye: {reason}"))
            }
            _ if self.phase == Phase::Connecting => Err("the platform did not begin with CONNACK".into()),
            Packet::Suback(suback) if self.phase == Phase::Subscribing => self.suback(&suback),
            Packet::Publish(publish) => {
                let Publish { payload, topic, retain: retained, .. } = publish;
                let delivered = Happened::Delivered { payload, topic, retained };
                let id = publish.packet_id.unwrap_or_default();
                match publish.qos {
                    QoS::AtMostOnce => Ok(delivered),
                    QoS::AtLeastOnce => {
                        encode_ack(self.settings.version, AckKind::Puback, id, out);
                        Ok(delivered)
                    }
                    QoS::ExactlyOnce => {
                        encode_ack(self.settings.version, AckKind::Pubrec, id, out);
                        // MQTT 5 section 4.3.3: until PUBREL the same id means the same message.
                        Ok(if self.incoming.insert(id) { delivered } else { Happened::Nothing })
                    }
                }
            }
            Packet::Ack(ack) => {
                Ok(self.ack(ack.kind, ack.packet_id, ack.reason, ack.properties.reason_string(), out))
            }
            Packet::Pingresp => Ok(Happened::Pong),
            Packet::Connect(_) | Packet::Subscribe(_) | Packet::Unsubscribe(_) | Packet::Pingreq => {
                Err("the platform sent a packet that only clients may send".into())
            }
            Packet::Connack(_) | Packet::Suback(_) | Packet::Unsuback(_) | Packet::Auth(_) => {
                Err("the platform sent an answer to nothing we asked".into())
            }
        }
    }

    fn connack(&mut self, connack: &Connack, out: &mut Vec<u8>) -> Result<Happened<'static>, String> {
        if !connack.accepted() {
            let told = words::in_brackets(connack.properties.reason_string());
            let text = connack_text(self.settings.version, connack.code);
            let advice = opening::advice(self.settings.version, connack.code);
            return Err(format!(
                "the platform refused the connection: code {} {text}{told}{advice}",
                connack.code
            ));
        }
        let offered = &connack.properties;
        if let Some(highest) = offered.maximum_qos().filter(|&highest| highest < self.settings.qos.level()) {
            return Err(format!(
                "the platform takes QoS {highest} at most, the scenario publishes at {}",
                self.settings.qos.level()
            ));
        }
        if self.settings.retain && offered.retain_available() == Some(false) {
            return Err("the platform does not retain messages, the scenario asks for retain".into());
        }
        if let Some(largest) = offered.maximum_packet_size() {
            self.largest_packet = largest;
            if self.settings.content > largest {
                let content = self.settings.content;
                return Err(format!(
                    "the platform takes packets of {largest} bytes at most, the scenario's messages have up to {content}"
                ));
            }
        }
        self.window = self.settings.window.min(offered.receive_maximum().unwrap_or(u16::MAX));
        if let Some(seconds) = offered.server_keep_alive() {
            self.keep_alive = Nanos::from_secs(i64::from(seconds));
        }
        if self.settings.topic_alias {
            self.takes_alias = offered.topic_alias_maximum().is_some_and(|most| most >= ALIAS);
        }
        // What an earlier program of that name has left is not ours.
        self.session_present = connack.session_present;
        self.resumed = connack.session_present && !self.fresh;
        self.fresh = false;
        if !self.resumed {
            self.incoming.clear();
        }
        if offered.shared_subscription_available() == Some(false)
            && self.filters.iter().any(|filter| filter.starts_with("$share/"))
        {
            return Err("the platform has no shared subscriptions, the scenario asks for one".into());
        }
        // A session that the platform has kept has its subscriptions, if they were ever granted.
        self.subscribed &= self.resumed;
        if self.filters.is_empty() || self.subscribed {
            self.phase = Phase::Ready;
            return Ok(Happened::Ready);
        }
        self.phase = Phase::Subscribing;
        let filters: Vec<(&str, QoS)> =
            self.filters.iter().map(|filter| (filter.as_str(), self.settings.subscribe_qos)).collect();
        encode_subscribe(self.settings.version, opening::SUBSCRIBE_ID, &filters, out)
            .map_err(|error| error.to_string())?;
        Ok(Happened::Subscribing)
    }

    fn suback(&mut self, suback: &Suback) -> Result<Happened<'static>, String> {
        opening::answers(suback, self.filters.len())?;
        for (filter, &code) in self.filters.iter().zip(suback.codes) {
            if code >= 0x80 {
                let reason = self.reason(code, suback.properties.reason_string());
                return Err(format!("the platform refused the subscription to {filter}: {reason}"));
            }
            if code < self.settings.subscribe_qos.level() {
                let asked = self.settings.subscribe_qos.level();
                return Err(format!(
                    "the platform granted QoS {code} for {filter}, the scenario asks for {asked}"
                ));
            }
        }
        self.subscribed = true;
        self.phase = Phase::Ready;
        Ok(Happened::Ready)
    }

    fn ack(
        &mut self,
        kind: AckKind,
        id: u16,
        reason: u8,
        text: Option<&str>,
        out: &mut Vec<u8>,
    ) -> Happened<'static> {
        let unknown = Happened::UnknownAck(kind, id);
        if kind == AckKind::Pubrel {
            encode_ack(self.settings.version, AckKind::Pubcomp, id, out);
            // A session that goes on may release again what was released over an earlier connection.
            let known = self.incoming.remove(&id) || self.session_present;
            return if known { Happened::Nothing } else { unknown };
        }
        let qos = self.settings.qos;
        let Some(message) = self.flight.get_mut(id) else { return unknown };
        let mut refused = reason >= 0x80;
        let ends = match (kind, qos) {
            (AckKind::Puback, QoS::AtLeastOnce) => true,
            (AckKind::Pubrec, QoS::ExactlyOnce) if refused => !message.released,
            (AckKind::Pubrec, QoS::ExactlyOnce) => {
                encode_ack(self.settings.version, AckKind::Pubrel, id, out);
                let again = std::mem::replace(&mut message.released, true);
                return if again { unknown } else { Happened::Nothing };
            }
            (AckKind::Pubcomp, QoS::ExactlyOnce) => {
                // MQTT 5 section 3.7.2.1: no error where a session goes on. PUBCOMP was lost with the earlier
                // connection.
                refused &= reason != PACKET_ID_NOT_FOUND || !message.released_again;
                message.released
            }
            _ => false,
        };
        let sequence = message.sequence;
        if !ends {
            return unknown;
        }
        self.flight.end(id);
        if refused {
            Happened::Refused(sequence, self.reason(reason, text))
        } else {
            Happened::Acknowledged(sequence)
        }
    }

    fn reason(&self, code: u8, text: Option<&str>) -> String {
        let told = words::in_brackets(text);
        format!("code 0x{code:02x} {}{told}", reason_text(self.settings.version, code))
    }
}

/// A message to be written.
struct Outgoing<'a> {
    dup: bool,
    packet_id: u16,
    topic: &'a [u8],
    payload: &'a [u8],
    user: &'a [(&'a str, String)],
}

#[cfg(test)]
mod tests;
