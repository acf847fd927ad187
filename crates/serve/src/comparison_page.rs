//! Runs side by side, as `plimsoll compare` compares them.

use crate::answer::{self, Answer, HTML};
use crate::error_page;
use crate::fields::Fields;
use crate::headers;
use crate::page::{Place, page};
use crate::queue::sentence;
use crate::run_page::UNREAD;
use crate::site::Site;
use crate::tokens::Role;
use hyper::StatusCode;
use maud::html;
use plimsoll_model::RunId;
use plimsoll_report::html::compare as render;
use std::sync::Arc;

/// Most runs that are compared at once.
const MOST: usize = 20;
/// What a query must name.
pub const WANTED: &str = "from 2 to 20 runs are compared";

/// The runs that a query names, each as `run=ID`; `None` where it names none, too many, or something else.
pub fn runs_of(query: &Fields) -> Option<Vec<RunId>> {
    let runs: Vec<RunId> = query.all("run").map(RunId::parse).collect::<Option<_>>()?;
    (2..=MOST).contains(&runs.len()).then_some(runs)
}

fn refused() -> Answer {
    let told = sentence(WANTED);
    error_page::of(StatusCode::BAD_REQUEST, &told, "Go back, and choose them in the list.")
}

/// Answers with the comparison.
pub fn compare(site: &Site, role: Role, query: &Fields) -> Answer {
    let Some(runs) = runs_of(query) else { return refused() };
    let names: Vec<String> = runs.iter().map(ToString::to_string).collect();
    let address = format!("/compare/report?run={}", names.join("&run="));
    let body = html! {
        h1 { "Comparison of " (names.len()) " runs" }
        p {
            "The others are compared with the first: "
            @for (place, name) in names.iter().enumerate() {
                @if place > 0 { ", " }
                a href={ "/runs/" (name) } { code { (name) } }
            }
            ". " a href=(address) { "The comparison alone" }
        }
        iframe.report title="Comparison" src=(address) sandbox="allow-scripts allow-downloads" {}
    };
    page(site, "Comparison", Place::Runs, role, &body)
}

/// Answers with the page that `plimsoll compare --html` writes, as a document that reaches nothing else.
pub async fn report(site: &Arc<Site>, query: &Fields) -> Answer {
    let Some(runs) = runs_of(query) else { return refused() };
    let own = Arc::clone(site);
    let rendered = site.permits.work(move || own.archive.comparison(runs).map(|found| render::page(&found)));
    match rendered.await {
        Ok(Ok(text)) => headers::sandbox(answer::text(HTML, text)),
        Ok(Err(error)) => error_page::of_store(&error),
        Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, UNREAD, "Try again."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_two_runs_on_there_is_something_to_compare() {
        let query = |ids: &[&str]| {
            let written: Vec<String> = ids.iter().map(|id| format!("run={id}")).collect();
            Fields::read(written.join("&").as_bytes())
        };
        assert_eq!(runs_of(&query(&["3vk1a81x", "3vk1a81y"])).unwrap().len(), 2);
        assert!(WANTED.contains(&MOST.to_string()));
        for wrong in [&[][..], &["3vk1a81x"], &["3vk1a81x", "last"], &["3vk1a81x"; MOST + 1]] {
            assert_eq!(runs_of(&query(wrong)), None, "{wrong:?}");
        }
    }
}
