//! What scenarios took from the world outside, each thing once: all combinations of a matrix are of one state of the world,
//! however long their runs take.

use crate::Environment;
use crate::resolve::Feeds;
use std::cell::RefCell;
use std::collections::HashMap;

/// Answers by what was asked for.
pub(crate) struct Answers<T>(RefCell<HashMap<String, T>>);

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Answers(RefCell::default())
    }
}

impl<T: Clone> Answers<T> {
    /// The answer that is known, else the one that is given now, which is kept.
    pub fn get(&self, name: &str, ask: impl FnOnce() -> T) -> T {
        let known = self.0.borrow().get(name).cloned();
        known.unwrap_or_else(|| {
            let answer = ask();
            self.0.borrow_mut().insert(name.to_owned(), answer.clone());
            answer
        })
    }
}

/// Files, variables and feeds that were read.
#[derive(Default)]
pub(crate) struct Outside {
    files: Answers<Result<String, String>>,
    variables: Answers<Option<String>>,
    /// The feeds among the files.
    pub feeds: Feeds,
}

impl Outside {
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
