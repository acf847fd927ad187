//! A run: its verdict first, then its report. The report has its own script and style, and so it stands in a frame that can reach nothing
//! of the page.

use crate::annotation_page;
use crate::answer::{self, Answer, HTML};
use crate::archive::Told;
use crate::downloads::DOWNLOADS;
use crate::error_page;
use crate::fields::escaped;
use crate::headers;
use crate::page::{Place, page};
use crate::site::Site;
use crate::tokens::Role;
use hyper::StatusCode;
use maud::{Markup, html};
use plimsoll_model::RunId;
use plimsoll_report::html as report_html;
use plimsoll_store::{Annotation, StoreError};
use std::sync::Arc;

/// What is said where there is no such run.
const NO_RUN: &str = "There is no run of that id.";
/// What is said where a run was not read to its end.
pub const UNREAD: &str = "The run could not be read.";

/// Answers with a run.
pub async fn run(site: &Arc<Site>, role: Role, run: &str) -> Answer {
    let Some(id) = RunId::parse(run) else { return error_page::not_found(NO_RUN) };
    let own = Arc::clone(site);
    let read = site.permits.work(move || {
        let told = own.archive.run(id)?;
        Ok::<_, StoreError>((told, own.archive.annotation(id)?, own.jobs.of_run(&id.to_string())))
    });
    match read.await {
        Ok(Ok((told, annotation, job))) => {
            let going_on = job.filter(|_| told.record.goes_on).map(|job| job.id.to_string());
            page(
                site,
                &told.record.name,
                Place::Runs,
                role,
                &body(&told, &annotation, going_on.as_deref(), role),
            )
        }
        Ok(Err(error)) => error_page::of_store(&error),
        Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, UNREAD, "Try again."),
    }
}

/// How much of a report is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// What stands below its head, which the page shows itself.
    BelowHeader,
}

/// Answers with the report of a run, as a document that reaches nothing else.
pub async fn report(site: &Arc<Site>, run: &str, extent: Extent) -> Answer {
    let Some(id) = RunId::parse(run) else { return error_page::not_found(NO_RUN) };
    let own = Arc::clone(site);
    let rendered = site.permits.work(move || {
        let Told { record, summary } = own.archive.run(id)?;
        let series = own.archive.series(&record)?;
        Ok::<_, StoreError>(match extent {
            Extent::Whole => report_html::render_in_series(&record, &summary, &series),
            Extent::BelowHeader => report_html::render_below_header(&record, &summary, &series),
        })
    });
    match rendered.await {
        Ok(Ok(text)) => headers::sandbox(answer::text(HTML, text)),
        Ok(Err(error)) => error_page::of_store(&error),
        Err(_) => error_page::of(StatusCode::INTERNAL_SERVER_ERROR, UNREAD, "Try again."),
    }
}

fn body(told: &Told, annotation: &Annotation, job: Option<&str>, role: Role) -> Markup {
    let Told { record, summary } = told;
    let report = format!("/runs/{}/report", record.id);
    html! {
        (report_html::verdict_header(record, summary))
        nav.actions aria-label="This run" {
            @if let Some(job) = job { a href={ "/jobs/" (job) } { "Watch it" } }
            a href={ "/history?name=" (escaped(&record.name)) } { "Its history" }
            a href=(report) { "The report alone" }
            @for download in DOWNLOADS.iter().filter(|download| download.is_for(role)) {
                a href={ "/runs/" (record.id) "/downloads/" (download.name) } download { (download.title) }
            }
        }
        (annotation_page::shown(told, annotation, role))
        iframe.report title={ "Report of run " (record.id) } src={ (report) "/below" } sandbox="allow-scripts allow-downloads" {}
    }
}
