//! The arrival process of a population: whose it is (one of the population, or one of each device), and its law.

use plimsoll_stats::fit::{FEWEST, Laws, laws};
use std::collections::BTreeMap;

/// Gaps of a device below which its own are too few to say anything of it.
const GAPS_EACH: f64 = 5.0;
/// Gaps that are judged.
const JUDGED: usize = 20_000;
/// Devices take turns if so large a share of the messages come from the device that waited for the longest time.
const IN_TURN: f64 = 0.95;
/// Windows of two gaps of a device each that show whether devices depend on each other.
const WINDOWS: usize = 10;
/// A gap that is so many times the mean is an outage, if so small a share of all gaps is: no law that a scenario knows makes it, but one
/// whose gaps are often long.
const OUTAGE: f64 = 50.0;
const RARE: f64 = 0.005;
/// The mean gaps of devices differ if their variance is so many times what their gaps explain.
const DIFFERENT: f64 = 4.0;

/// Whose an arrival process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of all devices together.
    Population,
    /// Of each device.
    Device,
}

/// What the times of messages say.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub whose: Whose,
    /// None where there are too few gaps.
    pub laws: Option<Laws>,
    /// The variance of the number of messages in a long time, divided by its mean.
    pub dispersion: f64,
    /// Means of the gaps of devices differ: the shortest and longest of the middle 90 %, seconds.
    pub uneven: Option<(f64, f64)>,
    /// Gaps that were left out as outages.
    pub outages: usize,
}

/// Judges messages in the order of their times, in seconds, each with its device.
pub(super) fn process(messages: &[(f64, u32)], devices: usize, seed: u64) -> Process {
    let all: Vec<f64> = messages.windows(2).map(|pair| pair[1].0 - pair[0].0).take(JUDGED).collect();
    let (all, silences) = without_outages(all);
    let of_all = laws(&all, seed);
    let alone = |laws: Option<Laws>| {
        let dispersion = laws.as_ref().map_or(1.0, |laws| laws.cv * laws.cv);
        Process { whose: Whose::Population, laws, dispersion, uneven: None, outages: silences }
    };
    if devices < 2 {
        return alone(of_all);
    }
    let (own, uneven) = own_gaps(messages);
    let (own, outages) = without_outages(own);
    let enough = own.len() as f64 >= GAPS_EACH * devices as f64 && own.len() >= FEWEST;
    let Some(of_device) = enough.then(|| laws(&own, seed)).flatten() else { return alone(of_all) };
    let Some(of_all) = of_all else { return alone(None) };
    let dispersions = [of_all.cv, of_device.cv].map(|cv| (cv * cv).max(1e-4));
    let constant = |laws: &Laws| laws.best.law == plimsoll_stats::distribution::InterArrival::Constant;
    // In turns, the gap of a device is the sum of one gap of all for each device. Even gaps of many devices make it nearly constant.
    let ratio = devices as f64 * dispersions[1] / dispersions[0];
    let take_turns = in_turn(messages, devices) >= IN_TURN && (1.0 / 3.0..3.0).contains(&ratio);
    let together = take_turns
        || match constant(&of_device) {
            true => constant(&of_all),
            false => counts_follow_all(messages, devices, dispersions),
        };
    let [of_all_dispersion, of_device_dispersion] = dispersions;
    match together {
        true => Process { uneven, dispersion: of_all_dispersion, ..alone(Some(of_all)) },
        false => {
            let (whose, laws, dispersion) = (Whose::Device, Some(of_device), of_device_dispersion);
            Process { whose, laws, dispersion, uneven, outages }
        }
    }
}

/// Gaps without the few that are outages, and how many those were.
fn without_outages(gaps: Vec<f64>) -> (Vec<f64>, usize) {
    let mean = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
    let outages = gaps.iter().filter(|gap| **gap > OUTAGE * mean).count();
    if outages == 0 || outages as f64 > RARE * gaps.len() as f64 {
        return (gaps, 0);
    }
    (gaps.into_iter().filter(|gap| *gap <= OUTAGE * mean).collect(), outages)
}

/// The gaps of each device, device by device; divided by the device's mean where the means differ.
fn own_gaps(messages: &[(f64, u32)]) -> (Vec<f64>, Option<(f64, f64)>) {
    let mut last: BTreeMap<u32, f64> = BTreeMap::new();
    let mut gaps: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for &(at, device) in messages {
        if let Some(before) = last.insert(device, at) {
            gaps.entry(device).or_default().push(at - before);
        }
    }
    let mean = |gaps: &[f64]| gaps.iter().sum::<f64>() / gaps.len() as f64;
    let judged: Vec<&Vec<f64>> = gaps.values().filter(|gaps| gaps.len() >= 10).collect();
    let means: Vec<f64> = judged.iter().map(|gaps| mean(gaps)).collect();
    let different = means.len() >= 2 && {
        let middle = mean(&means);
        let between =
            means.iter().map(|mean| (mean - middle).powi(2)).sum::<f64>() / (means.len() - 1) as f64;
        let within: f64 = judged
            .iter()
            .zip(&means)
            .map(|(gaps, mean)| {
                let squares = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
                squares / (gaps.len() - 1) as f64 / gaps.len() as f64
            })
            .sum::<f64>()
            / means.len() as f64;
        // A hundredth of the mean is nothing, however even the gaps are.
        between > DIFFERENT * within && between.sqrt() > 0.01 * middle
    };
    if !different {
        return (gaps.into_values().flatten().take(JUDGED).collect(), None);
    }
    let mut sorted = means.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    let scaled = judged
        .into_iter()
        .zip(means)
        .flat_map(|(gaps, mean)| gaps.iter().map(move |gap| gap / mean))
        .take(JUDGED)
        .collect();
    (scaled, Some((at(0.05), at(0.95))))
}

/// The share of messages that come from the device whose last one was as many messages ago as there are devices.
fn in_turn(messages: &[(f64, u32)], devices: usize) -> f64 {
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut judged, mut right) = (0, 0);
    for (number, &(_, device)) in messages.iter().enumerate() {
        if let Some(before) = last.insert(device, number) {
            judged += 1;
            right += usize::from(number - before == devices);
        }
    }
    if judged == 0 { 0.0 } else { f64::from(right as u32) / f64::from(judged) }
}

/// Whether the numbers of messages in windows of two gaps of a device vary as those of one process of all would, rather than those
/// of one for each device.
fn counts_follow_all(messages: &[(f64, u32)], devices: usize, [of_all, of_device]: [f64; 2]) -> bool {
    let (Some(first), Some(last)) = (messages.first(), messages.last()) else { return false };
    let gap = (last.0 - first.0) * devices as f64 / messages.len() as f64;
    let windows = ((last.0 - first.0) / (2.0 * gap)).floor() as usize;
    if windows < WINDOWS || !gap.is_finite() {
        return false;
    }
    let mut counts = vec![0.0_f64; windows];
    for (at, _) in messages {
        if let Some(count) = counts.get_mut(((at - first.0) / (2.0 * gap)) as usize) {
            *count += 1.0;
        }
    }
    // At the edges devices come and go.
    let edge = windows / 10;
    let counts = &counts[edge..windows - edge];
    let windows = counts.len();
    let mean = counts.iter().sum::<f64>() / windows as f64;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (windows - 1) as f64;
    let seen = (variance / mean).max(1e-4).ln();
    // In so short a window a process of gamma gaps varies a little more, or less (Cox, Renewal Theory, 4.5).
    let of_device = (of_device + (1.0 - of_device * of_device) / 12.0).max(0.5 * of_device);
    let (all, device) = (of_all.ln(), of_device.ln());
    // The logarithm of a variance of so many counts is known to about that. Devices are independent unless this is refused.
    let error = 2.0 * (2.0 / (windows - 1) as f64).sqrt();
    (seen - device).abs() > error && (seen - all).abs() < (seen - device).abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_stats::distribution::{InterArrival, random};

    /// Messages of one process, whose devices take turns.
    fn of_all(law: InterArrival, devices: u32, count: u32) -> Vec<(f64, u32)> {
        let mut random = random(5, &[1]);
        let mut at = 0.0;
        (0..count)
            .map(|number| {
                at += 0.01 * law.sample(&mut random);
                (at, number % devices)
            })
            .collect()
    }

    /// Messages of one process for each device.
    fn of_each(law: InterArrival, devices: u32, count: u32) -> Vec<(f64, u32)> {
        let mut messages: Vec<(f64, u32)> = Vec::new();
        for device in 0..devices {
            let mut random = random(5, &[u64::from(device)]);
            let mut at = law.sample_first(&mut random);
            while at < f64::from(count / devices) {
                messages.push((at, device));
                at += law.sample(&mut random);
            }
        }
        messages.sort_by(|one, other| one.0.total_cmp(&other.0));
        messages
    }

    #[test]
    fn it_is_told_whose_the_arrivals_are() {
        use InterArrival::{Constant, Exponential, Gamma, Normal, Uniform};
        for (messages, devices, whose, law) in [
            (of_all(Exponential, 10, 3_000), 10, Whose::Population, Exponential),
            (of_all(Uniform { spread: 0.5 }, 10, 3_000), 10, Whose::Population, Uniform { spread: 0.5 }),
            (of_all(Constant, 10, 3_000), 10, Whose::Population, Constant),
            // The gaps of each device vary by less than a twentieth.
            (of_all(Normal { cv: 0.25 }, 40, 3_000), 40, Whose::Population, Normal { cv: 0.25 }),
            (of_each(Constant, 10, 3_000), 10, Whose::Device, Constant),
            (of_each(Gamma { shape: 8.0 }, 10, 3_000), 10, Whose::Device, Gamma { shape: 8.0 }),
            (of_each(Uniform { spread: 0.5 }, 40, 3_000), 40, Whose::Device, Uniform { spread: 0.5 }),
            (of_each(Exponential, 10, 3_000), 10, Whose::Device, Exponential),
        ] {
            let found = process(&messages, devices, 1);
            let laws = found.laws.unwrap();
            assert_eq!(found.whose, whose, "{law:?} of {whose:?}");
            let same = std::mem::discriminant(&laws.best.law) == std::mem::discriminant(&law);
            assert!(same && laws.fits, "{law:?} of {whose:?}: {laws:?}");
        }
    }

    #[test]
    fn devices_of_different_rates_are_reported_and_share_a_law() {
        let mut messages = of_each(InterArrival::Gamma { shape: 4.0 }, 4, 2_000);
        let slow = of_each(InterArrival::Gamma { shape: 4.0 }, 4, 2_000);
        messages.extend(slow.into_iter().map(|(at, device)| (3.0 * at, device + 4)));
        messages.sort_by(|one, other| one.0.total_cmp(&other.0));
        let found = process(&messages, 8, 1);
        let (least, most) = found.uneven.unwrap();
        assert!((0.8..1.2).contains(&least) && (2.6..3.4).contains(&most), "{least} {most}");
        assert!(matches!(found.laws.unwrap().best.law, InterArrival::Gamma { .. }));
    }

    #[test]
    fn a_device_that_was_away_spoils_no_law() {
        let mut messages = of_each(InterArrival::Gamma { shape: 4.0 }, 10, 3_000);
        messages.retain(|&(at, device)| device != 3 || !(100.0..250.0).contains(&at));
        let found = process(&messages, 10, 1);
        assert_eq!((found.whose, found.outages), (Whose::Device, 1));
        let laws = found.laws.unwrap();
        assert!(matches!(laws.best.law, InterArrival::Gamma { .. }) && laws.fits, "{laws:?}");
    }

    #[test]
    fn too_few_messages_have_no_law() {
        let few = of_all(InterArrival::Exponential, 3, 15);
        assert!(process(&few, 3, 1).laws.is_none());
        assert!(process(&[], 0, 1).laws.is_none());
    }
}
