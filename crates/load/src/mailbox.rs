//! Receipts on their way between load threads, without waiting and without allocating once it has grown.

use crate::ledger::Receipt;
use std::sync::{Mutex, PoisonError, TryLockError};

/// Where the other shards leave what one shard owns.
#[derive(Debug, Default)]
pub struct Mailbox(Mutex<Vec<Receipt>>);

impl Mailbox {
    /// Leaves receipts, unless somebody else is at the mailbox just now: then they stay, for the next try.
    pub fn try_leave(&self, receipts: &mut Vec<Receipt>) {
        match self.0.try_lock() {
            Ok(mut inside) => inside.append(receipts),
            Err(TryLockError::Poisoned(inside)) => inside.into_inner().append(receipts),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Leaves receipts for certain.
    pub fn leave(&self, receipts: &mut Vec<Receipt>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(receipts);
    }

    /// Takes everything out, into an empty vector.
    pub fn take(&self, into: &mut Vec<Receipt>) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !inside.is_empty() {
            std::mem::swap(&mut *inside, into);
        }
    }
}
