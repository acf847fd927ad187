//! The resident memory of a station: what it needs at first, what it fills in its first minutes, what a collector of garbage lets
//! grow and takes back, what changes from reading to reading, and what it leaks.

use crate::spec::{Fault, FaultKind};
use plimsoll_model::Nanos;
use plimsoll_stats::distribution::random;
use std::f64::consts::LN_2;

/// Names the streams of random numbers: of a station, and of a reading of it.
const STATION: u64 = 0x6d65_6d6f_7279_0000;
const READING: u64 = 0x6d65_6d6f_7279_0001;
const MEBIBYTE: f64 = 1_048_576.0;

/// See the module. Sizes in bytes, times in seconds.
#[derive(Clone, Debug)]
pub struct Memory {
    seed: u64,
    at_first: f64,
    filled: f64,
    half_filled_after: f64,
    garbage: f64,
    collected_every: f64,
    varies_by: f64,
    /// From when to when, and how many bytes a second.
    leaks: Vec<(Nanos, Nanos, f64)>,
}

impl Memory {
    /// That of the station in that position; stations and seeds differ in all of it.
    pub fn of(position: usize, faults: &[Fault], seed: u64) -> Memory {
        let mut draws = random(seed, &[STATION, position as u64]);
        let mut between = |low: f64, high: f64| low + (high - low) * draws.fraction();
        let leak = |fault: &Fault| match fault.kind {
            FaultKind::Leak(station, rate) if station.is_none_or(|station| station == position) => {
                Some((fault.from, fault.to, rate))
            }
            _ => None,
        };
        Memory {
            seed,
            at_first: between(20.0, 200.0) * MEBIBYTE,
            filled: between(0.0, 16.0) * MEBIBYTE,
            half_filled_after: between(5.0, 40.0),
            garbage: between(0.0, 2.0) * MEBIBYTE,
            collected_every: between(5.0, 40.0),
            varies_by: between(0.0, 0.3) * MEBIBYTE,
            leaks: faults.iter().filter_map(leak).collect(),
        }
    }

    /// Its bytes at a time.
    pub fn at(&self, now: Nanos) -> u64 {
        let seconds = now.as_secs_f64();
        let filled = self.filled * (1.0 - (-seconds * LN_2 / self.half_filled_after).exp());
        let garbage = self.garbage * (seconds / self.collected_every).fract();
        let varied = self.varies_by * random(self.seed, &[READING, now.0 as u64]).fraction();
        let leaked =
            |(from, to, rate): &(Nanos, Nanos, f64)| (now.min(*to) - *from).as_secs_f64().max(0.0) * rate;
        (self.at_first + filled + garbage + varied + self.leaks.iter().map(leaked).sum::<f64>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_adds_its_rate_from_its_beginning_on() {
        let leak = Fault {
            kind: FaultKind::Leak(Some(0), 1024.0),
            from: Nanos::from_secs(100),
            to: Nanos::from_secs(200),
        };
        let (clean, leaking) = (Memory::of(0, &[], 7), Memory::of(0, std::slice::from_ref(&leak), 7));
        for (at, leaked) in [(50, 0), (100, 0), (150, 50 << 10), (200, 100 << 10), (900, 100 << 10)] {
            let at = Nanos::from_secs(at);
            assert_eq!(leaking.at(at) - clean.at(at), leaked);
        }
        let other = (Memory::of(1, &[leak], 7), Memory::of(1, &[], 7));
        assert_eq!(other.0.at(Nanos::from_secs(150)), other.1.at(Nanos::from_secs(150)));
        assert_ne!(other.1.at(Nanos::ZERO), clean.at(Nanos::ZERO));
    }
}
