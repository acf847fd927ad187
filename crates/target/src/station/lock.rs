//! The lock that the workers of a station share, and other stations with them.

use super::{Lock, StationError};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::sync::{Mutex, PoisonError};

/// One of them holds it at a time.
#[derive(Default)]
pub struct SharedLock {
    /// What other stations lock as well. It keeps out other processes alone: the mutex keeps out the others of this one.
    file: Mutex<Option<File>>,
}

impl SharedLock {
    /// Nobody of this station holds it.
    ///
    /// # Errors
    /// Its file cannot be opened or locked.
    pub fn new(lock: Option<&Lock>) -> Result<SharedLock, StationError> {
        let Some(path) = lock.and_then(|lock| lock.file.as_ref()) else { return Ok(SharedLock::default()) };
        let refused = |cause| StationError::LockFile { file: path.clone(), cause };
        let file = File::options().create(true).append(true).open(path).map_err(refused)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => flock(&file, FlockOperation::Unlock).map_err(|error| refused(error.into()))?,
            // Another station holds it.
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(refused(error.into())),
        }
        Ok(SharedLock { file: Mutex::new(Some(file)) })
    }

    /// Does something while nobody else holds it.
    pub fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        let held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = |operation| held.as_ref().map(|file| retry_on_intr(|| flock(file, operation)));
        // It could be locked when the station started.
        let _ = lock(FlockOperation::LockExclusive);
        let done = work();
        let _ = lock(FlockOperation::Unlock);
        done
    }
}
