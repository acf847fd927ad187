//! The result as JUnit XML, which servers of continuous integration show: one test for the verdict, one for each level, and
//! one for each population of a level where there are several.
//!
//! What limits the load stands among the properties of the suite. Only a verdict other than `met` fails a test. A level above
//! the load line of a run that met is skipped, with its reason.

use crate::plain;
use crate::terminal::headline_with_reason;
use plimsoll_analysis::level::{LevelSummary, LevelVerdict};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Verdict;
use std::iter;

/// How a test ended.
enum End {
    Passed,
    /// The platform missed.
    Failed(String),
    /// It could not be measured.
    Errored(String),
    /// It decides nothing about the run.
    Skipped(String),
}

/// What the test of a level is called: by its place among the different loads, so that it has the same name in another run in which
/// some level was held again.
fn name(load: &str, loads: &mut Vec<(String, usize)>) -> String {
    let place = loads.iter().position(|(known, _)| known == load).unwrap_or(loads.len());
    if place == loads.len() {
        loads.push((load.to_owned(), 0));
    }
    let holds = loads.get_mut(place).map_or(1, |(_, holds)| {
        *holds += 1;
        *holds
    });
    let again = if holds > 1 { format!(" (hold {holds})") } else { String::new() };
    format!("level {}: {load}{again}", place + 1)
}

/// The whole file.
pub fn render(summary: &Summary) -> String {
    let of_run = match summary.verdict {
        Verdict::Met => End::Passed,
        Verdict::Missed => End::Failed(headline_with_reason(summary)),
        _ => End::Errored(headline_with_reason(summary)),
    };
    let mut tests = vec![("verdict".to_owned(), None, of_run)];
    let mut loads: Vec<(String, usize)> = Vec::new();
    for level in &summary.levels {
        let name = name(&level.load.to_string(), &mut loads);
        // The time is that of the level, which its populations share.
        let populations = level
            .populations
            .iter()
            .map(|own| (format!("{name}: {}", own.name), None, of_level(&own.figures, summary.verdict)));
        let of_populations: Vec<_> = populations.collect();
        tests.push((name, Some(level.hold), of_level(level, summary.verdict)));
        tests.extend(of_populations);
    }
    let count = |wanted: fn(&End) -> bool| tests.iter().filter(|(_, _, end)| wanted(end)).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
        tests.len(),
        count(|end| matches!(end, End::Failed(_))),
        count(|end| matches!(end, End::Errored(_))),
        count(|end| matches!(end, End::Skipped(_))),
        summary.levels.iter().fold(0.0, |sum, level| sum + level.hold),
    );
    let suite = escaped(&summary.name);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"plimsoll\" {counts}>\n  <testsuite \
         name=\"{suite}\" {counts}>\n    <properties>\n"
    );
    let at = summary.experiment.as_ref().map(|experiment| experiment.capacity.mean);
    let limits = summary.limits.iter().map(|limit| ("limit", limit.in_words(at)));
    for (name, value) in iter::once(("run", summary.run.clone())).chain(limits) {
        out += &format!("      <property name=\"{name}\" value=\"{}\"/>\n", escaped(&value));
    }
    out += "    </properties>\n";
    for (name, hold, end) in &tests {
        out += &test(&suite, name, *hold, end);
    }
    out + "  </testsuite>\n</testsuites>\n"
}

fn of_level(level: &LevelSummary, run: Verdict) -> End {
    let blamed = || crate::terminal::blamed(level).map(|blamed| format!("; {blamed}")).unwrap_or_default();
    let why = || format!("{}{}", level.why(), blamed());
    match (level.verdict, run) {
        (LevelVerdict::Met, _) => End::Passed,
        (verdict, Verdict::Met) => End::Skipped(format!("{}: {}", verdict.name(), why())),
        (LevelVerdict::Missed, _) => End::Failed(why()),
        (verdict, _) => End::Errored(format!("{}: {}", verdict.name(), why())),
    }
}

fn test(suite: &str, name: &str, hold: Option<f64>, end: &End) -> String {
    let time = hold.map(|hold| format!(" time=\"{hold:.3}\"")).unwrap_or_default();
    let head = format!("    <testcase classname=\"{suite}\" name=\"{}\"{time}", escaped(name));
    let (element, message) = match end {
        End::Passed => return format!("{head}/>\n"),
        End::Failed(message) => ("failure", message),
        End::Errored(message) => ("error", message),
        End::Skipped(message) => ("skipped", message),
    };
    format!("{head}>\n      <{element} message=\"{}\"/>\n    </testcase>\n", escaped(message))
}

/// Text in an attribute. XML 1.0 has neither controls, which are replaced, nor the last two characters of the first plane
/// (section 2.2).
fn escaped(text: &str) -> String {
    let text = plain::line(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::synthetic;

    /// A build server follows a test by its name from run to run.
    #[test]
    fn a_level_that_was_held_again_changes_no_other_name() {
        let names = |loads: &[&str]| -> Vec<String> {
            let mut known = Vec::new();
            loads.iter().map(|load| name(load, &mut known)).collect()
        };
        assert_eq!(names(&["150/s", "400/s"]), ["level 1: 150/s", "level 2: 400/s"]);
        let again = names(&["150/s", "150/s", "400/s", "150/s"]);
        let holds =
            ["level 1: 150/s", "level 1: 150/s (hold 2)", "level 2: 400/s", "level 1: 150/s (hold 3)"];
        assert_eq!(again, holds);
    }

    #[test]
    fn a_level_fails_its_test_only_where_the_run_did_not_meet() {
        let mut summary = plimsoll_analysis::summarize(&synthetic::record());
        summary.name = "a <b> & \"c\"\u{1}\u{ffff}\u{fffe}".into();
        summary.verdict = Verdict::Met;
        let met = render(&summary);
        assert!(met.contains("failures=\"0\" errors=\"0\""), "{met}");
        assert!(met.contains("name=\"a &lt;b&gt; &amp; &quot;c&quot;\u{fffd}\u{fffd}\u{fffd}\""), "{met}");
        assert!(met.contains("<skipped message="), "{met}");
        summary.verdict = Verdict::Missed;
        let missed = render(&summary);
        assert!(missed.contains("<failure message=\"MISSED  ") && !missed.contains("<skipped"), "{missed}");
    }
}
