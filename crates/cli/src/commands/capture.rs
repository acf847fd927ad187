//! `plimsoll capture`: packets of one or several networks into files.

use crate::exit_code;
use crate::failure::Failure;
use crate::interrupt::stop_flag;
use crate::output::{complain, file, say};
use clap::Args;
use plimsoll_report::text::count;
use plimsoll_runner::capturing::{Capturing, CapturingError, Death, Network, Wanted};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(50);
const MIB: u64 = 1 << 20;

/// Captures packets with dumpcap or tcpdump, until Ctrl-C or for some time
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll capture --interface lo --filter 'port 1883 or port 6379' --seconds 30
  plimsoll capture --namespace broker --namespace db --out wire.pcap
  plimsoll capture --pid 4711

To capture a container's network, give the number of its first process:
  docker inspect -f '{{.State.Pid}}' CONTAINER

Each network gets a file of its own. `plimsoll dissect` reads them together.

Exit codes: 0 captured; 1 it could not be done; 104 wrong usage.")]
pub struct Capture {
    /// The interface
    #[arg(long, value_name = "NAME", default_value = "any")]
    interface: String,
    /// A network namespace by its name, as `ip netns` lists them (repeatable)
    #[arg(long, value_name = "NAME")]
    namespace: Vec<String>,
    /// The network of a process, as of a container's first one (repeatable)
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// The network of a container or pod, by its host name or the first 12 digits of its
    /// id (repeatable)
    #[arg(long, value_name = "NAME")]
    container: Vec<String>,
    /// Which packets, in the words of tcpdump
    #[arg(long, value_name = "FILTER", default_value = "")]
    filter: String,
    /// The file; of several networks each has the network's name in it
    #[arg(long, value_name = "FILE", default_value = "capture.pcap", value_parser = file())]
    out: PathBuf,
    /// Largest size per network in MiB; the oldest packets are overwritten
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(4..=1 << 30))]
    limit: Option<u64>,
    /// Overwrite a capture that exists
    #[arg(long)]
    force: bool,
    /// Seconds to capture (default: until Ctrl-C)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
}

impl Capture {
    pub fn perform(self) -> Result<u8, Failure> {
        let stop =
            stop_flag().map_err(|error| Failure::Undoable(format!("cannot catch signals: {error}")))?;
        let program = std::env::current_exe()
            .map_err(|error| Failure::Undoable(format!("cannot find this program's own file: {error}")))?;
        let mut capturings = Vec::new();
        for (network, out) in self.networks()? {
            let wanted = Wanted {
                network,
                interface: self.interface.clone(),
                filter: self.filter.clone(),
                file: out,
                limit: self.limit.map(|limit| limit * MIB),
                replace: self.force,
            };
            match Capturing::start(&program, wanted, &stop) {
                Ok(capturing) => capturings.push(capturing),
                Err(CapturingError::Interrupted) => {
                    complain("interrupted: nothing was captured");
                    return Ok(exit_code::INTERRUPTED);
                }
                Err(error) => return Err(refused(error)),
            }
        }
        complain(if self.seconds.is_some() { "capturing" } else { "capturing until Ctrl-C" });
        let begin = Instant::now();
        let over = || self.seconds.is_some_and(|span| begin.elapsed() >= span);
        while !stop.load(Ordering::Relaxed) && !over() && !capturings.iter_mut().any(Capturing::has_died) {
            thread::sleep(LOOK);
        }
        let mut died = None;
        for capturing in capturings {
            let captured = capturing.stop();
            let mut files: Vec<String> =
                captured.files.iter().map(|path| path.display().to_string()).collect();
            if files.is_empty() {
                files.push("no file".to_owned());
            }
            say(&format!(
                "{}: {} packets, {} dropped by the kernel{}\n",
                files.join(" "),
                count(captured.packets as f64),
                captured.dropped.map_or("an unknown number".into(), |dropped| count(dropped as f64)),
                if captured.wrapped { "; the limit was reached, the oldest are gone" } else { "" }
            ));
            died = died.or(captured.died);
        }
        if let Some(Death { why, .. }) = died {
            return Err(Failure::Undoable(format!("the capture is not whole: {why}")));
        }
        Ok(exit_code::MET)
    }

    /// The networks and their files.
    fn networks(&self) -> Result<Vec<(Network, PathBuf)>, Failure> {
        let named = self.namespace.iter().map(|name| (Network::Named(name.clone()), name.clone()));
        let pids = self.pid.iter().map(|pid| (Network::OfProcess(*pid), pid.to_string()));
        let mut all: Vec<(Network, String)> = named.chain(pids).collect();
        for name in &self.container {
            let network =
                Network::of_container(name).map_err(|error| Failure::Undoable(error.to_string()))?;
            all.push((network, name.clone()));
        }
        Ok(match &all[..] {
            [] => vec![(Network::Own, self.out.clone())],
            [(one, _)] => vec![(one.clone(), self.out.clone())],
            _ => all.into_iter().map(|(network, name)| (network, self.beside(&name))).collect(),
        })
    }

    /// `capture.pcap` of `broker` is `capture.broker.pcap`.
    fn beside(&self, name: &str) -> PathBuf {
        let extension = self.out.extension().map_or("pcap".into(), |extension| extension.to_string_lossy());
        // A name may have anything in it but what separates folders.
        self.out.with_extension(format!("{}.{extension}", name.replace('/', "_")))
    }
}

fn refused(error: CapturingError) -> Failure {
    match error {
        CapturingError::Exists { .. } | CapturingError::Busy { .. } => Failure::Usage(error.to_string()),
        _ => Failure::Undoable(error.to_string()),
    }
}

/// A span of time that ends.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 31_536_000.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("give a number of seconds above 0 and up to 31536000, a year".into()),
    }
}
