//! Reads metrics that the platform's own exporters, or a Prometheus server, tell. Each source has a thread of its own: one that
//! answers late or never keeps no other waiting.

use crate::controller;
use crate::sampling::{Observed, late, own_time};
use crate::secrets::encoded;
use plimsoll_codec::credentials::hide_query_secrets;
use plimsoll_codec::exposition::{Selector, SelectorError, sums};
use plimsoll_codec::hiding::cut;
use plimsoll_model::Nanos;
use plimsoll_model::record::Gauge;
use plimsoll_platform::HttpAddresses;
use plimsoll_scenario::plan::{MetricKind, MetricPlan, MetricsOrigin, MetricsPlan, Plan};
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The sampler under whose name the values stand.
const METRICS: &str = "metrics";
/// The longest that an answer is awaited.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest answer that is read, bytes.
const LARGEST: u64 = 16 << 20;
/// So many different troubles of a source are told.
const TOLD: usize = 4;
/// Characters of what a server said that are shown.
const SHOWN: usize = 160;

/// All sources of a run, read from the first look on. Dropped, their threads end once the answer that they await has come, or
/// is late.
#[derive(Default)]
pub struct Scraping {
    waiting: Vec<Source>,
    troubles: Vec<String>,
    readings: Option<Receiver<Observed>>,
    stops: Vec<Sender<()>>,
}

/// Where what is read goes, and the time on the run's clock.
struct Out {
    readings: Sender<Observed>,
    begun: Instant,
    now: Nanos,
}

impl Scraping {
    /// Of all metrics of a plan, with the ports of the platform.
    pub fn new(plan: &Plan, http: &HttpAddresses) -> Scraping {
        let port = |name: &str| http.of(Some(name)).map(|address| address.port());
        let mut scraping = Scraping::default();
        for metrics in &plan.record.metrics {
            match Source::new(plan, metrics, port) {
                Ok(source) => scraping.waiting.push(source),
                Err(trouble) => scraping.troubles.push(trouble),
            }
        }
        scraping
    }

    /// What was read since the last call; the first begins to read, at the time `now` of the run.
    pub fn take(&mut self, now: Nanos) -> Vec<Observed> {
        if !self.waiting.is_empty() {
            let (readings_in, readings) = channel();
            for mut source in self.waiting.drain(..) {
                let (stop, stopped) = channel();
                let out = Out { readings: readings_in.clone(), begun: Instant::now(), now };
                let work = move || source.read_until(&stopped, &out);
                match std::thread::Builder::new().name("metrics".into()).spawn(work) {
                    Ok(_) => self.stops.push(stop),
                    Err(error) => self.troubles.push(format!("metrics were not read: no thread: {error}")),
                }
            }
            self.readings = Some(readings);
        }
        let notes = self.troubles.drain(..).map(Observed::Note);
        notes.chain(self.readings.iter().flat_map(Receiver::try_iter)).collect()
    }
}

/// When a metric had which value, or why it has none.
type Value = Result<(Instant, f64), String>;

/// Whoever answers, and what is read of the answers.
struct Source {
    plan: MetricsPlan,
    /// By the places of the metrics; only an exporter has some.
    selectors: Vec<Selector>,
    /// What is asked: once for all metrics, or for each of them.
    urls: Vec<String>,
    client: ureq::Agent,
    /// How long an answer is awaited.
    patience: Duration,
    /// Of counters, by the places of the metrics: when, and what they were.
    last: Vec<Option<(Instant, f64)>>,
    read: Option<Instant>,
    told: HashSet<String>,
}

impl Source {
    fn new(plan: &Plan, metrics: &MetricsPlan, port: impl Fn(&str) -> Option<u16>) -> Result<Source, String> {
        let url = filled(&metrics.url, port)
            .map_err(|name| format!(
                "no metrics of {} were read: the platform has no port `{name}`; give its number under `platform.ports`",
                metrics.component
            ))?;
        let each = metrics.metrics.iter();
        let (urls, selectors) = match metrics.origin {
            MetricsOrigin::Json => (vec![url.clone()], Vec::new()),
            MetricsOrigin::Exporter => {
                let selectors =
                    each.map(|metric| metric.select.parse()).collect::<Result<_, SelectorError>>();
                (vec![url.clone()], selectors.map_err(|error| error.to_string())?)
            }
            MetricsOrigin::Prometheus => {
                let base = url.trim_end_matches('/');
                let query =
                    |metric: &MetricPlan| format!("{base}/api/v1/query?query={}", encoded(&metric.select));
                (each.map(query).collect(), Vec::new())
            }
        };
        let patience = metrics.every.to_duration().clamp(Duration::from_secs(1), PATIENCE);
        Ok(Source {
            client: controller::client(plan, patience, url.starts_with("https")),
            patience,
            last: vec![None; metrics.metrics.len()],
            plan: MetricsPlan { url, ..metrics.clone() },
            selectors,
            urls,
            read: None,
            told: HashSet::new(),
        })
    }

    fn read_until(&mut self, stopped: &Receiver<()>, out: &Out) {
        let every = self.plan.every.to_duration();
        let mut next = Instant::now();
        loop {
            let (before, asked) = (own_time(), Instant::now());
            let (gauges, troubles) = self.read(out);
            let gauges = gauges.into_iter().chain(self.own(asked, own_time().saturating_sub(before), out));
            let troubles = troubles.into_iter().filter_map(|trouble| self.told(trouble));
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
            let Some(metric) = self.plan.metrics.get(place) else { continue };
            let value = value.and_then(|(at, value)| match value * metric.scale {
                value if value.is_finite() => Ok((at, value)),
                value => Err(format!("the value is {value}")),
            });
            match value {
                Ok((answered, value)) => {
                    let last = self.last.get_mut(place);
                    let grown = match metric.kind {
                        MetricKind::Gauge => Some(value),
                        MetricKind::Counter => last.and_then(|last| growth(last, answered, value)),
                    };
                    gauges.extend(grown.map(|value| Gauge {
                        at: out.now + Nanos::from(answered - out.begun),
                        sampler: METRICS.to_owned(),
                        subject: self.plan.component.clone(),
                        quantity: metric.name.clone(),
                        unit: metric.unit.to_owned(),
                        value,
                    }));
                }
                Err(why) => troubles.push(format!("`{}`: {why}", metric.name)),
            }
        }
        (gauges, troubles)
    }

    /// When what was answered, by the places of the metrics; or why nothing was.
    fn values(&self) -> Result<Vec<Value>, String> {
        let mut answers = self.urls.iter().map(|url| self.ask(url));
        if self.plan.origin == MetricsOrigin::Prometheus {
            let value = |answer: Result<(Instant, String), String>| {
                let (at, text) = answer?;
                Ok((at, of_server(&text)?))
            };
            return Ok(answers.map(value).collect());
        }
        let (at, text) = answers.next().unwrap_or_else(|| Err("nothing was asked".to_owned()))?;
        if self.plan.origin == MetricsOrigin::Exporter {
            let selectors: Vec<&Selector> = self.selectors.iter().collect();
            let sums = sums(&text, &selectors)
                .ok_or_else(|| "the answer holds no metrics of Prometheus".to_owned())?;
            let missing = || "the answer has no such series".to_owned();
            return Ok(sums.into_iter().map(|sum| Ok((at, sum.ok_or_else(missing)?))).collect());
        }
        let json = serde_json::from_str(&text).map_err(|_| "the answer is no JSON".to_owned())?;
        Ok(self.plan.metrics.iter().map(|metric| Ok((at, of_json(&json, &metric.select)?))).collect())
    }

    /// What reading costs, and the gap where a question is late.
    fn own(&mut self, asked: Instant, cost: Duration, out: &Out) -> Vec<Gauge> {
        let at = out.now + Nanos::from(Instant::now() - out.begun);
        let last = self.read.replace(asked);
        last.map(|last| {
            late(&format!("metrics of {}", self.plan.component), at, asked - last, self.plan.every, cost)
        })
        .unwrap_or_default()
    }

    /// What is to be told of a trouble; each is told once.
    fn told(&mut self, trouble: String) -> Option<String> {
        if self.told.len() >= TOLD || !self.told.insert(trouble.clone()) {
            return None;
        }
        let MetricsPlan { component, url, .. } = &self.plan;
        let url = hide_query_secrets(url);
        Some(format!("metrics of {component} from {url} have a gap: {trouble}"))
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
        if !status.is_success() && self.plan.origin != MetricsOrigin::Prometheus {
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

/// The URL with the numbers of the platform's ports; the name of one that the platform does not have.
fn filled(url: &str, port: impl Fn(&str) -> Option<u16>) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), url);
    while let Some((before, after)) = rest.split_once("{port:") {
        let Some((name, remainder)) = after.split_once('}') else { break };
        filled.push_str(before);
        filled.push_str(&port(name).ok_or_else(|| name.to_owned())?.to_string());
        rest = remainder;
    }
    Ok(filled + rest)
}

/// The growth of a counter per second since the last reading; none where it began again.
fn growth(last: &mut Option<(Instant, f64)>, now: Instant, value: f64) -> Option<f64> {
    let (then, before) = last.replace((now, value))?;
    let seconds = (now - then).as_secs_f64();
    (value >= before && seconds > 0.0).then(|| (value - before) / seconds)
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

    #[test]
    fn a_counter_that_began_again_leaves_a_gap() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut last = None;
        let seen: Vec<_> = [(0, 10.0), (2, 30.0), (4, 5.0), (5, 6.0)]
            .map(|(seconds, value)| growth(&mut last, at(seconds), value))
            .into();
        assert_eq!(seen, [None, Some(10.0), None, Some(1.0)]);
    }

    #[test]
    fn ports_have_their_numbers() {
        let port = |name: &str| (name == "stats").then_some(9100);
        assert_eq!(
            filled("http://127.0.0.1:{port:stats}/metrics", port),
            Ok("http://127.0.0.1:9100/metrics".into())
        );
        assert_eq!(filled("http://h:{port:other}/", port), Err("other".into()));
        assert_eq!(filled("http://h:{port:stats", port), Ok("http://h:{port:stats".into()));
    }
}
