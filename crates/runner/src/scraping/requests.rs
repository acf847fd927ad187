//! Metrics that an exporter, a Prometheus server or any other service answers over HTTP.

use super::readings::Readings;
use super::{Out, SHOWN};
use crate::controller;
use crate::sampling::{Observed, own_time};
use crate::secrets::encoded;
use plimsoll_codec::exposition::{Selector, SelectorError, sums};
use plimsoll_codec::hiding::cut;
use plimsoll_model::Nanos;
use plimsoll_model::record::Gauge;
use plimsoll_scenario::plan::{MetricPlan, MetricsOrigin, MetricsPlan, Plan};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The longest that an answer is awaited.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest answer that is read, bytes.
const LARGEST: u64 = 16 << 20;

/// When a metric had which value, or why it has none.
type Value = Result<(Instant, f64), String>;

/// Who answers over HTTP, and what is read of the answers.
pub struct Requests {
    readings: Readings,
    /// By the places of the metrics; only an exporter has some.
    selectors: Vec<Selector>,
    /// What is asked: once for all metrics, or for each of them.
    urls: Vec<String>,
    client: ureq::Agent,
    /// How long an answer is awaited.
    patience: Duration,
    read: Option<Instant>,
}

impl Requests {
    /// Of the source of these metrics.
    ///
    /// # Errors
    /// A selector that cannot be read.
    pub fn new(plan: &Plan, readings: Readings) -> Result<Requests, SelectorError> {
        let MetricsPlan { url, origin, every, metrics, .. } = &readings.plan;
        let (urls, selectors) = match origin {
            MetricsOrigin::Exporter => {
                let selectors = metrics.iter().map(|metric| metric.select.parse());
                (vec![url.clone()], selectors.collect::<Result<_, SelectorError>>()?)
            }
            MetricsOrigin::Prometheus => {
                let base = url.trim_end_matches('/');
                let query =
                    |metric: &MetricPlan| format!("{base}/api/v1/query?query={}", encoded(&metric.select));
                (metrics.iter().map(query).collect(), Vec::new())
            }
            MetricsOrigin::Json | MetricsOrigin::Topics => (vec![url.clone()], Vec::new()),
        };
        let patience = every.to_duration().clamp(Duration::from_secs(1), PATIENCE);
        let client = controller::http::client(plan, patience, url.starts_with("https"));
        Ok(Requests { client, patience, readings, selectors, urls, read: None })
    }

    /// Asks again and again, until the run is over.
    pub fn read_until(&mut self, stopped: &Receiver<()>, out: &Out) {
        let every = self.readings.plan.every.to_duration();
        let mut next = Instant::now();
        loop {
            let (before, asked) = (own_time(), Instant::now());
            let (gauges, troubles) = self.read(out);
            let gauges = gauges.into_iter().chain(self.own(asked, own_time().saturating_sub(before), out));
            let troubles = troubles.into_iter().filter_map(|trouble| self.readings.report(trouble));
            let observed = gauges.map(Observed::Gauge).chain(troubles.map(Observed::Note));
            for observed in observed.collect::<Vec<_>>() {
                if out.readings.send(observed).is_err() {
                    return;
                }
            }
            // A question that was answered late is not made up for.
            next = (next + every).max(Instant::now());
            match stopped.recv_timeout(next - Instant::now()) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Asks once. What cannot be read is left out, and said.
    fn read(&mut self, out: &Out) -> (Vec<Gauge>, Vec<String>) {
        let values = match self.values() {
            Ok(values) => values,
            Err(why) => return (Vec::new(), vec![why]),
        };
        let (mut gauges, mut troubles) = (Vec::new(), Vec::new());
        for (place, value) in values.into_iter().enumerate() {
            match value.and_then(|(at, value)| self.readings.gauge(place, at, value, out)) {
                Ok(gauge) => gauges.extend(gauge),
                Err(why) => {
                    let name = self.readings.plan.metrics.get(place).map_or("", |metric| &metric.name);
                    troubles.push(format!("`{name}`: {why}"));
                }
            }
        }
        (gauges, troubles)
    }

    /// When what was answered, by the places of the metrics; or why nothing was.
    fn values(&self) -> Result<Vec<Value>, String> {
        let mut answers = self.urls.iter().map(|url| self.ask(url));
        if self.readings.plan.origin == MetricsOrigin::Prometheus {
            let value = |answer: Result<(Instant, String), String>| {
                let (at, text) = answer?;
                Ok((at, of_server(&text)?))
            };
            return Ok(answers.map(value).collect());
        }
        let (at, text) = answers.next().unwrap_or_else(|| Err("nothing was asked".to_owned()))?;
        if self.readings.plan.origin == MetricsOrigin::Exporter {
            let selectors: Vec<&Selector> = self.selectors.iter().collect();
            let sums = sums(&text, &selectors)
                .ok_or_else(|| "the answer holds no metrics of Prometheus".to_owned())?;
            let missing = || "the answer has no such series".to_owned();
            return Ok(sums.into_iter().map(|sum| Ok((at, sum.ok_or_else(missing)?))).collect());
        }
        let json = serde_json::from_str(&text).map_err(|_| "the answer is no JSON".to_owned())?;
        Ok(self
            .readings
            .plan
            .metrics
            .iter()
            .map(|metric| Ok((at, of_json(&json, &metric.select)?)))
            .collect())
    }

    /// What reading costs, and the gap where a question is late.
    fn own(&mut self, asked: Instant, cost: Duration, out: &Out) -> Vec<Gauge> {
        let last = self.read.replace(asked);
        last.map(|last| self.readings.cost(asked - last, cost, out)).unwrap_or_default()
    }

    /// The answer, and when it was about right: in the middle between the question and the first of the answer. To read and
    /// understand a long one takes longer than that.
    fn ask(&self, url: &str) -> Result<(Instant, String), String> {
        let asked = Instant::now();
        let mut answer = self.client.get(url).call().map_err(|error| match error {
            ureq::Error::Timeout(_) => format!("no answer within {}", Nanos::from(self.patience)),
            error => format!("no answer: {error}"),
        })?;
        let at = asked + asked.elapsed() / 2;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(LARGEST).read_to_vec();
        // A server tells what is wrong with a query in an answer of status 400.
        if !status.is_success() && self.readings.plan.origin != MetricsOrigin::Prometheus {
            return Err(format!("it was answered {status}"));
        }
        let body = body.map_err(|error| format!("the answer broke off: {error}"))?;
        match String::from_utf8(body) {
            Ok(text) if status.is_success() || text.starts_with('{') => Ok((at, text)),
            Ok(_) => Err(format!("it was answered {status}")),
            Err(_) => Err("the answer is no text".to_owned()),
        }
    }
}

/// The one value of a server's answer (Prometheus HTTP API, instant queries).
fn of_server(answer: &str) -> Result<f64, String> {
    let json: serde_json::Value =
        serde_json::from_str(answer).map_err(|_| "the answer is no JSON".to_owned())?;
    if let Some(error) = json["error"].as_str() {
        return Err(format!("the server says: {}", cut(error, SHOWN)));
    }
    let (data, result) = (&json["data"], &json["data"]["result"]);
    let value = match (data["resultType"].as_str(), result.as_array().map(Vec::as_slice)) {
        (Some("scalar"), Some([_, value])) => value,
        (Some("vector"), Some([series])) => &series["value"][1],
        (Some("vector"), Some([])) => return Err("the query gives no series".to_owned()),
        (Some("vector"), Some(all)) => {
            return Err(format!("the query gives {} series; add them up with `sum(...)`", all.len()));
        }
        _ => return Err("the query gives neither a vector nor a scalar".to_owned()),
    };
    number(value).ok_or_else(|| "the answer has no value".to_owned())
}

fn of_json(json: &serde_json::Value, pointer: &str) -> Result<f64, String> {
    let value = json.pointer(pointer).ok_or_else(|| format!("the answer has nothing at {pointer}"))?;
    number(value).ok_or_else(|| format!("what stands at {pointer} is no number"))
}

/// A number, also one that is written as a text, or as true and false.
fn number(value: &serde_json::Value) -> Option<f64> {
    match value {
        serde_json::Value::Number(number) => number.as_f64(),
        serde_json::Value::String(text) => text.trim().parse().ok(),
        serde_json::Value::Bool(is_true) => Some(f64::from(u8::from(*is_true))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_s_answer_has_one_value() {
        for (answer, expected) in [
            (
                r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1.5,"0.25"]}]}}"#,
                Ok(0.25),
            ),
            (r#"{"status":"success","data":{"resultType":"scalar","result":[1.5,"3"]}}"#, Ok(3.0)),
            (r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#, Err("no series")),
            (r#"{"status":"success","data":{"resultType":"vector","result":[{},{}]}}"#, Err("2 series")),
            (r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#, Err("neither")),
            (r#"{"status":"error","errorType":"bad_data","error":"parse error: x"}"#, Err("parse error: x")),
            ("<html>", Err("no JSON")),
            (r#"{"data":{"resultType":"vector","result":[{"value":[1]}]}}"#, Err("no value")),
        ] {
            match (of_server(answer), expected) {
                (Ok(value), Ok(expected)) => assert_eq!(value, expected, "{answer}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{answer}: {why}"),
                (got, expected) => panic!("{answer}: {got:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn json_holds_numbers_in_several_forms() {
        let json = serde_json::json!({ "a": { "b": [1, "2.5", true, null] } });
        assert_eq!(["/a/b/0", "/a/b/1", "/a/b/2"].map(|at| of_json(&json, at)), [Ok(1.0), Ok(2.5), Ok(1.0)]);
        assert!(of_json(&json, "/a/b/3").unwrap_err().contains("no number"));
        assert!(of_json(&json, "/c").unwrap_err().contains("nothing at /c"));
    }
}
