//! Pages that say what went wrong and what to do. They need no style sheet, since they also come to those who may not have one.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, html};
use plimsoll_report::plain;
use plimsoll_store::StoreError;

/// A page of that status: what is wrong, and what to do.
pub fn of(status: StatusCode, what: &str, remedy: &str) -> Response {
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
    (status, Html(plain::page(page.into_string()))).into_response()
}

/// There is nothing of that name.
pub fn not_found(what: &str) -> Response {
    of(StatusCode::NOT_FOUND, what, "Go back, and look at the list.")
}

/// The run store cannot be read, or has no such run.
pub fn of_store(error: &StoreError) -> Response {
    let status = match error {
        StoreError::NoRun { .. } | StoreError::NoRuns { .. } => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    of(status, "The run store cannot be read.", &error.to_string())
}
