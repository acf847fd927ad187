//! Keeps the processes below a guard from having more data than they are allowed (`RLIMIT_DATA` of setrlimit(2), prlimit(2)): what
//! they ask the kernel for beyond that, they do not get. What they have already stays theirs.

use crate::tree::{Descendant, descendants};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::fs;
use std::io;

/// How often it is looked for processes that others have started meanwhile.
const LOOKS: usize = 8;

/// A limit that is there until this is dropped.
#[derive(Debug)]
pub(crate) struct DataLimit {
    /// What each process was allowed before.
    before: Vec<(Pid, Rlimit)>,
}

impl DataLimit {
    /// Imposes it on all processes below this one; what they start inherits it.
    ///
    /// # Errors
    /// There is no such process, or one belongs to another user.
    pub fn impose(limit: u64) -> io::Result<DataLimit> {
        let mut imposed = DataLimit { before: Vec::new() };
        for _ in 0..LOOKS {
            let known = imposed.before.len();
            for Descendant { process, .. } in descendants() {
                if imposed.before.iter().any(|(other, _)| *other == process) {
                    continue;
                }
                // The hard limit stays, so that everything can be undone.
                let Some(maximum) = hard_limit(process) else { continue };
                let current = Some(maximum.map_or(limit, |most| most.min(limit)));
                match prlimit(Some(process), Resource::Data, Rlimit { current, maximum }) {
                    Ok(old) => imposed.before.push((process, old)),
                    // One that has just ended is no failure.
                    Err(Errno::SRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if imposed.before.len() == known {
                break;
            }
        }
        if imposed.before.is_empty() {
            return Err(io::Error::other("none of its processes is there"));
        }
        Ok(imposed)
    }
}

impl Drop for DataLimit {
    fn drop(&mut self) {
        let Some((_, first)) = self.before.first() else { return };
        let begun_since = descendants().into_iter().map(|found| found.process);
        let begun_since = begun_since.filter(|own| !self.before.iter().any(|(other, _)| other == own));
        let begun_since: Vec<_> = begun_since.map(|process| (process, *first)).collect();
        for (process, old) in self.before.iter().chain(&begun_since) {
            // One that has ended needs none.
            let _ = prlimit(Some(*process), Resource::Data, *old);
        }
    }
}

/// The hard limit of a process, `Some(None)` for none (proc_pid_limits(5)); `None` where the process is gone.
fn hard_limit(process: Pid) -> Option<Option<u64>> {
    let limits = fs::read_to_string(format!("/proc/{}/limits", process.as_raw_pid())).ok()?;
    let own = limits.lines().find_map(|line| line.strip_prefix("Max data size"))?;
    let hard = own.split_whitespace().nth(1)?;
    Some(hard.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_limit_is_imposed_on_children_and_lifted_again() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let soft = || {
            let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
            let own = limits.lines().find_map(|line| line.strip_prefix("Max data size")).unwrap().to_owned();
            own.split_whitespace().next().unwrap().to_owned()
        };
        let before = soft();
        let limit = DataLimit::impose(1 << 20).unwrap();
        assert_eq!(soft(), (1 << 20).to_string());
        drop(limit);
        assert_eq!(soft(), before);
        child.kill().and_then(|()| child.wait()).unwrap();
    }
}
