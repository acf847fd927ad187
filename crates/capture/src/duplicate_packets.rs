//! Packets that stand in a capture more than once: on several interfaces, or on both sides of a bridge.

use plimsoll_model::Nanos;

const NEVER: Nanos = Nanos(i64::MIN);

/// The last packets of one direction, among which a duplicate is recognised by its print.
#[derive(Debug)]
pub(crate) struct DuplicatePackets<const LAST: usize> {
    /// Print and time; there are many connections, so that no room is spent on saying which are taken.
    seen: [(u64, Nanos); LAST],
    next: u8,
}

impl<const LAST: usize> Default for DuplicatePackets<LAST> {
    fn default() -> DuplicatePackets<LAST> {
        DuplicatePackets { seen: [(0, NEVER); LAST], next: 0 }
    }
}

impl<const LAST: usize> DuplicatePackets<LAST> {
    /// Whether that packet was seen before; else it is remembered. Where its sender does not count (`counted`), equal headers may
    /// be those of a repetition: then only what comes within `at_once` is a duplicate.
    pub fn has(&mut self, print: u64, at: Nanos, counted: bool, at_once: Nanos) -> bool {
        let same = |&(known, then): &(u64, Nanos)| {
            known == print && then != NEVER && (counted || at - then < at_once)
        };
        if self.seen.iter().any(same) {
            return true;
        }
        self.seen[usize::from(self.next) % LAST] = (print, at);
        self.next = self.next.wrapping_add(1);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_is_known_for_a_while_and_an_uncounted_one_only_at_once() {
        let mut duplicates = DuplicatePackets::<2>::default();
        let soon = Nanos(10);
        assert!(!duplicates.has(1, Nanos(0), true, soon) && duplicates.has(1, Nanos(500), true, soon));
        assert!(!duplicates.has(2, Nanos(0), false, soon) && duplicates.has(2, Nanos(9), false, soon));
        assert!(!duplicates.has(2, Nanos(100), false, soon), "a repetition");
        assert!(!duplicates.has(1, Nanos(101), true, soon), "too long ago");
    }
}
