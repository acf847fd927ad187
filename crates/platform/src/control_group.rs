//! Control groups of the kernel, which keep a component to so much processor time and memory: the guard makes them, the component
//! joins them before it starts, and the guard removes them (cgroup-v2.rst of the kernel; sched-bwc.rst and cgroup-v1/memory.rst for
//! version 1).

use crate::folder::private;
use plimsoll_observe::cgroup::{LimitGroups, limit_groups};
use plimsoll_scenario::plan::QuotaPlan;
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A quota is that of each period, in microseconds, which is so long unless the scenario says otherwise.
const PERIOD: f64 = 100_000.0;
/// How often a group is tried to be removed: its processes are being killed.
const TRIES: usize = 100;
/// A group whose memory was once so near to its limit, as a share of it, came to it: the kernel charges many pages at once.
const NEAR: f64 = 0.9;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);
/// The file in the platform's folder that has the paths of its groups, each with a zero byte behind it.
const NOTED: &str = ".groups";
/// The controllers that limit components.
const CONTROLLERS: [&str; 2] = [PROCESSORS, MEMORY];
const PROCESSORS: &str = "cpu";
const MEMORY: &str = "memory";

/// The groups of a component, which are there or not made yet: one for each limit, or one for both in version 2.
#[derive(Debug, Default)]
pub(crate) struct ControlGroups {
    /// The platform's folder, in which the groups are noted before they are made.
    platform: PathBuf,
    all: Vec<ControlGroup>,
}

/// A limit, and the group that has it.
#[derive(Debug)]
struct ControlGroup {
    groups: LimitGroups,
    folder: PathBuf,
    limit: Limit,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    /// So many, in each period of so many microseconds.
    Processors {
        most: f64,
        period: f64,
    },
    Memory(u64),
}

/// Groups that are removed when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Made(Vec<PathBuf>);

impl ControlGroups {
    /// Those of what a guard starts for a platform with that folder.
    ///
    /// # Errors
    /// This host has none for such a limit.
    pub fn of(platform: &Path, guard: Pid, quota: QuotaPlan) -> io::Result<ControlGroups> {
        let group = |controller: &'static str, limit: Limit| {
            let groups = limit_groups(controller).ok_or_else(|| none_mounted(controller))?;
            let folder = groups.folder().join(format!("{}{}", prefix(platform), guard.as_raw_pid()));
            Ok(ControlGroup { groups, folder, limit })
        };
        let period = quota.period.map_or(PERIOD, |period| period.as_secs_f64() * 1e6);
        let processors = quota.processors.map(|most| group(PROCESSORS, Limit::Processors { most, period }));
        let memory = quota.memory.map(|most| group(MEMORY, Limit::Memory(most)));
        let all = processors.into_iter().chain(memory).collect::<io::Result<_>>()?;
        Ok(ControlGroups { platform: platform.to_owned(), all })
    }

    /// Makes them with their limits.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn make(&self) -> io::Result<Made> {
        let mut made = Made::default();
        for group in &self.all {
            if !made.0.contains(&group.folder) {
                note(&self.platform, &group.folder)?;
                fs::create_dir(&group.folder).map_err(|cause| told("make", &group.folder, cause))?;
                made.0.push(group.folder.clone());
            }
            group.limit()?;
        }
        Ok(made)
    }

    /// Puts this process into them.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn join(&self) -> io::Result<()> {
        for ControlGroup { folder, .. } in &self.all {
            let path = folder.join("cgroup.procs");
            let written = fs::write(&path, getpid().as_raw_pid().to_string());
            written.map_err(|cause| told("write", &path, cause))?;
        }
        Ok(())
    }

    /// Leaves that share of the quota of processor time, from 0 to 1: whether there is one.
    ///
    /// # Errors
    /// The operating system refuses; it grants no less than a hundredth of a processor.
    pub fn leave(&self, share: f64) -> io::Result<bool> {
        for group in &self.all {
            if let Limit::Processors { most, period } = group.limit {
                group.grant(most * share, period)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the kernel did because a limit of memory was too small, for people; `None` where it did nothing.
    pub fn killing(&self) -> Option<String> {
        self.all.iter().find_map(|group| {
            let Limit::Memory(memory) = group.limit else { return None };
            let file = match group.groups {
                LimitGroups::First(_) => "memory.oom_control",
                LimitGroups::Second(_) => "memory.events",
            };
            let read = |name: &str| fs::read_to_string(group.folder.join(name)).unwrap_or_default();
            let events = read(file);
            let count = |name: &str| events.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
            let kills = count("oom_kill ");
            // A host without memory kills, too: then the group itself did not come to its limit.
            let came_to_limit = match group.groups {
                // Its count of failures stays zero in newer kernels.
                LimitGroups::First(_) => {
                    let most = read("memory.max_usage_in_bytes").trim().parse::<u64>().unwrap_or(0);
                    most as f64 >= memory as f64 * NEAR
                }
                LimitGroups::Second(_) => count("oom ").is_some_and(|times| times > 0),
            };
            if !came_to_limit {
                return None;
            }
            let quota = QuotaPlan { memory: Some(memory), ..QuotaPlan::default() };
            kills.filter(|kills| *kills > 0).map(|_| {
                format!("the kernel killed a process of it: it needed more than {quota}, its limit (platform.quotas)")
            })
        })
    }
}

impl ControlGroup {
    fn write(&self, name: &str, text: String) -> io::Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|cause| told("write", &path, cause))
    }

    /// Writes a quota of so many processors in each period.
    fn grant(&self, processors: f64, period: f64) -> io::Result<()> {
        let quota = (processors * period).round();
        match &self.groups {
            LimitGroups::First(_) => self.write("cpu.cfs_quota_us", quota.to_string()),
            LimitGroups::Second(_) => self.write("cpu.max", format!("{quota} {period}")),
        }
    }

    fn limit(&self) -> io::Result<()> {
        // Where swapping is not accounted for, there is no such file.
        let without_swap = |name: &str, text: String| {
            if self.folder.join(name).exists() { self.write(name, text) } else { Ok(()) }
        };
        match (&self.groups, self.limit) {
            (LimitGroups::First(_), Limit::Processors { most, period }) => {
                self.write("cpu.cfs_period_us", period.to_string())?;
                self.grant(most, period)
            }
            (LimitGroups::Second(_), Limit::Processors { most, period }) => self.grant(most, period),
            (LimitGroups::First(_), Limit::Memory(most)) => {
                self.write("memory.limit_in_bytes", most.to_string())?;
                without_swap("memory.memsw.limit_in_bytes", most.to_string())
            }
            (LimitGroups::Second(_), Limit::Memory(most)) => {
                self.write("memory.max", most.to_string())?;
                without_swap("memory.swap.max", "0".to_owned())
            }
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for folder in &self.0 {
            // The next one that removes what is left of the platform tries again.
            let _ = remove(folder);
        }
    }
}

/// Whether this host gives groups of a platform those limits, by making them.
///
/// # Errors
/// It does not.
pub(crate) fn try_out(platform: &Path, quota: QuotaPlan) -> io::Result<()> {
    ControlGroups::of(platform, getpid(), quota)?.make().map(drop)
}

/// Removes what guards that were killed have left of a platform with that folder.
///
/// # Errors
/// Something of it stays.
pub(crate) fn remove_of(platform: &Path) -> io::Result<()> {
    // They may be below a group of a process that is gone.
    let noted = fs::read(platform.join(NOTED)).unwrap_or_default();
    let noted = noted.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    let mut folders: Vec<PathBuf> = noted.map(|path| OsStr::from_bytes(path).into()).collect();
    folders.retain(|folder| is_of(platform, folder));
    for groups in CONTROLLERS.into_iter().filter_map(limit_groups) {
        let entries = fs::read_dir(groups.folder()).into_iter().flatten().flatten();
        let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix(platform)));
        folders.extend(own.map(|entry| entry.path()));
    }
    folders.sort();
    folders.dedup();
    folders.iter().map(|folder| remove(folder)).fold(Ok(()), io::Result::and)
}

/// Kills all that is in a group, also what has lost all other ties to the platform, and removes the group with those below it.
fn remove(group: &Path) -> io::Result<()> {
    let mut removed = Ok(());
    for _ in 0..TRIES {
        for below in fs::read_dir(group).into_iter().flatten().flatten() {
            if below.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&below.path())?;
            }
        }
        let inside = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for process in inside.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
            // One that has just ended is no failure.
            let _ = kill_process(process, Signal::KILL);
        }
        removed = match fs::remove_dir(group) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => return Ok(()),
        };
        // Processes that were killed leave it a moment later.
        thread::sleep(PAUSE);
    }
    removed
}

/// Notes a group in the platform's folder, for who removes what is left of it.
fn note(platform: &Path, group: &Path) -> io::Result<()> {
    let line = [group.as_os_str().as_bytes(), b"\0"].concat();
    private(&platform.join(NOTED))?.write_all(&line)
}

/// Whether a folder is a group with a name of that platform: whoever wrote a note, nothing else is removed.
fn is_of(platform: &Path, group: &Path) -> bool {
    let name = group.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(&prefix(platform)) && group.join("cgroup.procs").exists()
}

fn prefix(platform: &Path) -> String {
    format!("{}.", platform.file_name().unwrap_or_default().to_string_lossy())
}

fn none_mounted(controller: &str) -> io::Error {
    io::Error::other(format!("no control groups with the controller `{controller}` are mounted on this host"))
}

fn told(what: &str, path: &Path, cause: io::Error) -> io::Error {
    let help = match cause.kind() {
        io::ErrorKind::PermissionDenied => "; run Plimsoll as root",
        io::ErrorKind::ReadOnlyFilesystem => "; mount the control groups so that they can be written",
        io::ErrorKind::InvalidInput => "; the group of Plimsoll itself may have a smaller quota",
        _ => "",
    };
    io::Error::new(cause.kind(), format!("cannot {what} {}: {cause}{help}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_gets_its_limits_in_its_own_words() {
        let place = tempfile::TempDir::new().unwrap();
        let texts = |groups: fn(PathBuf) -> LimitGroups, names: &[&str]| -> Vec<String> {
            let folder = place.path().join("group");
            let group = |limit| ControlGroup {
                groups: groups(place.path().to_owned()),
                folder: folder.clone(),
                limit,
            };
            let limits = [Limit::Processors { most: 0.25, period: 10_000.0 }, Limit::Memory(1 << 28)];
            let all = limits.map(group).into();
            let made = ControlGroups { platform: place.path().to_owned(), all }.make().unwrap();
            assert_eq!(
                made.0,
                std::slice::from_ref(&folder),
                "one group has both limits where their folders are one"
            );
            let texts = names.iter().map(|name| fs::read_to_string(folder.join(name)).unwrap()).collect();
            fs::remove_dir_all(&folder).unwrap();
            texts
        };
        let names = ["cpu.cfs_period_us", "cpu.cfs_quota_us", "memory.limit_in_bytes"];
        assert_eq!(texts(LimitGroups::First, &names), ["10000", "2500", "268435456"]);
        assert_eq!(texts(LimitGroups::Second, &["cpu.max", "memory.max"]), ["2500 10000", "268435456"]);
    }

    #[test]
    fn a_part_of_a_quota_is_left_in_the_words_of_each_version() {
        let place = tempfile::TempDir::new().unwrap();
        let folder = place.path();
        for (groups, file, texts) in [
            (LimitGroups::First as fn(PathBuf) -> _, "cpu.cfs_quota_us", ["12500", "50000"]),
            (LimitGroups::Second, "cpu.max", ["12500 100000", "50000 100000"]),
        ] {
            let group = |limit| ControlGroup { groups: groups(folder.into()), folder: folder.into(), limit };
            let mut groups =
                ControlGroups { platform: folder.into(), all: vec![group(Limit::Memory(1 << 28))] };
            assert!(!groups.leave(0.25).unwrap(), "there is none");
            groups.all.push(group(Limit::Processors { most: 0.5, period: PERIOD }));
            for (share, text) in [0.25, 1.0].into_iter().zip(texts) {
                assert!(groups.leave(share).unwrap());
                assert_eq!(fs::read_to_string(folder.join(file)).unwrap(), text);
            }
        }
    }

    #[test]
    fn a_kill_for_want_of_memory_is_told_with_the_limit() {
        let place = tempfile::TempDir::new().unwrap();
        let groups = LimitGroups::Second(place.path().to_owned());
        let group = ControlGroup { groups, folder: place.path().to_owned(), limit: Limit::Memory(64 << 20) };
        let groups = ControlGroups { platform: place.path().to_owned(), all: vec![group] };
        fs::write(place.path().join("memory.events"), "oom 1\noom_kill 0\n").unwrap();
        assert_eq!(groups.killing(), None);
        fs::write(place.path().join("memory.events"), "oom 0\noom_kill 1\n").unwrap();
        assert_eq!(groups.killing(), None, "the host had none left");
        fs::write(place.path().join("memory.events"), "oom 3\noom_kill 2\n").unwrap();
        assert!(groups.killing().unwrap().contains("more than 64 MiB of memory, its limit"));
    }

    #[test]
    fn a_refusal_says_where_and_what_to_do() {
        let refusal = told("make", Path::new("/sys/x"), io::ErrorKind::PermissionDenied.into());
        assert_eq!(refusal.to_string(), "cannot make /sys/x: permission denied; run Plimsoll as root");
    }
}
