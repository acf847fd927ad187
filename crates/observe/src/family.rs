//! The processes of a component: its first one and all descendants.

use crate::process::reading::monotonic;
use plimsoll_model::Nanos;
use procfs::process::{Process, Stat};
use std::collections::{BTreeMap, HashSet};
use std::fs;

/// The name of a process that guards a component: what the component has started and left becomes the guard's child.
pub const GUARD: &str = "platform-guard";
/// Flag of a thread of the kernel (`PF_KTHREAD`).
pub(crate) const KERNEL_THREAD: u32 = 0x0020_0000;
/// So many looks remember which processes are threads of the kernel.
const LOOKS: u32 = 60;

/// The processes of one component at one moment.
#[derive(Debug)]
pub struct Family {
    /// Its name.
    pub component: String,
    /// Its first process.
    pub root: i32,
    /// All that are alive, with what the kernel says of each.
    pub members: Vec<(Process, Stat)>,
}

/// All processes of this host, read once for all who look at them.
#[derive(Debug, Default)]
pub struct Processes {
    /// When they were read.
    pub(crate) at: Nanos,
    pub(crate) stats: BTreeMap<i32, Stat>,
}

/// Reads all processes again and again. Threads of the kernel are read once in a while: they are no component's and nobody's
/// parents, and there are more of them than of all others.
#[derive(Debug, Default)]
pub struct Reader {
    kernel: HashSet<i32>,
    looks: u32,
}

impl Reader {
    /// Reads them.
    pub fn read(&mut self) -> Processes {
        // A number may come again.
        if self.looks.is_multiple_of(LOOKS) {
            self.kernel.clear();
        }
        self.looks = self.looks.wrapping_add(1);
        let at = monotonic();
        let mut stats = BTreeMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            let Some(pid) = number.filter(|pid| !self.kernel.contains(pid)) else { continue };
            // None is kept open here: a host may have more processes than this one may have open files.
            let Ok(stat) = Process::new(pid).and_then(|process| process.stat()) else { continue };
            if stat.flags & KERNEL_THREAD != 0 {
                self.kernel.insert(pid);
            }
            stats.insert(pid, stat);
        }
        Processes { at, stats }
    }
}

impl Processes {
    /// The families of several components, each given with its first process.
    pub fn families(&self, components: &[(String, i32)]) -> Vec<Family> {
        let of = |(component, root): &(String, i32)| Family {
            component: component.clone(),
            root: *root,
            members: self.family(*root),
        };
        components.iter().map(of).collect()
    }

    fn descends(&self, pid: i32, root: i32, own: i32) -> bool {
        let mut pid = pid;
        // Parents form no cycle, but they are read one after another; the bound ends a walk through a torn picture.
        for _ in 0..self.stats.len() {
            if pid == root {
                return true;
            }
            match self.stats.get(&pid) {
                Some(stat) if stat.ppid > 0 && pid != own => pid = stat.ppid,
                _ => return false,
            }
        }
        false
    }

    fn family(&self, root: i32) -> Vec<(Process, Stat)> {
        let own = std::process::id() as i32;
        let parent = self.stats.get(&root).and_then(|stat| self.stats.get(&stat.ppid));
        let guard = parent.filter(|parent| parent.comm == GUARD).map(|parent| parent.pid);
        let is_left = |pid: i32| guard.is_some_and(|guard| pid != guard && self.descends(pid, guard, own));
        let living = self.stats.values().filter(|stat| stat.state != 'Z');
        let members = living.filter(|stat| self.descends(stat.pid, root, own) || is_left(stat.pid));
        members.filter_map(|stat| Some((Process::new(stat.pid).ok()?, stat.clone()))).collect()
    }
}

/// A process and its descendants; without this process and its own, where they descend from that one, and without those that
/// have ended.
pub fn family(root: i32) -> Vec<(Process, Stat)> {
    Reader::default().read().family(root)
}

/// The same for several components, each given with its first process: the host's processes are read once for all.
pub fn families(components: &[(String, i32)]) -> Vec<Family> {
    if components.is_empty() {
        return Vec::new();
    }
    Reader::default().read().families(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_started_this_process_does_not_answer_for_it() {
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        let own = std::process::id() as i32;
        let pids: Vec<i32> = family(parent).iter().map(|(process, _)| process.pid).collect();
        assert!(pids.contains(&parent) && !pids.contains(&own), "{pids:?}");
        assert!(family(own).iter().any(|(process, _)| process.pid == own));
    }

    #[test]
    fn several_components_are_found_in_one_look() {
        let mut children: Vec<std::process::Child> =
            (0..2).map(|_| std::process::Command::new("sleep").arg("60").spawn().unwrap()).collect();
        let own = std::process::id() as i32;
        let roots: Vec<i32> = children.iter().map(|child| child.id() as i32).chain([own]).collect();
        let named: Vec<(String, i32)> = roots.iter().map(|&root| (format!("of {root}"), root)).collect();
        let found = families(&named);
        for (family, root) in found.iter().zip(&roots) {
            assert!(family.members.iter().any(|(process, _)| process.pid == *root), "{family:?}");
        }
        assert_eq!(found[0].members.len(), 1);
        children.iter_mut().for_each(|child| child.kill().and_then(|()| child.wait()).map(drop).unwrap());
        assert!(families(&named[..1])[0].members.is_empty(), "none that has ended");
    }
}
