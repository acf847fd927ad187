//! The broker's side of MQTT 3.1.1 and 5, as much as a calibrated target needs: QoS 0 to 2, clean sessions, wildcard
//! filters. No retained messages, wills, shared subscriptions or sessions that outlive their connection. No I/O.

use super::session::{LARGEST_MESSAGE, Message, Refused};
use plimsoll_codec::mqtt::{
    Ack, AckKind, Connack, Connect, Packet, Properties, Property, PublishHeader, QoS, Suback, Unsuback,
    Version, encode_ack, encode_pingresp, encode_publish, packet_length, topic,
};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Bytes of topic filters that one client may have.
const MOST_FILTERS: usize = 64 * 1024;
/// Reason codes (MQTT 5 section 2.4).
const QUOTA_EXCEEDED: u8 = 0x97;
const SHARED_NOT_SUPPORTED: u8 = 0x9e;
const NO_SUBSCRIPTION_EXISTED: u8 = 0x11;
/// "Failure" of a 3.1.1 SUBACK (section 3.9.3) and "unspecified error" of MQTT 5.
const FAILURE: u8 = 0x80;

/// One client's session.
#[derive(Default)]
pub struct Session {
    /// `None` before CONNECT.
    version: Option<Version>,
    filters: Vec<(String, QoS)>,
    /// Messages of QoS 2 that came and were not released yet.
    incoming: HashSet<u16>,
    /// Ids of deliveries in flight.
    taken: HashSet<u16>,
    next_id: u16,
    window: u16,
    /// Deliveries that wait for the client's receive maximum.
    waiting: VecDeque<(Arc<Message>, QoS)>,
    waiting_bytes: usize,
}

impl Session {
    /// Takes whole packets off the front of `bytes`, appends answers that need no service to `out`, and published
    /// messages to `messages`. Returns the bytes taken.
    pub fn input(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        messages: &mut Vec<Message>,
    ) -> Result<usize, Refused> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..) {
            let length = match packet_length(rest).map_err(|_| Refused)? {
                Some(length) if length > LARGEST_MESSAGE => return Err(Refused),
                Some(length) => length,
                None => break,
            };
            let Some(packet) = rest.get(..length) else { break };
            match self.version {
                None => self.connect(packet, out)?,
                Some(version) => self.packet(version, packet, out, messages)?,
            }
            taken += length;
        }
        Ok(taken)
    }

    /// Bytes of deliveries that wait for the client.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Answers a message that was served, or for which there was no room.
    pub fn answer(&self, message: &Message, accepted: bool, out: &mut Vec<u8>) {
        let Some(version) = self.version else { return };
        let kind = match message.qos {
            QoS::AtMostOnce => return,
            QoS::AtLeastOnce => AckKind::Puback,
            QoS::ExactlyOnce => AckKind::Pubrec,
        };
        match (accepted, version) {
            (true, _) => encode_ack(version, kind, message.id, out),
            // MQTT 3.1.1 knows no refusal of a message: it stays without answer.
            (false, Version::V311) => {}
            (false, Version::V5) => {
                let (packet_id, properties) = (message.id, Properties::default());
                let ack = Ack { kind, packet_id, reason: QUOTA_EXCEEDED, properties };
                // Id and reason are ones that the standard allows.
                let _ = Packet::Ack(ack).encode(version, out);
            }
        }
    }

    /// Delivers a message where a filter matches, once, at the lower QoS of both (overlapping filters: the highest).
    pub fn deliver(&mut self, message: &Arc<Message>, out: &mut Vec<u8>) {
        let matching = self.filters.iter().filter(|(filter, _)| topic::matches(filter, &message.topic));
        let Some(qos) = matching.map(|(_, qos)| *qos).max() else { return };
        let qos = qos.min(message.qos);
        if qos != QoS::AtMostOnce
            && (self.taken.len() >= usize::from(self.window) || !self.waiting.is_empty())
        {
            self.waiting_bytes +=
                message.payload.len() + message.topic.len() + std::mem::size_of::<Message>();
            self.waiting.push_back((Arc::clone(message), qos));
            return;
        }
        self.publish(message, qos, out);
    }

    fn publish(&mut self, message: &Message, qos: QoS, out: &mut Vec<u8>) {
        let Some(version) = self.version else { return };
        let packet_id = if qos == QoS::AtMostOnce { 0 } else { self.free_id() };
        let topic = message.topic.as_bytes();
        let header = PublishHeader { dup: false, qos, retain: false, topic, packet_id };
        // Topic and size are those of a packet that came in.
        let _ = encode_publish(version, &header, &message.payload, out);
    }

    /// The window keeps some id free.
    fn free_id(&mut self) -> u16 {
        loop {
            self.next_id = self.next_id.checked_add(1).unwrap_or(1);
            if self.taken.insert(self.next_id) {
                return self.next_id;
            }
        }
    }

    fn delivered(&mut self, packet_id: u16, out: &mut Vec<u8>) {
        self.taken.remove(&packet_id);
        while self.taken.len() < usize::from(self.window) {
            let Some((message, qos)) = self.waiting.pop_front() else { return };
            self.waiting_bytes -=
                message.payload.len() + message.topic.len() + std::mem::size_of::<Message>();
            self.publish(&message, qos, out);
        }
    }

    fn connect(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        let connect = Connect::decode(packet).map_err(|_| Refused)?;
        let version = connect.version;
        self.window = connect.properties.receive_maximum().unwrap_or(u16::MAX).min(u16::MAX - 1);
        let properties = match version {
            Version::V311 => Vec::new(),
            Version::V5 => {
                let mut properties = vec![
                    Property::RetainAvailable(false),
                    Property::SharedSubscriptionAvailable(false),
                    Property::SubscriptionIdentifierAvailable(false),
                ];
                if connect.client_id.is_empty() {
                    properties.push(Property::AssignedClientIdentifier("station"));
                }
                properties
            }
        };
        let properties = Properties::List(&properties);
        let connack = Packet::Connack(Connack { session_present: false, code: 0, properties });
        connack.encode(version, out).map_err(|_| Refused)?;
        self.version = Some(version);
        Ok(())
    }

    fn packet(
        &mut self,
        version: Version,
        packet: &[u8],
        out: &mut Vec<u8>,
        messages: &mut Vec<Message>,
    ) -> Result<(), Refused> {
        match Packet::decode(version, packet).map_err(|_| Refused)? {
            Packet::Publish(publish) => {
                // No topic alias was offered, so each has its name.
                if publish.topic.is_empty() {
                    return Err(Refused);
                }
                let packet_id = publish.packet_id.unwrap_or(0);
                if publish.qos == QoS::ExactlyOnce && !self.incoming.insert(packet_id) {
                    // A repetition before PUBREL (MQTT 5 section 4.3.3): taken already.
                    return Ok(());
                }
                messages.push(Message {
                    topic: publish.topic.to_owned(),
                    payload: publish.payload.to_vec(),
                    qos: publish.qos,
                    id: packet_id,
                });
            }
            Packet::Ack(ack) => match ack.kind {
                AckKind::Puback | AckKind::Pubcomp => self.delivered(ack.packet_id, out),
                AckKind::Pubrec if ack.reason >= 0x80 => self.delivered(ack.packet_id, out),
                AckKind::Pubrec => encode_ack(version, AckKind::Pubrel, ack.packet_id, out),
                AckKind::Pubrel => {
                    self.incoming.remove(&ack.packet_id);
                    encode_ack(version, AckKind::Pubcomp, ack.packet_id, out);
                }
            },
            Packet::Subscribe(subscribe) => {
                let wanted = subscribe.subscriptions.iter();
                let codes: Vec<u8> =
                    wanted.map(|wish| self.subscribe(version, wish.filter, wish.qos)).collect();
                let (packet_id, properties) = (subscribe.packet_id, Properties::default());
                let suback = Packet::Suback(Suback { packet_id, codes: &codes, properties });
                suback.encode(version, out).map_err(|_| Refused)?;
            }
            Packet::Unsubscribe(unsubscribe) => {
                let mut codes = Vec::new();
                for filter in &unsubscribe.filters {
                    let before = self.filters.len();
                    self.filters.retain(|(known, _)| known != filter);
                    codes.push(if self.filters.len() < before { 0 } else { NO_SUBSCRIPTION_EXISTED });
                }
                // MQTT 3.1.1 answers without codes (section 3.11).
                let codes = if version == Version::V311 { &[][..] } else { &codes };
                let (packet_id, properties) = (unsubscribe.packet_id, Properties::default());
                let unsuback = Packet::Unsuback(Unsuback { packet_id, codes, properties });
                unsuback.encode(version, out).map_err(|_| Refused)?;
            }
            Packet::Pingreq => encode_pingresp(out),
            // The rest ends a connection, in order or by violation.
            _ => return Err(Refused),
        }
        Ok(())
    }

    fn subscribe(&mut self, version: Version, filter: &str, qos: QoS) -> u8 {
        if topic::shared(filter).is_some() {
            return if version == Version::V5 { SHARED_NOT_SUPPORTED } else { FAILURE };
        }
        self.filters.retain(|(known, _)| known != filter);
        let known: usize =
            self.filters.iter().map(|(known, _)| known.len() + size_of::<(String, QoS)>()).sum();
        if known + filter.len() > MOST_FILTERS {
            return if version == Version::V5 { QUOTA_EXCEEDED } else { FAILURE };
        }
        self.filters.push((filter.to_owned(), qos));
        qos.level()
    }
}
