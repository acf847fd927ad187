//! What can be chosen: the scenarios of the folder, the examples, and the platform profiles.

use crate::answer::Answer;
use crate::error_page;
use crate::examples::{Example, examples};
use crate::folder::ScenarioFile;
use crate::jobs::Kind;
use crate::page::{Place, page};
use crate::queue::{MOST_COMPARED, MOST_TURNS, USUAL_TURNS};
use crate::site::Site;
use crate::tokens::Role;
use hyper::StatusCode;
use maud::{Markup, html};
use plimsoll_scenario::profile::Profile;
use plimsoll_scenario::{profile as embedded, profiles as all_profiles};
use std::sync::Arc;

/// Answers with the scenarios of the folder and the examples.
pub async fn scenarios(site: &Arc<Site>, role: Role) -> Answer {
    let own = Arc::clone(site);
    match site.permits.work(move || own.folder.scenarios()).await {
        Ok(Ok(files)) => {
            let examples: Vec<Example> = examples().collect();
            let place = site.folder.root().display().to_string();
            page(site, "Scenarios", Place::Scenarios, role, &of_scenarios(&place, &files, &examples, role))
        }
        Ok(Err(error)) => error_page::of(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The folder cannot be read.",
            &error.to_string(),
        ),
        Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The folder was not read.", "Try again."),
    }
}

fn of_scenarios(place: &str, files: &[ScenarioFile], examples: &[Example], role: Role) -> Markup {
    let is_operator = role == Role::Operator;
    html! {
        h1 { "Scenarios" }
        section {
            h2 { "In " code { (place) } }
            @if files.is_empty() { p.empty { "No scenario yet. Begin with one of the examples below." } }
            @if is_operator && files.len() > 1 {
                form action="/jobs" method="post" { (list(files, role)) (comparison()) }
            } @else {
                (list(files, role))
            }
            @if is_operator { p { a href="/scenarios/new" { "Write a new scenario" } } }
        }
        section {
            h2 { "Examples" }
            dl.choices {
                @for example in examples {
                    div {
                        dt {
                            @if is_operator { a href={ "/scenarios/new?example=" (example.name) } { (example.name) } }
                            @else { (example.name) }
                        }
                        dd { (example.about()) }
                    }
                }
            }
        }
    }
}

/// The scenarios of the folder. Who may start a comparison chooses its scenarios among them.
fn list(files: &[ScenarioFile], role: Role) -> Markup {
    let is_operator = role == Role::Operator;
    html! {
        dl.choices {
            @for file in files {
                div {
                    dt {
                        @if is_operator {
                            @if files.len() > 1 {
                                input type="checkbox" name="scenario" value=(file.name) aria-label={ "Compare " (file.name) };
                                " "
                            }
                            a href={ "/scenarios/edit/" (file.name) } { (file.name) }
                        } @else { (file.name) }
                    }
                    dd { (file.about) }
                }
            }
        }
    }
}

/// The button that compares the scenarios that are chosen.
fn comparison() -> Markup {
    html! {
        p.start {
            input type="hidden" name="kind" value=(Kind::Comparison.word());
            button { "Compare the chosen scenarios" }
            label { "Each is run" input name="turns" type="number" min="1" max=(MOST_TURNS) value=(USUAL_TURNS); "times" }
            label { input type="checkbox" name="quick" value="true"; "in its quick form" }
            span.note { "From 2 to " (MOST_COMPARED) " scenarios, in turns." }
        }
    }
}

/// Answers with the platform profiles.
pub async fn profiles(site: &Arc<Site>, role: Role) -> Answer {
    match site.permits.work(all_profiles).await {
        Ok(profiles) => page(site, "Platforms", Place::Profiles, role, &of_profiles(&profiles)),
        Err(_) => {
            error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The profiles were not read.", "Try again.")
        }
    }
}

fn of_profiles(profiles: &[Profile]) -> Markup {
    html! {
        h1 { "Platforms" }
        p {
            "A scenario names one of these profiles, or a file of the folder that has one. \
             A profile says which programs are started, and how they are spoken to."
        }
        section {
            dl.choices {
                @for profile in profiles {
                    div { dt { a href={ "/profiles/" (profile.name) } { (profile.name) } } dd { (profile.title) } }
                }
            }
        }
    }
}

/// Answers with a profile in full.
pub fn profile(site: &Site, role: Role, name: &str) -> Answer {
    match embedded(name) {
        Some(profile) => page(site, &profile.name, Place::Profiles, role, &of_profile(&profile)),
        None => error_page::not_found("There is no such platform profile."),
    }
}

fn of_profile(profile: &Profile) -> Markup {
    let tables =
        [("Qualities", &profile.qualities), ("Limits", &profile.limits), ("Variables", &profile.variables)];
    html! {
        h1 { (profile.name) }
        p.because { (profile.title) }
        @for paragraph in profile.description.split("\n\n") { p { (paragraph) } }
        @for (title, values) in tables {
            @if !values.is_empty() {
                section {
                    h2 { (title) }
                    dl.choices { @for (name, value) in values { div { dt { (name) } dd { (value) } } } }
                }
            }
        }
        section { h2 { "The file" } pre tabindex="0" { (profile.source) } }
    }
}
