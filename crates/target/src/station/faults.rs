//! What befalls deliveries, by seeded chance.

use plimsoll_stats::distribution::{Random, random};

const FAULT_STREAM: u64 = 0x6661_756c_7400;

/// Probabilities of faults, each from 0 to 1. A message that is dropped has no other fault.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Acknowledged, but not delivered.
    pub drop: f64,
    /// Delivered twice.
    pub duplicate: f64,
    /// Held back until a later message of the same connection was delivered.
    pub reorder: f64,
}

/// What befalls one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    pub drop: bool,
    pub duplicate: bool,
    pub reorder: bool,
}

/// Draws faults, message n the n-th of the stream.
pub struct Draws {
    faults: Faults,
    random: Random,
}

impl Draws {
    pub fn new(faults: Faults, seed: u64) -> Draws {
        Draws { faults, random: random(seed, &[FAULT_STREAM]) }
    }

    pub fn next(&mut self) -> Fault {
        let Faults { drop, duplicate, reorder } = self.faults;
        let [drop, duplicate, reorder] = [drop, duplicate, reorder].map(|p| self.random.fraction() < p);
        Fault { drop, duplicate: duplicate && !drop, reorder: reorder && !drop }
    }
}
