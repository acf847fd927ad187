//! Finds the processes of a platform that runs already: by number, by the port at which one listens, by systemd's unit, by
//! container.

use crate::containers::containers;
use procfs::net::TcpState;
use procfs::process::{FDTarget, Process, all_processes};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Where a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It has that number.
    Process(i32),
    /// It listens at that port of this host, over TCP or UDP.
    Port(u16),
    /// systemd has started it as that unit.
    Unit(String),
    /// It is the first process of that container or pod.
    Container(String),
}

/// Why no process was found.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// No such number.
    #[error("no process {0} runs on this host")]
    Process(i32),
    /// Nobody listens.
    #[error(
        "no process of this host is seen to listen at port {0}: it is not up, in a container, or another user's (root sees all)"
    )]
    Port(u16),
    /// No process of that unit.
    #[error("no process of the unit {0} runs: see `systemctl status {0}`")]
    Unit(String),
    /// No such container.
    #[error("no container {name} runs on this host{known}")]
    Container {
        /// The name.
        name: String,
        /// Those that run.
        known: String,
    },
}

/// The process there; of several that share a port or a unit, the one from which the others descend, else the oldest.
pub fn process_at(place: &Place) -> Result<i32, NotFound> {
    match place {
        Place::Process(process) => {
            let alive =
                Process::new(*process).and_then(|process| process.stat()).is_ok_and(|stat| stat.state != 'Z');
            alive.then_some(*process).ok_or(NotFound::Process(*process))
        }
        Place::Port(port) => first(&listening(*port)).ok_or(NotFound::Port(*port)),
        Place::Unit(name) => {
            let unit = if name.contains('.') { name.clone() } else { format!("{name}.service") };
            first(&of_unit(&unit)).ok_or(NotFound::Unit(unit))
        }
        Place::Container(name) => {
            let all = containers();
            all.iter().find(|one| one.name == *name).map(|one| one.process).ok_or_else(|| {
                let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
                let known = if names.is_empty() {
                    String::new()
                } else {
                    format!("; there are {}", names.join(", "))
                };
                NotFound::Container { name: name.clone(), known }
            })
        }
    }
}

/// What a process is called: the name of its program.
pub fn program_of(process: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// When a process began, in ticks since the host was started; `None` where it is no more.
pub fn began(process: i32) -> Option<u64> {
    Process::new(process).and_then(|process| process.stat()).ok().map(|stat| stat.starttime)
}

/// Ports of this host to which a process and its descendants hold connections, or at which they listen.
pub fn ports_of(process: i32) -> BTreeSet<u16> {
    let inodes: BTreeSet<u64> =
        crate::family::family(process).iter().flat_map(|(process, _)| sockets_of(process)).collect();
    let Ok(myself) = Process::myself() else { return BTreeSet::new() };
    let tables = [myself.tcp(), myself.tcp6()].into_iter().flatten().flatten();
    let own = tables.filter(|entry| inodes.contains(&entry.inode));
    let listens_or_calls = |entry: procfs::net::TcpNetEntry| match entry.state {
        TcpState::Listen => Some(entry.local_address.port()),
        TcpState::Established => Some(entry.local_address.port().min(entry.remote_address.port())),
        _ => None,
    };
    own.filter_map(listens_or_calls).filter(|&port| port > 0).collect()
}

/// The inodes of the sockets that a process has open.
pub(crate) fn sockets_of(process: &Process) -> Vec<u64> {
    let files = process.fd().into_iter().flatten().flatten();
    let socket = |target| if let FDTarget::Socket(inode) = target { Some(inode) } else { None };
    files.filter_map(|file| socket(file.target)).collect()
}

/// Those that listen at a port.
fn listening(port: u16) -> BTreeSet<i32> {
    let Ok(myself) = Process::myself() else { return BTreeSet::new() };
    let tcp = [myself.tcp(), myself.tcp6()].into_iter().flatten().flatten();
    let tcp = tcp.filter(|entry| entry.state == TcpState::Listen && entry.local_address.port() == port);
    let udp = [myself.udp(), myself.udp6()].into_iter().flatten().flatten();
    let udp = udp.filter(|entry| entry.local_address.port() == port && entry.remote_address.port() == 0);
    let inodes: BTreeSet<u64> = tcp.map(|entry| entry.inode).chain(udp.map(|entry| entry.inode)).collect();
    if inodes.is_empty() {
        return BTreeSet::new();
    }
    let all = all_processes().into_iter().flatten().flatten();
    let holds = |process: &Process| sockets_of(process).iter().any(|inode| inodes.contains(inode));
    all.filter(holds).map(|process| process.pid).collect()
}

/// Those whose control group is that of a unit.
fn of_unit(unit: &str) -> BTreeSet<i32> {
    let all = all_processes().into_iter().flatten().flatten();
    let belongs = |process: &Process| {
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).unwrap_or_default();
        groups.lines().any(|line| line.split('/').any(|part| part == unit))
    };
    all.filter(belongs).map(|process| process.pid).collect()
}

/// The first of some processes: the one whose parent is none of them and that began first.
fn first(processes: &BTreeSet<i32>) -> Option<i32> {
    let stat = |&process: &i32| Some((process, Process::new(process).ok()?.stat().ok()?));
    let stats: BTreeMap<i32, procfs::process::Stat> = processes.iter().filter_map(stat).collect();
    let roots = stats.values().filter(|stat| !processes.contains(&stat.ppid));
    roots.min_by_key(|stat| stat.starttime).map(|stat| stat.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_port_names_the_process_that_listens_there() {
        let own = std::process::id() as i32;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(process_at(&Place::Port(port)), Ok(own));
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(ports_of(own).contains(&port));
        let its = client.local_addr().unwrap().port();
        assert_eq!(process_at(&Place::Port(its)), Err(NotFound::Port(its)), "a client does not listen");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(process_at(&Place::Port(socket.local_addr().unwrap().port())), Ok(own));
        assert_eq!(process_at(&Place::Process(own)), Ok(own));
        assert!(program_of(own).is_some());
    }

    #[test]
    fn what_is_not_there_is_told_with_its_name() {
        let told = |place| process_at(&place).unwrap_err().to_string();
        assert!(told(Place::Process(i32::MAX)).contains("no process 2147483647"));
        assert!(told(Place::Unit("plimsoll-none".into())).contains("systemctl status plimsoll-none.service"));
        assert!(told(Place::Container("plimsoll-none".into())).contains("no container plimsoll-none"));
    }
}
