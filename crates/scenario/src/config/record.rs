//! What is recorded beside counts and times.

use super::Metrics;
use crate::quantity::{AsText, Size};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is recorded beside counts and times.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Record {
    /// The message log: one record for each message that was taken up, with its stamps and its fate. Each takes about 100 bytes
    /// in the run store. `export --format messages` gives it.
    pub messages: bool,
    /// The age of the newest value of each device at each subscriber, as time goes by. An objective on freshness switches
    /// it on.
    pub freshness: bool,
    /// The network's own round trip, which distinguishes a slow network from a slow platform. It is an echo of ICMP four times
    /// a second. Where nobody answers that, it is a connection of TCP to the platform's address once a second, closed at once.
    /// By default where the platform is on another host: on this one it would measure how this host schedules.
    pub network: Option<bool>,
    /// Whether the observers read what components and this host use, once a second. Default yes. Without them, the verdict does not
    /// know whether other processes held a component's processor.
    pub observers: Option<bool>,
    /// Packets, from before the platform's first connection until after the last: which component takes the time, and where
    /// messages are lost. Switches the message log on. `run --capture` is the same.
    pub capture: Option<Capture>,
    /// Whether the metrics that the profile names are read. Default yes. Each reading costs the platform a little processor time.
    pub profile_metrics: Option<bool>,
    /// Metrics that exporters of the platform or a Prometheus server report, beside those that the profile names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metrics>,
}

/// What is captured, with dumpcap or tcpdump.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Capture {
    /// The interface, `any` for all. Default: `lo` for a platform on this host, else `any`.
    pub interface: Option<String>,
    /// Networks that are captured, each by itself. `host`: this host's own, the default. A name: a network namespace (`ip
    /// netns`). `container:NAME`: that of a container or pod, by its host name or the first 12 digits of its id. `pid:NUMBER`:
    /// that of a process.
    pub namespaces: Vec<String>,
    /// Which packets, in the words of tcpdump. Default: the ports of the platform and those of `names`; all of them where
    /// namespaces are given.
    pub filter: Option<String>,
    /// What servers on the wire are called that the profile does not start: `redis: ":6379"`, `db: 10.0.0.7:5432`.
    pub names: BTreeMap<String, String>,
    /// The most that is kept of each capture; beyond it the oldest packets are written over.
    pub limit: AsText<Size>,
    /// A folder that keeps the captures, and beside them the keys of our clients' TLS sessions, which open them. Default: captures
    /// are removed once they are read, and so are the keys that workers send.
    pub keep: Option<String>,
}

impl Default for Capture {
    fn default() -> Capture {
        Capture {
            interface: None,
            namespaces: Vec::new(),
            filter: None,
            names: BTreeMap::new(),
            limit: AsText(Size(1 << 30)),
            keep: None,
        }
    }
}
