//! Ends what a platform has left behind where its guards were killed.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::time::Duration;

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
