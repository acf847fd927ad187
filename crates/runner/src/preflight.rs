//! Whether this host can carry a run: what is asked of it against what it allows, each finding with its remedy.
//!
//! The rules are pure: [`examine`] judges what it is given. [`Demand`] is what a plan asks for; without one a host is
//! looked at in general.

mod connections;
mod demand;
mod machine;

pub use connections::WIDEST;
pub use demand::{Demand, Place};
pub use machine::memory_of_clients;

pub use plimsoll_model::host_check::{HostCheck, Severity};
use plimsoll_observe::limits::Limits;
use plimsoll_observe::probe::Probe;

/// Messages that the platform will refuse.
pub fn oversize(told: String) -> HostCheck {
    let remedy = "smaller messages, or a profile with another `device.largest`".to_owned();
    HostCheck { subject: "message size", severity: Severity::Warning, told, remedy }
}

/// A contract of delivery that may excuse real losses.
pub fn doubtful_delivery(told: String) -> HostCheck {
    let remedy = "`delivery: every` in the profile, the default".to_owned();
    HostCheck { subject: "delivery contract", severity: Severity::Warning, told, remedy }
}

/// Devices that queries do not reach.
pub fn unreached_by_queries(told: String) -> HostCheck {
    HostCheck::warning("queries", told, "")
}

/// A filter by which nobody receives anything.
pub fn doubtful_filter(told: String) -> HostCheck {
    HostCheck::warning("filters", told, "")
}

/// Everything that is known about this host with respect to a demand. What cannot be read or was not tried has no
/// finding.
pub fn examine(limits: &Limits, probe: Option<&Probe>, demand: Option<&Demand>) -> Vec<HostCheck> {
    let by_limits = [
        connections::open_files(limits, demand),
        connections::local_ports(limits, demand),
        connections::source_addresses(demand),
        connections::accept_queue(limits, demand),
        connections::tracked(limits, demand),
        connections::tcp_memory(limits, demand),
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
