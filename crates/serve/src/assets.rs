//! The style sheets and the script, embedded in the program.

use crate::error_page;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use plimsoll_report::html;

const PAGE_STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
/// They change with the program alone.
const CACHED: &str = "private, max-age=300";

/// One of them by its name.
pub async fn asset(Path(name): Path<String>) -> Response {
    let (kind, text) = match name.as_str() {
        "report.css" => (CSS, html::STYLE),
        "page.css" => (CSS, PAGE_STYLE),
        "page.js" => (JAVASCRIPT, SCRIPT),
        _ => return error_page::not_found("There is no such file."),
    };
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, CACHED)], text).into_response()
}
