//! Messages over MQTT: one client, which says one after the other at QoS 1.

use super::messages::{Door, Heard, Place, Said, Verdict};
use super::stream::{Patience, Stream, no_answer, tls_of};
use super::{Scene, Unanswered, lock};
use plimsoll_codec::mqtt::{
    AckKind, Connect, Packet, PublishHeader, QoS, Version, connack_text, encode_ack, encode_connect,
    encode_publish, encode_subscribe, packet_length, reason_text,
};
use plimsoll_scenario::plan::Protocol;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Instant;

/// Least value of a reason code that refuses (MQTT 5 section 2.4).
const REFUSES: u8 = 0x80;

/// Codes of a CONNACK that say: not now (MQTT 3.1.1 section 3.2.2.3, MQTT 5 section 3.2.2.2).
const BUSY: [u8; 5] = [0x03, 0x88, 0x89, 0x97, 0x9f];

/// The client of a population's steps, made when it is needed.
#[derive(Default)]
pub(super) struct MqttClient(Mutex<Option<Connection>>);

impl MqttClient {
    /// Publishes a message, and takes its answer; `None` where the user stops the run before it has come.
    pub fn send(
        &self,
        (topic, said): (&str, &Said),
        (scene, place, door): (&Scene<'_>, Place<'_>, &Door),
        patience: Patience<'_>,
    ) -> Result<Option<Heard>, Unanswered> {
        let mut kept = lock(&self.0);
        // Others may have waited for their turn long enough.
        if patience.is_stopped() {
            return Ok(None);
        }
        // One that something goes wrong over is closed.
        let usable = kept.take().filter(|connection| connection.address == place.address);
        let usable = usable.and_then(|mut connection| connection.is_there().then_some(connection));
        let connection = match usable {
            Some(connection) => Some(connection),
            None => Connection::open(scene, place, door, patience)?,
        };
        let Some(mut connection) = connection else { return Ok(None) };
        let wait = (patience.end(), patience);
        if let Some(answer) = &said.answer
            && !connection.subscribed.contains(&answer.topic)
        {
            // Nothing was said before that.
            let is_granted = connection.subscribe(&answer.topic, wait);
            if !is_granted.map_err(|cause| Unanswered::at(false)(&cause))? {
                return Ok(None);
            }
        }
        let heard = connection.ask(topic, said, wait).map_err(|cause| Unanswered::at(true)(&cause))?;
        if heard.is_some() {
            *kept = Some(connection);
        }
        Ok(heard)
    }
}

struct Connection {
    address: SocketAddr,
    version: Version,
    stream: Stream,
    /// What came of packets that are not whole.
    came: Vec<u8>,
    next_id: u16,
    /// Topics at which answers come, whose subscriptions were granted.
    subscribed: HashSet<String>,
}

/// What a packet means to who waits.
enum Came {
    Connected(Result<(), (u8, String)>),
    Subscribed(u16, Result<(), String>),
    Acknowledged(u16, Result<(), String>),
    Message(String, Vec<u8>),
}

impl Connection {
    /// Connects; `None` where the user stops the run before.
    fn open(
        scene: &Scene<'_>,
        place: Place<'_>,
        door: &Door,
        patience: Patience<'_>,
    ) -> Result<Option<Connection>, Unanswered> {
        let (plan, address) = (scene.plan, place.address);
        let unreached = |cause: String| Unanswered::at(false)(&cause);
        let connecting = patience.to_connect(plan);
        let transport = plan.transport_beside_devices(Protocol::Mqtt, place.port);
        let (tls, until) = (tls_of(&transport, plan), connecting.end());
        let stream = Stream::open(address, tls, (connecting, patience)).map_err(unreached)?;
        let Some(stream) = stream else { return Ok(None) };
        let version = plan.mqtt.version;
        let client_id = format!("plm-{}-c", scene.run);
        let scenario = plan.mqtt.username.as_deref();
        let of_scenario = plan.mqtt.password.as_ref().map(|password| password.0.as_bytes());
        let (username, password) = match &door.user {
            Some((name, password)) if scenario.is_none() => (Some(name.as_str()), password.as_deref()),
            _ => (scenario, of_scenario),
        };
        let mut bytes = Vec::new();
        let connect = Connect { username, password, ..Connect::clean(version, &client_id) };
        encode_connect(&connect, &mut bytes).map_err(|error| unreached(error.to_string()))?;
        let mut connection =
            Connection { address, version, stream, came: Vec::new(), next_id: 1, subscribed: HashSet::new() };
        connection.stream.write_all(&bytes).map_err(unreached)?;
        loop {
            match connection.next((until, connecting)).map_err(unreached)? {
                None => return Ok(None),
                Some(Came::Connected(Ok(()))) => return Ok(Some(connection)),
                Some(Came::Connected(Err((code, cause)))) => {
                    // One that is busy may take the client later.
                    let is_refused = !BUSY.contains(&code);
                    return Err(Unanswered { reached: is_refused, is_unauthorized: is_refused, cause });
                }
                Some(_) => {}
            }
        }
    }

    /// Whether the platform has not closed it. What it has said meanwhile answers nothing that is still to be said.
    fn is_there(&mut self) -> bool {
        let mut is_there = self.stream.drain(&mut self.came);
        while is_there {
            match self.take() {
                Ok(None) => break,
                Ok(Some(_)) => {}
                Err(_) => is_there = false,
            }
        }
        is_there
    }

    fn take_id(&mut self) -> u16 {
        let id = self.next_id;
        self.next_id = id.checked_add(1).unwrap_or(1);
        id
    }

    /// Publishes, and awaits the answer, or where there is none that the broker has it.
    fn ask(
        &mut self,
        topic: &str,
        said: &Said,
        wait: (Instant, Patience<'_>),
    ) -> Result<Option<Heard>, String> {
        let id = self.take_id();
        let (topic, mut bytes) = (topic.as_bytes(), Vec::new());
        let header = PublishHeader { dup: false, qos: QoS::AtLeastOnce, retain: false, topic, packet_id: id };
        encode_publish(self.version, &header, &said.content, &mut bytes)
            .map_err(|error| error.to_string())?;
        self.stream.write_all(&bytes)?;
        loop {
            let heard = match self.next(wait)? {
                None => return Ok(None),
                Some(Came::Acknowledged(of, Err(reason))) if of == id => {
                    Some((Verdict::Refused(reason), Vec::new()))
                }
                Some(Came::Acknowledged(of, Ok(()))) if of == id && said.answer.is_none() => {
                    Some((Verdict::Taken, Vec::new()))
                }
                Some(Came::Message(topic, content)) => {
                    let answer = said.answer.as_ref().filter(|answer| answer.topic == topic);
                    answer.and_then(|answer| answer.read(&content)).map(|verdict| (verdict, content))
                }
                Some(_) => None,
            };
            if heard.is_some() {
                return Ok(heard);
            }
        }
    }

    /// Subscribes to where answers come; `false` where the user stops the run before that is granted.
    fn subscribe(&mut self, topic: &str, wait: (Instant, Patience<'_>)) -> Result<bool, String> {
        let (id, mut bytes) = (self.take_id(), Vec::new());
        let filters = [(topic, QoS::AtLeastOnce)];
        encode_subscribe(self.version, id, &filters, &mut bytes).map_err(|error| error.to_string())?;
        self.stream.write_all(&bytes)?;
        loop {
            match self.next(wait)? {
                None => return Ok(false),
                Some(Came::Subscribed(of, granted)) if of == id => {
                    granted.map_err(|reason| {
                        format!("the platform granted no subscription to `{topic}`: {reason}")
                    })?;
                    self.subscribed.insert(topic.to_owned());
                    return Ok(true);
                }
                Some(_) => {}
            }
        }
    }

    /// The next packet that means anything to who waits; `None` where the user stops the run before.
    fn next(&mut self, wait: (Instant, Patience<'_>)) -> Result<Option<Came>, String> {
        loop {
            if let Some(came) = self.take()? {
                return Ok(Some(came));
            }
            match self.stream.next(&mut self.came, wait, &no_answer)? {
                None => return Ok(None),
                Some(0) => return Err("the platform closed the connection".into()),
                Some(_) => {}
            }
        }
    }

    /// The first of the packets that came that means anything.
    fn take(&mut self) -> Result<Option<Came>, String> {
        let malformed = |error| format!("malformed packet: {error}");
        while let Some(length) = packet_length(&self.came).map_err(malformed)? {
            if length as u64 > super::LARGEST_ANSWER {
                return Err(format!("the platform sends a packet of {length} bytes"));
            }
            let Some(bytes) = self.came.get(..length) else { return Ok(None) };
            let (packet, _) = Packet::decode_tolerantly(self.version, bytes).map_err(malformed)?;
            let version = self.version;
            let refused = |code: u8| match code {
                REFUSES.. => Err(format!("code {code} {}", reason_text(version, code))),
                _ => Ok(()),
            };
            let mut acknowledgement = Vec::new();
            let came = match packet {
                Packet::Connack(connack) => {
                    let told = || {
                        format!(
                            "the platform refused the connection: code {} {}",
                            connack.code,
                            connack_text(version, connack.code)
                        )
                    };
                    Some(Came::Connected(if connack.accepted() {
                        Ok(())
                    } else {
                        Err((connack.code, told()))
                    }))
                }
                Packet::Suback(suback) => {
                    let code = suback.codes.first().copied().unwrap_or(REFUSES);
                    Some(Came::Subscribed(suback.packet_id, refused(code)))
                }
                Packet::Ack(ack) => Some(Came::Acknowledged(ack.packet_id, refused(ack.reason))),
                Packet::Publish(publish) => {
                    if let Some(id) = publish.packet_id {
                        encode_ack(version, AckKind::Puback, id, &mut acknowledgement);
                    }
                    Some(Came::Message(publish.topic.to_owned(), publish.payload.to_vec()))
                }
                Packet::Disconnect(goodbye) => {
                    return Err(format!(
                        "the platform said goodbye: {}",
                        reason_text(version, goodbye.reason)
                    ));
                }
                _ => None,
            };
            self.came.drain(..length);
            if !acknowledgement.is_empty() {
                self.stream.write_all(&acknowledgement)?;
            }
            if came.is_some() {
                return Ok(came);
            }
        }
        Ok(None)
    }
}
