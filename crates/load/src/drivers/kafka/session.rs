//! The client side of Kafka, without I/O: requests go out in a row, and their answers come in the same row.
//!
//! A device has one partition, by the hash of its key, and speaks to the broker that leads it. Each message is a request of its own, as many
//! devices would send it. A subscriber reads all partitions, or those that its group gives it. What other brokers lead, it reads over
//! [branches](messaging::Session::take_branches).

mod opening;

use super::group::Place;
use super::reading::{Reading, Taken};
use crate::driver::Client;
use crate::drivers::messaging::{self, Failure, Happened, Names, Outgoing, malformed};
use plimsoll_codec::kafka::{self, Acks, End, Node, error};
use plimsoll_codec::mqtt::topic;
use plimsoll_model::{Nanos, RunId};
use plimsoll_scenario::plan::{KafkaPlan, Plan};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// After so much silence a client asks whether the platform is there.
const KEEP_ALIVE: Nanos = Nanos::from_secs(60);
/// Before the platform is asked again for what it did not have yet.
const PAUSE: Nanos = Nanos::from_millis(100);
/// How often a member of a group says that it is there, as client libraries do, and up to where it has read.
const HEARTBEAT: Nanos = Nanos::from_secs(3);
/// The largest answer that has no records, bytes.
const LARGEST: usize = 1 << 20;
/// Bytes before an answer: its length and its number.
const HEAD: usize = kafka::LENGTH + 4;

/// What all sessions of a run have in common.
pub struct Settings {
    kafka: KafkaPlan,
    topic: String,
    /// The group in which subscribers share partitions.
    group: Option<String>,
    works: bool,
    /// The name by which the scenario knows the platform, and its address.
    known: (String, IpAddr),
}

impl Settings {
    /// Of a plan.
    pub fn new(plan: &Plan, run: RunId, address: IpAddr) -> Settings {
        let kafka = plan.kafka.clone();
        let host = plan.platform.address.as_ref().map(|own| own.host.clone()).unwrap_or_default();
        let names = Names::of(plan, run);
        let topic = kafka.topic.clone().unwrap_or_else(|| names.run().to_owned());
        let group = names.group().map(str::to_owned);
        let works = plan.subscribers.work > Nanos::ZERO;
        Settings { kafka, topic, group, works, known: (host, address) }
    }

    /// Whether the topic is made for the run.
    fn makes_topic(&self) -> bool {
        self.kafka.topic.is_none()
    }
}

/// One client's session.
pub struct Session {
    settings: Arc<Settings>,
    client: Client,
    /// The key of a device's messages, by which it has its partition.
    key: Box<[u8]>,
    /// What a subscriber wants to have, by keys.
    filters: Box<[String]>,
    phase: Phase,
    /// What was asked and not answered, in order, by its number.
    asked: VecDeque<(i32, Asked)>,
    next_number: i32,
    /// Messages in `asked`.
    flight: usize,
    /// Whether the platform is to be asked again after a pause for what the phase awaits.
    pauses: bool,
    /// Whether this connection has been ready, and whether any was.
    was_ready: bool,
    was_ever_ready: bool,
    /// Whether this connection has asked for the topic to be made.
    made: bool,
    /// All partitions of the topic, and that of a device.
    partitions: Vec<i32>,
    partition: i32,
    /// The number of the broker at the other end; `None` until it can be known.
    node: Option<i32>,
    /// The number of the broker with which the next connection is.
    elsewhere: Option<i32>,
    /// The brokers, and which of them leads each partition, as a subscriber knows them.
    nodes: Vec<Node>,
    leaders: BTreeMap<i32, i32>,
    /// Whether it only reads, beside the subscriber's own connection.
    is_branch: bool,
    /// How often a branch has asked who leads its partitions, without an answer that suits.
    looks: u32,
    /// The connections that are to be made beside this one, in place of those that there are.
    branches: Option<Vec<(SocketAddr, Session)>>,
    awaits_branches: bool,
    place: Place,
    reading: Reading,
    /// Whether records were removed before they were read: what is still there comes next.
    lacks_removed: bool,
    complaint: Option<String>,
}

/// What is awaited first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Mechanisms,
    Login,
    Topic,
    Making,
    Coordinator,
    Joining,
    Share,
    Offsets,
    Ends,
    Branches,
    Ready,
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// What the phase awaits.
    Phase,
    /// To keep a message.
    Message(u32),
    Records,
    Heartbeat,
    Commit,
    Ping,
}

impl Session {
    /// A session that was never connected, of a device with that key or of a subscriber with these filters of keys.
    pub fn new(client: Client, (key, filters): (&[u8], &[String]), settings: &Arc<Settings>) -> Session {
        Session {
            settings: Arc::clone(settings),
            client,
            key: key.into(),
            filters: filters.into(),
            phase: Phase::Topic,
            asked: VecDeque::new(),
            next_number: 0,
            flight: 0,
            pauses: false,
            was_ready: false,
            was_ever_ready: false,
            made: false,
            partitions: Vec::new(),
            partition: 0,
            node: None,
            elsewhere: None,
            nodes: Vec::new(),
            leaders: BTreeMap::new(),
            is_branch: false,
            looks: 0,
            branches: None,
            awaits_branches: false,
            place: Place::default(),
            reading: Reading::of(settings.works),
            lacks_removed: false,
            complaint: None,
        }
    }

    /// The same subscriber's session with another broker, which leads these partitions.
    fn branch(&self, leader: i32, partitions: Vec<i32>) -> Session {
        Session {
            elsewhere: Some(leader),
            is_branch: true,
            reading: self.reading.over_another(partitions),
            ..Session::new(self.client, (&self.key, &self.filters), &self.settings)
        }
    }

    /// The group in which the subscriber shares partitions, where this connection speaks to it.
    fn group(&self) -> Option<&str> {
        let is_member = matches!(self.client, Client::Subscriber(_)) && !self.is_branch;
        self.settings.group.as_deref().filter(|_| is_member)
    }

    /// Notes what the next request asks; its number.
    fn expect(&mut self, asked: Asked) -> i32 {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.asked.push_back((number, asked));
        number
    }

    /// Asks for what a phase awaits.
    fn ask(&mut self, phase: Phase, out: &mut Vec<u8>) {
        let settings = Arc::clone(&self.settings);
        let Settings { kafka: plan, topic, group, .. } = &*settings;
        let (number, group) = (self.expect(Asked::Phase), group.as_deref().unwrap_or_default());
        self.phase = phase;
        match phase {
            Phase::Mechanisms => kafka::sasl_handshake(number, out),
            Phase::Login => {
                let password = plan.password.as_ref().map(|secret| secret.0.as_str());
                let username = plan.username.as_deref().unwrap_or_default();
                kafka::sasl_plain(username, password.unwrap_or_default(), number, out);
            }
            Phase::Topic => kafka::metadata(&[topic], number, out),
            Phase::Making => kafka::create_topic(topic, (plan.partitions, plan.replicas), number, out),
            Phase::Coordinator => kafka::find_coordinator(group, number, out),
            Phase::Joining => self.place.join(group, topic, number, out),
            Phase::Share => self.place.sync((group, topic), &self.partitions, number, out),
            Phase::Offsets => kafka::committed_offsets(group, topic, self.reading.partitions(), number, out),
            Phase::Ends => {
                let end = if self.lacks_removed { End::Oldest } else { End::Newest };
                kafka::ask_offsets(topic, (&self.reading.unknown(), end), number, out);
            }
            Phase::Branches | Phase::Ready => {}
        }
    }

    /// Asks again after a pause, where that may help.
    fn ask_again(&mut self, error: i16) -> Result<Happened<'static>, Failure> {
        if !error::is_passing(error) {
            return Err(Failure::lasting(format!("the platform refused: {}", error::told(error))));
        }
        self.pauses = true;
        Ok(Happened::Nothing)
    }

    /// Asks for what that phase awaits, after a pause.
    fn pause_before(&mut self, phase: Phase) -> Happened<'static> {
        self.phase = phase;
        self.pauses = true;
        Happened::Nothing
    }

    fn become_ready(&mut self, out: &mut Vec<u8>) -> Happened<'static> {
        if self.awaits_branches {
            self.phase = Phase::Branches;
            return Happened::Nothing;
        }
        self.phase = Phase::Ready;
        self.was_ever_ready = true;
        self.read_on(out);
        if std::mem::replace(&mut self.was_ready, true) { Happened::Nothing } else { Happened::Ready }
    }

    /// Asks for records, or goes back to the group.
    fn read_on(&mut self, out: &mut Vec<u8>) {
        if self.place.joins_again {
            self.commit(out);
            // Who leads what may have changed as well.
            return self.ask(Phase::Topic, out);
        }
        if self.phase == Phase::Ready && !self.reading.is_empty() {
            let number = self.expect(Asked::Records);
            self.reading.ask(&self.settings.topic, number, out);
        }
    }

    /// Says up to where partitions were read, where there is a group and it does not know.
    fn commit(&mut self, out: &mut Vec<u8>) {
        let settings = Arc::clone(&self.settings);
        let (Some(_), Some(group)) = (self.group(), &settings.group) else { return };
        if let Some(positions) = self.reading.untold() {
            let number = self.expect(Asked::Commit);
            kafka::commit(self.place.member(group), &settings.topic, &positions, number, out);
        }
    }

    fn note_membership(&mut self, error: i16) {
        if error == error::UNKNOWN_MEMBER {
            self.place.forget();
        }
    }

    /// The group says that it is shared out again, or that it does not know this member.
    fn leave_share(&mut self, error: i16, out: &mut Vec<u8>) -> Happened<'static> {
        self.note_membership(error);
        if self.phase != Phase::Ready || std::mem::replace(&mut self.place.joins_again, true) {
            return Happened::Nothing;
        }
        // Whoever gets their partitions reads them from where the group is told.
        self.branches = Some(Vec::new());
        // What is asked for comes before the group is told up to where was read.
        let asks = self.asked.iter().any(|(_, asked)| *asked == Asked::Records);
        if !asks && !self.reading.is_coming() {
            self.read_on(out);
        }
        Happened::Complaint("the group's partitions were shared out again (rebalance)".to_owned())
    }

    /// What the answer to a heartbeat or to a commit says of this member.
    fn heard_of_group(&mut self, error: i16, out: &mut Vec<u8>) -> Result<Happened<'static>, Failure> {
        match error {
            error::NONE => Ok(Happened::Nothing),
            error if joins_again(error) => Ok(self.leave_share(error, out)),
            error if has_no_coordinator(error) => {
                Err(Failure::passing(format!("the group: {}", error::told(error))))
            }
            error => Ok(Happened::Complaint(format!("the group: {}", error::told(error)))),
        }
    }

    /// A piece of an answer with records.
    fn piece<'a>(&'a mut self, piece: &'a [u8], out: &mut Vec<u8>) -> Result<Happened<'a>, Failure> {
        let filters = &self.filters;
        let taken = self.reading.take(piece, &|key| is_wanted(filters, key)).map_err(Failure::malformed)?;
        let happened = match taken {
            Taken::Nothing => Some(Happened::Part(0)),
            Taken::Together => None,
            Taken::HeldBack => {
                self.complaint = Some("it holds a subscriber back (quota)".to_owned());
                Some(Happened::Part(0))
            }
            Taken::Record(key, value) => match value.filter(|_| is_wanted(&self.filters, key)) {
                Some(value) => Some(Happened::Delivered(value)),
                None => Some(Happened::Part(0)),
            },
            Taken::Unreadable(why) => {
                return Err(Failure::passing(format!(
                    "there are records that Plimsoll does not read: {why}"
                )));
            }
            Taken::Error(partition, error::OFFSET_OUT_OF_RANGE) => {
                self.reading.found(partition, -1);
                self.lacks_removed = true;
                Some(Happened::Complaint("records were removed before they were read".to_owned()))
            }
            Taken::Error(_, error) => {
                return Err(Failure::passing(format!(
                    "the platform gives no records: {}",
                    error::told(error)
                )));
            }
        };
        if !self.reading.is_coming() {
            if self.reading.unknown().is_empty() {
                self.read_on(out);
            } else {
                self.pause_before(Phase::Ends);
            }
        }
        let (unpacked, values) = self.reading.together();
        Ok(happened.unwrap_or(Happened::DeliveredTogether(unpacked, values)))
    }

    fn answer<'a>(&'a mut self, frame: &'a [u8], out: &mut Vec<u8>) -> Result<Happened<'a>, Failure> {
        let nothing = || Failure::passing("the platform sent an answer to nothing we asked");
        let (length, rest) = frame.split_first_chunk::<{ kafka::LENGTH }>().ok_or_else(nothing)?;
        let (number, body) = rest.split_first_chunk::<4>().ok_or_else(nothing)?;
        let (expected, asked) = self.asked.pop_front().ok_or_else(nothing)?;
        if expected != i32::from_be_bytes(*number) {
            return Err(nothing());
        }
        match asked {
            Asked::Phase => self.answered(body, out),
            Asked::Message(sequence) => {
                self.flight -= 1;
                let (error, held_back) = kafka::produced_record(body).map_err(Failure::malformed)?;
                if held_back > 0 {
                    self.complaint = Some("it holds a client back (quota)".to_owned());
                }
                if error == error::NOT_LEADER && self.phase == Phase::Ready {
                    // Who leads it now may take the brokers a moment to agree on.
                    self.pause_before(Phase::Topic);
                }
                Ok(match error {
                    error::NONE => Happened::Acknowledged(sequence),
                    error if error::may_be_stored(error, self.settings.kafka.acks) => {
                        let reason = format!("a message may be stored or not: {}", error::told(error));
                        Happened::Doubtful(sequence, reason)
                    }
                    error => Happened::Refused(sequence, error::told(error)),
                })
            }
            Asked::Records => {
                let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or_default();
                self.reading.begin(length.checked_sub(4).ok_or_else(nothing)?);
                Ok(Happened::Part(0))
            }
            Asked::Heartbeat => self.heard_of_group(kafka::alive(body).map_err(Failure::malformed)?, out),
            Asked::Commit => {
                let error = kafka::committed(body).map_err(Failure::malformed)?;
                if error == error::NONE {
                    self.reading.was_told();
                }
                self.heard_of_group(error, out)
            }
            Asked::Ping => Ok(Happened::Pong),
        }
    }
}

impl messaging::Session for Session {
    const NAME: &'static str = "Kafka";

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.asked.clear();
        (self.flight, self.pauses, self.was_ready, self.made) = (0, false, false, false);
        (self.branches, self.awaits_branches, self.looks) = (None, false, 0);
        self.node = self.elsewhere.take();
        self.place.joins_again = false;
        self.reading.forget_coming();
        match self.settings.kafka.username {
            Some(_) => self.ask(Phase::Mechanisms, out),
            None => self.ask(Phase::Topic, out),
        }
    }

    fn frame(&self, bytes: &[u8]) -> Result<Option<usize>, String> {
        if self.reading.is_coming() {
            return self.reading.length(bytes).map_err(malformed);
        }
        if let Some((_, Asked::Records)) = self.asked.front() {
            return Ok(Some(HEAD));
        }
        let answer = kafka::answer(bytes, LARGEST).map_err(malformed)?;
        Ok(answer.map(|answer| answer.length))
    }

    fn receive<'a>(&'a mut self, frame: &'a [u8], out: &mut Vec<u8>) -> Result<Happened<'a>, Failure> {
        if self.reading.is_coming() { self.piece(frame, out) } else { self.answer(frame, out) }
    }

    fn take_complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }

    fn wakes_after(&self) -> Option<Nanos> {
        match self.pauses {
            true => Some(PAUSE),
            false => {
                let is_member = self.was_ready || self.phase == Phase::Branches;
                self.group().filter(|_| is_member).map(|_| HEARTBEAT)
            }
        }
    }

    fn wake(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.pauses) {
            return self.ask(self.phase, out);
        }
        let settings = Arc::clone(&self.settings);
        let is_member = matches!(self.phase, Phase::Branches | Phase::Ready) && self.group().is_some();
        if let Some(group) = settings.group.as_ref().filter(|_| is_member) {
            self.commit(out);
            // Without an answer to the one before, the platform shall be asked whether it is there.
            if !self.asked.iter().any(|(_, asked)| *asked == Asked::Heartbeat) {
                let number = self.expect(Asked::Heartbeat);
                kafka::heartbeat(self.place.member(group), number, out);
            }
        }
    }

    fn take_branches(&mut self) -> Option<Vec<(SocketAddr, Session)>> {
        self.branches.take()
    }

    fn branches_ready(&mut self, out: &mut Vec<u8>) -> Happened<'static> {
        self.awaits_branches = false;
        if self.phase != Phase::Branches {
            return Happened::Nothing;
        }
        // Where it begins is told at once: whoever takes over begins there, too.
        self.commit(out);
        self.become_ready(out)
    }

    fn last_words(&mut self, out: &mut Vec<u8>) {
        self.commit(out);
    }

    fn may_publish(&self) -> bool {
        let awaits = self.settings.kafka.acks != Acks::None;
        self.phase == Phase::Ready && (!awaits || self.flight < usize::from(self.settings.kafka.in_flight))
    }

    fn read_partition(&self) -> u16 {
        self.reading.partition() as u16
    }

    fn held_back(&self) -> Option<&'static str> {
        let waits = self.was_ever_ready && self.phase != Phase::Ready;
        waits.then_some("no broker led a device's partition for a time")
    }

    fn publish(&mut self, message: Outgoing<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let Outgoing { sequence, topic: key, content } = message;
        let acks = self.settings.kafka.acks;
        let number = match acks {
            Acks::None => self.next_number,
            Acks::Leader | Acks::All => {
                self.flight += 1;
                self.expect(Asked::Message(sequence))
            }
        };
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        let place = (self.settings.topic.as_str(), self.partition, acks);
        kafka::produce_record(place, (key, content), at, number, out);
        Ok(())
    }

    fn withdraw(&mut self, sequence: u32) {
        let own = self.asked.iter().rposition(|(_, asked)| *asked == Asked::Message(sequence));
        if let Some(place) = own {
            self.asked.remove(place);
            self.flight -= 1;
        }
    }

    fn abandon(&mut self) -> Vec<u32> {
        self.reading.forget_coming();
        self.elsewhere = None;
        (self.branches, self.awaits_branches) = (None, false);
        (self.flight, self.pauses, self.was_ready) = (0, false, false);
        let message = |(_, asked)| match asked {
            Asked::Message(sequence) => Some(sequence),
            _ => None,
        };
        self.asked.drain(..).filter_map(message).collect()
    }

    /// A question about no topic.
    fn ping(&mut self, out: &mut Vec<u8>) {
        let number = self.expect(Asked::Ping);
        kafka::metadata(&[], number, out);
    }

    fn keep_alive(&self) -> Nanos {
        KEEP_ALIVE
    }

    /// Whoever is asked to removes the topic that was made for the run.
    fn goodbye(&mut self, ends: bool, out: &mut Vec<u8>) {
        if self.is_branch {
            return;
        }
        let settings = Arc::clone(&self.settings);
        if let (Some(group), Client::Subscriber(_)) = (&settings.group, self.client) {
            self.commit(out);
            kafka::leave_group(group, self.place.member(group).name, self.next_number, out);
            self.place.forget();
        }
        if ends && settings.makes_topic() {
            kafka::delete_topic(&settings.topic, self.next_number, out);
        }
    }

    fn awaited(&self) -> &'static str {
        match self.phase {
            Phase::Mechanisms => "the answer to how we say who we are (SaslHandshake)",
            Phase::Login => "the answer to user name and password (SaslAuthenticate)",
            Phase::Topic => "what it says of the topic (Metadata)",
            Phase::Making => "the topic (CreateTopics)",
            Phase::Coordinator => "who looks after the group (FindCoordinator)",
            Phase::Joining => "the answer of the group (JoinGroup)",
            Phase::Share => "a share of the partitions (SyncGroup)",
            Phase::Offsets => "up to where the group has read (OffsetFetch)",
            Phase::Ends => "where partitions end (ListOffsets)",
            Phase::Branches => "what other brokers of the cluster say of their partitions",
            Phase::Ready => "nothing",
        }
    }

    /// A broker that asks who clients are answers nothing before they have said so.
    fn advice_on_closing(&self) -> &'static str {
        match self.phase {
            Phase::Topic if self.settings.kafka.username.is_none() && !self.was_ever_ready => {
                "; where it asks who clients are (SASL), write `kafka.username` and `kafka.password`"
            }
            _ => "",
        }
    }
}

/// Whether a record with that key is what a subscriber wants to have. One without a key is.
fn is_wanted(filters: &[String], key: Option<&[u8]>) -> bool {
    let Some(key) = key.and_then(|key| std::str::from_utf8(key).ok()) else { return true };
    filters.is_empty() || filters.iter().any(|filter| topic::matches(filter, key))
}

/// Whether the broker that was asked is not the group's coordinator, or none is at present.
fn has_no_coordinator(error: i16) -> bool {
    matches!(error, error::NOT_COORDINATOR | error::COORDINATOR_NOT_AVAILABLE)
}

/// Whether a member joins its group again because of an error.
fn joins_again(error: i16) -> bool {
    matches!(error, error::REBALANCE_IN_PROGRESS | error::ILLEGAL_GENERATION | error::UNKNOWN_MEMBER)
}

#[cfg(test)]
mod tests;
