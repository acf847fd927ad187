//! The table of samplers.

use crate::sampler::{Sampler, SamplerEntry};
use crate::{cgroup, energy, host_use, pressure, process_use, sockets, thread_names};

/// All of them, in the order of reports.
pub static SAMPLERS: &[SamplerEntry] = &[
    process_use::ENTRY,
    thread_names::ENTRY,
    sockets::ENTRY,
    cgroup::ENTRY,
    host_use::ENTRY,
    pressure::ENTRY,
    energy::ENTRY,
];

/// A sampler that reads, and its entry.
pub type Begun = (&'static SamplerEntry, Box<dyn Sampler>);

/// Begins those that this host has.
pub fn begin_all() -> Vec<Begun> {
    SAMPLERS.iter().filter_map(|entry| Some((entry, (entry.begin)().ok()?))).collect()
}

/// What this host lacks: the name of a sampler, and the reason.
pub fn missing() -> Vec<(&'static str, &'static str)> {
    SAMPLERS.iter().filter_map(|entry| Some((entry.name, (entry.begin)().err()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct() {
        for (place, entry) in SAMPLERS.iter().enumerate() {
            assert_eq!(SAMPLERS.iter().position(|other| other.name == entry.name), Some(place));
        }
    }

    #[test]
    fn each_sampler_reads_or_says_what_is_lacking() {
        assert_eq!(begin_all().len() + missing().len(), SAMPLERS.len());
        assert!(missing().iter().all(|(_, reason)| !reason.is_empty()), "{:?}", missing());
    }
}
