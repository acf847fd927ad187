//! The run store: one SQLite file that keeps every run. Rows of what was measured are only ever appended, in short transactions as
//! parts of samples come, with a write-ahead log: a killed process or a full disk loses the current sample at most. They are removed only
//! where a user has deleted a run.
//!
//! `docs/run-store.md` describes the tables for people who read them with other tools.

mod annotations;
mod plan_checks;
mod reader;
mod recovery;
mod schema;
mod writer;

pub use annotations::{Annotation, annotate, mark_deleted, purge};
pub use plan_checks::keep_plan_checks;
pub use reader::{Added, CompleteRun, RunListing, RunPosition, RunReader};
pub use recovery::close_killed;
pub use writer::{NewRun, RunWriter};

use rusqlite::ErrorCode;
use std::path::PathBuf;

/// What can go wrong with the run store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be opened or made.
    #[error("cannot open the run store {path}: {cause}; name another place with --store FILE")]
    Open {
        /// Where.
        path: PathBuf,
        /// Why.
        cause: rusqlite::Error,
    },
    /// There is no store yet, or one of a run that was killed before it had entered itself.
    #[error("no runs yet in {path}: `plimsoll run` stores them there, --store FILE names another place")]
    NoRuns {
        /// Where.
        path: PathBuf,
    },
    /// The name is none of a file.
    #[error("the run store `{path}` is no file, and nothing would be kept; name a file with --store FILE")]
    NoFile {
        /// What was named.
        path: PathBuf,
    },
    /// The file cannot be found.
    #[error("cannot find the run store {path}: {cause}")]
    Place {
        /// Where.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The file was written by a later version of Plimsoll.
    #[error(
        "the run store {path} has format {found}, this plimsoll knows up to {known}: use a newer plimsoll"
    )]
    Newer {
        /// Where.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The file belongs to another program.
    #[error("{path} is a database of another program, not a run store; name another place with --store FILE")]
    Foreign {
        /// Where.
        path: PathBuf,
    },
    /// A row could not be written.
    #[error(
        "cannot write to the run store {path}: {cause}; {}, or name another place with --store FILE",
        remedy(cause)
    )]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        cause: rusqlite::Error,
    },
    /// A row could not be read.
    #[error("cannot read the run store {path}: {cause}")]
    Read {
        /// Where.
        path: PathBuf,
        /// Why.
        cause: rusqlite::Error,
    },
    /// A row makes no sense: the file is damaged.
    #[error("the run store {path} is damaged: {what}")]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// No such run.
    #[error("no run {id} in {path}, neither by id nor by name; `plimsoll runs` lists what is there")]
    NoRun {
        /// What was asked for.
        id: String,
        /// Where.
        path: PathBuf,
    },
}

impl StoreError {
    /// Whether another program holds the file.
    pub fn is_busy(&self) -> bool {
        match self {
            StoreError::Open { cause, .. }
            | StoreError::Write { cause, .. }
            | StoreError::Read { cause, .. } => schema::is_busy(cause),
            _ => false,
        }
    }
}

/// What to do where a row could not be written.
fn remedy(cause: &rusqlite::Error) -> &'static str {
    match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "end the other program that writes to it"
        }
        Some(ErrorCode::SystemIoFailure) => "see whether the disk fails or `ulimit -f` forbids larger files",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "the file is damaged: restore or remove it"
        }
        _ => "free some space",
    }
}
