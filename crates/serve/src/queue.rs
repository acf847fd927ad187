//! The queue of runs: one at a time measures on a host, and the next one is started when its turn has come. Each page shows the queue.

use crate::annotation_page::purge;
use crate::answer::{self, Answer};
use crate::checking::{Checked, Look, check};
use crate::error_page;
use crate::fields::Fields;
use crate::folder::FileName;
use crate::jobs::{AtWork, Job, JobId, Kind, Permit, QueueError, StopError, Wish};
use crate::page::{Place, moment, page};
use crate::site::Site;
use crate::tokens::Role;
use hyper::StatusCode;
use maud::{Markup, html};
use plimsoll_report::text::capitalised;
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked whether the host is free, while a run waits.
const LOOK: Duration = Duration::from_secs(1);
/// How often deleted runs are looked for: every ten minutes.
const LOOKS_BETWEEN_PURGES: u64 = 600;
/// How often each combination of a sweep is run at most, or each scenario of a comparison.
pub const MOST_TURNS: u32 = 20;
/// How often each scenario of a comparison is run, if nothing else is said: two runs hardly ever show a difference.
pub const USUAL_TURNS: u32 = 5;
/// Scenarios that are compared at most.
pub const MOST_COMPARED: usize = 10;
const NOT_STARTED: &str = "The run was not started.";

/// Starts what waits, one after the other, and purges what was deleted while nothing goes on, for ever.
pub async fn keep(site: &Arc<Site>) {
    for look in 0_u64.. {
        if look.is_multiple_of(LOOKS_BETWEEN_PURGES) {
            let own = Arc::clone(site);
            // What was not purged now is purged later.
            let _ = site.permits.work(move || purge(&own)).await;
        }
        if site.jobs.may_wait() {
            let own = Arc::clone(site);
            // A run that was not started now is started later.
            let _ = site.permits.work(move || advance(&own)).await;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Starts the run whose turn has come, if it may be started as it is by now.
fn advance(site: &Site) {
    site.jobs.start_next(|job| {
        let name =
            |text: &String| FileName::parse(text).ok_or_else(|| format!("{text} is the name of no scenario"));
        let names: Vec<FileName> = job.scenarios.iter().map(name).collect::<Result<_, String>>()?;
        permitted(site, &names, job.quick).map_err(|refused| refused.why)
    });
}

/// Why a run was not entered.
pub struct Refused {
    /// The status of the answer.
    pub status: StatusCode,
    /// The reason.
    pub why: String,
}

/// How scenarios may be started: one by itself, or several to be compared.
fn permitted(site: &Site, names: &[FileName], quick: bool) -> Result<Permit, Refused> {
    let varies: Vec<bool> =
        names.iter().map(|name| may_start(site, name, quick)).collect::<Result<_, Refused>>()?;
    let kind = match varies.as_slice() {
        [false] => Kind::Run,
        [true] => Kind::Sweep,
        _ => Kind::Comparison,
    };
    let one = names.iter().zip(&varies).find(|(_, varies)| **varies && kind == Kind::Comparison);
    if let Some((name, _)) = one {
        let why = format!(
            "the scenario {name} has a `matrix`: start it by itself, as a sweep, or compare scenarios without one"
        );
        return Err(Refused { status: StatusCode::UNPROCESSABLE_ENTITY, why });
    }
    Ok(Permit { variables: site.variables.of_runs(), kind })
}

/// Whether something varies in a scenario that may be started.
fn may_start(site: &Site, name: &FileName, quick: bool) -> Result<bool, Refused> {
    let text = site.folder.read(name).map_err(|error| Refused {
        status: StatusCode::NOT_FOUND,
        why: format!("the scenario {name} cannot be read: {error}"),
    })?;
    match check(site, (name.as_str(), &text), quick, Look::Text) {
        Checked::Wrong(found) => {
            let first = found.first().map(|finding| finding.text.clone()).unwrap_or_default();
            Err(Refused { status: StatusCode::UNPROCESSABLE_ENTITY, why: first })
        }
        Checked::Right(prospect) => {
            let varies = prospect.is_sweep();
            match prospect.refusal {
                Some(why) => {
                    Err(Refused { status: StatusCode::FORBIDDEN, why: format!("the scenario {name}: {why}") })
                }
                None => Ok(varies),
            }
        }
    }
}

/// Enters the run of a scenario of the folder, or a comparison of several, and starts it at once where nothing else measures.
pub async fn enter(site: &Arc<Site>, asked: &Fields) -> Answer {
    match entered(site, asked).await {
        Ok(id) => answer::redirect(&format!("/jobs/{id}")),
        Err(Refused { status, why }) => error_page::of(status, NOT_STARTED, &sentence(&why)),
    }
}

/// The job of a run that was entered.
pub async fn entered(site: &Arc<Site>, asked: &Fields) -> Result<JobId, Refused> {
    let refused = |status, why: String| Refused { status, why };
    let names: Option<Vec<FileName>> = asked.all("scenario").map(FileName::parse).collect();
    let names = names.filter(|names| !names.is_empty()).ok_or_else(|| {
        refused(StatusCode::BAD_REQUEST, "there is no such scenario: choose one of the list".to_owned())
    })?;
    let is_comparison = asked.get("kind") == Kind::Comparison.word() || names.len() > 1;
    let mut different = names.clone();
    different.sort();
    different.dedup();
    if different.len() != names.len() || is_comparison && !(2..=MOST_COMPARED).contains(&names.len()) {
        let why = format!("from 2 to {MOST_COMPARED} different scenarios are compared");
        return Err(refused(StatusCode::BAD_REQUEST, why));
    }
    let quick = asked.get("quick") == "true";
    let turns = match asked.get("turns") {
        "" => Some(if is_comparison { USUAL_TURNS } else { 1 }),
        turns => turns.parse().ok().filter(|turns| (1..=MOST_TURNS).contains(turns)),
    };
    let turns = turns.ok_or_else(|| {
        refused(StatusCode::BAD_REQUEST, format!("the number of turns is one from 1 to {MOST_TURNS}"))
    })?;
    let own = Arc::clone(site);
    let entered = site.permits.work(move || {
        permitted(&own, &names, quick)?;
        let id = own.jobs.enqueue(Wish { scenarios: &names, quick, turns }).map_err(|error| Refused {
            status: match error {
                QueueError::Full => StatusCode::CONFLICT,
                QueueError::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
            },
            why: error.to_string(),
        })?;
        advance(&own);
        Ok::<_, Refused>(id)
    });
    let unfinished = || refused(StatusCode::INTERNAL_SERVER_ERROR, "it was not done: try again".to_owned());
    entered.await.unwrap_or_else(|_| Err(unfinished()))
}

/// A reason as a sentence; a diagnostic of several lines stays as it is.
pub fn sentence(why: &str) -> String {
    if why.contains('\n') { why.to_owned() } else { capitalised(why) + "." }
}

/// Takes a run out of the queue.
pub async fn remove(site: &Arc<Site>, job: &str) -> Answer {
    let Some(id) = JobId::parse(job) else { return error_page::not_found("No run of that id waits.") };
    let (own, asked) = (Arc::clone(site), id.clone());
    match site.permits.work(move || own.jobs.remove(&asked)).await {
        Ok(Ok(())) => answer::redirect("/jobs"),
        // It was started meanwhile, or is over.
        Ok(Err(StopError::Ended)) => answer::redirect(&format!("/jobs/{id}")),
        Ok(Err(error)) => {
            error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The run was not removed.", &error.to_string())
        }
        Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The run was not removed.", "Try again."),
    }
}

/// Answers with what goes on and what waits.
pub async fn list(site: &Arc<Site>, role: Role) -> Answer {
    let own = Arc::clone(site);
    match site.permits.work(move || own.jobs.at_work()).await {
        Ok(at_work) => page(site, "Queue", Place::Queue, role, &body(&at_work, role)),
        Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The queue was not read.", "Try again."),
    }
}

fn body(at_work: &AtWork, role: Role) -> Markup {
    let AtWork { going_on, waiting } = at_work;
    html! {
        h1 { "Queue" }
        p { "One run at a time measures on a host. The next one starts when the host is free, and reads its scenario then." }
        section {
            h2 { "Goes on" }
            @if going_on.is_empty() { p.empty { "No run of this page goes on." } }
            ul { @for job in going_on { li { a href={ "/jobs/" (job.id) } { (named(job)) } ", since " (moment(&job.started)) } } }
        }
        section {
            h2 { "Waits" }
            @if waiting.is_empty() { p.empty { "No run waits." } }
            ol {
                @for job in waiting {
                    li {
                        a href={ "/jobs/" (job.id) } { (named(job)) } ", since " (moment(&job.started))
                        @if role == Role::Operator { (removal(job)) }
                    }
                }
            }
        }
    }
}

fn named(job: &Job) -> String {
    if job.quick { format!("{}, quick form", job.named()) } else { job.named() }
}

/// The button that takes a run out of the queue.
pub fn removal(job: &Job) -> Markup {
    html! {
        form.stop action={ "/jobs/" (job.id) "/remove" } method="post" {
            button aria-label={ "Remove " (job.named()) " from the queue" } { "Remove from the queue" }
        }
    }
}

/// What each page shows of the queue.
pub fn notice(at_work: &AtWork) -> Markup {
    let waiting = at_work.waiting.len();
    html! {
        @for job in &at_work.going_on {
            p.going-on { a href={ "/jobs/" (job.id) } { "A " (job.kind.word()) " of " (job.named()) " goes on: watch it" } }
        }
        @if waiting > 0 {
            p.going-on {
                a href="/jobs" { @if waiting == 1 { "A run waits" } @else { (waiting) " runs wait" } } ": "
                @for (place, job) in at_work.waiting.iter().enumerate() { @if place > 0 { ", " } (named(job)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(scenario: &str, waits: Option<usize>) -> Job {
        Job {
            id: JobId::parse("0123456789abcdef").unwrap(),
            scenarios: vec![scenario.into()],
            quick: waits.is_some(),
            turns: 1,
            kind: Kind::Run,
            has_report: false,
            started: "2026-11-30T11:00:00Z".into(),
            waits,
            not_started: None,
            goes_on: waits.is_none(),
            now: None,
            exit: None,
            untold: Vec::new(),
            output: String::new(),
        }
    }

    #[test]
    fn the_queue_is_shown_to_all_and_changed_by_operators() {
        let at_work = AtWork {
            going_on: vec![job("a.yaml", None)],
            waiting: vec![job("b.yaml", Some(1)), job("c.yaml", Some(2))],
        };
        let shown = notice(&at_work).into_string();
        for part in ["A run of a.yaml goes on", "2 runs wait", "b.yaml, quick form, c.yaml, quick form"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(notice(&AtWork::default()).into_string(), "");
        let of = |role| body(&at_work, role).into_string();
        assert_eq!(of(Role::Operator).matches("/remove\"").count(), 2);
        assert_eq!(of(Role::Viewer).matches("/remove\"").count(), 0);
        assert!(body(&AtWork::default(), Role::Viewer).into_string().contains("No run waits."));
    }

    #[test]
    fn a_reason_is_a_sentence_and_a_diagnostic_is_not() {
        assert_eq!(sentence("it is wrong"), "It is wrong.");
        assert_eq!(sentence("error: x\n --> a\n"), "error: x\n --> a\n");
    }
}
