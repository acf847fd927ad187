//! `plimsoll target station`: a server whose true service times are known.

use crate::failure::Failure;
use crate::output::{file, say};
use crate::{exit_code, interrupt};
use clap::{Args, ValueEnum};
use plimsoll_model::Nanos;
use plimsoll_scenario::duration;
use plimsoll_stats::queue::{ServiceTime, Settings as QueueSettings, Stall};
use plimsoll_stats::system::{Discipline, Quota};
use plimsoll_target::station::{self, Busy, Faults, Lock, NextStation, Settings, Work};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Shortest time from one stall to the next, and shortest period of a quota.
const SHORTEST_PERIOD: Nanos = Nanos::from_millis(1);
/// Least work in a period: enough for a nanosecond of each worker.
const SMALLEST_QUOTA: Nanos = Nanos::from_micros(10);
/// Longest service time, and longest period of a quota.
const LONGEST_SERVICE: Nanos = Nanos::from_secs(3600);

/// Runs a server whose true service times are known
///
/// A message waits for a worker, is served, then acknowledged and delivered. A record
/// holds what really happened.
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll target station --service exponential:2ms --truth truth.csv
  plimsoll target station --workers 4 --service lognormal:2ms:0.5 --queue 100
  plimsoll target station --service deterministic:1ms --stall 10s:500ms
  plimsoll target station --workers 4 --lock deterministic:1ms
  plimsoll target station --workers 2 --sharing --quota 20ms/100ms

SIGTERM or Ctrl-C ends it and completes the record.")]
pub struct Station {
    /// What it speaks
    #[arg(long, value_enum, default_value_t = ProtocolOption::Mqtt)]
    protocol: ProtocolOption,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port; 0 for a free one, which is then printed
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Servers of the queue
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Service time: deterministic:MEAN, exponential:MEAN or lognormal:MEAN:CV
    #[arg(long, value_name = "LAW", default_value = "exponential:1ms", value_parser = service)]
    service: ServiceTime,
    /// Time for which each service then holds a lock that all workers share,
    /// by the same laws
    #[arg(long, value_name = "LAW", value_parser = service)]
    lock: Option<ServiceTime>,
    /// A file that is locked for the same time, by which several stations share
    /// one lock; with --work spin or wait
    #[arg(long, value_name = "FILE", value_parser = file())]
    lock_file: Option<PathBuf>,
    /// Serves all messages at once: they share the speed of the workers equally,
    /// and none is faster than one worker
    #[arg(long)]
    sharing: bool,
    /// Time for which all workers together may work in each period, such as
    /// 20ms/100ms; then everything stands still until the next period
    #[arg(long, value_name = "WORK/PERIOD", value_parser = quota)]
    quota: Option<Quota>,
    /// How a worker is busy: a timer, or a thread that burns processor time or
    /// sleeps
    #[arg(long, value_enum, default_value_t = WorkOption::Sleep)]
    work: WorkOption,
    /// Largest number of messages that wait; more are refused (default: any number)
    #[arg(long, value_name = "LIMIT")]
    queue: Option<usize>,
    /// Probability that a message is acknowledged but not delivered
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    drop: f64,
    /// Probability that a message is delivered twice
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    duplicate: f64,
    /// Probability that a message is delivered behind a later one
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    reorder: f64,
    /// From each multiple of EVERY, all workers stop for FOR
    #[arg(long, value_name = "EVERY:FOR", value_parser = every_for)]
    stall: Option<Stall>,
    /// Seeds service times and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to write the record, as CSV
    #[arg(long, value_name = "FILE", value_parser = file())]
    pub truth: Option<PathBuf>,
    /// The station that everything served is passed on to, and that answers
    /// for it, as 127.0.0.1:1884; both speak MQTT
    #[arg(long, value_name = "ADDRESS")]
    next: Option<SocketAddr>,
    /// The most messages that are at the next station at once, as with a pool of
    /// so many connections; the others wait (default: any number)
    #[arg(long, value_name = "N")]
    pool: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProtocolOption {
    /// MQTT 3.1.1 and 5, over TCP
    Mqtt,
    /// HTTP/1.1, over TCP: 204, to GET 200, when the queue is full 503
    Http,
    /// CoAP, over UDP: 2.04, to GET 2.05, when the queue is full 5.03
    Coap,
    /// WebSocket, over TCP: MQTT for clients that ask for that subprotocol, else an echo
    Websocket,
}

#[derive(Clone, Copy, ValueEnum)]
enum WorkOption {
    /// Departures are computed and held by a timer
    Sleep,
    /// One thread a worker spins for the service time
    Spin,
    /// One thread a worker sleeps for it: a process that is stopped serves nobody
    Wait,
}

impl Station {
    /// What the station is told, and the scheme of its address.
    ///
    /// # Errors
    /// Options that do not go together.
    pub fn settings(&self) -> Result<(Settings, &'static str), Failure> {
        let (protocol, scheme) = match self.protocol {
            ProtocolOption::Mqtt => (station::StationProtocol::Mqtt, "mqtt"),
            ProtocolOption::Http => (station::StationProtocol::Http, "http"),
            ProtocolOption::Coap => (station::StationProtocol::Coap, "coap"),
            ProtocolOption::Websocket => (station::StationProtocol::WebSocket, "ws"),
        };
        let settings = Settings {
            protocol,
            host: self.host,
            port: self.port,
            queue: QueueSettings {
                workers: usize::from(self.workers),
                service: self.service,
                limit: self.queue,
                stall: self.stall,
                seed: self.seed,
            },
            work: self.work()?,
            faults: Faults { drop: self.drop, duplicate: self.duplicate, reorder: self.reorder },
            truth: self.truth.clone(),
            next: self.next.map(|address| NextStation { address, pool: self.pool }),
        };
        if settings.next.is_some() && settings.protocol != station::StationProtocol::Mqtt {
            return Err(Failure::Usage("--next passes messages on over MQTT: use --protocol mqtt".into()));
        }
        if self.pool.is_some() && settings.next.is_none() {
            return Err(Failure::Usage("--pool needs a next station: give its address by --next".into()));
        }
        Ok((settings, scheme))
    }

    fn work(&self) -> Result<Work, Failure> {
        let Station { lock, sharing, quota, .. } = *self;
        let file = &self.lock_file;
        let thread =
            |busy| Ok(Work::Thread { busy, lock: lock.map(|time| Lock { time, file: file.clone() }) });
        let refused = |reason: &str| Err(Failure::Usage(reason.into()));
        match self.work {
            _ if sharing && self.queue.is_some() => refused(
                "with --sharing no message waits for a worker, so --queue limits nothing: leave out one of them",
            ),
            _ if file.is_some() && lock.is_none() => {
                refused("--lock-file needs a time for which the lock is held: give it by --lock")
            }
            WorkOption::Sleep if file.is_some() => refused(
                "--lock-file is locked by threads, and --work sleep has none: use --work spin or --work wait",
            ),
            WorkOption::Sleep => Ok(Work::Sleep(Discipline { lock, sharing, quota })),
            _ if sharing => {
                refused("--sharing is computed, and threads do not share as it says: use --work sleep")
            }
            _ if quota.is_some() => refused(
                "--quota is computed, and threads do not keep to it: use --work sleep, or start the \
                 station in a control group with cpu.max",
            ),
            WorkOption::Spin => thread(Busy::Spin),
            WorkOption::Wait => thread(Busy::Wait),
        }
    }

    pub fn perform(self) -> Result<u8, Failure> {
        let (settings, scheme) = self.settings()?;
        let undoable = |error: &dyn std::fmt::Display| Failure::Undoable(error.to_string());
        let stop = interrupt::stop_flag().map_err(|error| undoable(&error))?;
        let station = station::Station::bind(&settings).map_err(|error| undoable(&error))?;
        let address = station.address().map_err(|error| undoable(&error))?;
        say(&format!("listening on {scheme}://{address}\n"));
        station.run(&stop).map_err(|error| undoable(&error))?;
        Ok(exit_code::MET)
    }
}

fn service(text: &str) -> Result<ServiceTime, String> {
    let how = "write deterministic:2ms, exponential:2ms or lognormal:2ms:0.5";
    let (law, rest) = text.split_once(':').ok_or(how)?;
    let (mean, cv) = rest.split_once(':').map_or((rest, None), |(mean, cv)| (mean, Some(cv)));
    let mean = duration(mean)?;
    if mean > LONGEST_SERVICE {
        return Err("a service time is one hour at most".into());
    }
    match (law, cv) {
        ("deterministic", None) => Ok(ServiceTime::Deterministic(mean)),
        ("exponential", None) => Ok(ServiceTime::Exponential(mean)),
        ("lognormal", Some(cv)) => match cv.parse::<f64>() {
            Ok(cv) if cv > 0.0 && cv <= 100.0 => Ok(ServiceTime::LogNormal { mean, cv }),
            _ => Err(format!("`{cv}` is no coefficient of variation above 0 and up to 100")),
        },
        ("lognormal", None) => Err("lognormal needs a coefficient of variation: lognormal:2ms:0.5".into()),
        _ => Err(how.into()),
    }
}

pub fn probability(text: &str) -> Result<f64, String> {
    let percent =
        text.strip_suffix('%').map(|number| number.trim().parse::<f64>().map(|percent| percent / 100.0));
    match percent.unwrap_or_else(|| text.parse::<f64>()) {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err("a probability is a number from 0 to 1, or such as 2%".into()),
    }
}

/// A time that comes again, and how long it lasts.
pub fn every_for(text: &str) -> Result<Stall, String> {
    let (every, length) = text.split_once(':').ok_or("write EVERY:FOR, such as 10s:500ms")?;
    let (every, length) = (duration(every)?, duration(length)?);
    if every < SHORTEST_PERIOD {
        return Err("EVERY is 1ms at least".into());
    }
    if length >= every {
        return Err("FOR must be shorter than EVERY".into());
    }
    Ok(Stall { every, length })
}

fn quota(text: &str) -> Result<Quota, String> {
    let (work, period) = text.split_once('/').ok_or("write WORK/PERIOD, such as 20ms/100ms")?;
    let (work, period) = (duration(work)?, duration(period)?);
    if !(SHORTEST_PERIOD..=LONGEST_SERVICE).contains(&period) {
        return Err("the period of a quota is 1ms at least and one hour at most".into());
    }
    if work < SMALLEST_QUOTA {
        return Err("a quota is 10us at least, else nothing would be done".into());
    }
    Ok(Quota { work, period })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    const MILLIS: Nanos = Nanos::from_millis(2);

    #[test]
    fn laws_are_read_and_wrong_ones_explained() {
        assert_eq!(service("deterministic:2ms"), Ok(ServiceTime::Deterministic(MILLIS)));
        assert_eq!(service("exponential:2ms"), Ok(ServiceTime::Exponential(MILLIS)));
        assert_eq!(service("lognormal:2ms:0.5"), Ok(ServiceTime::LogNormal { mean: MILLIS, cv: 0.5 }));
        for wrong in
            ["2ms", "uniform:2ms", "exponential:2", "exponential:2ms:1", "lognormal:2ms", "lognormal:2ms:-1"]
        {
            assert!(service(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn stalls_are_shorter_than_their_period() {
        assert_eq!(every_for("10s:2ms"), Ok(Stall { every: Nanos::from_secs(10), length: MILLIS }));
        assert!(every_for("10s").is_err() && every_for("1s:1s").is_err() && every_for("1ns:0ns").is_err());
        assert!(probability("1.1").is_err() && probability("nan").is_err() && probability("0.5") == Ok(0.5));
    }

    #[test]
    fn quotas_are_work_in_a_period() {
        assert_eq!(quota("2ms/10s"), Ok(Quota { work: MILLIS, period: Nanos::from_secs(10) }));
        for wrong in ["2ms", "2ms:10ms", "0s/10ms", "2ms/1us", "2ms/2h", "2/10ms"] {
            assert!(quota(wrong).is_err(), "{wrong}");
        }
    }

    /// What a user reads whose options do not go together.
    fn refusal(options: &str) -> String {
        let command = Station::augment_args(clap::Command::new("station").no_binary_name(true));
        let matches = command.try_get_matches_from(options.split_whitespace()).unwrap();
        match Station::from_arg_matches(&matches).unwrap().settings() {
            Ok(_) => String::new(),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn options_that_do_not_go_together_are_refused_with_what_to_do() {
        for (options, hint) in [
            ("--sharing --queue 5", "leave out one of them"),
            ("--sharing --work spin", "use --work sleep"),
            ("--quota 20ms/100ms --work spin", "cpu.max"),
            ("--sharing --work wait", "use --work sleep"),
            ("--lock-file lock --work wait", "give it by --lock"),
            ("--lock exponential:1ms --lock-file lock", "use --work spin or --work wait"),
            ("--pool 4", "give its address by --next"),
            ("--next 127.0.0.1:1883 --protocol http", "use --protocol mqtt"),
        ] {
            let said = refusal(options);
            assert!(said.contains(hint), "{options}: {said}");
        }
        let most = "--sharing --quota 20ms/100ms --lock exponential:1ms --stall 10s:1s --next 127.0.0.1:1883 \
                    --pool 4";
        let threads = "--work spin --lock exponential:1ms --queue 5";
        let stations = "--work wait --lock exponential:1ms --lock-file lock --workers 2 --queue 5";
        assert_eq!([most, threads, stations].map(refusal), [""; 3]);
    }
}
