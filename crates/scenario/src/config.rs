//! A scenario file as written. The types give the published schema; their comments are its descriptions.

mod arrivals;
mod balancer;
mod command;
mod connection;
mod engine;
mod fault;
mod level_sequence;
mod load;
mod message;
mod metrics;
mod northbound;
mod objectives;
mod platform;
mod population;
mod populations;
mod prices;
mod quota;
mod record;
mod relay;
mod retry;
mod schedule;
pub(crate) mod secret;
mod tls;
pub(crate) mod with;

pub(crate) use crate::protocols::amqp::config::Amqp;
pub(crate) use crate::protocols::amqp1::config::Amqp1;
pub(crate) use crate::protocols::coap::config::{Coap, Dtls, Key};
pub(crate) use crate::protocols::gateway::config::Gateway;
pub(crate) use crate::protocols::http::config::Http;
pub(crate) use crate::protocols::kafka::config::Kafka;
pub(crate) use crate::protocols::lwm2m::config::Lwm2m;
pub(crate) use crate::protocols::mqtt::config::{Mqtt, ProtocolVersion};
pub(crate) use crate::protocols::mqtt::qos::QosLevel;
pub(crate) use crate::protocols::nats::config::Nats;
pub(crate) use crate::quantity::Duration;
pub(crate) use arrivals::{Arrivals, Per, TraceFile};
pub(crate) use balancer::{Balancer, BalancerSettings};
pub(crate) use command::PlatformCommand;
pub(crate) use connection::{Connection, OfflinePolicy};
pub(crate) use engine::{Compose, Files, Manifests};
pub(crate) use fault::{Fault, FaultKind};
pub(crate) use level_sequence::{Calibration, Curve, CurvePoint, Experiment, Search, Spike, Storm};
pub(crate) use load::{LevelRange, Levels, Load, Processors, WorkloadModel};
pub(crate) use message::{Feed, Marker, Message, MessageSize, NormalSize, SizeDistribution, UniformSize};
pub(crate) use metrics::Metrics;
pub(crate) use northbound::Northbound;
pub(crate) use objectives::Objectives;
pub(crate) use platform::{AttachedPlatform, BetweenRuns, OverWebSocket, Platform, RunningComponent};
pub(crate) use population::{Beside, Link, Population, SubscriberGroup, Subscribers};
pub(crate) use populations::{CommonSubscribers, OnePopulation};
pub(crate) use prices::{InstanceType, PriceOf, Prices, SizedType};
pub(crate) use schedule::Schedule;
pub(crate) use tls::Tls;
pub(crate) use with::With;

pub(crate) use quota::{Limits, Quota};
pub(crate) use record::{Capture, Record};
pub(crate) use relay::Relay;
pub(crate) use retry::Retry;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a run does: the platform under test, who loads it, with what, how much, and what is demanded of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// Name of the scenario, for lists and reports.
    #[cfg_attr(test, schemars(length(max = 200)))]
    pub name: String,
    /// What the scenario is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Seeds every random number of the run: equal seeds give equal arrivals and sizes.
    #[serde(default = "one")]
    pub seed: u64,
    /// The platform under test.
    pub platform: Platform,
    /// Who takes part.
    pub population: Population,
    /// Who takes part, where that are several populations: in place of `population`.
    #[serde(default, skip_serializing)]
    #[cfg_attr(test, schemars(length(min = 1)))]
    #[expect(dead_code, reason = "for the schema: crate::populations takes it out of the tree first")]
    pub populations: Option<Vec<OnePopulation>>,
    /// Receivers of deliveries that all populations have in common, which may stand elsewhere than devices.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "for the schema: crate::populations takes it out of the tree first")]
    pub subscribers: Option<CommonSubscribers>,
    /// How devices and subscribers connect, whatever they speak.
    #[serde(default)]
    pub connection: Connection,
    /// How devices and subscribers speak MQTT.
    #[serde(default)]
    pub mqtt: Mqtt,
    /// How devices speak HTTP.
    #[serde(default, skip_serializing_if = "Http::is_default")]
    pub http: Http,
    /// How devices speak CoAP.
    #[serde(default, skip_serializing_if = "Coap::is_default")]
    pub coap: Coap,
    /// How devices speak LwM2M.
    #[serde(default, skip_serializing_if = "Lwm2m::is_default")]
    pub lwm2m: Lwm2m,
    /// How devices and subscribers speak AMQP 0-9-1.
    #[serde(default, skip_serializing_if = "Amqp::is_default")]
    pub amqp: Amqp,
    /// How devices and subscribers speak AMQP 1.0.
    #[serde(default, skip_serializing_if = "Amqp1::is_default")]
    pub amqp1: Amqp1,
    /// How devices and subscribers speak Kafka.
    #[serde(default, skip_serializing_if = "Kafka::is_default")]
    pub kafka: Kafka,
    /// How devices and subscribers speak NATS.
    #[serde(default, skip_serializing_if = "Nats::is_default")]
    pub nats: Nats,
    /// How devices are polled by a gateway.
    #[serde(default, skip_serializing_if = "Gateway::is_default")]
    pub gateway: Gateway,
    /// What a device sends.
    #[serde(default)]
    pub message: Message,
    /// How much, when and for how long.
    pub load: Load,
    /// Devices send a message again that is not acknowledged in time, or whose connection is lost. Default: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What goes wrong on purpose, and when (docs/faults.md).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Queries of the platform's users beside the devices' load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub northbound: Option<Northbound>,
    /// By how much the wall clocks of two hosts differ at most, if chrony or PTP keeps them. It concerns runs with workers: times from a
    /// device on one host to a subscriber on another one are then known within this. Round trips count where they say more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_bound: Option<Duration>,
    /// What is recorded beside counts and times.
    #[serde(default)]
    pub record: Record,
    /// When the run is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// What the platform costs, for load lines by money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// What is demanded of each level, and of the load line.
    #[serde(default)]
    pub objectives: Objectives,
    /// What varies: keys of the scenario, each with a list of values. `plimsoll sweep` runs each combination.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "for the schema: crate::matrix takes it out of the tree first")]
    pub matrix: Option<Map<String, Value>>,
    /// What `--quick` sets, for a short run that tries the scenario out: keys of the scenario, such as `load.hold`, and their
    /// values.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "for the schema: crate::matrix takes it out of the tree first")]
    pub quick: Option<Map<String, Value>>,
}

fn one() -> u64 {
    1
}
