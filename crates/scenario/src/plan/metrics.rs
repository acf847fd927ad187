//! Metrics that are read from the platform's own exporters, or from a Prometheus server.

use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};

/// Where metrics are read, and which.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricsPlan {
    /// Whose metrics they are: a component, or `host`.
    pub component: String,
    /// Who answers.
    pub origin: MetricsOrigin,
    /// Where; `{port:NAME}` stands for a port of the platform.
    pub url: String,
    /// From one question to the next.
    pub every: Nanos,
    /// What is read.
    pub metrics: Vec<MetricPlan>,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsOrigin {
    /// An exporter, in Prometheus' text format or in OpenMetrics.
    Exporter,
    /// A Prometheus server, which is asked PromQL.
    Prometheus,
    /// Something that answers with JSON.
    Json,
    /// A broker that publishes them, such as those below `$SYS`.
    Topics,
}

/// A metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricPlan {
    /// Its name in reports.
    pub name: String,
    /// Series, a query, a JSON pointer or a topic, by who answers.
    pub select: String,
    /// What is of interest.
    pub kind: MetricKind,
    /// The unit of what is stored.
    pub unit: &'static str,
    /// What the value is multiplied by.
    pub scale: f64,
}

/// What of a metric is of interest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Its value, which rises and falls.
    #[default]
    Gauge,
    /// Its growth per second: it only grows until its component is started again.
    Counter,
}
