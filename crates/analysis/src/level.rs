//! What is told of one level.

mod blame;
mod inference;
pub mod times;

pub use blame::{Blame, Culprit};
pub use inference::{Inference, PublishCause, Rise, TotalCause};
pub use times::Times;

use crate::achieved::Achieved;
use crate::clocks::{ClockSummary, CrossedSummary};
use crate::curve::CurveSummary;
use crate::event_life::EventLife;
use crate::faults::FaultSummary;
use crate::generator::Generator;
use crate::management::ManagementSummary;
use crate::sizes::SizesSummary;
use crate::stall::Stall;
use crate::starvation::Starved;
use crate::time_summary::{DifferenceSummary, TimeSummary};
use crate::wire::WireSummary;
use plimsoll_model::objective::Objective;
use plimsoll_model::record::{DeathRecord, FirstLoss};
use plimsoll_model::{LevelIndex, Load, Metric, Validity};
use plimsoll_stats::student::mean_interval;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// A level's result.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LevelSummary {
    /// The level's number within the run.
    pub index: LevelIndex,
    /// What it asks for.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "LoadKeys"))]
    pub load: Load,
    /// Of those devices, the ones connected when the level ended; null where the level connects none.
    pub connected: Option<u32>,
    /// Devices that the level began to connect.
    pub connects: u64,
    /// Attempts to connect that failed.
    pub connect_failed: u64,
    /// Resident memory of the platform's components at the end of the hold, in bytes; null where it is not known.
    pub platform_memory: Option<u64>,
    /// Processors that its components used in the hold, 1 for a whole one; null where they could not be read.
    pub platform_cpu: Option<f64>,
    /// Operations per second completed within the hold.
    pub achieved: Option<f64>,
    /// 95 % interval of the share of what was due that the platform kept up with, by the growth of its times, the luck of the
    /// hold's edges left out; null with fewer than four samples.
    pub achieved_ci95: Option<[f64; 2]>,
    /// The verdict on the level.
    pub verdict: LevelVerdict,
    /// Why it is not met, most weighty first.
    pub reasons: Vec<String>,
    /// Whose limit the level met.
    #[cfg_attr(
        feature = "schema",
        schemars(
            with = "String",
            extend("enum" = ["valid", "generator_bound", "receiver_bound", "host_bound", "clock_bound", "interrupted"])
        )
    )]
    pub validity: Validity,
    /// Whether the level came to its planned end; what an unfinished one counts is what was stored.
    pub finished: bool,
    /// Length of the hold, in seconds.
    pub hold: f64,
    /// Messages after which the hold was to end; absent where it ends by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Messages due in the hold.
    pub due: u64,
    /// Messages handed to the kernel.
    pub sent: u64,
    /// Messages not sent when the drain ended.
    pub unsent: u64,
    /// Of the unsent, those that the generator never took up.
    pub never_ready: u64,
    /// Messages sent that nothing proves to have arrived: neither acknowledged nor delivered to anybody, nor followed by an
    /// answer on their connection.
    pub unproved: u64,
    /// Messages acknowledged; null at QoS 0.
    pub acknowledged: Option<u64>,
    /// Messages refused by the platform with a reason code.
    pub refused: u64,
    /// Messages sent again after an answer that asks for it, or by a device that retries, each time counted.
    pub repeated: u64,
    /// Acknowledgements of messages that were at their end already: they answer an attempt that nobody awaited any more.
    pub acknowledged_again: u64,
    /// Requests sent again because no acknowledgement came, where the protocol itself does that (CoAP), each time
    /// counted.
    pub retransmitted: u64,
    /// One per sent message and matching subscriber.
    pub expected_deliveries: u64,
    /// Expected deliveries that came before the drain ended.
    pub delivered: u64,
    /// Expected deliveries that came after it.
    pub late: u64,
    /// Expected deliveries replaced by newer ones as the delivery contract allows.
    pub superseded: u64,
    /// Expected deliveries that never came.
    pub lost: u64,
    /// Of the lost, those of messages that the platform had acknowledged: it took responsibility. Null where that is not known: at
    /// QoS 0, and in runs of earlier versions.
    pub lost_acknowledged: Option<u64>,
    /// Of the lost, those of messages that were never acknowledged; null as above.
    pub lost_unacknowledged: Option<u64>,
    /// Deliveries beyond the first of a message to a subscriber.
    pub duplicated: u64,
    /// Why duplicates are legal here; null where they are violations.
    pub duplicates_legal: Option<String>,
    /// First deliveries behind a newer message of the same device.
    pub reordered: u64,
    /// Deliveries without this run's marker.
    pub foreign: u64,
    /// Acknowledgements that nothing in flight awaited: of an unknown packet id, second ones (MQTT).
    pub unknown_acks: u64,
    /// Deliveries of this run flagged as retained.
    pub retained: u64,
    /// Deliveries of wills.
    pub wills: u64,
    /// Connections lost.
    pub disconnected: u64,
    /// Connections made again.
    pub reconnects: u64,
    /// Where losses began.
    #[serde(serialize_with = "first_loss")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<FirstLossSummary>"))]
    pub first_loss: Option<FirstLoss>,
    /// What happened to the platform, for people.
    pub incident: Option<String>,
    /// The component that ended by itself in the level; null where none did.
    #[serde(serialize_with = "death")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DeathSummary>"))]
    pub death: Option<DeathRecord>,
    /// For how long Plimsoll itself stood still in the level, in seconds.
    pub stood_still: f64,
    /// Share of the hold in which processes outside the platform held the processor of the component that they kept waiting
    /// most; null where that could not be read.
    pub held_by_others: Option<f64>,
    /// When nothing was completed although much was due, for people; null where there was no such time.
    pub stall: Option<String>,
    /// How the times fell while the platform was still warming up, for people; null where they did not.
    pub warming: Option<String>,
    /// The times that are measured, by metric.
    #[serde(flatten)]
    pub times: Times,
    /// Northbound queries due in the hold.
    pub queries: u64,
    /// Of them, those that were answered as the profile expects.
    pub queries_answered: u64,
    /// Of them, those that were refused, or whose connection was lost.
    pub queries_failed: u64,
    /// Publish time minus subscribe time of the message's first delivery; null where no message had both.
    #[serde(serialize_with = "observed_difference")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DifferenceSummary>"))]
    pub publish_minus_subscribe: DifferenceSummary,
    /// First message of the hold sent to last one acknowledged (at QoS 0: sent), in seconds.
    pub total_time: Option<f64>,
    /// Content bytes of acknowledged messages divided by their publish time from send, in bytes per second.
    pub goodput: Option<f64>,
    /// Content bytes delivered per second of the hold.
    pub delivered_bytes_per_second: Option<f64>,
    /// Mean content size of a message.
    pub marshalled_size: Option<f64>,
    /// Mean size of a message as protocol packet.
    pub publication_size: Option<f64>,
    /// What messages weigh part by part, and what the network carried for them.
    pub sizes: SizesSummary,
    /// Payload bytes handed to the kernel on all connections in hold and drain.
    pub bytes_sent: u64,
    /// Payload bytes read on all connections in hold and drain.
    pub bytes_received: u64,
    /// Whether less than 99 % of what was due was achieved: times then have no mean.
    pub overload: bool,
    /// Growth of the number of operations due but not completed, per second.
    pub backlog_slope: Option<f64>,
    /// The longest outage of the level, in seconds: the time until all clients were back; null where none was lost, or
    /// any was still away when the level was closed.
    pub recovery: Option<f64>,
    /// Clients that lost their connection in the hold or the drain, where a storm is planned from the storm on, each
    /// counted once; null where that was not recorded.
    pub clients_lost: Option<u32>,
    /// Of those, the ones that were connected when the level was closed.
    pub clients_back: Option<u32>,
    /// Clients lost earlier that were still away when the level was closed.
    pub clients_away_before: Option<u32>,
    /// Messages sent again, by cause: the status of the answer that asked for it, `connection lost`, or `no answer in time`.
    pub retries: BTreeMap<String, u64>,
    /// Where events spent their lives, where a gateway polls for them.
    pub event_life: Option<EventLife>,
    /// Who is to blame that the level was not met; null where it was met or not finished.
    pub blame: Option<Blame>,
    /// Why times rose from the lowest level to this one; null for the lowest itself and for what was not measured to its
    /// end.
    pub inference: Option<Inference>,
    /// What connections cost below MQTT; where the level connects devices, also before the hold.
    pub wire: WireSummary,
    /// Device management beside messages; null where devices are not managed.
    pub management: Option<ManagementSummary>,
    /// The load generator's own health.
    pub generator: Generator,
    /// Boxplot of the publish time, in seconds.
    pub publish_boxplot: Option<BoxplotSummary>,
    /// Boxplot of the subscribe time, in seconds.
    pub subscribe_boxplot: Option<BoxplotSummary>,
    /// Boxplot of the time of northbound queries, in seconds.
    pub query_boxplot: Option<BoxplotSummary>,
    /// Completed operations per second of each sample; null for a sample that was not taken.
    pub achieved_samples: Vec<Option<f64>>,
    /// What went wrong in it on purpose, in the order of time; absent where nothing was planned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub faults: Vec<FaultSummary>,
    /// What was offered and done along a curve, of whose load `offered` is the mean; absent of a level of one load.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub curve: Option<CurveSummary>,
    /// Whether it was run again on the way down; absent where it was not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub falling: bool,
    /// How the clocks of workers stood to the coordinator's; absent where all read that one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub clocks: Vec<ClockSummary>,
    /// Deliveries of which one clock saw the sending and another one the arrival; absent where there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub crossed: Option<CrossedSummary>,
    /// Each population by itself, in their order; absent in a run of one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub populations: Vec<PopulationLevel>,
    /// The times that quantile objectives are judged by where they differ from those above: what never came to its end
    /// counts as [`crate::censored::NEVER`].
    #[serde(skip)]
    pub with_censored: BTreeMap<Metric, TimeSummary>,
    /// What the objective `achieved` is judged by.
    #[serde(skip)]
    pub achievement: Achieved,
    /// The same silence, for whoever looks for its reason.
    #[serde(skip)]
    pub silence: Option<Stall>,
    /// The component that processes outside the platform kept waiting most.
    #[serde(skip)]
    pub starved: Option<Starved>,
    /// Whether a longer hold, or another one, could decide what this one left open.
    #[serde(skip)]
    pub is_worth_again: bool,
}

/// The keys of a load.
#[cfg(feature = "schema")]
#[derive(JsonSchema)]
#[expect(dead_code, reason = "for the schema alone")]
struct LoadKeys {
    /// Operations per second asked for; null in the closed model.
    offered: Option<f64>,
    /// Operations kept in flight; null in the open model.
    in_flight: Option<u32>,
    /// Devices that the level connects; null where all are connected before the first level.
    devices: Option<u32>,
    /// Connections begun per second, where levels differ in that; else null.
    connect_rate: Option<f64>,
}

/// A level of one of several populations.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PopulationLevel {
    /// The population.
    pub name: String,
    /// What its devices speak.
    pub protocol: String,
    /// How many devices it has.
    pub devices: u32,
    /// The number of the first of them.
    pub first_device: u32,
    /// The site or the worker at which they stand; absent where they stand at all workers, or on one host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub at: Option<String>,
    /// Its figures, as if it had been alone; of the platform and of the host, what they say of the whole level.
    pub figures: Box<LevelSummary>,
}

/// A component that ended by itself.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct DeathSummary {
    /// Which.
    component: String,
    /// How, as the operating system says it.
    status: String,
    /// When it was noticed, in seconds from the beginning of the run.
    at: f64,
    /// The end of its output; empty where there is none.
    last_words: String,
}

fn death<S: Serializer>(death: &Option<DeathRecord>, serializer: S) -> Result<S::Ok, S::Error> {
    let summary = death.clone().map(|death| DeathSummary {
        component: death.component,
        status: death.status,
        at: death.at.as_secs_f64(),
        last_words: death.last_words,
    });
    summary.serialize(serializer)
}

/// The message that was due first of those that were lost.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct FirstLossSummary {
    /// The device that sent it.
    device: u32,
    /// Its sequence within its device, from 0 over the whole run.
    sequence: u32,
    /// Its number among those that its device had due in the hold, from 1.
    message_number: u64,
    /// When it was due, in seconds from the beginning of the hold.
    due_in_hold: f64,
}

fn first_loss<S: Serializer>(loss: &Option<FirstLoss>, serializer: S) -> Result<S::Ok, S::Error> {
    let summary = loss.map(|loss| FirstLossSummary {
        device: loss.device,
        sequence: loss.sequence,
        message_number: loss.message_number,
        due_in_hold: loss.due_in_hold.as_secs_f64(),
    });
    summary.serialize(serializer)
}

/// A difference that was never observed does not exist: null.
fn observed_difference<S: Serializer>(time: &DifferenceSummary, serializer: S) -> Result<S::Ok, S::Error> {
    (time.n > 0).then_some(time).serialize(serializer)
}

/// A boxplot in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct BoxplotSummary {
    /// The lowest observation within 1.5 interquartile ranges of the box.
    pub lower_whisker: f64,
    /// First quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub p75: f64,
    /// The highest observation within 1.5 interquartile ranges of the box.
    pub upper_whisker: f64,
    /// Observations beyond the whiskers.
    pub outliers: u64,
    /// The largest observation.
    pub max: f64,
}

/// The verdict on a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LevelVerdict {
    /// Every objective is met.
    Met,
    /// An objective is missed.
    Missed,
    /// The measurement is too short to decide.
    Undecided,
    /// The generator, a receiver, the host or the clocks of workers were the limit.
    Invalid,
    /// The run ended within the level.
    #[default]
    Unfinished,
}

impl LevelVerdict {
    /// The name in the summary.
    pub fn name(self) -> &'static str {
        match self {
            LevelVerdict::Met => "met",
            LevelVerdict::Missed => "missed",
            LevelVerdict::Undecided => "undecided",
            LevelVerdict::Invalid => "invalid",
            LevelVerdict::Unfinished => "unfinished",
        }
    }
}

impl LevelSummary {
    /// The population that an objective looks at; `None` where it looks at all together.
    pub fn population_of(&self, objective: &Objective) -> Option<&PopulationLevel> {
        self.populations.iter().find(|own| Some(&own.name) == objective.population.as_ref())
    }

    /// What an objective looks at: the level, or one of its populations.
    pub fn about(&self, objective: &Objective) -> &LevelSummary {
        self.population_of(objective).map_or(self, |own| &own.figures)
    }

    /// Messages sent that were neither acknowledged nor refused, of those that would have been acknowledged; none where none are.
    pub fn unacknowledged(&self) -> u64 {
        if !self.populations.is_empty() {
            return self.populations.iter().map(|own| own.figures.unacknowledged()).sum();
        }
        self.acknowledged.map_or(0, |acknowledged| self.sent.saturating_sub(acknowledged + self.refused))
    }

    /// Connected when the level ended / devices of the level.
    pub fn connected_ratio(&self) -> Option<f64> {
        Some(f64::from(self.connected?) / f64::from(self.load.devices().filter(|&devices| devices > 0)?))
    }

    /// The 95 % interval of the achieved load, from the samples that were taken.
    pub fn achieved_interval(&self) -> Option<[f64; 2]> {
        let taken: Vec<f64> = self.achieved_samples.iter().copied().flatten().collect();
        mean_interval(&taken).map(|interval| [interval.lo.max(0.0), interval.hi])
    }

    /// Whether every objective is met.
    pub fn is_met(&self) -> bool {
        self.verdict == LevelVerdict::Met
    }

    /// Why the level is not met, in one line.
    pub fn why(&self) -> String {
        let reasons =
            if self.reasons.is_empty() { self.verdict.name().to_owned() } else { self.reasons.join("; ") };
        match self.verdict {
            LevelVerdict::Invalid => format!("{}: {reasons}", self.validity.in_words()),
            _ => reasons,
        }
    }

    /// Delivered / (due x receivers - superseded): what the delivery contract lets the platform leave out is not owed.
    pub fn delivered_ratio(&self) -> Option<f64> {
        if self.due == 0 {
            return None;
        }
        // Unsent messages would have had as many receivers as the sent ones on average.
        let expected = self.expected_deliveries as f64 * self.due as f64 / self.sent.max(1) as f64;
        let owed = expected - self.superseded as f64;
        Some(if owed == 0.0 { 0.0 } else { self.delivered as f64 / owed })
    }

    /// Whether a client lost its connection, or one that was lost earlier stayed away, and it is known which.
    pub fn has_outages(&self) -> bool {
        self.clients_away_before.is_some_and(|away| away > 0 || self.disconnected > 0)
    }

    /// Completed within the hold / due in it.
    pub fn achieved_ratio(&self) -> Option<f64> {
        (self.due > 0).then(|| self.achieved.unwrap_or(0.0) * self.hold / self.due as f64)
    }
}

/// What the hold of a level is called among the phases of a run.
pub fn phase(start: &plimsoll_model::record::LevelStart) -> String {
    format!("level {} ({})", usize::from(start.index) + 1, start.load)
}
