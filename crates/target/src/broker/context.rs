//! What all parts of the broker share while a packet is handled.

use super::memory::Memory;
use super::record::{Cause, Lines, Trace};
use plimsoll_codec::mqtt::QoS;
use plimsoll_model::Nanos;
use std::cell::RefCell;
use std::rc::Rc;

/// What all parts share.
pub struct Context {
    /// The present, as of the latest reading.
    pub now: Nanos,
    /// The bound of what is kept.
    pub memory: Rc<Memory>,
    /// Most deliveries handed to one connection before others have their turn.
    pub most_handed: u64,
    /// Deliveries that were dropped because of the memory bound.
    pub dropped_for_memory: u64,
    /// Where messages write their lines, if there is a record.
    pub lines: Option<Rc<RefCell<Lines>>>,
}

impl Context {
    /// A delivery does not take place.
    pub fn drop_delivery(&mut self, trace: Option<&Rc<Trace>>, cause: Cause) {
        if cause == Cause::Memory {
            self.dropped_for_memory += 1;
        }
        if let Some(trace) = trace {
            trace.dropped(cause);
        }
    }

    /// The line of a message that arrived.
    pub fn trace(&self, payload: &[u8], qos: QoS) -> Option<Rc<Trace>> {
        self.lines.as_ref().map(|lines| Trace::begin(payload, self.now, qos, lines))
    }
}
