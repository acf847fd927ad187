//! The message ids of a socket (RFC 7252 section 4.4): each is of use again only when nobody remembers it any more.

use plimsoll_model::Nanos;

/// Message ids that there are.
pub const IDS: usize = 1 << 16;
/// How long a peer may remember a message by its id: EXCHANGE_LIFETIME (RFC 7252 section 4.8.2).
pub const EXCHANGE_LIFETIME: Nanos = Nanos::from_secs(247);

/// See the module.
#[derive(Debug, Default)]
pub struct MessageIds {
    next: u16,
    /// Ids taken since they last began to come round, and when that was.
    taken: u32,
    round_at: Nanos,
    /// Whether they came round too soon.
    too_soon: bool,
}

impl MessageIds {
    /// Ids from that one on: a peer may remember those of an earlier socket with the same port.
    pub fn beginning_at(first: u16, now: Nanos) -> MessageIds {
        MessageIds { next: first, round_at: now, ..MessageIds::default() }
    }

    /// The next id that no message under way has; `None` where all have one.
    pub fn take(&mut self, now: Nanos, is_under_way: impl Fn(u16) -> bool) -> Option<u16> {
        for _ in 0..IDS {
            if self.taken == IDS as u32 {
                self.too_soon = now - self.round_at < EXCHANGE_LIFETIME;
                (self.taken, self.round_at) = (0, now);
            }
            self.taken += 1;
            let id = self.next;
            self.next = id.wrapping_add(1);
            if !is_under_way(id) {
                return Some(id);
            }
        }
        None
    }

    /// Whether ids have come round before the peer had to forget them, told once a round.
    pub fn came_round(&mut self) -> bool {
        std::mem::take(&mut self.too_soon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_round_and_leave_out_what_is_under_way() {
        let mut ids = MessageIds::beginning_at(65_534, Nanos::ZERO);
        let is_under_way = |id| id == 65_535 || id == 0;
        assert_eq!([0, 0].map(|_| ids.take(Nanos::ZERO, is_under_way)), [Some(65_534), Some(1)]);
        assert_eq!(ids.take(Nanos::ZERO, |_| true), None);
    }

    #[test]
    fn it_is_told_when_ids_come_round_before_a_peer_forgets_them() {
        for (gap, told) in [(Nanos::from_millis(3), true), (Nanos::from_millis(4), false)] {
            let mut ids = MessageIds::beginning_at(7, Nanos::ZERO);
            let take =
                |number: usize, ids: &mut MessageIds| ids.take(gap * number as i64, |_| false).unwrap();
            let first = take(0, &mut ids);
            (1..IDS).for_each(|number| assert_ne!(take(number, &mut ids), first));
            assert!(!ids.came_round());
            assert_eq!(take(IDS, &mut ids), first);
            assert_eq!([0, 0].map(|_| ids.came_round()), [told, false]);
        }
    }
}
