//! Where the subscribers of a run listen.

use crate::drivers::{BoxedPart, DriverContext, ListenerEntry, driver_of};
use crate::share::Share;
use plimsoll_scenario::plan::{ListenerRole, Protocol};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

/// The sockets at which the subscribers of a run listen, one a shard.
pub struct Listening {
    entry: ListenerEntry,
    sockets: Vec<OwnedFd>,
    addresses: Vec<SocketAddr>,
    /// The number of the first subscriber.
    first: u32,
}

impl Listening {
    /// The ports, one a shard.
    pub fn ports(&self) -> Vec<u16> {
        self.addresses.iter().map(SocketAddr::port).collect()
    }

    /// Listens for so many shards and the subscribers from that number on, at the address of this host from which the platform is reached, over that protocol.
    ///
    /// # Errors
    /// There is no way to the platform, no free port, or nobody listens over that protocol.
    pub fn bind(
        protocol: Protocol,
        platform: SocketAddr,
        shards: usize,
        first: u32,
    ) -> std::io::Result<Listening> {
        let missing = || std::io::Error::other(format!("subscribers cannot listen over {protocol}"));
        let entry = driver_of(protocol)?.listener.ok_or_else(missing)?;
        let any = SocketAddr::new(if platform.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() }, 0);
        // Connecting a datagram socket sends nothing; it tells which of our addresses would be used.
        let probe = UdpSocket::bind(any)?;
        probe.connect(platform)?;
        let here = SocketAddr::new(probe.local_addr()?.ip(), 0);
        let (mut sockets, mut addresses) = (Vec::new(), Vec::new());
        for _ in 0..shards {
            let (socket, address) = (entry.bind)(here)?;
            sockets.push(socket);
            addresses.push(address);
        }
        Ok(Listening { entry, sockets, addresses, first })
    }

    /// The subscribers of a shard.
    ///
    /// # Errors
    /// The kernel refuses an epoll instance or a second descriptor of the socket.
    pub fn serve(&self, context: &DriverContext, role: &ListenerRole) -> std::io::Result<BoxedPart> {
        (self.entry.serve)(context, role, self.socket(context.share.index)?)
    }

    /// Where each subscriber listens, by its number: what set-up steps tell the platform.
    pub fn url(&self, subscriber: u32) -> String {
        let shard = Share::owner(subscriber.saturating_sub(self.first), self.addresses.len() as u32);
        let address = self.addresses.get(shard as usize);
        address.map(|address| format!("{}://{address}/{subscriber}", self.entry.scheme)).unwrap_or_default()
    }

    /// The address of every shard's socket.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The socket of a shard.
    ///
    /// # Errors
    /// The kernel gives no second descriptor of it.
    pub fn socket(&self, shard: u32) -> std::io::Result<OwnedFd> {
        let missing = || std::io::Error::other("no such shard");
        self.sockets.get(shard as usize).ok_or_else(missing)?.try_clone()
    }
}
