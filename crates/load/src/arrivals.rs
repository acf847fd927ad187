//! When operations of the open model are due. Pure and seeded: the same plan gives the same due times on any
//! number of load threads.
//!
//! Even arrivals have a due time by number. Poisson arrivals of a population come from up to [`BLOCKS`] processes of their
//! own, whose number depends on the population alone and whose superposition is exactly Poisson; a thread walks those of its
//! devices. Arrivals for each device are a process for each. Any other process of a whole population cannot be divided: each
//! thread walks all of it and keeps what belongs to its devices. Where the load follows a curve, all of them are drawn as if it did
//! not, and moved to where the curve has offered as much ([`crate::time_change`]). A trace is played as it is ([`crate::replay`]).

use crate::replay::{Playing, Replay};
use crate::share::{BLOCKS, Share};
use crate::time_change::TimeChange;
use plimsoll_model::{ArrivalTrace, DeviceId, LoadCurve, Nanos};
use plimsoll_scenario::plan::ArrivalsPer;
use plimsoll_stats::distribution::{InterArrival, Random, random};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

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

/// Devices that a block of a Poisson process has at least, so that a device's own arrivals stay nearly even: with 64 in
/// turn, its gaps vary by an eighth of their mean.
const DEVICES_OF_BLOCK: u32 = 64;

/// Arrivals walked between two looks whether anybody still wants the result: some tens of milliseconds.
const WALKED_AT_ONCE: u64 = 1 << 18;

/// The arrivals of one share up to an end, in the order of due times.
pub struct Arrivals {
    source: Source,
    /// When what is drawn is due, where the load follows a curve.
    change: Option<TimeChange>,
}

/// Where arrivals come from.
enum Source {
    Drawn(Drawn),
    Replayed(Replay),
}

/// Arrivals of a process.
struct Drawn {
    process: Process,
    /// The part of a population that begins at zero.
    share: Share,
    /// The population's first number.
    first: u32,
    end: Nanos,
    schedule: Schedule,
}

enum Schedule {
    /// Arrival `i` comes from device `i mod devices`, `i + 1` gaps after the beginning.
    Even { round: u64, slot: u32, owned: u32 },
    /// The next arrival of every lane, as its time and place.
    Lanes { lanes: Vec<Lane>, next: BinaryHeap<Reverse<(i64, u32)>> },
}

/// A process of its own, whose devices take turns.
struct Lane {
    random: Random,
    /// The next arrival, in nanoseconds, and its device.
    at: f64,
    device: u32,
    /// The mean gap, in nanoseconds.
    mean: f64,
}

impl Lane {
    /// Draws gaps until an arrival belongs to the share, or comes after the end.
    fn advance(&mut self, process: &Process, lanes: u32, share: Share, end: Nanos) {
        loop {
            self.at += process.gaps.sample(&mut self.random) * self.mean;
            let next = self.device + lanes;
            self.device = if next < process.devices { next } else { self.device % lanes };
            if share.owns(self.device) || self.at >= end.0 as f64 {
                return;
            }
        }
    }
}

/// How long a hold after a warm-up takes that ends with that many arrivals, and no longer than `longest`; `None` where asking
/// `goes_on` ends it. Two arrivals in the same nanosecond are not told apart.
pub fn hold_of(
    processes: &[Process],
    warm_up: Nanos,
    longest: Nanos,
    messages: u64,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<Nanos> {
    let end = warm_up + longest;
    let mut all: Vec<_> =
        processes.iter().map(|&process| Arrivals::new(process, Share::WHOLE, end).peekable()).collect();
    let mut walked = 0u64;
    let mut left = messages;
    while left > 0 {
        let next = all.iter_mut().filter_map(|arrivals| Some((arrivals.peek()?.due, arrivals)));
        let Some((due, arrivals)) = next.min_by_key(|(due, _)| *due) else { return Some(longest) };
        arrivals.next();
        left -= u64::from(due >= warm_up);
        if left == 0 {
            return Some(due + Nanos(1) - warm_up);
        }
        walked += 1;
        if walked.is_multiple_of(WALKED_AT_ONCE) && !goes_on() {
            return None;
        }
    }
    Some(longest)
}

/// Whether each thread walks such arrivals whole: neither their number gives their time, nor are they a superposition.
pub fn are_walked_whole(gaps: InterArrival, per: ArrivalsPer) -> bool {
    per == ArrivalsPer::Population && !matches!(gaps, InterArrival::Constant | InterArrival::Exponential)
}

impl Process {
    /// How many independent processes the arrivals are made of, whatever the number of threads. A Poisson process is the
    /// superposition of any number of them, each with its part of the rate. No other aggregate process can be divided.
    fn lanes(&self) -> u32 {
        match (self.per, self.gaps) {
            (ArrivalsPer::Device, _) => self.devices,
            (ArrivalsPer::Population, InterArrival::Exponential) => {
                let blocks = (self.devices / DEVICES_OF_BLOCK).clamp(1, BLOCKS);
                1 << blocks.ilog2()
            }
            (ArrivalsPer::Population, _) => 1,
        }
    }

    /// The lane of that number: device `number`, and every so many-th after it.
    fn lane(&self, number: u32, lanes: u32) -> Lane {
        let devices = (self.devices - number).div_ceil(lanes);
        let mean = 1e9 / self.rate * f64::from(self.devices) / f64::from(devices);
        let name = match self.per {
            ArrivalsPer::Population => u64::MAX - u64::from(number),
            ArrivalsPer::Device => u64::from(number),
        };
        let mut random = random(self.seed, &[u64::from(self.level), name]);
        let first = match self.per {
            ArrivalsPer::Population => self.gaps.sample(&mut random),
            // As if the device had been sending for long, and regular ones do not fire together.
            ArrivalsPer::Device => self.gaps.sample_first(&mut random),
        };
        Lane { random, at: first * mean, device: number, mean }
    }
}

impl Arrivals {
    /// The arrivals with `due < end`.
    pub fn new(process: Process, share: Share, end: Nanos) -> Arrivals {
        let (share, first) = (share.from(0), share.first);
        let schedule = match (process.per, process.gaps) {
            (ArrivalsPer::Population, InterArrival::Constant) => {
                Schedule::Even { round: 0, slot: 0, owned: share.count(process.devices) }
            }
            _ if end <= Nanos::ZERO => Schedule::Lanes { lanes: Vec::new(), next: BinaryHeap::new() },
            _ => {
                let lanes = owned_lanes(&process, share, end);
                let next = (0..).zip(&lanes).map(|(place, lane)| Reverse((lane.at as i64, place))).collect();
                Schedule::Lanes { lanes, next }
            }
        };
        Arrivals { source: Source::Drawn(Drawn { process, share, first, end, schedule }), change: None }
    }

    /// The arrivals of a level in which a trace is played.
    pub fn replayed(trace: Arc<ArrivalTrace>, playing: Playing, share: Share) -> Arrivals {
        Arrivals { source: Source::Replayed(Replay::new(trace, playing, share)), change: None }
    }

    /// The arrivals of a hold whose load follows a curve, of which the process has the mean rate, and of the warm-up before it, which
    /// has the curve's first rate.
    pub fn along(process: Process, share: Share, curve: &LoadCurve, warm_up: Nanos) -> Arrivals {
        let change = TimeChange::of(curve, warm_up);
        let drawn = Arrivals::new(process, share, change.drawn_until());
        Arrivals { change: Some(change), ..drawn }
    }
}

/// The lanes with devices of the share, each at its first arrival from one of them.
fn owned_lanes(process: &Process, share: Share, end: Nanos) -> Vec<Lane> {
    let count = process.lanes();
    let mut numbers: Vec<u32> = match process.per {
        ArrivalsPer::Device => share.numbers(process.devices).collect(),
        // The first devices stand for all: who owns one depends on its block alone.
        ArrivalsPer::Population => {
            share.numbers(process.devices.min(BLOCKS)).map(|device| device % count).collect()
        }
    };
    numbers.sort_unstable();
    numbers.dedup();
    let mut lanes: Vec<Lane> = numbers.into_iter().map(|number| process.lane(number, count)).collect();
    for lane in lanes.iter_mut().filter(|lane| !share.owns(lane.device)) {
        lane.advance(process, count, share, end);
    }
    lanes
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let drawn = match &mut self.source {
            Source::Drawn(drawn) => drawn.draw()?,
            Source::Replayed(replay) => replay.next()?,
        };
        let due = self.change.as_mut().map_or(drawn.due, |change| change.due(drawn.due));
        Some(Arrival { due, ..drawn })
    }
}

impl Drawn {
    /// The next arrival as if the load were the same all the time.
    fn draw(&mut self) -> Option<Arrival> {
        let (process, share, first_number, end) = (&self.process, self.share, self.first, self.end);
        match &mut self.schedule {
            Schedule::Even { round, slot, owned } => {
                if *owned == 0 {
                    return None;
                }
                let device = share.number(*slot);
                let number = *round * u64::from(process.devices) + u64::from(device);
                let due = Nanos(((number + 1) as f64 * 1e9 / process.rate) as i64);
                *slot += 1;
                if *slot == *owned {
                    (*slot, *round) = (0, *round + 1);
                }
                (due < end).then_some(Arrival { due, device: DeviceId(first_number + device) })
            }
            Schedule::Lanes { lanes, next } => {
                let mut first = next.peek_mut()?;
                let Reverse((due, place)) = *first;
                let lane = lanes.get_mut(place as usize)?;
                if Nanos(due) >= end {
                    return None;
                }
                let device = DeviceId(first_number + lane.device);
                lane.advance(process, process.lanes(), share, end);
                *first = Reverse((lane.at as i64, place));
                Some(Arrival { due: Nanos(due), device })
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

    const GAPS: [InterArrival; 3] =
        [InterArrival::Exponential, InterArrival::Constant, InterArrival::Gamma { shape: 0.5 }];

    #[test]
    fn any_number_of_threads_sees_the_same_due_times() {
        let of = |per| [(per, 7), (per, 5000), (per, 70_000)];
        let lanes = (ArrivalsPer::Population, DEVICES_OF_BLOCK * BLOCKS + 5);
        for (per, devices) in
            [of(ArrivalsPer::Population), of(ArrivalsPer::Device)].concat().into_iter().chain([lanes])
        {
            for gaps in GAPS {
                let process = Process { devices, ..process(gaps, per) };
                let mut whole: Vec<_> = Arrivals::new(process, Share::WHOLE, END).collect();
                whole.sort();
                for threads in [2, 3, 8, 64] {
                    let shares = (0..threads).map(|index| Share { index, of: threads, first: 0 });
                    let mut parts: Vec<_> =
                        shares.flat_map(|share| Arrivals::new(process, share, END)).collect();
                    parts.sort();
                    assert_eq!(parts, whole, "{gaps:?} {per:?} of {devices} on {threads} threads");
                }
            }
        }
    }

    #[test]
    fn a_thread_of_many_walks_its_own_part_of_a_poisson_process() {
        let process =
            Process { devices: 2_000_000, ..process(InterArrival::Exponential, ArrivalsPer::Population) };
        for of in [1, 3, 24, 1000] {
            let walked = (0..of).map(|index| owned_lanes(&process, Share { index, of, first: 0 }, END).len());
            assert_eq!(walked.sum::<usize>(), BLOCKS as usize, "lanes walked by {of} threads together");
        }
    }

    #[test]
    fn only_aggregate_renewals_that_are_neither_even_nor_poisson_are_walked_by_each_thread() {
        let gamma = InterArrival::Gamma { shape: 0.5 };
        assert!(are_walked_whole(gamma, ArrivalsPer::Population));
        assert!(!are_walked_whole(gamma, ArrivalsPer::Device));
        assert!(!are_walked_whole(InterArrival::Constant, ArrivalsPer::Population));
        assert!(!are_walked_whole(InterArrival::Exponential, ArrivalsPer::Population));
    }

    /// Devices take turns within their block, and a block's number of arrivals is Poisson around its part: four standard
    /// deviations are allowed.
    #[test]
    fn devices_of_a_poisson_process_get_equal_load() {
        let process =
            Process { devices: 1_500, ..process(InterArrival::Exponential, ArrivalsPer::Population) };
        let lanes = process.lanes();
        assert_eq!(lanes, 16);
        let mut of_device = vec![0u32; 1_500];
        for arrival in Arrivals::new(process, Share::WHOLE, END) {
            of_device[arrival.device.0 as usize] += 1;
        }
        for block in 0..lanes {
            let own: Vec<u32> =
                of_device.iter().skip(block as usize).step_by(lanes as usize).copied().collect();
            let (least, most) = (own.iter().min().unwrap(), own.iter().max().unwrap());
            assert!(most - least <= 1, "block {block}: {least} to {most}");
            let (sum, expected) =
                (f64::from(own.iter().sum::<u32>()), 100_000.0 * own.len() as f64 / 1_500.0);
            assert!((sum - expected).abs() < 4.0 * expected.sqrt(), "block {block}: {sum}, not {expected}");
        }
    }

    /// Kolmogorov-Smirnov distance of the gaps between arrivals of all devices to the exponential law; its 0.1 % point is
    /// 1.95 / sqrt(n).
    #[test]
    fn the_blocks_of_a_poisson_process_are_one_together() {
        let process =
            Process { devices: 100_000, ..process(InterArrival::Exponential, ArrivalsPer::Population) };
        let due: Vec<f64> =
            Arrivals::new(process, Share::WHOLE, END).map(|arrival| arrival.due.0 as f64 / 1e6).collect();
        let mut gaps: Vec<f64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_by(f64::total_cmp);
        let count = gaps.len() as f64;
        let distance = (0..gaps.len())
            .map(|rank| ((rank as f64 + 0.5) / count - (1.0 - (-gaps[rank]).exp())).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / count.sqrt(), "distance {distance} over {count} gaps");
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
        for (per, devices) in
            [(ArrivalsPer::Population, 7), (ArrivalsPer::Population, 5_000), (ArrivalsPer::Device, 7)]
        {
            let mut counts = vec![0.0f64; 1000];
            let process = Process { devices, ..process(InterArrival::Exponential, per) };
            for arrival in Arrivals::new(process, Share::WHOLE, END) {
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
    fn a_hold_that_ends_with_a_number_of_arrivals_has_exactly_these() {
        let (warm_up, longest) = (Nanos::from_millis(1_234), Nanos::from_secs(50));
        for per in [ArrivalsPer::Population, ArrivalsPer::Device] {
            for gaps in GAPS {
                let one = process(gaps, per);
                let all = [one, Process { seed: 9, rate: 77.0, ..one }];
                for processes in [&all[..1], &all] {
                    let hold = hold_of(processes, warm_up, longest, 2_000, &mut || true).unwrap();
                    let end = warm_up + hold;
                    let arrivals = processes.iter().flat_map(|&of| Arrivals::new(of, Share::WHOLE, end));
                    let due = arrivals.filter(|arrival| arrival.due >= warm_up).count();
                    assert_eq!(due, 2_000, "{gaps:?} {per:?} of {}", processes.len());
                }
                assert_eq!(hold_of(&all, warm_up, longest, 1 << 40, &mut || true), Some(longest));
                assert_eq!(hold_of(&all, warm_up, longest * 1000, 1 << 40, &mut || false), None);
            }
        }
    }

    /// From 500/s to 1,500/s within 60 s, a silence of 10 s, then 1,000/s for 30 s.
    fn curve() -> LoadCurve {
        let points = [(0, 500.0), (60, 1500.0), (60, 0.0), (70, 0.0), (70, 1000.0), (100, 1000.0)];
        LoadCurve::new(&points.map(|(at, rate)| (Nanos::from_secs(at), rate)), END).unwrap()
    }

    fn along(gaps: InterArrival, per: ArrivalsPer, devices: u32, share: Share) -> Vec<Arrival> {
        let process = Process { rate: curve().mean(), devices, ..process(gaps, per) };
        Arrivals::along(process, share, &curve(), Nanos::from_secs(5)).collect()
    }

    #[test]
    fn any_number_of_threads_sees_the_same_due_times_along_a_curve() {
        for (per, devices) in
            [ArrivalsPer::Population, ArrivalsPer::Device].map(|per| [(per, 7), (per, 5000)]).concat()
        {
            for gaps in GAPS {
                let mut whole = along(gaps, per, devices, Share::WHOLE);
                assert!(whole.windows(2).all(|pair| pair[0].due <= pair[1].due), "in order");
                whole.sort();
                for threads in [2, 3, 8] {
                    let shares = (0..threads).map(|index| Share { index, of: threads, first: 0 });
                    let mut parts: Vec<_> =
                        shares.flat_map(|share| along(gaps, per, devices, share)).collect();
                    parts.sort();
                    assert_eq!(parts, whole, "{gaps:?} {per:?} of {devices} on {threads} threads");
                }
            }
        }
    }

    /// What was due by each second is the area under the curve by then: to one of even arrivals, to one of each device that sends
    /// evenly by itself.
    #[test]
    fn even_arrivals_follow_a_curve_exactly() {
        for (per, devices, most) in [(ArrivalsPer::Population, 7, 1.01), (ArrivalsPer::Device, 7, 7.01)] {
            let due = along(InterArrival::Constant, per, devices, Share::WHOLE);
            for second in 0..=105 {
                let at = Nanos::from_secs(second);
                let seen = due.iter().take_while(|arrival| arrival.due < at).count() as f64;
                let (warm_up, hold) = (at.min(Nanos::from_secs(5)), at - Nanos::from_secs(5));
                let hold = hold.max(Nanos::ZERO);
                let area = 500.0 * warm_up.as_secs_f64()
                    + curve().mean_between(Nanos::ZERO, hold) * hold.as_secs_f64();
                assert!((seen - area).abs() <= most, "{per:?}, {second} s: {seen}, area {area}");
            }
        }
    }

    /// Poisson counts in windows of 100 ms, each less its area over the square root of that: mean 0 and variance 1. Of 900 windows the
    /// mean has a standard deviation of 1/30, the variance one of sqrt(2/900) = 0.047, and the lag-1 correlation one of 1/30. Four of
    /// each are allowed.
    #[test]
    fn poisson_arrivals_along_a_curve_are_poisson_with_its_rate() {
        for (per, devices) in
            [(ArrivalsPer::Population, 7), (ArrivalsPer::Population, 5_000), (ArrivalsPer::Device, 7)]
        {
            let mut counts = vec![0.0f64; 1000];
            for arrival in along(InterArrival::Exponential, per, devices, Share::WHOLE) {
                if let Some(count) = counts.get_mut(((arrival.due.0 - 5_000_000_000) / 100_000_000) as usize)
                    && arrival.due >= Nanos::from_secs(5)
                {
                    *count += 1.0;
                }
            }
            let area = |window: usize| {
                let [from, to] = [window, window + 1].map(|edge| Nanos::from_millis(100 * edge as i64));
                curve().mean_between(from, to) * 0.1
            };
            let silent = counts.iter().enumerate().filter(|(window, _)| area(*window) == 0.0);
            assert!(silent.map(|(_, count)| *count).sum::<f64>() == 0.0, "{per:?}: arrivals in the silence");
            let scores = counts.iter().enumerate().filter(|(window, _)| area(*window) > 0.0);
            let scores: Vec<f64> =
                scores.map(|(window, count)| (count - area(window)) / area(window).sqrt()).collect();
            let n = scores.len() as f64;
            let mean = scores.iter().sum::<f64>() / n;
            let variance = scores.iter().map(|score| score * score).sum::<f64>() / n;
            let lag_1 = scores.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / (n * variance);
            assert_eq!(scores.len(), 900);
            assert!(mean.abs() < 4.0 / 30.0, "{per:?}: mean {mean}");
            assert!((variance - 1.0).abs() < 0.19, "{per:?}: variance {variance}");
            assert!(lag_1.abs() < 4.0 / 30.0, "{per:?}: lag-1 correlation {lag_1}");
        }
    }

    #[test]
    fn levels_and_seeds_differ() {
        let base = process(InterArrival::Exponential, ArrivalsPer::Population);
        let first = |process| Arrivals::new(process, Share::WHOLE, END).next();
        assert_ne!(first(base), first(Process { level: 4, ..base }));
        assert_ne!(first(base), first(Process { seed: 43, ..base }));
    }
}
