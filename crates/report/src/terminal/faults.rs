//! Planned faults: what was done, how long the platform took to recover, and what became of messages meanwhile.

use crate::plain;
use crate::text::{count, time, wrapped};
use plimsoll_analysis::faults::{FaultSummary, PhaseSummary};
use plimsoll_analysis::summary::Summary;

/// Each fault of each level; nothing where none was planned.
pub fn render(summary: &Summary) -> String {
    let mut out = String::new();
    for level in &summary.levels {
        for fault in &level.faults {
            out += &format!("\n{}", fault_in_words(&level.load.to_string(), fault));
        }
    }
    out
}

fn fault_in_words(load: &str, fault: &FaultSummary) -> String {
    let head = format!("{load}: {}", plain::line(&fault.in_words()));
    let mut lines = wrapped(&head, "  ");
    if !fault.means.is_empty() {
        lines.extend(wrapped(&format!("done {}", plain::line(&fault.means)), "    "));
    }
    lines.push(format!(
        "    {:<10}{:>9}{:>10}{:>7}{:>7}{:>7}{:>7}{:>9}  {}",
        "", "due", "delivered", "lost", "late", "dup.", "unsent", "pub p99", "verdict"
    ));
    let phases = [
        ("before", Some(&fault.before)),
        ("during", Some(&fault.during)),
        ("recovering", fault.recovering.as_ref()),
        ("after", fault.after.as_ref()),
    ];
    let phases = phases.into_iter().filter_map(|(name, phase)| Some((name, phase?)));
    lines.extend(phases.map(|(name, phase)| row(name, phase)));
    lines.into_iter().map(|line| line + "\n").collect()
}

fn row(name: &str, phase: &PhaseSummary) -> String {
    let PhaseSummary { due, delivered, lost, late, duplicated, unsent, .. } = phase;
    let [due, delivered, lost, late, duplicated, unsent] =
        [due, delivered, lost, late, duplicated, unsent].map(|number| count(*number as f64));
    format!(
        "    {name:<10}{due:>9}{delivered:>10}{lost:>7}{late:>7}{duplicated:>7}{unsent:>7}{:>9}  {}",
        time(phase.publish_p99),
        phase.verdict.name()
    )
}
