//! The wire of a run at its workers: which of them captures which packets, and their captures, brought here and put on one clock.
//!
//! Each connection is captured at one place: on the host of its server, or, where no process of the run is on that host, on that
//! of its client. So times within a connection are those of one clock.

use super::{Clocks, Fleet, FleetError, Member};
use crate::capturing::{Captured, Death};
use plimsoll_capture::source::Correction;
use plimsoll_load::clock::monotonic;
use plimsoll_model::Nanos;
use plimsoll_observe::host::network_identity;
use plimsoll_observe::network::is_here;
use plimsoll_scenario::plan::{CapturePlan, WirePlace};
use plimsoll_workers::message::{CaptureOrder, CapturedThere, Message, OwnedEnd, PacketOrder};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Bytes that a worker may send beside what its capture may hold: a packet more in each file, and keys of TLS sessions.
const BESIDE: u64 = 64 * 1024 * 1024;

/// What workers have of the wire, for the reader of captures.
#[derive(Debug, Default)]
pub struct WireElsewhere {
    /// Servers at workers: their components, and where they listen.
    pub servers: Vec<(String, SocketAddr)>,
    /// What each of the workers captured.
    pub captures: Vec<CapturedElsewhere>,
    /// What is missing, for people.
    pub notes: Vec<String>,
}

/// What one worker has of the wire.
#[derive(Debug)]
pub struct CapturedElsewhere {
    /// Its name.
    pub worker: String,
    /// Its captures, in files here.
    pub captured: Captured,
    /// How its wall clock stood to ours.
    pub clock: Correction,
    /// Within which that is known; `None` where it has ours.
    pub within: Option<Nanos>,
    /// Whose connections were there.
    pub ends: Vec<OwnedEnd>,
    /// A key log of its TLS sessions, here.
    pub keys: Option<PathBuf>,
}

impl Fleet {
    /// Lets workers capture what the coordinator does not, and keep the keys of their TLS sessions. `servers` are those that the
    /// coordinator knows, here or elsewhere, and `there` those at workers.
    ///
    /// # Errors
    /// A worker that must capture may not or cannot.
    pub fn begin_captures(
        &mut self,
        plan: &CapturePlan,
        servers: &[(String, SocketAddr)],
        there: Vec<(String, SocketAddr)>,
        stop: &AtomicBool,
    ) -> Result<(), FleetError> {
        self.clocks.keep_track();
        let filters = filters(plan, (servers, &there), &self.members);
        for (member, filter) in self.members.iter().zip(&filters) {
            if filter.is_some() && !member.worker.captures {
                return Err(FleetError::Refused {
                    worker: member.worker.name.clone(),
                    reason: "record.capture needs packets that only its host sees, and it captures none: start it with --allow-captures"
                        .into(),
                });
            }
        }
        for (member, filter) in self.members.iter_mut().zip(filters) {
            let interface = plan.interface.clone().unwrap_or_else(|| "any".into());
            let packets = filter.map(|filter| PacketOrder { interface, filter, limit: plan.limit });
            member.tell(&Message::Capture(CaptureOrder { packets }))?;
        }
        self.wire = Some((there, plan.limit));
        self.await_each(stop, |_, message| match message {
            Message::Capturing(begun) => Some(begun),
            _ => None,
        })
    }

    /// Ends the captures of workers, and brings them into that folder, in files whose names begin so. What a worker that is gone has
    /// is lost.
    pub fn end_captures(&mut self, folder: &Path, name: &str) -> WireElsewhere {
        let Some((servers, limit)) = self.wire.take() else { return WireElsewhere::default() };
        let mut coming: Vec<Coming> = Vec::new();
        for (place, member) in self.members.iter_mut().enumerate() {
            let told = (!member.is_gone).then(|| member.tell(&Message::EndCapture));
            coming.push(Coming {
                state: if matches!(told, Some(Ok(()))) { State::Awaited } else { State::Gone },
                begins: folder.join(format!("{name}-{}", file_name(place, &member.worker.name))),
                there: CapturedThere::default(),
                files: Vec::new(),
                open: None,
                room: limit.saturating_add(BESIDE),
            });
        }
        // An interrupt has ended the load; what was captured until then is worth as much as ever.
        let go_on = AtomicBool::new(false);
        while coming.iter().any(|one| matches!(one.state, State::Awaited | State::Coming)) {
            let Ok(messages) = self.turn(&go_on) else { break };
            for (place, message) in messages {
                if let Some(one) = coming.get_mut(place) {
                    one.take(message);
                }
            }
            for (one, member) in coming.iter_mut().zip(&self.members) {
                let is_missing = member.link.is_away(monotonic()) || member.link.broken().is_some();
                if is_missing && matches!(one.state, State::Awaited | State::Coming) {
                    one.state = State::Gone;
                }
            }
        }
        let mut wire = WireElsewhere { servers, ..WireElsewhere::default() };
        for (one, member) in coming.into_iter().zip(&self.members) {
            let worker = member.worker.name.clone();
            match one.state {
                State::Whole => wire.captures.push(one.captured(worker, &self.clocks, member.clock)),
                State::Failed(error) => {
                    wire.notes.push(format!(
                        "what worker {worker} has captured could not be written here: {error}"
                    ));
                }
                State::Gone | State::Awaited | State::Coming => {
                    wire.notes.push(format!(
                        "what worker {worker} has captured is lost: it was gone when the run ended"
                    ));
                }
            }
        }
        wire
    }
}

/// What a worker sends of its wire.
struct Coming {
    state: State,
    /// How the names of its files begin.
    begins: PathBuf,
    there: CapturedThere,
    files: Vec<PathBuf>,
    /// The file that is being written.
    open: Option<File>,
    /// Bytes that may still come.
    room: u64,
}

enum State {
    /// It has not answered yet.
    Awaited,
    /// Its files come.
    Coming,
    /// All of them are here.
    Whole,
    /// It is gone.
    Gone,
    /// They cannot be written.
    Failed(io::Error),
}

impl Coming {
    fn take(&mut self, message: Message) {
        match message {
            Message::Captured(there) if matches!(self.state, State::Awaited) => {
                self.there = *there;
                self.state = State::Coming;
                self.look_whether_whole();
            }
            Message::FilePart(number, bytes) if matches!(self.state, State::Coming) => {
                let expected = self.files.len() - usize::from(self.open.is_some());
                if usize::from(number) == expected {
                    if let Err(error) = self.write(number, &bytes) {
                        self.state = State::Failed(error);
                    }
                    self.look_whether_whole();
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, number: u16, bytes: &[u8]) -> io::Result<()> {
        let left = self.room.checked_sub(bytes.len() as u64);
        self.room = left.ok_or_else(|| io::Error::other("it sends more than the limit of the capture"))?;
        let file = match &mut self.open {
            Some(file) => file,
            none => {
                let ending =
                    if number == self.there.captures { "keys.log".into() } else { format!("{number}.pcap") };
                let mut path = self.begins.clone().into_os_string();
                path.push(format!("-{ending}"));
                // Passwords travel in what is captured: its owner alone reads it.
                let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
                self.files.push(path.into());
                none.insert(file)
            }
        };
        match bytes {
            [] => self.open = None,
            bytes => file.write_all(bytes)?,
        }
        Ok(())
    }

    fn look_whether_whole(&mut self) {
        let all = usize::from(self.there.captures) + usize::from(self.there.has_keys);
        if matches!(self.state, State::Coming) && self.open.is_none() && self.files.len() >= all {
            self.state = State::Whole;
        }
    }

    fn captured(mut self, worker: String, clocks: &Clocks, clock: Option<usize>) -> CapturedElsewhere {
        let keys = self.files.split_off(self.files.len().min(usize::from(self.there.captures))).pop();
        let CapturedThere { packets, dropped, wrapped, died, ends, .. } = self.there;
        let track = clock.map(|clock| clocks.track(clock));
        let (correction, within) = match track {
            Some((points, within)) => (Correction::new(points), Some(within)),
            None => (Correction::default(), None),
        };
        let died = died.map(|(at, why)| Death { at: correction.right(at), why });
        CapturedElsewhere {
            worker,
            captured: Captured { files: self.files, packets, dropped, wrapped, died },
            clock: correction,
            within,
            ends,
            keys,
        }
    }
}

/// The name of a worker as a part of the name of a file; no two are equal.
fn file_name(place: usize, worker: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = worker.chars().map(plain).take(64).collect();
    format!("worker-{}-{name}", place + 1)
}

/// Servers that the coordinator knows, and those at workers.
type Servers<'a> = (&'a [(String, SocketAddr)], &'a [(String, SocketAddr)]);

/// What each worker is to capture, in the words of tcpdump; `None` where there is nothing that others do not see.
fn filters(plan: &CapturePlan, servers: Servers<'_>, members: &[Member]) -> Vec<Option<String>> {
    let hosts: Vec<HostOf> = members
        .iter()
        .map(|member| HostOf { network: member.worker.network.as_deref(), address: member.worker.address })
        .collect();
    filters_of(plan, servers, &hosts, network_identity().as_deref(), &is_here)
}

/// Where a worker stands.
struct HostOf<'a> {
    network: Option<&'a str>,
    address: IpAddr,
}

/// The same where the coordinator is in the network `ours` and has the addresses `is_here`.
fn filters_of(
    plan: &CapturePlan,
    (servers, there): Servers<'_>,
    hosts: &[HostOf<'_>],
    ours: Option<&str>,
    is_here: &dyn Fn(IpAddr) -> bool,
) -> Vec<Option<String>> {
    // One of those in a network sees what all of them do.
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut own: BTreeMap<&str, BTreeSet<IpAddr>> = BTreeMap::new();
    for HostOf { network, address } in hosts {
        own.entry(network.unwrap_or_default()).or_default().insert(*address);
    }
    let addresses: BTreeSet<IpAddr> = hosts.iter().map(|host| host.address).collect();
    hosts
        .iter()
        .map(|HostOf { network, address }| {
            if network.is_some_and(|network| !seen.insert(network)) {
                return None;
            }
            let alone = BTreeSet::from([*address]);
            let own = network.and_then(|network| own.get(network)).unwrap_or(&alone);
            // A server that is on no host of the run is seen by its clients alone.
            let sees =
                |server: IpAddr| own.contains(&server) || !(addresses.contains(&server) || is_here(server));
            // The coordinator captures what it knows in its own network.
            let is_ours = network.is_some() && *network == ours;
            if let Some(filter) = plan.filter.as_ref().filter(|_| !is_ours) {
                return Some(filter.clone());
            }
            let at = |server: SocketAddr| format!("(host {} and port {})", server.ip(), server.port());
            let of = |servers: &[(String, SocketAddr)]| {
                servers.iter().map(|(_, server)| *server).collect::<Vec<_>>()
            };
            let there = of(there).into_iter().filter(|server| own.contains(&server.ip())).map(at);
            let known = of(servers).into_iter().filter(|server| !is_ours && sees(server.ip())).map(at);
            let named = plan.names.iter().filter(|_| !is_ours).flat_map(|(_, place)| match place {
                WirePlace::Port(port) => {
                    own.iter().map(|own| at(SocketAddr::new(*own, *port))).collect::<Vec<_>>()
                }
                WirePlace::Endpoint(server) => sees(server.ip()).then(|| at(*server)).into_iter().collect(),
                WirePlace::Host(server) => {
                    sees(*server).then(|| format!("host {server}")).into_iter().collect()
                }
            });
            let all: BTreeSet<String> = there.chain(known).chain(named).collect();
            (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(" or "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn filters(
        plan: &CapturePlan,
        (servers, there): (&[(u8, u16)], &[(u8, u16)]),
        hosts: &[(Option<&str>, u8)],
    ) -> Vec<Option<String>> {
        let server = |(host, port): &(u8, u16)| ("server".to_owned(), SocketAddr::new(address(*host), *port));
        let [servers, there] = [servers, there].map(|all| all.iter().map(server).collect::<Vec<_>>());
        let hosts: Vec<HostOf> = hosts
            .iter()
            .map(|(network, host)| HostOf { network: *network, address: address(*host) })
            .collect();
        filters_of(plan, (&servers, &there), &hosts, Some("ours"), &|server| server == address(1))
    }

    #[test]
    fn each_connection_is_captured_at_one_place() {
        let plan = CapturePlan::default();
        let at = |host: u8, port: u16| format!("(host 192.0.2.{host} and port {port})");
        // The coordinator has 1, the second worker is in the network of the first, and nobody is at 9.
        let hosts = [(Some("a"), 2), (Some("a"), 2), (Some("b"), 3), (Some("ours"), 1), (None, 4)];
        assert_eq!(
            filters(&plan, (&[(1, 10), (3, 31), (9, 90)], &[(1, 11), (2, 20), (3, 30)]), &hosts),
            [
                Some(format!("{} or {}", at(2, 20), at(9, 90))),
                None,
                Some(format!("{} or {} or {}", at(3, 30), at(3, 31), at(9, 90))),
                Some(at(1, 11)),
                Some(at(9, 90)),
            ]
        );
        assert_eq!(
            filters(&plan, (&[(1, 10)], &[]), &hosts),
            vec![None; 5],
            "the coordinator sees all of it"
        );
    }

    #[test]
    fn named_servers_are_captured_where_they_are() {
        let names = [
            WirePlace::Port(5),
            WirePlace::Endpoint(([192, 0, 2, 1], 7).into()),
            WirePlace::Host(address(8)),
        ];
        let plan = CapturePlan {
            names: names.into_iter().map(|place| ("named".to_owned(), place)).collect(),
            ..CapturePlan::default()
        };
        let found = filters(&plan, (&[], &[]), &[(Some("a"), 2)]);
        assert_eq!(found, [Some("(host 192.0.2.2 and port 5) or host 192.0.2.8".to_owned())]);
        let plan = CapturePlan { filter: Some("udp".into()), ..plan };
        assert_eq!(
            filters(&plan, (&[], &[]), &[(Some("a"), 2), (Some("ours"), 1)]),
            [Some("udp".to_owned()), None]
        );
    }

    #[test]
    fn files_come_in_parts_and_the_last_one_may_be_a_key_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut coming = Coming {
            state: State::Awaited,
            begins: folder.path().join("run"),
            there: CapturedThere::default(),
            files: Vec::new(),
            open: None,
            room: 10,
        };
        let part = |number: u16, bytes: &[u8]| Message::FilePart(number, bytes.to_vec());
        coming.take(Message::Captured(Box::new(CapturedThere {
            captures: 1,
            has_keys: true,
            ..CapturedThere::default()
        })));
        for message in
            [part(0, b"one"), part(7, b"nonsense"), part(0, b" two"), part(0, b""), part(1, b"key")]
        {
            coming.take(message);
            assert!(matches!(coming.state, State::Coming));
        }
        coming.take(part(1, b""));
        assert!(matches!(coming.state, State::Whole));
        let one = coming.captured("w".into(), &Clocks::new(None), None);
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&one.captured.files[0]), "one two");
        assert_eq!((one.captured.files.len(), read(&one.keys.unwrap())), (1, "key".to_owned()));
        assert_eq!(file_name(0, "a/../b ü"), "worker-1-a----b--");
    }
}
