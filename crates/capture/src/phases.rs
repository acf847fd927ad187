//! The phases of a run on the clock of the capture: what is slow only in the set-up is not the bottleneck.

use plimsoll_model::Nanos;

/// A phase of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// When it begins, since 1970.
    pub begin: Nanos,
    /// What it is called.
    pub name: String,
    /// Whether the run measures in it: the hold of a level.
    pub measured: bool,
}

/// Phases in their order; before the first is no phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases(Vec<Phase>);

impl Phases {
    /// Each ends where the next begins.
    pub fn new(mut phases: Vec<Phase>) -> Phases {
        phases.sort_by_key(|phase| phase.begin);
        Phases(phases)
    }

    /// The number of the phase at that time, from 1; 0 before the first.
    pub fn at(&self, time: Nanos) -> u16 {
        if self.0.is_empty() {
            return 0;
        }
        self.0.partition_point(|phase| phase.begin <= time) as u16
    }

    /// The phase of that number; none for 0.
    pub fn get(&self, number: u16) -> Option<&Phase> {
        usize::from(number).checked_sub(1).and_then(|place| self.0.get(place))
    }

    /// How long the phase of that number is; none for the last, which has no end.
    pub fn length(&self, number: u16) -> Option<Nanos> {
        let next = self.0.get(usize::from(number))?;
        Some(next.begin - self.get(number)?.begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_lasts_until_the_next_begins() {
        let phase = |begin: i64| Phase { begin: Nanos(begin), name: String::new(), measured: true };
        let phases = Phases::new(vec![phase(30), phase(10)]);
        assert_eq!([0, 10, 29, 30].map(|time| phases.at(Nanos(time))), [0, 1, 1, 2]);
        assert_eq!([0, 1, 2, 3].map(|number| phases.length(number)), [None, Some(Nanos(20)), None, None]);
    }
}
