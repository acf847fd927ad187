//! Sends the metrics to a receiver every few seconds, and once more at the end. A receiver that is slow or gone costs the run
//! nothing: what could not be sent is told at the end.

use super::{Live, otlp};
use plimsoll_codec::openmetrics;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time between two requests.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long a receiver may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// The value of the label `job`, and of OpenTelemetry's service name.
const JOB: &str = "plimsoll";

/// What a receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Prometheus remote write 1.0.
    RemoteWrite,
    /// OTLP over HTTP, as JSON.
    Otlp,
}

/// The sender. [`Push::finish`] ends it.
pub struct Push {
    ends: Sender<()>,
    thread: JoinHandle<Result<(), String>>,
}

impl Push {
    /// Begins to send to that URL.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn begin(protocol: Protocol, url: String, live: Arc<Live>) -> std::io::Result<Push> {
        let (ends, over) = channel();
        let work = move || {
            let since = unix_nanos();
            let config =
                ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
            let agent = ureq::Agent::new_with_config(config.build());
            let mut sent = Sent::default();
            loop {
                let is_over = over.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
                let families = live.families();
                if !families.is_empty() {
                    sent.add(match protocol {
                        Protocol::RemoteWrite => remote_write(&agent, &url, &families),
                        Protocol::Otlp => send_otlp(&agent, &url, &families, since),
                    });
                }
                if is_over {
                    return sent.outcome();
                }
            }
        };
        let thread = std::thread::Builder::new().name("push".into()).spawn(work)?;
        Ok(Push { ends, thread })
    }

    /// Sends once more and ends.
    ///
    /// # Errors
    /// How many requests failed, and why the first of them did, for people.
    pub fn finish(self) -> Result<(), String> {
        drop(self.ends);
        self.thread.join().unwrap_or_else(|_| Err("the thread that sends metrics ended".to_owned()))
    }
}

/// What became of the requests so far.
#[derive(Debug, Default)]
struct Sent {
    requests: u64,
    failed: u64,
    first: String,
}

impl Sent {
    fn add(&mut self, outcome: Result<(), String>) {
        self.requests += 1;
        if let Err(why) = outcome {
            if self.failed == 0 {
                self.first = why;
            }
            self.failed += 1;
        }
    }

    fn outcome(self) -> Result<(), String> {
        let Sent { requests, failed, first } = self;
        if failed == 0 {
            Ok(())
        } else {
            Err(format!("{failed} of {requests} requests failed, the first one: {first}"))
        }
    }
}

fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn remote_write(agent: &ureq::Agent, url: &str, families: &[openmetrics::Family]) -> Result<(), String> {
    let now = i64::try_from(unix_nanos() / 1_000_000).unwrap_or(i64::MAX);
    let request = openmetrics::write_request(families, &[("job", JOB)], now);
    let packed = snap::raw::Encoder::new().compress_vec(&request).map_err(|error| error.to_string())?;
    let post = agent
        .post(url)
        .header("Content-Type", "application/x-protobuf")
        .header("Content-Encoding", "snappy")
        .header("X-Prometheus-Remote-Write-Version", "0.1.0");
    took(post.send(&packed[..]))
}

fn send_otlp(
    agent: &ureq::Agent,
    url: &str,
    families: &[openmetrics::Family],
    since: u64,
) -> Result<(), String> {
    let request = otlp::request(families, &[("service.name", JOB)], since, unix_nanos());
    took(agent.post(url).header("Content-Type", "application/json").send(request.to_string()))
}

/// Whether the receiver took it, or what it said.
fn took(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<(), String> {
    let mut answer = answer.map_err(|error| error.to_string())?;
    if answer.status().is_success() {
        return Ok(());
    }
    let said = answer.body_mut().with_config().limit(200).read_to_string().unwrap_or_default();
    Err(format!("HTTP {}: {}", answer.status(), said.trim()))
}
