//! Bytes on their way to a socket.

/// Bytes kept allocated for a connection that sends little.
const SMALL: usize = 64 * 1024;
/// Written bytes that are removed before the rest is written.
const MOST_WRITTEN: usize = 1024 * 1024;

/// Bytes that wait for a socket.
#[derive(Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    /// How many of them the socket has taken.
    written: usize,
    /// Bytes that the socket has taken since the connection began.
    total: u64,
}

impl Outgoing {
    /// Where packets are appended.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What the socket has not taken.
    pub fn rest(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// How many bytes the socket has not taken.
    pub fn waiting(&self) -> usize {
        self.bytes.len().saturating_sub(self.written)
    }

    /// Bytes that the socket has taken since the connection began.
    pub fn sent(&self) -> u64 {
        self.total
    }

    /// Bytes that were appended since the connection began.
    pub fn appended(&self) -> u64 {
        self.total + self.waiting() as u64
    }

    /// The socket has taken so many more bytes.
    pub fn advance(&mut self, count: usize) {
        self.written += count;
        self.total += count as u64;
        if self.written >= self.bytes.len() {
            // A connection that once had a burst does not keep its memory.
            if self.bytes.capacity() > SMALL && self.bytes.len() < self.bytes.capacity() / 8 {
                self.bytes = Vec::new();
            }
            self.bytes.clear();
            self.written = 0;
        } else if self.written > MOST_WRITTEN {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_socket_took_is_counted_and_removed() {
        let mut out = Outgoing::default();
        out.bytes().extend_from_slice(b"abcdef");
        out.advance(2);
        assert_eq!((out.rest(), out.waiting(), out.sent(), out.appended()), (&b"cdef"[..], 4, 2, 6));
        out.advance(4);
        assert_eq!((out.rest(), out.waiting(), out.sent(), out.appended()), (&b""[..], 0, 6, 6));
    }
}
