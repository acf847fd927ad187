//! Who answers what.

use crate::annotation_page::Fate;
use crate::answer::Answer;
use crate::fields::Fields;
use crate::gate::{Admitted, admit};
use crate::run_page::Extent;
use crate::site::Site;
use crate::tokens::Role;
use crate::{
    annotation_page, api, assets, checking, comparison_page, downloads, editor, error_page, form, headers,
    history_page, job_page, library, queue, run_page, runs_page,
};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::{Method, Request, StatusCode};
use std::error::Error;
use std::sync::Arc;

/// Bytes that a body may have: a form writes some characters of a scenario as three.
const LARGEST_BODY: usize = 3 * crate::folder::LARGEST + 64 * 1024;

/// An error of whatever carries a body.
type BodyError = Box<dyn Error + Send + Sync>;

/// Answers a request, behind the gate.
pub async fn answer<B>(site: &Arc<Site>, request: Request<B>) -> Answer
where
    B: Body<Data: Send, Error: Into<BodyError>>,
{
    let answer = match admit(site, request.method(), request.uri(), request.headers()) {
        Admitted::As(role) => match tokio::time::timeout(site.patience, answer_to(site, role, request)).await
        {
            Ok(answer) => answer,
            Err(_) => error_page::of(
                StatusCode::SERVICE_UNAVAILABLE,
                "The answer took too long.",
                "Try again later.",
            ),
        },
        Admitted::Enters(answer) => answer,
        Admitted::Refused(status, what, remedy) => error_page::of(status, what, remedy),
    };
    headers::complete(answer)
}

async fn answer_to<B>(site: &Arc<Site>, role: Role, request: Request<B>) -> Answer
where
    B: Body<Data: Send, Error: Into<BodyError>>,
{
    let (head, body) = request.into_parts();
    let query = Fields::read(head.uri.query().unwrap_or_default().as_bytes());
    // Names in paths are those of ours: none of them is escaped.
    let path: Vec<&str> = head.uri.path().split('/').skip(1).collect();
    match head.method {
        Method::GET | Method::HEAD => read(site, role, &path, &query).await,
        Method::POST => match whole(body).await {
            Ok(body) => change(site, role, &path, &query, &body).await,
            Err(refused) => refused,
        },
        _ => error_page::of(StatusCode::METHOD_NOT_ALLOWED, "Nothing is done that way.", "Use GET or POST."),
    }
}

/// What can be looked at.
async fn read(site: &Arc<Site>, role: Role, path: &[&str], query: &Fields) -> Answer {
    match path {
        [""] => runs_page::list(site, role, query).await,
        ["runs", run] => run_page::run(site, role, run).await,
        ["runs", run, "report"] => run_page::report(site, run, Extent::Whole).await,
        ["runs", run, "report", "below"] => run_page::report(site, run, Extent::BelowHeader).await,
        ["runs", run, "downloads", name] => downloads::download(site, role, run, name).await,
        ["history"] => history_page::history(site, role, query).await,
        ["history", "report"] => history_page::report(site, query).await,
        ["deleted"] => annotation_page::deleted(site, role).await,
        ["compare"] => comparison_page::compare(site, role, query),
        ["compare", "report"] => comparison_page::report(site, query).await,
        ["scenarios"] => library::scenarios(site, role).await,
        ["scenarios", "new"] => editor::new(site, role, query.get("example")).await,
        ["scenarios", "edit", file] => editor::edit(site, role, file).await,
        ["profiles"] => library::profiles(site, role).await,
        ["profiles", name] => library::profile(site, role, name),
        ["jobs"] => queue::list(site, role).await,
        ["jobs", job] => job_page::job(site, role, job).await,
        ["jobs", job, "report"] => job_page::report(site, job).await,
        ["jobs", job, "events"] => job_page::events(site, job).await,
        ["api", path @ ..] => api::read(site, role, path, query).await,
        ["assets", name] => assets::asset(name),
        _ => error_page::not_found("There is no such page."),
    }
}

/// What can be changed, by operators.
async fn change(site: &Arc<Site>, role: Role, path: &[&str], query: &Fields, body: &Bytes) -> Answer {
    match path {
        ["api", path @ ..] => api::change(site, path, body).await,
        ["check"] => checking::answer(site, query.get("name"), body).await,
        ["form"] => form::answer(site, body).await,
        ["form", "set"] => form::set(site, &Fields::read(body)).await,
        ["scenarios", "fill"] => form::fill(site, role, &Fields::read(body)).await,
        ["scenarios", "save"] => editor::save(site, role, &Fields::read(body)).await,
        ["runs", run, "annotate"] => annotation_page::annotate(site, run, &Fields::read(body)).await,
        ["runs", run, "delete"] => annotation_page::settle(site, run, Fate::Deleted).await,
        ["runs", run, "restore"] => annotation_page::settle(site, run, Fate::Restored).await,
        ["jobs"] => queue::enter(site, &Fields::read(body)).await,
        ["jobs", job, "remove"] => queue::remove(site, job).await,
        ["jobs", job, "stop"] => job_page::stop(site, job).await,
        _ => error_page::not_found("There is nothing to change."),
    }
}

/// The whole of a body that is not too large.
async fn whole<B>(body: B) -> Result<Bytes, Answer>
where
    B: Body<Error: Into<BodyError>>,
{
    match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(error_page::of(
            StatusCode::PAYLOAD_TOO_LARGE,
            "The request is too large.",
            "Shorten what you send.",
        )),
        Err(_) => {
            Err(error_page::of(StatusCode::BAD_REQUEST, "The request did not come whole.", "Try again."))
        }
    }
}
