//! Faults on a schedule.

use crate::quantity::Quantity;
use plimsoll_model::fault::PlannedFault;

/// A fault, and the levels that have it.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultPlan {
    /// The level, by its place in the list from 1; `None` for all.
    pub level: Option<u16>,
    /// What goes wrong, and when.
    pub fault: PlannedFault,
}

impl FaultPlan {
    /// Whether it happens in the level of that number, from 1.
    pub fn is_in(&self, level: usize) -> bool {
        self.level.is_none_or(|own| usize::from(own) == level)
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let PlannedFault { at, length, .. } = self.fault;
        let level = self.level.map(|level| format!(" of level {level}")).unwrap_or_default();
        let lasts = if length.0 > 0 { format!(", for {}", length.show()) } else { String::new() };
        format!("{} into the hold{level}{lasts}: {}", at.show(), self.fault)
    }
}

/// What a component has from its start on because faults are planned for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultNeeds {
    /// Whether its processor time will be squeezed.
    pub squeeze: bool,
    /// The size of a folder of its own that can be filled, in bytes.
    pub folder: Option<u64>,
}
