//! What a coordinator and its workers say to each other over links.

use crate::bytes::{Malformed, Reader, put_bytes, put_json};
use crate::frame::ProcessId;
use crate::prepare::Prepare;
use crate::receipts::Passed;
use plimsoll_load::clients::{ClientKind, Clients};
use plimsoll_load::engine::{Addresses, Order};
use plimsoll_load::ledger::Delivery;
use plimsoll_load::recorder::Timeline;
use plimsoll_load::shard::{Command, Reply};
use plimsoll_load::share::Share;
use plimsoll_model::record::{ComponentUsage, DeathRecord, Gauge, SamplePart};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use plimsoll_scenario::plan::LevelPlan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A message of a link.
#[derive(Clone, Debug)]
pub enum Message {
    /// To a worker: make ready for a run. Answered by `Prepared`.
    Prepare(Box<Prepare>),
    /// To the coordinator: the worker is ready, or why it takes no part.
    Prepared(Result<Prepared, String>),
    /// To a worker: start the load threads. Answered by `Begun`.
    Begin(Begin),
    /// To the coordinator: the load threads run, or why not.
    Begun(Result<(), String>),
    /// To a worker: a command for one of its shards.
    Order(Order),
    /// To a worker: what set-up steps captured for a population.
    Give(Give),
    /// To a worker: the access token, whenever it is new.
    Token(String),
    /// To a worker: by how many nanoseconds its clock of the run is ahead of the coordinator's now.
    Clock(i64),
    /// To a worker: another one is gone and sends no receipts any more.
    Gone(ProcessId),
    /// To a worker: the run is over.
    End,
    /// To the coordinator: a shard replies.
    Reply(Reply),
    /// To the coordinator: the platform has refused the access token.
    TokenRefused,
    /// To the coordinator: what came from other workers since the level began. It goes before the replies that all was passed on.
    Crossed(Vec<Crossing>),
    /// To a worker: find ports for components of the platform. Answered by `Reserved`.
    Reserve(Reserve),
    /// To the coordinator: where they will listen, by the names of their ports, or why they cannot stand there.
    Reserved(Result<BTreeMap<String, SocketAddr>, String>),
    /// To a worker: start one of them, and wait until it is healthy. Answered by `Started`.
    Start(StartComponent),
    /// To the coordinator: it is healthy, with its version, or why it is not.
    Started(Result<Option<String>, String>),
    /// To the coordinator: what was seen of components.
    Report(Report),
    /// To a worker: capture those packets, if any, and keep the keys of TLS sessions. Answered by `Capturing`.
    Capture(Option<PacketOrder>),
    /// To the coordinator: that is being done, or why not.
    Capturing(Result<(), String>),
    /// To a worker: the load is over; end the capture, and send what was kept. Answered by `Collected`.
    Collect,
    /// To the coordinator: what was kept. Its files come behind it.
    Collected(Box<Collected>),
    /// To the coordinator: the next bytes of the file of that number; none where it ends.
    FilePart(u16, Vec<u8>),
    /// To another worker: what was received here of the devices of a shard there.
    Receipts(u32, Vec<Delivery>),
    /// To the coordinator: all load threads here have passed on what they had received.
    PassedOn(Passed),
    /// To a worker: what was sent to it by others, so that it knows when all of it has come.
    Expect(Passed),
}

/// Components that are to stand at a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// Their names in the profile.
    pub components: Vec<String>,
    /// Whether devices speak MQTT 5.
    pub mqtt5: bool,
}

/// A component that is to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartComponent {
    /// Its name in the profile.
    pub component: String,
    /// Where components listen, by the names of their ports.
    pub known: BTreeMap<String, SocketAddr>,
}

/// What a worker sees of the components that it has started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Report {
    /// What one used.
    Used(ComponentUsage),
    /// What observers saw of them.
    Saw(Vec<Gauge>),
    /// One ended by itself.
    Died(DeathRecord),
}

impl Report {
    /// The same with its times moved by so much.
    #[must_use]
    pub fn moved(self, by: Nanos) -> Report {
        match self {
            Report::Used(usage) => Report::Used(ComponentUsage { at: usage.at + by, ..usage }),
            Report::Saw(gauges) => {
                Report::Saw(gauges.into_iter().map(|gauge| Gauge { at: gauge.at + by, ..gauge }).collect())
            }
            Report::Died(death) => Report::Died(DeathRecord { at: death.at + by, ..death }),
        }
    }
}

/// Packets that are to be captured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketOrder {
    /// On which interface, `any` for all.
    pub interface: String,
    /// Which packets, in the words of tcpdump.
    pub filter: String,
    /// The most that is kept, bytes.
    pub limit: u64,
}

/// What a worker has kept in a run: captures, a key log and logs. Each is a file, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collected {
    /// How many captures there are, the oldest first.
    pub captures: u16,
    /// Whether there is a key log of TLS sessions.
    pub has_keys: bool,
    /// The components of which there are logs.
    pub logs: Vec<String>,
    /// Packets in the captures.
    pub packets: u64,
    /// Packets that the kernel dropped, where the tool says so.
    pub dropped: Option<u64>,
    /// Whether the limit was reached, so that the oldest packets are gone.
    pub wrapped: bool,
    /// When the last packet was captured, since 1970, and why nothing was captured later; `None` where nothing is missing.
    pub died: Option<(Nanos, String)>,
    /// Ends of connections there, and whose they were.
    pub ends: Vec<OwnedEnd>,
}

/// An end of a connection that a component had for some time, on the wall clock of its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedEnd {
    /// The end.
    pub address: SocketAddr,
    /// The last look at which it was not yet its owner's.
    pub from: Nanos,
    /// The last look at which it was.
    pub until: Nanos,
    /// The component.
    pub owner: String,
}

/// Deliveries that were received at another worker than that of their device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossing {
    /// The worker that received them.
    pub from: ProcessId,
    /// The number of the population whose devices sent them.
    pub population: u16,
    /// How many.
    pub deliveries: u64,
}

/// A worker that is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// What it found out about its host, for the reader of the result.
    pub warnings: Vec<String>,
    /// Facts about its host, by name.
    pub host: BTreeMap<String, String>,
}

/// How load threads start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// Where each population finds the platform.
    pub addresses: Vec<Addresses>,
    /// What the worker's monotonic clock showed at time zero of the run, in nanoseconds.
    pub epoch: i64,
}

/// What was captured for a population.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Give {
    /// Its number.
    pub population: usize,
    /// Slot, device, subscriber and value.
    pub values: Vec<(usize, u32, u32, String)>,
}

/// What a message begins with.
mod kind {
    pub const PREPARE: u8 = 1;
    pub const PREPARED: u8 = 2;
    pub const BEGIN: u8 = 3;
    pub const BEGUN: u8 = 4;
    pub const ORDER: u8 = 5;
    pub const GIVE: u8 = 6;
    pub const TOKEN: u8 = 7;
    pub const GONE: u8 = 8;
    pub const END: u8 = 9;
    pub const REPLY: u8 = 10;
    pub const TOKEN_REFUSED: u8 = 11;
    pub const RECEIPTS: u8 = 12;
    pub const PASSED_ON: u8 = 13;
    pub const EXPECT: u8 = 21;
    pub const CLOCK: u8 = 14;
    pub const CROSSED: u8 = 15;
    pub const RESERVE: u8 = 16;
    pub const RESERVED: u8 = 17;
    pub const START: u8 = 18;
    pub const STARTED: u8 = 19;
    pub const REPORT: u8 = 20;
    pub const CAPTURE: u8 = 22;
    pub const CAPTURING: u8 = 23;
    pub const COLLECT: u8 = 24;
    pub const COLLECTED: u8 = 25;
    pub const FILE_PART: u8 = 26;
}

/// What a command begins with.
mod order {
    pub const CONNECT: u8 = 1;
    pub const RELEASE: u8 = 2;
    pub const RUN: u8 = 3;
    pub const FLUSH: u8 = 4;
    pub const PASS_ON: u8 = 5;
    pub const CLOSE: u8 = 6;
    pub const STOP: u8 = 7;
}

/// What a reply begins with.
mod reply {
    pub const READY: u8 = 1;
    pub const ALL_READY: u8 = 2;
    pub const CONNECT_FAILED: u8 = 3;
    pub const CONNECT_REPEATED: u8 = 4;
    pub const PART: u8 = 5;
    pub const MESSAGES: u8 = 6;
    pub const DRAINED: u8 = 7;
    pub const FLUSHED: u8 = 8;
    pub const PASSED_ON: u8 = 9;
    pub const CLOSED: u8 = 10;
    pub const STOPPED: u8 = 11;
    pub const THREAD: u8 = 12;
    pub const HALTED: u8 = 13;
    pub const LOST: u8 = 14;
    pub const CLOCKS: u8 = 15;
}

impl Message {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Message::Prepare(prepare) => put(&mut out, kind::PREPARE, prepare),
            Message::Prepared(prepared) => put(&mut out, kind::PREPARED, prepared),
            Message::Begin(begin) => put(&mut out, kind::BEGIN, begin),
            Message::Begun(begun) => put(&mut out, kind::BEGUN, begun),
            Message::Order(Order { shard, command }) => {
                out.push(kind::ORDER);
                out.extend(shard.to_le_bytes());
                put_command(&mut out, command);
            }
            Message::Give(give) => put(&mut out, kind::GIVE, give),
            Message::Token(token) => put(&mut out, kind::TOKEN, token),
            Message::Clock(ahead) => put(&mut out, kind::CLOCK, ahead),
            Message::Gone(process) => put(&mut out, kind::GONE, process),
            Message::End => out.push(kind::END),
            Message::Reply(reply) => {
                out.push(kind::REPLY);
                put_reply(&mut out, reply);
            }
            Message::TokenRefused => out.push(kind::TOKEN_REFUSED),
            Message::Crossed(crossings) => put(&mut out, kind::CROSSED, crossings),
            Message::Reserve(reserve) => put(&mut out, kind::RESERVE, reserve),
            Message::Reserved(reserved) => put(&mut out, kind::RESERVED, reserved),
            Message::Start(start) => put(&mut out, kind::START, start),
            Message::Started(started) => put(&mut out, kind::STARTED, started),
            Message::Report(report) => put(&mut out, kind::REPORT, report),
            Message::Receipts(shard, deliveries) => {
                out.push(kind::RECEIPTS);
                out.extend(shard.to_le_bytes());
                out.extend((deliveries.len() as u32).to_le_bytes());
                deliveries.iter().for_each(|delivery| put_delivery(&mut out, delivery));
            }
            Message::Capture(packets) => put(&mut out, kind::CAPTURE, packets),
            Message::Capturing(begun) => put(&mut out, kind::CAPTURING, begun),
            Message::Collect => out.push(kind::COLLECT),
            Message::Collected(collected) => put(&mut out, kind::COLLECTED, collected),
            Message::FilePart(file, bytes) => {
                out.push(kind::FILE_PART);
                out.extend(file.to_le_bytes());
                put_bytes(&mut out, bytes);
            }
            Message::PassedOn(passed) => put(&mut out, kind::PASSED_ON, passed),
            Message::Expect(passed) => put(&mut out, kind::EXPECT, passed),
        }
        out
    }

    /// Reads what [`Message::encode`] wrote.
    ///
    /// # Errors
    /// It is no message.
    pub fn decode(bytes: &[u8]) -> Result<Message, Malformed> {
        let mut reader = Reader::new(bytes);
        let message = match reader.u8()? {
            kind::PREPARE => Message::Prepare(reader.json()?),
            kind::PREPARED => Message::Prepared(reader.json()?),
            kind::BEGIN => Message::Begin(reader.json()?),
            kind::BEGUN => Message::Begun(reader.json()?),
            kind::ORDER => Message::Order(Order { shard: reader.u32()?, command: command(&mut reader)? }),
            kind::GIVE => Message::Give(reader.json()?),
            kind::TOKEN => Message::Token(reader.json()?),
            kind::CLOCK => Message::Clock(reader.json()?),
            kind::GONE => Message::Gone(reader.json()?),
            kind::END => Message::End,
            kind::REPLY => Message::Reply(read_reply(&mut reader)?),
            kind::TOKEN_REFUSED => Message::TokenRefused,
            kind::CROSSED => Message::Crossed(reader.json()?),
            kind::RESERVE => Message::Reserve(reader.json()?),
            kind::RESERVED => Message::Reserved(reader.json()?),
            kind::START => Message::Start(reader.json()?),
            kind::STARTED => Message::Started(reader.json()?),
            kind::REPORT => Message::Report(reader.json()?),
            kind::RECEIPTS => {
                let (shard, count) = (reader.u32()?, reader.count(DELIVERY)?);
                let deliveries: Result<Vec<Delivery>, Malformed> =
                    (0..count).map(|_| delivery(&mut reader)).collect();
                Message::Receipts(shard, deliveries?)
            }
            kind::CAPTURE => Message::Capture(reader.json()?),
            kind::CAPTURING => Message::Capturing(reader.json()?),
            kind::COLLECT => Message::Collect,
            kind::COLLECTED => Message::Collected(reader.json()?),
            kind::FILE_PART => Message::FilePart(reader.u16()?, reader.bytes()?.to_vec()),
            kind::PASSED_ON => Message::PassedOn(reader.json()?),
            kind::EXPECT => Message::Expect(reader.json()?),
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(message)
    }
}

fn put<T: Serialize>(out: &mut Vec<u8>, kind: u8, value: &T) {
    out.push(kind);
    put_json(out, value);
}

/// Bytes of a delivery.
const DELIVERY: usize = 26;

fn put_delivery(out: &mut Vec<u8>, delivery: &Delivery) {
    let Delivery { device, sequence, subscriber, at, content, partition } = *delivery;
    for number in [device, sequence, subscriber, content] {
        out.extend(number.to_le_bytes());
    }
    out.extend(at.0.to_le_bytes());
    out.extend(partition.to_le_bytes());
}

fn delivery(reader: &mut Reader<'_>) -> Result<Delivery, Malformed> {
    let (device, sequence, subscriber, content) =
        (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
    Ok(Delivery { device, sequence, subscriber, content, at: Nanos(reader.i64()?), partition: reader.u16()? })
}

fn put_clients(out: &mut Vec<u8>, &Clients { kind, share, from, to }: &Clients) {
    out.push(match kind {
        ClientKind::Devices => 0,
        ClientKind::Subscribers => 1,
    });
    for number in [share.index, share.of, share.first, from, to] {
        out.extend(number.to_le_bytes());
    }
}

fn clients(reader: &mut Reader<'_>) -> Result<Clients, Malformed> {
    let kind = match reader.u8()? {
        0 => ClientKind::Devices,
        1 => ClientKind::Subscribers,
        _ => return Err(Malformed),
    };
    let share = Share { index: reader.u32()?, of: reader.u32()?, first: reader.u32()? };
    Ok(Clients { kind, share, from: reader.u32()?, to: reader.u32()? })
}

fn put_command(out: &mut Vec<u8>, command: &Command) {
    match command {
        Command::Connect { clients, start, gap, awaited } => {
            out.push(order::CONNECT);
            out.extend(start.0.to_le_bytes());
            out.extend(gap.0.to_le_bytes());
            out.push(u8::from(*awaited));
            put_clients(out, clients);
        }
        Command::Release(clients) => {
            out.push(order::RELEASE);
            put_clients(out, clients);
        }
        Command::Run { timeline, level, messages, drain_end } => {
            out.push(order::RUN);
            put_timeline(out, timeline);
            put_level(out, *level);
            put_some(out, messages.map(|messages| messages.to_le_bytes()));
            out.extend(drain_end.0.to_le_bytes());
        }
        Command::Flush => out.push(order::FLUSH),
        Command::PassOn => out.push(order::PASS_ON),
        Command::Close => out.push(order::CLOSE),
        Command::Stop => out.push(order::STOP),
    }
}

fn command(reader: &mut Reader<'_>) -> Result<Command, Malformed> {
    Ok(match reader.u8()? {
        order::CONNECT => {
            let (start, gap, awaited) = (Nanos(reader.i64()?), Nanos(reader.i64()?), reader.u8()? != 0);
            Command::Connect { clients: clients(reader)?, start, gap, awaited }
        }
        order::RELEASE => Command::Release(clients(reader)?),
        order::RUN => Command::Run {
            timeline: timeline(reader)?,
            level: level(reader)?,
            messages: some(reader, Reader::u64)?,
            drain_end: Nanos(reader.i64()?),
        },
        order::FLUSH => Command::Flush,
        order::PASS_ON => Command::PassOn,
        order::CLOSE => Command::Close,
        order::STOP => Command::Stop,
        _ => return Err(Malformed),
    })
}

/// Something that may be missing.
fn put_some(out: &mut Vec<u8>, bytes: Option<[u8; 8]>) {
    out.push(u8::from(bytes.is_some()));
    out.extend(bytes.into_iter().flatten());
}

fn some<'a, T>(
    reader: &mut Reader<'a>,
    read: fn(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    match reader.u8()? {
        0 => Ok(None),
        1 => read(reader).map(Some),
        _ => Err(Malformed),
    }
}

fn put_timeline(out: &mut Vec<u8>, timeline: &Timeline) {
    let Timeline { level, start, hold_start, hold_end, samples, cut } = *timeline;
    out.extend(level.to_le_bytes());
    out.extend(samples.to_le_bytes());
    for time in [start, hold_start, hold_end] {
        out.extend(time.0.to_le_bytes());
    }
    put_some(out, cut.map(|cut| cut.0.to_le_bytes()));
}

fn timeline(reader: &mut Reader<'_>) -> Result<Timeline, Malformed> {
    let (level, samples) = (reader.u16()?, reader.u16()?);
    let (start, hold_start, hold_end) = (Nanos(reader.i64()?), Nanos(reader.i64()?), Nanos(reader.i64()?));
    let cut = some(reader, Reader::i64)?.map(Nanos);
    Ok(Timeline { level, start, hold_start, hold_end, samples, cut })
}

/// What a level begins with.
mod load {
    pub const RATE: u8 = 1;
    pub const LISTED: u8 = 2;
    pub const IN_FLIGHT: u8 = 3;
    pub const EXPERIMENT: u8 = 4;
    pub const EXPERIMENT_RATE: u8 = 5;
    pub const DEVICES: u8 = 6;
    pub const CONNECT_RATE: u8 = 7;
}

/// A rate keeps all of its bits, since due times follow from it.
fn put_level(out: &mut Vec<u8>, level: LevelPlan) {
    let (kind, count, rate) = match level {
        LevelPlan::Rate(rate) => (load::RATE, 0, rate),
        LevelPlan::Listed { place, rate } => (load::LISTED, u32::from(place), rate),
        LevelPlan::InFlight(count) => (load::IN_FLIGHT, count, 0.0),
        LevelPlan::Experiment(count) => (load::EXPERIMENT, count, 0.0),
        LevelPlan::ExperimentRate(rate) => (load::EXPERIMENT_RATE, 0, rate),
        LevelPlan::Devices { devices, rate } => (load::DEVICES, devices, rate),
        LevelPlan::ConnectRate(rate) => (load::CONNECT_RATE, 0, rate),
    };
    out.push(kind);
    out.extend(count.to_le_bytes());
    out.extend(rate.to_bits().to_le_bytes());
}

fn level(reader: &mut Reader<'_>) -> Result<LevelPlan, Malformed> {
    let (kind, count, rate) = (reader.u8()?, reader.u32()?, f64::from_bits(reader.u64()?));
    Ok(match kind {
        load::RATE => LevelPlan::Rate(rate),
        load::LISTED => LevelPlan::Listed { place: u16::try_from(count).map_err(|_| Malformed)?, rate },
        load::IN_FLIGHT => LevelPlan::InFlight(count),
        load::EXPERIMENT => LevelPlan::Experiment(count),
        load::EXPERIMENT_RATE => LevelPlan::ExperimentRate(rate),
        load::DEVICES => LevelPlan::Devices { devices: count, rate },
        load::CONNECT_RATE => LevelPlan::ConnectRate(rate),
        _ => return Err(Malformed),
    })
}

fn put_reply(out: &mut Vec<u8>, reply: &Reply) {
    match reply {
        Reply::Ready(count) => {
            out.push(reply::READY);
            out.extend(count.to_le_bytes());
        }
        Reply::AllReady => out.push(reply::ALL_READY),
        Reply::ConnectFailed { reason, tried_again } => {
            put(out, reply::CONNECT_FAILED, &(reason, tried_again))
        }
        Reply::ConnectRepeated(reason) => put(out, reply::CONNECT_REPEATED, reason),
        Reply::Part(part) => {
            out.push(reply::PART);
            put_part(out, part);
        }
        Reply::Messages(messages) => put(out, reply::MESSAGES, messages),
        Reply::Drained => out.push(reply::DRAINED),
        Reply::Flushed => out.push(reply::FLUSHED),
        Reply::PassedOn => out.push(reply::PASSED_ON),
        Reply::Closed(population, end) => put(out, reply::CLOSED, &(population, end)),
        Reply::Stopped => out.push(reply::STOPPED),
        Reply::Thread(usage) => put(out, reply::THREAD, usage),
        Reply::Halted(why) => put(out, reply::HALTED, why),
        Reply::Lost(why) => put(out, reply::LOST, why),
        Reply::Clocks(clocks) => put(out, reply::CLOCKS, clocks),
    }
}

fn read_reply(reader: &mut Reader<'_>) -> Result<Reply, Malformed> {
    Ok(match reader.u8()? {
        reply::READY => Reply::Ready(reader.u32()?),
        reply::ALL_READY => Reply::AllReady,
        reply::CONNECT_FAILED => {
            let (reason, tried_again) = reader.json()?;
            Reply::ConnectFailed { reason, tried_again }
        }
        reply::CONNECT_REPEATED => Reply::ConnectRepeated(reader.json()?),
        reply::PART => Reply::Part(Box::new(part(reader)?)),
        reply::MESSAGES => Reply::Messages(reader.json()?),
        reply::DRAINED => Reply::Drained,
        reply::FLUSHED => Reply::Flushed,
        reply::PASSED_ON => Reply::PassedOn,
        reply::CLOSED => {
            let (population, end) = reader.json()?;
            Reply::Closed(population, end)
        }
        reply::STOPPED => Reply::Stopped,
        reply::THREAD => Reply::Thread(reader.json()?),
        reply::HALTED => Reply::Halted(reader.json()?),
        reply::LOST => Reply::Lost(reader.json()?),
        reply::CLOCKS => Reply::Clocks(reader.json()?),
        _ => return Err(Malformed),
    })
}

/// Stands for the warm-up in the place of a sample.
const NO_SAMPLE: u32 = u32::MAX;

fn put_part(out: &mut Vec<u8>, part: &SamplePart) {
    let SamplePart { population, level, sample, counts, histograms } = part;
    out.extend(population.to_le_bytes());
    out.extend(level.to_le_bytes());
    out.extend(sample.map_or(NO_SAMPLE, u32::from).to_le_bytes());
    put_json(out, counts);
    out.extend((histograms.len() as u32).to_le_bytes());
    for (metric, histogram) in histograms {
        put_bytes(out, metric.name().as_bytes());
        put_bytes(out, &histogram.encode());
    }
}

fn part(reader: &mut Reader<'_>) -> Result<SamplePart, Malformed> {
    let (population, level) = (reader.u16()?, reader.u16()?);
    let sample = match reader.u32()? {
        NO_SAMPLE => None,
        sample => Some(u16::try_from(sample).map_err(|_| Malformed)?),
    };
    let counts: Counts = reader.json()?;
    let mut histograms = Vec::new();
    for _ in 0..reader.count(2 * size_of::<u32>())? {
        let name = std::str::from_utf8(reader.bytes()?).map_err(|_| Malformed)?;
        let metric = Metric::from_name(name).ok_or(Malformed)?;
        histograms.push((metric, Histogram::decode(reader.bytes()?).map_err(|_| Malformed)?));
    }
    Ok(SamplePart { population, level, sample, counts, histograms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::{Peer, Source};
    use plimsoll_load::layout::Stand;
    use plimsoll_model::RunId;
    use plimsoll_model::message::{Fate, MessageRecord};
    use plimsoll_model::record::{ClockReading, Crossed, LevelClocks, LevelEnd, WorkerClock};
    use proptest::prelude::*;

    fn record() -> MessageRecord {
        MessageRecord {
            level: 3,
            sample: None,
            device: 7,
            sequence: 9,
            due: Nanos(1),
            ready: Nanos(2),
            sent: Some(Nanos(3)),
            done: None,
            first_received: Some(Nanos(5)),
            retrieved: None,
            dispatched: None,
            receivers: 2,
            missing: 1,
            fate: Fate::Lost,
        }
    }

    fn some_part() -> SamplePart {
        let mut histogram = Histogram::new();
        (1..2_000).for_each(|number| histogram.record(Nanos::from_micros(number)));
        SamplePart {
            population: SamplePart::OF_ALL,
            level: 4,
            sample: Some(17),
            counts: Counts { due: 5, delivered: 3, ..Counts::default() },
            histograms: vec![(Metric::PublishTime, histogram.clone()), (Metric::SubscribeTime, histogram)],
        }
    }

    fn some_clocks() -> LevelClocks {
        let reading =
            ClockReading { offset: Nanos(-7), within: Nanos(8), drift: 0.5, ..ClockReading::default() };
        let clock = WorkerClock { worker: "w".into(), began: reading, ended: reading };
        let crossed = Some(Crossed { deliveries: 3, within: Nanos(9) });
        LevelClocks { clocks: vec![clock], crossed: vec![None, crossed] }
    }

    /// Every kind of message.
    fn all() -> Vec<Message> {
        let timeline = Timeline {
            level: 2,
            start: Nanos(-5),
            hold_start: Nanos(1_000_000_007),
            hold_end: Nanos(9_000_000_000),
            samples: 30,
            cut: Some(Nanos(77)),
        };
        let share = Share { index: 3, of: 7, first: 11 };
        let clients = Clients { kind: ClientKind::Subscribers, share, from: 13, to: u32::MAX };
        let end =
            LevelEnd { index: 2, connected: 4, incident: Some("a \"word\"".into()), ..LevelEnd::default() };
        let commands = [
            Command::Connect { clients, start: Nanos(4), gap: Nanos(5), awaited: true },
            Command::Release(Clients { kind: ClientKind::Devices, ..clients }),
            Command::Run {
                timeline,
                level: LevelPlan::Rate(0.1 + 0.2),
                messages: Some(u64::MAX),
                drain_end: Nanos(8),
            },
            Command::Run {
                timeline,
                level: LevelPlan::Devices { devices: 5, rate: 1e-300 },
                messages: None,
                drain_end: Nanos(8),
            },
            Command::Flush,
            Command::PassOn,
            Command::Close,
            Command::Stop,
        ];
        let replies = [
            Reply::Ready(5),
            Reply::AllReady,
            Reply::ConnectFailed { reason: "no".into(), tried_again: true },
            Reply::ConnectRepeated("again".into()),
            Reply::Part(Box::new(some_part())),
            Reply::Messages(vec![record(); 3]),
            Reply::Drained,
            Reply::Flushed,
            Reply::PassedOn,
            Reply::Closed(1, Box::new(end)),
            Reply::Stopped,
            Reply::Halted("why".into()),
            Reply::Lost("gone".into()),
            Reply::Clocks(Box::new(some_clocks())),
        ];
        let prepare = Prepare {
            run: RunId::from_bits(99).to_string(),
            version: "1".into(),
            source: Source {
                arguments: vec!["a.yaml".into()],
                scenario: Some("name: a".into()),
                ..Source::default()
            },
            digest: "d".into(),
            stands: vec![vec![Stand::of_all(2), Stand { devices: 1, subscribers: 0, queriers: 3 }]],
            peers: vec![Peer { process: ProcessId(3), shares_clock: true }],
            place: 0,
        };
        let listens = SocketAddr::from(([192, 0, 2, 1], 1883));
        let deliveries =
            vec![
                Delivery { device: 1, sequence: 2, subscriber: 3, at: Nanos(-4), content: 5, partition: 6 };
                100
            ];
        let mut all = vec![
            Message::Prepare(Box::new(prepare)),
            Message::Prepared(Err("no room".into())),
            Message::Prepared(Ok(Prepared { warnings: vec!["w".into()], host: BTreeMap::new() })),
            Message::Begin(Begin { addresses: Vec::new(), epoch: -3 }),
            Message::Begun(Ok(())),
            Message::Give(Give { population: 0, values: vec![(0, 1, 2, "v".into())] }),
            Message::Token("secret".into()),
            Message::Clock(i64::MIN),
            Message::Gone(ProcessId(4)),
            Message::End,
            Message::TokenRefused,
            Message::Crossed(vec![Crossing { from: ProcessId(5), population: 1, deliveries: 6 }]),
            Message::Reserve(Reserve { components: vec!["broker".into()], mqtt5: true }),
            Message::Reserved(Ok(BTreeMap::from([("mqtt".into(), listens)]))),
            Message::Reserved(Err("no".into())),
            Message::Start(StartComponent {
                component: "broker".into(),
                known: BTreeMap::from([("db".into(), listens)]),
            }),
            Message::Started(Ok(Some("broker 2.1".into()))),
            Message::Report(Report::Used(ComponentUsage {
                cpu: Nanos(7),
                rss: 9,
                ..ComponentUsage::default()
            })),
            Message::Report(Report::Died(DeathRecord {
                component: "broker".into(),
                ..DeathRecord::default()
            })),
            Message::Capture(Some(PacketOrder {
                interface: "any".into(),
                filter: "port 1883".into(),
                limit: u64::MAX,
            })),
            Message::Capture(None),
            Message::Capturing(Err("no right to it".into())),
            Message::Collect,
            Message::Collected(Box::new(Collected {
                captures: 2,
                has_keys: true,
                logs: vec!["broker".into()],
                packets: 7,
                dropped: Some(1),
                wrapped: true,
                died: Some((Nanos(3), "the disk is full".into())),
                ends: vec![OwnedEnd {
                    address: listens,
                    from: Nanos(i64::MIN),
                    until: Nanos(i64::MAX),
                    owner: "broker".into(),
                }],
            })),
            Message::FilePart(1, vec![0, 255, 10]),
            Message::FilePart(2, Vec::new()),
            Message::Receipts(3, deliveries),
            Message::PassedOn(Passed { round: 7, deliveries: vec![(ProcessId(8), 9)] }),
            Message::Expect(Passed { round: 7, deliveries: Vec::new() }),
        ];
        all.extend(commands.map(|command| Message::Order(Order { shard: 4, command })));
        all.extend(replies.map(Message::Reply));
        all
    }

    #[test]
    fn every_message_is_read_as_it_was_written() {
        for message in all() {
            let read = Message::decode(&message.encode()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{message:?}"));
        }
    }

    #[test]
    fn what_is_cut_off_or_goes_on_is_refused() {
        for message in all() {
            let bytes = message.encode();
            for length in 0..bytes.len() {
                assert!(Message::decode(&bytes[..length]).is_err(), "{length} bytes of {message:?}");
            }
            assert!(Message::decode(&[&bytes[..], &[0]].concat()).is_err(), "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, which in 0..50_usize, at: prop::sample::Index, byte: u8) {
            let _ = Message::decode(&bytes);
            let mut mutated = all()[which].encode();
            let place = at.index(mutated.len());
            mutated[place] = byte;
            let _ = Message::decode(&mutated);
        }
    }
}
