//! Ends what we started.

use rustix::process::{Pid, Signal, kill_process_group};
use std::process::Child;
use std::time::{Duration, Instant};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

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
