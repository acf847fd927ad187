//! Containers and pods on this host: processes that live in a network of their own, what they are called and which addresses
//! they have there. All from /proc, so that it does not matter who has started them.

use procfs::process::{Process, all_processes};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Digits of a container's id that are shown.
const SHORT: usize = 12;
/// Bytes of a host name that are read.
const LONGEST_NAME: u64 = 256;

/// A container, a pod, or another network namespace that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The name of its network (`ip netns`), else its own host name (that of a pod is the pod's), else its id.
    pub name: String,
    /// A process in its network: the oldest.
    pub process: i32,
    /// Its addresses, without those of its loopback.
    pub addresses: Vec<IpAddr>,
}

/// Those that run now and whose processes may be looked at, by name. This process's own network is none of them, nor is one
/// whose processes have neither a name nor a container's id.
pub fn containers() -> Vec<Container> {
    let own = Process::myself().ok().and_then(|process| network(&process));
    let names = named_networks();
    // In the order of their numbers, which is mostly that of their beginning.
    let mut networks: BTreeMap<u64, Vec<Process>> = BTreeMap::new();
    for process in all_processes().into_iter().flatten().flatten() {
        if let Some(network) = network(&process).filter(|network| Some(*network) != own) {
            networks.entry(network).or_default().push(process);
        }
    }
    let known = |(network, processes): (u64, Vec<Process>)| {
        let named = || processes.iter().find_map(|process| container_name(process, true));
        // What holds a pod's network may have no host name of its own.
        let numbered = || processes.iter().find_map(|process| container_name(process, false));
        let name = names.get(&network).cloned().or_else(named).or_else(numbered)?;
        let process = processes.first()?.pid;
        Some(Container { name, process, addresses: addresses(process) })
    };
    let mut containers: Vec<Container> = networks.into_iter().filter_map(known).collect();
    containers.sort_by(|one, other| one.name.cmp(&other.name));
    containers
}

/// The number of a process's network namespace.
pub(crate) fn network(process: &Process) -> Option<u64> {
    fs::metadata(format!("/proc/{}/ns/net", process.pid)).ok().map(|namespace| namespace.ino())
}

/// Networks that `ip netns` has named.
fn named_networks() -> HashMap<u64, String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let network = fs::metadata(entry.path()).ok()?.ino();
            Some((network, entry.file_name().to_string_lossy().into_owned()))
        })
        .collect()
}

/// What a process in a container calls its host; where that is not asked for, the container's id.
fn container_name(process: &Process, by_host: bool) -> Option<String> {
    let path = format!("/proc/{}", process.pid);
    let id = container_id(&fs::read_to_string(format!("{path}/cgroup")).ok()?)?;
    let host = host_name(Path::new(&format!("{path}/root/etc/hostname"))).unwrap_or_default();
    let host = host.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let host = (!host.is_empty() && host.chars().all(is_name)).then_some(host);
    if by_host { host.map(str::to_owned) } else { id.get(..SHORT).map(str::to_owned) }
}

/// The beginning of a file that somebody else may have put anything in place of: a pipe, a device, a link to a file of ours.
fn host_name(path: &Path) -> Option<String> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(LONGEST_NAME).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The id of a container in the names of its control groups, as Docker, containerd, CRI-O and Podman write them: 64 hexadecimal
/// digits, mostly between other words.
fn container_id(cgroup: &str) -> Option<String> {
    let mut words = cgroup.split(|c: char| !c.is_ascii_alphanumeric());
    let is_id = |word: &&str| word.len() == 64 && word.chars().all(|c| c.is_ascii_hexdigit());
    words.rfind(is_id).map(str::to_owned)
}

/// The addresses in a process's network.
fn addresses(process: i32) -> Vec<IpAddr> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{process}/net/{file}")).unwrap_or_default();
    let mut all = local_v4(&read("fib_trie"));
    all.extend(local_v6(&read("if_inet6")));
    all.sort_unstable();
    all.dedup();
    all.retain(|address| !address.is_loopback());
    all
}

/// The kernel's tree of routes: an address stands in a line above those that say what it is.
fn local_v4(routes: &str) -> Vec<IpAddr> {
    let mut last: Option<Ipv4Addr> = None;
    let mut found = Vec::new();
    for line in routes.lines() {
        if let Some(address) = line.trim_start().strip_prefix("|-- ") {
            last = address.trim().parse().ok();
        } else if line.contains("/32 host LOCAL") {
            found.extend(last.map(IpAddr::V4));
        }
    }
    found
}

/// A line an address, in 32 hexadecimal digits.
fn local_v6(interfaces: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let digits = line.split_whitespace().next()?;
        Some(IpAddr::V6(Ipv6Addr::from(u128::from_str_radix(digits, 16).ok()?)))
    };
    interfaces.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f0c1a9be3d57720aa41ce8d6b3f95d2c7e80b13f4a6925d8e7c10b2a3f4e5d6";

    #[test]
    fn the_id_of_a_container_is_found_in_its_control_groups() {
        for text in [
            format!("0::/system.slice/docker-{ID}.scope\n"),
            format!("12:cpu,cpuacct:/docker/{ID}\n1:name=systemd:/docker/{ID}\n"),
            format!(
                "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a2b.slice/cri-containerd-{ID}.scope"
            ),
            format!("0::/machine.slice/libpod-{ID}.scope/container"),
        ] {
            assert_eq!(container_id(&text).as_deref(), Some(ID), "{text}");
        }
        assert_eq!(container_id("0::/user.slice/user-0.slice/session-1.scope"), None);
    }

    #[test]
    fn addresses_are_read_from_the_kernels_tables() {
        let trie = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 172.18.0.0\n        /16 link UNICAST\n     |-- 172.18.0.3\n        /32 host LOCAL\n     |-- 172.18.255.255\n        /32 link BROADCAST\n";
        assert_eq!(local_v4(trie), ["172.18.0.3".parse::<IpAddr>().unwrap()]);
        let v6 = "fd000000000000000000000000000003 02 40 00 80     eth0\nnot an address\n";
        assert_eq!(local_v6(v6), ["fd00::3".parse::<IpAddr>().unwrap()]);
    }
}
