//! Whether this host can carry the run at all.

use plimsoll_scenario::plan::Plan;

/// Descriptors beside the connections: standard streams, run store, log files, one epoll instance a thread.
const BESIDE: u64 = 64;

/// The reason why the run cannot be done here, with what to do.
pub fn check(plan: &Plan) -> Result<(), String> {
    let connections = u64::from(plan.devices) + u64::from(plan.subscribers.count);
    match plimsoll_observe::host::open_files() {
        Some(limit) if connections + BESIDE > limit => {
            let needed = connections + BESIDE;
            Err(format!(
                "{connections} connections need {needed} open files, but this process may have {limit}: raise the \
                 limit with `ulimit -n {needed}` (as root, or within the hard limit), or use fewer devices"
            ))
        }
        _ => Ok(()),
    }
}
