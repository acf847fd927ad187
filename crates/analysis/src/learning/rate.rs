//! How often a population sends.

use super::gathering::Gathering;
use super::shape::Shaped;
use plimsoll_model::Nanos;

/// Messages that a population needs before its silence at the beginning or end of a capture says anything, and how many of its gaps such
/// a silence has.
const ACTIVE: u64 = 100;
const SILENT: f64 = 10.0;

/// Messages per second, and the share of the capture in which the population sends.
pub(super) fn rate(gathered: &Gathering, members: &[Shaped], count: u64) -> (f64, f64) {
    let Some((begin, end)) = gathered.span else { return (0.0, 1.0) };
    let counted = members.iter().map(|member| gathered.sources[member.source].1);
    let (first, last) = counted
        .fold((end, begin), |(first, last), counted| (first.min(counted.first), last.max(counted.last)));
    let seconds = |from, to: Nanos| (to - from).0 as f64 / 1e9;
    let (whole, own) = (seconds(begin, end), seconds(first, last));
    if whole <= 0.0 {
        return (0.0, 1.0);
    }
    let gap = own / (count.max(2) - 1) as f64;
    let silent = seconds(begin, first).max(seconds(last, end));
    if count >= ACTIVE && own > 0.0 && silent > SILENT * gap {
        return ((count - 1) as f64 / own, own / whole);
    }
    // The span begins and ends with a message: half of each lies outside.
    let edges = 0.5 * f64::from(u8::from(first == begin) + u8::from(last == end));
    ((count as f64 - edges).max(0.5) / whole, 1.0)
}
