//! Values that change by themselves. Each is a function of the run's seed, the device and the time, so that no device has to keep
//! one. A value stays for a while, and those of different devices change at different times.

use plimsoll_codec::lwm2m::{Given, Kind};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{Change, Columns};
use plimsoll_stats::distribution::random;
use std::f64::consts::TAU;

/// Distinguishes the random numbers of values from others.
const VALUE_STREAM: u64 = 0x6c77_6d32_6d00_0000;
const WALK_STREAM: u64 = 0x6c77_6d32_6d00_0001;
/// Part of a turn by which a device is ahead of the device before it: the golden ratio spreads them evenly.
pub const PHASE: f64 = 0.618_034;
/// A walk begins anew after as many steps as this power of two: after two days with a step each 10 ms.
const LEVELS: u32 = 24;

/// Whose value it is, and where the numbers for it come from.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The run's seed.
    pub seed: u64,
    /// The device's number.
    pub device: u32,
    /// A number of the resource.
    pub resource: u64,
    /// The rows of the scenario's feed.
    pub feed: Option<&'a dyn Columns>,
}

/// The value at a time; each one stays for `every`.
pub fn value(change: &Change, every: Nanos, source: Source<'_>, now: Nanos) -> Given<'static> {
    let Source { seed, device, resource, feed } = source;
    let step = step(device, every, now);
    Given::Float(match *change {
        Change::Sine { range: (low, high), period } => {
            let since = begin(device, every, step).as_secs_f64() / period.as_secs_f64();
            let turns = since + f64::from(device) * PHASE;
            low + (high - low) * (1.0 + (turns.rem_euclid(1.0) * TAU).sin()) / 2.0
        }
        Change::Uniform { range: (low, high) } => {
            let of = [VALUE_STREAM, u64::from(device), step, resource];
            low + (high - low) * random(seed, &of).fraction()
        }
        Change::Walk { range: (low, high), step: size } => {
            let name = [WALK_STREAM, u64::from(device), resource];
            let begin = random(seed, &name).fraction() * (high - low);
            low + turned_back(begin + size * walked(seed, name, step), high - low)
        }
        Change::Column { column, kind } => {
            let mut text = Vec::new();
            if let Some(feed) = feed {
                feed.write(column, device, step as u32, &mut text);
            }
            let text = String::from_utf8_lossy(&text);
            return match kind {
                Kind::Float => {
                    Given::Float(text.trim().parse().ok().filter(|one: &f64| one.is_finite()).unwrap_or(0.0))
                }
                Kind::Integer => Given::Integer(text.trim().parse().unwrap_or(0)),
                _ => Given::Text(text.into_owned().into()),
            };
        }
    })
}

/// When a value that stays for `every` changes next.
pub fn next_change(device: u32, every: Nanos, now: Nanos) -> Nanos {
    begin(device, every, step(device, every, now) + 1)
}

/// The number of the value that a device has.
fn step(device: u32, every: Nanos, now: Nanos) -> u64 {
    ((now.0 + ahead(device, every)) / every.0.max(1)).max(0) as u64
}

/// When it begins.
fn begin(device: u32, every: Nanos, step: u64) -> Nanos {
    Nanos((step as i64).saturating_mul(every.0).saturating_sub(ahead(device, every)))
}

fn ahead(device: u32, every: Nanos) -> i64 {
    ((f64::from(device) * PHASE).fract() * every.0 as f64) as i64
}

/// How far a random walk is from its beginning after so many steps of the standard normal distribution. The middle of a stretch
/// between two known places is drawn as its distribution demands (a Brownian bridge, P. Lévy 1948): a place takes few numbers.
fn walked(seed: u64, name: [u64; 3], step: u64) -> f64 {
    let [stream, device, resource] = name;
    let drawn = |level: u32, at: u64| {
        let of = [stream, device, resource, u64::from(level), at];
        random(seed, &of).normal()
    };
    let target = step % (1 << LEVELS);
    let (mut from, mut low, mut high) = (0, 0.0, drawn(LEVELS, 0) * f64::from(1_u32 << LEVELS).sqrt());
    for level in (0..LEVELS).rev() {
        if target == from {
            break;
        }
        let half = 1 << level;
        let middle = (low + high) / 2.0 + drawn(level, from) * (half as f64 / 2.0).sqrt();
        if target < from + half {
            high = middle;
        } else {
            (from, low) = (from + half, middle);
        }
    }
    low
}

/// A place between zero and a bound, for one that is turned back at both.
fn turned_back(place: f64, bound: f64) -> f64 {
    if bound <= 0.0 {
        return 0.0;
    }
    let place = place.rem_euclid(2.0 * bound);
    if place > bound { 2.0 * bound - place } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    fn source(device: u32) -> Source<'static> {
        Source { seed: 1, device, resource: 7, feed: None }
    }

    fn number(change: &Change, device: u32, now: Nanos) -> f64 {
        match value(change, SECOND, source(device), now) {
            Given::Float(number) => number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_walk_has_steps_of_their_size_and_stays_within_its_bounds() {
        let name = [WALK_STREAM, 1, 2];
        let places: Vec<f64> = (0..4000).map(|step| walked(3, name, step)).collect();
        let steps: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = steps.iter().sum::<f64>() / steps.len() as f64;
        let variance = steps.iter().map(|step| (step - mean).powi(2)).sum::<f64>() / steps.len() as f64;
        assert!(places[0] == 0.0 && mean.abs() < 0.08 && (0.9..1.1).contains(&variance), "{mean} {variance}");
        // What lies behind a step says nothing of the next one.
        let together = steps.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / steps.len() as f64;
        assert!(together.abs() < 0.08, "{together}");
        let walk = Change::Walk { range: (15.0, 25.0), step: 2.0 };
        let all: Vec<f64> = (0..500).map(|at| number(&walk, 4, Nanos::from_secs(at))).collect();
        assert!(all.iter().all(|one| (15.0..=25.0).contains(one)));
        assert!(all.iter().any(|one| *one < 17.0) && all.iter().any(|one| *one > 23.0), "{all:?}");
    }

    #[test]
    fn a_value_stays_until_it_changes_and_devices_change_at_different_times() {
        let uniform = Change::Uniform { range: (0.0, 1.0) };
        let mut changes = std::collections::BTreeSet::new();
        for device in 0..100 {
            let next = next_change(device, SECOND, Nanos::from_secs(5));
            assert!(next > Nanos::from_secs(5) && next <= Nanos::from_secs(6));
            changes.insert(next.0 / 100_000_000);
            let before = number(&uniform, device, next - Nanos(1));
            assert_eq!(before, number(&uniform, device, next - SECOND));
            assert_ne!(before, number(&uniform, device, next));
        }
        assert!(changes.len() >= 10, "in every tenth of the second: {changes:?}");
    }

    #[test]
    fn a_sine_goes_from_its_lowest_to_its_highest_value() {
        let sine = Change::Sine { range: (-5.0, 5.0), period: Nanos::from_secs(60) };
        let all: Vec<f64> = (0..60).map(|at| number(&sine, 3, Nanos::from_secs(at))).collect();
        let (low, high) = (all.iter().copied().fold(0.0, f64::min), all.iter().copied().fold(0.0, f64::max));
        assert!((-5.0..-4.9).contains(&low) && high > 4.9 && high <= 5.0, "{low} {high}");
    }

    proptest! {
        #[test]
        fn a_place_is_turned_back_into_its_bounds(place in -1e9..1e9, bound in 0.0..100.0) {
            prop_assert!((0.0..=bound).contains(&turned_back(place, bound)));
        }
    }
}
