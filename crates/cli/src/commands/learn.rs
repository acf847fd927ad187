//! `plimsoll learn`: a scenario out of captured traffic.

use super::dissect::{opened, sizes, threads, unreadable};
use super::outputs;
use crate::exit_code;
use crate::failure::Failure;
use crate::interrupt::stop_flag;
use crate::output::{complain, file, say};
use crate::progress::ReadingProgress;
use clap::Args;
use plimsoll_analysis::learning::{Traces, Wishes};
use plimsoll_capture::tls::keys::Keys;
use plimsoll_report::learned as render;
use plimsoll_runner::learning::Learning;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Writes a scenario that sends what the devices of a capture have sent
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll learn production.pcap --out learned.yaml
  plimsoll learn monday.pcapng tuesday.pcapng --times 3 --out threefold.yaml
  plimsoll learn incident.pcap --trace --out incident.yaml
  plimsoll run learned.yaml --set platform.address=mqtt://127.0.0.1:1883

Reads what `plimsoll dissect` reads. It learns from what clients publish over
MQTT, NATS, AMQP and Kafka, and send by POST, PUT and PATCH over HTTP and CoAP.
It finds populations, devices, rates, laws of arrivals, sizes, topics or paths,
QoS, subscribers, and how the load changes. Where no law fits the arrivals, it
writes their exact times beside the scenario. Contents are never copied, and
names that few devices share are replaced. What a scenario cannot say stands in
its comments.

Exit codes: 0 learned, 1 nothing to learn from, or a file is no capture or is
damaged, 104 wrong usage, 105 interrupted.")]
pub struct Learn {
    /// Captures, `-` for the standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The scenario to write; without it, the scenario goes to standard output
    #[arg(long, value_name = "FILE.yaml", value_parser = file())]
    out: Option<PathBuf>,
    /// Replace names that fewer than three devices share, and what looks like a key. This
    /// is the default
    #[arg(long, conflicts_with = "keep_names")]
    anonymise: bool,
    /// Keep the words of topics and paths, and name the server in a comment. Contents and
    /// the identifiers of clients are left out all the same
    #[arg(long)]
    keep_names: bool,
    /// So many times the load of the capture: so many times the devices, each as
    /// often as before
    #[arg(long, value_name = "K", default_value_t = 1.0, value_parser = times)]
    times: f64,
    /// Write the exact times of all messages beside the scenario (FILE.trace.csv), which a
    /// run replays. Without this, only those of populations whose arrivals follow no law
    #[arg(long, requires = "out")]
    trace: bool,
    /// Print what was learned as JSON
    #[arg(long)]
    json: bool,
    /// Open TLS with the keys in this log, of the form of SSLKEYLOGFILE (repeatable)
    #[arg(long, value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Conversations that are followed at once.
const CONVERSATIONS: usize = 32_768;

impl Learn {
    pub fn perform(self) -> Result<u8, Failure> {
        let trace = self.out.as_ref().map(|out| out.with_extension("trace.csv"));
        if let Some(path) = self.out.iter().chain(&trace).find(|path| path.exists()) {
            let path = path.display();
            return Err(Failure::Usage(format!(
                "{path} exists already, and no scenario is overwritten: choose another name"
            )));
        }
        let keys = Keys::of_files(&self.keys, false).map_err(|error| Failure::Undoable(error.to_string()))?;
        let stop =
            stop_flag().map_err(|error| Failure::Undoable(format!("cannot watch for signals: {error}")))?;
        let sources = opened(&self.files)?;
        let progress = ReadingProgress::new(self.quiet, sizes(&self.files));
        let traces = match (&self.out, self.trace) {
            (None, _) => Traces::Never,
            (Some(_), false) => Traces::Unexplained,
            (Some(_), true) => Traces::All,
        };
        let wishes = Wishes { keep_names: self.keep_names, times: self.times, traces };
        let learning = Learning {
            keys,
            conversations: CONVERSATIONS,
            threads: threads(),
            stop: Arc::clone(&stop),
            wishes,
        };
        let (learned, endings) =
            learning.read(sources, &mut |read| progress.read(read)).map_err(unreadable)?;
        progress.finish();
        let name = trace.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let scenario = render::scenario(&learned, name.as_deref());
        if let Some(path) = self.out.as_ref().filter(|_| !learned.populations.is_empty()) {
            if let (Some(path), Some(text)) = (&trace, render::trace(&learned)) {
                outputs::write(path, &text)?;
            }
            outputs::write(path, &scenario)?;
        }
        match (self.json, &self.out) {
            (true, _) => say(&render::json(&learned)),
            (false, Some(_)) => say(&render::terminal(&learned)),
            (false, None) => say(&scenario),
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(exit_code::INTERRUPTED);
        }
        let damaged = self.complain_of(&endings);
        if learned.populations.is_empty() {
            complain("no client publishes anything in this capture that Plimsoll can learn from");
        }
        Ok(if damaged || learned.populations.is_empty() { exit_code::UNDOABLE } else { exit_code::MET })
    }

    /// Reports files that could not be read to their end; whether there are any.
    fn complain_of(&self, endings: &[plimsoll_capture::source::Ending]) -> bool {
        let mut damaged = false;
        for (path, ending) in self.files.iter().zip(endings) {
            let path = path.display();
            if let Some((byte, reason)) = &ending.error {
                complain(&format!("{path} was read up to byte {byte}: {reason}"));
                damaged = true;
            } else if let Some((byte, _)) = &ending.garbage {
                complain(&format!("{path} was read up to byte {byte}, where no record begins"));
                damaged = true;
            }
        }
        damaged
    }
}

/// A positive number.
fn times(text: &str) -> Result<f64, String> {
    let wrong = "give a number above 0 and up to 1,000,000, such as 3 or 0.5";
    let times: f64 = text.parse().map_err(|_| wrong.to_owned())?;
    if times > 0.0 && times <= 1e6 { Ok(times) } else { Err(wrong.to_owned()) }
}
