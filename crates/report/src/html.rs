//! One HTML file that opens offline: verdict first, then the evidence.

mod components;
mod connections;
mod environment;
mod figure;
mod gauges;
mod generator;
mod ledger;
mod level;
mod lives;
mod load_line;
mod outages;
mod parts;
mod percentiles;
mod populations;
mod services;
mod sizes;
pub mod sweep;
#[cfg(test)]
pub(crate) mod synthetic;
mod table;
mod time_axis;
mod time_of_day;
mod timeline;
mod times;
mod verdict;
mod wire;

use crate::series::Occurrence;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use plimsoll_analysis::summary::Summary;
use plimsoll_model::record::RunRecord;
use plotly::Plot;

const STYLE: &str = include_str!("../assets/report.css");

/// Forbids the page to load anything, so that the file shows the same offline, and so that no text of a scenario or
/// of a platform can make it fetch something.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data: blob:; font-src data:";

/// Paper is narrower than most screens, and the browser lays it out only after the charts are drawn.
const PRINTING: &str = "\
    const charts = () => document.querySelectorAll('.plot'); \
    addEventListener('beforeprint', () => charts().forEach(c => Plotly.relayout(c, {width: 660}))); \
    addEventListener('afterprint', () => charts().forEach(c => Plotly.relayout(c, {width: null, autosize: true})));";

/// A part of the report.
struct Section {
    /// Anchor.
    id: &'static str,
    /// Heading.
    title: &'static str,
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
    page(record, summary, series, &plotly_script()).into_string()
}

/// Plotly's own script element. The crate gives MathJax after it, which would take `$` and `\(` in a user's text for
/// formulas.
fn plotly_script() -> String {
    const END: &str = "</script>";
    let mut scripts = Plot::offline_js_sources();
    if let Some(end) = scripts.find(END) {
        scripts.truncate(end + END.len());
    }
    scripts
}

/// The head of a page that needs nothing but itself; `scripts` are whole elements.
pub(crate) fn head(title: &str, scripts: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) }
            style { (PreEscaped(STYLE)) }
            (PreEscaped(scripts))
        }
    }
}

fn page(record: &RunRecord, summary: &Summary, series: &[Occurrence], plotly: &str) -> Markup {
    let mut sections = sections(record, summary);
    if !series.is_empty() {
        let body = time_of_day::body(series);
        sections.insert(1, Section { id: "time-of-day", title: "Time of day", body });
    }
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("{} \u{b7} {} \u{b7} Plimsoll", record.name, summary.verdict.name()), plotly))
            body {
                (verdict::header(record, summary))
                div.columns {
                    nav.contents aria-label="Contents" {
                        @for section in &sections {
                            a href={ "#" (section.id) } { (section.title) }
                        }
                    }
                    main {
                        @for section in &sections {
                            section id=(section.id) {
                                h2 { (section.title) }
                                (section.body)
                            }
                        }
                    }
                }
                script { (PreEscaped(PRINTING)) }
                footer { "Plimsoll " (record.provenance.plimsoll) " \u{b7} run " (record.id) }
            }
        }
    }
}

/// The sections in their order. A run without levels has none of those that compare levels.
fn sections(record: &RunRecord, summary: &Summary) -> Vec<Section> {
    let section = |id, title, body| Section { id, title, body };
    let mut sections = vec![section("objectives", "Objectives", verdict::objectives(record, summary))];
    if !summary.levels.is_empty() {
        sections.push(section("load-line", "Load line", load_line::body(summary)));
        if populations::are_several(summary) {
            sections.push(section("populations", "Populations", populations::body(summary)));
        }
        if level::connects(summary) {
            sections.push(section("connections", "Connections", connections::body(summary)));
        }
        if outages::happened(summary) {
            sections.push(section("outages", "Outages", outages::body(summary)));
        }
        if wire::told(summary) {
            sections.push(section("wire", "Below the protocol", wire::body(summary)));
        }
        sections.extend([
            section("times", "Publish and subscribe time", times::body(record, summary)),
            section("percentiles", "Percentiles", percentiles::body(record, summary)),
        ]);
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
        sections.push(section("ways", "Ways of messages", services::traces(dissection)));
        sections.push(section("services", "Who calls whom", services::calls(dissection)));
    }
    sections.push(section("components", "Platform components", components::body(record, summary)));
    if gauges::seen(summary) {
        sections.push(section("gauges", "Other observers", gauges::body(summary)));
    }
    if !summary.levels.is_empty() {
        sections.push(section("timeline", "Completed over time", timeline::body(record, summary)));
    }
    sections.push(section("environment", "Environment", environment::body(record)));
    sections.push(section("scenario", "Scenario", html! { pre tabindex="0" { (record.scenario) } }));
    sections
}

#[cfg(test)]
mod tests;
