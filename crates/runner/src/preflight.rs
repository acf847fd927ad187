//! Whether this host can carry a run: what is asked of it against what it allows, each finding with its remedy.
//!
//! The rules are pure: [`examine`] judges what it is given. [`Demand`] is what a plan asks for; without one a host is
//! looked at in general.

mod connections;
mod demand;
mod machine;

pub use demand::{Demand, Place};

use plimsoll_observe::limits::Limits;
use plimsoll_observe::probe::Probe;

/// How a finding bears on the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Fit.
    Good,
    /// It may spoil or limit what is measured.
    Warning,
    /// It makes the run impossible.
    Problem,
}

/// Messages that the platform will refuse.
pub fn oversize(told: String) -> Finding {
    let remedy = "smaller messages, or a profile with another `device.largest`".to_owned();
    Finding { subject: "message size", severity: Severity::Warning, told, remedy }
}

/// A contract of delivery that may excuse real losses.
pub fn doubtful_delivery(told: String) -> Finding {
    let remedy = "`delivery: every` in the profile, the default".to_owned();
    Finding { subject: "delivery contract", severity: Severity::Warning, told, remedy }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub subject: &'static str,
    /// How it bears on the run.
    pub severity: Severity,
    /// What was found and what it means.
    pub told: String,
    /// What to do about it, mostly a command; empty where nothing is to be done.
    pub remedy: String,
}

impl Finding {
    fn good(subject: &'static str, told: impl Into<String>) -> Finding {
        Finding { subject, severity: Severity::Good, told: told.into(), remedy: String::new() }
    }

    fn warning(subject: &'static str, told: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { subject, severity: Severity::Warning, told: told.into(), remedy: remedy.into() }
    }

    fn problem(subject: &'static str, told: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { severity: Severity::Problem, ..Finding::warning(subject, told, remedy) }
    }
}

/// What was found, with its remedy, in one line.
impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.remedy.is_empty() { "" } else { ": " };
        write!(f, "{}{separator}{}", self.told, self.remedy)
    }
}

/// Everything that is known about this host with respect to a demand. What cannot be read or was not tried has no
/// finding.
pub fn examine(limits: &Limits, probe: Option<&Probe>, demand: Option<&Demand>) -> Vec<Finding> {
    let by_limits = [
        connections::open_files(limits, demand),
        connections::local_ports(limits, demand),
        connections::source_addresses(demand),
        connections::accept_queue(limits, demand),
        connections::tracked(limits, demand),
        machine::kernel(limits),
        machine::processors(limits, demand),
        machine::arrivals(demand),
        machine::memory(limits, demand),
        machine::swap(limits),
        machine::tasks(limits, demand),
        machine::governor(limits),
        machine::clock_source(limits),
    ];
    let by_trying = probe.map(|probe| {
        [
            machine::wake_ups(probe, demand),
            machine::precedence(probe, demand),
            machine::steal(probe),
            machine::busy(probe, limits),
        ]
    });
    by_limits.into_iter().chain(by_trying.into_iter().flatten()).flatten().collect()
}
