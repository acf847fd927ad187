//! A queueing system whose truth is known: arrivals wait first-come first-served for one of several workers, which are
//! busy for drawn service times and may stand still on a schedule. Pure: the caller says when things arrive, the model
//! says at once when they depart. Where later arrivals have a say in that (locks, quotas, shared processors), it takes a
//! [`crate::system::System`].

use crate::distribution::{InterArrival, Random, random};
use plimsoll_model::Nanos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Names the stream of random numbers that service times are drawn from.
pub const SERVICE_STREAM: u64 = 0x7365_7276_6963_6500;

/// How long a worker is busy with one arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceTime {
    /// Always equally long.
    Deterministic(Nanos),
    /// Exponential with that mean.
    Exponential(Nanos),
    /// Lognormal.
    LogNormal {
        /// Its mean.
        mean: Nanos,
        /// Standard deviation divided by mean, positive.
        cv: f64,
    },
}

impl ServiceTime {
    /// Its mean.
    pub fn mean(&self) -> Nanos {
        match *self {
            ServiceTime::Deterministic(mean)
            | ServiceTime::Exponential(mean)
            | ServiceTime::LogNormal { mean, .. } => mean,
        }
    }

    /// Draws one, to the nanosecond.
    pub fn sample(&self, random: &mut Random) -> Nanos {
        let seconds = match *self {
            ServiceTime::Deterministic(time) => return time,
            ServiceTime::Exponential(mean) => mean.as_secs_f64() * InterArrival::Exponential.sample(random),
            ServiceTime::LogNormal { mean, cv } => {
                // Of exp(m + s Z): mean exp(m + s^2 / 2), cv^2 = exp(s^2) - 1.
                let variance = (1.0 + cv * cv).ln();
                mean.as_secs_f64() * (variance.sqrt() * random.normal() - variance / 2.0).exp()
            }
        };
        Nanos::from_secs_f64(seconds)
    }
}

/// When all workers stand still: from each multiple of `every` on, counted from time zero, for `length`. The service
/// under way goes on afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// From one beginning to the next.
    pub every: Nanos,
    /// How long, less than `every`.
    pub length: Nanos,
}

impl Stall {
    /// When work is done that begins at `from` and takes `work` without stalls.
    pub fn finish(&self, from: Nanos, work: Nanos) -> Nanos {
        let (every, length) = (i128::from(self.every.0.max(1)), i128::from(self.length.0));
        let running = (every - length).max(1);
        // Time since the end of the last stall that began at or before `from`; negative within it.
        let from = i128::from(from.0);
        let period = from.div_euclid(every);
        let first = if period >= 1 { length } else { 0 };
        let into = (from - period * every).max(first);
        let begun = period * every + into;
        let left = every - into;
        let work = i128::from(work.0);
        if work <= left {
            return Nanos((begun + work) as i64);
        }
        let beyond = work - left;
        // Every period after this one gives `running` of work; the last is used up to its end before a new one begins.
        let periods = (beyond - 1) / running;
        let rest = beyond - periods * running;
        Nanos(((period + 1 + periods) * every + length + rest).min(i128::from(i64::MAX)) as i64)
    }
}

/// What makes a queueing system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Servers of the queue, one at least.
    pub workers: usize,
    /// How long each is busy with one arrival.
    pub service: ServiceTime,
    /// Most arrivals that wait, those in service apart; `None` for any number.
    pub limit: Option<usize>,
    /// When everything stands still.
    pub stall: Option<Stall>,
    /// Seeds the service times: arrival n has the n-th of the stream, whether it is refused or not.
    pub seed: u64,
}

/// When an arrival is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// When a worker takes it up.
    pub begin: Nanos,
    /// When it is done.
    pub departure: Nanos,
}

/// A first-come first-served queue in front of equal workers. Departures are computed, so that nothing accumulates:
/// `begin = max(arrival, first worker free)`, `departure = begin + service`.
#[derive(Clone, Debug)]
pub struct Queue {
    settings: Settings,
    random: Random,
    /// When each worker is free.
    free: BinaryHeap<Reverse<Nanos>>,
    /// Beginnings of service, in the order of arrival, that were still to come when last looked at.
    begins: VecDeque<Nanos>,
}

impl Queue {
    /// An empty system.
    pub fn new(settings: Settings) -> Queue {
        Queue {
            settings,
            random: random(settings.seed, &[SERVICE_STREAM]),
            free: vec![Reverse(Nanos(i64::MIN)); settings.workers.max(1)].into(),
            begins: VecDeque::new(),
        }
    }

    /// Something arrives, no earlier than what arrived before; `None` where the queue is full.
    pub fn arrive(&mut self, at: Nanos) -> Option<Service> {
        let work = self.settings.service.sample(&mut self.random);
        while self.begins.front().is_some_and(|&begin| begin <= at) {
            self.begins.pop_front();
        }
        let mut first = self.free.peek_mut()?;
        let begin = first.0.max(at);
        if begin > at && self.settings.limit.is_some_and(|limit| self.begins.len() >= limit) {
            return None;
        }
        let departure = match &self.settings.stall {
            None => begin + work,
            Some(stall) => stall.finish(begin, work),
        };
        *first = Reverse(departure);
        if begin > at {
            self.begins.push_back(begin);
        }
        Some(Service { begin, departure })
    }

    /// Something arrives for which its server has no room: it takes its draw, so that those of the others stay the same,
    /// and no service.
    pub fn turn_away(&mut self) {
        let _ = self.settings.service.sample(&mut self.random);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Nanos = Nanos(1_000_000);

    fn deterministic(workers: usize, limit: Option<usize>, stall: Option<Stall>) -> Queue {
        Queue::new(Settings { workers, service: ServiceTime::Deterministic(MILLI), limit, stall, seed: 1 })
    }

    fn departures(queue: &mut Queue, arrivals: &[i64]) -> Vec<Option<i64>> {
        arrivals.iter().map(|&at| queue.arrive(MILLI * at).map(|s| s.departure.0 / MILLI.0)).collect()
    }

    #[test]
    fn one_worker_serves_in_order_and_two_side_by_side() {
        let arrivals = [0, 0, 0, 7, 7];
        let one = departures(&mut deterministic(1, None, None), &arrivals);
        assert_eq!(one, [1, 2, 3, 8, 9].map(Some));
        let two = departures(&mut deterministic(2, None, None), &arrivals);
        assert_eq!(two, [1, 1, 2, 8, 8].map(Some));
    }

    #[test]
    fn a_full_queue_refuses_until_a_place_is_free() {
        let mut queue = deterministic(1, Some(2), None);
        assert_eq!(departures(&mut queue, &[0, 0, 0, 0]), [Some(1), Some(2), Some(3), None]);
        // At 1 ms the second is taken up, which leaves a place.
        assert_eq!(departures(&mut queue, &[1, 1]), [Some(4), None]);
        let mut no_queue = deterministic(2, Some(0), None);
        assert_eq!(departures(&mut no_queue, &[0, 0, 0, 1]), [Some(1), Some(1), None, Some(2)]);
    }

    #[test]
    fn a_stall_stops_the_service_under_way() {
        let stall = Stall { every: MILLI * 10, length: MILLI * 4 };
        let finish = |from: i64, work: i64| stall.finish(MILLI * from, MILLI * work).0 / MILLI.0;
        // The first stall begins after one period, not at zero.
        assert_eq!(finish(0, 10), 10);
        assert_eq!(finish(0, 11), 15);
        assert_eq!(finish(9, 3), 16);
        assert_eq!([finish(10, 1), finish(13, 1), finish(14, 1)], [15, 15, 15]);
        assert_eq!([finish(14, 6), finish(14, 7), finish(14, 12), finish(14, 13)], [20, 25, 30, 35]);
        let mut queue = deterministic(1, None, Some(stall));
        assert_eq!(departures(&mut queue, &[9, 9, 12]), [10, 15, 16].map(Some));
    }

    /// Against the definition, a nanosecond at a time.
    #[test]
    fn the_closed_form_of_a_stall_agrees_with_a_walk() {
        let (every, length) = (7, 3);
        let stall = Stall { every: Nanos(every), length: Nanos(length) };
        let stands = |at: i64| at >= every && at % every < length;
        for from in 0..30 {
            for work in 1..40 {
                let (mut at, mut left) = (from, work);
                while left > 0 {
                    left -= i64::from(!stands(at));
                    at += 1;
                }
                assert_eq!(stall.finish(Nanos(from), Nanos(work)), Nanos(at), "{from} {work}");
            }
        }
    }

    /// Mean and coefficient of variation over 200,000 draws: a standard error of the mean is cv / 447 of it.
    #[test]
    fn service_times_have_the_mean_and_variation_that_they_say() {
        let laws = [
            (ServiceTime::Exponential(MILLI), 1.0),
            (ServiceTime::LogNormal { mean: MILLI, cv: 0.5 }, 0.5),
            (ServiceTime::LogNormal { mean: MILLI, cv: 1.0 }, 1.0),
        ];
        for (law, cv) in laws {
            let mut random = random(3, &[SERVICE_STREAM]);
            let draws: Vec<f64> = (0..200_000).map(|_| law.sample(&mut random).0 as f64 / 1e6).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
            assert!((mean - 1.0).abs() < 4.0 * cv / 447.0, "{law:?}: mean {mean}");
            assert!((variance.sqrt() / cv - 1.0).abs() < 0.03, "{law:?}: deviation {}", variance.sqrt());
            assert_eq!(law.mean(), MILLI);
        }
        assert_eq!(ServiceTime::Deterministic(MILLI).sample(&mut random(3, &[])), MILLI);
    }
}
