//! The result for GitHub Actions: a workflow command that becomes an annotation, and a summary of the job in Markdown.

use crate::plain;
use crate::terminal::{headline, headline_with_reason, leniency};
use crate::text::{rate, time};
use plimsoll_analysis::level::LevelSummary;
use plimsoll_analysis::summary::Summary;
use plimsoll_model::{Metric, Verdict};

/// One line for standard output, which GitHub shows beside the scenario file where there is one.
pub fn annotation(summary: &Summary, file: Option<&str>) -> String {
    let leniency = leniency(summary);
    let kind = match summary.verdict {
        Verdict::Met if leniency.is_some() => "warning",
        Verdict::Met => "notice",
        Verdict::Missed | Verdict::Failed => "error",
        Verdict::Invalid | Verdict::Interrupted | Verdict::Running => "warning",
    };
    let file = file.map(|file| format!("file={},", property(file))).unwrap_or_default();
    let leniency = leniency.map(|leniency| format!("; {leniency}")).unwrap_or_default();
    let told = format!("{}{leniency}", headline_with_reason(summary));
    format!("::{kind} {file}title=Plimsoll::{}\n", message(&told))
}

/// A text in which GitHub looks for no commands, whatever a platform said that stands in it. The word must be one that nobody
/// could know.
pub fn without_commands(text: &str, word: u64) -> String {
    format!("::stop-commands::{word:016x}\n{text}\n::{word:016x}::\n")
}

/// Verdict, table of levels and reasons in Markdown.
pub fn markdown(summary: &Summary) -> String {
    let mut out = format!("### {}\n", plain::markdown(&headline(summary)));
    if summary.levels.is_empty() {
        return out;
    }
    out += &format!("\n{}\n", plain::markdown(&summary.reason));
    if let Some(leniency) = leniency(summary) {
        out += &format!("\n{}\n", plain::markdown(&leniency));
    }
    out += "\n| level | achieved | delivered | publish p50 | publish p99 | subscribe p99 | verdict |\n";
    out += "|---|--:|--:|--:|--:|--:|---|\n";
    for level in &summary.levels {
        out += &row(&level.load.to_string(), level);
        for own in &level.populations {
            out += &row(&format!("{}: {}", level.load, own.name), &own.figures);
        }
    }
    out + "\n"
}

/// A level, or one of its populations.
fn row(name: &str, level: &LevelSummary) -> String {
    let achieved = level.achieved.map_or("-".to_owned(), |achieved| format!("{}/s", rate(achieved)));
    let share = level.delivered_ratio().filter(|_| level.expected_deliveries > 0);
    let delivered = share.map_or("-".to_owned(), |share| format!("{} %", crate::text::floor_percent(share)));
    let why = match level.is_met() {
        true => String::new(),
        false => format!(": {}", plain::markdown(&level.why())),
    };
    format!(
        "| {name} | {achieved} | {delivered} | {} | {} | {} | {}{why} |\n",
        time(level.times[Metric::PublishTime].p50),
        time(level.times[Metric::PublishTime].p99),
        time(level.times[Metric::SubscribeTime].p99),
        level.verdict.name(),
    )
}

/// What a workflow command says must not end it, nor begin another one.
fn message(text: &str) -> String {
    plain::line(text).replace('%', "%25")
}

/// The same in one of its properties.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::synthetic;

    #[test]
    fn a_name_cannot_begin_another_command() {
        let mut summary = plimsoll_analysis::summarize(&synthetic::record());
        summary.name = "100 %\n::error::no".into();
        summary.verdict = Verdict::Missed;
        let line = annotation(&summary, Some("a,b:c.yaml"));
        assert!(line.starts_with("::error file=a%2Cb%3Ac.yaml,title=Plimsoll::MISSED  "), "{line}");
        assert!(line.contains("100 %25\u{fffd}::error::no") && line.lines().count() == 1, "{line}");
        assert!(markdown(&summary).contains("| verdict |"));
    }

    #[test]
    fn a_level_that_was_missed_and_not_demanded_is_a_warning() {
        let mut summary = plimsoll_analysis::summarize(&synthetic::record());
        summary.verdict = Verdict::Met;
        let line = annotation(&summary, None);
        assert!(line.starts_with("::warning ") && line.contains("set objectives.load_line to "), "{line}");
        assert!(markdown(&summary).contains("to require "));
        summary.demanded_load_line = Some(1.0);
        assert!(annotation(&summary, None).starts_with("::notice "));
    }
}
