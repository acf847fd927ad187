//! One connection: what the client said of itself, what came of a packet so far, and what waits for the socket.

use super::memory::Held;
use super::message::{Content, Message, is_forwarded};
use super::record::{Cause, Trace};
use super::subscriptions::Route;
use crate::tcp::Outgoing;
use plimsoll_codec::mqtt::{
    Ack, AckKind, Packet, Properties, Property, Publish, PublishHeader, QoS, Version, encode_ack,
    encode_publish,
};
use plimsoll_model::Nanos;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// Deliveries are not appended while so many bytes wait for the socket: they wait as messages, which are shared.
const ENOUGH: usize = 256 * 1024;

/// A connection.
pub struct Link {
    /// The version that the client speaks; before CONNECT it does not matter.
    pub version: Version,
    /// The client's session, from CONNECT on.
    pub session: Option<u64>,
    /// The broker has ended it: what waits is sent, and nothing more is read.
    pub ended: bool,
    /// Whether it is listed as having something to send.
    pub dirty: bool,
    /// What was read and is no whole packet yet, and its bytes.
    pub input: Vec<u8>,
    /// What waits for the socket.
    pub out: Outgoing,
    /// Bytes of input and output that wait.
    pub held: Held,
    /// When something came last.
    pub heard: Nanos,
    /// How long the client may be silent; `None` for any time.
    pub patience: Option<Nanos>,
    /// Messages at QoS 1 and 2 that the client takes unanswered.
    pub window: usize,
    /// The largest packet that the client takes, bytes.
    pub largest: usize,
    /// Deliveries handed to the connection since it was last written to.
    pub handed: u64,
    /// The client's will, and how long it is delayed.
    pub will: Option<Will>,
    /// Topics that stand behind the client's aliases, and their bytes.
    pub aliases: HashMap<u16, (Rc<str>, Held)>,
    /// Where the client's latest message went: most clients have one topic.
    pub route: Option<Rc<Route>>,
    /// Recorded messages at QoS 0 that the socket has not taken, with the number of bytes at their ends.
    unsent: VecDeque<(u64, Rc<Trace>)>,
}

/// A will.
pub struct Will {
    /// The message.
    pub message: Rc<Message>,
    /// How long after the end of the connection it is published.
    pub delay: Nanos,
}

/// How a message is written.
#[derive(Clone, Copy)]
pub struct Form<'a> {
    /// Whether it may have been sent before.
    pub dup: bool,
    /// The quality of service of the delivery.
    pub qos: QoS,
    /// The retain flag.
    pub retain: bool,
    /// The packet id, ignored at QoS 0.
    pub packet_id: u16,
    /// The subscription identifiers.
    pub identifiers: &'a [u32],
}

/// A packet is larger than the client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl Link {
    /// A connection that was just accepted.
    pub fn new(now: Nanos, patience: Nanos, held: Held) -> Link {
        Link {
            version: Version::V5,
            session: None,
            ended: false,
            dirty: false,
            input: Vec::new(),
            out: Outgoing::default(),
            held,
            heard: now,
            patience: Some(patience),
            window: usize::from(u16::MAX),
            largest: usize::MAX,
            handed: 0,
            will: None,
            aliases: HashMap::new(),
            route: None,
            unsent: VecDeque::new(),
        }
    }

    /// Whether another delivery may be appended.
    pub fn has_room(&self, most_handed: u64, memory_is_full: bool) -> bool {
        let waiting = self.out.waiting();
        waiting < ENOUGH && self.handed < most_handed && (waiting == 0 || !memory_is_full)
    }

    /// Appends a PUBLISH.
    pub fn publish(&mut self, content: Content<'_>, form: Form<'_>, now: Nanos) -> Result<(), TooLarge> {
        let version = self.version;
        let out = self.out.bytes();
        let before = out.len();
        let plain = version == Version::V311
            || (!content.forwards && content.expires.is_none() && form.identifiers.is_empty());
        let written = if plain {
            let header = PublishHeader {
                dup: form.dup,
                qos: form.qos,
                retain: form.retain,
                topic: content.topic.as_bytes(),
                packet_id: form.packet_id,
            };
            encode_publish(version, &header, content.payload, out)
        } else {
            let mut properties: Vec<Property<'_>> = content.properties.iter().filter(is_forwarded).collect();
            properties.extend(content.expires.map(|expires| remaining(expires, now)));
            properties.extend(form.identifiers.iter().map(|&value| Property::SubscriptionIdentifier(value)));
            let publish = Publish {
                dup: form.dup,
                qos: form.qos,
                retain: form.retain,
                topic: content.topic,
                packet_id: (form.qos != QoS::AtMostOnce).then_some(form.packet_id),
                properties: Properties::List(&properties),
                payload: content.payload,
            };
            Packet::Publish(publish).encode(version, out)
        };
        if written.is_err() || out.len() - before > self.largest {
            out.truncate(before);
            return Err(TooLarge);
        }
        self.handed += 1;
        Ok(())
    }

    /// Appends an acknowledgement. MQTT 3.1.1 has no reason codes.
    pub fn acknowledge(&mut self, kind: AckKind, packet_id: u16, reason: u8) {
        if reason == 0 || self.version == Version::V311 {
            return encode_ack(self.version, kind, packet_id, self.out.bytes());
        }
        // Ids are those that clients sent, reasons those of the kind.
        let ack = Ack { kind, packet_id, reason, properties: Properties::default() };
        let _ = Packet::Ack(ack).encode(self.version, self.out.bytes());
    }

    /// A recorded message at QoS 0 was appended.
    pub fn follow(&mut self, trace: Rc<Trace>) {
        self.unsent.push_back((self.out.appended(), trace));
    }

    /// The socket has taken bytes.
    pub fn sent(&mut self) {
        self.handed = 0;
        let sent = self.out.sent();
        while self.unsent.front().is_some_and(|(end, _)| *end <= sent) {
            if let Some((_, trace)) = self.unsent.pop_front() {
                trace.delivered();
            }
        }
        self.account();
    }

    /// Counts the bytes that wait.
    pub fn account(&mut self) {
        self.held.resize(size_of::<Link>() + self.input.len() + self.out.waiting());
    }

    /// The connection is over.
    pub fn close(self) {
        for (_, trace) in self.unsent {
            trace.dropped(Cause::ConnectionLost);
        }
    }
}

/// What is left of an expiry interval, in whole seconds that have not passed.
fn remaining(expires: Nanos, now: Nanos) -> Property<'static> {
    let left = (expires - now).0.max(0) as u64;
    Property::MessageExpiryInterval(u32::try_from(left.div_ceil(1_000_000_000)).unwrap_or(u32::MAX))
}
