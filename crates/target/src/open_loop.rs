//! What clients that wait for nobody would have met at a station: its queue, computed. A generator that waits for an
//! answer before it sends again leaves out just the messages that would have met the queue at its longest, which is
//! called coordinated omission.

use plimsoll_model::{Histogram, Nanos};
use plimsoll_stats::queue::Settings;
use plimsoll_stats::system::{Discipline, System};

/// Times from arrival to departure of messages that arrive evenly at `rate` per second for so long. What is refused has
/// none.
pub fn times(settings: Settings, discipline: Discipline, rate: f64, span: Nanos) -> Histogram {
    let mut system = System::new(settings, discipline);
    let mut times = Histogram::new();
    let count = (span.as_secs_f64() * rate) as usize;
    let arrival = |number: usize| Nanos::from_secs_f64(number as f64 / rate);
    let mut take_departed = |system: &mut System| {
        while let Some((number, service)) = system.take_departed() {
            times.record(service.departure - arrival(number));
        }
    };
    for number in 0..count {
        system.arrive(arrival(number), number);
        take_departed(&mut system);
    }
    while let Some(change) = system.next_change() {
        system.advance(change);
        take_departed(&mut system);
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_stats::queue::{ServiceTime, Stall};
    use plimsoll_stats::system::Quota;

    /// 1 ms of service at 500/s: all take 1 ms but those that come in a stall of 200 ms each 2 s, or in the 200 ms after
    /// it in which the queue empties, which are a fifth.
    #[test]
    fn a_stall_meets_everybody_who_comes_meanwhile() {
        let milli = Nanos::from_millis(1);
        let stall = Some(Stall { every: milli * 2000, length: milli * 200 });
        let service = ServiceTime::Deterministic(milli);
        let settings = Settings { workers: 1, service, limit: None, stall, seed: 1 };
        let times = times(settings, Discipline::default(), 500.0, Nanos::from_secs(20));
        assert_eq!(times.count(), 10_000);
        let near = |q: f64, millis: f64| {
            let time = times.quantile(q).unwrap().as_secs_f64() * 1e3;
            assert!((time / millis - 1.0).abs() < 0.02, "{q}: {time} ms");
        };
        near(0.5, 1.0);
        // Delays fall evenly from 201 ms to 1 ms among the fifth: of 9 stalls in 20 s, 18 % of all.
        near(0.99, 201.0 * (1.0 - 0.01 / 0.18));
        near(1.0, 201.0);
    }

    /// 1 ms of work at 500/s needs 10 ms in each 20 ms.
    #[test]
    fn a_quota_meets_those_who_come_when_it_is_used_up() {
        let milli = Nanos::from_millis(1);
        let service = ServiceTime::Deterministic(milli);
        let settings = Settings { workers: 1, service, limit: None, stall: None, seed: 1 };
        let longest = |work| {
            let quota = Some(Quota { work: milli * work, period: milli * 20 });
            let discipline = Discipline { quota, ..Discipline::default() };
            times(settings, discipline, 500.0, milli * 40).max().unwrap().as_secs_f64() * 1e3
        };
        // The histogram has three digits.
        assert!((longest(10) - 1.0).abs() < 1e-3, "{} ms", longest(10));
        // The tenth message, of 18 ms, is served from 20 on. So nine of the second period are served when that of 36 ms
        // comes, which waits until 40.
        assert!((longest(9) - 5.0).abs() < 5e-3, "{} ms", longest(9));
    }
}
