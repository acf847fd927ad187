//! The result on 80 columns, with or without colour.

mod details;

use crate::plain;
use plimsoll_analysis::blame::{Blame, Culprit};
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::summary::{LoadLine, Summary};
use plimsoll_model::{Metric, Nanos, Verdict};

pub(crate) const WIDTH: usize = 80;

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// ANSI colours.
    On,
    /// Plain text.
    Off,
}

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The verdict in one line.
    Line,
    /// Verdict, table of levels, and why the load is bounded.
    Short,
    /// Everything.
    Full,
}

/// How a run ended.
pub fn render(summary: &Summary, detail: Detail, colour: Colour) -> String {
    if detail == Detail::Line {
        return format!("{}\n", coloured(&headline(summary), summary, colour));
    }
    let verdict = format!("{}  ", verdict_name(summary));
    let rest = headline(summary).chars().skip(verdict.chars().count()).collect::<String>();
    let mut out = coloured(&hanging(&verdict, &rest, "  ").join("\n"), summary, colour) + "\n";
    if summary.levels.is_empty() {
        return out + &details::notes(summary);
    }
    // Without a load line the reasons of the lowest level are told as the cause.
    if detail == Detail::Full || summary.load_line.is_some() || summary.bounding().is_none() {
        for line in wrapped(&summary.reason, "  ") {
            out += &format!("{line}\n");
        }
    }
    if detail == Detail::Full {
        out += &details::notes(summary);
    }
    let leading = Leading::of(summary);
    out += &format!("\n{}\n", table_header(leading));
    for level in &summary.levels {
        out += &format!("{}\n", table_row(level, leading, colour));
    }
    match detail {
        Detail::Full => out + &details::render(summary),
        _ => out + &connections(summary) + &cause(summary),
    }
}

/// Why the level that bounds the load line was not met, and who is to blame.
fn cause(summary: &Summary) -> String {
    let Some(level) = summary.bounding() else { return String::new() };
    format!("\n{}", reason(level))
}

/// Why a level was not met, and who is to blame.
fn reason(level: &LevelSummary) -> String {
    let text = format!("{} {}: {}", level.label(), level.verdict.name(), level.why());
    // Of what was not decided nobody is guilty.
    let blame = level.blame.iter().filter(|_| level.verdict != LevelVerdict::Undecided);
    let blame = blame.flat_map(|blame| wrapped(&blamed(level, blame), "    "));
    wrapped(&text, "  ").into_iter().chain(blame).map(|line| line + "\n").collect()
}

/// One line about a level that has just ended.
pub fn level_line(level: &LevelSummary, leading: Leading, colour: Colour) -> String {
    table_row(level, leading, colour)
}

/// Which time stands first in a table of levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leading {
    /// Publish time.
    #[default]
    Publish,
    /// Subscribe time, where the acknowledgement says nothing of what delivers.
    Subscribe,
}

impl Leading {
    /// What leads in a run.
    pub fn of(summary: &Summary) -> Leading {
        if summary.leading_time == Metric::SubscribeTime.name() {
            Leading::Subscribe
        } else {
            Leading::Publish
        }
    }
}

/// The head of the table of levels.
pub fn table_header(leading: Leading) -> String {
    let [first, second, third] = match leading {
        Leading::Publish => ["pub p50", "pub p99", "sub p99"],
        Leading::Subscribe => ["sub p50", "sub p99", "pub p99"],
    };
    format!(
        "{:>9}{:>10}{:>10}{first:>9}{second:>9}{third:>9}{:>10}  {}",
        "offered", "achieved", "delivered", "late p99", "verdict"
    )
}

fn verdict_name(summary: &Summary) -> String {
    summary.verdict.name().to_uppercase()
}

/// A text that begins with the verdict, that in its colour.
fn coloured(text: &str, summary: &Summary, colour: Colour) -> String {
    let name = verdict_name(summary);
    let rest = text.strip_prefix(&name).unwrap_or_default();
    format!("{}{rest}", paint(&name, verdict_colour(summary.verdict), colour))
}

/// Verdict, load line, and what bounds it, in one line; of a run without a level why there is none.
pub fn headline(summary: &Summary) -> String {
    let name = plain::line(&summary.name);
    let (verdict, run) = (verdict_name(summary), &summary.run);
    if summary.levels.is_empty() {
        let words: Vec<&str> = summary.reason.split_whitespace().collect();
        return format!("{verdict}  {}  [{name} run {run}]", plain::line(&words.join(" ")));
    }
    let line = match &summary.load_line {
        Some(line) => {
            let at_least = if line.at_least { "at least " } else { "" };
            format!(
                "load line: {at_least}{} (level {} of {})",
                load_line(line),
                line.level + 1,
                summary.levels.len()
            )
        }
        None => "no load line".to_owned(),
    };
    let bounded = summary.bounding().and_then(bounded).map(|told| format!("; {told}")).unwrap_or_default();
    format!("{verdict}  {line}{bounded}  [{name} run {run}]")
}

/// Who bounds the load line, and how.
pub(crate) fn bounded(level: &LevelSummary) -> Option<String> {
    let blame = level.blame.as_ref().filter(|blame| !blame.claim.is_empty())?;
    let who = match (&blame.component, blame.culprit) {
        (None, Culprit::Platform | Culprit::Network | Culprit::PlatformAndNetwork) => {
            format!(" ({})", blame.culprit.name())
        }
        _ => String::new(),
    };
    Some(format!("at {} {}{who}", level.label(), plain::line(&blame.claim)))
}

/// The load line with its unit: `64,000 msg/s`, `5,000 devices` or `500 connections/s`.
pub fn load_line(line: &LoadLine) -> String {
    match (line.connect_rate, line.devices, line.rate) {
        (Some(connects), ..) => format!("{} connections/s", rate(connects)),
        (None, Some(devices), _) => format!("{} devices", count(f64::from(devices))),
        (None, None, Some(offered)) => format!("{} msg/s", rate(offered)),
        (None, None, None) => "nothing".to_owned(),
    }
}

fn table_row(level: &LevelSummary, leading: Leading, colour: Colour) -> String {
    let offered = match (level.offered, level.in_flight, level.connect_rate) {
        (Some(rate), ..) => format!("{}/s", self::rate(rate)),
        (None, Some(in_flight), _) => format!("{in_flight} open"),
        (None, None, Some(connects)) => format!("{} con/s", self::rate(connects)),
        (None, None, None) => format!("{} dev", count(f64::from(level.devices.unwrap_or(0)))),
    };
    let achieved = level.achieved.map(|rate| format!("{}/s", self::rate(rate))).unwrap_or_default();
    let delivered = match level.expected_deliveries {
        0 => "-".to_owned(),
        _ => level.delivered_ratio().map_or("-".into(), |share| format!("{} %", floor_percent(share))),
    };
    let tint = match level.verdict {
        LevelVerdict::Met => Tint::Green,
        LevelVerdict::Missed => Tint::Red,
        LevelVerdict::Undecided | LevelVerdict::Invalid | LevelVerdict::Unfinished => Tint::Yellow,
    };
    let (first, other) = match leading {
        Leading::Publish => (&level.publish_time, &level.subscribe_time),
        Leading::Subscribe => (&level.subscribe_time, &level.publish_time),
    };
    format!(
        "{offered:>9}{achieved:>10}{delivered:>10}{:>9}{:>9}{:>9}{:>10}  {}",
        time(first.p50),
        time(first.p99),
        time(other.p99),
        time(level.generator.lateness.p99),
        paint(level.verdict.name(), tint, colour),
    )
    .trim_end()
    .to_owned()
}

/// Who is to blame, and what shows it where the reasons of the level do not.
pub fn blamed(level: &LevelSummary, blame: &Blame) -> String {
    let who = blame.component.clone().unwrap_or_else(|| blame.culprit.name().to_owned());
    let is_new = !level.reasons.contains(&blame.evidence) && !blame.evidence.is_empty();
    if is_new { format!("blamed: {who}: {}", blame.evidence) } else { format!("blamed: {who}") }
}

/// Levels that connect devices: a table of their own.
fn connections(summary: &Summary) -> String {
    if summary.levels.iter().all(|level| level.devices.is_none()) {
        return String::new();
    }
    let mut out = format!(
        "\n{:>9}{:>11}{:>9}{:>8}{:>12}{:>12}{:>12}\n",
        "devices", "connected", "begun/s", "failed", "connect p50", "connect p99", "memory"
    );
    for level in &summary.levels {
        let rate = level.connect_rate.map_or("-".to_owned(), self::rate);
        out += &format!(
            "{:>9}{:>11}{rate:>9}{:>8}{:>12}{:>12}{:>12}\n",
            level.devices.map_or("-".to_owned(), |devices| count(f64::from(devices))),
            level.connected.map_or("-".to_owned(), |connected| count(f64::from(connected))),
            count(level.connect_failed as f64),
            time(level.connect_time.p50),
            time(level.connect_time.p99),
            level.platform_memory.map_or("-".to_owned(), |memory| bytes(memory as f64)),
        );
    }
    if let Some(memory) = summary.memory_per_connection.filter(|memory| *memory > 0.0) {
        out += &format!("each further connection takes {} of the platform's memory\n", bytes(memory));
    }
    out
}

enum Tint {
    Green,
    Red,
    Yellow,
}

fn verdict_colour(verdict: Verdict) -> Tint {
    match verdict {
        Verdict::Met => Tint::Green,
        Verdict::Missed | Verdict::Failed => Tint::Red,
        Verdict::Invalid | Verdict::Interrupted | Verdict::Running => Tint::Yellow,
    }
}

fn paint(text: &str, tint: Tint, colour: Colour) -> String {
    let code = match tint {
        Tint::Green => 32,
        Tint::Red => 31,
        Tint::Yellow => 33,
    };
    match colour {
        Colour::On => format!("\x1b[1;{code}m{text}\x1b[0m"),
        Colour::Off => text.to_owned(),
    }
}

/// A time in seconds, for people; `-` where it does not exist.
pub fn time(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_owned(), |seconds| Nanos::from_secs_f64(seconds).to_string())
}

/// A rate: with thousands set apart, and with decimals where it is small.
pub fn rate(number: f64) -> String {
    if number >= 100.0 || number.fract() == 0.0 { count(number) } else { format!("{number:.2}") }
}

/// A whole number with thousands set apart.
pub fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}")
}

/// A share in percent with two digits, never rounded up to all of it.
pub fn floor_percent(share: f64) -> f64 {
    (share * 1e4 + 1e-6).floor() / 100.0
}

/// A size for people.
pub fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (bytes.max(1.0).log2() / 10.0).floor().min(4.0) as usize;
    let value = bytes / 1024f64.powi(power as i32);
    let unit = units.get(power).copied().unwrap_or("B");
    if power == 0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// Words on lines of the terminal's width, each line with an indent.
pub fn wrapped(text: &str, indent: &str) -> Vec<String> {
    hanging(indent, text, indent)
}

/// The same behind what the first line begins with.
fn hanging(first: &str, text: &str, indent: &str) -> Vec<String> {
    let mut lines = vec![first.to_owned()];
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let fits = lines.last().is_some_and(|line| line.chars().count() + 1 + word.chars().count() <= WIDTH);
        match lines.last_mut() {
            Some(line) if is_empty => line.push_str(word),
            Some(line) if fits => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
        is_empty = false;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!([0.0, 999.0, 1000.0, 1_234_567.0].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([10.0, 2048.0, 3.5 * 1024.0 * 1024.0].map(bytes), ["10 B", "2.0 KiB", "3.5 MiB"]);
        assert_eq!(floor_percent(0.99999), 99.99);
    }

    #[test]
    fn long_texts_are_wrapped_and_indented() {
        let lines = wrapped(&"word ".repeat(40), "  ");
        assert!(lines.len() > 2 && lines.iter().all(|line| line.len() <= WIDTH && line.starts_with("  ")));
    }
}
