//! The table of samplers.

use crate::pressure;
use crate::sampler::{Sampler, SamplerEntry};

/// All of them, in the order of reports.
pub static SAMPLERS: &[SamplerEntry] = &[pressure::ENTRY];

/// A sampler that reads, and its entry.
pub type Begun = (&'static SamplerEntry, Box<dyn Sampler>);

/// Begins those that this host has.
pub fn begin_all() -> Vec<Begun> {
    SAMPLERS.iter().filter_map(|entry| Some((entry, (entry.begin)()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_units_known() {
        for (place, entry) in SAMPLERS.iter().enumerate() {
            assert_eq!(SAMPLERS.iter().position(|other| other.name == entry.name), Some(place));
            assert!(["share", "bytes", "1/s", "seconds"].contains(&entry.unit), "{}", entry.unit);
        }
    }
}
