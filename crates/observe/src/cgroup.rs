//! The control group of each component: the processor time that it got, how long it was throttled, its memory and its limits
//! (Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of the kernel). A component that shares the group of this program
//! has none of its own.

use crate::rates::{Rates, sum_by};
use crate::sampler::{INTERVAL, ObservedPlatform, Reading, Sampler, SamplerEntry, Unit};
use plimsoll_model::Nanos;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// See the module.
pub const ENTRY: SamplerEntry = SamplerEntry { name: "cgroup", interval: INTERVAL, begin };

/// Above this a limit of memory is none.
const UNLIMITED: u64 = 1 << 60;

/// Where the hierarchies are mounted: version 2, and the controllers of version 1 by name.
#[derive(Clone, Debug, Default, PartialEq)]
struct Mounts {
    unified: Option<PathBuf>,
    controllers: HashMap<String, PathBuf>,
}

/// The folder below which groups can be made that limit processors, or memory, by the version of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitGroups {
    /// Version 1: the group of this process.
    First(PathBuf),
    /// Version 2: the root of what is mounted, because a group with processes of its own may not have limited ones below it.
    Second(PathBuf),
}

impl LimitGroups {
    /// The folder.
    pub fn folder(&self) -> &Path {
        match self {
            LimitGroups::First(folder) | LimitGroups::Second(folder) => folder,
        }
    }
}

/// Where groups can be made that a controller limits, such as `cpu` or `memory`; `None` where this host has none.
pub fn limit_groups(controller: &str) -> Option<LimitGroups> {
    let mounts = mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    if let Some(mount) = mounts.controllers.get(controller) {
        let is_it =
            |(controllers, _): &(String, String)| controllers.split(',').any(|name| name == controller);
        let own = groups("self").into_iter().find(is_it).map(|(_, path)| mount.join(path));
        // In a container, what is mounted is its own group.
        let folder = own.filter(|own| own.exists()).unwrap_or_else(|| mount.clone());
        return is_group(&folder).then_some(LimitGroups::First(folder));
    }
    let unified = mounts.unified?;
    let controllers = fs::read_to_string(unified.join("cgroup.subtree_control")).unwrap_or_default();
    let has_it = controllers.split_whitespace().any(|name| name == controller);
    (has_it && is_group(&unified)).then_some(LimitGroups::Second(unified))
}

/// Whether the folder is what it is said to be: another file system may be mounted over it.
fn is_group(folder: &Path) -> bool {
    folder.join("cgroup.procs").exists()
}

/// A path as `/proc/self/mountinfo` writes it: blanks and the like are three octal digits.
fn unescaped(written: &str) -> PathBuf {
    let mut path = String::new();
    let mut rest = written;
    while let Some((before, after)) = rest.split_once('\\') {
        path.push_str(before);
        let digits = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(digits.map_or('\\', char::from));
        rest = if digits.is_some() { &after[3..] } else { after };
    }
    (path + rest).into()
}

/// For how long the quotas of control groups kept components from running.
pub struct Throttling {
    mounts: Mounts,
    /// The group of each component's first process; `None` of one that shares ours.
    folders: HashMap<i32, Option<PathBuf>>,
    last: HashMap<String, u64>,
}

impl Throttling {
    /// Of this host.
    pub fn begin() -> Throttling {
        let mounts = mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
        Throttling { mounts, folders: HashMap::new(), last: HashMap::new() }
    }

    /// Since the last call for the component of that name, whose first process is `root`; zero at the first. The kernel adds up
    /// what it withheld on each processor.
    pub fn since_last(&mut self, component: &str, root: i32) -> Nanos {
        let mounts = &self.mounts;
        let folder = self.folders.entry(root).or_insert_with(|| mounts.processor_group(root));
        let Some(folder) = folder else { return Nanos::ZERO };
        let is_first = mounts.controllers.contains_key("cpu");
        let so_far = throttled(&keyed(&folder.join("cpu.stat")), is_first).unwrap_or(0);
        let before = self.last.insert(component.to_owned(), so_far).unwrap_or(so_far);
        Nanos(i64::try_from(so_far.saturating_sub(before)).unwrap_or(i64::MAX))
    }
}

struct Cgroups {
    mounts: Mounts,
    rates: Rates<(String, &'static str)>,
}

fn begin() -> Result<Box<dyn Sampler>, &'static str> {
    let mounts = mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    match mounts == Mounts::default() {
        true => Err("no control groups are mounted"),
        false => Ok(Box::new(Cgroups { mounts, rates: Rates::default() })),
    }
}

impl Mounts {
    /// The folder of the group that limits the processors of a process; `None` where it is ours, too.
    fn processor_group(&self, pid: i32) -> Option<PathBuf> {
        let own = groups("self");
        let cpu = self.controllers.get("cpu");
        let is_it = |(controllers, _): &(String, String)| match cpu {
            Some(_) => controllers.split(',').any(|name| name == "cpu"),
            None => controllers.is_empty(),
        };
        let group = groups(&pid.to_string()).into_iter().find(is_it).filter(|group| !own.contains(group))?;
        Some(cpu.or(self.unified.as_ref())?.join(group.1))
    }
}

/// From `/proc/self/mountinfo` (proc(5)).
fn mounts(text: &str) -> Mounts {
    let mut mounts = Mounts::default();
    for line in text.lines() {
        let Some((first, second)) = line.split_once(" - ") else { continue };
        let Some(point) = first.split(' ').nth(4).map(unescaped) else { continue };
        let mut second = second.split(' ');
        match second.next() {
            Some("cgroup2") => mounts.unified = Some(point),
            Some("cgroup") => {
                let controllers = second.nth(1).unwrap_or_default().split(',');
                mounts.controllers.extend(controllers.map(|name| (name.to_owned(), point.clone())));
            }
            _ => {}
        }
    }
    mounts
}

/// The path of a process's group in each hierarchy: controllers, empty for version 2, and path.
fn groups(pid: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?.to_owned(), parts.next()?.trim_start_matches('/').to_owned()))
    };
    text.lines().filter_map(of).collect()
}

/// What a group shows of itself.
#[derive(Debug, Default, PartialEq)]
struct Shown {
    /// Counters, in nanoseconds, bytes or times.
    counters: Vec<(&'static str, u64)>,
    /// Values as they are.
    values: Vec<(&'static str, Unit, f64)>,
}

const USED: &str = "processor time";
/// Processors that a group may use at most.
pub const QUOTA: &str = "quota";
const THROTTLED: &str = "throttled";
const PERIODS: &str = "throttled periods";
const DISK_READ: &str = "disk read";
const DISK_WRITTEN: &str = "disk written";

impl Shown {
    /// Of a group of version 2.
    fn unified(&mut self, folder: &Path) {
        let stat = keyed(&folder.join("cpu.stat"));
        let micros = |key: &str| Some(stat.get(key)? * 1_000);
        self.count(USED, micros("usage_usec"));
        self.count(THROTTLED, throttled(&stat, false));
        self.count(PERIODS, stat.get("nr_throttled").copied());
        let limit = fs::read_to_string(folder.join("cpu.max")).unwrap_or_default();
        let mut numbers = limit.split_whitespace().map_while(|word| word.parse::<f64>().ok());
        self.quota(numbers.next(), numbers.next());
        self.memory(number(&folder.join("memory.current")), number(&folder.join("memory.max")));
        self.killed(keyed(&folder.join("memory.events")).get("oom_kill").copied());
        let frozen = keyed(&folder.join("cgroup.events")).get("frozen").copied();
        self.values.extend(frozen.map(|frozen| ("frozen", Unit::Count, frozen as f64)));
        let disks = fs::read_to_string(folder.join("io.stat")).unwrap_or_default();
        let sum = |key: &str| {
            let words =
                disks.split_whitespace().filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok());
            (!disks.is_empty()).then(|| words.sum())
        };
        self.count(DISK_READ, sum("rbytes="));
        self.count(DISK_WRITTEN, sum("wbytes="));
    }

    /// Of a controller of version 1.
    fn controller(&mut self, controller: &str, folder: &Path) {
        match controller {
            "cpuacct" => self.count(USED, number(&folder.join("cpuacct.usage"))),
            "cpu" => {
                let stat = keyed(&folder.join("cpu.stat"));
                self.count(THROTTLED, throttled(&stat, true));
                self.count(PERIODS, stat.get("nr_throttled").copied());
                // -1 is none.
                let of = |name: &str| number(&folder.join(name)).map(|micros| micros as f64);
                self.quota(of("cpu.cfs_quota_us"), of("cpu.cfs_period_us"));
            }
            "memory" => {
                self.killed(keyed(&folder.join("memory.oom_control")).get("oom_kill").copied());
                self.memory(
                    number(&folder.join("memory.usage_in_bytes")),
                    number(&folder.join("memory.limit_in_bytes")),
                );
            }
            "freezer" => {
                let state = fs::read_to_string(folder.join("freezer.state")).ok();
                let frozen = state.map(|state| f64::from(u8::from(state.trim() != "THAWED")));
                self.values.extend(frozen.map(|frozen| ("frozen", Unit::Count, frozen)));
            }
            "blkio" => {
                let disks =
                    fs::read_to_string(folder.join("blkio.throttle.io_service_bytes")).unwrap_or_default();
                let sum = |kind: &str| {
                    let of =
                        disks.lines().filter_map(|line| line.split_once(kind)?.1.trim().parse::<u64>().ok());
                    (!disks.is_empty()).then(|| of.sum())
                };
                self.count(DISK_READ, sum(" Read "));
                self.count(DISK_WRITTEN, sum(" Write "));
            }
            _ => {}
        }
    }

    fn count(&mut self, quantity: &'static str, value: Option<u64>) {
        self.counters.extend(value.map(|value| (quantity, value)));
    }

    fn quota(&mut self, micros: Option<f64>, period: Option<f64>) {
        let processors =
            micros.zip(period).filter(|(_, period)| *period > 0.0).map(|(micros, period)| micros / period);
        self.values.extend(processors.map(|quota| (QUOTA, Unit::Processors, quota)));
    }

    /// Processes of the group that the kernel has killed for want of memory, so far.
    fn killed(&mut self, processes: Option<u64>) {
        let counted = processes.filter(|&processes| processes > 0);
        self.values.extend(counted.map(|count| ("killed for want of memory", Unit::Count, count as f64)));
    }

    fn memory(&mut self, used: Option<u64>, limit: Option<u64>) {
        self.values.extend(used.map(|used| ("memory", Unit::Bytes, used as f64)));
        let limit = limit.filter(|&limit| limit < UNLIMITED);
        self.values.extend(limit.map(|limit| ("memory limit", Unit::Bytes, limit as f64)));
    }
}

/// For how long a quota kept threads from running, in nanoseconds, out of a `cpu.stat` of the first version or of the second.
fn throttled(stat: &HashMap<String, u64>, is_first: bool) -> Option<u64> {
    if is_first { stat.get("throttled_time").copied() } else { Some(stat.get("throttled_usec")? * 1_000) }
}

/// The share of the time for which a quota kept a component from running, out of what it withheld on all processors and what the
/// component used meanwhile, both as processors: threads that are kept together are kept once.
pub fn kept(withheld: f64, used: f64) -> f64 {
    withheld / (withheld + used).max(1.0)
}

/// A file with one number; `max` is none.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A file with a name and a number in each line.
fn keyed(path: &Path) -> HashMap<String, u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let of = |line: &str| {
        let (key, value) = line.split_once(' ')?;
        Some((key.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(of).collect()
}

impl Cgroups {
    /// What the group of a process shows in each hierarchy in which it is not ours.
    fn shown(&self, pid: i32, own: &[(String, String)]) -> Shown {
        let mut shown = Shown::default();
        for group in groups(&pid.to_string()).iter().filter(|group| !own.contains(group)) {
            let (controllers, path) = group;
            if controllers.is_empty() {
                self.mounts.unified.iter().for_each(|mount| shown.unified(&mount.join(path)));
                continue;
            }
            for controller in controllers.split(',') {
                if let Some(mount) = self.mounts.controllers.get(controller) {
                    shown.controller(controller, &mount.join(path));
                }
            }
        }
        shown
    }
}

impl Sampler for Cgroups {
    fn read(&mut self, platform: &ObservedPlatform<'_>) -> Vec<Reading> {
        let own = groups("self");
        let mut readings = Vec::new();
        let mut counters = HashMap::new();
        for family in platform.families.iter().filter(|family| !family.members.is_empty()) {
            let shown = self.shown(family.root, &own);
            let of = |(quantity, unit, value)| Reading::of(&family.component, quantity, unit, value);
            readings.extend(shown.values.into_iter().map(of));
            let named = |(quantity, count)| ((family.component.clone(), quantity), count);
            counters.extend(shown.counters.into_iter().map(named));
        }
        let rates = self.rates.since_last(Instant::now(), counters);
        let rates = sum_by(rates, Clone::clone);
        let used: HashMap<String, f64> = rates
            .iter()
            .filter(|((_, quantity), _)| *quantity == USED)
            .map(|((name, _), rate)| (name.clone(), *rate))
            .collect();
        for ((component, quantity), rate) in rates {
            readings.push(match quantity {
                USED => Reading::of(&component, quantity, Unit::Processors, rate / 1e9),
                THROTTLED => {
                    let used = used.get(&component).copied().unwrap_or_default();
                    Reading::of(&component, quantity, Unit::Share, kept(rate / 1e9, used / 1e9))
                }
                PERIODS => Reading::of(&component, quantity, Unit::PerSecond, rate),
                _ => Reading::of(&component, quantity, Unit::BytesPerSecond, rate),
            });
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_a_quota_keeps_together_are_kept_once() {
        assert_eq!(kept(0.0, 0.0), 0.0);
        assert!((kept(0.5, 0.5) - 0.5).abs() < 1e-9, "one thread, half of the time");
        assert!((kept(0.3, 0.2) - 0.3).abs() < 1e-9, "which is idle else");
        assert!((kept(0.24, 7.76) - 0.03).abs() < 1e-9, "eight threads, 3 % of the time");
        assert!((kept(3.5, 0.5) - 0.875).abs() < 1e-9, "four threads with half of a processor");
    }

    #[test]
    fn both_versions_are_found_among_the_mounts() {
        let text = "30 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                    31 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                    1 1 0:1 / / rw - ext4 /dev/vda rw\nnonsense\n";
        let found = mounts(text);
        assert_eq!(found.unified, Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(found.controllers["cpuacct"], PathBuf::from("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(mounts(""), Mounts::default());
        let blank = mounts("1 1 0:1 / /a\\040b\\x rw - cgroup2 cgroup2 rw\n");
        assert_eq!(blank.unified, Some(PathBuf::from("/a b\\x")));
    }

    #[test]
    fn a_group_of_each_version_shows_itself() {
        let folder = std::env::temp_dir().join(format!("plimsoll-cgroup-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("cpu.stat", "usage_usec 5000\nnr_throttled 3\nthrottled_usec 70\nthrottled_time 9\n");
        write("cpu.max", "50000 100000\n");
        write("memory.current", "4096\n");
        write("memory.max", "max\n");
        write("cgroup.events", "populated 1\nfrozen 1\n");
        write("io.stat", "8:0 rbytes=10 wbytes=20 rios=1\n8:1 rbytes=1 wbytes=2\n");
        let mut shown = Shown::default();
        shown.unified(&folder);
        let counters =
            [(USED, 5_000_000), (THROTTLED, 70_000), (PERIODS, 3), (DISK_READ, 11), (DISK_WRITTEN, 22)];
        assert_eq!(shown.counters, counters);
        let values =
            [(QUOTA, Unit::Processors, 0.5), ("memory", Unit::Bytes, 4096.0), ("frozen", Unit::Count, 1.0)];
        assert_eq!(shown.values, values);
        write("cpu.max", "max 100000\n");
        write("cpu.cfs_quota_us", "150000\n");
        write("cpu.cfs_period_us", "100000\n");
        write("cpuacct.usage", "123\n");
        write("memory.usage_in_bytes", "7\n");
        write("memory.limit_in_bytes", "100\n");
        write("freezer.state", "FROZEN\n");
        write("blkio.throttle.io_service_bytes", "8:0 Read 5\n8:0 Write 6\nTotal 11\n");
        let mut unlimited = Shown::default();
        unlimited.unified(&folder);
        assert!(!unlimited.values.iter().any(|(quantity, ..)| *quantity == QUOTA), "{unlimited:?}");
        let mut first = Shown::default();
        ["cpu", "cpuacct", "memory", "freezer", "blkio", "pids"]
            .iter()
            .for_each(|name| first.controller(name, &folder));
        fs::remove_dir_all(&folder).unwrap();
        let counters = [(THROTTLED, 9), (PERIODS, 3), (USED, 123), (DISK_READ, 5), (DISK_WRITTEN, 6)];
        assert_eq!(first.counters, counters);
        let memory = [("memory", Unit::Bytes, 7.0), ("memory limit", Unit::Bytes, 100.0)];
        assert_eq!(first.values[0], (QUOTA, Unit::Processors, 1.5));
        assert_eq!(first.values[1..], [memory[0], memory[1], ("frozen", Unit::Count, 1.0)]);
    }
}
