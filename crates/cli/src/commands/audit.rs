//! `plimsoll audit`: another generator against a target of known truth, its figures beside what really happened.

mod figures;

use super::station::Station as StationOptions;
use crate::failure::Failure;
use crate::output::say;
use crate::{exit_code, interrupt};
use clap::Args;
use figures::Figure;
use plimsoll_model::{Histogram, Nanos};
use plimsoll_platform::folder::Folder;
use plimsoll_platform::guard::{Bounds, Guarded, guarded};
use plimsoll_platform::is_installed;
use plimsoll_report::text;
use plimsoll_target::open_loop;
use plimsoll_target::record::{self, Account};
use plimsoll_target::station::Station;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the end of the command is looked for.
const LOOK: Duration = Duration::from_millis(10);
/// Time after the command's end in which its last messages are still served.
const LINGER: Duration = Duration::from_millis(300);
/// How a command ends that has done what it should.
const WELL: &str = "exit status: 0";
/// Longest wait for the rest of the command's output: something that it left behind may hold on to it.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long the command may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);
/// Bytes of the command's output that are kept.
const MOST_OUTPUT: usize = 16 * 1024 * 1024;

/// Runs another load generator against a target of known truth
///
/// Shows the figures that it reports beside what really happened.
#[derive(Args)]
#[command(after_help = "In COMMAND, {host}, {port} and {url} stand for the target's.

Examples:
  plimsoll audit --protocol http --service exponential:1ms -- \\
    wrk -t1 -c4 -d5s --latency {url}
  plimsoll audit --protocol http --service deterministic:1ms \\
    --stall 2s:200ms --rate 500 -- wrk -t1 -c1 -d10s --latency {url}

With --rate, the times of clients that send so many messages per second and wait
for nobody are computed beside: what coordinated omission hides.")]
pub struct Audit {
    #[command(flatten)]
    station: StationOptions,
    /// Messages per second of open-loop clients, which do not wait for answers
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// The generator and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Audit {
    pub fn perform(mut self) -> Result<u8, Failure> {
        let undoable = |error: &dyn std::fmt::Display| Failure::Undoable(error.to_string());
        // Removed when it is dropped, where the user wants no record.
        let fresh = || std::env::current_exe().and_then(|program| Folder::fresh(&program));
        let scratch = self.station.truth.is_none().then(fresh).transpose();
        let scratch = scratch.map_err(|error| undoable(&format!("no temporary folder: {error}")))?;
        if let Some(scratch) = &scratch {
            self.station.truth = Some(scratch.path().join("record.csv"));
        }
        let interrupted = interrupt::stop_flag().map_err(|error| undoable(&error))?;
        let (settings, scheme) = self.station.settings()?;
        let station = Station::bind(&settings).map_err(|error| undoable(&error))?;
        let address = station.address().map_err(|error| undoable(&error))?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let server = std::thread::spawn(move || station.run(&seen));

        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let url = format!("{scheme}://{address}/");
        let filled =
            |word: &String| word.replace("{host}", &host).replace("{port}", &port).replace("{url}", &url);
        let command: Vec<String> = self.command.iter().map(filled).collect();
        let performed = perform(&command, &interrupted);
        std::thread::sleep(LINGER);
        stop.store(true, Ordering::Relaxed);
        let served = server.join();
        let (printed, status) = performed?;
        if let Ok(Err(error)) = served {
            return Err(undoable(&error));
        }
        let program = command.first().map_or("", String::as_str);
        let reported = figures::find(program, &printed);
        say(&printed);
        let path = self.station.truth.as_deref().unwrap_or(Path::new(""));
        let account = record::read(path).map_err(|error| undoable(&error))?;
        let span = account.span.map_or(Nanos::ZERO, |(first, last)| last - first);
        let open = self
            .rate
            .map(|rate| (rate, open_loop::times(settings.queue, settings.work.discipline(), rate, span)));
        say(&page(&command.join(" "), &status, &reported, &account, open.as_ref()));
        Ok(match (interrupted.load(Ordering::Relaxed), status.as_str()) {
            (true, _) => exit_code::INTERRUPTED,
            (false, WELL) => exit_code::MET,
            (false, _) => exit_code::UNDOABLE,
        })
    }
}

/// Runs the command to its end, or ends it where the user does not want it any more; what it printed, and how it ended.
fn perform(command: &[String], interrupted: &AtomicBool) -> Result<(String, String), Failure> {
    let program = command.first().ok_or_else(|| Failure::Usage("no COMMAND".into()))?;
    if !is_installed(program) {
        return Err(Failure::Usage(format!("cannot run `{program}`: there is no such command")));
    }
    let (reader, writer) = std::io::pipe().map_err(|error| Failure::Undoable(error.to_string()))?;
    let failed = |error: std::io::Error| Failure::Usage(format!("cannot run `{program}`: {error}"));
    let mut child = {
        let plimsoll = std::env::current_exe().map_err(failed)?;
        let mut call = guarded(&plimsoll, &Bounds::default(), command);
        call.guard.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        Guarded::start(call).map_err(failed)?
    };
    let printed = Arc::new(Mutex::new(Vec::new()));
    let (page, (ended, end)) = (Arc::clone(&printed), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let mut reader = reader;
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = reader.read(&mut bytes) {
            let mut page = page.lock().unwrap_or_else(PoisonError::into_inner);
            // What it prints beyond is read and thrown away, so that it does not wait for us.
            if page.len() < MOST_OUTPUT {
                page.extend_from_slice(bytes.get(..count).unwrap_or_default());
            }
        }
        // Nobody listens where the wait was over.
        let _ = ended.send(());
    });
    while child.try_wait().map_err(failed)?.is_none() && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
    if child.try_wait().map_err(failed)?.is_some() {
        let _ = end.recv_timeout(LAST_WORDS);
    }
    // Processes that it started and left behind end with it.
    child.end(GRACE);
    let status = child.try_wait().map_err(failed)?.ok_or_else(|| failed(ErrorKind::TimedOut.into()))?;
    // Nobody is left who could hold on to the output; an error says that its end came before.
    let _ = end.recv_timeout(LAST_WORDS);
    let printed =
        String::from_utf8_lossy(&printed.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    Ok((printed, status.to_string()))
}

/// The comparison, in 80 columns.
fn page(
    command: &str,
    status: &str,
    reported: &[(Figure, f64)],
    account: &Account,
    open: Option<&(f64, Histogram)>,
) -> String {
    let mut out = String::from("\n");
    for line in text::wrapped(&format!("audit of: {command}"), "") {
        out.push_str(&format!("{line}\n"));
    }
    if status != WELL {
        out.push_str(&format!("it ended with {status}\n"));
    }
    let of = |figure| reported.iter().find(|(known, _)| *known == figure).map(|(_, value)| *value);
    let quantile = |times: &Histogram, q| times.quantile(q).map(Nanos::as_secs_f64);
    let max = |times: &Histogram| times.max().map(Nanos::as_secs_f64);
    let mean = |times: &Histogram| times.mean().map(|nanos| nanos / 1e9);
    let ideal = open.map(|(_, times)| times);
    let rate = open.map(|(rate, _)| *rate);
    let times = [
        ("mean", Figure::Mean, mean(&account.residence), ideal.and_then(mean)),
        ("p50", Figure::P50, quantile(&account.residence, 0.5), ideal.and_then(|t| quantile(t, 0.5))),
        ("p90", Figure::P90, quantile(&account.residence, 0.9), ideal.and_then(|t| quantile(t, 0.9))),
        ("p99", Figure::P99, quantile(&account.residence, 0.99), ideal.and_then(|t| quantile(t, 0.99))),
        ("max", Figure::Max, max(&account.residence), ideal.and_then(max)),
    ];
    let open_head = if rate.is_some() { "open loop" } else { "" };
    out.push_str(format!("\n{:<10}{:>14}{:>14}{:>16}", "", "reported", "truth", open_head).trim_end());
    out.push('\n');
    let row = |name: &str, reported: Option<String>, truth: Option<String>, due: Option<String>| {
        let shown = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let due = if rate.is_some() { shown(due) } else { String::new() };
        let line = format!("{name:<10}{:>14}{:>14}{due:>16}", shown(reported), shown(truth));
        format!("{}\n", line.trim_end())
    };
    let count = |number: f64| text::count(number);
    out.push_str(&row("messages", of(Figure::Count).map(count), Some(count(account.arrived as f64)), None));
    let per_second = |rate: f64| format!("{}/s", text::rate(rate));
    let planned = rate.map(per_second);
    out.push_str(&row("rate", of(Figure::Rate).map(per_second), account.rate().map(per_second), planned));
    for (name, figure, truth, due) in times {
        let time = |seconds: f64| text::time(Some(seconds));
        out.push_str(&row(name, of(figure).map(time), truth.map(time), due.map(time)));
    }
    let Account { served, dropped, refused, unserved, .. } = account;
    out.push_str(&format!("\n{} served", count(*served as f64)));
    for (number, word) in [(*dropped, "dropped"), (*refused, "refused"), (*unserved, "not served in time")] {
        if number > 0 {
            out.push_str(&format!(", {} {word}", count(number as f64)));
        }
    }
    out.push_str(
        "\ntruth: from arrival at the target to departure; a generator's own times have the\n\
         network and its wake-ups on top\n",
    );
    if rate.is_some() {
        out.push_str("open loop: what clients that wait for nobody meet at that rate, computed\n");
    }
    if reported.is_empty() {
        out.push_str(&format!("no figures found in its output (found are those of {})\n", figures::known()));
    }
    out
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e7 => Ok(rate),
        _ => Err("a rate is a number above 0 and up to 10000000, in messages per second".into()),
    }
}
