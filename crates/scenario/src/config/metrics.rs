//! Metrics that the platform's own exporters, or a Prometheus server, tell.

use crate::address::{Endpoint, Protocol, Wire};
use crate::plan::{MetricKind, MetricPlan, MetricsOrigin, MetricsPlan};
use crate::quantity::{Duration, Quantity};
use plimsoll_codec::exposition::Selector;
use plimsoll_codec::mqtt::topic;
use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The shortest time between two questions.
const SHORTEST: Nanos = Nanos::from_millis(100);

/// Where metrics are read while the run goes on, and which: one of `exporter`, `prometheus`, `json` and `mqtt` says
/// where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Metrics {
    /// Whose metrics they are in reports: the name of a component, or `host`.
    pub component: String,
    /// URL of an exporter that answers in Prometheus' text format or in OpenMetrics, such as
    /// `http://127.0.0.1:{port:metrics}/metrics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exporter: Option<String>,
    /// URL of a Prometheus server, without a path: PromQL is asked of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<String>,
    /// URL that answers with JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// Address of a broker that publishes metrics on topics of its own, such as `mqtt://127.0.0.1:{port:mqtt}`. It is read as one
    /// more of its clients, with the user name and password of the devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mqtt: Option<String>,
    /// From one question to the next.
    #[serde(default = "every")]
    pub every: Duration,
    /// What is read, by the name that it has in reports, such as `queue length`.
    pub read: BTreeMap<String, Metric>,
}

fn every() -> Duration {
    crate::quantity::AsText(Nanos::from_secs(1))
}

/// A metric: the text that chooses it, or that and how its values are meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Metric {
    /// Series of an exporter (`queue_length{queue="in"}`, whose values are added up), a query in PromQL that gives one value,
    /// a JSON pointer (`/counters/notifications`), or a topic (`$SYS/broker/clients/connected`).
    Chosen(String),
    /// The same, with its kind and unit.
    Described(DescribedMetric),
}

/// A metric with its kind and unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct DescribedMetric {
    /// What chooses it: series, a query, a JSON pointer, or a topic.
    pub select: String,
    /// Whether the value itself is of interest (`gauge`, the default), or how fast it grows (`counter`).
    #[serde(default)]
    pub kind: MetricKind,
    /// The unit of the value. Default: `count`.
    #[serde(default)]
    pub unit: MetricUnit,
    /// The value is multiplied by this, for exporters that report percent or milliseconds.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub scale: f64,
}

fn one() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_one(scale: &f64) -> bool {
    *scale == 1.0
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum MetricUnit {
    /// How many there are.
    #[default]
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Of one: 0.25 is a quarter.
    Share,
    /// Of one processor.
    Processors,
}

impl Metrics {
    /// The same as the run reads it; else the key that is wrong, below this, and why.
    pub(crate) fn plan(&self) -> Result<MetricsPlan, (String, String)> {
        let wrong = |key: &str, why: String| Err((key.to_owned(), why));
        let written = [
            (MetricsOrigin::Exporter, "exporter", &self.exporter),
            (MetricsOrigin::Prometheus, "prometheus", &self.prometheus),
            (MetricsOrigin::Json, "json", &self.json),
            (MetricsOrigin::Topics, "mqtt", &self.mqtt),
        ];
        let given: Vec<_> =
            written.into_iter().filter_map(|(origin, key, url)| Some((origin, key, url.as_ref()?))).collect();
        let [(origin, key, url)] = given.as_slice() else {
            return wrong(
                "",
                "write one of `exporter`, `prometheus`, `json` and `mqtt`, with a URL".to_owned(),
            );
        };
        let why = if *origin == MetricsOrigin::Topics { wrong_broker(url) } else { wrong_url(url) };
        if let Some(why) = why {
            return wrong(key, why);
        }
        if !crate::names::is_file_name(&self.component) {
            return wrong(
                "component",
                "the name of a component, or `host`, is one line without `/`".to_owned(),
            );
        }
        if self.every.0 < SHORTEST {
            return wrong("every", "ask ten times a second at most: `every: 100ms`".to_owned());
        }
        if self.read.is_empty() {
            return wrong("read", "name at least one metric".to_owned());
        }
        let metric = |(name, metric): (&String, &Metric)| {
            metric.plan(name, *origin).map_err(|why| (format!("read.{name}"), why))
        };
        Ok(MetricsPlan {
            component: self.component.clone(),
            origin: *origin,
            url: (*url).clone(),
            every: self.every.0,
            metrics: self.read.iter().map(metric).collect::<Result<_, _>>()?,
        })
    }
}

fn wrong_url(url: &str) -> Option<String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Some(format!("`{url}` is no URL: begin with `http://` or `https://`"));
    };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    if !["http", "https"].contains(&scheme) || host.is_empty() {
        Some(format!("`{url}` is no URL of HTTP: write `http://HOST:PORT/PATH`"))
    } else if host.contains('@') {
        Some("a user and a password in the URL are not supported".to_owned())
    } else if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        Some("a URL has no blanks".to_owned())
    } else {
        None
    }
}

fn wrong_broker(url: &str) -> Option<String> {
    // A port of the platform is a number once the platform runs.
    let with_port = match url.split_once("{port:") {
        Some((before, after)) => after.split_once('}').map(|(_, rest)| format!("{before}1{rest}")),
        None => Some(url.to_owned()),
    };
    let is_broker = |url: String| {
        let endpoint = Endpoint::parse(&url).ok();
        // With its port, and nothing more.
        let is_whole = |endpoint: &Endpoint| endpoint.show() == url.trim_end_matches('/');
        let is_plain =
            |endpoint: &Endpoint| endpoint.protocol == Protocol::Mqtt && endpoint.wire == Wire::default();
        endpoint.is_some_and(|endpoint| is_whole(&endpoint) && is_plain(&endpoint))
    };
    if with_port.is_some_and(is_broker) {
        return None;
    }
    Some(format!("`{url}` is no address of a broker: write `mqtt://HOST:PORT`"))
}

impl Metric {
    fn plan(&self, name: &str, origin: MetricsOrigin) -> Result<MetricPlan, String> {
        let described = match self {
            Metric::Chosen(select) => &DescribedMetric {
                select: select.clone(),
                kind: MetricKind::Gauge,
                unit: MetricUnit::Count,
                scale: 1.0,
            },
            Metric::Described(described) => described,
        };
        let DescribedMetric { select, kind, unit, scale } = described;
        if name.trim().is_empty() || name.contains(char::is_control) {
            return Err("a name is visible characters in one line".to_owned());
        }
        match origin {
            MetricsOrigin::Exporter => {
                select.parse::<Selector>().map_err(|error| error.to_string())?;
            }
            MetricsOrigin::Prometheus if select.trim().is_empty() => {
                return Err("a query in PromQL is missing".to_owned());
            }
            MetricsOrigin::Json if !(select.is_empty() || select.starts_with('/')) => {
                return Err(format!("`{select}` is no JSON pointer: it begins with `/`"));
            }
            MetricsOrigin::Topics if !topic::valid_name(select) => {
                return Err(format!("`{select}` is no name of a topic, which has no `+` and `#`"));
            }
            MetricsOrigin::Prometheus | MetricsOrigin::Json | MetricsOrigin::Topics => {}
        }
        if !scale.is_finite() || *scale == 0.0 {
            return Err("`scale` is a number other than 0".to_owned());
        }
        let unit = match (kind, unit) {
            (MetricKind::Gauge, MetricUnit::Count) => "count",
            (MetricKind::Gauge, MetricUnit::Bytes) => "bytes",
            (MetricKind::Gauge, MetricUnit::Seconds) => "seconds",
            (_, MetricUnit::Share) => "share",
            (_, MetricUnit::Processors) => "processors",
            (MetricKind::Counter, MetricUnit::Count) => "1/s",
            (MetricKind::Counter, MetricUnit::Bytes) => "bytes/s",
            // Seconds in each second.
            (MetricKind::Counter, MetricUnit::Seconds) => "share",
        };
        Ok(MetricPlan { name: name.to_owned(), select: select.clone(), kind: *kind, unit, scale: *scale })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_has_a_host_and_a_port() {
        for right in ["mqtt://127.0.0.1:1883", "mqtt://[::1]:1883/", "mqtt://127.0.0.1:{port:mqtt}"] {
            assert_eq!(wrong_broker(right), None, "{right}");
        }
        for wrong in [
            "mqtt://broker",
            "mqtt://broker:x}",
            "mqtt://:1883",
            "mqtts://h:1",
            "ws://h:1",
            "mqtt://h:{port:m",
            "h:1",
            "",
        ] {
            assert!(wrong_broker(wrong).is_some(), "{wrong}");
        }
    }
}
