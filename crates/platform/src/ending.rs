//! Ends what we started.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// How often strays are looked for: one may start another while it is looked at.
const LOOKS: usize = 50;

/// The environment variable by which whatever a component starts is known, wherever it goes: a daemon leaves its parent and
/// its process group, and keeps its environment.
pub(crate) const MARK: &str = "PLIMSOLL_PLATFORM_FOLDER";

/// Kills what components with their files in that folder have left behind.
pub(crate) fn end_strays(folder: &Path) {
    for _ in 0..LOOKS {
        let strays = strays(folder);
        if strays.is_empty() {
            return;
        }
        for stray in strays {
            // One that has just ended is no failure.
            let _ = kill_process(stray, Signal::KILL);
        }
        std::thread::sleep(PAUSE);
    }
}

/// The processes that carry the folder's mark. The kernel empties the environment of those that have ended.
fn strays(folder: &Path) -> Vec<Pid> {
    let mark = format!("{MARK}={}", folder.display());
    let carries = |environment: &[u8]| environment.split(|&byte| byte == 0).any(|one| one == mark.as_bytes());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| fs::read(entry.path().join("environ")).is_ok_and(|all| carries(&all)))
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

/// Asks a child that leads a process group (see [`crate::guard::guarded`]) and its group to end, and kills what is left
/// of them after `grace`, a child that is stopped included. Whether the child ended without being killed.
pub fn end(child: &mut Child, grace: Duration) -> bool {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let begin = Instant::now();
    let goes_on = |child: &mut Child| matches!(child.try_wait(), Ok(None));
    if let (true, Some(group)) = (goes_on(child), group) {
        let _ = kill_process_group(group, Signal::TERM);
        while begin.elapsed() < grace && goes_on(child) {
            std::thread::sleep(PAUSE);
        }
    }
    let ended = !goes_on(child);
    // Whatever of its group is left; an empty group is an error that changes nothing.
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
    ended
}
