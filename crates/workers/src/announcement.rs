//! What a worker says of itself, again and again, so that whoever needs workers finds it.

use crate::frame::ProcessId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A worker that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// The process.
    pub process: ProcessId,
    /// Its name, which its user or its host gives.
    pub name: String,
    /// The site that its user gives it, to which populations may be pinned.
    pub site: Option<String>,
    /// Its version of Plimsoll.
    pub version: String,
    /// Processors that its load threads may use.
    pub processors: u32,
    /// Bytes of memory that are free.
    pub memory: Option<u64>,
    /// Files that its process may have open.
    pub descriptors: Option<u64>,
    /// Local ports that its connections may use, an address.
    pub ports: Option<u64>,
    /// Which clock it reads: processes with the same one agree on the time. `None` where that is not known.
    pub clock: Option<String>,
    /// What `plimsoll doctor` finds on its host.
    pub findings: Vec<String>,
    /// Facts about its host, by name.
    pub host: BTreeMap<String, String>,
    /// The run that it works for; `None` where it is free.
    pub run: Option<String>,
}

impl Announcement {
    /// How many connections it can hold: what descriptors and ports leave; `None` where neither is known.
    pub fn connections(&self) -> Option<u64> {
        /// Files that a process needs beside its connections.
        const BESIDE: u64 = 100;
        let by_descriptors = self.descriptors.map(|most| most.saturating_sub(BESIDE));
        by_descriptors.into_iter().chain(self.ports).min()
    }

    /// For people: `edge-1 (4 processors, 20,000 connections)`.
    pub fn in_words(&self) -> String {
        let connections = self.connections().map(|most| format!(", {most} connections")).unwrap_or_default();
        let plural = if self.processors == 1 { "" } else { "s" };
        format!("{} ({} processor{plural}{connections})", self.name, self.processors)
    }
}

/// How many load threads each worker gets, in the order of the workers: as many as it has processors, and no more than there are
/// devices for; and why the workers cannot hold so many connections, if they cannot.
///
/// Devices are dealt out evenly over load threads, so the worker with the least room for each of its threads decides.
pub fn placed(workers: &[Announcement], connections: u64, most: u32) -> Result<Vec<u32>, String> {
    let mut threads: Vec<u32> = workers.iter().map(|worker| worker.processors.max(1)).collect();
    // One after the other, from the worker with the most threads, gives one back.
    while threads.iter().sum::<u32>() > most.max(1) {
        let Some(largest) = threads.iter_mut().rev().max_by_key(|threads| **threads) else { break };
        *largest -= 1;
    }
    let all = u64::from(threads.iter().sum::<u32>()).max(1);
    for (worker, threads) in workers.iter().zip(&threads) {
        let share = (connections * u64::from(*threads)).div_ceil(all);
        if let Some(room) = worker.connections().filter(|room| *room < share) {
            return Err(format!(
                "worker {} can hold {room} connections, and its part of the run has {share}: more workers, or a higher limit of open \
                 files there (`ulimit -n`), help",
                worker.name
            ));
        }
    }
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(processors: u32, descriptors: u64) -> Announcement {
        Announcement {
            process: ProcessId(u64::from(processors)),
            name: format!("w{processors}"),
            site: None,
            version: String::new(),
            processors,
            memory: None,
            descriptors: Some(descriptors),
            ports: Some(28_000),
            clock: None,
            findings: Vec::new(),
            host: BTreeMap::new(),
            run: None,
        }
    }

    #[test]
    fn load_threads_follow_processors_and_devices() {
        let workers = [worker(4, 50_000), worker(1, 50_000), worker(2, 50_000)];
        assert_eq!(placed(&workers, 1_000, 1_000), Ok(vec![4, 1, 2]));
        assert_eq!(placed(&workers, 5, 5), Ok(vec![2, 1, 2]), "no thread without a device");
        assert_eq!(placed(&workers, 2, 2).unwrap().iter().sum::<u32>(), 2);
    }

    #[test]
    fn who_cannot_hold_its_part_is_named() {
        let workers = [worker(2, 50_000), worker(1, 1_100)];
        assert_eq!(placed(&workers, 3_000, 3_000), Ok(vec![2, 1]));
        let refused = placed(&workers, 3_003, 3_003).unwrap_err();
        assert!(
            refused.contains("w1 can hold 1000 connections, and its part of the run has 1001"),
            "{refused}"
        );
        let refused = placed(&[worker(1, 50_000)], 28_001, 10).unwrap_err();
        assert!(refused.contains("28000"), "{refused}");
    }
}
