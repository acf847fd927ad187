//! The result on 80 columns, with or without colour.

mod curve;
mod details;
mod faults;
mod hysteresis;
pub(crate) mod limits;

pub(crate) use details::clocks_in_words;

use crate::plain;
use crate::text::{Colour, Tint, bytes, count, floor_percent, hanging, paint, rate, time, wrapped};
use plimsoll_analysis::duplicates;
use plimsoll_analysis::level::Culprit;
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::load_line::LoadLine;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::{Load, Metric, Verdict};

/// Characters of a population's name that a table has room for.
const NAME: usize = 12;

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
    let name = verdict_name(summary);
    let painted = paint(&name, verdict_colour(summary.verdict), colour);
    if detail == Detail::Line {
        let line = headline_with_reason(summary);
        return format!("{painted}{}\n", line.strip_prefix(&name).unwrap_or(&line));
    }
    let lines = hanging(&format!("{name}  "), &found(summary), "  ").join("\n");
    let mut out = format!("{painted}{}\n", lines.strip_prefix(&name).unwrap_or(&lines));
    if summary.levels.is_empty() {
        return out + &details::notes(summary) + &limits::render(summary, detail);
    }
    if detail == Detail::Full || !is_cause_of(summary) {
        for line in wrapped(&summary.reason, "  ") {
            out += &format!("{line}\n");
        }
    }
    match detail {
        Detail::Full => out += &details::notes(summary),
        _ => out += &stopped(summary),
    }
    let leading = summary.leading_time;
    out += &format!("\n{}\n", table_header(leading));
    let mut before = None;
    for level in &summary.levels {
        out += &format!("{}\n", table_row(level, before, leading, colour));
        before = Some(level);
    }
    out += &populations(summary, colour);
    out += &curve::render(summary, colour);
    out += &faults::render(summary);
    out += &hysteresis::render(summary, detail);
    match detail {
        Detail::Full => out + &details::render(summary) + &limits::render(summary, detail),
        _ => {
            out + &line_of_fewer(summary)
                + &repeated(summary)
                + &connections(summary)
                + &cause(summary)
                + &limits::render(summary, detail)
        }
    }
}

/// Why a search stopped before its tolerance was reached; the notes tell that, too.
fn stopped(summary: &Summary) -> String {
    let early = summary.search.as_ref().and_then(|found| found.early());
    early.iter().flat_map(|early| wrapped(early, "  ")).map(|line| line + "\n").collect()
}

/// Why the level that bounds the load line was not met, and who is to blame.
fn cause(summary: &Summary) -> String {
    let Some(level) = summary.bounding() else { return String::new() };
    format!("\n{}", reason(level))
}

/// Why a level was not met, and who is to blame.
fn reason(level: &LevelSummary) -> String {
    let text = format!("{} {}: {}", level.load, level.verdict.name(), level.why());
    let blame = blamed(level).into_iter().flat_map(|blamed| wrapped(&blamed, "    "));
    wrapped(&text, "  ").into_iter().chain(blame).map(|line| line + "\n").collect()
}

/// The head of the table of levels, in which that time stands first.
pub fn table_header(leading: Metric) -> String {
    let [first, second, third] = match leading {
        Metric::SubscribeTime => ["sub p50", "sub p99", "pub p99"],
        _ => ["pub p50", "pub p99", "sub p99"],
    };
    format!(
        "{:>9}{:>10}{:>10}{first:>9}{second:>9}{third:>9}{:>10}  {}",
        "offered", "achieved", "delivered", "late p99", "verdict"
    )
}

fn verdict_name(summary: &Summary) -> String {
    summary.verdict_word().to_uppercase()
}

/// Verdict, load line, and what bounds it, in one line; of a run without a level why there is none.
pub fn headline(summary: &Summary) -> String {
    format!("{}  {}", verdict_name(summary), found(summary))
}

/// Whether the reason of the verdict is that of the lowest level, which is told as the cause.
fn is_cause_of(summary: &Summary) -> bool {
    let bounding = summary.bounding().filter(|_| summary.load_line.is_none());
    bounding.is_some_and(|level| summary.reason.ends_with(&level.why()))
}

/// That clearly more or less was due at the load line than it says, where that is so.
fn line_of_fewer(summary: &Summary) -> String {
    let of_line = summary.load_line.as_ref().and_then(|line| {
        let level = summary.levels.iter().find(|level| level.index == line.level)?;
        details::few_due(level)
    });
    of_line.map(|told| format!("\n{}\n", wrapped(&told, "  ").join("\n"))).unwrap_or_default()
}

/// That many messages came more than once, where that is so.
fn repeated(summary: &Summary) -> String {
    let told = duplicates::story(&summary.levels).into_iter();
    told.map(|told| format!("\n{}\n", wrapped(&told, "  ").join("\n"))).collect()
}

/// The headline, and the reason of a verdict that the levels do not show.
pub(crate) fn headline_with_reason(summary: &Summary) -> String {
    match summary.verdict {
        Verdict::Met | Verdict::Missed => headline(summary),
        _ if summary.levels.is_empty() || is_cause_of(summary) => headline(summary),
        _ => format!("{}: {}", headline(summary), summary.reason),
    }
}

/// What makes the verdict stricter, where a level was missed that nothing demands.
pub(crate) fn leniency(summary: &Summary) -> Option<String> {
    let level = summary.tolerated()?;
    let demand = match level.load.offered() {
        Some(offered) => format!("set objectives.load_line to \">= {offered}\", or list that level alone"),
        None => "list that level alone".to_owned(),
    };
    Some(format!(
        "{} was missed, but the run is met because its lowest level is: to require {}, {demand}",
        level.load, level.load
    ))
}

/// The headline without the verdict.
fn found(summary: &Summary) -> String {
    let (name, run) = (plain::line(&summary.name), &summary.run);
    if summary.levels.is_empty() {
        let words: Vec<&str> = summary.reason.split_whitespace().collect();
        return format!("{}  [{name} run {run}]", plain::line(&words.join(" ")));
    }
    let line = match &summary.load_line {
        Some(line) => {
            let at_least = if line.at_least { "at least " } else { "" };
            let (number, of) = summary.number_of_load(line.level);
            format!("load line: {at_least}{} (level {number} of {of})", load_line(line))
        }
        None => summary.curve().map_or("no load line".to_owned(), |curve| {
            format!("a curve from {} to {}/s", rate(curve.lowest), rate(curve.highest))
        }),
    };
    let bounded = by_experiment(summary).or_else(|| {
        let level = summary.limiting()?;
        let claim = claim(level)?;
        Some(if level.curve.is_some() { claim } else { format!("at {} {claim}", level.load) })
    });
    let bounded = bounded.map(|claim| format!("; {claim}")).unwrap_or_default();
    format!("{line}{bounded}  [{name} run {run}]")
}

/// What limits, where an experiment found it: it proves more than what the levels show.
pub(crate) fn by_experiment(summary: &Summary) -> Option<String> {
    let experiment = summary.experiment.as_ref()?;
    let limit = summary.limits.first()?;
    Some(plain::line(&limit.in_words(Some(experiment.capacity.mean))))
}

/// Who bounds the load line, and how.
pub(crate) fn claim(level: &LevelSummary) -> Option<String> {
    let blame = level.blame.as_ref().filter(|blame| !blame.claim.is_empty())?;
    let who = match (&blame.component, blame.culprit) {
        (Some(_), _) | (None, Culprit::Unknown) => String::new(),
        (None, culprit) => format!(" ({})", culprit.name()),
    };
    Some(format!("{}{who}", plain::line(&blame.claim)))
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

/// What was asked for, short enough for a column.
fn load(level: &LevelSummary) -> String {
    match level.load {
        Load::Rate(rate) | Load::Devices { rate: Some(rate), .. } => format!("{}/s", self::rate(rate)),
        Load::InFlight(operations) => format!("{operations} open"),
        Load::ConnectRate { rate, .. } => format!("{} con/s", self::rate(rate)),
        Load::Devices { devices, rate: None } => format!("{} dev", count(f64::from(devices))),
    }
}

fn achieved(level: &LevelSummary) -> String {
    level.achieved.map(|rate| format!("{}/s", self::rate(rate))).unwrap_or_default()
}

fn delivered(level: &LevelSummary) -> String {
    match level.expected_deliveries {
        0 => "-".to_owned(),
        _ => level.delivered_ratio().map_or("-".into(), |share| format!("{} %", floor_percent(share))),
    }
}

fn tint(verdict: LevelVerdict) -> Tint {
    match verdict {
        LevelVerdict::Met => Tint::Green,
        LevelVerdict::Missed => Tint::Red,
        LevelVerdict::Undecided | LevelVerdict::Invalid | LevelVerdict::Unfinished => Tint::Yellow,
    }
}

/// The row of a level in that table; one that repeats the load of the level before is marked.
pub fn table_row(
    level: &LevelSummary,
    before: Option<&LevelSummary>,
    leading: Metric,
    colour: Colour,
) -> String {
    let (offered, achieved, delivered) = (load(level), achieved(level), delivered(level));
    let (first, other) = match leading {
        Metric::SubscribeTime => (&level.times[Metric::SubscribeTime], &level.times[Metric::PublishTime]),
        _ => (&level.times[Metric::PublishTime], &level.times[Metric::SubscribeTime]),
    };
    let again = match before {
        _ if level.falling => " (down)",
        Some(before) if before.load.amount() == level.load.amount() => " (again)",
        _ => "",
    };
    format!(
        "{offered:>9}{achieved:>10}{delivered:>10}{:>9}{:>9}{:>9}{:>10}  {}{again}",
        time(first.p50),
        time(first.p99),
        time(other.p99),
        time(level.generator.lateness.p99),
        paint(level.verdict.name(), tint(level.verdict), colour),
    )
    .trim_end()
    .to_owned()
}

/// The same of each population by itself, where there are several.
fn populations(summary: &Summary, colour: Colour) -> String {
    if summary.levels.iter().all(|level| level.populations.is_empty()) {
        return String::new();
    }
    let mut out = format!(
        "\n{:>9}  {:<12}{:>9}{:>10}{:>10}{:>9}{:>9}  {}\n",
        "level", "population", "offered", "achieved", "delivered", "pub p99", "sub p99", "verdict"
    );
    for level in &summary.levels {
        let mut label = load(level);
        for own in &level.populations {
            let figures = &own.figures;
            let name: String = own.name.chars().take(NAME).collect();
            let row = format!(
                "{:>9}  {name:<12}{:>9}{:>10}{:>10}{:>9}{:>9}  {}",
                std::mem::take(&mut label),
                load(figures),
                achieved(figures),
                delivered(figures),
                time(figures.times[Metric::PublishTime].p99),
                time(figures.times[Metric::SubscribeTime].p99),
                paint(figures.verdict.name(), tint(figures.verdict), colour),
            );
            out += &format!("{}\n", row.trim_end());
        }
    }
    let stand = summary.levels.first().into_iter().flat_map(|level| &level.populations);
    let stand = stand.filter_map(|own| Some(format!("{} at {}", own.name, own.at.as_ref()?)));
    let stand: Vec<String> = stand.collect();
    if !stand.is_empty() {
        out += &format!("{}\n", wrapped(&plain::line(&stand.join(", ")), "  ").join("\n"));
    }
    out
}

/// Who is to blame, and what shows it where the reasons of the level do not.
pub fn blamed(level: &LevelSummary) -> Option<String> {
    // Of what was not decided nobody is guilty.
    let blame = level.blame.as_ref().filter(|_| level.verdict != LevelVerdict::Undecided)?;
    let who = blame.component.clone().unwrap_or_else(|| blame.culprit.name().to_owned());
    let is_new = !level.reasons.contains(&blame.evidence) && !blame.evidence.is_empty();
    Some(if is_new { format!("blamed: {who}: {}", blame.evidence) } else { format!("blamed: {who}") })
}

/// Levels that connect devices: a table of their own.
fn connections(summary: &Summary) -> String {
    if summary.levels.iter().all(|level| level.load.devices().is_none()) {
        return String::new();
    }
    let mut out = format!(
        "\n{:>9}{:>11}{:>9}{:>8}{:>12}{:>12}{:>12}\n",
        "devices", "connected", "begun/s", "failed", "connect p50", "connect p99", "memory"
    );
    for level in &summary.levels {
        let rate = level.load.connect_rate().map_or("-".to_owned(), self::rate);
        out += &format!(
            "{:>9}{:>11}{rate:>9}{:>8}{:>12}{:>12}{:>12}\n",
            level.load.devices().map_or("-".to_owned(), |devices| count(f64::from(devices))),
            level.connected.map_or("-".to_owned(), |connected| count(f64::from(connected))),
            count(level.connect_failed as f64),
            time(level.times[Metric::ConnectTime].p50),
            time(level.times[Metric::ConnectTime].p99),
            level.platform_memory.map_or("-".to_owned(), |memory| bytes(memory as f64)),
        );
    }
    if let Some(memory) = summary.memory_per_connection.filter(|memory| *memory > 0.0) {
        out += &format!("each further connection takes {} of the platform's memory\n", bytes(memory));
    }
    out
}

fn verdict_colour(verdict: Verdict) -> Tint {
    match verdict {
        Verdict::Met => Tint::Green,
        Verdict::Missed | Verdict::Failed => Tint::Red,
        Verdict::Invalid | Verdict::Interrupted | Verdict::Running => Tint::Yellow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_analysis::level::Blame;
    use plimsoll_analysis::time_summary::TimeSummary;

    #[test]
    fn lateness_is_called_as_in_the_table_and_is_told_where_it_has_no_p99() {
        let mut summary = plimsoll_analysis::summarize(&crate::html::synthetic::record());
        let late = summary.generator.lateness.clone();
        let few = TimeSummary { n: 5, max: Some(0.002), ..TimeSummary::default() };
        for (lateness, expected) in [
            (late, "generator  late p99 "),
            (few, "generator  late by 2.00 ms at most"),
            (TimeSummary::default(), "generator  nothing was due"),
        ] {
            summary.generator.lateness = lateness;
            let told = render(&summary, Detail::Full, Colour::Off);
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn the_headline_says_no_more_than_what_bounds_the_load_line() {
        let summary = plimsoll_analysis::summarize(&crate::html::synthetic::record());
        let headline = |verdict, line: bool, level: LevelVerdict, blame: Option<Blame>, reason: &str| {
            let mut summary = summary.clone();
            summary.verdict = verdict;
            summary.load_line = summary.load_line.filter(|_| line);
            summary.reason = reason.into();
            let index = summary.bounding().map(|level| level.index);
            for bounding in summary.levels.iter_mut().filter(|level| Some(level.index) == index) {
                bounding.verdict = level;
                bounding.reasons = vec!["achieved 90 %".into()];
                bounding.blame.clone_from(&blame);
            }
            render(&summary, Detail::Short, Colour::Off)
        };
        let blame = |culprit, component: Option<&str>, claim: &str| {
            let (component, claim, evidence) =
                (component.map(str::to_owned), claim.to_owned(), claim.to_owned());
            Some(Blame { culprit, component, claim, evidence })
        };
        use Culprit::{Generator, Network, Platform, Unknown};
        use LevelVerdict::{Invalid, Missed, Undecided, Unfinished};
        for (verdict, line, level, blame, reason, told, not) in [
            (
                Verdict::Met,
                true,
                Missed,
                blame(Platform, Some("worker"), "worker lost 3 of 90 deliveries"),
                "r",
                "worker lost 3 of 90 deliveries  [",
                "(the platform)",
            ),
            (
                Verdict::Met,
                true,
                Missed,
                blame(Platform, None, "p99 was 9 s"),
                "r",
                "p99 was 9 s (the platform)",
                "worker",
            ),
            (
                Verdict::Missed,
                true,
                Missed,
                blame(Network, None, "p99 was 9 s"),
                "r",
                "p99 was 9 s (the network)",
                "worker",
            ),
            (
                Verdict::Met,
                true,
                Invalid,
                blame(Generator, None, "a thread may have been"),
                "r",
                "a thread may have been (the load generator)",
                "was the limit",
            ),
            (
                Verdict::Invalid,
                true,
                Undecided,
                blame(Unknown, None, "p99 needs more"),
                "r",
                "p99 needs more  [",
                "blamed",
            ),
            (Verdict::Failed, true, Unfinished, None, "the disk is full", "the disk is full", "blamed"),
            (
                Verdict::Interrupted,
                true,
                Unfinished,
                None,
                "stopped by the user",
                "stopped by the user",
                "blamed",
            ),
        ] {
            let said = headline(verdict, line, level, blame, reason);
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            let told = told.replace("  ", " ");
            assert!(said.contains(&told), "{told}: {said}");
            assert!(!said.contains(not), "{not}: {said}");
        }
        let mut failed = summary.clone();
        failed.levels.clear();
        failed.load_line = None;
        (failed.verdict, failed.reason) = (Verdict::Failed, "nobody\nlistens".into());
        assert!(render(&failed, Detail::Line, Colour::Off).starts_with("FAILED  nobody listens  ["));
        // What ended a run is told beside what its lowest level has.
        let mut cut = summary.clone();
        cut.load_line = None;
        (cut.verdict, cut.reason) = (Verdict::Failed, "the disk is full".into());
        assert!(render(&cut, Detail::Short, Colour::Off).contains("the disk is full"));
    }
}
