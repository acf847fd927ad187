//! Which process has which end of which connection: from the sockets among its open files and the kernel's tables of them.

use crate::containers::network;
use crate::process::family;
use procfs::process::{FDTarget, Process};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// Remembers the ends of connections of some processes and their descendants, also when they are closed. A connection that
/// lives between two looks is not seen.
#[derive(Debug, Default)]
pub struct EndpointSampler {
    /// `None` where an end has belonged to several.
    known: BTreeMap<SocketAddr, Option<String>>,
}

impl EndpointSampler {
    /// Looks at those processes, each with the name of its component.
    pub fn look(&mut self, processes: &[(String, i32)]) {
        let mut inodes: HashMap<u64, &str> = HashMap::new();
        // One process of each network: those of a network have the same tables, and containers have a network of their own.
        let mut networks: HashMap<Option<u64>, Process> = HashMap::new();
        for (name, root) in processes {
            for (process, _) in family(*root) {
                let Ok(files) = process.fd() else { continue };
                inodes.extend(files.flatten().filter_map(|file| match file.target {
                    FDTarget::Socket(inode) => Some((inode, name.as_str())),
                    _ => None,
                }));
                networks.insert(network(&process), process);
            }
        }
        let own = Process::myself().ok().and_then(|process| network(&process));
        // Every network has loopback addresses: those of another one are not ours, though they look the same.
        let ends = networks.iter().flat_map(|(network, process)| {
            let is_own = *network == own;
            sockets(process).into_iter().filter(move |(_, address)| is_own || !address.ip().is_loopback())
        });
        for (inode, address) in ends {
            if let Some(name) = inodes.get(&inode) {
                let known = self.known.entry(address).or_insert_with(|| Some((*name).to_owned()));
                // A port that comes again with somebody else tells nothing about whose it was when.
                if known.as_deref() != Some(*name) {
                    *known = None;
                }
            }
        }
    }

    /// Who has had which end, where only one has.
    pub fn into_known(self) -> BTreeMap<SocketAddr, String> {
        self.known.into_iter().filter_map(|(address, name)| Some((address, name?))).collect()
    }
}

/// The sockets of TCP and UDP in a process's network and their local ends.
fn sockets(process: &Process) -> Vec<(u64, SocketAddr)> {
    let tcp = [process.tcp(), process.tcp6()].into_iter().flatten().flatten();
    let udp = [process.udp(), process.udp6()].into_iter().flatten().flatten();
    let tcp = tcp.map(|entry| (entry.inode, entry.local_address));
    tcp.chain(udp.map(|entry| (entry.inode, entry.local_address))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn own_connections_are_known_also_when_they_are_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ends = [client.local_addr().unwrap(), listener.local_addr().unwrap()];
        let mut sampler = EndpointSampler::default();
        let own = [("me".to_owned(), std::process::id() as i32)];
        sampler.look(&own);
        drop(client);
        sampler.look(&own);
        let known = sampler.into_known();
        assert!(ends.iter().all(|end| known.get(end).is_some_and(|name| name == "me")), "{known:?}");
    }
}
