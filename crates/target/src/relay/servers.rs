//! The servers behind a relay, which clients get in turn.

use std::net::SocketAddr;

/// Gives one server after the other.
pub struct Servers {
    all: Vec<SocketAddr>,
    given: usize,
}

impl Servers {
    /// Begins with the first.
    pub fn new(all: Vec<SocketAddr>) -> Servers {
        Servers { all, given: 0 }
    }

    /// The server of the next client; `None` where there are none.
    pub fn next(&mut self) -> Option<SocketAddr> {
        let next = self.all.get(self.given % self.all.len().max(1)).copied();
        self.given = self.given.wrapping_add(1);
        next
    }
}
