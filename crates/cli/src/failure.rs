//! Why a command has nothing to show, with its exit code.

use crate::exit_code;
use plimsoll_runner::RunError;
use plimsoll_runner::resume::ResumeError;
use plimsoll_scenario::{Diagnostics, wrapped};
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

    /// For people, on lines of 80 columns: what is shorter, as the last words of a program, stays as it is.
    pub fn told(&self) -> String {
        let told = self.to_string();
        let lines = told.lines().map(|line| match (line.strip_prefix("error: "), line.chars().count()) {
            (_, ..=80) => line.to_owned(),
            (Some(rest), _) => wrapped("error: ", rest),
            (None, _) => wrapped("", line),
        });
        lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
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
            RunError::Workers(reason) => Failure::Undoable(reason),
            RunError::Store(error) => Failure::Store(error),
            RunError::Interrupted => Failure::Interrupted("nothing was run"),
        }
    }
}

impl From<ResumeError> for Failure {
    fn from(error: ResumeError) -> Failure {
        match error {
            ResumeError::Store(error) => Failure::Store(error),
            ResumeError::Refused(reason) => Failure::Usage(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_wrapped_and_the_lines_that_it_quotes_stay() {
        let quoted = "  File \"x\",   line 1";
        let failure = Failure::Undoable(format!("{}\n{quoted}", "word ".repeat(30).trim_end()));
        let told = failure.told();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), 4, "{told}");
        assert!(lines[0].starts_with("error: word") && lines[1].starts_with("       word"), "{told}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{told}");
        assert_eq!(lines[3], quoted);
    }
}
