//! What is captured off the wire.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// What is captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturePlan {
    /// The interface; `None` for the loopback of a platform on this host, else all.
    pub interface: Option<String>,
    /// Networks that are captured. Never empty.
    pub networks: Vec<WireNetwork>,
    /// Which packets, in tcpdump's words; `None` for those of the platform's ports.
    pub filter: Option<String>,
    /// Names of servers, and where they are.
    pub names: Vec<(String, WirePlace)>,
    /// The most that is kept of each capture, bytes.
    pub limit: u64,
    /// A folder that keeps the captures.
    pub keep: Option<PathBuf>,
}

/// A network that is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireNetwork {
    /// This host's own.
    Host,
    /// A network namespace by its name (`ip netns`).
    Named(String),
    /// That of a process.
    Process(u32),
    /// That of a container or pod.
    Container(String),
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
