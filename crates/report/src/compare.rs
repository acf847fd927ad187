//! A comparison in the terminal, as Markdown and as JSON; the page with its charts is [`crate::html::compare`].

use crate::plain;
use crate::text::{WIDTH, bytes, floor_percent, rate, time, wrapped};
use plimsoll_analysis::compare::{Candidate, Comparison, Conclusion, Difference, Row, Unit, mean};
use std::collections::BTreeSet;

/// The comparison as JSON, by its published schema.
pub fn json(comparison: &Comparison) -> String {
    serde_json::to_string_pretty(comparison).unwrap_or_default() + "\n"
}

/// The comparison for the terminal, at most 80 columns wide.
pub fn terminal(comparison: &Comparison) -> String {
    let mut out = String::new();
    for (letter, candidate) in letters().zip(&comparison.candidates) {
        let head = format!("{letter} {}: {}", candidate.label, runs(candidate));
        out += &wrapped(&head, "").join("\n");
        out.push('\n');
    }
    let mut level = None;
    for row in &comparison.rows {
        if level != Some(&row.level) {
            level = Some(&row.level);
            out += &format!("\n{}\n", row.level.as_deref().unwrap_or("the whole run"));
        }
        let values: Vec<String> = letters()
            .zip(&row.values)
            .map(|(letter, values)| format!("{letter} {}", value(row.unit, mean(values))))
            .collect();
        out += &wrapped(&format!("{}: {}", row.quantity, values.join("; ")), "  ").join("\n");
        out.push('\n');
        for (letter, difference) in letters().skip(1).zip(&row.differences) {
            if let Some(told) = told(row, difference) {
                out += &wrapped(&format!("{letter} {told}"), "    ").join("\n");
                out.push('\n');
            }
        }
    }
    let qualities = qualities(comparison);
    if !qualities.is_empty() {
        out += "\nbeside numbers\n";
        for (name, of) in qualities {
            out += &format!("  {name}\n");
            for (letter, text) in letters().zip(of) {
                out += &wrapped(&format!("{letter} {}", text.unwrap_or("-")), "    ").join("\n");
                out.push('\n');
            }
        }
    }
    if !comparison.notes.is_empty() {
        out.push('\n');
    }
    for note in &comparison.notes {
        out += &wrapped(note, "").join("\n");
        out.push('\n');
    }
    debug_assert!(out.lines().all(|line| line.chars().count() <= WIDTH || !line.trim().contains(' ')));
    out
}

/// The comparison as Markdown tables.
pub fn markdown(comparison: &Comparison) -> String {
    let mut out = String::from("| level | quantity |");
    comparison
        .candidates
        .iter()
        .for_each(|candidate| out += &format!(" {} |", plain::markdown(&candidate.label)));
    out += "\n|---|---|";
    out += &"---|".repeat(comparison.candidates.len());
    out.push('\n');
    for row in &comparison.rows {
        out += &format!("| {} | {} |", row.level.as_deref().unwrap_or(""), row.quantity);
        for (position, values) in row.values.iter().enumerate() {
            let difference = position.checked_sub(1).and_then(|position| row.differences.get(position));
            let difference = difference.and_then(|difference| told(row, difference));
            let difference = difference.map(|told| format!(" ({told})"));
            out += &format!(" {}{} |", value(row.unit, mean(values)), difference.unwrap_or_default());
        }
        out.push('\n');
    }
    for (name, of) in qualities(comparison) {
        out += &format!("| | {} |", plain::markdown(name));
        of.iter().for_each(|text| out += &format!(" {} |", plain::markdown(text.unwrap_or("–"))));
        out.push('\n');
    }
    for note in &comparison.notes {
        out += &format!("\n{note}\n");
    }
    out
}

fn letters() -> impl Iterator<Item = char> {
    ('A'..='Z').cycle()
}

/// The runs of a candidate, in words.
pub(crate) fn runs(candidate: &Candidate) -> String {
    match candidate.runs.as_slice() {
        [one] => format!("run {one}"),
        several => format!("{} runs: {}", several.len(), several.join(" ")),
    }
}

/// A value in its unit; `-` where there is none.
pub(crate) fn value(unit: Unit, value: Option<f64>) -> String {
    let Some(value) = value else { return "-".into() };
    match unit {
        Unit::Seconds => time(Some(value)),
        Unit::PerSecond => format!("{}/s", rate(if value >= 10.0 { value.round() } else { value })),
        Unit::Bytes => bytes(value),
        Unit::Share => format!("{} %", floor_percent(value)),
    }
}

/// What can be said of a difference of this row: by how much in percent of the first candidate. What holds of all rows, that
/// candidates were run once or not in turns, is told once, by a note.
pub(crate) fn told(row: &Row, difference: &Difference) -> Option<String> {
    let base = row.values.first().and_then(|values| mean(values)).filter(|base| *base > 0.0);
    let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
    let by = difference.ci95.zip(base).map(|([low, high], base)| {
        format!("{} to {}", percent((low / base).max(-1.0)), percent(high / base))
    });
    match difference.finding {
        Conclusion::Higher => Some(format!("higher: {}", by.unwrap_or_else(|| "from nothing".into()))),
        Conclusion::Lower => Some(format!("lower: {}", by.unwrap_or_default())),
        Conclusion::NotDistinguishable if difference.ci95 == Some([0.0, 0.0]) => Some("equal".into()),
        Conclusion::NotDistinguishable => {
            Some(format!("not distinguishable{}", by.map(|by| format!(": {by}")).unwrap_or_default()))
        }
        Conclusion::NotInAllRuns => Some("not in all runs".into()),
        Conclusion::RunOnce | Conclusion::NotInTurns | Conclusion::Absent => None,
    }
}

/// What the profiles say beside numbers: each name with what each candidate has for it.
pub(crate) fn qualities(comparison: &Comparison) -> Vec<(&str, Vec<Option<&str>>)> {
    let names: BTreeSet<&str> =
        comparison.candidates.iter().flat_map(|one| one.qualities.keys().map(String::as_str)).collect();
    let of = |name| comparison.candidates.iter().map(move |one| one.qualities.get(name).map(String::as_str));
    names.into_iter().map(|name| (name, of(name).collect())).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use plimsoll_analysis::compare::SCHEMA;

    /// Two candidates, of which the second takes longer.
    pub(crate) fn comparison() -> Comparison {
        let candidate = |label: &str, quality: &str| Candidate {
            label: label.into(),
            runs: vec!["one".into(), "two".into()],
            qualities: [("model".to_owned(), quality.to_owned())].into(),
        };
        let row = |quantity: &str, unit, values: [Vec<f64>; 2], ci95, finding| Row {
            level: Some("100/s".into()),
            quantity: quantity.into(),
            unit,
            values: values.into(),
            differences: vec![Difference { ci95, finding }],
        };
        Comparison {
            schema: SCHEMA,
            candidates: vec![candidate("here", "a | b"), candidate("there", "<c>")],
            rows: vec![
                row(
                    "publish time, median",
                    Unit::Seconds,
                    [vec![0.001, 0.003], vec![0.004]],
                    Some([0.001, 0.003]),
                    Conclusion::Higher,
                ),
                row("size", Unit::Bytes, [vec![100.0], vec![]], None, Conclusion::Absent),
                row("achieved", Unit::PerSecond, [vec![1.0], vec![2.0]], None, Conclusion::RunOnce),
            ],
            notes: vec!["a note".into()],
        }
    }

    #[test]
    fn it_is_told_in_every_form() {
        let told = terminal(&comparison());
        for expected in [
            "A here: 2 runs: one two",
            "A 2.00 ms; B 4.00 ms",
            "B higher: +50.0 % to +150.0 %",
            "A 100 B; B -",
            "achieved: A 1/s; B 2/s\n\n",
        ] {
            assert!(told.contains(expected), "{expected}: {told}");
        }
        let told = markdown(&comparison());
        assert!(
            told.contains(
                "| 100/s | publish time, median | 2.00 ms | 4.00 ms (higher: +50.0 % to +150.0 %) |"
            )
        );
        assert!(told.contains("| achieved | 1/s | 2/s |"), "{told}");
        assert!(told.contains("| | model | a \\| b | &lt;c> |"), "{told}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json(&comparison())).unwrap()["schema"], 0);
    }
}
