//! When a run is repeated.

use crate::quantity::Quantity;
use plimsoll_model::Nanos;

/// When a run is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulePlan {
    /// So long after the begin of the one before, the first at once.
    Every {
        /// From begin to begin.
        gap: Nanos,
        /// Runs in all.
        times: u32,
    },
    /// At times of the day.
    At {
        /// In their order, none twice.
        times: Vec<TimeOfDay>,
        /// Days for which they are kept.
        days: u32,
    },
}

impl SchedulePlan {
    /// For people.
    pub fn in_words(&self) -> String {
        match self {
            SchedulePlan::Every { gap, times } => format!("{times} runs, one every {}", gap.show()),
            SchedulePlan::At { times, days } => {
                let clock: Vec<String> =
                    times.iter().map(|time| format!("{:02}:{:02}", time.hour, time.minute)).collect();
                let days = if *days == 1 { "1 day".to_owned() } else { format!("{days} days") };
                format!("at {} for {days}, by this host's clock", clock.join(", "))
            }
        }
    }
}

/// A time of the day, in the time zone of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay {
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
}
