//! Who answers what.

use crate::site::Site;
use crate::{
    assets, checking, comparison_page, downloads, editor, error_page, gate, job_page, library, run_page,
    runs_page,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use std::sync::Arc;

/// Bytes that a body may have: a form writes some characters of a scenario as three.
const LARGEST_BODY: usize = 3 * crate::folder::LARGEST + 64 * 1024;

/// All answers of the page, behind the gate.
pub fn router(site: &Arc<Site>) -> Router {
    Router::new()
        .route("/", get(runs_page::list))
        .route("/runs/:run", get(run_page::run))
        .route("/runs/:run/report", get(run_page::report))
        .route("/runs/:run/downloads/:name", get(downloads::download))
        .route("/compare", get(comparison_page::compare))
        .route("/compare/report", get(comparison_page::report))
        .route("/scenarios", get(library::scenarios))
        .route("/scenarios/new", get(editor::new))
        .route("/scenarios/edit/:file", get(editor::edit))
        .route("/scenarios/save", post(editor::save))
        .route("/check", post(checking::answer))
        .route("/profiles", get(library::profiles))
        .route("/profiles/:name", get(library::profile))
        .route("/jobs", post(job_page::start))
        .route("/jobs/:job", get(job_page::job))
        .route("/jobs/:job/events", get(job_page::events))
        .route("/jobs/:job/stop", post(job_page::stop))
        .route("/assets/:name", get(assets::asset))
        .fallback(|| async { error_page::not_found("There is no such page.") })
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(from_fn_with_state(Arc::clone(site), gate::gate))
        .with_state(Arc::clone(site))
}
