//! What was asked of the world outside, each thing once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Answers by what was asked for.
pub(crate) struct InputCache<T>(Mutex<HashMap<String, T>>);

impl<T> Default for InputCache<T> {
    fn default() -> Self {
        InputCache(Mutex::default())
    }
}

impl<T: Clone> InputCache<T> {
    /// The answer that is known, else the one that is given now, which is kept.
    pub fn get(&self, name: &str, ask: impl FnOnce() -> T) -> T {
        let known = self.answers().get(name).cloned();
        known.unwrap_or_else(|| {
            let answer = ask();
            self.answers().insert(name.to_owned(), answer.clone());
            answer
        })
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<String, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
