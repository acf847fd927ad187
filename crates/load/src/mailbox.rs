//! Deliveries on their way between load threads, without waiting and without allocating once it has grown.

use crate::ledger::Delivery;
use std::sync::{Mutex, PoisonError, TryLockError};

/// Where the other shards leave what one shard owns.
#[derive(Debug, Default)]
pub struct Mailbox(Mutex<Vec<Delivery>>);

impl Mailbox {
    /// Leaves deliveries, unless somebody else is at the mailbox just now: then they stay, for the next try.
    pub fn try_leave(&self, deliveries: &mut Vec<Delivery>) {
        match self.0.try_lock() {
            Ok(mut inside) => inside.append(deliveries),
            Err(TryLockError::Poisoned(inside)) => inside.into_inner().append(deliveries),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Leaves deliveries for certain.
    pub fn leave(&self, deliveries: &mut Vec<Delivery>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(deliveries);
    }

    /// Takes everything out, into an empty vector.
    pub fn take(&self, into: &mut Vec<Delivery>) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !inside.is_empty() {
            std::mem::swap(&mut *inside, into);
        }
    }
}
