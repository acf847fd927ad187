//! What was asked of the world outside, each thing once.

use std::cell::RefCell;
use std::collections::HashMap;

/// InputCache by what was asked for.
pub(crate) struct InputCache<T>(RefCell<HashMap<String, T>>);

impl<T> Default for InputCache<T> {
    fn default() -> Self {
        InputCache(RefCell::default())
    }
}

impl<T: Clone> InputCache<T> {
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
