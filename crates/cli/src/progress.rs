//! Live progress on standard error; quiet when that is no terminal.

use crate::output::{complain, harmless};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_model::{Metric, Nanos};
use plimsoll_report::terminal;
use plimsoll_report::text::{self, Colour};
use plimsoll_runner::preflight::HostCheck;
use plimsoll_runner::{Progress, SoFar};
use std::collections::HashSet;
use std::io::IsTerminal;

/// Steps of a bar, finer than a terminal shows.
const FINE: u64 = 1000;

/// Draws one line that changes, and one line above it for each finished level.
pub struct TerminalProgress {
    bar: ProgressBar,
    colour: Colour,
    leading: Metric,
    label: String,
    /// The level that ended last.
    before: Option<LevelSummary>,
    quiet: bool,
    warned: HashSet<String>,
}

impl TerminalProgress {
    /// On standard error, hidden where that is no terminal or `quiet` asks for it.
    pub fn new(quiet: bool) -> TerminalProgress {
        let colour = if is_shown(quiet) { colour() } else { Colour::Off };
        TerminalProgress {
            bar: bar(quiet),
            colour,
            leading: Metric::PublishTime,
            label: String::new(),
            before: None,
            quiet,
            warned: HashSet::new(),
        }
    }
}

fn is_shown(quiet: bool) -> bool {
    std::io::stderr().is_terminal() && !quiet
}

fn bar(quiet: bool) -> ProgressBar {
    let bar = ProgressBar::new(FINE);
    bar.set_draw_target(match is_shown(quiet) {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    });
    let style = ProgressStyle::with_template("{msg:<58!} [{bar:16}]\n  {prefix}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar
}

/// The figures of a level that goes on, as far as there are any.
fn told(so_far: &SoFar, leading: Metric) -> String {
    let mut told = String::new();
    if let Some(rate) = so_far.rate {
        told += &format!(", {}/s", text::rate(rate.round()));
    }
    let name = if leading == Metric::SubscribeTime { "sub" } else { "pub" };
    for (quantile, time) in [("p50", so_far.p50), ("p99", so_far.p99)] {
        if let Some(time) = time {
            told += &format!(", {name} {quantile} {}", text::time(Some(Nanos::as_secs_f64(time))));
        }
    }
    if so_far.rate.is_some() {
        let s = if so_far.errors == 1 { "" } else { "s" };
        told += &format!(", {} error{s}", text::count(so_far.errors as f64));
    }
    // Whether the level is valid is known at its end: it takes more than that.
    told += match (so_far.sends_in_time, so_far.reads_in_time) {
        (Some(false), _) => ", we send late",
        (_, Some(false)) => ", we read late",
        (Some(true), _) => ", we send in time",
        (None, _) => "",
    };
    told
}

/// Draws how much of some files has been read.
pub struct ReadingProgress {
    bar: ProgressBar,
    of: Option<u64>,
}

impl ReadingProgress {
    /// On standard error, hidden where that is no terminal or `quiet` asks for it. `of` bytes in all, where that is known.
    pub fn new(quiet: bool, of: Option<u64>) -> ReadingProgress {
        let bar = bar(quiet);
        bar.set_message("reading");
        ReadingProgress { bar, of }
    }

    /// So many bytes have been read, unpacked.
    pub fn read(&self, bytes: u64) {
        if let Some(of) = self.of {
            self.bar.set_position((bytes * FINE / of.max(1)).min(FINE));
        }
        self.bar.set_prefix(text::bytes(bytes as f64));
    }

    /// Takes the line away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Colour unless `NO_COLOR` is set to something or standard output is no terminal.
pub fn colour() -> Colour {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if refused || !std::io::stdout().is_terminal() { Colour::Off } else { Colour::On }
}

impl Progress for TerminalProgress {
    fn run_begun(&mut self, leading: Metric) {
        self.leading = leading;
    }

    fn run_over(&mut self) {
        self.bar.finish_and_clear();
        // A bar that is used again would clear what was written meanwhile when it ends.
        self.bar = bar(self.quiet);
        self.before = None;
    }

    fn warned(&mut self, finding: &HostCheck) {
        let told = finding.to_string();
        // Of several runs in a row each would say the same of this host.
        if !self.quiet && !self.warned.contains(&told) {
            complain(&format!("warning: {told}"));
            self.warned.insert(told);
        }
    }

    fn step(&mut self, what: &str) {
        self.bar.set_position(0);
        self.bar.set_prefix("");
        self.bar.set_message(harmless(what, false));
    }

    fn connected(&mut self, ready: u64, wanted: u64) {
        self.bar.set_position(ready * FINE / wanted.max(1));
        self.bar.set_prefix(format!("{ready}/{wanted}"));
    }

    fn level_begun(&mut self, number: usize, of: Option<usize>, label: &str) {
        let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
        self.label = format!("level {number}{of}: {label}");
        self.bar.set_position(0);
        self.bar.set_prefix("");
        self.bar.set_message(self.label.clone());
    }

    fn level_goes_on(&mut self, elapsed: f64, planned: f64, so_far: &SoFar) {
        let part = (elapsed / planned.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        self.bar.set_position((part * FINE as f64) as u64);
        let rest =
            if elapsed < planned { format!("{:.0} s left", planned - elapsed) } else { "draining".into() };
        self.bar.set_prefix(format!("{rest}{}", told(so_far, self.leading)));
    }

    fn level_ended(&mut self, level: &LevelSummary) {
        if self.before.is_none() {
            self.bar.println(terminal::table_header(self.leading));
        }
        let row = terminal::table_row(level, self.before.as_ref(), self.leading, self.colour);
        self.bar.println(row);
        self.before = Some(level.clone());
    }
}
