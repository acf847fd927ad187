//! The style sheets and the script, embedded in the program.

use crate::answer::{self, Answer};
use crate::error_page;
use hyper::header::CACHE_CONTROL;
use plimsoll_report::html;

const PAGE_STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
/// They change with the program alone.
const CACHED: &str = "private, max-age=300";

/// One of them by its name.
pub fn asset(name: &str) -> Answer {
    let (kind, text) = match name {
        "report.css" => (CSS, html::STYLE),
        "page.css" => (CSS, PAGE_STYLE),
        "page.js" => (JAVASCRIPT, SCRIPT),
        _ => return error_page::not_found("There is no such file."),
    };
    answer::with(answer::text(kind, text), CACHE_CONTROL, CACHED)
}
