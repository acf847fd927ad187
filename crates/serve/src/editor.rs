//! Writing a scenario: its text with line numbers, and beside it what a check says, while it is typed. Without a script, the button
//! `Check and save` does the same.

use crate::answer::{self, Answer};
use crate::checking::{Checked, Look, check};
use crate::error_page;
use crate::examples::example;
use crate::fields::Fields;
use crate::folder::FileName;
use crate::form;
use crate::page::{Place, page};
use crate::profile_choices::ProfileChoices;
use crate::queue::{MOST_TURNS, Refused, sentence};
use crate::site::Site;
use crate::tokens::Role;
use hyper::StatusCode;
use maud::{Markup, html};
use plimsoll_model::text::is_harmful;
use plimsoll_runner::resume::fingerprint;
use std::sync::Arc;

/// A scenario to begin with, where no example is named.
const BEGIN: &str = "name: mine\nplatform: embedded\npopulation: { devices: 100, subscribers: 1 }\nload:\n  levels: { from: 100, to: 500, step: 100 }\n  hold: 10s\n";

/// What the editor shows.
pub struct Draft {
    /// The name of its file.
    pub name: String,
    /// The scenario.
    pub text: String,
    /// The fingerprint of what its file holds; `None` without a file.
    pub before: Option<String>,
    /// What was not done, and why.
    pub problem: Option<String>,
}

const OPERATORS: &str = "Scenarios are shown to operators alone: they may hold passwords.";

fn only_operators() -> Answer {
    error_page::of(
        StatusCode::FORBIDDEN,
        OPERATORS,
        "Use the address for operators that `plimsoll serve` printed.",
    )
}

/// A page replaces characters that could turn its text around, and what is saved must be what was there.
fn unshowable() -> Answer {
    error_page::of(
        StatusCode::UNPROCESSABLE_ENTITY,
        "The scenario has characters that a page cannot show.",
        "Control characters, or marks of the direction of writing: remove them with an editor of your own.",
    )
}

/// Answers with a new scenario, empty or from an example.
pub async fn new(site: &Arc<Site>, role: Role, example_name: &str) -> Answer {
    if role < Role::Operator {
        return only_operators();
    }
    let (name, text) = match (example_name, example(example_name)) {
        ("", _) => ("mine.yaml".to_owned(), BEGIN.to_owned()),
        (_, Some(example)) => (format!("{}.yaml", example.name), example.text.to_owned()),
        (_, None) => return error_page::not_found("There is no such example."),
    };
    shown(site, role, StatusCode::OK, Draft { name, text, before: None, problem: None }).await
}

/// Answers with a scenario of the folder.
pub async fn edit(site: &Arc<Site>, role: Role, file: &str) -> Answer {
    if role < Role::Operator {
        return only_operators();
    }
    let Some(name) = FileName::parse(file) else {
        return error_page::not_found("There is no such scenario.");
    };
    let (own, asked) = (Arc::clone(site), name.clone());
    match site.permits.work(move || own.folder.read(&asked)).await {
        Ok(Ok(text)) => {
            let before = Some(fingerprint(&text));
            let text = text.replace("\r\n", "\n");
            if text.contains(|one: char| is_harmful(one) && !matches!(one, '\n' | '\t')) {
                return unshowable();
            }
            shown(site, role, StatusCode::OK, Draft { name: name.to_string(), text, before, problem: None })
                .await
        }
        Ok(Err(error)) => {
            error_page::of(StatusCode::NOT_FOUND, "The scenario cannot be read.", &error.to_string())
        }
        Err(_) => {
            error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The scenario was not read.", "Try again.")
        }
    }
}

/// Saves a scenario from the editor. What is wrong stays there.
pub async fn save(site: &Arc<Site>, role: Role, written: &Fields) -> Answer {
    match saved(site, written.get("name"), written).await {
        Ok(name) => answer::redirect(&format!("/scenarios/edit/{name}")),
        Err(Refused { status: StatusCode::INTERNAL_SERVER_ERROR, why }) => {
            error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The scenario was not saved.", &sentence(&why))
        }
        Err(Refused { status, why }) => {
            let (name, text, before) = (written.get("name").to_owned(), text_of(written), before_of(written));
            shown(site, role, status, Draft { name, text, before, problem: Some(not_saved(&why)) }).await
        }
    }
}

/// Saves a scenario that is right, and no other: the folder has scenarios alone, and no programs for a profile.
pub async fn saved(site: &Arc<Site>, name: &str, written: &Fields) -> Result<FileName, Refused> {
    let refused = |status, why: &str| Refused { status, why: why.to_owned() };
    let name = FileName::parse(name).ok_or_else(|| {
        let why = "a name has letters, digits, dots, hyphens and underscores, and ends in .yaml";
        refused(StatusCode::BAD_REQUEST, why)
    })?;
    let own = Arc::clone(site);
    let (file, text, before) = (name.clone(), text_of(written), before_of(written));
    let saved = site.permits.work(move || match check(&own, (file.as_str(), &text), false, Look::Text) {
        Checked::Wrong(_) => Some("a scenario is saved when it has no errors".to_owned()),
        Checked::Right(prospect) => match &prospect.refusal {
            Some(refusal) => Some(refusal.clone()),
            None => own.folder.save(&file, &text, before.as_deref()).err().map(|error| error.to_string()),
        },
    });
    match saved.await {
        Ok(None) => Ok(name),
        Ok(Some(why)) => Err(refused(StatusCode::UNPROCESSABLE_ENTITY, &why)),
        Err(_) => Err(refused(StatusCode::INTERNAL_SERVER_ERROR, "try again")),
    }
}

/// The text of a form: a browser writes the ends of lines as HTTP has them.
fn text_of(written: &Fields) -> String {
    written.get("text").replace("\r\n", "\n")
}

/// The fingerprint of what the file held when it was shown; `None` for a new file.
fn before_of(written: &Fields) -> Option<String> {
    Some(written.get("before").to_owned()).filter(|before| !before.is_empty())
}

fn not_saved(why: &str) -> String {
    format!("Not saved: {why}.")
}

/// The editor, with what a check says of the text, and the fields of its settings.
pub async fn shown(site: &Arc<Site>, role: Role, status: StatusCode, draft: Draft) -> Answer {
    let own = Arc::clone(site);
    let title = draft.name.clone();
    let body = site.permits.work(move || {
        let checked = check(&own, (&draft.name, &draft.text), false, Look::Host);
        let fields = form::shown(&draft.text, &ProfileChoices::of(&own.folder));
        body(&draft, &checked, &fields)
    });
    match body.await {
        Ok(body) => {
            let mut answer = page(site, &title, Place::Scenarios, role, &body);
            *answer.status_mut() = status;
            answer
        }
        Err(_) => {
            error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The scenario was not checked.", "Try again.")
        }
    }
}

fn body(draft: &Draft, checked: &Checked, fields: &Markup) -> Markup {
    let lines = draft.text.lines().count().max(1);
    let numbers: String = (1..=lines).map(|number| format!("{number}\n")).collect();
    let is_saved = draft.before.as_deref() == Some(fingerprint(&draft.text).as_str());
    let may_start = is_saved && matches!(checked, Checked::Right(found) if found.refusal.is_none());
    let is_sweep = matches!(checked, Checked::Right(found) if found.is_sweep());
    let before = draft.before.as_deref().unwrap_or_default();
    html! {
        h1 { (draft.name) }
        @if let Some(problem) = &draft.problem { p.problem role="alert" { (problem) } }
        div.editing {
            (settings(draft, before, fields))
            form.editor action="/scenarios/save" method="post" {
                p.buttons {
                    label { "File" input name="name" value=(draft.name) required maxlength="100" spellcheck="false"; }
                    button { "Check and save" }
                }
                input type="hidden" name="before" value=(before);
                div.text {
                    pre.numbers aria-hidden="true" { (numbers) }
                    // A browser takes away the first end of a line.
                    textarea name="text" aria-label="Scenario" spellcheck="false" autocomplete="off" wrap="off" { "\n" (draft.text) }
                }
            }
            div.outlook {
                @if may_start { (start(&draft.name, is_sweep)) }
                @else { p.note { "Save it to start it." } }
                div.checked aria-live="polite" { (checked.shown()) }
            }
        }
    }
}

/// The fields of the settings. The button is for browsers without a script; it sends the text as it was shown along.
fn settings(draft: &Draft, before: &str, fields: &Markup) -> Markup {
    html! {
        form.settings action="/scenarios/fill" method="post" {
            p.buttons {
                strong { "Settings" }
                button.fill { "Set them in the text" }
            }
            p.not-set role="status" {}
            input type="hidden" name="name" value=(draft.name);
            input type="hidden" name="before" value=(before);
            textarea name="text" hidden aria-label="Scenario as it was shown" { "\n" (draft.text) }
            div.fields { (fields) }
        }
    }
}

/// The button that starts the run or the sweep of a file.
fn start(name: &str, is_sweep: bool) -> Markup {
    html! {
        form.start action="/jobs" method="post" {
            input type="hidden" name="scenario" value=(name);
            button.primary { @if is_sweep { "Start the sweep" } @else { "Start the run" } }
            @if is_sweep {
                label { "Each combination is run" input name="turns" type="number" min="1" max=(MOST_TURNS) value="1"; "times" }
            }
            label { input type="checkbox" name="quick" value="true"; "in its quick form" }
        }
    }
}
