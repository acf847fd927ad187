//! What limits the load: who, by which evidence, the parts that were slowed, and what a faster one would buy.

use crate::html::level::per_second;
use crate::html::table::{Column, interval_cell, number_cell, table};
use crate::terminal;
use crate::text::{capitalised, hundredths};
use maud::{Markup, html};
use plimsoll_analysis::experiment::{Experiment, Faster, Latency, LatencyPart, Part, Path};
use plimsoll_analysis::limits::{Limit, LimitKind};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::Nanos;

/// Whether something limits, or was looked for.
pub fn known(summary: &Summary) -> bool {
    !summary.limits.is_empty() || summary.experiment.is_some()
}

/// Verdict, evidence, parts, forecasts.
pub fn body(summary: &Summary) -> Markup {
    html! {
        @for limit in &summary.limits { (of_limit(limit)) }
        @if let Some(experiment) = &summary.experiment {
            @for open in terminal::limits::open(summary, experiment) { p { (open) } }
            (parts(experiment))
            @if !experiment.paths.is_empty() { (paths(experiment)) }
            @if !experiment.faster.is_empty() { (faster(experiment)) }
            @if let Some(first) = experiment.latencies.first() { (latencies(first.rate, experiment)) }
        }
    }
}

fn of_limit(limit: &Limit) -> Markup {
    let said = limit.in_words(None);
    // A component keeps its name as it is.
    let is_named =
        limit.component.is_some() || !limit.components.is_empty() && limit.kind != LimitKind::Processors;
    html! {
        p { strong { @if is_named { (said) } @else { (capitalised(&said)) } } "." }
        ul { @for said in &limit.evidence { li { (said) } } }
    }
}

fn parts(experiment: &Experiment) -> Markup {
    let columns = [
        Column::Text("Slowed"),
        Column::Number("Elasticity, 95\u{a0}% interval"),
        Column::Text(""),
        Column::Number("Allows by itself"),
        Column::Number("Blocks"),
    ];
    let row = |part: &Part| {
        let allows = match part.capacity {
            Some(own) => per_second(own.mean),
            None => format!("at least {}", per_second(part.at_least)),
        };
        html! {
            tr {
                th scope="row" { (part.name()) }
                (interval_cell(Some(part.elasticity.mean), part.elasticity.ci95, hundredths))
                td { meter min="0" max="1" value=(format!("{:.2}", part.elasticity.mean.clamp(0.0, 1.0))) {} }
                (number_cell(Some(allows)))
                (number_cell(Some(part.blocks.to_string())))
            }
        }
    };
    let rows: Vec<Markup> = experiment.parts.iter().map(row).collect();
    html! {
        p {
            "Untouched, the platform did " (per_second(experiment.capacity.mean)) " with " (experiment.in_flight)
            " operations in flight. The elasticity is the part of an operation's time that a component decides: at 1 the \
             throughput falls and rises with its speed, at 0 it does not depend on it."
        }
        (table(&columns, &rows))
    }
}

fn paths(experiment: &Experiment) -> Markup {
    let columns = [
        Column::Text("Path to"),
        Column::Number("Delayed each way by"),
        Column::Number("Places for round trips, 95\u{a0}% interval"),
        Column::Number("Blocks"),
    ];
    let row = |path: &Path| {
        let delays: Vec<String> =
            path.delays.iter().map(|delay| Nanos::from_secs_f64(*delay).to_string()).collect();
        html! {
            tr {
                th scope="row" { (path.component) }
                (number_cell(Some(delays.join(", "))))
                @match &path.at_once {
                    Some(at_once) => (interval_cell(Some(at_once.mean), at_once.ci95, |value| format!("{value:.1}"))),
                    None => (number_cell(path.at_least.map(|least| format!("no bound up to {least:.0} operations")))),
                }
                (number_cell(Some(path.blocks.to_string())))
            }
        }
    };
    let rows: Vec<Markup> = experiment.paths.iter().map(row).collect();
    table(&columns, &rows)
}

fn faster(experiment: &Experiment) -> Markup {
    let columns = [
        Column::Text("The limiting part"),
        Column::Number("Throughput, 95\u{a0}% interval"),
        Column::Text("Then limits"),
    ];
    let row = |faster: &Faster| {
        html! {
            tr {
                th scope="row" { (faster.in_words()) }
                (interval_cell(Some(faster.capacity.mean), faster.capacity.ci95, per_second))
                td { (faster.then.as_deref().unwrap_or("the same part")) }
            }
        }
    };
    let rows: Vec<Markup> = experiment.faster.iter().map(row).collect();
    table(&columns, &rows)
}

fn latencies(rate: f64, experiment: &Experiment) -> Markup {
    let columns = [
        Column::Text("Latency"),
        Column::Number("Untouched"),
        Column::Text("Slowed"),
        Column::Number("Elasticity, 95\u{a0}% interval"),
    ];
    let row = |(latency, part): (&Latency, &LatencyPart)| {
        html! {
            tr {
                th scope="row" { (latency.objective) }
                (number_cell(Some(Nanos::from_secs_f64(latency.untouched.mean).to_string())))
                td { (part.component) }
                (interval_cell(Some(part.elasticity.mean), part.elasticity.ci95, hundredths))
            }
        }
    };
    let all =
        experiment.latencies.iter().flat_map(|latency| latency.parts.iter().map(move |part| (latency, part)));
    let rows: Vec<Markup> = all.map(row).collect();
    let waiting = experiment.not_in_latencies();
    html! {
        p {
            "Latency at " (per_second(rate)) ": at an elasticity of 1 the time rises as much as the component becomes slower."
            @if !waiting.is_empty() { " Without a figure, since they hardly compute, could not be slowed enough, or had too few messages: " (waiting.join(", ")) "." }
        }
        (table(&columns, &rows))
    }
}
