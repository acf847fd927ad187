//! The page of `plimsoll serve`: runs looked at and compared, scenarios chosen and checked, runs started, stopped and watched.
//!
//! Main flow: [`serve`] opens the folder and its tokens, listens, and answers. `connections` accepts and bounds what comes, `gate` lets
//! in who may come, `routes` says who answers what. Pages are made from what `archive` reads of the run store and `folder` of the files.
//! `queue` says whose turn it is, `jobs` starts runs as processes of their own, which outlive this one, and `watching` reads what they say of
//! themselves.
//!
//! The page computes nothing: verdicts, reports, comparisons and diagnostics are those of the other crates.

mod annotation_page;
mod answer;
mod api;
mod archive;
mod assets;
mod checking;
mod commands_policy;
mod comparison_page;
mod connections;
mod downloads;
mod editor;
mod error_page;
mod examples;
mod fields;
mod folder;
mod form;
mod gate;
mod headers;
mod history_page;
mod job_page;
mod jobs;
mod library;
mod live_chart;
mod page;
mod permits;
mod profile_choices;
mod queue;
mod routes;
mod run_page;
mod runs_page;
mod site;
#[cfg(test)]
mod tests;
mod tokens;
mod variables;
mod watching;
mod webhooks;

pub use site::{Options, ServeError};

use connections::Connections;
use site::Site;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

/// How often it is looked whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(200);
/// How long work may take that is under way when the user stops.
const GRACE: Duration = Duration::from_secs(2);
/// Threads that read the store and render: few, since a run on this host needs the processors more.
const WORKERS: usize = 4;

/// The addresses by which a browser gets in. Each holds a token, so they are for their users alone.
#[derive(Clone, Debug)]
pub struct Entrances {
    /// Where the page listens.
    pub listens: SocketAddr,
    /// For those who may start and stop runs.
    pub operator: String,
    /// For those who may look.
    pub viewer: String,
}

/// Serves the page until `stop` is set. `ready` is called with the addresses once it listens. Runs that were started go on afterwards.
///
/// # Errors
/// The address is not one of this host or is not allowed, the folder cannot be used, or the runtime cannot be had.
pub fn serve(options: Options, stop: &AtomicBool, ready: impl FnOnce(&Entrances)) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(WORKERS)
        .build()
        .map_err(ServeError::Runtime)?;
    let served = runtime.block_on(async {
        options.check_address()?;
        let refused = |cause| ServeError::Listen { address: options.listen, cause };
        let listener = TcpListener::bind(options.listen).await.map_err(refused)?;
        let listens = listener.local_addr().map_err(refused)?;
        let site = Arc::new(Site::open(options, listens)?);
        ready(&site.entrances());
        let connections = Connections::new(listener, Arc::clone(&site));
        tokio::select! {
            () = connections.serve() => {}
            () = queue::keep(&site) => {}
            () = webhooks::keep(&site) => {}
            () = stopped(stop) => {}
        }
        Ok::<(), ServeError>(())
    });
    runtime.shutdown_timeout(GRACE);
    served
}

/// Waits until the user wants to stop.
async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}
