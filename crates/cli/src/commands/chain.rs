//! `plimsoll target chain`: stations one behind the other, each a process of its own.

mod options;

use crate::failure::Failure;
use crate::output::say;
use crate::{exit_code, interrupt};
use clap::Args;
use options::Own;
use plimsoll_platform::guard::{Bounds, Guarded, guarded};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the end of a station, and a wish to stop, are looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long a station may take to end, with its record.
const GRACE: Duration = Duration::from_secs(5);

/// Runs several stations in a chain, each a process of its own
///
/// Each station serves a message and passes it on. The answer of the last one goes all
/// the way back.
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll target chain --stations 3 --port 1883 --truth hop \\
    -- --service exponential:1ms
  plimsoll target chain --stations 2 --station '1:--workers 8 --pool 4' \\
    --station '2:--lock deterministic:1ms --workers 4' \\
    -- --service deterministic:2ms

The first one writes hop-1.csv, hop-2.csv and hop-3.csv. SIGTERM or Ctrl-C ends
all of them.
A station that does not end within 5 s is killed, with a message.")]
pub struct Chain {
    /// Number of stations
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=100))]
    stations: u16,
    /// Port of the first; 0 for a free one, which is then printed
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Seed of the first; each further one has one more
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to write the records: this, the station's number, and .csv
    #[arg(long, value_name = "PREFIX")]
    truth: Option<PathBuf>,
    /// Options of station N alone, from 1 on; they come after those of every station,
    /// and the last one of an option counts
    #[arg(long = "station", value_name = "N:OPTIONS", value_parser = options::own)]
    own: Vec<Own>,
    /// Options of every station (see `plimsoll target station --help`)
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

impl Chain {
    pub fn perform(self) -> Result<u8, Failure> {
        let undoable = |error: &dyn std::fmt::Display| Failure::Undoable(error.to_string());
        let options = options::of_each(self.stations, &self.options, &self.own)?;
        let stop = interrupt::stop_flag().map_err(|error| undoable(&error))?;
        let mut stations: Vec<(u16, Guarded)> = Vec::new();
        let mut next: Option<String> = None;
        // The last first, so that each finds its next one.
        for (number, options) in (1..=self.stations).zip(&options).rev() {
            match self.start(number, options, next.as_deref()) {
                Ok((child, address)) => {
                    stations.push((number, child));
                    next = Some(address);
                }
                Err(failure) => {
                    // The failure to start says enough.
                    end(&mut stations);
                    return Err(failure);
                }
            }
        }
        say(&format!("listening on mqtt://{}\n", next.unwrap_or_default()));
        let mut failed = None;
        while !stop.load(Ordering::Relaxed) && failed.is_none() {
            std::thread::sleep(LOOK);
            failed = stations.iter_mut().find_map(|(number, child)| match child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(format!("station {number} ended by itself: {status}")),
                Err(error) => Some(format!("station {number}: {error}")),
            });
        }
        // Who stops the chain may have stopped the stations as well.
        failed = failed.filter(|_| !stop.load(Ordering::Relaxed));
        let killed = end(&mut stations);
        if !killed.is_empty() {
            let killed: Vec<String> = killed.iter().map(u16::to_string).collect();
            let told = format!("did not end within {} s and was killed", GRACE.as_secs());
            let told = format!("station {} {told}; its record may lack messages", killed.join(", "));
            failed = Some(failed.map_or(told.clone(), |reason| format!("{reason}; {told}")));
        }
        failed.map_or(Ok(exit_code::MET), |reason| Err(Failure::Undoable(reason)))
    }

    /// Starts one station; its process and where it listens.
    fn start(
        &self,
        number: u16,
        options: &[String],
        next: Option<&str>,
    ) -> Result<(Guarded, String), Failure> {
        let undoable =
            |error: &dyn std::fmt::Display| Failure::Undoable(format!("station {number}: {error}"));
        let program = std::env::current_exe().map_err(|error| undoable(&error))?;
        let mut command = vec![program.display().to_string()];
        command.extend(["target", "station", "--protocol", "mqtt"].map(str::to_owned));
        command.extend(options.iter().cloned());
        let port = if number == 1 { self.port } else { 0 };
        let seed = self.seed.wrapping_add(u64::from(number) - 1);
        command.extend(["--port".into(), port.to_string(), "--seed".into(), seed.to_string()]);
        if let Some(next) = next {
            command.extend(["--next".into(), next.into()]);
        }
        if let Some(prefix) = &self.truth {
            command.extend(["--truth".into(), format!("{}-{number}.csv", prefix.display())]);
        }
        let mut call = guarded(&program, &Bounds::default(), &command);
        call.guard.stdout(Stdio::piped());
        let mut child = Guarded::start(call).map_err(|error| undoable(&error))?;
        let mut line = String::new();
        if let Some(output) = child.take_stdout() {
            BufReader::new(output).read_line(&mut line).map_err(|error| undoable(&error))?;
        }
        match line.trim().strip_prefix("listening on mqtt://") {
            Some(address) => Ok((child, address.to_owned())),
            None => {
                // It has said why on standard error.
                child.await_end(GRACE);
                let status = child.try_wait().ok().flatten();
                let status =
                    status.map_or_else(|| "it named no address".to_owned(), |status| status.to_string());
                Err(undoable(&format!("it did not start: {status}")))
            }
        }
    }
}

/// Ends the stations from the first to the last, so that none loses its next one before its own end. Returns the numbers
/// of those that had to be killed.
fn end(stations: &mut [(u16, Guarded)]) -> Vec<u16> {
    let ended = |(number, child): &mut (u16, Guarded)| {
        let by_itself = child.end(GRACE);
        (!by_itself).then_some(*number)
    };
    stations.iter_mut().rev().filter_map(ended).collect()
}
