//! What is captured off the wire.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// What is captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturePlan {
    /// The interface; `None` for the loopback of a platform on this host, else all.
    pub interface: Option<String>,
    /// Network namespaces, `None` being this host's own. Never empty.
    pub namespaces: Vec<Option<String>>,
    /// Which packets, in tcpdump's words; `None` for those of the platform's ports.
    pub filter: Option<String>,
    /// Names of servers, and where they are.
    pub names: Vec<(String, WirePlace)>,
    /// The most that is kept of each capture, bytes.
    pub limit: u64,
    /// A folder that keeps the captures.
    pub keep: Option<PathBuf>,
}

/// Where a server is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WirePlace {
    /// At that port of any address.
    Port(u16),
    /// At that address and port.
    Endpoint(SocketAddr),
    /// All of that host.
    Host(IpAddr),
}
