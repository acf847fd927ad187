//! The TCP sockets of each component: connections by state, what waits to be read or to leave, how full the queues of
//! connections are that nobody has accepted, and bytes in and out, also where all components share one loopback interface.
//!
//! Bytes of a connection that began and ended between two looks are not seen. Components in another network are not seen either.

use crate::containers::network;
use crate::family::Family;
use crate::found;
use crate::rates::Rates;
use crate::sampler::{INTERVAL, ObservedPlatform, Reading, Sampler, SamplerEntry, Unit};
use crate::sock_diag::{self, Wanted, state};
use procfs::process::Process;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::Instant;

/// See the module.
pub const ENTRY: SamplerEntry = SamplerEntry { name: "tcp", interval: INTERVAL, begin };

/// States by the names that `ss` gives them.
const STATES: [(u8, &str); 7] = [
    (state::ESTABLISHED, "established"),
    (state::SYN_SENT, "syn-sent"),
    (state::SYN_RECV, "syn-recv"),
    (state::FIN_WAIT_1, "fin-wait-1"),
    (state::FIN_WAIT_2, "fin-wait-2"),
    (state::TIME_WAIT, "time-wait"),
    (state::CLOSE_WAIT, "close-wait"),
];

#[derive(Default)]
struct Sockets {
    /// Whose each socket is, by its inode; `None` where no component has it open.
    owners: HashMap<u32, Option<String>>,
    /// When it was looked last, with the bytes that each connection had received and sent by then.
    last: Option<(Instant, HashMap<u32, [u64; 2]>)>,
    /// Of connections that the kernel dropped because a queue was full.
    overflows: Rates<()>,
}

/// A socket, as far as it matters.
#[derive(Clone, Copy, Debug)]
struct Seen {
    state: u8,
    inode: u32,
    port: u16,
    /// Bytes that wait to be read; of a listening socket, connections that wait to be accepted.
    unread: u32,
    /// Bytes that wait to be acknowledged; of a listening socket, the most that may wait.
    unsent: u32,
    /// Received and acknowledged by the other side since the beginning.
    bytes: [u64; 2],
}

/// What the sockets of a component are together.
#[derive(Debug, Default, PartialEq)]
struct Sum {
    states: BTreeMap<&'static str, u32>,
    unread: u64,
    unsent: u64,
    /// Connections with bytes that the component has not read.
    unread_connections: u32,
    /// Connections that wait to be accepted, and the part of the fullest queue that is taken.
    accept_queue: Option<(u32, f64)>,
    /// Received and sent since the last look.
    bytes: [u64; 2],
}

fn begin() -> Result<Box<dyn Sampler>, &'static str> {
    match look() {
        Ok(_) => Ok(Box::new(Sockets::default())),
        Err(_) => Err("the kernel does not list its sockets (sock_diag)"),
    }
}

/// All TCP sockets in this network.
fn look() -> std::io::Result<Vec<Seen>> {
    let mut seen = Vec::new();
    sock_diag::sockets(Wanted { ports: [0, 0], states: state::ALL }, |socket| {
        let bytes = socket.info.map(|info| [info.bytes_received, info.bytes_acked]);
        seen.push(Seen {
            state: socket.state,
            inode: socket.inode,
            port: socket.source.1,
            unread: socket.unread,
            unsent: socket.unsent,
            bytes: bytes.unwrap_or_default(),
        });
        true
    })?;
    Ok(seen)
}

/// The components whose processes are in the same network as this one.
fn near(families: &[Family]) -> Vec<&Family> {
    let own = Process::myself().ok().and_then(|process| network(&process));
    let is_near =
        |family: &&Family| family.members.first().is_some_and(|(process, _)| network(process) == own);
    families.iter().filter(is_near).collect()
}

impl Sockets {
    /// Looks up the owners of sockets that were not there before, and forgets those that are gone.
    fn find_owners(&mut self, seen: &[Seen], families: &[&Family]) {
        let inodes: Vec<u32> = seen.iter().map(|socket| socket.inode).filter(|&inode| inode > 0).collect();
        let mut known = std::mem::take(&mut self.owners);
        let is_new = inodes.iter().any(|inode| !known.contains_key(inode));
        let mut open: HashMap<u32, &str> = HashMap::new();
        for family in families.iter().filter(|_| is_new) {
            let inodes = family.members.iter().flat_map(|(process, _)| found::sockets_of(process));
            open.extend(
                inodes.filter_map(|inode| Some((u32::try_from(inode).ok()?, family.component.as_str()))),
            );
        }
        let mut owner = |inode: u32| match known.remove(&inode) {
            Some(Some(owner)) => Some(owner),
            _ => open.get(&inode).map(|owner| (*owner).to_owned()),
        };
        self.owners = inodes.into_iter().map(|inode| (inode, owner(inode))).collect();
    }

    /// The sums of each component. Sockets without a process, as in time-wait, are those of who listens at their port.
    /// Of `components`, those without sockets have sums of zero.
    fn sums<'a>(
        &'a self,
        seen: &[Seen],
        before: &HashMap<u32, [u64; 2]>,
        components: impl Iterator<Item = &'a str>,
    ) -> BTreeMap<&'a str, Sum> {
        let owner = |socket: &Seen| self.owners.get(&socket.inode)?.as_deref();
        let listening = seen.iter().filter(|socket| socket.state == state::LISTEN);
        let ports: HashMap<u16, &str> =
            listening.filter_map(|socket| Some((socket.port, owner(socket)?))).collect();
        let mut sums: BTreeMap<&str, Sum> = components.map(|name| (name, Sum::default())).collect();
        for socket in seen {
            let of_port = || ports.get(&socket.port).filter(|_| socket.inode == 0).copied();
            let Some(owner) = owner(socket).or_else(of_port) else { continue };
            let sum = sums.entry(owner).or_default();
            if socket.state == state::LISTEN {
                let filled = f64::from(socket.unread) / f64::from(socket.unsent.max(1));
                let (waiting, fullest) = sum.accept_queue.unwrap_or_default();
                sum.accept_queue = Some((waiting + socket.unread, filled.max(fullest)));
                continue;
            }
            if let Some((_, name)) = STATES.iter().find(|(state, _)| *state == socket.state) {
                *sum.states.entry(name).or_default() += 1;
            }
            sum.unread += u64::from(socket.unread);
            sum.unread_connections += u32::from(socket.unread > 0);
            sum.unsent += u64::from(socket.unsent);
            // Those of a socket that no process has any more counted while one had it, and have no number to be told apart by.
            if socket.inode == 0 {
                continue;
            }
            let known = before.get(&socket.inode).copied().unwrap_or_default();
            for (sum, (now, before)) in sum.bytes.iter_mut().zip(socket.bytes.into_iter().zip(known)) {
                // A number of a socket may come again.
                *sum += now.checked_sub(before).unwrap_or(now);
            }
        }
        sums
    }
}

impl Sampler for Sockets {
    fn read(&mut self, platform: &ObservedPlatform<'_>) -> Vec<Reading> {
        let Ok(seen) = look() else { return Vec::new() };
        let now = Instant::now();
        let near = near(platform.families);
        self.find_owners(&seen, &near);
        let bytes = seen.iter().filter(|socket| socket.inode > 0).map(|socket| (socket.inode, socket.bytes));
        let last = self.last.replace((now, bytes.collect()));
        let (seconds, before) = match last {
            Some((then, before)) => (Some((now - then).as_secs_f64()).filter(|&passed| passed > 0.0), before),
            None => (None, HashMap::new()),
        };
        let mut readings = Vec::new();
        let components = near.iter().map(|family| family.component.as_str());
        for (component, sum) in self.sums(&seen, &before, components) {
            readings.extend(readings_of(component, &sum, seconds));
        }
        let dropped = fs::read_to_string("/proc/net/netstat").ok().and_then(|text| overflows(&text));
        let rates = self.overflows.since_last(now, dropped.map(|count| ((), count)).into_iter().collect());
        let reading = |((), rate)| Reading::host("accept queue overflows", Unit::PerSecond, rate);
        readings.extend(rates.into_iter().map(reading));
        readings
    }
}

fn readings_of(component: &str, sum: &Sum, seconds: Option<f64>) -> Vec<Reading> {
    let count = |quantity: &'static str, value: f64| Reading::of(component, quantity, Unit::Count, value);
    let bytes =
        |quantity: &'static str, value: u64| Reading::of(component, quantity, Unit::Bytes, value as f64);
    // Also those in which no socket is: a mean over those alone that were seen would be too high.
    let of = |name: &'static str| sum.states.get(name).copied().unwrap_or_default();
    let mut readings: Vec<Reading> =
        STATES.iter().map(|(_, name)| count(name, f64::from(of(name)))).collect();
    readings.extend([
        bytes("unread", sum.unread),
        bytes("unacknowledged", sum.unsent),
        count("connections with unread bytes", f64::from(sum.unread_connections)),
    ]);
    if let Some((waiting, fullest)) = sum.accept_queue {
        readings.push(count("accept queue", f64::from(waiting)));
        readings.push(Reading::of(component, "accept queue filled", Unit::Share, fullest));
    }
    let directions = ["received", "sent"].into_iter().zip(sum.bytes);
    readings.extend(directions.filter_map(|(quantity, bytes)| {
        Some(Reading::of(component, quantity, Unit::BytesPerSecond, bytes as f64 / seconds?))
    }));
    readings
}

/// Connections that the kernel dropped so far because the queue of a listening socket was full (`ListenOverflows` of
/// `/proc/net/netstat`). There, a line of names is followed by one of numbers.
fn overflows(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    while let Some(names) = lines.next() {
        let numbers = lines.next()?;
        if let Some(place) = names.split_whitespace().position(|name| name == "ListenOverflows") {
            return numbers.split_whitespace().nth(place)?.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::families;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    #[test]
    fn the_kernels_line_of_overflows_is_found() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 22 3\nIpExt: a\nIpExt: 4\n";
        assert_eq!(overflows(text), Some(22));
        assert_eq!((overflows(""), overflows("TcpExt: ListenOverflows\nTcpExt:\n")), (None, None));
    }

    fn quantity(readings: &[Reading], name: &str) -> f64 {
        let of = |reading: &&Reading| reading.subject == "me" && reading.quantity == name;
        readings.iter().find(of).unwrap_or_else(|| panic!("{name}: {readings:?}")).value
    }

    /// Each byte counts once on either side, and bytes that nobody reads are seen.
    #[test]
    fn bytes_and_queues_belong_to_the_component_that_has_the_sockets() {
        let own = [("me".to_owned(), std::process::id() as i32)];
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut sampler = Sockets::default();
        let mut read = || sampler.read(&ObservedPlatform { families: &families(&own), address });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        read();
        client.write_all(&[0; 100_000]).unwrap();
        server.read_exact(&mut [0; 60_000]).unwrap();
        let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let readings = read();
        assert!(quantity(&readings, "unread") >= 40_000.0, "{readings:?}");
        assert!(quantity(&readings, "accept queue") >= 1.0 && quantity(&readings, "established") >= 2.0);
        assert!(quantity(&readings, "connections with unread bytes") >= 1.0);
        let [received, sent] = ["received", "sent"].map(|name| quantity(&readings, name));
        assert!(received > 0.0 && sent > 0.0, "{readings:?}");
    }

    #[test]
    fn sums_are_those_of_each_component() {
        let owners =
            [(1, Some("a".to_owned())), (2, Some("b".to_owned())), (3, None), (4, Some("a".to_owned()))];
        let sampler = Sockets { owners: owners.into(), ..Sockets::default() };
        let socket = |state, inode, port, bytes| Seen { state, inode, port, unread: 5, unsent: 10, bytes };
        let seen = [
            socket(state::LISTEN, 4, 80, [0, 0]),
            socket(state::ESTABLISHED, 1, 80, [100, 30]),
            socket(state::ESTABLISHED, 2, 90, [7, 8]),
            socket(state::ESTABLISHED, 3, 91, [9, 9]),
            socket(state::TIME_WAIT, 0, 80, [0, 0]),
        ];
        let sums = sampler.sums(&seen, &HashMap::from([(1, [40, 50])]), ["c"].into_iter());
        let a = &sums["a"];
        assert_eq!((a.bytes, a.accept_queue, a.unread), ([60, 30], Some((5, 0.5)), 10));
        assert_eq!(a.states, BTreeMap::from([("established", 1), ("time-wait", 1)]));
        assert_eq!((sums["b"].bytes, sums["c"].bytes, sums.len()), ([7, 8], [0, 0], 3));
    }
}
