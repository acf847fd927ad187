//! How connections and sessions begin and end.

use super::{Hub, Over, touch};
use crate::broker::link::Will;
use crate::broker::message::Arrival;
use crate::broker::reasons::{self, v311};
use crate::broker::session::{FOR_EVER, Session};
use crate::broker::timers::Timer;
use plimsoll_codec::mqtt::{
    Connack, Connect, Disconnect, Malformed, Packet, Properties, Property, Version, Violation,
};
use plimsoll_model::Nanos;
use std::rc::Rc;

/// Codes of a refusal in both versions: MQTT 3.1.1 and 5.
struct Refusal(u8, u8);

const NO_ROOM: Refusal = Refusal(v311::UNAVAILABLE, reasons::QUOTA_EXCEEDED);
const BUSY: Refusal = Refusal(v311::UNAVAILABLE, reasons::SERVER_BUSY);
const NO_METHOD: Refusal = Refusal(v311::UNAVAILABLE, reasons::BAD_AUTHENTICATION_METHOD);

impl Hub {
    /// The first packet of a connection.
    pub(super) fn connect(&mut self, id: u64, packet: &[u8]) -> Result<(), Over> {
        let connect = match Connect::decode(packet) {
            Ok(connect) => connect,
            Err(malformed) => return self.answer_malformed(id, packet, malformed),
        };
        let version = connect.version;
        let known = self.names.get(connect.client_id).copied();
        let took_over =
            known.is_some_and(|session| self.sessions.get(session).is_some_and(|s| s.link.is_some()));
        if connect.properties.authentication_method().is_some() {
            return self.refuse(id, version, &NO_METHOD);
        }
        if self.connected >= self.limits.connections && !took_over {
            return self.refuse(id, version, &BUSY);
        }
        if self.context.memory.is_full() && known.is_none() {
            return self.refuse(id, version, &NO_ROOM);
        }
        let (session, present, assigned) = self.session_for(&connect);
        self.introduce(id, session, &connect);
        let mut properties = Vec::new();
        if version == Version::V5 {
            let largest = u32::try_from(self.limits.packet).unwrap_or(u32::MAX);
            properties.push(Property::MaximumPacketSize(largest));
            properties.push(Property::TopicAliasMaximum(u16::MAX));
            properties.extend(assigned.as_deref().map(Property::AssignedClientIdentifier));
        }
        let properties = Properties::List(&properties);
        self.answer(id, version, &Connack { session_present: present, code: 0, properties });
        if let (Some(session), Some(link)) = (self.sessions.get_mut(session), self.links.get_mut(id)) {
            session.deliveries.pump(link, &mut self.context);
        }
        Ok(())
    }

    /// The session that a client goes on with or begins, whether there was one, and the client id that it was assigned.
    fn session_for(&mut self, connect: &Connect<'_>) -> (u64, bool, Option<Rc<str>>) {
        let known = self.names.get(connect.client_id).copied();
        if let Some(session) = known.and_then(|session| self.sessions.get_mut(session)) {
            if !connect.clean_start {
                // The client is back before its will was due (MQTT 5 section 3.1.3.2.2).
                let taken_over = session.link.and_then(|link| self.links.get_mut(link));
                if let Some(link) = taken_over
                    && link.will.as_ref().is_some_and(|will| will.delay > Nanos::ZERO)
                {
                    link.will = None;
                }
                session.will = None;
            }
            if let Some(link) = session.link {
                self.end(link, Some(reasons::TAKEN_OVER));
            }
        }
        if let Some(session) = known {
            if connect.clean_start {
                self.end_session(session);
            } else if self.sessions.get(session).is_some() {
                return (session, true, None);
            }
        }
        let assigned: Option<Rc<str>> = connect.client_id.is_empty().then(|| self.unused_client_id());
        let client_id = assigned.clone().unwrap_or_else(|| connect.client_id.into());
        let held = self.context.memory.hold(size_of::<Session>() + 2 * client_id.len());
        let session = self.sessions.insert(Session::new(Rc::clone(&client_id), held));
        self.names.insert(client_id, session);
        (session, false, assigned)
    }

    fn unused_client_id(&mut self) -> Rc<str> {
        loop {
            self.assigned += 1;
            let client_id = format!("plimsoll-{}", self.assigned);
            if !self.names.contains_key(client_id.as_str()) {
                return client_id.into();
            }
        }
    }

    /// Joins connection and session, and notes what the client says of itself.
    fn introduce(&mut self, id: u64, session_id: u64, connect: &Connect<'_>) {
        let now = self.context.now;
        let (Some(session), Some(link)) = (self.sessions.get_mut(session_id), self.links.get_mut(id)) else {
            return;
        };
        let asked = &connect.properties;
        session.link = Some(id);
        session.ends = None;
        session.expiry = match connect.version {
            Version::V5 => asked.session_expiry_interval().unwrap_or(0),
            Version::V311 if connect.clean_start => 0,
            Version::V311 => FOR_EVER,
        };
        link.version = connect.version;
        link.session = Some(session_id);
        link.window = asked.receive_maximum().unwrap_or(u16::MAX).into();
        link.largest = asked.maximum_packet_size().map_or(usize::MAX, |size| size as usize);
        // One and a half times the keep alive (MQTT 5 section 3.1.2.10).
        link.patience =
            (connect.keep_alive > 0).then(|| Nanos::from_millis(i64::from(connect.keep_alive) * 1500));
        if let Some(patience) = link.patience {
            self.timers.set(now + patience, Timer::Silence(id));
        }
        link.will = connect.will.as_ref().map(|will| {
            let topic = Rc::from(will.topic);
            let mut message = Arrival::new(topic, will.payload, will.properties, will.qos, will.retain, now);
            let delay = will.properties.will_delay_interval().unwrap_or(0);
            Will { message: message.keep(&self.context.memory), delay: Nanos::from_secs(delay.into()) }
        });
        self.connected += 1;
    }

    /// A CONNECT that cannot be read. Where its version is known, the client is told why.
    fn answer_malformed(&mut self, id: u64, packet: &[u8], malformed: Malformed) -> Result<(), Over> {
        let refusal = match malformed {
            Malformed::NotConnect { .. } => return Err(Over::Silent),
            // Clients of MQTT 3.1 and 3.1.1 read the old form, later ones the new.
            Malformed::ProtocolLevel { level } if level > Version::V5.level() => {
                return self.refuse(id, Version::V5, &Refusal(0, reasons::UNSUPPORTED_VERSION));
            }
            Malformed::ProtocolLevel { .. } => Refusal(v311::UNACCEPTABLE_VERSION, 0),
            Malformed::ProtocolName if packet.windows(6).take(8).any(|name| name == b"MQIsdp") => {
                Refusal(v311::UNACCEPTABLE_VERSION, 0)
            }
            Malformed::Violation(Violation::EmptyClientId) => Refusal(v311::IDENTIFIER_REJECTED, 0),
            malformed if names_version_5(packet) => {
                return self.refuse(id, Version::V5, &Refusal(0, reasons::of(malformed)));
            }
            _ => return Err(Over::Silent),
        };
        self.refuse(id, Version::V311, &refusal)
    }

    fn refuse(&mut self, id: u64, version: Version, refusal: &Refusal) -> Result<(), Over> {
        let code = match version {
            Version::V311 => refusal.0,
            Version::V5 => refusal.1,
        };
        self.answer(
            id,
            version,
            &Connack { session_present: false, code, properties: Properties::default() },
        );
        Err(Over::Silent)
    }

    fn answer(&mut self, id: u64, version: Version, connack: &Connack<'_>) {
        let Some(link) = self.links.get_mut(id) else { return };
        // The codes are those that a CONNACK of that version can have; a client id fits.
        let _ = Packet::Connack(connack.clone()).encode(version, link.out.bytes());
        touch(link, id, &mut self.dirty);
    }

    /// The client says goodbye.
    pub(super) fn disconnect(
        &mut self,
        id: u64,
        session: u64,
        disconnect: &Disconnect<'_>,
    ) -> Result<(), Over> {
        let (Some(session), Some(link)) = (self.sessions.get_mut(session), self.links.get_mut(id)) else {
            return Err(Over::Silent);
        };
        if let Some(expiry) = disconnect.properties.session_expiry_interval() {
            // A session that was to end with its connection cannot be prolonged (MQTT 5 section 3.14.2.2.2).
            if session.expiry == 0 && expiry > 0 {
                return Err(Over::Refused(reasons::PROTOCOL_ERROR));
            }
            session.expiry = expiry;
        }
        // Any other reason, "disconnect with will message" among them, leaves the will in force.
        if disconnect.reason == 0 {
            link.will = None;
        }
        Err(Over::Silent)
    }

    /// A connection is over: its session goes on alone, or ends.
    pub(super) fn detach(&mut self, id: u64) {
        let now = self.context.now;
        let Some(link) = self.links.get_mut(id) else { return };
        link.aliases.clear();
        link.route = None;
        link.input = Vec::new();
        let Some(session_id) = link.session.take() else { return };
        let will = link.will.take();
        self.connected = self.connected.saturating_sub(1);
        let Some(session) = self.sessions.get_mut(session_id) else { return };
        session.link = None;
        session.deliveries.disconnect(&mut self.context);
        match session.expiry {
            0 => {
                self.end_session(session_id);
                if let Some(will) = will {
                    self.publish_will(&will, None);
                }
                return;
            }
            FOR_EVER => {}
            expiry => {
                let ends = now + Nanos::from_secs(expiry.into());
                session.ends = Some(ends);
                self.timers.set(ends, Timer::Session(session_id));
            }
        }
        match will {
            Some(will) if will.delay > Nanos::ZERO => {
                // The end of the session publishes it at the latest.
                let due = now + will.delay;
                session.will = Some((due, will));
                self.timers.set(due, Timer::Will(session_id));
            }
            Some(will) => self.publish_will(&will, Some(session_id)),
            None => {}
        }
    }

    /// A session ends. What it kept for a group goes to other members.
    pub(super) fn end_session(&mut self, id: u64) {
        let Some(session) = self.sessions.remove(id) else { return };
        self.names.remove(&session.client_id);
        self.subscriptions.leave(id, session.filters);
        for orphan in session.deliveries.end(&mut self.context) {
            self.adopt(&orphan);
        }
        if let Some((_, will)) = session.will {
            self.publish_will(&will, None);
        }
    }
}

/// Whether a CONNECT says that it is of MQTT 5, whatever else is wrong with it.
fn names_version_5(packet: &[u8]) -> bool {
    let name = b"\0\x04MQTT\x05";
    // The fixed header has two to five bytes.
    packet.get(2..).is_some_and(|rest| rest.windows(name.len()).take(4).any(|bytes| bytes == name))
}
