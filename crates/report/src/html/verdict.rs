//! The verdict first: what the platform sustains, why not more, and how each objective stands.

use crate::html::level;
use crate::html::table::{Column, chip, table};
use crate::html::tiles;
use crate::terminal;
use crate::text;
use maud::{Markup, html};
use plimsoll_analysis::faults;
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::load_line::LoadLine;
use plimsoll_analysis::objective;
use plimsoll_analysis::objective::{Standing, judge};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Verdict;
use plimsoll_model::objective::{Objective, Subject};
use plimsoll_model::record::{RunEnd, RunRecord, Terms};
use std::collections::BTreeMap;

/// The head of the page.
pub fn header(record: &RunRecord, summary: &Summary) -> Markup {
    html! {
        header class={ "verdict " (summary.verdict.name()) } {
            p.eyebrow {
                span class={ "stamp " (summary.verdict.name()) } { (summary.verdict_word()) }
                span.scenario { (record.name) }
            }
            h1 { (headline(record, summary)) }
            @for sentence in sentences(summary) {
                p.because { (sentence) }
            }
            (tiles::tiles(record, summary))
            dl.facts {
                @for (name, value) in facts(record, summary) {
                    div { dt { (name) } dd { (value) } }
                }
            }
        }
    }
}

fn headline(record: &RunRecord, summary: &Summary) -> String {
    let dead = summary.levels.iter().find_map(|level| Some((level.death.as_ref()?, level)));
    if let Some((death, level)) = dead {
        return format!("{} died at {}", death.component, level.load);
    }
    if let Some(RunEnd::PlatformDied(death)) = &record.end {
        let begun = record.experiment.first().is_some_and(|level| level.start.hold_start <= death.at);
        return format!("{} died{}", death.component, if begun { " in the experiment" } else { "" });
    }
    // A run that is nothing but an experiment has no load line, and looks for none.
    if let (Some(_), true, Verdict::Met | Verdict::Invalid) =
        (&summary.experiment, summary.levels.is_empty(), summary.verdict)
    {
        return terminal::by_experiment(summary).unwrap_or_else(|| "It is open what limits the load".into());
    }
    if let (Some(curve), Verdict::Met | Verdict::Missed) = (summary.curve(), summary.verdict) {
        let span = format!("{} to {}", level::per_second(curve.lowest), level::per_second(curve.highest));
        return match summary.verdict {
            Verdict::Met => format!("The objectives hold from {span}"),
            _ => format!("Objectives are missed along the curve from {span}"),
        };
    }
    match (&summary.load_line, summary.verdict) {
        (Some(line), _) => {
            let least = if line.at_least { "at least " } else { "" };
            format!("Sustains {least}{}", level::load_line(line))
        }
        (None, Verdict::Failed) => "The run could not be done".into(),
        (None, Verdict::Interrupted) => "The run ended before a load line was found".into(),
        (None, Verdict::Running) => "The run still goes on".into(),
        (None, Verdict::Invalid) => "No load line: the lowest level decides nothing".into(),
        (None, Verdict::Missed | Verdict::Met) => "No load line: the lowest level misses an objective".into(),
    }
}

/// What the headline leaves open: the reason of the verdict, and what limits the next level.
fn sentences(summary: &Summary) -> Vec<String> {
    let mut sentences = Vec::new();
    let named = |level: &&LevelSummary| level.blame.as_ref().is_some_and(|blame| blame.component.is_some());
    let by_levels = || {
        let level = summary.limiting().filter(named)?;
        Some(format!("At {}, {}", level::name(level), terminal::claim(level)?))
    };
    // Of a run that is nothing but an experiment, the headline has it.
    let by_experiment = terminal::by_experiment(summary);
    let claim = if summary.levels.is_empty() { None } else { by_experiment.or_else(by_levels) };
    sentences.extend(claim.map(|claim| format!("{claim}.")));
    if summary.verdict != Verdict::Met {
        sentences.push(sentence(&summary.reason));
    }
    sentences.extend(summary.notes.iter().map(|note| sentence(note)));
    let Some(line) = &summary.load_line else { return sentences };
    let top = level::of_load_line(summary, line);
    if let Some(in_flight) = top.and_then(|level| level.load.in_flight()) {
        sentences.push(format!("Reached with {} operations in flight.", text::count(f64::from(in_flight))));
    }
    sentences.push(match next_level(summary, line) {
        Some(next) => {
            let role = if line.at_least { "The next level decides nothing" } else { "What gives way next" };
            format!("{role}: {}", sentence(&format!("at {}, {}", level::name(next), level::why(next))))
        }
        None => "No higher level was run, so the platform may sustain more.".into(),
    });
    sentences
}

/// With a full stop at the end; a capital at the beginning unless it begins with a name of ours.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    match letters.next() {
        Some(first) if !text.starts_with("at ") => {
            format!("{}{}{stop}", first.to_uppercase(), letters.as_str())
        }
        _ => format!("{text}{stop}"),
    }
}

/// The level above the load line.
fn next_level<'a>(summary: &'a Summary, line: &LoadLine) -> Option<&'a LevelSummary> {
    summary.levels.iter().find(|level| Some(level.index) == line.next_level)
}

fn facts(record: &RunRecord, summary: &Summary) -> Vec<(&'static str, String)> {
    let terms = &record.terms;
    let provenance = &record.provenance;
    let people = |count: u32, one: &str| {
        format!("{} {one}{}", text::count(f64::from(count)), if count == 1 { "" } else { "s" })
    };
    let mut facts = vec![
        ("Platform", platform(&provenance.platform)),
        (
            "Population",
            format!("{}, {}", people(terms.devices, "device"), people(terms.subscribers, "subscriber")),
        ),
    ];
    facts.extend(qos(record).map(|qos| ("QoS of MQTT", qos)));
    facts.extend([
        ("Levels", levels_run(summary, terms)),
        ("Started", started(&provenance.started)),
        ("Run", record.id.clone()),
    ]);
    facts
}

/// The QoS of those who speak MQTT; `None` where devices speak something else, or an older version did not say what.
fn qos(record: &RunRecord) -> Option<String> {
    let terms = &record.terms;
    record.provenance.platform.get("protocol").filter(|protocol| *protocol == "MQTT")?;
    Some(if terms.subscribers == 0 || terms.listener.is_some() {
        format!("publish {}", terms.qos)
    } else {
        format!("publish {}, subscribe {}", terms.qos, terms.subscribe_qos)
    })
}

/// How many levels were run, and of how many.
fn levels_run(summary: &Summary, terms: &Terms) -> String {
    let down = summary.levels.iter().filter(|level| level.falling).count();
    let run = summary.levels.len() - down;
    let up = match usize::from(terms.levels) {
        _ if terms.search.is_some() => format!("{run}, searched"),
        planned if run > planned => format!("{planned}, held {run} times in all"),
        planned => format!("{run} of {planned}"),
    };
    if down > 0 { format!("{up}, and {down} on the way down") } else { up }
}

/// Profile and version, the name not twice.
fn platform(facts: &BTreeMap<String, String>) -> String {
    match (facts.get("profile"), version(facts)) {
        (Some(profile), Some(version)) if !version.contains(profile.as_str()) => {
            format!("{profile}, {version}")
        }
        (_, Some(version)) => version.clone(),
        (Some(profile), None) => profile.clone(),
        (None, None) => "unknown".into(),
    }
}

/// The version of the platform's first component that told one.
fn version(facts: &BTreeMap<String, String>) -> Option<&String> {
    facts.iter().find_map(|(name, value)| name.ends_with(" version").then_some(value))
}

/// `2026-01-02T03:04:05Z` with a space and the zone in words.
pub fn started(rfc3339: &str) -> String {
    match rfc3339.strip_suffix('Z') {
        Some(time) => format!("{} UTC", time.replacen('T', " ", 1)),
        None => rfc3339.to_owned(),
    }
}

/// Each objective at the load line and at the level above it; without a load line, at the lowest level.
pub fn objectives(record: &RunRecord, summary: &Summary) -> Markup {
    let demanded = record.terms.objectives.load_line;
    let rising = level::rising(summary);
    let shown: Vec<(&'static str, &LevelSummary)> = match &summary.load_line {
        Some(line) => {
            [("Load line", level::of_load_line(summary, line)), ("Next level", next_level(summary, line))]
                .into_iter()
                .filter_map(|(title, level)| Some((title, level?)))
                .collect()
        }
        None => rising.first().map(|lowest| ("Lowest level", *lowest)).into_iter().collect(),
    };
    let mut columns = vec![Column::Text("Objective")];
    columns.extend(shown.iter().map(|(title, _)| Column::Number(title)));
    let mut rows: Vec<Markup> = Vec::new();
    if !shown.is_empty() {
        rows.push(html! {
            tr.sub { td { "of every level" } @for (_, level) in &shown { td.num { (level::name(level)) } } }
        });
    }
    for objective in &record.terms.objectives.level {
        rows.push(html! {
            tr {
                th scope="row" { code { (objective) } }
                @for (_, level) in &shown { td.num { (standing(objective, level)) } }
            }
        });
    }
    if record.terms.objectives.level.is_empty() && demanded.is_none() {
        return html! { p.empty { "This scenario has no objectives: every valid level is met." } };
    }
    html! {
        (table(&columns, &rows))
        @if let Some(demanded) = demanded {
            p { "The load line itself was to be at least " strong { (level::per_second(demanded)) } "." }
        }
        @if shown.is_empty() {
            p.note { "No level was begun, so no objective could be judged." }
        }
    }
}

fn standing(objective: &Objective, level: &LevelSummary) -> Markup {
    let value = value(objective.subject, level.about(objective)).map(|value| objective.subject.show(value));
    let verdict = match (level.verdict, judge(objective, level)) {
        (LevelVerdict::Invalid | LevelVerdict::Unfinished, _) => level.verdict,
        (_, Standing::Met) => LevelVerdict::Met,
        (_, Standing::Missed(_)) => LevelVerdict::Missed,
        (_, Standing::Undecided(_)) => LevelVerdict::Undecided,
        (_, Standing::Refused(_)) => LevelVerdict::Invalid,
    };
    html! { span.value { (value.unwrap_or_else(|| "\u{2013}".into())) } " " (chip(verdict)) }
}

fn value(subject: Subject, level: &LevelSummary) -> Option<f64> {
    match subject {
        Subject::Delivered => level.delivered_ratio(),
        Subject::Achieved => level.achieved_ratio(),
        Subject::Connected => level.connected_ratio(),
        Subject::FaultRecovery => faults::longest_recovery(level),
        Subject::Quantile(metric, q) => objective::time(level, metric)?.quantile(q).0,
        Subject::Mean(metric) => objective::time(level, metric)?.mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_shown_with_its_zone() {
        assert_eq!(started("2026-01-02T03:04:05Z"), "2026-01-02 03:04:05 UTC");
        assert_eq!(started("yesterday"), "yesterday");
    }

    #[test]
    fn a_qos_is_told_of_those_who_speak_mqtt() {
        let mut record = crate::html::synthetic::record();
        assert_eq!(qos(&record).as_deref(), Some("publish 1, subscribe 1"));
        record.terms.subscribers = 0;
        assert_eq!(qos(&record).as_deref(), Some("publish 1"));
        record.provenance.platform.insert("protocol".into(), "HTTP".into());
        assert_eq!(qos(&record), None);
        record.provenance.platform.remove("protocol");
        assert_eq!(qos(&record), None);
    }

    #[test]
    fn the_platform_is_named_once() {
        let facts = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        assert_eq!(
            platform(&facts(&[("profile", "embedded"), ("broker version", "broker 1")])),
            "embedded, broker 1"
        );
        assert_eq!(platform(&facts(&[("profile", "nanomq"), ("broker version", "nanomq 2")])), "nanomq 2");
        assert_eq!(platform(&facts(&[("profile", "existing")])), "existing");
        assert_eq!(platform(&facts(&[])), "unknown");
    }

    #[test]
    fn a_reason_becomes_a_sentence() {
        assert_eq!(sentence("no level was run"), "No level was run.");
        assert_eq!(sentence("at 5/s, it died!"), "at 5/s, it died!");
        assert_eq!(sentence(""), ".");
    }
}
