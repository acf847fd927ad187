//! What was learned, as others read it: a description, which `report::learned` writes as a scenario.

use super::subscribers::LearnedSubscribers;
use super::traces::TraceRow;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// Version of the form of [`Learned`].
pub(super) const SCHEMA: u32 = 1;

/// What was learned. Times in seconds, sizes in bytes, rates in messages per second.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Learned {
    /// Version of this form.
    pub schema: u32,
    /// From the first message to the last.
    pub duration: f64,
    /// Messages that clients published.
    pub messages: u64,
    /// Whether names were replaced.
    pub anonymised: bool,
    /// How many times the load of the capture the scenario has.
    pub times: f64,
    /// The mix, the most messages first.
    pub populations: Vec<LearnedPopulation>,
    /// Who receives.
    pub subscribers: Option<LearnedSubscribers>,
    /// Hours of the day (UTC) whose rates the populations have, where they differ.
    pub hours: Vec<u8>,
    /// How the rate of all populations together changes, where it does and they keep their mix: the load is on the straight line from
    /// each point to the next. Hours of the day count from midnight, else the beginning of the capture is zero.
    pub curve: Vec<LearnedPoint>,
    /// The exact times of messages, of the populations that have a trace.
    #[serde(skip)]
    pub rows: Vec<TraceRow>,
    /// What the scenario does not have, and what stands between it and the traffic; for people.
    pub notes: Vec<String>,
}

/// A population. Its `devices` and `rate` are those of the capture.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedPopulation {
    /// Its name in the scenario.
    pub name: String,
    /// What is spoken.
    pub protocol: String,
    /// The scheme and port of the service, and the number of that service in the capture, from 1 on.
    pub service: LearnedService,
    /// The method, where the protocol has several.
    pub method: String,
    /// Topic or path, with `{device}`; of Kafka the key.
    pub target: String,
    /// Kafka's topic, where names are kept.
    pub topic: Option<String>,
    /// What stands before the levels of an address of AMQP 1.0, as brokers have it.
    pub prefix: Option<String>,
    /// QoS as MQTT numbers it; over CoAP whether messages are confirmable. Of Kafka which copies acknowledge a message: 0 for none, 1 for
    /// that of the leader, 2 for all.
    pub qos: u8,
    /// Whether messages are retained.
    pub retained: bool,
    /// Protocol version, keep-alive and session of most clients of MQTT, where the capture has their CONNECT.
    pub session: Option<LearnedSession>,
    /// Devices.
    pub devices: u32,
    /// How a device was recognised: `target`, `client`, `connection` or `host`.
    pub device_by: &'static str,
    /// Messages.
    pub messages: u64,
    /// Of all messages that were learned from.
    pub share: f64,
    /// Messages per second of all devices.
    pub rate: f64,
    /// The interval in which the rate lies with 95 %, if the arrivals are as found.
    pub rate_interval: [f64; 2],
    /// Rates in the hours of [`Learned::hours`].
    pub hourly: Vec<f64>,
    /// Arrivals.
    pub arrivals: LearnedArrivals,
    /// Its exact times, which a run replays in the place of a law.
    pub trace: Option<LearnedTrace>,
    /// Sizes of the content.
    pub sizes: LearnedSizes,
    /// The smallest content that a run can send, which holds its marker; bytes.
    pub least_size: u32,
    /// What is not as it was.
    pub notes: Vec<String>,
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedService {
    /// From 1 on, in the order of populations.
    pub number: usize,
    /// As in an address of a scenario.
    pub scheme: &'static str,
    /// The server's port.
    pub port: u16,
    /// Its address, where names are kept.
    pub host: Option<String>,
}

/// How clients of MQTT connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedSession {
    /// 3, 4 or 5 as in CONNECT.
    pub version: u8,
    /// Seconds.
    pub keep_alive: u16,
    /// Whether sessions end with their connections.
    pub clean: bool,
    /// Whether clients give a user name.
    pub username: bool,
    /// Whether clients leave a will.
    pub will: bool,
}

/// An arrival process.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedArrivals {
    /// `population` or `device`: whose process it is.
    pub per: &'static str,
    /// `constant`, `poisson`, `uniform`, `normal` or `gamma`.
    pub law: &'static str,
    /// Spread, coefficient of variation or shape, where the law has one.
    pub parameter: Option<f64>,
    /// Whether the test does not refuse it.
    pub fits: bool,
    /// Whether there were enough gaps for a test.
    pub tested: bool,
    /// Gaps that were judged.
    pub gaps: usize,
    /// Standard deviation of the gaps, divided by their mean.
    pub cv: Option<f64>,
    /// Anderson and Darling's statistic.
    pub statistic: Option<f64>,
    /// Its p-value, by parametric bootstrap.
    pub p: Option<f64>,
    /// The other laws, the likeliest first.
    pub others: Vec<OtherLaw>,
    /// Whether the gaps are those of a clock that is a little late each time.
    pub jitter: bool,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedPoint {
    /// Seconds.
    pub at: f64,
    /// Messages per second.
    pub rate: f64,
}

/// The trace of a population.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedTrace {
    /// Messages in it.
    pub messages: u64,
    /// How long it lasts, with those of the other populations.
    pub length: f64,
    /// Messages per second; at that rate it is played as it was taken.
    pub rate: f64,
}

/// A law that was tried.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct OtherLaw {
    /// Its name.
    pub law: &'static str,
    /// Its parameter.
    pub parameter: Option<f64>,
    /// Anderson and Darling's statistic.
    pub statistic: f64,
    /// Its p-value.
    pub p: f64,
}

/// Sizes of the content.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct LearnedSizes {
    /// `fixed`, `uniform`, `normal` or `choice`.
    pub kind: &'static str,
    /// Mean, bytes.
    pub mean: f64,
    /// Smallest.
    pub min: u32,
    /// Largest.
    pub max: u32,
    /// Standard deviation of the normal distribution.
    pub deviation: Option<f64>,
    /// Sizes and their shares, of `choice`.
    pub list: Vec<(u32, f64)>,
    /// The p-value of the test, where one was needed.
    pub p: Option<f64>,
    /// Whether `list` has classes of equal probability, since the sizes follow neither a list nor a law.
    pub classes: bool,
}
