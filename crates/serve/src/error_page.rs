//! Pages that say what went wrong and what to do. They need no style sheet, since they also come to those who may not have one.

use crate::answer::{self, Answer, HTML};
use hyper::StatusCode;
use maud::{DOCTYPE, html};
use plimsoll_report::plain;
use plimsoll_store::StoreError;

/// A page of that status: what is wrong, and what to do.
pub fn of(status: StatusCode, what: &str, remedy: &str) -> Answer {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (what) " \u{b7} Plimsoll" }
            }
            body {
                main {
                    h1 { (what) }
                    p { (remedy) }
                }
            }
        }
    };
    let mut answer = answer::text(HTML, plain::page(page.into_string()));
    *answer.status_mut() = status;
    answer
}

/// There is nothing of that name.
pub fn not_found(what: &str) -> Answer {
    of(StatusCode::NOT_FOUND, what, "Go back, and look at the list.")
}

/// The run store cannot be read, or has no such run.
pub fn of_store(error: &StoreError) -> Answer {
    of(status_of(error), "The run store cannot be read.", &error.to_string())
}

/// The status of an answer where the run store did not do what was asked.
pub fn status_of(error: &StoreError) -> StatusCode {
    match error {
        StoreError::NoRun { .. } | StoreError::NoRuns { .. } => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
