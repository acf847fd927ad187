//! Bytes that have come and are taken from the front as they are understood.

/// Room that stays although little of it is used, bytes: enough for what most devices say at once.
const KEPT: usize = 1 << 16;

/// Bytes that have come. Taking them costs each of them one move at most, however few are taken at a time.
#[derive(Debug, Default)]
pub struct Received {
    bytes: Vec<u8>,
    /// Of them, from the front.
    taken: usize,
}

impl Received {
    /// More has come.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// What was not taken yet.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Takes so many bytes from the front, or all where there are less.
    pub fn take(&mut self, count: usize) {
        self.taken = self.bytes.len().min(self.taken + count);
        let rest = self.bytes.len() - self.taken;
        // What moves is no more than what was taken since the last time.
        if rest <= self.taken {
            self.bytes.drain(..self.taken);
            self.taken = 0;
            // Who has said much once says little now: nobody keeps memory that is not used.
            if self.bytes.capacity() > KEPT.max(4 * rest) {
                self.bytes.shrink_to_fit();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Were the rest moved with each byte that is taken, this would move 2 TiB.
    #[test]
    fn taking_byte_by_byte_moves_little() {
        let mut received = Received::default();
        received.add(&[7; 1 << 21]);
        for left in (0..1 << 21).rev() {
            received.take(1);
            assert_eq!(received.rest().len(), left);
        }
    }

    #[test]
    fn memory_that_is_not_used_is_given_back() {
        let mut received = Received::default();
        received.add(&[7; 1 << 20]);
        received.take((1 << 20) - 1);
        assert!((received.rest(), received.bytes.capacity() <= KEPT) == (&[7][..], true));
    }

    proptest! {
        #[test]
        fn what_is_left_is_what_came_without_what_was_taken(
            steps in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..50), 0_usize..60), 0..50),
        ) {
            let (mut received, mut expected) = (Received::default(), Vec::new());
            for (bytes, count) in steps {
                received.add(&bytes);
                expected.extend(bytes);
                received.take(count);
                expected.drain(..count.min(expected.len()));
                prop_assert_eq!(received.rest(), &expected[..]);
            }
        }
    }
}
