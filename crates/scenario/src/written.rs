//! A scenario file as written. The types give the published schema; their comments are its descriptions.

mod record;

use crate::plan::Endpoint;
use crate::quantity::{Rate, Size, Written};
use plimsoll_codec::mqtt::QoS;
use plimsoll_model::Nanos;
use record::Record;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

mod course;
mod session;
mod tls;

pub(crate) use course::{Search, Storm};
pub(crate) use session::{SessionKind, Will};
pub(crate) use tls::Tls;

pub(crate) type Duration = Written<Nanos>;

/// What a run does: the platform under test, who loads it, with what, how much, and what is demanded of it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// Name of the scenario, for lists and reports.
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
    /// How devices and subscribers speak MQTT.
    #[serde(default)]
    pub mqtt: Mqtt,
    /// What a device sends.
    #[serde(default)]
    pub message: Message,
    /// How much, when and for how long.
    pub load: Load,
    /// What is recorded beside counts and times.
    #[serde(default)]
    pub record: Record,
    /// What is demanded of each level, and of the load line.
    #[serde(default)]
    pub objectives: Objectives,
}

fn one() -> u64 {
    1
}

/// The platform under test: the name of a profile, or a profile and an address.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Platform {
    /// Name of a platform profile, or path of a profile file (with a `/` in it or ending in `.yaml`).
    Name(String),
    /// A profile and the address of a platform that runs already.
    Attached(AttachedPlatform),
}

/// A profile and the address of a platform that runs already.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttachedPlatform {
    /// Name of a platform profile, or path of a profile file (with a `/` in it or ending in `.yaml`).
    pub profile: String,
    /// Where a platform that runs already is reached: `mqtt://host:port`, `mqtts://host:port` over TLS,
    /// `ws://host:port/path` or `wss://host:port/path` over WebSocket. Only for profiles that start nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Written<Endpoint>>,
    /// What is spoken at an address that begins with `ws://` or `wss://`: `mqtt` (the default), or `websocket` alone, where
    /// each operation sends one message of the WebSocket and one comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<OverWebSocket>,
}

/// What is spoken over WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum OverWebSocket {
    #[serde(rename = "mqtt")]
    Mqtt,
    #[serde(rename = "websocket")]
    Plain,
}

/// Who takes part.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Population {
    /// Simulated publishers.
    #[schemars(range(min = 1, max = 16_777_215))]
    pub devices: u32,
    /// Receivers of deliveries: a count, or a count with settings. Default 0.
    #[serde(default)]
    pub subscribers: Subscribers,
    /// An emulated network between each device and the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Addresses of this host that connections take turns in as their source: each has about 28,000 ports towards one
    /// platform. Default: spread over the loopback network for a platform there, else the kernel's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub source_addresses: Option<Vec<String>>,
}

/// Receivers of deliveries: a count, or a count with settings.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Subscribers {
    /// How many.
    Count(#[schemars(range(max = 1_000_000))] u32),
    /// How many, and what they do.
    Group(SubscriberGroup),
}

impl Default for Subscribers {
    fn default() -> Subscribers {
        Subscribers::Count(0)
    }
}

/// Receivers of deliveries.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubscriberGroup {
    /// How many.
    #[schemars(range(max = 1_000_000))]
    pub count: u32,
    /// The QoS that they ask for. Default: that of publishing.
    #[serde(default)]
    pub qos: Option<QosLevel>,
    /// Topic filters of each, with `{run}` and `{subscriber}` as possible variables. Default: one that matches the
    /// messages of every device.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub filters: Option<Vec<String>>,
    /// Name of the group in which they share their subscription (MQTT 5 only): each message goes to one of them. Filters
    /// written as `$share/GROUP/FILTER` say the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// Time that a subscriber spends on a message before it reads the next.
    #[serde(default = "no_time")]
    pub work: Duration,
    /// An emulated network between each subscriber and the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
}

/// An emulated network between a client and the platform: what either side sends arrives later. Loss, bandwidth and TCP's
/// own behaviour over a long way are not emulated.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    /// Mean delay of one way, at most a minute; a round trip takes two.
    pub delay: Duration,
    /// Half width of the even spread of each delay, at most the delay.
    #[serde(default = "no_time")]
    pub jitter: Duration,
}

fn no_time() -> Duration {
    Written(Nanos::ZERO)
}

/// Quality of service: 0 (at most once), 1 (at least once) or 2 (exactly once).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub(crate) struct QosLevel(pub QoS);

impl TryFrom<u8> for QosLevel {
    type Error = String;
    fn try_from(level: u8) -> Result<QosLevel, String> {
        match level {
            0 => Ok(QosLevel(QoS::AtMostOnce)),
            1 => Ok(QosLevel(QoS::AtLeastOnce)),
            2 => Ok(QosLevel(QoS::ExactlyOnce)),
            _ => Err(format!("{level} is no quality of service")),
        }
    }
}

impl From<QosLevel> for u8 {
    fn from(level: QosLevel) -> u8 {
        match level.0 {
            QoS::AtMostOnce => 0,
            QoS::AtLeastOnce => 1,
            QoS::ExactlyOnce => 2,
        }
    }
}

impl JsonSchema for QosLevel {
    fn schema_name() -> Cow<'static, str> {
        "QosLevel".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [0, 1, 2] })
    }
}

/// How devices and subscribers speak MQTT.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Mqtt {
    /// Protocol version.
    pub version: ProtocolVersion,
    /// QoS of publishing.
    pub qos: QosLevel,
    /// Longest silence before a PINGREQ, in whole seconds; `0s` switches keep-alive off.
    pub keep_alive: Duration,
    /// User name, where the platform asks for one.
    pub username: Option<String>,
    /// Password, taken from an environment variable.
    pub password: Option<SecretSource>,
    /// Whether devices publish with the retain flag.
    pub retain: bool,
    /// The topic of a device's messages, with `{run}`, `{device}` and `{sequence}` as possible variables.
    pub topic: String,
    /// Receive maximum that our clients announce (MQTT 5 only). Default: none is announced.
    #[schemars(range(min = 1, max = 65_535))]
    pub receive_maximum: Option<u16>,
    /// Most QoS 1 and 2 messages of one device in flight; the broker's receive maximum may lower it.
    #[schemars(range(min = 1, max = 65_535))]
    pub in_flight: u16,
    /// How long connecting may take, TCP and CONNACK together.
    pub connect_timeout: Duration,
    /// Pauses before connecting again after a connection was lost.
    pub reconnect: Reconnect,
    /// What becomes of messages that are due while a device has no connection: `buffer` (sent when it is back), `drop`
    /// (not sent) or `keep_latest` (the newest is sent when it is back, the others are not). Those not sent count as
    /// `unsent`.
    pub offline: OfflinePolicy,
    /// How connections are secured, for an address that begins with `mqtts://` or `wss://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Whether sessions outlive their connections.
    pub session: SessionKind,
    /// How long a persistent session is kept for a client that does not come back, in whole seconds (MQTT 5 only).
    /// Default: 1h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_expiry: Option<Duration>,
    /// The message that the platform publishes for a device whose connection is lost. Its deliveries are counted apart;
    /// subscribers also subscribe to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub will: Option<Will>,
    /// User properties of each message by name (MQTT 5 only), with `{run}`, `{device}`, `{sequence}` and `{time}` as
    /// possible variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub user_properties: BTreeMap<String, String>,
    /// Whether a device sends its topic once a connection and an alias of it from then on, where the platform takes
    /// aliases (MQTT 5 only).
    pub topic_alias: bool,
}

impl Default for Mqtt {
    fn default() -> Mqtt {
        Mqtt {
            version: ProtocolVersion::V311,
            qos: QosLevel(QoS::AtLeastOnce),
            keep_alive: Written(Nanos::from_secs(60)),
            username: None,
            password: None,
            retain: false,
            topic: "plimsoll/{run}/{device}".to_owned(),
            receive_maximum: None,
            in_flight: u16::MAX,
            connect_timeout: Written(Nanos::from_secs(10)),
            reconnect: Reconnect::default(),
            offline: OfflinePolicy::Buffer,
            tls: None,
            session: SessionKind::Clean,
            session_expiry: None,
            will: None,
            user_properties: BTreeMap::new(),
            topic_alias: false,
        }
    }
}

/// What becomes of messages that are due while a device has no connection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OfflinePolicy {
    Buffer,
    Drop,
    KeepLatest,
}

/// MQTT version.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ProtocolVersion {
    #[serde(rename = "3.1.1")]
    V311,
    #[serde(rename = "5")]
    V5,
}

impl JsonSchema for ProtocolVersion {
    fn schema_name() -> Cow<'static, str> {
        "ProtocolVersion".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // A bare 5 is a number in YAML.
        json_schema!({ "enum": ["3.1.1", "5", 5] })
    }
}

/// Where a secret comes from.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretSource {
    /// Name of the environment variable that holds it.
    pub env: String,
}

/// Pauses before connecting again: each is drawn between half and the whole of a value that doubles.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Reconnect {
    /// First pause.
    pub from: Duration,
    /// Longest pause.
    pub to: Duration,
}

impl Default for Reconnect {
    fn default() -> Reconnect {
        Reconnect { from: Written(Nanos::from_millis(100)), to: Written(Nanos::from_secs(10)) }
    }
}

/// What a device sends: filler of a size after the marker, or a template.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Message {
    /// Size of the content in bytes, the marker included, up to 1 MiB. Default 64 B. Excludes `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<MessageSize>,
    /// The content as text with variables: `{marker}` (exactly once), `{run}`, `{device}`, `{sequence}`, `{time}`
    /// (milliseconds since 1970), `{random:1..6}`, `{random:18.0..25.0:1}` (one decimal). `{{` writes a brace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Form of the marker that every message carries. Default: binary, with a template ascii.
    #[serde(default)]
    pub marker: Option<Marker>,
}

/// The content's size in bytes: one, or a distribution.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum MessageSize {
    /// Always the same.
    Fixed(Written<Size>),
    /// A distribution.
    Distributed(SizeDistribution),
}

/// A distribution of sizes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SizeDistribution {
    /// Uniform over whole bytes, both ends included.
    Uniform(UniformSize),
    /// Normal, rounded and clamped to its bounds.
    Normal(NormalSize),
    /// One of a list, by weight.
    Choice(#[schemars(length(min = 1))] Vec<WeightedSize>),
}

/// Bounds of a uniform distribution.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UniformSize {
    /// Smallest size.
    pub min: Written<Size>,
    /// Largest size.
    pub max: Written<Size>,
}

/// A normal distribution, clamped.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NormalSize {
    /// Mean before clamping.
    pub mean: Written<Size>,
    /// Standard deviation before clamping.
    pub deviation: Written<Size>,
    /// Smallest size.
    pub min: Written<Size>,
    /// Largest size.
    pub max: Written<Size>,
}

/// A size and how often it is drawn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WeightedSize {
    /// The size.
    pub size: Written<Size>,
    /// How often it is drawn, in proportion to the other weights.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub weight: f64,
}

/// Form of the marker: `binary` (10 bytes), `ascii` (letters, digits, dot and hyphen) or `integer` (a decimal number
/// below 2^53).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Marker {
    Binary,
    Ascii,
    Integer,
}

/// How much, when and for how long.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    /// The workload model: `open` (operations arrive whatever becomes of earlier ones), `closed` (a fixed number of
    /// operations in flight, each followed by the next) or `partly_open` (sessions arrive whatever becomes of earlier
    /// ones, and each sends some messages, one after the other).
    #[serde(default)]
    pub model: WorkloadModel,
    /// Open and partly open model: distribution of the gaps between operations, or between sessions. Default: poisson.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// Open model: one arrival process for the whole population, or one for each device. Default: population.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Per>,
    /// Open and partly open model: the offered loads in operations per second of the whole population, in the order of running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<Levels>,
    /// Open model: a search for the load line, in place of `levels`: the load doubles while the objectives are met, then
    /// the bracket is halved, and the answer is confirmed by a fresh hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// Open model: how many devices are connected, one level each, in place of `levels`. Those that are missing are
    /// connected at `connect_rate` before the level's warm-up; those too many are disconnected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), inner(range(min = 1)))]
    pub devices: Option<Vec<u32>>,
    /// Operations per second of each device of `devices`. Default: 0, idle but for keep-alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_device: Option<Written<Rate>>,
    /// Open model: connections begun per second, one level each, in place of `levels`. In each the whole population
    /// connects anew and stays idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub connect_rates: Option<Vec<Written<Rate>>>,
    /// After so many levels in a row that missed an objective, no level that is not lower is run any more. Default: all
    /// are run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub stop_after_missed: Option<u16>,
    /// Closed model: operations kept in flight over the whole population, one level each. Default: [1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), inner(range(min = 1)))]
    pub in_flight: Option<Vec<u32>>,
    /// Closed and partly open model: pause between the end of an operation and the next. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_time: Option<Duration>,
    /// Closed and partly open model: after this long an operation is given up and the next begins. Default: 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_timeout: Option<Duration>,
    /// Partly open model: messages of a session. A level of R operations per second has R / messages sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub session_messages: Option<u32>,
    /// Reconnect storm: in each hold a component of the platform is killed and started again, so that all devices come
    /// back at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storm: Option<Storm>,
    /// Load before each hold that is not counted.
    #[serde(default = "warm_up")]
    pub warm_up: Duration,
    /// Measured time of each level.
    #[serde(default = "hold")]
    pub hold: Duration,
    /// Equal parts of the hold, each at least 10 ms long.
    #[serde(default = "samples")]
    #[schemars(range(min = 2, max = 10_000))]
    pub samples: u16,
    /// Longest wait for stragglers after each hold.
    #[serde(default = "drain")]
    pub drain: Duration,
    /// Connections begun per second before the first level, or before each level of `devices`.
    #[serde(default = "connect_rate")]
    pub connect_rate: Written<Rate>,
    /// Load threads. Default: one for each core that is left to the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: Option<u16>,
    /// Open model: how far sending may lag behind due by design. What falls due within it is sent by one wake-up, and
    /// what has arrived is read by it too: coarse is cheap, fine is dear. At most a second. Default: 100us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Duration>,
    /// Open model: how long before a due time a load thread watches its clock instead of sleeping. It buys lateness
    /// of a few microseconds with processor time. At most 10 ms. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin: Option<Duration>,
}

fn warm_up() -> Duration {
    Written(Nanos::from_secs(5))
}

fn hold() -> Duration {
    Written(Nanos::from_secs(30))
}

fn samples() -> u16 {
    30
}

fn drain() -> Duration {
    Written(Nanos::from_secs(5))
}

fn connect_rate() -> Written<Rate> {
    Written(Rate(500.0))
}

/// The workload model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkloadModel {
    #[default]
    Open,
    Closed,
    PartlyOpen,
}

impl WorkloadModel {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            WorkloadModel::Open => "open",
            WorkloadModel::Closed => "closed",
            WorkloadModel::PartlyOpen => "partly open",
        }
    }
}

/// Distribution of the gaps between operations; the mean gap follows from the level.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arrivals {
    /// Exponential gaps: a Poisson process.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Gaps spread evenly around their mean.
    Uniform(UniformGaps),
    /// Normal gaps, truncated to positive values.
    Normal(NormalGaps),
    /// Gamma-distributed gaps.
    Gamma(GammaGaps),
}

/// Gaps spread evenly around their mean.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UniformGaps {
    /// Half width as a fraction of the mean, from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub spread: f64,
}

/// Normal gaps, truncated to positive values.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NormalGaps {
    /// Standard deviation divided by mean, above 0 and up to 10, before truncation.
    #[schemars(range(max = 10), extend("exclusiveMinimum" = 0))]
    pub cv: f64,
}

/// Gamma-distributed gaps.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GammaGaps {
    /// Shape, 0.01 at least: 1 is a Poisson process, larger is more regular, smaller burstier.
    #[schemars(range(min = 0.01, max = 1_000_000))]
    pub shape: f64,
}

/// Where arrivals are drawn: one process for the population, or one for each device with its share of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Per {
    Population,
    Device,
}

/// Offered loads.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Levels {
    // First, because a list of three numbers would also pass for the fields of a range.
    /// One by one.
    List(#[schemars(length(min = 1))] Vec<Written<Rate>>),
    /// From one rate to another in equal steps.
    Range(LevelRange),
}

/// From one rate to another in equal steps.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LevelRange {
    /// First level.
    pub from: Written<Rate>,
    /// No level is above this.
    pub to: Written<Rate>,
    /// Difference between levels.
    pub step: Written<Rate>,
}

/// Objectives by name, as conditions. `null` switches a default off.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Objectives(pub BTreeMap<String, Option<String>>);

impl JsonSchema for Objectives {
    fn schema_name() -> Cow<'static, str> {
        "Objectives".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        for name in crate::objective::Name::all() {
            let property = serde_json::json!({
                "description": name.description(),
                "type": ["string", "null"],
                "format": name.format(),
            });
            properties.insert(name.key(), property);
        }
        json_schema!({
            "description": "What is demanded of each level, and of the load line. `null` switches a default off.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}
