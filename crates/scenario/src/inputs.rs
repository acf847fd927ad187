//! What scenarios took from the world outside, each thing once: all combinations of a matrix are of one state of the world,
//! however long their runs take.

use crate::environment::Environment;
use crate::input_cache::InputCache;
use plimsoll_model::ArrivalTrace;
use plimsoll_template::Texts;
use std::sync::Arc;

/// What was made of large files: all plans of a matrix share it.
#[derive(Default)]
pub(crate) struct Parsed {
    /// The rows of feeds.
    pub feeds: InputCache<Result<Arc<Texts>, String>>,
    /// Traces of arrivals.
    pub traces: InputCache<Result<Arc<ArrivalTrace>, String>>,
}

/// Files and variables that were read.
#[derive(Default)]
pub(crate) struct Inputs {
    files: InputCache<Result<String, String>>,
    variables: InputCache<Option<String>>,
    /// What was made of files.
    pub parsed: Parsed,
}

impl Inputs {
    /// Calls with an environment in which everything is read once, by whichever call needs it first.
    pub fn of<T>(&self, environment: &Environment<'_>, call: impl FnOnce(&Environment<'_>) -> T) -> T {
        let profile = |path: &str| self.files.get(path, || (environment.profile)(path));
        let variable = |name: &str| self.variables.get(name, || (environment.variable)(name));
        call(&Environment { profile: &profile, variable: &variable })
    }

    /// Calls with what was read so far.
    pub fn as_read<T>(&self, call: impl FnOnce(&Environment<'_>) -> T) -> T {
        let unread = |_: &str| Err("it was not read with the scenario".to_owned());
        self.of(&Environment { profile: &unread, variable: &|_| None }, call)
    }
}
