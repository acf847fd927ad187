//! The processes below this one, found fast: only they are looked at, and not all of the host.

use plimsoll_observe::family::family;
use rustix::process::{Pid, getpid};
use std::fs;
use std::path::Path;

/// A process below this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descendant {
    /// Which.
    pub process: Pid,
    /// Whether somebody has stopped it.
    pub is_stopped: bool,
}

/// The processes below this one, parents before their children. Where some of them end meanwhile, what those had started may be
/// missing: the next look finds it below this process. What is stopped has children that stay the same.
pub(crate) fn descendants() -> Vec<Descendant> {
    let own = getpid().as_raw_pid();
    let mut open = children(own);
    if open.is_empty() && !Path::new("/proc/thread-self/children").exists() {
        // A kernel that lists no children (CONFIG_PROC_CHILDREN).
        let all = family(own).into_iter().filter(|(process, _)| process.pid != own);
        return all.filter_map(|(process, stat)| descendant(process.pid, stat.state)).collect();
    }
    let mut found = Vec::new();
    while !open.is_empty() {
        found.extend(open.iter().filter_map(|&process| descendant(process, state(process)?)));
        open = open.iter().flat_map(|&process| children(process)).collect();
    }
    found
}

fn descendant(process: i32, state: char) -> Option<Descendant> {
    // A debugger stops as well.
    Some(Descendant { process: Pid::from_raw(process)?, is_stopped: matches!(state, 'T' | 't') })
}

/// What all threads of a process have started, and what was left to them.
fn children(process: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let listed = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    listed.flat_map(|list| list.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Whether a process works, or waits for something that it would be woken by.
pub(crate) fn goes_on(process: Pid) -> bool {
    matches!(state(process.as_raw_pid()), Some('R' | 'S' | 'I'))
}

/// What a process is about, as a letter (proc_pid_stat(5)); `None` where it is gone.
fn state(process: i32) -> Option<char> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // Its name may have any bytes, also those that stand around it.
    let behind = stat.iter().rposition(|&byte| byte == b')')? + 2;
    stat.get(behind).map(|&letter| letter.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, kill_process};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn children_of_children_are_found_and_who_is_stopped_among_them() {
        let mut child =
            Command::new("sh").args(["-c", "sleep 60 & sleep 60"]).stdout(Stdio::null()).spawn().unwrap();
        let shell = Pid::from_child(&child);
        let begin = Instant::now();
        let below = || children(shell.as_raw_pid());
        while below().len() < 2 {
            assert!(begin.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
        let stopped = Pid::from_raw(below()[0]).unwrap();
        kill_process(stopped, Signal::STOP).unwrap();
        let of = |process: Pid| descendants().into_iter().find(|found| found.process == process).unwrap();
        while !of(stopped).is_stopped {
            assert!(begin.elapsed() < Duration::from_secs(10));
        }
        assert!(!of(shell).is_stopped && !of(Pid::from_raw(below()[1]).unwrap()).is_stopped);
        for process in below() {
            kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
        }
        child.kill().and_then(|()| child.wait()).unwrap();
    }
}
