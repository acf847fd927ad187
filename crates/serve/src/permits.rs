//! How much is done at once: reading a store and rendering a report take processor time, which a run on this host needs more.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Pages that are made at once.
const PAGES: usize = 2;
/// Pages that follow a run at once.
const FOLLOWERS: usize = 128;

/// See the module.
pub struct Permits {
    pages: Arc<Semaphore>,
    followers: Arc<Semaphore>,
}

impl Default for Permits {
    fn default() -> Permits {
        Permits { pages: Arc::new(Semaphore::new(PAGES)), followers: Arc::new(Semaphore::new(FOLLOWERS)) }
    }
}

/// The work panicked, or the server ends.
#[derive(Debug)]
pub struct Unfinished;

impl Permits {
    /// Does work that reads files or computes, beside the event loop.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unfinished> {
        let permit = Arc::clone(&self.pages).acquire_owned().await.map_err(|_| Unfinished)?;
        let done = tokio::task::spawn_blocking(move || {
            // It is given back when the work ends, also where nobody waits for that any more.
            let _permit = permit;
            work()
        });
        done.await.map_err(|_| Unfinished)
    }

    /// The right to follow a run; `None` where too many do.
    pub fn follower(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.followers).try_acquire_owned().ok()
    }
}
