//! The way between generator and platform: packets take their time, are lost and sent again, and keep their order on each
//! connection, as TCP does.

use crate::spec::{Fault, FaultKind, NetworkSpec};
use plimsoll_model::Nanos;
use plimsoll_stats::distribution::{InterArrival, Random, random};

/// Names its stream of random numbers.
const STREAM: u64 = 0x006e_6574_776f_726b;
/// How long the sender waits before it sends a packet again for the first time (Linux: RTO_MIN); then twice as long.
const SENT_AGAIN_AFTER: Nanos = Nanos::from_millis(200);
/// So often a packet is sent again at most.
const MOST_TIMES: u32 = 6;

/// See the module.
#[derive(Debug)]
pub struct Network {
    spec: NetworkSpec,
    faults: Vec<Fault>,
    random: Random,
    /// Packets that were sent again.
    pub sent_again: u64,
    /// Packets that were sent.
    pub sent: u64,
}

impl Network {
    /// A network of that kind, with those of the faults that are its own.
    pub fn new(spec: NetworkSpec, faults: &[Fault], seed: u64) -> Network {
        let own =
            |fault: &&Fault| matches!(fault.kind, FaultKind::NetworkDelay(_) | FaultKind::NetworkLoss(_));
        let faults = faults.iter().filter(own).cloned().collect();
        Network { spec, faults, random: random(seed, &[STREAM]), sent_again: 0, sent: 0 }
    }

    /// Something goes wrong with it by order.
    pub fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// When a packet that is sent then arrives, on a connection whose packet before arrived at `last`.
    pub fn transit(&mut self, at: Nanos, last: &mut Nanos) -> Nanos {
        self.sent += 1;
        let (mut begin, mut pause) = (at, SENT_AGAIN_AFTER);
        for _ in 0..MOST_TIMES {
            if !self.is_lost(begin) {
                break;
            }
            self.sent_again += 1;
            begin += pause;
            pause = pause * 2;
        }
        *last = (*last).max(begin + self.one_way(begin));
        *last
    }

    /// There and back, for a probe that begins then; `None` where it is lost.
    pub fn round_trip(&mut self, at: Nanos) -> Option<Nanos> {
        let lost = self.is_lost(at) | self.is_lost(at);
        (!lost).then(|| self.one_way(at) + self.one_way(at))
    }

    fn is_lost(&mut self, at: Nanos) -> bool {
        let share = self.faults.iter().filter(|fault| fault.is_on(at)).map(|fault| match fault.kind {
            FaultKind::NetworkLoss(share) => share,
            _ => 0.0,
        });
        let share: f64 = share.sum();
        share > 0.0 && self.random.fraction() < share
    }

    fn one_way(&mut self, at: Nanos) -> Nanos {
        let more = self.faults.iter().filter(|fault| fault.is_on(at)).map(|fault| match fault.kind {
            FaultKind::NetworkDelay(by) => by,
            _ => Nanos::ZERO,
        });
        let more: Nanos = more.sum();
        let jitter = match self.spec.jitter {
            Nanos::ZERO => 0.0,
            jitter => jitter.0 as f64 * InterArrival::Exponential.sample(&mut self.random),
        };
        self.spec.round_trip / 2 + more + Nanos(jitter as i64)
    }
}
