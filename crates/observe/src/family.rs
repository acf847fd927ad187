//! The processes of a component: its first one and all descendants.

use procfs::process::{Process, Stat, all_processes};
use std::collections::BTreeMap;

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

/// The parents of all processes of this host.
struct Parents(BTreeMap<i32, i32>);

impl Parents {
    fn read() -> Parents {
        // None is kept open here: a host may have more processes than this one may have open files.
        let all = all_processes().into_iter().flatten().flatten().filter_map(|process| process.stat().ok());
        Parents(all.map(|stat| (stat.pid, stat.ppid)).collect())
    }

    fn descends(&self, pid: i32, root: i32, own: i32) -> bool {
        let mut pid = pid;
        // Parents form no cycle, but they are read one after another; the bound ends a walk through a torn picture.
        for _ in 0..self.0.len() {
            if pid == root {
                return true;
            }
            match self.0.get(&pid) {
                Some(&parent) if parent > 0 && pid != own => pid = parent,
                _ => return false,
            }
        }
        false
    }

    fn family(&self, root: i32) -> Vec<(Process, Stat)> {
        let own = std::process::id() as i32;
        let members = self.0.keys().filter(|&&pid| self.descends(pid, root, own)).filter_map(|&pid| {
            let process = Process::new(pid).ok()?;
            let stat = process.stat().ok().filter(|stat| stat.state != 'Z')?;
            Some((process, stat))
        });
        members.collect()
    }
}

/// A process and its descendants; without this process and its own, where they descend from that one, and without those that
/// have ended.
pub fn family(root: i32) -> Vec<(Process, Stat)> {
    Parents::read().family(root)
}

/// The same for several components, each given with its first process: the host's processes are read once for all.
pub fn families(components: &[(String, i32)]) -> Vec<Family> {
    if components.is_empty() {
        return Vec::new();
    }
    let parents = Parents::read();
    let of = |(component, root): &(String, i32)| Family {
        component: component.clone(),
        root: *root,
        members: parents.family(*root),
    };
    components.iter().map(of).collect()
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
