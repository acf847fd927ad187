//! Options that show a run to other programs while it goes on.

use crate::failure::Failure;
use crate::output::{complain, file};
use clap::Args;
use plimsoll_runner::live::{Endpoint, Followed, Live, NowFile, Protocol, Push};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// To whom a run is shown.
#[derive(Args, Debug, Default)]
pub struct LiveOptions {
    /// Serve the run's metrics there while it goes on, as OpenMetrics at /metrics; a Prometheus
    /// scrapes 127.0.0.1:9464
    #[arg(long, value_name = "IP:PORT", help_heading = HEADING)]
    metrics: Option<SocketAddr>,
    /// Send the metrics to a Prometheus remote write receiver every 5 s
    #[arg(long, value_name = "URL", value_parser = url, help_heading = HEADING)]
    remote_write: Option<String>,
    /// Send the metrics to an OTLP receiver every 5 s, as JSON: http://HOST:4318/v1/metrics
    #[arg(long, value_name = "URL", value_parser = url, help_heading = HEADING)]
    otlp: Option<String>,
    /// Keep what the run does now in this file as JSON, written twice a second
    #[arg(long, value_name = "FILE", value_parser = file(), help_heading = HEADING)]
    now: Option<PathBuf>,
}

const HEADING: &str = "Metrics while the run goes on";

pub(super) fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') => Ok(text.to_owned()),
        _ => Err("write http://HOST:PORT/PATH or https://HOST:PORT/PATH".to_owned()),
    }
}

/// The host and the port of a URL: its path and its query may hold a key.
fn host(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

impl LiveOptions {
    /// The file that is written meanwhile.
    pub fn file(&self) -> Option<&Path> {
        self.now.as_deref()
    }

    /// Begins to show what runs will measure.
    pub fn begin(&self) -> Result<Watched, Failure> {
        let undoable = |what: String, error: std::io::Error| Failure::Undoable(format!("{what}: {error}"));
        let live = Arc::new(Live::default());
        let endpoint = self.metrics.map(|address| {
            Endpoint::open(address, Arc::clone(&live))
                .map_err(|error| undoable(format!("cannot serve metrics at {address} (--metrics)"), error))
        });
        let endpoint = endpoint.transpose()?;
        let receivers = [(Protocol::RemoteWrite, &self.remote_write), (Protocol::Otlp, &self.otlp)];
        let mut pushes = Vec::new();
        for (protocol, url) in receivers {
            let Some(url) = url else { continue };
            let push = Push::begin(protocol, url.clone(), Arc::clone(&live))
                .map_err(|error| undoable(format!("cannot send metrics to {}", host(url)), error))?;
            pushes.push((host(url).to_owned(), push));
        }
        let now = self.now.as_ref().map(|path| {
            NowFile::begin(path, Arc::clone(&live)).map_err(|error| Failure::unwritable(path, &error))
        });
        let now = now.transpose()?;
        let live = (endpoint.is_some() || !pushes.is_empty() || now.is_some()).then_some(live);
        Ok(Watched { live, _endpoint: endpoint, pushes, now })
    }
}

/// Shows what runs measure, until it is finished.
pub struct Watched {
    live: Option<Arc<Live>>,
    _endpoint: Option<Endpoint>,
    /// Each with the host of its receiver.
    pushes: Vec<(String, Push)>,
    now: Option<NowFile>,
}

impl Watched {
    /// Progress that is shown to programs, too.
    pub fn follow<P>(&self, progress: P) -> Followed<P> {
        Followed::new(progress, self.now.as_ref().map(NowFile::board))
    }

    /// What a run keeps up to date; `None` where nobody watches.
    pub fn live(&self) -> Option<Arc<Live>> {
        self.live.clone()
    }

    /// Sends the last figures, and complains of receivers that did not take them.
    pub fn finish(self) {
        if let Some(now) = self.now {
            now.finish();
        }
        for (host, push) in self.pushes {
            if let Err(reason) = push.finish() {
                complain(&format!("{host} did not take the metrics: {reason}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_only_that_is_shown() {
        assert!(url("http://127.0.0.1:9090/api/v1/write").is_ok());
        for wrong in ["127.0.0.1:9090", "http://", "http:///x", "ftp://x/"] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
        assert_eq!(host("https://user:pass@host:4318/v1/metrics?key=x"), "host:4318");
    }
}
