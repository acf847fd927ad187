//! A control group of the kernel, which keeps a component to so much processor time: the guard makes it, the component joins it
//! before it starts, and the guard removes it (cgroup-v2.rst of the kernel, and sched-bwc.rst for version 1).

use plimsoll_observe::cgroup::{ProcessorGroups, processor_groups};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A quota is that of each period, in microseconds.
const PERIOD: f64 = 100_000.0;
/// How often a group is tried to be removed: its processes are being killed.
const TRIES: usize = 100;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// A group that is there, or is not made yet.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    groups: ProcessorGroups,
    folder: PathBuf,
    quota: f64,
}

/// A group that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Made(PathBuf);

impl ControlGroup {
    /// The group of what a guard starts for a platform with that folder.
    pub fn of(platform: &Path, guard: Pid, quota: f64) -> io::Result<ControlGroup> {
        let groups = processor_groups().ok_or_else(none_mounted)?;
        let folder = groups.folder().join(format!("{}{}", prefix(platform), guard.as_raw_pid()));
        Ok(ControlGroup { groups, folder, quota })
    }

    /// Makes it with its quota.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn make(&self) -> io::Result<Made> {
        fs::create_dir(&self.folder).map_err(|cause| told("make", &self.folder, cause))?;
        let made = Made(self.folder.clone());
        let write = |name: &str, text: String| {
            let path = self.folder.join(name);
            fs::write(&path, text).map_err(|cause| told("write", &path, cause))
        };
        let (quota, period) = ((self.quota * PERIOD).round(), PERIOD);
        match self.groups {
            ProcessorGroups::First(_) => {
                write("cpu.cfs_period_us", period.to_string())?;
                write("cpu.cfs_quota_us", quota.to_string())?;
            }
            ProcessorGroups::Second(_) => write("cpu.max", format!("{quota} {period}"))?,
        }
        Ok(made)
    }

    /// Puts this process into it.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn join(&self) -> io::Result<()> {
        let path = self.folder.join("cgroup.procs");
        fs::write(&path, getpid().as_raw_pid().to_string()).map_err(|cause| told("write", &path, cause))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // The next one that removes what is left of the platform tries again.
        let _ = remove(&self.0);
    }
}

/// Whether this host gives groups of a platform that quota, by making one.
///
/// # Errors
/// It does not.
pub(crate) fn try_out(platform: &Path, quota: f64) -> io::Result<()> {
    ControlGroup::of(platform, getpid(), quota)?.make().map(drop)
}

/// Removes what guards that were killed have left of a platform with that folder.
///
/// # Errors
/// Something of it stays.
pub(crate) fn remove_of(platform: &Path) -> io::Result<()> {
    let Some(groups) = processor_groups() else { return Ok(()) };
    let entries = fs::read_dir(groups.folder()).into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix(platform)));
    own.map(|entry| remove(&entry.path())).fold(Ok(()), io::Result::and)
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

fn prefix(platform: &Path) -> String {
    format!("{}.", platform.file_name().unwrap_or_default().to_string_lossy())
}

fn none_mounted() -> io::Error {
    io::Error::other("no control groups for processors are mounted on this host")
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
    fn each_version_gets_the_quota_in_its_own_words() {
        let place = tempfile::TempDir::new().unwrap();
        let texts = |groups: ProcessorGroups, names: &[&str]| -> Vec<String> {
            let folder = place.path().join("group");
            let group = ControlGroup { groups, folder: folder.clone(), quota: 0.25 };
            let made = group.make().unwrap();
            let texts = names.iter().map(|name| fs::read_to_string(folder.join(name)).unwrap()).collect();
            fs::remove_dir_all(&folder).unwrap();
            drop(made);
            texts
        };
        let mount = || place.path().to_owned();
        let first = texts(ProcessorGroups::First(mount()), &["cpu.cfs_period_us", "cpu.cfs_quota_us"]);
        assert_eq!(first, ["100000", "25000"]);
        assert_eq!(texts(ProcessorGroups::Second(mount()), &["cpu.max"]), ["25000 100000"]);
    }

    #[test]
    fn a_refusal_says_where_and_what_to_do() {
        let refusal = told("make", Path::new("/sys/x"), io::ErrorKind::PermissionDenied.into());
        assert_eq!(refusal.to_string(), "cannot make /sys/x: permission denied; run Plimsoll as root");
    }
}
