//! What all pages have in common: head, way around, and how a page becomes an answer.

use crate::answer::{self, Answer, HTML};
use crate::queue::notice;
use crate::site::Site;
use crate::tokens::Role;
use maud::{DOCTYPE, Markup, html};
use plimsoll_report::plain;

/// Where in the page somebody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Runs.
    Runs,
    /// What goes on and what waits.
    Queue,
    /// Scenarios.
    Scenarios,
    /// Platform profiles.
    Profiles,
}

/// The places by their names and addresses.
const PLACES: [(Place, &str, &str); 4] = [
    (Place::Runs, "Runs", "/"),
    (Place::Queue, "Queue", "/jobs"),
    (Place::Scenarios, "Scenarios", "/scenarios"),
    (Place::Profiles, "Platforms", "/profiles"),
];

/// A page of that title. It shows what goes on and what waits, unless it is about that.
pub fn page(site: &Site, title: &str, place: Place, role: Role, body: &Markup) -> Answer {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " \u{b7} Plimsoll" }
                link rel="stylesheet" href="/assets/report.css";
                link rel="stylesheet" href="/assets/page.css";
                script src="/assets/page.js" defer {}
            }
            body.page {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    strong { "Plimsoll" }
                    nav aria-label="Pages" {
                        @for (own, name, address) in PLACES {
                            a href=(address) aria-current=[(own == place).then_some("page")] { (name) }
                        }
                    }
                    @if role == Role::Viewer { span.role { "You can look, and change nothing." } }
                }
                @if place != Place::Queue { (notice(&site.jobs.at_work())) }
                main id="main" { (body) }
            }
        }
    };
    answer::text(HTML, plain::page(page.into_string()))
}

/// A word in the colour of a verdict.
pub fn chip(verdict: &str, word: &str) -> Markup {
    html! { span class={ "chip " (verdict) } { (word) } }
}

/// A time of RFC 3339 for people: day, hour and minute in UTC.
pub fn moment(started: &str) -> Markup {
    let shown = started.get(..16).unwrap_or(started).replace('T', " ");
    html! { time datetime=(started) { (shown) " UTC" } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_short() {
        let shown = moment("2026-11-30T11:05:09.5Z").into_string();
        assert_eq!(shown, "<time datetime=\"2026-11-30T11:05:09.5Z\">2026-11-30 11:05 UTC</time>");
        assert!(moment("x").into_string().contains(">x UTC<"));
    }
}
