//! What the user demands of a level and of the load line.

use crate::Metric;
use crate::metric::Needs;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the user demands of every level, and of the load line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Objectives {
    /// Objectives that a level must meet, defaults included.
    pub level: Vec<Objective>,
    /// Lowest acceptable load line, in operations per second.
    pub load_line: Option<f64>,
}

impl Objectives {
    /// The highest quantile that any objective looks at, zero where none does.
    pub fn highest_quantile(&self) -> f64 {
        let quantile = |objective: &Objective| match objective.subject {
            Subject::Quantile(_, q) => q,
            _ => 0.0,
        };
        self.level.iter().map(quantile).fold(0.0, f64::max)
    }

    /// The smallest time that any objective bounds from above, in seconds.
    pub fn tightest_latency(&self) -> Option<f64> {
        let upper = |objective: &&Objective| {
            matches!(objective.comparison, Comparison::Below | Comparison::AtMost)
                && matches!(objective.subject, Subject::Quantile(..) | Subject::Mean(_))
        };
        self.level.iter().filter(upper).map(|objective| objective.bound).min_by(f64::total_cmp)
    }
}

/// One demand on a level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The population of which it is demanded; `None` for all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<String>,
    /// What is looked at.
    pub subject: Subject,
    /// Which side of the bound is good.
    pub comparison: Comparison,
    /// The bound: seconds for times, a fraction of 1 for ratios.
    pub bound: f64,
}

impl Objective {
    /// Its key in a scenario's `objectives`, such as `publish_p99` or, of one of several populations, `sensors.publish_p99`.
    pub fn key(&self) -> String {
        let key = self.subject.key();
        self.population.as_ref().map_or(key.clone(), |population| format!("{population}.{key}"))
    }
}

/// What an objective looks at.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Delivered / (due x receivers).
    Delivered,
    /// Operations completed within the hold / operations due in it.
    Achieved,
    /// Devices connected when the level ended / devices of the level.
    Connected,
    /// The longest time from the end of a planned fault until objectives were met again, in seconds.
    FaultRecovery,
    /// A quantile of a time: the metric and the quantile as a fraction of 1.
    Quantile(Metric, f64),
    /// The mean of a time.
    Mean(Metric),
}

/// The good side of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

impl Comparison {
    /// Whether a value is on the good side.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Comparison::Below => value < bound,
            Comparison::AtMost => value <= bound,
            Comparison::Above => value > bound,
            Comparison::AtLeast => value >= bound,
        }
    }

    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Below => "<",
            Comparison::AtMost => "<=",
            Comparison::Above => ">",
            Comparison::AtLeast => ">=",
        }
    }
}

impl Subject {
    /// The key in a scenario's `objectives`.
    pub fn key(self) -> String {
        let time = |metric: Metric| metric.row().objective.map_or(metric.name(), |objective| objective.key);
        match self {
            Subject::Delivered => "delivered".into(),
            Subject::Achieved => "achieved".into(),
            Subject::Connected => "connected".into(),
            Subject::FaultRecovery => "fault_recovery".into(),
            Subject::Quantile(metric, q) => format!("{}_p{}", time(metric), quantile_digits(q)),
            Subject::Mean(metric) => format!("{}_mean", time(metric)),
        }
    }

    /// Whether it exists only where something is acknowledged, that is at QoS 1 and 2.
    pub fn needs_acknowledgement(self) -> bool {
        self.needs() == Needs::Acknowledgement
    }

    /// Whether it exists only where levels connect devices.
    pub fn needs_connecting(self) -> bool {
        self.needs() == Needs::Connecting
    }

    /// Whether the age of the newest values must be recorded for it.
    pub fn needs_freshness(self) -> bool {
        self.needs() == Needs::Freshness
    }

    /// Whether it exists only where there are northbound queries.
    pub fn needs_queries(self) -> bool {
        self.needs() == Needs::Queries
    }

    /// Whether it exists only where there are subscribers.
    pub fn needs_subscribers(self) -> bool {
        matches!(self.needs(), Needs::Subscribers | Needs::Freshness)
    }

    fn needs(self) -> Needs {
        match self {
            Subject::Delivered => Needs::Subscribers,
            Subject::Achieved | Subject::FaultRecovery => Needs::Nothing,
            Subject::Connected => Needs::Connecting,
            Subject::Quantile(metric, _) | Subject::Mean(metric) => metric.row().needs,
        }
    }

    /// A value of this subject for people.
    pub fn show(self, value: f64) -> String {
        match self {
            Subject::Delivered | Subject::Achieved | Subject::Connected => percent(value),
            Subject::Quantile(..) | Subject::Mean(_) | Subject::FaultRecovery => {
                crate::Nanos::from_secs_f64(value).to_string()
            }
        }
    }
}

/// 0.5 as `50`, 0.99 as `99`, 0.999 as `999`.
fn quantile_digits(q: f64) -> String {
    let digits = format!("{q}").replacen("0.", "", 1);
    if digits.len() == 1 { digits + "0" } else { digits }
}

/// A share in percent, never rounded up to all of it: 99.998 % is not 100 %.
fn percent(share: f64) -> String {
    // The small addition keeps 0.999 from being shown as 99.89 %.
    let floored = (share * 1e4 + 1e-6).floor() / 100.0;
    format!("{floored} %")
}

/// As in a scenario: `publish_p99 < 50.0 ms`.
impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.key(), self.comparison.symbol(), self.subject.show(self.bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_as_it_is_written_in_a_scenario() {
        let p999 = Subject::Quantile(Metric::PublishTime, 0.999);
        let objective =
            Objective { population: None, subject: p999, comparison: Comparison::Below, bound: 0.05 };
        assert_eq!(objective.to_string(), "publish_p999 < 50.0 ms");
        let p50 = Subject::Quantile(Metric::SubscribeTimeFromSend, 0.5);
        assert_eq!(p50.key(), "subscribe_from_send_p50");
        let delivered = Objective {
            population: None,
            subject: Subject::Delivered,
            comparison: Comparison::AtLeast,
            bound: 0.999,
        };
        assert_eq!(delivered.to_string(), "delivered >= 99.9 %");
        assert_eq!(Subject::Delivered.show(0.999_999), "99.99 %");
    }
}
