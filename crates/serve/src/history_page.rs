//! The load line of a scenario over its runs: a chart in a frame, as a report has it, and the runs behind it.

use crate::answer::{self, Answer, HTML};
use crate::archive::Row;
use crate::error_page;
use crate::fields::{Fields, escaped};
use crate::headers;
use crate::page::{Place, chip, moment, page};
use crate::run_page::UNREAD;
use crate::site::Site;
use crate::tokens::Role;
use hyper::StatusCode;
use maud::{Markup, html};
use plimsoll_analysis::history::changes;
use plimsoll_analysis::load_line::LoadLine;
use plimsoll_report::html::history::{Past, page as render};
use plimsoll_report::text::rate;
use plimsoll_store::StoreError;
use std::sync::Arc;

const NO_RUN: &str = "No run has that name.";

/// The runs of a name that have a load line, in the unit of the last one; those that have none, or another unit, are no part of a history.
fn of_one_unit(rows: &[Row]) -> Vec<(&Row, &LoadLine)> {
    let known =
        |row: &'_ Row| row.outcome.line.as_ref().filter(|line| line.amount().is_some()).map(LoadLine::unit);
    let unit = rows.iter().rev().find_map(known);
    let own = rows.iter().filter(|row| unit.is_some() && known(row) == unit);
    own.filter_map(|row| Some((row, row.outcome.line.as_ref()?))).collect()
}

/// Answers with the history of a name.
pub async fn history(site: &Arc<Site>, role: Role, query: &Fields) -> Answer {
    let (own, name) = (Arc::clone(site), query.get("name").to_owned());
    let asked = name.clone();
    match site.permits.work(move || own.archive.history(&asked)).await {
        Ok(Ok(rows)) if rows.is_empty() => error_page::not_found(NO_RUN),
        Ok(Ok(rows)) => page(site, &format!("History of {name}"), Place::Runs, role, &body(&name, &rows)),
        Ok(Err(error)) => error_page::of_store(&error),
        Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, UNREAD, "Try again."),
    }
}

/// Answers with its chart, as a document that reaches nothing else.
pub async fn report(site: &Arc<Site>, query: &Fields) -> Answer {
    let (own, name) = (Arc::clone(site), query.get("name").to_owned());
    let rendered = site.permits.work(move || {
        let rows = own.archive.history(&name)?;
        let past = |(row, line): (&Row, &LoadLine)| Past { started: row.started.clone(), line: line.clone() };
        let runs: Vec<Past> = of_one_unit(&rows).into_iter().map(past).collect();
        Ok::<_, StoreError>(render(&name, &runs))
    });
    match rendered.await {
        Ok(Ok(text)) => headers::sandbox(answer::text(HTML, text)),
        Ok(Err(error)) => error_page::of_store(&error),
        Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, UNREAD, "Try again."),
    }
}

fn body(name: &str, rows: &[Row]) -> Markup {
    let own = of_one_unit(rows);
    let lines: Vec<&LoadLine> = own.iter().map(|(_, line)| *line).collect();
    let changed: Vec<&str> =
        changes(&lines).into_iter().filter_map(|place| Some(own.get(place)?.0.id.as_str())).collect();
    let address = format!("/history/report?name={}", escaped(name));
    html! {
        h1 { "History of " (name) }
        @if own.is_empty() {
            p.empty { "No run of that name has a load line yet." }
        } @else {
            p {
                @match changed.len() {
                    0 => { "The load line has not changed for good." }
                    1 => { "The load line has changed once." }
                    several => { "The load line has changed " (several) " times." }
                }
                " " a href=(address) { "The chart alone" }
            }
            iframe.report.history title={ "History of " (name) } src=(address) sandbox="allow-scripts allow-downloads" {}
        }
        section { (table(rows, &changed)) }
    }
}

fn table(rows: &[Row], changed: &[&str]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Runs" {
            table {
                thead {
                    tr {
                        th scope="col" { "Started" }
                        th scope="col" { "Verdict" }
                        th.num scope="col" { "Load line" }
                        th.num scope="col" { "May lie up to" }
                        th scope="col" { "Change" }
                        th scope="col" { "Run" }
                    }
                }
                tbody {
                    @for row in rows.iter().rev() {
                        @let most = row.outcome.line.as_ref().and_then(LoadLine::most);
                        tr {
                            td.nowrap { (moment(&row.started)) }
                            td { (chip(row.outcome.verdict, row.outcome.word)) }
                            td.num { (row.outcome.load_line.as_deref().unwrap_or("-")) }
                            td.num { (most.map_or("-".to_owned(), rate)) }
                            td { @if changed.contains(&row.id.as_str()) { "changed here" } }
                            th scope="row" { a href={ "/runs/" (row.id) } { code { (row.id) } } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Outcome;
    use plimsoll_store::Annotation;

    fn row(number: u32, rate: Option<f64>) -> Row {
        let line = rate.map(|rate| LoadLine {
            rate: Some(rate),
            devices: None,
            connect_rate: None,
            level: 0,
            at_least: false,
            below: Some(2.0 * rate),
            at_most: None,
            limited_by: None,
            next_level: None,
        });
        Row {
            id: format!("run{number}"),
            name: "a".into(),
            started: format!("2026-11-{number:02}T10:00:00Z"),
            levels: 1,
            outcome: Outcome {
                verdict: "met",
                word: "met",
                load_line: rate.map(|rate| format!("{rate} msg/s")),
                line,
            },
            annotation: Annotation::default(),
        }
    }

    #[test]
    fn a_history_names_the_run_at_which_the_load_line_changed() {
        let mut rows: Vec<Row> = (1..=8).map(|number| row(number, Some(1000.0))).collect();
        rows.push(row(9, None));
        let quiet = body("<b>", &rows).into_string();
        assert!(quiet.contains("has not changed") && quiet.contains("History of &lt;b&gt;"), "{quiet}");
        assert!(quiet.contains("src=\"/history/report?name=%3Cb%3E\"") && quiet.contains("2,000"), "{quiet}");
        rows.extend((10..=17).map(|number| row(number, Some(500.0))));
        let changed = body("a", &rows).into_string();
        assert!(changed.contains("has changed once"), "{changed}");
        let here = changed.find("changed here").unwrap();
        assert!(
            changed[here..].starts_with("changed here</td><th scope=\"row\"><a href=\"/runs/run10\""),
            "{changed}"
        );
        let none = body("a", &[row(1, None)]).into_string();
        assert!(none.contains("has a load line yet") && !none.contains("iframe"), "{none}");
    }
}
