//! Reads metrics that the platform itself reports. Each source has a thread of its own: one that answers late or never keeps no
//! other waiting. `requests` asks over HTTP, `topics` listens to a broker; `readings` are what both make of a value.

mod readings;
mod requests;
mod topics;

use crate::sampling::Observed;
use plimsoll_model::Nanos;
use plimsoll_platform::HttpAddresses;
use plimsoll_scenario::plan::{MetricsOrigin, MetricsPlan, Plan};
use readings::Readings;
use requests::Requests;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use topics::Topics;

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

impl Out {
    /// A time on the run's clock.
    fn at(&self, instant: Instant) -> Nanos {
        self.now + Nanos::from(instant.saturating_duration_since(self.begun))
    }
}

/// Who has metrics.
enum Source {
    /// Answers over HTTP.
    Requests(Requests),
    /// Publishes them.
    Topics(Topics),
}

impl Source {
    fn new(plan: &Plan, metrics: &MetricsPlan, port: impl Fn(&str) -> Option<u16>) -> Result<Source, String> {
        let url = filled(&metrics.url, port)
            .map_err(|name| format!(
                "no metrics of {} were read: the platform has no port `{name}`; give its number under `platform.ports`",
                metrics.component
            ))?;
        let readings = Readings::new(MetricsPlan { url, ..metrics.clone() });
        if metrics.origin == MetricsOrigin::Topics {
            let address = readings.plan.url.trim_start_matches("mqtt://").trim_end_matches('/').to_owned();
            let password = plan.mqtt.password.as_ref().map(|password| password.0.clone());
            return Ok(Source::Topics(Topics::new(readings, address, plan.mqtt.username.clone(), password)));
        }
        Requests::new(plan, readings).map(Source::Requests).map_err(|error| error.to_string())
    }

    /// Reads until the run is over.
    fn read_until(&mut self, stopped: &Receiver<()>, out: &Out) {
        match self {
            Source::Requests(requests) => requests.read_until(stopped, out),
            Source::Topics(topics) => topics.read_until(stopped, out),
        }
    }
}

impl Scraping {
    /// Of all metrics of a plan, with the ports of the platform.
    pub fn new(plan: &Plan, http: &HttpAddresses) -> Scraping {
        let port = |name: &str| http.of(Some(name)).map(|address| address.port());
        let mut scraping = Scraping::default();
        for metrics in &plan.record.metrics {
            let replicas = plan.platform.replicas_of(&metrics.component);
            if replicas > 1 && metrics.url.contains("{port:") {
                let name = &metrics.component;
                let trouble =
                    format!("no metrics of {name} were read: its {replicas} replicas stand behind one port");
                scraping.troubles.push(trouble);
                continue;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

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
