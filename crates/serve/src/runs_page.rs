//! The list of runs: what was run, and what it came to.

use crate::annotation_page::tags;
use crate::answer::Answer;
use crate::archive::{Listed, PER_PAGE, Row, Wanted};
use crate::error_page;
use crate::fields::{Fields, escaped};
use crate::page::{Place, chip, moment, page};
use crate::site::Site;
use crate::tokens::Role;
use hyper::StatusCode;
use maud::{Markup, html};
use plimsoll_model::Verdict;
use std::sync::Arc;

/// Answers with the list.
pub async fn list(site: &Arc<Site>, role: Role, query: &Fields) -> Answer {
    let wanted = Wanted::of(query);
    let (own, asked) = (Arc::clone(site), wanted.clone());
    let read = site.permits.work(move || own.archive.list(&asked)).await;
    match read {
        Ok(Ok(listed)) => page(site, "Runs", Place::Runs, role, &body(&wanted, &listed)),
        Ok(Err(error)) => error_page::of_store(&error),
        Err(_) => {
            error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The runs could not be read.", "Try again.")
        }
    }
}

fn body(wanted: &Wanted, listed: &Listed) -> Markup {
    html! {
        h1 { "Runs" }
        (search(wanted))
        @if listed.rows.is_empty() {
            p.empty {
                @if *wanted == Wanted::default() {
                    "No runs yet. " a href="/scenarios" { "Choose a scenario" } " and start it."
                } @else {
                    "No run is like that. " a href="/" { "Show all" } "."
                }
            }
        } @else {
            form action="/compare" method="get" {
                section { (table(&listed.rows)) }
                p { button { "Compare the chosen runs" } }
            }
            (pages(wanted, listed.all))
        }
        @if listed.deleted > 0 { p.note { a href="/deleted" { "Deleted runs: " (listed.deleted) } } }
    }
}

fn search(wanted: &Wanted) -> Markup {
    html! {
        form.search role="search" action="/" method="get" {
            label { "Name, id or tag" input type="search" name="text" value=(wanted.text); }
            label {
                "Verdict"
                select name="verdict" {
                    option value="" { "any" }
                    @for verdict in Verdict::ALL.map(Verdict::name) {
                        option value=(verdict) selected[verdict == wanted.verdict] { (verdict) }
                    }
                }
            }
            label { "From" input type="date" name="from" value=(wanted.from); }
            label { "To" input type="date" name="to" value=(wanted.to); }
            button { "Search" }
        }
    }
}

fn table(rows: &[Row]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Runs" {
            table {
                thead {
                    tr {
                        th scope="col" { "Compare" }
                        th scope="col" { "Verdict" }
                        th scope="col" { "Load line" }
                        th scope="col" { "Scenario" }
                        th scope="col" { "Started" }
                        th.num scope="col" { "Levels" }
                        th scope="col" { "Run" }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            td { input type="checkbox" name="run" value=(row.id) aria-label={ "Compare run " (row.id) }; }
                            td { (chip(row.outcome.verdict, row.outcome.word)) }
                            td.nowrap { (row.outcome.load_line.as_deref().unwrap_or("-")) }
                            th.free scope="row" {
                                a href={ "/runs/" (row.id) } { (row.name) } " " (tags(&row.annotation.tags))
                                @if !row.annotation.note.is_empty() { span.note title=(row.annotation.note) { "with a note" } }
                            }
                            td.nowrap { (moment(&row.started)) }
                            td.num { (row.levels) }
                            td { code { (row.id) } }
                        }
                    }
                }
            }
        }
    }
}

/// The way to further runs, where there are more than the list shows.
fn pages(wanted: &Wanted, all: usize) -> Markup {
    let last = all.saturating_sub(1) / PER_PAGE;
    let at = |page: usize| {
        let Wanted { text, verdict, from, to, .. } = wanted;
        let values = [("text", text), ("verdict", verdict), ("from", from), ("to", to)];
        let query: String =
            values.iter().map(|(name, value)| format!("{name}={}&", escaped(value))).collect();
        format!("/?{query}page={page}")
    };
    html! {
        @if last > 0 {
            nav.pages aria-label="Further runs" {
                @if wanted.page > 0 { a rel="prev" href=(at(wanted.page - 1)) { "Newer" } }
                span { "Page " (wanted.page + 1) " of " (last + 1) ", " (all) " runs" }
                @if wanted.page < last { a rel="next" href=(at(wanted.page + 1)) { "Older" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_further_runs_keeps_what_was_asked_for() {
        let wanted = Wanted { text: "a&b c".into(), page: 1, ..Wanted::default() };
        let shown = pages(&wanted, 3 * PER_PAGE).into_string();
        assert!(shown.contains("/?text=a%26b+c&amp;verdict=&amp;from=&amp;to=&amp;page=2"), "{shown}");
        assert!(shown.contains("page=0") && shown.contains("Page 2 of 3"), "{shown}");
        assert_eq!(pages(&Wanted::default(), PER_PAGE).into_string(), "");
    }
}
