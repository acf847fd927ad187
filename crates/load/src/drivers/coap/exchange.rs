//! A request under way over datagrams, without I/O: when it is sent again, and when nobody waits for it any more.

use super::transfer::{Order, Room, Transfer};
use crate::driver::Event;
use plimsoll_codec::coap::{Kind, LARGEST_DATAGRAM};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::CoapPlan;

/// Largest content of a record of DTLS (RFC 6347 section 4.1), in bytes.
const LARGEST_RECORD: usize = 1 << 14;

/// See the module. Its memory is used again.
#[derive(Debug, Default)]
pub struct Exchange {
    /// What is sent.
    pub transfer: Transfer,
    /// What was written last.
    pub datagram: Vec<u8>,
    /// Message id of that.
    pub id: u16,
    /// When the datagram was first handed to the kernel.
    pub sent_at: Nanos,
    /// When it was handed to the kernel last.
    pub last_at: Nanos,
    /// How often the datagram was handed to the kernel.
    pub sendings: u32,
    /// Whether it was acknowledged and the answer is to come by itself.
    pub acknowledged: bool,
    /// The wait until it is sent again; doubles.
    timeout: Nanos,
    /// When it is looked at again.
    pub next_at: Nanos,
    give_up_at: Nanos,
}

impl Exchange {
    /// Begins with the options and body that stand in its transfer.
    pub fn begin(&mut self, order: Order, code: u8, now: Nanos, plan: &CoapPlan) {
        self.give_up_at = now + plan.timeout;
        let largest = if plan.dtls.is_some() { LARGEST_RECORD } else { LARGEST_DATAGRAM };
        let room = Room {
            largest: Some(largest),
            block_size: plan.block_size,
            takes_many: false,
            over_stream: false,
        };
        self.transfer.begin(order, code, room);
    }

    /// Writes the request that is next, to be repeated for the first time after so long.
    pub fn write(&mut self, id: u16, token: &[u8], confirmable: bool, timeout: Nanos) {
        let kind = if confirmable { Kind::Confirmable } else { Kind::NonConfirmable };
        (self.id, self.sendings, self.acknowledged, self.timeout) = (id, 0, !confirmable, timeout);
        self.datagram.clear();
        self.transfer.request(kind, id, token).encode(&mut self.datagram);
    }

    /// That its message was sent; `None` where that was told before.
    pub fn tell_sent(&mut self, at: Nanos) -> Option<Event> {
        self.transfer.tell_sent(self.datagram.len() as u32, at)
    }

    /// Notes that the datagram was handed to the kernel, and when it is looked at again; how long after the last time.
    pub fn was_sent(&mut self, at: Nanos) -> Nanos {
        let after = at - std::mem::replace(&mut self.last_at, at);
        if self.sendings == 0 {
            self.sent_at = at;
        } else {
            self.timeout = self.timeout * 2;
        }
        self.sendings += 1;
        self.next_at = match self.acknowledged {
            true => self.give_up_at,
            false => (at + self.timeout).min(self.give_up_at),
        };
        after
    }

    /// Whether nobody waits for its answer any more.
    pub fn is_over(&self, now: Nanos, plan: &CoapPlan) -> bool {
        now >= self.give_up_at || (!self.acknowledged && self.sendings > plan.max_retransmit)
    }

    /// The platform has the request, and its answer comes by itself. Returns the round trip where it is known: not of
    /// what was sent more than once, for nobody knows which one was answered (Karn).
    pub fn acknowledge(&mut self, at: Nanos) -> Option<Nanos> {
        let first = !std::mem::replace(&mut self.acknowledged, true);
        self.next_at = self.give_up_at;
        (first && self.sendings == 1).then(|| (at - self.sent_at).max(Nanos::ZERO))
    }
}
