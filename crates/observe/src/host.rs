//! What the host is and what it allows: facts for the provenance of a run.

use procfs::{CpuInfo, Current, Meminfo};
use std::collections::BTreeMap;
use std::fs;

/// Facts about this host by name; what cannot be read is left out.
pub fn facts() -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty()) {
            facts.insert(name.to_owned(), value);
        }
    };
    add("kernel", fs::read_to_string("/proc/sys/kernel/osrelease").ok());
    add("system", system());
    let processors = CpuInfo::current().ok();
    add("processor", processors.as_ref().and_then(|info| info.model_name(0).map(str::to_owned)));
    add("cores", std::thread::available_parallelism().ok().map(|count| count.to_string()));
    add(
        "memory",
        Meminfo::current().ok().map(|memory| format!("{:.1} GiB", memory.mem_total as f64 / 1024f64.powi(3))),
    );
    add("clock source", read_first("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    add("governor", read_first("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    add("open files", open_files().map(|limit| limit.to_string()));
    add(
        "local ports",
        fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
            .ok()
            .map(|range| range.replace('\t', " to ")),
    );
    facts
}

/// Which monotonic clock this process reads: that of one boot of a kernel, in one time namespace. `None` where that cannot be read.
pub fn clock_identity() -> Option<String> {
    namespace("time")
}

/// Which network this process is in: a network namespace of one boot of a kernel. `None` where that cannot be read.
pub fn network_identity() -> Option<String> {
    namespace("net")
}

/// The namespace of that kind in which this process is (namespaces(7)), among those of all hosts.
fn namespace(kind: &str) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link(format!("/proc/self/ns/{kind}")).ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

/// How many files this process may have open.
pub fn open_files() -> Option<u64> {
    let limits = procfs::process::Process::myself().ok()?.limits().ok()?;
    match limits.max_open_files.soft_limit {
        procfs::process::LimitValue::Value(limit) => Some(limit),
        procfs::process::LimitValue::Unlimited => None,
    }
}

fn read_first(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn system() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_reads_one_clock() {
        assert_eq!(clock_identity(), clock_identity());
    }

    #[test]
    fn knows_the_host() {
        let facts = facts();
        for name in ["kernel", "cores", "memory", "open files"] {
            assert!(facts.contains_key(name), "{name} is missing in {facts:?}");
        }
    }
}
