//! What a capture says: who called whom and how long that took, what traces messages left, and where they were lost.

mod asking;
mod course;
mod errors;
mod names;
mod stalls;
mod tls;
mod traces;

pub use asking::Occupation;
pub use errors::ErrorSummary;
pub use stalls::StallSummary;
pub use tls::TlsSummary;
pub use traces::{
    ComponentLosses, LostMessage, MessageSummary, PathStep, ResidenceSummary, TraceSummary, last_seen,
};

use plimsoll_capture::component::{Components, Party};
use plimsoll_capture::marker::{MessageId, Search};
use plimsoll_capture::phases::Phases;
use plimsoll_capture::pipeline::Dissected;
use plimsoll_capture::tally::{Counted, Service};
use plimsoll_capture::times::Times;
use plimsoll_capture::traces::Traces;
use plimsoll_model::Nanos;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What devices, subscribers and whoever else stands outside the platform are called.
pub const OURSELVES: &str = "plimsoll";

/// Version of the form of [`DissectionSummary`].
const SCHEMA: u32 = 1;

/// The whole result. Times in seconds, sizes in bytes; null where a thing does not exist.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct DissectionSummary {
    /// Version of this form.
    pub schema: u32,
    /// The files, in the order in which they were read.
    pub files: Vec<FileSummary>,
    /// Packets in them.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Of those, bytes that the capture holds.
    pub captured_bytes: u64,
    /// Bytes of content of TCP and UDP, each once.
    pub content_bytes: u64,
    /// From the first packet to the last.
    pub duration: f64,
    /// TCP segments that were sent again.
    pub retransmissions: u64,
    /// Their delays.
    pub retransmission_delay: TimesSummary,
    /// Packets that stand in the capture more than once; they count once.
    #[serde(rename = "copies")]
    pub duplicate_packets: u64,
    /// Packets that were captured or came in another order.
    pub reordered: u64,
    /// Bytes that were acknowledged and are not in the capture.
    pub missing_bytes: u64,
    /// Packets that were cut off when they were captured.
    pub cut_packets: u64,
    /// Packets of neither TCP nor UDP over IP, or with broken headers.
    pub other_packets: u64,
    /// Fragments of IP packets, and those whose packet was never whole.
    pub fragments: u64,
    /// Of those, in packets that were never whole.
    pub lost_fragments: u64,
    /// Packets with a wrong checksum. Where the capturing host leaves checksums to its network card, all it sends has.
    pub bad_checksums: u64,
    /// Times at which the clock of the capture went back.
    pub clock_steps: u64,
    /// Times at which a receiver said that it had no space left.
    pub zero_windows: u64,
    /// Bytes of known protocols that were not understood: behind a hole or a breach.
    pub skipped_bytes: u64,
    /// Conversations that were given up to bound memory.
    pub evicted: u64,
    /// Conversations under TLS.
    pub tls: TlsSummary,
    /// Passages of messages that were too many to be followed.
    #[serde(rename = "untold_passages")]
    pub untold_edges: u64,
    /// By protocol.
    pub protocols: BTreeMap<String, ProtocolSummary>,
    /// What was not understood, and how often.
    pub malformed: Vec<Malformed>,
    /// Who called whom, the most requests first.
    pub services: Vec<ServiceSummary>,
    /// Messages with a marker.
    pub messages: MessageSummary,
    /// Lost messages, by the component that had them last.
    pub losses_by_component: BTreeMap<String, u64>,
    /// Some of the lost ones.
    pub lost: Vec<LostMessage>,
    /// Messages that came to subscribers more often than they should, by the component that first passed them on once more.
    pub duplicates_by_component: BTreeMap<String, u64>,
    /// Errors, by who answered so first, the most first.
    pub errors: Vec<ErrorSummary>,
    /// When a component stood still.
    pub stalls: Vec<StallSummary>,
    /// Ways and stays, by phase of the run; one without a name where there are no phases.
    pub phases: Vec<PhaseSummary>,
    /// What stands between the capture and the truth, for people.
    pub notes: Vec<String>,
}

impl DissectionSummary {
    /// What stands between the capture and the truth, for people.
    pub fn doubts(&self) -> Vec<String> {
        let unknown: u64 = self.protocols.values().map(|protocol| protocol.unknown).sum();
        let unexpected: u64 = self.protocols.values().map(|protocol| protocol.unexpected).sum();
        let counts = [
            (self.missing_bytes, "bytes were acknowledged and are not in the capture"),
            (unknown, "requests have answers that may lie where the capture has holes"),
            (unexpected, "responses answer no request that was seen"),
            (self.cut_packets, "packets were cut off when they were captured"),
            (self.duplicate_packets, "packets stand in the capture more than once and count once"),
            (self.reordered, "packets came in another order"),
            (self.zero_windows, "times a receiver had no space left"),
            (self.lost_fragments, "fragments belong to packets that were never whole"),
            (self.other_packets, "packets are neither TCP nor UDP over IP, or broken"),
            (self.clock_steps, "times the clock of the capture went back"),
            (self.skipped_bytes, "bytes of known protocols were not understood"),
            (self.evicted, "conversations were given up to bound memory"),
            (self.messages.under_way, "marked messages may have been under way at the end"),
            (self.messages.given_up, "marked messages were not followed to their end"),
            (
                self.messages.unseen,
                "passages of marked messages are not in the capture, though they went on behind",
            ),
            (self.untold_edges, "passages were too many to be followed"),
        ];
        let mut doubts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, text)| format!("{count} {text}"))
            .collect();
        doubts.extend(self.tls.doubts());
        doubts.extend(
            self.malformed
                .iter()
                .map(|one| format!("{} times {} broke off: {}", one.count, one.protocol, one.reason)),
        );
        for file in &self.files {
            if file.cut {
                doubts.push(format!("{}: its last record is cut short", file.path));
            }
            doubts.extend(
                file.garbage.iter().map(|garbage| format!("{}: reading ended at {garbage}", file.path)),
            );
            doubts.extend(file.error.iter().map(|error| format!("{}: {error}", file.path)));
        }
        doubts.extend(self.notes.iter().cloned());
        doubts
    }
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct FileSummary {
    /// Its path.
    pub path: String,
    /// Whether its last record is cut short.
    pub cut: bool,
    /// What stands where a record should be, and where.
    pub garbage: Option<String>,
    /// Why it could not be read to its end, and where.
    pub error: Option<String>,
}

/// What was counted of a protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct ProtocolSummary {
    /// Requests of either side.
    pub requests: u64,
    /// Those that were answered, errors included.
    pub responses: u64,
    /// Those that were not.
    pub unanswered: u64,
    /// Those answered with an error.
    pub errors: u64,
    /// Those that ask for no answer.
    pub one_way: u64,
    /// Those whose answer may lie in a hole of the capture.
    pub unknown: u64,
    /// Responses without a request.
    pub unexpected: u64,
    /// Messages that are neither.
    pub notices: u64,
    /// Stretches that were not understood.
    pub malformed: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// By verb.
    pub by_verb: BTreeMap<String, VerbSummary>,
    /// By status of the response.
    pub by_status: BTreeMap<String, u64>,
}

/// What was counted of a verb.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct VerbSummary {
    /// Requests, or messages that are none.
    pub count: u64,
    /// Of those, answered with an error.
    pub failed: u64,
    /// Of those, not answered.
    pub unanswered: u64,
    /// Median response time.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
}

/// A reason why something was not understood.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct Malformed {
    /// What should have been spoken.
    pub protocol: String,
    /// The reason.
    pub reason: String,
    /// How often.
    pub count: u64,
}

/// Spans of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct TimesSummary {
    /// How many.
    pub n: u64,
    /// Their mean.
    pub mean: Option<f64>,
    /// First quartile.
    pub p25: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// Third quartile.
    pub p75: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// Ends of a boxplot's whiskers.
    pub whiskers: Option<[f64; 2]>,
    /// Beyond them.
    pub outliers: u64,
}

impl TimesSummary {
    /// Of those.
    pub fn of(times: &Times) -> TimesSummary {
        let sorted = times.sorted();
        let n: u64 = sorted.iter().map(|(_, count)| count).sum();
        let (Some((max, _)), true) = (sorted.last(), n > 0) else { return TimesSummary::default() };
        let at = |q: f64| {
            let rank = ((q * n as f64).ceil() as u64).max(1);
            let mut before = 0;
            sorted.iter().find(|(_, count)| {
                before += count;
                before >= rank
            })
        };
        let seconds = |q: f64| at(q).map(|(span, _)| span.as_secs_f64());
        let (p25, p75) = (seconds(0.25), seconds(0.75));
        // Tukey's whiskers: to the last observation within 1.5 box lengths.
        let (low, high) = (p25.unwrap_or(0.0), p75.unwrap_or(0.0));
        let reach = 1.5 * (high - low);
        let within = |span: &Nanos| (low - reach..=high + reach).contains(&span.as_secs_f64());
        let inside = || sorted.iter().filter(|(span, _)| within(span));
        let ends = [inside().next(), inside().next_back()].map(|end| end.map(|(span, _)| span.as_secs_f64()));
        TimesSummary {
            n,
            mean: Some(times.sum() / n as f64),
            p25,
            p50: seconds(0.5),
            p75,
            p99: seconds(0.99),
            max: Some(max.as_secs_f64()),
            whiskers: match ends {
                [Some(lower), Some(upper)] => Some([lower, upper]),
                _ => None,
            },
            outliers: n - inside().map(|(_, count)| count).sum::<u64>(),
        }
    }
}

/// Who called whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct ServiceSummary {
    /// Who called.
    pub client: String,
    /// Who was called.
    pub server: String,
    /// In what.
    pub protocol: String,
    /// Requests of either side.
    pub count: u64,
    /// Those that were not answered.
    pub unanswered: u64,
    /// Those answered with an error.
    pub errors: u64,
    /// Conversations.
    pub conversations: u64,
    /// Median response time.
    pub p50: Option<f64>,
    /// 99th percentile of the response times.
    pub p99: Option<f64>,
    /// From the last byte of a request to the last of its response.
    pub response_time: TimesSummary,
    /// From the last byte of a request to the first of its response.
    pub first_byte_time: TimesSummary,
    /// From a segment to its acknowledgement, as seen where it was captured.
    pub round_trip: TimesSummary,
    /// Bytes of content that the client sent.
    pub bytes_sent: u64,
    /// Bytes of content that it received.
    pub bytes_received: u64,
    /// Segments sent again by the client.
    pub retransmitted_by_client: u64,
    /// Segments sent again by the server.
    pub retransmitted_by_server: u64,
    /// Bytes in each second: second since 1970, sent, received.
    pub seconds: Vec<(i64, u64, u64)>,
}

/// A phase of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct PhaseSummary {
    /// Its name, empty where a capture has no phases.
    pub name: String,
    /// Whether the run measures in it: the hold of a level, or a capture without phases.
    pub measured: bool,
    /// Who called whom in it.
    pub services: Vec<ServiceSummary>,
    /// The ways of its messages.
    #[serde(rename = "ways")]
    pub traces: TraceSummary,
    /// Who was occupied by itself, and who waited for others; empty where that is not known.
    pub occupations: Vec<Occupation>,
}

/// What the ledger of a run knows of its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Those that some subscriber lacked.
    pub lost: BTreeSet<MessageId>,
    /// How many subscribers each message was for; `None` where that differs.
    pub receivers: Option<u32>,
}

/// Makes the summary, of a run with its ledger.
pub fn summarize(
    dissected: &Dissected,
    paths: &[String],
    traces: &Traces,
    components: &Components,
    phases: &Phases,
    search: &Search,
    ledger: Option<&Ledger>,
) -> DissectionSummary {
    let counts = &dissected.counts;
    let mut services = dissected.tally.services();
    let mut whole = Counted::default();
    services.iter().for_each(|(_, counted)| whole.merge(counted));
    // Of a connection that was opened and said nothing there is nothing to tell.
    services.retain(|(_, counted)| {
        counted.requests + counted.notices + counted.malformed + counted.bytes.iter().sum::<u64>() > 0
    });
    let numbers: BTreeSet<u16> = services.iter().map(|(service, _)| service.phase).collect();
    let told = traces::tell(traces, components, search, ledger);
    let span = dissected.first.zip(dissected.last);
    // A capture without phases is one.
    let length_of = |number: u16| match phases.get(number) {
        Some(_) => phases.length(number).map(Nanos::as_secs_f64),
        None => span.map(|(first, last)| (last - first).as_secs_f64()),
    };
    let traces_of = |number: u16| {
        let mut traces = told.phases.get(&number).cloned().unwrap_or_default();
        let asking = asking::asking(&dissected.tally.pulse, phases, number, components);
        for residence in &mut traces.residences {
            residence.asks = asking.get(&residence.component).copied();
            let mean = residence.times.mean.filter(|_| residence.times.n > 0);
            let length = length_of(number).filter(|length| *length > 0.0);
            residence.present =
                mean.zip(length).map(|(mean, length)| residence.times.n as f64 / length * mean);
        }
        traces
    };
    let phase_summary = |number: u16| PhaseSummary {
        name: phases.get(number).map(|phase| phase.name.clone()).unwrap_or_default(),
        measured: phases.get(number).is_none_or(|phase| phase.measured),
        services: services_of(
            services.iter().filter(|(service, _)| service.phase == number).copied(),
            components,
        ),
        traces: traces_of(number),
        occupations: asking::occupations(&dissected.tally.pulse, phases, number, components),
    };
    let mut malformed: Vec<Malformed> = dissected
        .tally
        .malformed
        .iter()
        .map(|((protocol, reason), &count)| Malformed {
            protocol: protocol.name().into(),
            reason: (*reason).into(),
            count,
        })
        .collect();
    malformed.sort_by(|one, other| {
        (other.count, &one.protocol, &one.reason).cmp(&(one.count, &other.protocol, &other.reason))
    });
    DissectionSummary {
        schema: SCHEMA,
        files: files(dissected, paths),
        packets: counts.packets,
        bytes: counts.bytes,
        captured_bytes: counts.captured,
        content_bytes: whole.bytes.iter().sum(),
        duration: match (dissected.first, dissected.last) {
            (Some(first), Some(last)) => (last - first).as_secs_f64(),
            _ => 0.0,
        },
        retransmissions: whole.retransmissions.iter().sum(),
        retransmission_delay: TimesSummary::of(&whole.retransmission_delays),
        duplicate_packets: dissected.tally.duplicate_packets,
        reordered: dissected.tally.reordered,
        missing_bytes: whole.missing,
        cut_packets: counts.cut,
        other_packets: counts.others,
        fragments: counts.fragments,
        lost_fragments: counts.lost_fragments,
        bad_checksums: counts.bad_checksums,
        clock_steps: counts.clock_steps,
        zero_windows: whole.zero_windows,
        skipped_bytes: dissected.tally.skipped,
        evicted: dissected.tally.evicted,
        tls: TlsSummary::of(&dissected.tally),
        untold_edges: traces.untold,
        protocols: protocols(&services),
        malformed,
        services: services_of(services.iter().copied(), components),
        messages: told.messages,
        losses_by_component: told.losses,
        lost: told.lost,
        duplicates_by_component: told.duplicates,
        errors: errors::errors(&traces.failures, components),
        stalls: stalls::stalls(&dissected.tally.pulse, components, dissected.first.unwrap_or_default()),
        phases: numbers.into_iter().map(phase_summary).collect(),
        notes: Vec::new(),
    }
}

fn files(dissected: &Dissected, paths: &[String]) -> Vec<FileSummary> {
    let file = |(path, ending): (&String, &plimsoll_capture::source::Ending)| FileSummary {
        path: path.clone(),
        cut: ending.cut,
        garbage: ending.garbage.as_ref().map(|(at, garbage)| format!("{garbage} at byte {at}")),
        error: ending.error.as_ref().map(|(at, error)| format!("cannot be read after byte {at}: {error}")),
    };
    paths.iter().zip(&dissected.endings).map(file).collect()
}

fn protocols(services: &[&(Service, Counted)]) -> BTreeMap<String, ProtocolSummary> {
    let mut sums: BTreeMap<&str, Counted> = BTreeMap::new();
    for (service, counted) in services {
        sums.entry(service.protocol.name()).or_default().merge(counted);
    }
    sums.into_iter().map(|(name, counted)| (name.to_owned(), protocol(&counted))).collect()
}

fn protocol(counted: &Counted) -> ProtocolSummary {
    let verbs = counted.verbs.iter().map(|(label, verb)| {
        let times = TimesSummary::of(&verb.times);
        let (count, failed, unanswered) = (verb.count, verb.failed, verb.unanswered);
        (label.to_string(), VerbSummary { count, failed, unanswered, p50: times.p50, p99: times.p99 })
    });
    ProtocolSummary {
        requests: counted.requests,
        responses: counted.responses,
        unanswered: counted.unanswered,
        errors: counted.errors,
        one_way: counted.one_way,
        unknown: counted.unknown,
        unexpected: counted.unexpected,
        notices: counted.notices,
        malformed: counted.malformed,
        bytes: counted.bytes.iter().sum(),
        by_verb: verbs.collect(),
        by_status: counted.statuses.iter().map(|(status, &count)| (status.to_string(), count)).collect(),
    }
}

/// Phases put together, and parties by their names.
fn services_of<'a>(
    services: impl Iterator<Item = &'a (Service, Counted)>,
    components: &Components,
) -> Vec<ServiceSummary> {
    let mut sums: BTreeMap<(Party, Party, plimsoll_model::wire::WireProtocol), Counted> = BTreeMap::new();
    for (service, counted) in services {
        sums.entry((service.client, service.server, service.protocol)).or_default().merge(counted);
    }
    let mut all: Vec<ServiceSummary> = sums
        .iter()
        .map(|((client, server, protocol), counted)| {
            let response_time = TimesSummary::of(&counted.response_times());
            ServiceSummary {
                client: components.name(client),
                server: components.name(server),
                protocol: protocol.name().into(),
                count: counted.requests,
                unanswered: counted.unanswered,
                errors: counted.errors,
                conversations: counted.conversations,
                p50: response_time.p50,
                p99: response_time.p99,
                response_time,
                first_byte_time: TimesSummary::of(&counted.first_byte_times),
                round_trip: TimesSummary::of(&counted.round_trips),
                bytes_sent: counted.bytes[0],
                bytes_received: counted.bytes[1],
                retransmitted_by_client: counted.retransmissions[0],
                retransmitted_by_server: counted.retransmissions[1],
                seconds: counted
                    .seconds
                    .iter()
                    .map(|(second, [sent, received])| (*second, *sent, *received))
                    .collect(),
            }
        })
        .collect();
    all.sort_by(|one, other| {
        (other.count, &one.server, &one.client).cmp(&(one.count, &other.server, &other.client))
    });
    all
}
