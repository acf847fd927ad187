//! The bound of what the broker keeps.

use std::cell::Cell;
use std::rc::Rc;

/// Bytes in use and their bound. What is small and short-lived is not counted.
pub struct Memory {
    used: Cell<usize>,
    limit: usize,
}

/// Bytes that are in use until this is dropped.
pub struct Held {
    memory: Rc<Memory>,
    bytes: usize,
}

impl Memory {
    /// Nothing is in use yet.
    pub fn new(limit: usize) -> Rc<Memory> {
        Rc::new(Memory { used: Cell::new(0), limit })
    }

    /// Whether nothing more may be kept that can be left out.
    pub fn is_full(&self) -> bool {
        self.used.get() >= self.limit
    }

    /// Whether even what came in without being asked for, incomplete packets, goes half of the bound beyond it.
    pub fn is_exhausted(&self) -> bool {
        self.used.get() >= self.limit.saturating_add(self.limit / 2)
    }

    /// Bytes in use.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.used.get()
    }

    /// So many bytes come into use.
    pub fn take(&self, bytes: usize) {
        self.used.set(self.used.get().saturating_add(bytes));
    }

    /// So many bytes are free again.
    pub fn give(&self, bytes: usize) {
        self.used.set(self.used.get().saturating_sub(bytes));
    }

    /// So many bytes come into use until the result is dropped.
    pub fn hold(self: &Rc<Memory>, bytes: usize) -> Held {
        self.take(bytes);
        Held { memory: Rc::clone(self), bytes }
    }
}

impl Held {
    /// From now on so many bytes are held.
    pub fn resize(&mut self, bytes: usize) {
        self.memory.give(self.bytes);
        self.memory.take(bytes);
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.give(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_free_again() {
        let memory = Memory::new(100);
        let mut held = memory.hold(60);
        memory.take(30);
        assert!(!memory.is_full());
        held.resize(70);
        assert!(memory.is_full() && !memory.is_exhausted());
        memory.take(50);
        assert!(memory.is_exhausted());
        memory.give(50);
        drop(held);
        memory.give(30);
        assert_eq!(memory.used(), 0);
    }
}
