//! The phases of a run on the clock of the capture: what is slow only in the set-up is not the bottleneck.

use plimsoll_model::Nanos;

/// Phases in their order; before the first is no phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    starts: Vec<(Nanos, String)>,
}

impl Phases {
    /// Each begins where the one before ends; times since 1970.
    pub fn new(mut starts: Vec<(Nanos, String)>) -> Phases {
        starts.sort_by_key(|(at, _)| *at);
        Phases { starts }
    }

    /// The number of the phase at that time, from 1; 0 before the first.
    pub fn at(&self, time: Nanos) -> u16 {
        if self.starts.is_empty() {
            return 0;
        }
        self.starts.partition_point(|(at, _)| *at <= time) as u16
    }

    /// What a phase is called, empty for 0.
    pub fn name(&self, phase: u16) -> &str {
        let place = usize::from(phase).checked_sub(1);
        place.and_then(|place| self.starts.get(place)).map_or("", |(_, name)| name)
    }
}
