//! Why a command has nothing to show, with its exit code.

use crate::exit_code;
use plimsoll_runner::RunError;
use plimsoll_scenario::Diagnostics;
use plimsoll_store::StoreError;
use std::path::Path;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The scenario is wrong: every diagnostic with its place.
    #[error("{0}")]
    Scenario(#[from] Diagnostics),
    /// The command line is wrong.
    #[error("error: {0}")]
    Usage(String),
    /// It could not be done.
    #[error("error: {0}")]
    Undoable(String),
    /// The user stopped it; what is kept of it.
    #[error("interrupted: {0}")]
    Interrupted(&'static str),
    /// The run store.
    #[error("error: {0}")]
    Store(#[from] StoreError),
}

impl Failure {
    /// Its exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Scenario(_) | Failure::Usage(_) => exit_code::USAGE,
            Failure::Undoable(_) => exit_code::UNDOABLE,
            Failure::Interrupted(_) => exit_code::INTERRUPTED,
            Failure::Store(
                StoreError::NoRun { .. } | StoreError::NoRuns { .. } | StoreError::NoFile { .. },
            ) => exit_code::USAGE,
            Failure::Store(_) => exit_code::UNDOABLE,
        }
    }

    /// A file that could not be read.
    pub fn unreadable(path: &Path, cause: &std::io::Error) -> Failure {
        Failure::Usage(format!("cannot read {}: {cause}", path.display()))
    }

    /// A file that could not be written.
    pub fn unwritable(path: &Path, cause: &std::io::Error) -> Failure {
        Failure::Undoable(format!("cannot write {}: {cause}", path.display()))
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::Host(reason) => Failure::Usage(reason),
            RunError::Store(error) => Failure::Store(error),
        }
    }
}
