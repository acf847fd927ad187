//! What a run will do, resolved: every default filled in, every conflict excluded. The engine, the platform and
//! the analysis read only this, never the files it came from.

use crate::quantity::{Quantity, Size};
use plimsoll_codec::marker;
use plimsoll_codec::mqtt::QoS;
use plimsoll_model::cost::Cost;
pub use plimsoll_model::objective::{Comparison, Objective, Objectives, Subject};
pub use plimsoll_model::search::SearchTerms;
use plimsoll_model::{ArrivalTrace, LoadCurve, Nanos};
use plimsoll_stats::distribution::{InterArrival, SizeDistribution};
use std::sync::Arc;

pub use crate::address::{Endpoint, Protocol, Wire, protocol_of};
pub use crate::draft::Draft;
pub use crate::protocols::amqp::plan::AmqpPlan;
pub use crate::protocols::amqp1::plan::Amqp1Plan;
pub use crate::protocols::coap::plan::{CoapPlan, DtlsPlan, KeyPlan, ProofPlan, PskPlan};
pub use crate::protocols::gateway::plan::GatewayPlan;
pub use crate::protocols::http::plan::HttpPlan;
pub use crate::protocols::kafka::plan::{Acks, KafkaPlan};
pub use crate::protocols::lwm2m::plan::{BOOTSTRAP_PORT, Change, Lwm2mPlan, ResourcePlan, ValuePlan};
pub use crate::protocols::mqtt::plan::MqttPlan;
pub use crate::protocols::mqtt::session::plan::{SessionPlan, WillPlan};
pub use crate::protocols::nats::plan::{NatsPlan, StreamPlan};
pub use crate::secret::Secret;
pub use balancer::BalancerPlan;
pub use capture::{CapturePlan, WireNetwork, WirePlace};
pub use command::CommandPlan;
pub use connection::{
    ClientIdentity, ConnectionPlan, Identities, Offline, TlsPlan, TransportPlan, WebSocketPlan,
};
pub use engine::{Engine, EnginePlan};
pub use fault::{FaultNeeds, FaultPlan};
pub use metrics::{MetricKind, MetricPlan, MetricsOrigin, MetricsPlan};
pub use platform::{PlatformPlan, RunningPlace, RunningPlan, StatePlan};
pub use plimsoll_template::{CapturedName, Captures, Columns, Each, Escape, Piece, Template, Variables};
pub use population::{PopulationPlan, ReceiversPlan, SharePlan};
pub use quota::QuotaPlan;
pub use relay::{LONGEST_RELAY_DELAY, RelayPlan, SHORTEST_RELAY_PERIOD};
pub use retry::RetryPlan;
pub use roles::{
    AnswerName, AnswerPlan, AnswerTypes, Ask, Capture, CaptureFrom, ControllerProtocol, ControllerRole,
    DeliveryContract, DeviceRole, HttpReceiveRole, ListenerRole, NextPollPlan, NotificationAnswerPlan,
    NotifiedRole, ObservePlan, OpeningPlan, OptionPlan, OptionValue, PollPlan, QueryPlan, ReceiveRole,
    RequestPlan, RolePlan, SaidPlan, ServePlan, SocketIoPlan, StepPlan, UserPlan, WebSocketRole,
};
pub use schedule::{SchedulePlan, TimeOfDay};
pub use sites::SitesPlan;
pub use token::{Grant, TokenEndpoint, TokenPlan};

mod balancer;
mod capture;
mod command;
mod connection;
mod engine;
mod fault;
mod metrics;
mod platform;
mod population;
mod quota;
mod relay;
mod retry;
mod roles;
mod schedule;
mod sites;
mod token;

/// A run of one population, resolved; of several, that of the first, which leads the others.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario's name.
    pub name: String,
    /// Seeds every random number of the run.
    pub seed: u64,
    /// The platform under test.
    pub platform: PlatformPlan,
    /// Which of the run's populations this is.
    pub population: PopulationPlan,
    /// The other populations of the run, where it has several and this is the first. What holds for the run, such as levels,
    /// objectives and what is recorded, is said by the first alone.
    pub others: Vec<Arc<Plan>>,
    /// Simulated publishers.
    pub devices: u32,
    /// How devices and subscribers connect.
    pub connection: ConnectionPlan,
    /// The emulated network between each device and the platform.
    pub link: LinkPlan,
    /// Receivers of deliveries.
    pub subscribers: SubscriberPlan,
    /// How devices and subscribers speak MQTT.
    pub mqtt: MqttPlan,
    /// How devices speak HTTP.
    pub http: HttpPlan,
    /// How devices speak CoAP.
    pub coap: CoapPlan,
    /// How devices speak LwM2M.
    pub lwm2m: Lwm2mPlan,
    /// How devices and subscribers speak AMQP 0-9-1.
    pub amqp: AmqpPlan,
    /// How devices and subscribers speak AMQP 1.0.
    pub amqp1: Amqp1Plan,
    /// How devices and subscribers speak Kafka.
    pub kafka: KafkaPlan,
    /// How devices and subscribers speak NATS.
    pub nats: NatsPlan,
    /// How devices are polled by a gateway.
    pub gateway: GatewayPlan,
    /// What a device sends.
    pub message: MessagePlan,
    /// How much, when and for how long.
    pub load: LoadPlan,
    /// How often and when devices send a message again by themselves; `None` where they do not.
    pub retry: Option<RetryPlan>,
    /// Queries of the platform's users beside the devices' load.
    pub northbound: Option<NorthboundPlan>,
    /// Where its clients stand, if workers have the load.
    pub sites: SitesPlan,
    /// By how much the wall clocks of two hosts differ at most, where the user says so.
    pub clock_bound: Option<Nanos>,
    /// When the run is repeated; `None` for once, at once.
    pub schedule: Option<SchedulePlan>,
    /// What the platform costs; `None` where the scenario has no prices.
    pub cost: Option<Cost>,
    /// What is recorded beside counts and times.
    pub record: RecordPlan,
    /// What the user demands.
    pub objectives: Objectives,
    /// The resolved scenario as YAML, secrets left out: what the run store keeps.
    pub resolved: String,
    /// What the plan was made from, where commands or an engine bring the platform up: see [`Plan::placed`].
    pub draft: Option<Draft>,
}

/// Queries of the platform's users beside the devices' load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NorthboundPlan {
    /// Queries per second.
    pub rate: f64,
    /// Distribution of the gaps.
    pub arrivals: InterArrival,
    /// Connections that they share.
    pub queriers: u32,
}

impl SubscriberPlan {
    /// How many of so many devices each subscriber follows.
    pub fn followed(&self, devices: u32) -> u32 {
        self.devices.unwrap_or(devices).min(devices)
    }

    /// The device that is the one in that place among those that a subscriber follows.
    pub fn follows(&self, subscriber: u32, place: u32, devices: u32) -> u32 {
        let first = u64::from(subscriber) * u64::from(self.followed(devices));
        ((first + u64::from(place)) % u64::from(devices.max(1))) as u32
    }

    /// Whether a subscriber follows a device.
    pub fn is_follower(&self, subscriber: u32, device: u32, devices: u32) -> bool {
        let first = self.follows(subscriber, 0, devices);
        (u64::from(device) + u64::from(devices) - u64::from(first)) % u64::from(devices.max(1))
            < u64::from(self.followed(devices))
    }
}

/// What is recorded beside counts and times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordPlan {
    /// One record for each message.
    pub messages: bool,
    /// The age of the newest value of each device at each subscriber.
    pub freshness: bool,
    /// The network's own round trip; `None` where the platform is on another host.
    pub network: Option<bool>,
    /// Whether nothing reads what components and this host use.
    pub unobserved: bool,
    /// Packets.
    pub capture: Option<CapturePlan>,
    /// Metrics that the platform itself tells: those of the profile, then those of the scenario.
    pub metrics: Vec<MetricsPlan>,
}

impl Plan {
    /// What devices speak: what the profile says, else the platform's address, else MQTT.
    pub fn protocol(&self) -> Protocol {
        self.platform.protocol()
    }

    /// How often and when a message is sent again, by whatever it fails.
    pub fn retries(&self) -> RetryPlan {
        self.retry.unwrap_or_else(|| RetryPlan::by_answer(self.connection.reconnect))
    }

    /// A size that no content of a message exceeds, with what stands around it, in bytes.
    pub fn largest_content(&self) -> u32 {
        let message = &self.message;
        let (marker, feed) = (message.marker.length(), message.feed.as_deref());
        let inner = match &message.content {
            Content::Sized(sizes) => sizes.largest() as usize,
            Content::Template(template) => template.longest_with(marker, 0, feed),
        };
        // The filler behind a marker of text is text, too, and needs no escapes.
        let plain = matches!(message.content, Content::Sized(_)) && message.marker != MarkerForm::Binary;
        let lengths = (inner, if plain { inner } else { 6 * inner });
        let envelope = self.platform.roles.device.envelope.as_ref();
        envelope.map_or(inner, |envelope| envelope.longest_around(marker, lengths, feed)) as u32
    }

    /// What is wrong with messages that are larger than the platform takes, where some may be.
    pub fn oversize(&self) -> Option<String> {
        let (largest, taken) = (self.largest_content(), self.platform.roles.device.largest?);
        (largest > taken).then(|| {
            let name = &self.platform.profile.name;
            let (largest, taken) = (Size(largest).show(), Size(taken).show());
            format!("messages may have {largest}, but a platform of the profile `{name}` takes {taken}")
        })
    }

    /// Whether each message is acknowledged: the platform answers it, or a gateway's log tells of its end.
    pub fn acknowledges(&self) -> bool {
        self.is_answered() || self.platform.reports_stages()
    }

    /// Whether a broker acknowledges what another part of the platform delivers.
    pub fn is_delivered_apart(&self) -> bool {
        let roles = &self.platform.roles;
        let apart = roles.have_receivers() || roles.notified.is_some();
        self.protocol().has_topics() && self.subscribers.count > 0 && roles.device.answer.is_none() && apart
    }
}

/// The load at which a platform is just not overloaded is found by going down from above to what was achieved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrationPlan {
    /// The first level, operations per second.
    pub from: f64,
    /// What must be done in the hold of what was due in it, as a fraction.
    pub done: f64,
    /// Levels at most.
    pub attempts: u16,
}

/// After the levels, or in their place, each part of the platform is slowed in turn, to learn which one limits the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExperimentPlan {
    /// How long it may take.
    pub within: Nanos,
    /// Whether the levels of the scenario are run before.
    pub with_levels: bool,
    /// Operations in flight at most.
    pub most_in_flight: u32,
    /// After this long an operation is given up and the next begins.
    pub timeout: Nanos,
}

/// An emulated network between a client and the platform; without delay and jitter there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkPlan {
    /// Mean delay of one way.
    pub delay: Nanos,
    /// Half width of its even spread.
    pub jitter: Nanos,
}

impl LinkPlan {
    /// Whether anything is delayed.
    pub fn delays(self) -> bool {
        self.delay > Nanos::ZERO || self.jitter > Nanos::ZERO
    }
}

/// The subscribers.
#[derive(Clone, Debug)]
pub struct SubscriberPlan {
    /// How many.
    pub count: u32,
    /// The QoS that they ask for.
    pub qos: QoS,
    /// Topic filters of each, with `{subscriber}` as a possible variable.
    pub filters: Vec<Template>,
    /// The group in which they share what they subscribe to: each message goes to one of them. `None` for subscribers
    /// that each get all.
    pub share: Option<String>,
    /// How many devices each follows, where not all; see [`SubscriberPlan::follows`].
    pub devices: Option<u32>,
    /// Time that a subscriber spends on a message before it reads the next; zero for a fast one.
    pub work: Nanos,
    /// The emulated network between each subscriber and the platform.
    pub link: LinkPlan,
}

/// What a device sends.
#[derive(Clone, Debug)]
pub struct MessagePlan {
    /// The topic of a device's messages over MQTT, with `{run}`, `{device}` and `{sequence}` as possible variables. Over HTTP and CoAP
    /// the request of the device's role has it in its path.
    pub target: Template,
    /// The content.
    pub content: Content,
    /// The form of the marker in it.
    pub marker: MarkerForm,
    /// The rows from which templates take values.
    pub feed: Option<Arc<dyn Columns>>,
}

/// The content of a message.
#[derive(Clone, Debug)]
pub enum Content {
    /// The marker, followed by filler up to a size.
    Sized(SizeDistribution),
    /// A text with variables, one of which is the marker.
    Template(Template),
}

/// The form in which a message carries run, device and sequence (rule 3 of the measurement rules).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerForm {
    /// Ten bytes.
    Binary,
    /// Letters, digits, dot and hyphen.
    Ascii,
    /// A decimal integer below 2^53.
    Integer,
}

impl MarkerForm {
    /// The most bytes that a marker of this form takes: the least size of a message.
    pub fn length(self) -> usize {
        match self {
            MarkerForm::Binary => marker::BINARY_LENGTH,
            MarkerForm::Ascii => marker::ASCII_LENGTH,
            MarkerForm::Integer => marker::INTEGER_LENGTH,
        }
    }
}

/// The name in a scenario.
impl std::fmt::Display for MarkerForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MarkerForm::Binary => "binary",
            MarkerForm::Ascii => "ascii",
            MarkerForm::Integer => "integer",
        })
    }
}

/// How much, when and for how long.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The workload model.
    pub model: Model,
    /// The levels, in the order of running; empty where a search or a calibration chooses them.
    pub levels: Vec<LevelPlan>,
    /// How many of them are of the way up, where the others follow on a way down.
    pub turn: Option<usize>,
    /// How the load of the only level changes in its hold, of which the level has the mean.
    pub curve: Option<LoadCurve>,
    /// The search that chooses the levels.
    pub search: Option<SearchTerms>,
    /// The calibration that chooses the levels.
    pub calibration: Option<CalibrationPlan>,
    /// The experiment that looks for what limits the load.
    pub experiment: Option<ExperimentPlan>,
    /// After so many missed levels in a row no level that is not lower is run; `None` runs all.
    pub stop_after_missed: Option<u16>,
    /// How long listed levels that decided nothing may be held again, all together.
    pub again: Nanos,
    /// Time without load before each level; none where levels are searched.
    pub idle_before: Nanos,
    /// Time without load after the last level.
    pub idle_after: Nanos,
    /// What befalls the platform in each hold.
    pub storm: Option<StormPlan>,
    /// What goes wrong on purpose in the holds, in the order of time.
    pub faults: Vec<FaultPlan>,
    /// Load before each hold that is not counted.
    pub warm_up: Nanos,
    /// Measured time of each level; of one that ends by count, how long it may take at most.
    pub hold: Nanos,
    /// After how many messages each hold ends; `None` where it ends by time.
    pub count: Option<CountPlan>,
    /// Parts of the hold.
    pub samples: u16,
    /// Longest wait for stragglers after each hold.
    pub drain: Nanos,
    /// Connections begun per second during set-up.
    pub connect_rate: f64,
    /// Load threads; `None` leaves it to the runner.
    pub threads: Option<u16>,
    /// Whether a platform on this host may use the load threads' processors too, which go before it.
    pub shares_processors: bool,
    /// How far sending may lag behind due by design; zero in the closed model, where nothing waits.
    pub precision: Nanos,
    /// How long before a due time a load thread watches its clock instead of sleeping.
    pub spin: Nanos,
}

impl LoadPlan {
    /// The same with nothing but its experiment.
    pub(crate) fn without_levels(self) -> LoadPlan {
        LoadPlan { levels: Vec::new(), turn: None, curve: None, search: None, calibration: None, ..self }
    }

    /// The curve that a level follows.
    pub fn curve_of(&self, level: LevelPlan) -> Option<&LoadCurve> {
        self.curve.as_ref().filter(|_| matches!(level, LevelPlan::Rate(_)))
    }

    /// Whether the listed level of that place, from 1, is one of the way down.
    pub fn falls(&self, place: usize) -> bool {
        self.turn.is_some_and(|turn| place > turn)
    }
}

/// After how many messages a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountPlan {
    /// So many of all devices together.
    Messages(u32),
    /// So many of each device.
    Cycles(u32),
}

impl CountPlan {
    /// How many these are in a level, of which so many devices take part unless it says otherwise.
    pub fn messages(self, level: LevelPlan, devices: u32) -> u64 {
        let devices = if let LevelPlan::Devices { devices, .. } = level { devices } else { devices };
        match self {
            CountPlan::Messages(messages) => u64::from(messages),
            CountPlan::Cycles(cycles) => u64::from(cycles) * u64::from(devices),
        }
    }

    /// How long they take on average; `None` where the platform decides.
    pub fn hold(self, level: LevelPlan, devices: u32) -> Option<Nanos> {
        let rate = Some(level.rate()).filter(|rate| *rate > 0.0)?;
        Some(Nanos::from_secs_f64(self.messages(level, devices) as f64 / rate))
    }
}

/// What a wake-up takes from its planned time until the thread runs, and the turn of the loop that may be under way then,
/// nearly always: a bare timer loop with a timer slack of 1 ns has its 99th percentile at 60 µs on the kind of virtual
/// machine that this was made on.
const WAKE_UP: Nanos = Nanos::from_micros(90);

impl LoadPlan {
    /// How long what is due or has arrived may wait so that more of it is handled by one wake-up: the precision, less
    /// what the wake-up itself takes.
    pub fn coalescing(&self) -> Nanos {
        (self.precision - WAKE_UP).max(Nanos::ZERO)
    }
}

/// A component is killed in each hold and started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StormPlan {
    /// The component's name in the platform profile.
    pub component: String,
    /// When it is killed, from the beginning of the hold.
    pub after: Nanos,
    /// How long it is down before it is started again.
    pub down: Nanos,
}

impl LoadPlan {
    /// Whether levels connect the devices, instead of all being connected before the first one.
    pub fn connects_in_levels(&self) -> bool {
        self.levels.iter().any(|level| level.connects())
    }
}

/// The workload model.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// Operations arrive whatever becomes of earlier ones.
    Open {
        /// Distribution of the gaps.
        arrivals: InterArrival,
        /// One process for the population, or one for each device.
        per: ArrivalsPer,
    },
    /// Operations arrive at the times of a trace, whatever becomes of earlier ones.
    Trace(Arc<ArrivalTrace>),
    /// Sessions arrive whatever becomes of earlier ones, and each sends some messages.
    PartlyOpen {
        /// Distribution of the gaps between sessions.
        arrivals: InterArrival,
        /// Messages of a session.
        messages: u32,
        /// Pause between the end of a message and the next of its session.
        think_time: Nanos,
        /// After this long without an end, a message is given up and its session goes on.
        timeout: Nanos,
    },
    /// A fixed number of operations in flight, each followed by the next after a think time.
    Closed {
        /// Pause between the end of an operation and the next.
        think_time: Nanos,
        /// After this long without an end, an operation is given up and the next begins.
        timeout: Nanos,
    },
}

/// Where arrivals are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalsPer {
    /// One process of the whole rate; devices take turns.
    Population,
    /// An independent process for each device, each with its share of the rate and a random phase.
    Device,
}

/// One level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LevelPlan {
    /// Open and partly open model: operations per second of the whole population.
    Rate(f64),
    /// The same, where populations have rates of their own in each listed level.
    Listed {
        /// Which it is of the list.
        place: u16,
        /// Operations per second of all populations together.
        rate: f64,
    },
    /// Closed model: operations in flight over the whole population.
    InFlight(u32),
    /// The same in an experiment, whatever the model. Where messages are delivered, an operation ends with that.
    Experiment(u32),
    /// Operations per second in an experiment, whatever the model.
    ExperimentRate(f64),
    /// So many devices are connected, those that are missing at the scenario's connect rate.
    Devices {
        /// The first so many of the population.
        devices: u32,
        /// Operations per second of all of them together; zero leaves them idle.
        rate: f64,
    },
    /// The whole population is connected anew, so many connections per second, and stays idle.
    ConnectRate(f64),
}

impl LevelPlan {
    /// What levels are ordered by: operations per second, operations in flight, devices, connections per second.
    pub fn load(self) -> f64 {
        match self {
            LevelPlan::Rate(rate)
            | LevelPlan::Listed { rate, .. }
            | LevelPlan::ExperimentRate(rate)
            | LevelPlan::ConnectRate(rate) => rate,
            LevelPlan::InFlight(count) | LevelPlan::Experiment(count) => f64::from(count),
            LevelPlan::Devices { devices, .. } => f64::from(devices),
        }
    }

    /// Operations per second that are due; zero where the platform decides or nothing is.
    pub fn rate(self) -> f64 {
        match self {
            LevelPlan::Rate(rate)
            | LevelPlan::Listed { rate, .. }
            | LevelPlan::ExperimentRate(rate)
            | LevelPlan::Devices { rate, .. } => rate,
            LevelPlan::InFlight(_) | LevelPlan::Experiment(_) | LevelPlan::ConnectRate(_) => 0.0,
        }
    }

    /// Whether it is one of an experiment, which has a length of its own.
    pub fn is_of_experiment(self) -> bool {
        matches!(self, LevelPlan::Experiment(_) | LevelPlan::ExperimentRate(_))
    }

    /// Whether the level connects devices itself.
    pub fn connects(self) -> bool {
        matches!(self, LevelPlan::Devices { .. } | LevelPlan::ConnectRate(_))
    }
}
