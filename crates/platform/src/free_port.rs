//! Ports for components that are started here.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::ops::Range;

/// Below it, ports are likely to have a service.
const LOWEST: u16 = 10_000;
/// How many ports are tried.
const TRIES: usize = 100;

/// A port of this host that is free over TCP and UDP and that `taken` does not claim. The kernel does not give it to
/// connections, where there are such ports: between the choice and the use, a connection could leave from any other.
pub fn free_port(taken: impl Fn(u16) -> bool) -> io::Result<u16> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let ports = not_given(&range);
    let random = || ports.start + (RandomState::new().hash_one(()) % (ports.len() as u64)) as u16;
    let is_free = |port: &u16| {
        let address = ("127.0.0.1", *port);
        !taken(*port) && TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
    };
    let found = if ports.is_empty() { None } else { (0..TRIES).map(|_| random()).find(is_free) };
    found.map_or_else(|| Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port()), Ok)
}

/// The ports that the kernel does not give to connections, by what it says of those that it gives.
fn not_given(range: &str) -> Range<u16> {
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    LOWEST..first.unwrap_or(LOWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_that_no_connection_leaves_from() {
        assert_eq!(not_given("32768\t60999\n"), 10_000..32_768);
        assert!(not_given("1024\t65535\n").is_empty());
        assert!(not_given("").is_empty());
    }

    #[test]
    fn where_all_are_claimed_the_kernel_chooses() {
        let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let ports = not_given(&range);
        assert_eq!(ports.contains(&free_port(|_| false).unwrap()), !ports.is_empty());
        assert!(!ports.contains(&free_port(|_| true).unwrap()));
    }
}
