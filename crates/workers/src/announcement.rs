//! What a worker says of itself, again and again, so that whoever needs workers finds it.

use crate::frame::ProcessId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// A worker that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// The process.
    pub process: ProcessId,
    /// Its name, which its user or its host gives.
    pub name: String,
    /// The site that its user gives it, at which populations may stand.
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
    /// Which network it is in: processes in the same one see the same packets. `None` where that is not known.
    #[serde(default)]
    pub network: Option<String>,
    /// Facts about its host, by name.
    pub host: BTreeMap<String, String>,
    /// The run that it works for; `None` where it is free.
    pub run: Option<String>,
    /// Where others reach what listens on its host.
    pub address: IpAddr,
    /// Whether it starts components of a platform.
    pub starts_components: bool,
    /// Whether it captures packets.
    #[serde(default)]
    pub captures: bool,
}

impl Announcement {
    /// A worker of this version with one processor, of which nothing else is known.
    pub fn of(process: ProcessId, name: &str) -> Announcement {
        Announcement {
            process,
            name: name.to_owned(),
            site: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            processors: 1,
            memory: None,
            descriptors: None,
            ports: None,
            clock: None,
            network: None,
            host: BTreeMap::new(),
            run: None,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            starts_components: false,
            captures: false,
        }
    }

    /// How many connections it can hold: what descriptors and ports leave; `None` where neither is known.
    pub fn connections(&self) -> Option<u64> {
        /// Files that a process needs beside its connections.
        const BESIDE: u64 = 100;
        let by_descriptors = self.descriptors.map(|most| most.saturating_sub(BESIDE));
        by_descriptors.into_iter().chain(self.ports).min()
    }

    /// Whether it stands at what a scenario calls so: that is its site or its name.
    pub fn is_at(&self, place: &str) -> bool {
        self.name == place || self.site.as_deref() == Some(place)
    }

    /// For people: `edge-1 (4 processors, 20,000 connections)`.
    pub fn in_words(&self) -> String {
        let connections = self.connections().map(|most| format!(", {most} connections")).unwrap_or_default();
        let plural = if self.processors == 1 { "" } else { "s" };
        format!("{} ({} processor{plural}{connections})", self.name, self.processors)
    }
}
