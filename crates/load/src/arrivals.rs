//! When operations of the open model are due. Pure and seeded: the same plan gives the same due times on any
//! number of load threads, because a thread walks the whole process and keeps only what belongs to its devices.

use plimsoll_model::{DeviceId, Nanos};
use plimsoll_scenario::plan::ArrivalsPer;
use plimsoll_stats::distribution::{InterArrival, Random, random};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One operation that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// When, counted from the beginning of the level's warm-up.
    pub due: Nanos,
    /// Which device.
    pub device: DeviceId,
}

/// What an arrival process depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    /// Distribution of the gaps.
    pub gaps: InterArrival,
    /// One process, or one for each device.
    pub per: ArrivalsPer,
    /// Operations per second over the whole population.
    pub rate: f64,
    /// Devices of the whole population.
    pub devices: u32,
    /// The run's seed.
    pub seed: u64,
    /// The level, so that levels differ.
    pub level: u16,
}

/// Which devices a load thread owns: those whose number leaves `index` when divided by `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// This thread.
    pub index: u32,
    /// All threads.
    pub of: u32,
}

impl Share {
    /// The whole population.
    pub const WHOLE: Share = Share { index: 0, of: 1 };

    /// Whether a number belongs to this share.
    #[inline]
    pub fn owns(self, number: u32) -> bool {
        number % self.of == self.index
    }
}

/// The arrivals of one share up to an end, in the order of due times.
pub struct Arrivals {
    process: Process,
    share: Share,
    end: Nanos,
    source: Source,
}

enum Source {
    /// Devices take turns, so each gets the same load.
    Population { random: Random, at: f64, device: u32 },
    /// The next arrival of every device; each has a generator of its own.
    Devices { next: BinaryHeap<Reverse<(i64, u32)>>, state: Vec<(Random, f64)> },
}

impl Arrivals {
    /// The arrivals with `due < end`.
    pub fn new(process: Process, share: Share, end: Nanos) -> Arrivals {
        let source = match process.per {
            ArrivalsPer::Population => Source::Population {
                random: random(process.seed, &[u64::from(process.level), u64::MAX]),
                at: 0.0,
                device: 0,
            },
            ArrivalsPer::Device => {
                let mean = device_mean(&process);
                let owned = (0..process.devices).filter(|&device| share.owns(device));
                let mut next = BinaryHeap::new();
                let mut state = Vec::new();
                for device in owned {
                    let mut random = random(process.seed, &[u64::from(process.level), u64::from(device)]);
                    // As if the device had been sending for long, and regular ones do not fire together.
                    let at = process.gaps.sample_first(&mut random) * mean;
                    next.push(Reverse((at as i64, device)));
                    state.push((random, at));
                }
                Source::Devices { next, state }
            }
        };
        Arrivals { process, share, end, source }
    }
}

fn device_mean(process: &Process) -> f64 {
    1e9 / process.rate * f64::from(process.devices)
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        match &mut self.source {
            Source::Population { random, at, device } => loop {
                *at += self.process.gaps.sample(random) * 1e9 / self.process.rate;
                let due = Nanos(*at as i64);
                if due >= self.end {
                    return None;
                }
                let owner = *device;
                *device = (owner + 1) % self.process.devices;
                if self.share.owns(owner) {
                    return Some(Arrival { due, device: DeviceId(owner) });
                }
            },
            Source::Devices { next, state } => {
                let Reverse((due, device)) = next.pop()?;
                if Nanos(due) >= self.end {
                    return None;
                }
                let (random, at) = state.get_mut((device / self.share.of) as usize)?;
                *at += self.process.gaps.sample(random) * device_mean(&self.process);
                next.push(Reverse((*at as i64, device)));
                Some(Arrival { due: Nanos(due), device: DeviceId(device) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(gaps: InterArrival, per: ArrivalsPer) -> Process {
        Process { gaps, per, rate: 1000.0, devices: 7, seed: 42, level: 3 }
    }

    const END: Nanos = Nanos::from_secs(100);

    #[test]
    fn any_number_of_threads_sees_the_same_due_times() {
        for per in [ArrivalsPer::Population, ArrivalsPer::Device] {
            for gaps in
                [InterArrival::Exponential, InterArrival::Constant, InterArrival::Gamma { shape: 0.5 }]
            {
                let whole: Vec<_> = Arrivals::new(process(gaps, per), Share::WHOLE, END).collect();
                for threads in [2, 3, 8] {
                    let mut parts: Vec<_> = (0..threads)
                        .flat_map(|index| {
                            Arrivals::new(process(gaps, per), Share { index, of: threads }, END)
                        })
                        .collect();
                    parts.sort_by_key(|arrival| (arrival.due, arrival.device));
                    let mut expected = whole.clone();
                    expected.sort_by_key(|arrival| (arrival.due, arrival.device));
                    assert_eq!(parts, expected, "{gaps:?} {per:?} on {threads} threads");
                }
            }
        }
    }

    #[test]
    fn due_times_rise_and_end_before_the_end() {
        let arrivals: Vec<_> =
            Arrivals::new(process(InterArrival::Exponential, ArrivalsPer::Device), Share::WHOLE, END)
                .collect();
        assert!(arrivals.windows(2).all(|pair| pair[0].due <= pair[1].due));
        assert!(arrivals.last().is_some_and(|last| last.due < END));
    }

    /// Counts in disjoint windows of a Poisson process are independent with variance equal to their mean; with
    /// 1,000 windows of mean 100 the index of dispersion has a standard deviation of sqrt(2/999) = 0.045, and the
    /// lag-1 correlation one of 0.032. Four of each are allowed.
    #[test]
    fn poisson_counts_are_dispersed_and_independent_whether_aggregate_or_per_device() {
        for per in [ArrivalsPer::Population, ArrivalsPer::Device] {
            let mut counts = vec![0.0f64; 1000];
            for arrival in Arrivals::new(process(InterArrival::Exponential, per), Share::WHOLE, END) {
                counts[(arrival.due.0 / 100_000_000) as usize] += 1.0;
            }
            let mean = counts.iter().sum::<f64>() / 1000.0;
            let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 999.0;
            let lag_1 = counts.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>()
                / (999.0 * variance);
            assert!((mean - 100.0).abs() < 4.0 * (100.0f64 / 1000.0).sqrt(), "{per:?}: mean {mean}");
            assert!((variance / mean - 1.0).abs() < 0.18, "{per:?}: dispersion {}", variance / mean);
            assert!(lag_1.abs() < 0.13, "{per:?}: lag-1 correlation {lag_1}");
        }
    }

    /// 10,000 devices that send every 100 s on average, watched for 10 s: 1,000 arrivals are expected, and with
    /// devices independent of each other their number varies by less than the square root of that; four of it are
    /// allowed.
    #[test]
    fn slow_devices_have_the_offered_rate_from_the_beginning() {
        for gaps in [
            InterArrival::Constant,
            InterArrival::Exponential,
            InterArrival::Uniform { spread: 1.0 },
            InterArrival::Normal { cv: 0.5 },
            InterArrival::Gamma { shape: 0.5 },
            InterArrival::Gamma { shape: 4.0 },
        ] {
            let process = Process { rate: 100.0, devices: 10_000, ..process(gaps, ArrivalsPer::Device) };
            let count = Arrivals::new(process, Share::WHOLE, Nanos::from_secs(10)).count();
            assert!(count.abs_diff(1000) < 127, "{gaps:?}: {count}");
        }
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced_and_shared_equally() {
        let arrivals: Vec<_> =
            Arrivals::new(process(InterArrival::Constant, ArrivalsPer::Population), Share::WHOLE, END)
                .collect();
        assert!(arrivals.windows(2).all(|pair| (pair[1].due - pair[0].due).0.abs_diff(1_000_000) <= 1));
        let of_first = arrivals.iter().filter(|arrival| arrival.device == DeviceId(0)).count();
        assert!(of_first.abs_diff(arrivals.len() / 7) <= 1);
    }

    #[test]
    fn levels_and_seeds_differ() {
        let base = process(InterArrival::Exponential, ArrivalsPer::Population);
        let first = |process| Arrivals::new(process, Share::WHOLE, END).next();
        assert_ne!(first(base), first(Process { level: 4, ..base }));
        assert_ne!(first(base), first(Process { seed: 43, ..base }));
    }
}
