//! What limits the load, by which evidence, and what a faster part would buy.

use super::Detail;
use crate::plain;
use crate::text::{hundredths, rate, time, wrapped};
use plimsoll_analysis::experiment::{Estimate, Experiment, Faster, Latency, MediumStops, Part, Path};
use plimsoll_analysis::summary::Summary;
use std::fmt::Write;

/// Characters of a part's name that the table has room for, and those of the longest bar.
const NAME: usize = 22;
const BAR: f64 = 8.0;
/// An interval that is wider says nothing of an elasticity.
const UNKNOWN: f64 = 1.0;

/// What limits, where it is known or was looked for.
pub fn render(summary: &Summary, detail: Detail) -> String {
    let Some(experiment) = &summary.experiment else { return String::new() };
    let mut out = String::from("\nwhat limits the load\n");
    for limit in &summary.limits {
        // The headline of a run that is nothing but an experiment has it.
        if !summary.levels.is_empty() {
            out += &lines(&limit.in_words(Some(experiment.capacity.mean)), "  ");
        }
        limit.evidence.iter().for_each(|said| out += &lines(said, "    "));
    }
    open(summary, experiment).for_each(|open| out += &lines(open, "  "));
    out += &format!("\n{}", parts(experiment));
    if detail == Detail::Full {
        experiment.parts.iter().for_each(|part| out += &lines(&doses(part), "    "));
    }
    out += &paths(experiment);
    out += &faster(experiment);
    out + &latencies(experiment)
}

/// What is open beside the reason of the verdict, which stands above.
pub fn open<'a>(summary: &'a Summary, experiment: &'a Experiment) -> impl Iterator<Item = &'a String> {
    experiment.open.iter().filter(|open| !summary.reason.contains(open.as_str()))
}

fn lines(text: &str, indent: &str) -> String {
    wrapped(&plain::line(text), indent).into_iter().map(|line| line + "\n").collect()
}

/// An interval of elasticities; empty where none is known.
fn range(ci95: Option<[f64; 2]>) -> String {
    ci95.map(|[lo, hi]| format!("{} to {}", hundredths(lo), hundredths(hi))).unwrap_or_default()
}

/// The parts, the highest elasticity first.
fn parts(experiment: &Experiment) -> String {
    let mut out = format!("  {:<NAME$}{:>11}{:>17}{:>16}\n", "slowed", "elasticity", "95 %", "allows per s");
    for part in &experiment.parts {
        let Estimate { mean, ci95 } = part.elasticity;
        let range = range(ci95);
        let is_known = ci95.is_some_and(|[lo, hi]| hi - lo <= UNKNOWN);
        let bar = if is_known { (mean.clamp(0.0, 1.0) * BAR).round() as usize } else { 0 };
        let bar = "#".repeat(bar);
        let mean = if is_known { hundredths(mean) } else { "not known".to_owned() };
        let name: String = plain::line(&part.name()).chars().take(NAME - 1).collect();
        let row = format!("  {name:<NAME$}{mean:>11}{range:>17}{:>16}  {bar}", allowed(part));
        let _ = writeln!(out, "{}", row.trim_end());
    }
    let Estimate { mean, ci95 } = experiment.capacity;
    let range =
        ci95.map(|[lo, hi]| format!(" ({} to {})", rate(lo.round()), rate(hi.round()))).unwrap_or_default();
    let told = format!(
        "untouched: {}/s{range} with {} in flight; stops of {:.0} ms",
        rate(mean.round()),
        experiment.in_flight,
        experiment.stop * 1e3
    );
    out + &lines(&told, "  ")
}

/// The doses of a part, what short stops alone said of it, and what it used.
fn doses(part: &Part) -> String {
    let doses: Vec<String> = part.doses.iter().map(|dose| format!("{:.0} %", dose * 100.0)).collect();
    let mut out = format!("{}: slowed by {} in {} blocks", part.name(), doses.join(", "), part.blocks);
    if let Some(Estimate { mean, .. }) = part.under_short_stops {
        out += &format!("; elasticity with short stops {}", hundredths(mean));
    }
    if let Some(MediumStops { stop, elasticity, .. }) = part.under_medium_stops {
        out += &format!("; with stops of {:.0} ms {}", stop * 1e3, hundredths(elasticity.mean));
    }
    if let Some(used) = part.used {
        out += &format!("; it used {:.0} % of a processor", used * 100.0);
    }
    out
}

/// How many places bound the operations on the path to a component.
fn paths(experiment: &Experiment) -> String {
    let told = |path: &Path| {
        let many = match (&path.at_once, path.at_least) {
            (Some(Estimate { mean, ci95 }), _) => {
                let range = ci95.map(|[lo, hi]| format!(" ({lo:.1} to {hi:.1})")).unwrap_or_default();
                format!("{mean:.1} places{range}")
            }
            (None, Some(least)) => format!("no bound up to {least:.0} operations"),
            (None, None) => "not known".to_owned(),
        };
        lines(&format!("round trips to {}: {many}", path.component), "  ")
    };
    experiment.paths.iter().map(told).collect()
}

/// What a slower component does to the times that objectives look at.
fn latencies(experiment: &Experiment) -> String {
    let Some(Latency { rate: load, .. }) = experiment.latencies.first() else { return String::new() };
    let mut out = format!("\n  {:<NAME$}{:>11}{:>17}{:>16}\n", "latency", "elasticity", "95 %", "untouched");
    for latency in &experiment.latencies {
        let untouched = time(Some(latency.untouched.mean));
        let key: String = plain::line(&latency.objective).chars().take(2 * NAME).collect();
        let _ = writeln!(out, "  {key:<50}{untouched:>16}");
        for part in &latency.parts {
            let Estimate { mean, ci95 } = part.elasticity;
            let name: String = plain::line(&part.component).chars().take(NAME - 3).collect();
            let _ = writeln!(out, "    {name:<20}{:>11}{:>17}", hundredths(mean), range(ci95));
        }
    }
    let waiting = experiment.not_in_latencies();
    let but = if waiting.is_empty() {
        String::new()
    } else {
        format!(
            "; without a figure, since they hardly compute, could not be slowed enough, or had too few messages: {}",
            waiting.join(", ")
        )
    };
    out + &lines(&format!("at {}/s{but}", rate(load.round())), "  ")
}

/// What a part allows by itself.
fn allowed(part: &Part) -> String {
    match part.capacity {
        Some(own) => rate(own.mean.round()),
        None => format!(">= {}", rate(part.at_least.round())),
    }
}

fn faster(experiment: &Experiment) -> String {
    let told = |faster: &Faster| {
        let range =
            faster.capacity.ci95.map(|[lo, hi]| format!(" ({} to {})", rate(lo.round()), rate(hi.round())));
        let then = faster.then_in_words().map(|then| format!(", {}", plain::line(&then)));
        let buys = rate(faster.capacity.mean.round());
        lines(
            &format!(
                "{}: {buys}/s{}{}",
                faster.in_words(),
                range.unwrap_or_default(),
                then.unwrap_or_default()
            ),
            "  ",
        )
    };
    experiment.faster.iter().map(told).collect()
}
