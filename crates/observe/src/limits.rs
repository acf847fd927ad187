//! What this host allows a load generator: files, ports, queues, memory, processors, and the clock that it has.

use procfs::process::{LimitValue, Process};
use procfs::{Current, Meminfo};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What was found; `None` where it cannot be read or there is no limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Open files that this process may have.
    pub open_files: Option<u64>,
    /// Up to where it may raise that by itself.
    pub open_files_hard: Option<u64>,
    /// Up to where root may raise it (`fs.nr_open`).
    pub open_files_most: Option<u64>,
    /// Ports that connections from one address may leave from (`net.ipv4.ip_local_port_range`).
    pub local_ports: Option<u64>,
    /// Connections that may wait to be accepted by a server on this host (`net.core.somaxconn`).
    pub accept_queue: Option<u64>,
    /// Connections that may be half open at a server on this host (`net.ipv4.tcp_max_syn_backlog`).
    pub half_open: Option<u64>,
    /// Further connections that the firewall can keep track of (`net.netfilter.nf_conntrack_max`, less those it has).
    pub tracked: Option<u64>,
    /// Memory for the data of TCP connections beyond which the kernel becomes sparing, in bytes (`net.ipv4.tcp_mem`).
    pub tcp_memory: Option<u64>,
    /// Version of the kernel, its first two numbers.
    pub kernel: Option<(u32, u32)>,
    /// Where the kernel has the time from.
    pub clock_source: Option<String>,
    /// How the first processor's frequency is chosen.
    pub governor: Option<String>,
    /// Processors that this process may run on.
    pub processors: Option<u64>,
    /// Processors' worth of time that the control group grants.
    pub quota: Option<f64>,
    /// Memory that can be had, in bytes: of the host, or of the control group where that has less.
    pub memory: Option<u64>,
    /// All memory, in bytes.
    pub memory_total: Option<u64>,
    /// Memory that was moved to disk, in bytes.
    pub swapped: Option<u64>,
    /// Further processes and threads that the control group allows.
    pub tasks: Option<u64>,
}

impl Limits {
    /// Reads them.
    pub fn read() -> Limits {
        let memory = Meminfo::current().ok();
        let files = getrlimit(Resource::Nofile);
        let groups = ControlGroups::read();
        let of_group = groups.left("memory", ("memory.max", "memory.current"), V1_MEMORY);
        let of_host = memory.as_ref().and_then(|memory| memory.mem_available);
        Limits {
            open_files: files.current,
            open_files_hard: files.maximum,
            open_files_most: number("/proc/sys/fs/nr_open"),
            local_ports: local_ports(&text("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default()),
            accept_queue: number("/proc/sys/net/core/somaxconn"),
            half_open: number("/proc/sys/net/ipv4/tcp_max_syn_backlog"),
            tracked: number("/proc/sys/net/netfilter/nf_conntrack_max")
                .zip(number("/proc/sys/net/netfilter/nf_conntrack_count"))
                .map(|(most, count): (u64, u64)| most.saturating_sub(count)),
            tcp_memory: tcp_memory(&text("/proc/sys/net/ipv4/tcp_mem").unwrap_or_default()),
            kernel: kernel(&text("/proc/sys/kernel/osrelease").unwrap_or_default()),
            clock_source: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            processors: std::thread::available_parallelism().ok().map(|count| count.get() as u64),
            quota: groups.quota(),
            memory: [of_host, of_group].into_iter().flatten().min(),
            memory_total: memory.as_ref().map(|memory| memory.mem_total),
            swapped: memory.as_ref().map(|memory| memory.swap_total.saturating_sub(memory.swap_free)),
            tasks: groups.left("pids", ("pids.max", "pids.current"), ("pids.max", "pids.current")),
        }
    }
}

/// The number of files that another process may have open; `None` where it cannot be read or has no limit.
pub fn open_files_of(process: i32) -> Option<u64> {
    match Process::new(process).and_then(|process| process.limits()).ok()?.max_open_files.soft_limit {
        LimitValue::Value(files) => Some(files),
        LimitValue::Unlimited => None,
    }
}

/// Raises the number of files that this process may have open, as far as it may by itself.
pub fn raise_open_files(wanted: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
        // Where it is refused the limit stays, which whoever checks it afterwards sees.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum });
    }
}

/// The second of three numbers of pages.
fn tcp_memory(text: &str) -> Option<u64> {
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// Limit and use of memory in the first version of control groups.
const V1_MEMORY: (&str, &str) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
/// The first version writes "no limit" as a number about this large.
const V1_NO_LIMIT: u64 = 1 << 60;

/// The control groups that this process is in, innermost first: limits of outer ones hold too.
struct ControlGroups {
    unified: Vec<PathBuf>,
    /// By controller, where the first version is in use.
    separate: Vec<(String, Vec<PathBuf>)>,
}

impl ControlGroups {
    fn read() -> ControlGroups {
        let root = Path::new("/sys/fs/cgroup");
        let (mut unified, mut separate) = (Vec::new(), Vec::new());
        // cgroups(7): a line is NUMBER:CONTROLLERS:PATH, without controllers in the second version.
        for line in text("/proc/self/cgroup").unwrap_or_default().lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            if controllers.is_empty() {
                unified = folders(root, path);
            }
            for controller in controllers.split(',').filter(|name| !name.is_empty()) {
                separate.push((controller.to_owned(), folders(&root.join(controller), path)));
            }
        }
        ControlGroups { unified, separate }
    }

    fn of<'a>(&'a self, controller: &str) -> &'a [PathBuf] {
        let found = self.separate.iter().find(|(name, _)| name == controller);
        found.map_or(&[], |(_, folders)| folders)
    }

    /// The least that any group leaves of something, by the names of the files that hold its limit and its use.
    fn left(&self, controller: &str, second: (&str, &str), first: (&str, &str)) -> Option<u64> {
        let left = |folder: &PathBuf, (limit, used): (&str, &str)| {
            let limit: u64 = number(folder.join(limit)).filter(|&limit| limit < V1_NO_LIMIT)?;
            Some(limit.saturating_sub(number(folder.join(used))?))
        };
        let unified = self.unified.iter().filter_map(|folder| left(folder, second));
        unified.chain(self.of(controller).iter().filter_map(|folder| left(folder, first))).min()
    }

    fn quota(&self) -> Option<f64> {
        let unified = self.unified.iter().filter_map(|folder| quota(&text(folder.join("cpu.max"))?));
        let separate = self.of("cpu").iter().filter_map(|folder| {
            let quota: f64 = number(folder.join("cpu.cfs_quota_us")).filter(|&quota| quota > 0.0)?;
            Some(quota / number::<f64>(folder.join("cpu.cfs_period_us"))?)
        });
        unified.chain(separate).min_by(f64::total_cmp)
    }
}

/// The folder of a group and those of the groups around it, as far as they can be seen from here.
fn folders(root: &Path, group: &str) -> Vec<PathBuf> {
    Path::new(group.trim_start_matches('/'))
        .ancestors()
        .map(|path| root.join(path))
        .filter(|folder| folder.is_dir())
        .collect()
}

/// `cpu.max` of the second version: microseconds in a period of so many, or `max`.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.trim().parse::<f64>().ok()?)
}

fn local_ports(range: &str) -> Option<u64> {
    let (first, last) = range.split_once(char::is_whitespace)?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.trim().parse().ok()?);
    (last + 1).checked_sub(first)
}

fn kernel(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    text(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_every_host_has() {
        let limits = Limits::read();
        assert!(limits.kernel.is_some_and(|kernel| kernel > (2, 6)), "{limits:?}");
        assert!(limits.local_ports.is_some_and(|ports| (1..=65_536).contains(&ports)), "{limits:?}");
        assert!(limits.memory <= limits.memory_total && limits.memory.is_some(), "{limits:?}");
        assert!(limits.open_files <= limits.open_files_hard, "{limits:?}");
    }

    #[test]
    fn texts_of_the_kernel_are_understood() {
        assert_eq!(local_ports("32768\t60999"), Some(28_232));
        assert_eq!(local_ports("60999 32768"), None);
        assert_eq!(kernel("6.18.44-generic"), Some((6, 18)));
        assert_eq!(quota("150000 100000"), Some(1.5));
        assert_eq!(quota("max 100000"), None);
    }

    #[test]
    fn outer_groups_count_too() {
        let found = folders(Path::new("/proc"), "/self/no-such-group/fd");
        assert_eq!(
            found,
            ["/proc/self", "/proc/"].map(PathBuf::from),
            "those that are not there are left out"
        );
    }

    #[test]
    fn the_limit_of_open_files_is_raised_no_further_than_allowed() {
        let before = getrlimit(Resource::Nofile);
        raise_open_files(u64::MAX);
        let after = getrlimit(Resource::Nofile);
        assert_eq!((after.current, after.maximum), (before.maximum, before.maximum));
    }
}
