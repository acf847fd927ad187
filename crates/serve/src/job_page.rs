//! A run that was started: what it does now, the button that stops it, and where its result is.

use crate::answer::{self, Answer, HTML};
use crate::error_page;
use crate::headers;
use crate::jobs::{Job, JobId, Kind, StopError};
use crate::live_chart;
use crate::page::{Place, chip, moment, page};
use crate::queue::{removal, sentence};
use crate::site::Site;
use crate::tokens::Role;
use crate::watching;
use hyper::StatusCode;
use maud::{Markup, html};
use plimsoll_report::text::{bytes, capitalised, count, rate, time};
use plimsoll_runner::live::{LevelNow, Now};
use std::sync::Arc;

const NO_JOB: &str = "There is no run of that id that was started from this page.";

/// Asks a run to stop.
pub async fn stop(site: &Arc<Site>, job: &str) -> Answer {
    let Some(id) = JobId::parse(job) else { return error_page::not_found(NO_JOB) };
    let (own, asked) = (Arc::clone(site), id.clone());
    match site.permits.work(move || own.jobs.stop(&asked)).await {
        // A run that has ended meanwhile shows its result.
        Ok(Ok(()) | Err(StopError::Ended)) => answer::redirect(&format!("/jobs/{id}")),
        Ok(Err(error)) => {
            error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The run was not stopped.", &error.to_string())
        }
        Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The run was not stopped.", "Try again."),
    }
}

/// Reads a job.
async fn read(site: &Arc<Site>, job: &str) -> Result<Job, Answer> {
    let id = JobId::parse(job).ok_or_else(|| error_page::not_found(NO_JOB))?;
    let own = Arc::clone(site);
    match site.permits.work(move || own.jobs.job(&id)).await {
        Ok(Some(job)) => Ok(job),
        Ok(None) => Err(error_page::not_found(NO_JOB)),
        Err(_) => {
            Err(error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The run was not read.", "Try again."))
        }
    }
}

/// Answers with what a run does now.
pub async fn job(site: &Arc<Site>, role: Role, job: &str) -> Answer {
    match read(site, job).await {
        Ok(job) => {
            let title = capitalised(&format!("{} of {}", job.kind.word(), job.named()));
            page(site, &title, Place::Runs, role, &body(&job, role))
        }
        Err(refused) => refused,
    }
}

/// Answers with the report of a sweep or a comparison, as a document that reaches nothing else.
pub async fn report(site: &Arc<Site>, job: &str) -> Answer {
    let Some(id) = JobId::parse(job) else { return error_page::not_found(NO_JOB) };
    let own = Arc::clone(site);
    match site.permits.work(move || own.jobs.report(&id)).await {
        Ok(Some(text)) => headers::sandbox(answer::text(HTML, text)),
        Ok(None) => error_page::not_found("There is no report."),
        Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, "The report was not read.", "Try again."),
    }
}

/// Answers with the events of a run, until it ends.
pub async fn events(site: &Arc<Site>, job: &str) -> Answer {
    let job = match read(site, job).await {
        Ok(job) => job,
        Err(refused) => return refused,
    };
    match site.permits.follower() {
        Some(permit) => watching::events(site, &job, permit),
        None => error_page::of(StatusCode::SERVICE_UNAVAILABLE, "Too many follow runs.", "Try again later."),
    }
}

fn body(job: &Job, role: Role) -> Markup {
    let events = format!("/jobs/{}/events", job.id);
    html! {
        p.eyebrow {
            span.scenario { (job.named()) } @if job.quick { " in its quick form" }
            @if job.waits.is_some() { " asked for " } @else { " started " } (moment(&job.started))
            @if job.kind != Kind::Run {
                ", a " (job.kind.word()) " of " (job.turns) @if job.turns == 1 { " turn" } @else { " turns" }
            }
        }
        @if job.waits.is_some() && role == Role::Operator { (removal(job)) }
        @if job.goes_on && role == Role::Operator {
            form.stop action={ "/jobs/" (job.id) "/stop" } method="post" {
                button { "Stop the " (job.kind.word()) }
                span.note { "What was measured is kept. Stopping it again ends it at once." }
            }
        }
        // The script fills this again and again; nothing in it can have the focus.
        div.live data-events=[(!job.is_over()).then_some(events)] { (shown(job)) }
        div.live-chart { (chart(job)) }
        p.lost role="status" {}
    }
}

/// How a run has gone so far; nothing of one that is over, whose result shows more.
pub fn chart(job: &Job) -> Markup {
    match (&job.now, job.goes_on) {
        (Some(now), true) => live_chart::chart(&now.past),
        _ => Markup::default(),
    }
}

/// What is shown of a run, and again whenever it says something new.
pub fn shown(job: &Job) -> Markup {
    let none = Now::default();
    let now = job.now.as_ref().unwrap_or(&none);
    html! {
        h1 { (headline(job, now)) }
        @if let Some(why) = &job.not_started { pre.finding { (sentence(why)) } }
        @if let Some(level) = &now.level { (of_level(level)) }
        @if let Some([ready, wanted]) = now.connected {
            p { (count(ready as f64)) " of " (count(wanted as f64)) " clients are connected." }
        }
        @for warning in &now.warnings { p.host-check { (warning) } }
        @for problem in &job.untold { p.host-check { "Its end was not taken by a " (problem) } }
        (ledger(now))
        (components(now))
        (ended(now))
        @if !job.output.is_empty() {
            section { h2 { "What it printed" } pre { (job.output) } }
        }
    }
}

fn headline(job: &Job, now: &Now) -> Markup {
    html! {
        @if let Some(ahead) = job.waits {
            @if ahead == 0 { "The run waits until the host is free" }
            @else if ahead == 1 { "The run waits: one is before it" }
            @else { "The run waits: " (ahead) " are before it" }
        } @else if job.not_started.is_some() {
            "The run was not started"
        } @else if !job.goes_on {
            "The " (job.kind.word()) " has ended"
            @if job.has_report { ": " a href={ "/jobs/" (job.id) "/report" } { "its result" } }
            @else if now.run.is_empty() { @if let Some(code) = job.exit { " without a result (exit code " (code) ")" } }
            @else if job.kind == Kind::Run { ": " a href={ "/runs/" (now.run) } { "its result" } }
            @else { " without a report: its runs are in the list of runs" }
        } @else if let Some(level) = &now.level {
            "Level " (level.number) @if let Some(of) = level.of { " of " (of) } ": " (level.load)
        } @else if now.step.is_empty() {
            "The run begins"
        } @else {
            (capitalised(&now.step))
        }
    }
}

fn of_level(level: &LevelNow) -> Markup {
    let name = if level.time == "subscribe_time" { "Subscribe time" } else { "Publish time" };
    let rest = level.planned - level.elapsed;
    let health = match (level.sends_in_time, level.reads_in_time) {
        (Some(false), _) => ("bad", "sends late"),
        (_, Some(false)) => ("bad", "reads late"),
        (Some(true), _) => ("", "in time"),
        (None, _) => ("", "-"),
    };
    let per_second = |rate: Option<f64>| {
        rate.map_or("-".to_owned(), |per_second| format!("{}/s", self::rate(per_second.round())))
    };
    html! {
        progress max=(level.planned.max(0.001)) value=(level.elapsed.clamp(0.0, level.planned.max(0.001))) {}
        p.note { @if rest > 0.0 { (format!("{rest:.0}")) " s left" } @else { "waiting for stragglers" } }
        dl.tiles {
            (tile("", "Offered", &per_second(level.offered)))
            (tile("", "Achieved", &per_second(level.rate)))
            (tile("", &format!("{name}, mean"), &time(level.mean)))
            (tile("", &format!("{name}, median"), &time(level.p50)))
            (tile("", &format!("{name}, p99"), &time(level.p99)))
            (tile(if level.errors > 0 { "bad" } else { "" }, "Errors", &count(level.errors as f64)))
            (tile(health.0, "Generator", health.1))
        }
    }
}

fn tile(class: &str, name: &str, figure: &str) -> Markup {
    html! { div class={ "tile " (class) } { dt { (name) } dd.figure { (figure) } } }
}

fn ledger(now: &Now) -> Markup {
    let counts = &now.counts;
    let figures = [
        ("Due", counts.due),
        ("Sent", counts.sent),
        ("Acknowledged", counts.acknowledged),
        ("Refused", counts.refused),
        ("Expected deliveries", counts.expected),
        ("Delivered", counts.delivered),
        ("Missing", counts.missing),
        ("Connections lost", counts.disconnected),
    ];
    html! {
        @if counts.due > 0 {
            section {
                h2 { "Messages of the samples that ended" }
                dl.tiles {
                    @for (name, figure) in figures {
                        (tile(if figure > 0 && matches!(name, "Refused" | "Missing") { "bad" } else { "" }, name, &count(figure as f64)))
                    }
                }
            }
        }
    }
}

fn components(now: &Now) -> Markup {
    html! {
        @if !now.components.is_empty() {
            section {
                h2 { "The platform" }
                table {
                    thead { tr { th scope="col" { "Component" } th.num scope="col" { "Processors" } th.num scope="col" { "Memory" } } }
                    tbody {
                        @for component in &now.components {
                            tr {
                                th scope="row" { (component.name) }
                                td.num { (format!("{:.2}", component.processors)) }
                                td.num { (bytes(component.memory as f64)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn ended(now: &Now) -> Markup {
    html! {
        @if !now.ended.is_empty() {
            section {
                h2 { "Levels that ended" }
                table {
                    thead { tr { th scope="col" { "Load" } th.num scope="col" { "Achieved" } th scope="col" { "Verdict" } th scope="col" { "Validity" } } }
                    tbody {
                        @for level in &now.ended {
                            tr {
                                th scope="row" { (level.load) }
                                td.num { (level.achieved.map_or("-".to_owned(), |achieved| format!("{}/s", rate(achieved)))) }
                                td { (chip(&level.verdict, &level.verdict)) }
                                td { (level.validity.replace('_', " ")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_runner::live::{ComponentNow, CountsNow, EndedLevel};

    fn job(goes_on: bool, now: Option<Now>) -> Job {
        Job {
            id: JobId::parse("0123456789abcdef").unwrap(),
            scenarios: vec!["a.yaml".into()],
            quick: false,
            turns: 1,
            kind: Kind::Run,
            has_report: false,
            waits: None,
            not_started: None,
            started: "2026-11-30T11:00:00Z".into(),
            goes_on,
            now,
            exit: Some(104),
            untold: Vec::new(),
            output: "error: <b>\n".into(),
        }
    }

    #[test]
    fn what_a_run_says_is_shown_and_escaped() {
        let level = LevelNow {
            number: 2,
            of: Some(5),
            load: "1,000/s".into(),
            offered: Some(1000.0),
            rate: Some(998.7),
            planned: 10.0,
            elapsed: 4.0,
            time: "publish_time".into(),
            p99: Some(0.005),
            sends_in_time: Some(false),
            ..LevelNow::default()
        };
        let now = Now {
            level: Some(level),
            counts: CountsNow { due: 1234, missing: 3, ..CountsNow::default() },
            components: vec![ComponentNow { name: "<broker>".into(), processors: 0.5, memory: 1 << 20 }],
            ended: vec![EndedLevel {
                load: "500/s".into(),
                achieved: Some(500.0),
                verdict: "met".into(),
                validity: "host_bound".into(),
            }],
            ..Now::default()
        };
        let shown = shown(&job(true, Some(now))).into_string();
        for part in [
            "Level 2 of 5: 1,000/s",
            "999/s",
            "5.00 ms",
            "6 s left",
            "sends late",
            "1,234",
            "&lt;broker&gt;",
            "1.0 MiB",
            "chip met",
            "host bound",
            "error: &lt;b&gt;",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn a_run_that_ended_leads_to_its_result_or_says_why_there_is_none() {
        let failed = shown(&job(false, None)).into_string();
        assert!(failed.contains("without a result (exit code 104)") && failed.contains("error:"), "{failed}");
        let now = Now { run: "3vk1a81x".into(), ..Now::default() };
        let ended = shown(&job(false, Some(now))).into_string();
        assert!(ended.contains("href=\"/runs/3vk1a81x\""), "{ended}");
        let sweep = Job { kind: Kind::Sweep, has_report: true, ..job(false, None) };
        let swept = shown(&sweep).into_string();
        assert!(swept.contains("The sweep has ended") && swept.contains("/report\""), "{swept}");
        // One that could not begin has no runs, and says how it ended.
        let failed = shown(&Job { kind: Kind::Comparison, ..job(false, None) }).into_string();
        assert!(failed.contains("without a result (exit code 104)"), "{failed}");
        let now = Now { run: "3vk1a81x".into(), ..Now::default() };
        let stopped = shown(&Job { kind: Kind::Comparison, ..job(false, Some(now)) }).into_string();
        assert!(stopped.contains("without a report") && !stopped.contains("href"), "{stopped}");
        let begun = shown(&job(true, None)).into_string();
        assert!(begun.contains("The run begins"), "{begun}");
        let viewer = body(&job(true, None), Role::Viewer).into_string();
        assert!(!viewer.contains("Stop the run") && viewer.contains("data-events"), "{viewer}");
        assert!(body(&job(true, None), Role::Operator).into_string().contains("Stop the run"));
        let waits = Job { waits: Some(2), goes_on: false, ..job(false, None) };
        let shown = body(&waits, Role::Operator).into_string();
        assert!(shown.contains("2 are before it") && shown.contains("data-events"), "{shown}");
        assert!(shown.contains("/remove") && !shown.contains("Stop the run"), "{shown}");
        assert!(!body(&waits, Role::Viewer).into_string().contains("/remove"));
        let refused = Job { not_started: Some("<b> is wrong".into()), ..job(false, None) };
        let shown = body(&refused, Role::Viewer).into_string();
        assert!(shown.contains("was not started") && shown.contains("&lt;b&gt; is wrong."), "{shown}");
    }
}
