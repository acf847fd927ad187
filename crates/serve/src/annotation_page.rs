//! What people add to a run: tags, a note, and that it was deleted. A deleted run stays in the store for a day, and can be restored. After
//! that it is purged while no run goes on.

use crate::answer::{self, Answer};
use crate::archive::Told;
use crate::error_page;
use crate::fields::Fields;
use crate::page::{Place, moment, page};
use crate::queue::{Refused, sentence};
use crate::site::Site;
use crate::tokens::Role;
use hyper::StatusCode;
use maud::{Markup, html};
use plimsoll_model::RunId;
use plimsoll_model::text::is_harmful;
use plimsoll_store::{Annotation, StoreError};
use std::sync::Arc;

/// Most tags of a run, and characters of one.
const MOST_TAGS: usize = 20;
const LONGEST_TAG: usize = 40;
/// Characters of a note.
const LONGEST_NOTE: usize = 10_000;

/// What is to become of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is deleted.
    Deleted,
    /// It is there again.
    Restored,
}

/// Keeps the tags and the note of a run.
pub async fn annotate(site: &Arc<Site>, run: &str, asked: &Fields) -> Answer {
    match annotated(site, run, asked).await {
        Ok(id) => answer::redirect(&format!("/runs/{id}")),
        Err(refused) => not_changed(refused),
    }
}

/// The same for programs.
pub async fn annotated(site: &Arc<Site>, run: &str, asked: &Fields) -> Result<RunId, Refused> {
    let id = known(run)?;
    let (tags, note) =
        read(asked).map_err(|why| Refused { status: StatusCode::UNPROCESSABLE_ENTITY, why })?;
    let own = Arc::clone(site);
    match site.permits.work(move || own.archive.annotate(id, &tags, &note)).await {
        Ok(Ok(())) => Ok(id),
        Ok(Err(error)) => Err(of_store(&error)),
        Err(_) => Err(unfinished()),
    }
}

/// Deletes a run or restores it.
pub async fn settle(site: &Arc<Site>, run: &str, fate: Fate) -> Answer {
    match (settled(site, run, fate).await, fate) {
        (Ok(_), Fate::Deleted) => answer::redirect("/deleted"),
        (Ok(id), Fate::Restored) => answer::redirect(&format!("/runs/{id}")),
        (Err(refused), _) => not_changed(refused),
    }
}

/// The same for programs.
pub async fn settled(site: &Arc<Site>, run: &str, fate: Fate) -> Result<RunId, Refused> {
    let id = known(run)?;
    let own = Arc::clone(site);
    let settled = site.permits.work(move || {
        if fate == Fate::Deleted && own.archive.run(id)?.record.goes_on {
            return Ok(false);
        }
        own.archive.mark_deleted(id, fate == Fate::Deleted).map(|()| true)
    });
    match settled.await {
        Ok(Ok(true)) => Ok(id),
        Ok(Ok(false)) => {
            Err(Refused { status: StatusCode::CONFLICT, why: "the run goes on: stop it first".to_owned() })
        }
        Ok(Err(error)) => Err(of_store(&error)),
        Err(_) => Err(unfinished()),
    }
}

fn known(run: &str) -> Result<RunId, Refused> {
    let why = "there is no run of that id".to_owned();
    RunId::parse(run).ok_or(Refused { status: StatusCode::NOT_FOUND, why })
}

fn of_store(error: &StoreError) -> Refused {
    Refused { status: error_page::status_of(error), why: error.to_string() }
}

fn unfinished() -> Refused {
    Refused { status: StatusCode::INTERNAL_SERVER_ERROR, why: "try again".to_owned() }
}

fn not_changed(Refused { status, why }: Refused) -> Answer {
    error_page::of(status, "The run was not changed.", &sentence(&why))
}

/// The tags and the note of a form, or what is wrong with them.
fn read(asked: &Fields) -> Result<(Vec<String>, String), String> {
    let mut tags: Vec<String> = Vec::new();
    for tag in asked.get("tags").split([',', ' ']).filter(|tag| !tag.is_empty()) {
        let is_word = tag.chars().all(|c| c.is_alphanumeric() || "-_.:".contains(c));
        if !is_word || tag.chars().count() > LONGEST_TAG {
            return Err(format!(
                "a tag has letters, digits, hyphens, underscores, dots and colons, {LONGEST_TAG} at most"
            ));
        }
        if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
    if tags.len() > MOST_TAGS {
        return Err(format!("a run has {MOST_TAGS} tags at most"));
    }
    let note = asked.get("note").replace("\r\n", "\n").trim().to_owned();
    if note.chars().count() > LONGEST_NOTE {
        return Err(format!("a note has {LONGEST_NOTE} characters at most"));
    }
    if note.contains(|c: char| is_harmful(c) && !matches!(c, '\n' | '\t')) {
        return Err("the note has characters that a page cannot show: remove them".to_owned());
    }
    Ok((tags, note))
}

/// Answers with the deleted runs.
pub async fn deleted(site: &Arc<Site>, role: Role) -> Answer {
    let own = Arc::clone(site);
    match site.permits.work(move || own.archive.deleted()).await {
        Ok(Ok(runs)) => page(site, "Deleted runs", Place::Runs, role, &list(&runs, role)),
        Ok(Err(error)) => error_page::of_store(&error),
        Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The runs were not read.", "Try again."),
    }
}

/// A run that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedRun {
    /// Its id.
    pub id: String,
    /// The scenario's name.
    pub name: String,
    /// When it was deleted, RFC 3339.
    pub when: String,
}

fn list(runs: &[DeletedRun], role: Role) -> Markup {
    html! {
        h1 { "Deleted runs" }
        p { "They can be restored for a day. After that they are removed from the store, while no run goes on." }
        @if runs.is_empty() { p.empty { "No run was deleted." } }
        ul.deleted {
            @for run in runs {
                li {
                    a href={ "/runs/" (run.id) } { (run.name) " " code { (run.id) } } ", deleted " (moment(&run.when))
                    @if role == Role::Operator { (restoration(&run.id)) }
                }
            }
        }
    }
}

fn restoration(run: &str) -> Markup {
    html! {
        form.stop action={ "/runs/" (run) "/restore" } method="post" {
            button aria-label={ "Restore run " (run) } { "Restore" }
        }
    }
}

/// Words by which runs are found.
pub fn tags(tags: &[String]) -> Markup {
    html! { @for tag in tags { a.tag href={ "/?text=" (crate::fields::escaped(tag)) } { (tag) } " " } }
}

/// What was added to a run, and for operators the form that changes it.
pub fn shown(told: &Told, annotation: &Annotation, role: Role) -> Markup {
    let id = &told.record.id;
    html! {
        @if let Some(when) = &annotation.deleted {
            div.problem role="status" {
                "This run was deleted " (moment(when)) "."
                @if role == Role::Operator { (restoration(id)) }
            }
        }
        @if !annotation.tags.is_empty() { p.tags { "Tags: " (tags(&annotation.tags)) } }
        @if !annotation.note.is_empty() { p.run-note { (annotation.note) } }
        @if role == Role::Operator && annotation.deleted.is_none() {
            details.annotating {
                summary { "Tags, note, deletion" }
                form action={ "/runs/" (id) "/annotate" } method="post" {
                    label { "Tags, with blanks between them" input name="tags" value=(annotation.tags.join(" ")) spellcheck="false"; }
                    label { "Note" textarea name="note" rows="4" maxlength=(LONGEST_NOTE) { "\n" (annotation.note) } }
                    button { "Keep" }
                }
                @if !told.record.goes_on {
                    form.stop action={ "/runs/" (id) "/delete" } method="post" {
                        button { "Delete the run" }
                        span.note { "It can be restored for a day." }
                    }
                }
            }
        }
    }
}

/// Purges the runs that were deleted more than a day ago, as long as nothing measures on this host.
pub fn purge(site: &Site) -> Result<(), StoreError> {
    site.archive.purge(|| site.jobs.is_idle())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tags: &str, note: &str) -> Result<(Vec<String>, String), String> {
        let form = format!("tags={}&note={}", crate::fields::escaped(tags), crate::fields::escaped(note));
        read(&Fields::read(form.as_bytes()))
    }

    #[test]
    fn tags_are_words_and_notes_are_texts() {
        let (tags, note) = of("night, city:2 night \u{e4}", " a\r\nb ").unwrap();
        assert_eq!(
            (tags, note.as_str()),
            (vec!["night".to_owned(), "city:2".into(), "\u{e4}".into()], "a\nb")
        );
        assert_eq!(of("", "").unwrap(), (Vec::new(), String::new()));
        for wrong in ["<b>", "a/b", "a\"b", &"x".repeat(LONGEST_TAG + 1)] {
            assert!(of(wrong, "").unwrap_err().contains("a tag has"), "{wrong}");
        }
        let many: Vec<String> = (0..=MOST_TAGS).map(|number| number.to_string()).collect();
        assert!(of(&many.join(" "), "").unwrap_err().contains("20 tags"));
        assert!(of("", &"x".repeat(LONGEST_NOTE + 1)).unwrap_err().contains("10000 characters"));
        assert!(of("", "a\u{202e}b").unwrap_err().contains("cannot show") && of("", "a\0b").is_err());
    }
}
