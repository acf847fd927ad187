//! One HTML file that opens offline: verdict first, then the evidence.

pub mod compare;
mod components;
mod connections;
#[cfg(test)]
mod contrast;
mod curve;
mod environment;
mod faults;
mod gauges;
mod generator;
pub mod history;
mod hysteresis;
mod latency;
mod laws;
mod ledger;
mod level;
mod limits;
mod lives;
mod load_line;
mod management;
mod outages;
mod parts;
mod percentiles;
mod pieces;
mod populations;
mod scalability;
mod services;
mod sides;
mod sizes;
pub mod sweep;
#[cfg(test)]
pub(crate) mod synthetic;
mod table;
mod tiles;
mod time_axis;
mod time_of_day;
mod timeline;
mod times;
mod verdict;
mod wire;

use crate::series::Occurrence;
use crate::{chart, cost, plain, text};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::record::RunRecord;

/// The style sheet of all pages.
pub const STYLE: &str = include_str!("../assets/report.css");

/// Forbids the page to load anything, so that the file shows the same offline, and so that no text of a scenario or
/// of a platform can make it fetch something.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data: blob:; font-src data:";

/// A part of the report.
struct Section {
    /// Anchor.
    id: String,
    /// Heading.
    title: String,
    /// What stands under the heading.
    body: Markup,
}

/// The report of a run as one self-contained HTML file. What a run lacks (levels, acknowledgements, subscribers,
/// components) is left out or said to be absent.
pub fn render(record: &RunRecord, summary: &Summary) -> String {
    render_in_series(record, summary, &[])
}

/// The same for a run of a schedule, with all its runs so far by the time of day.
pub fn render_in_series(record: &RunRecord, summary: &Summary, series: &[Occurrence]) -> String {
    plain::page(page(record, summary, series, html! { (verdict::header(record, summary)) }).into_string())
}

/// The same without its head, which [`verdict_header`] gives alone: for a page that shows both.
pub fn render_below_header(record: &RunRecord, summary: &Summary, series: &[Occurrence]) -> String {
    plain::page(page(record, summary, series, html! {}).into_string())
}

/// The head of a report alone: the verdict, and what it rests on. It needs no style but that of [`STYLE`].
pub fn verdict_header(record: &RunRecord, summary: &Summary) -> Markup {
    verdict::header(record, summary)
}

/// The head of a page that needs nothing but itself.
pub(crate) fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) }
            style { (PreEscaped(STYLE)) }
        }
    }
}

fn page(record: &RunRecord, summary: &Summary, series: &[Occurrence], header: Markup) -> Markup {
    let mut sections = sections(record, summary);
    if !series.is_empty() {
        let body = time_of_day::body(series);
        sections.insert(1, Section { id: "time-of-day".into(), title: "Time of day".into(), body });
    }
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("{} \u{b7} {} \u{b7} Plimsoll", record.name, summary.verdict_word())))
            body {
                (header)
                (columns(&sections))
                footer { "Plimsoll " (record.provenance.plimsoll) " \u{b7} run " (record.id) }
                (chart::script())
            }
        }
    }
}

/// The sections beside a list of them.
fn columns(sections: &[Section]) -> Markup {
    html! {
        div.columns {
            nav.contents aria-label="Contents" {
                @for section in sections {
                    a href={ "#" (section.id) } { (section.title) }
                }
            }
            main {
                @for section in sections {
                    section id=(section.id) {
                        h2 { (section.title) }
                        (section.body)
                    }
                }
            }
        }
    }
}

/// The sections in their order. A run without levels has none of those that compare levels.
fn sections(record: &RunRecord, summary: &Summary) -> Vec<Section> {
    let section = |id: &str, title: &str, body| Section { id: id.into(), title: title.into(), body };
    let mut sections = vec![section("objectives", "Objectives", verdict::objectives(record, summary))];
    if limits::known(summary) {
        sections.push(section("limits", "What limits the load", limits::body(summary)));
    }
    if !summary.levels.is_empty() {
        sections.push(section("time", "Over time", over_time(record, summary)));
        if curve::followed(summary) {
            sections.push(section("curve", "Along the curve", curve::body(summary)));
        } else {
            sections.push(section("load-line", "Load line", load_line::body(summary)));
        }
        if let Some(found) = &summary.hysteresis {
            sections.push(section("way-down", "Way down", hysteresis::body(found)));
        }
        sections.push(section("times", "Times of each level", times::body(record, summary)));
        sections.push(section("percentiles", "Percentiles", percentiles::body(record, summary)));
        if populations::are_several(summary) {
            sections.push(section("populations", "Populations", populations::body(summary)));
        }
        if level::connects(summary) {
            sections.push(section("connections", "Connections", connections::body(summary)));
        }
        if faults::planned(summary) {
            sections.push(section("faults", "Planned faults", faults::body(summary)));
        }
        if outages::happened(summary) {
            sections.push(section("outages", "Outages", outages::body(summary)));
        }
        if wire::told(summary) {
            sections.push(section("wire", "Below the protocol", wire::body(summary)));
        }
        if management::told(summary) {
            sections.push(section("management", "Device management", management::body(summary)));
        }
        if lives::told(summary) {
            sections.push(section("lives", "Lives of events", lives::body(summary)));
        }
        sections.extend([
            section("sizes", "Differences, goodput and sizes", sizes::body(summary)),
            section("ledger", "Ledger", ledger::body(summary)),
            section("generator", "Generator health", generator::body(record, summary)),
        ]);
    }
    if let Some(dissection) = &summary.dissection {
        sections.push(section("ways", "Paths of messages", services::traces(dissection)));
        sections.push(section("services", "Who calls whom", services::calls(dissection)));
    }
    sections.push(section("components", "Platform components", components::body(record, summary)));
    if laws::known(summary) {
        sections.push(section("laws", "Demand and utilisation", laws::body(summary)));
    }
    if summary.cost.is_some() || summary.energy.is_some() {
        sections.push(section("cost", "Cost and energy", cost_and_energy(summary)));
    }
    if let Some(law) = &summary.scalability {
        sections.push(section("scalability", "Scalability", scalability::body(law)));
    }
    if gauges::seen(summary) {
        sections.push(section("gauges", "Other observers", gauges::body(summary)));
    }
    sections.push(section("environment", "Environment", environment::body(record)));
    sections.push(section("scenario", "Scenario", html! { pre tabindex="0" { (record.scenario) } }));
    sections
}

fn cost_and_energy(summary: &Summary) -> Markup {
    let said =
        [summary.cost.as_ref().map(cost::in_words), summary.energy.as_ref().map(cost::energy_in_words)];
    html! {
        @for said in said.iter().flatten() { p { (text::capitalised(said)) } }
    }
}

/// Latency, throughput and errors over the run.
fn over_time(record: &RunRecord, summary: &Summary) -> Markup {
    html! {
        (latency::charts(record, summary))
        (timeline::body(record, summary))
    }
}

#[cfg(test)]
mod tests;
