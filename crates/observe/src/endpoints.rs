//! Which process has which end of which connection: from the sockets among its open files and the kernel's tables of them.

use crate::containers::network;
use crate::family::family;
use crate::found;
use plimsoll_model::Nanos;
use procfs::net::TcpState;
use procfs::process::Process;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

/// Whose an end was between two moments, since 1970: not before the first, and seen at the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The last look at which it was not yet its owner's.
    pub from: Nanos,
    /// The last look at which it was.
    pub until: Nanos,
    /// The component.
    pub owner: String,
}

/// Remembers the ends of connections of some processes and their descendants, and when they were whose: a port that is closed
/// is nobody's any more. A connection that lives between two looks is not seen.
#[derive(Debug, Default)]
pub struct EndpointSampler {
    known: BTreeMap<SocketAddr, Vec<Owned>>,
    listening: BTreeSet<u16>,
    last_look: Option<Nanos>,
}

/// What was seen of the processes' sockets.
#[derive(Debug, Default)]
pub struct Ends {
    /// Who has had which end, and when. What was there at the last look is its owner's from then on, too.
    pub owned: BTreeMap<SocketAddr, Vec<Owned>>,
    /// TCP ports at which they listened, or others in their networks did.
    pub listening: BTreeSet<u16>,
}

/// An end of a connection, or one at which connections are accepted.
struct Socket {
    inode: u64,
    address: SocketAddr,
    /// The other end, if it has one.
    remote: SocketAddr,
    listens: bool,
}

impl EndpointSampler {
    /// Looks at those processes, each with the name of its component. `now` is the time since 1970.
    pub fn look(&mut self, processes: &[(String, i32)], now: Nanos) {
        // What there is at the first look may have been there for long.
        let last_look = self.last_look.replace(now);
        let from = last_look.unwrap_or(Nanos(i64::MIN));
        for (Socket { address, listens, .. }, owner) in sockets_of(processes) {
            if listens {
                self.listening.insert(address.port());
            }
            let Some(owner) = owner else { continue };
            let spans = self.known.entry(address).or_default();
            match spans.last_mut() {
                Some(last) if last.until == now && last.owner == owner => {}
                Some(last) if Some(last.until) == last_look && last.owner == owner => last.until = now,
                _ => spans.push(Owned { from, until: now, owner }),
            }
        }
    }

    /// All that was seen.
    pub fn finish(self) -> Ends {
        let mut owned = self.known;
        for span in owned.values_mut().flatten() {
            if Some(span.until) == self.last_look {
                span.until = Nanos(i64::MAX);
            }
        }
        Ends { owned, listening: self.listening }
    }
}

/// Those of some components, each given with its first process, that have a connection to a port now.
pub fn callers(processes: &[(String, i32)], port: u16) -> BTreeSet<String> {
    let all = sockets_of(processes).into_iter();
    all.filter(|(socket, _)| socket.remote.port() == port).filter_map(|(_, owner)| owner).collect()
}

/// The sockets in the networks of those processes, each with the component that it belongs to, if it does to one.
fn sockets_of(processes: &[(String, i32)]) -> Vec<(Socket, Option<String>)> {
    let mut inodes: HashMap<u64, &str> = HashMap::new();
    // One process of each network: those of a network have the same tables, and containers have a network of their own.
    let mut networks: HashMap<Option<u64>, Process> = HashMap::new();
    for (name, root) in processes {
        for (process, _) in family(*root) {
            inodes.extend(found::sockets_of(&process).into_iter().map(|inode| (inode, name.as_str())));
            networks.insert(network(&process), process);
        }
    }
    let own = Process::myself().ok().and_then(|process| network(&process));
    // Every network has loopback addresses: those of another one are not ours, though they look the same.
    let all = networks.iter().flat_map(|(network, process)| {
        let is_own = *network == own;
        sockets(process).into_iter().filter(move |socket| is_own || !socket.address.ip().is_loopback())
    });
    let owned = |socket: Socket| {
        let owner = inodes.get(&socket.inode).map(|owner| (*owner).to_owned());
        (socket, owner)
    };
    all.map(owned).collect()
}

/// The sockets of TCP and UDP in a process's network.
fn sockets(process: &Process) -> Vec<Socket> {
    let tcp = [process.tcp(), process.tcp6()].into_iter().flatten().flatten();
    let udp = [process.udp(), process.udp6()].into_iter().flatten().flatten();
    let tcp = tcp.map(|entry| Socket {
        inode: entry.inode,
        address: entry.local_address,
        remote: entry.remote_address,
        listens: entry.state == TcpState::Listen,
    });
    let udp = udp.map(|entry| Socket {
        inode: entry.inode,
        address: entry.local_address,
        remote: entry.remote_address,
        listens: false,
    });
    tcp.chain(udp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn an_end_is_its_owners_while_it_was_seen_and_nobodys_afterwards() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let [port, server] = [client.local_addr().unwrap(), listener.local_addr().unwrap()];
        let mut sampler = EndpointSampler::default();
        let own = [("me".to_owned(), std::process::id() as i32)];
        for second in [1, 2] {
            sampler.look(&own, Nanos::from_secs(second));
        }
        drop(client);
        for second in [3, 4] {
            sampler.look(&own, Nanos::from_secs(second));
        }
        let Ends { owned: known, listening } = sampler.finish();
        assert!(listening.contains(&server.port()) && !listening.contains(&port.port()));
        let owned = |from, until| Owned { from, until, owner: "me".into() };
        assert_eq!(known[&port], [owned(Nanos(i64::MIN), Nanos::from_secs(2))]);
        assert_eq!(known[&server], [owned(Nanos(i64::MIN), Nanos(i64::MAX))]);
    }

    #[test]
    fn who_listens_beside_the_components_is_no_caller_either() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut component = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut sampler = EndpointSampler::default();
        sampler.look(&[("component".to_owned(), component.id() as i32)], Nanos::from_secs(1));
        component.kill().unwrap();
        component.wait().unwrap();
        let Ends { owned, listening } = sampler.finish();
        let address = listener.local_addr().unwrap();
        assert!(listening.contains(&address.port()) && !owned.contains_key(&address));
    }

    #[test]
    fn who_calls_a_port_is_found_and_who_listens_there_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = [("me".to_owned(), std::process::id() as i32)];
        assert_eq!(callers(&own, port), BTreeSet::new());
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(callers(&own, port), BTreeSet::from(["me".to_owned()]));
        assert_eq!(callers(&[], port), BTreeSet::new(), "nobody is asked for");
    }
}
