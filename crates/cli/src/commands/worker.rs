//! `plimsoll worker`: lends this machine's processors to runs of a coordinator.

use super::load_options::shipped_plan;
use super::nats_options::NatsOptions;
use crate::failure::Failure;
use crate::output::complain;
use crate::{exit_code, interrupt};
use clap::Args;
use plimsoll_model::Nanos;
use plimsoll_runner::worker::{WorkerOptions, serve};
use plimsoll_scenario::duration;
use rustix::thread::sched_getaffinity;
use std::net::IpAddr;
use std::str::FromStr;

/// Works for runs on other machines: has some of their devices
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll worker --join nats://coordinator:4222
  plimsoll worker --join nats://coordinator:4222 --site north
  plimsoll worker --join tls://nats.example:4222 --nats-ca ca.pem \\
      --nats-credentials worker.creds --name edge-1

It waits at the NATS server until `plimsoll run --workers` needs it, then for
the next run. It reads no file that a scenario names: the coordinator sends
what is needed. It starts no program that a scenario names, unless it has
--allow-commands, and captures no packets, unless it has --allow-captures.
Ctrl-C ends it.")]
pub struct Worker {
    /// The NATS server at which coordinators look for workers
    #[arg(long, value_name = "nats://HOST:4222")]
    join: String,
    /// Its name in reports [default: the name of this host]
    #[arg(long, value_name = "NAME", value_parser = named)]
    name: Option<String>,
    /// Its site: clients of a scenario that stand at that site stand here, or at other
    /// workers of the site
    #[arg(long, value_name = "NAME", value_parser = named)]
    site: Option<String>,
    /// Load threads [default: one for each processor that it may use]
    #[arg(long, value_name = "N", conflicts_with = "processors", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Processors that it keeps to, as 2,3 or 8-15, with a load thread on each [default:
    /// any that it may use]
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    processors: Processors,
    /// End when no run has needed it for so long [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    idle: Option<Nanos>,
    /// Start components of the platform that a scenario lets stand here. A coordinator
    /// can then run any command as the user of this worker
    #[arg(long)]
    allow_commands: bool,
    /// Capture packets of this host if a scenario wants that. The coordinator gets them
    #[arg(long)]
    allow_captures: bool,
    /// Where others reach what listens here [default: this host's address on the way to
    /// the NATS server]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<IpAddr>,
    #[command(flatten)]
    nats: NatsOptions,
}

/// Numbers of processors, as the kernel lists them: `0-3,8` (cpuset(7)).
#[derive(Clone, Debug, Default, PartialEq)]
struct Processors(Vec<usize>);

/// The highest number of a processor, and the most that a worker has load threads on.
const MOST_PROCESSORS: usize = 1024;

impl FromStr for Processors {
    type Err = String;

    fn from_str(list: &str) -> Result<Processors, String> {
        let wrong =
            |part: &str| format!("`{part}` is no processor and no range of them, as in 0-3,8 or up to 1023");
        let mut all = Vec::new();
        for part in list.split(',').filter(|_| !list.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let [first, last] = [first, last].map(|number| number.trim().parse::<usize>());
            let (first, last) = first.ok().zip(last.ok()).ok_or_else(|| wrong(part))?;
            if first > last || last >= MOST_PROCESSORS {
                return Err(wrong(part));
            }
            all.extend((first..=last).filter(|number| !all.contains(number)).collect::<Vec<_>>());
        }
        Ok(Processors(all))
    }
}

impl Worker {
    pub fn perform(self) -> Result<u8, Failure> {
        let undoable = |error: &dyn std::fmt::Display| Failure::Undoable(error.to_string());
        let processors = match self.processors.0.as_slice() {
            [] => vec![None; self.threads.map_or_else(default_threads, usize::from)],
            listed => {
                check_may_use(listed)?;
                listed.iter().copied().map(Some).collect()
            }
        };
        let options = WorkerOptions {
            server: self.nats.server(&self.join)?,
            name: self.name.unwrap_or_else(host_name),
            site: self.site,
            processors,
            idle: self.idle,
            program: std::env::current_exe().map_err(|error| undoable(&error))?,
            starts_components: self.allow_commands,
            captures: self.allow_captures,
            address: self.address,
            stop: interrupt::stop_flag().map_err(|error| undoable(&error))?,
        };
        serve(options, &shipped_plan, &|told| complain(told)).map_err(|error| undoable(&error))?;
        Ok(exit_code::MET)
    }
}

/// Whether this process may use all of these processors.
fn check_may_use(processors: &[usize]) -> Result<(), Failure> {
    let Ok(may) = sched_getaffinity(None) else { return Ok(()) };
    match processors.iter().find(|processor| !may.is_set(**processor)) {
        None => Ok(()),
        Some(missing) => Err(Failure::Usage(format!(
            "--processors: this process may not use processor {missing}, or the host has none of that number: `taskset -cp $$` lists \
             those that it may use"
        ))),
    }
}

/// A name that fits into a line of a report.
fn named(text: &str) -> Result<String, String> {
    match text {
        "" => Err("a name has a letter at least".into()),
        text if text.len() > 100 || text.contains(char::is_control) => {
            Err("a name is a line of 100 bytes at most".into())
        }
        text => Ok(text.to_owned()),
    }
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "worker".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_as_the_kernel_does() {
        let read = |list: &str| list.parse::<Processors>().map(|list| list.0);
        assert_eq!(read("2,3"), Ok(vec![2, 3]));
        assert_eq!(read("0-2,8, 1"), Ok(vec![0, 1, 2, 8]));
        assert_eq!(read(""), Ok(Vec::new()));
        assert!(named("").is_err() && named("two\nlines").is_err() && named("edge ü").is_ok());
        for wrong in ["x", "3-1", "1-", "-1", "0-999999999", "1,,2"] {
            assert!(read(wrong).unwrap_err().contains("as in 0-3,8"), "{wrong}");
        }
    }
}
