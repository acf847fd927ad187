//! What the host waits for: the share of time in which some process wanted a processor, memory or a disk and had to wait (pressure
//! stall information, Documentation/accounting/psi.rst of the kernel).

use crate::sampler::{INTERVAL, ObservedPlatform, Reading, Sampler, SamplerEntry, Unit};
use std::fs;
use std::time::Instant;

/// What is read, and where.
const FILES: [(&str, &str); 3] =
    [("cpu", "/proc/pressure/cpu"), ("io", "/proc/pressure/io"), ("memory", "/proc/pressure/memory")];

/// See the module.
pub const ENTRY: SamplerEntry = SamplerEntry { name: "pressure", interval: INTERVAL, begin };

struct Pressure {
    /// When it was read last, and how long had been waited in all by then, in microseconds.
    last: Option<(Instant, [Option<u64>; FILES.len()])>,
}

/// A kernel without this information has no such files, or refuses to read them.
fn begin() -> Result<Box<dyn Sampler>, &'static str> {
    match read().iter().any(Option::is_some) {
        true => Ok(Box::new(Pressure { last: None })),
        false => Err("this kernel has no pressure stall information"),
    }
}

impl Sampler for Pressure {
    fn read(&mut self, _: &ObservedPlatform<'_>) -> Vec<Reading> {
        let (now, totals) = (Instant::now(), read());
        let Some((then, before)) = self.last.replace((now, totals)) else { return Vec::new() };
        let passed = (now - then).as_secs_f64() * 1e6;
        let shares = before.into_iter().zip(totals).map(|(before, now)| share(before?, now?, passed));
        let named = FILES.iter().zip(shares);
        named
            .filter_map(|(&(quantity, _), share)| Some(Reading::host(quantity, Unit::Share, share?)))
            .collect()
    }
}

/// The share of some microseconds in which was waited.
fn share(before: u64, now: u64, passed: f64) -> Option<f64> {
    (passed > 0.0).then(|| (now.saturating_sub(before) as f64 / passed).min(1.0))
}

fn read() -> [Option<u64>; FILES.len()] {
    FILES.map(|(_, path)| total(&fs::read_to_string(path).ok()?))
}

/// Microseconds that some process waited since the start of the host.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        let text = "some avg10=1.29 avg60=3.10 avg300=12.20 total=12171571142\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(total(text), Some(12_171_571_142));
        assert_eq!(["", "some", "some total=x", "full total=5"].map(total), [None; 4]);
        assert_eq!(share(1_000, 251_000, 1e6), Some(0.25));
        assert_eq!((share(5, 4, 1e6), share(0, 9, 0.0), share(0, 9, 5.0)), (Some(0.0), None, Some(1.0)));
    }
}
