//! What goes into an opener, and what comes out of it.

use plimsoll_model::Nanos;
use std::ops::Range;

/// What became of a direction.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// It goes on with those bytes.
    Data(&'a [u8]),
    /// So many bytes are not in the capture.
    Gap(u64),
    /// It has ended.
    End,
}

/// What lies under TLS.
#[derive(Debug, Default)]
pub struct Clear {
    /// Of all parts.
    pub bytes: Vec<u8>,
    /// In their order.
    pub parts: Vec<Part>,
}

/// A part of what lies under TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The direction that says it.
    pub direction: usize,
    /// When the record was complete.
    pub at: Nanos,
    /// What it is.
    pub what: What,
}

/// See [`Piece`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It goes on with those bytes of [`Clear::bytes`].
    Data(Range<usize>),
    /// Some bytes are missing; how many is not known.
    Gap,
    /// It has ended.
    End,
}

impl Clear {
    pub(super) fn tell(&mut self, direction: usize, at: Nanos, what: What) {
        self.parts.push(Part { direction, at, what });
    }
}
