//! A relay: it stands before a server, passes on what clients and server send over TCP and UDP, and adds the faults of a network
//! that it is told.
//!
//! Main flow: [`Relay::run`] turns in one loop over epoll (`server`). What one side sends goes on the `way` to the other. A
//! `link`, which all connections share, says when it gets there, and a timer holds it until then. `datagrams` go over the same
//! links, each by itself. Segments of TCP get lost in the kernel (`segments`). An experiment delays by `orders`, and so come the
//! `faults` of a schedule.

mod datagrams;
mod faults;
mod link;
mod orders;
mod segments;
mod server;
mod servers;
mod way;

pub use link::{Disturbance, Link, Network};

use crate::clock::monotonic;
use crate::tcp::Door;
use orders::Orders;
use plimsoll_model::Nanos;
use plimsoll_stats::queue::Stall;
use rustix::event::epoll;
use segments::SegmentLoss;
use server::{LISTENER, Server};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// From one look at whether segments still get lost to the next.
const LOOK: Nanos = Nanos::from_secs(1);
/// A port that is free for connections may be taken for datagrams: so often another one is tried.
const ATTEMPTS: usize = 16;

/// What a relay is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens; port 0 for a free one.
    pub listen: SocketAddr,
    /// The servers that it stands before: clients get them in turn.
    pub to: Vec<SocketAddr>,
    /// What each way is like.
    pub network: Network,
    /// From each multiple of a time since its start on, connections are reset for a while, new ones too.
    pub cut: Option<Stall>,
    /// At each multiple of this time since its start, all connections lose their server and are not told.
    pub half_open: Option<Nanos>,
    /// The file at which it hears orders that delay everything for a time; `None` for nowhere.
    pub control: Option<PathBuf>,
    /// Seeds what is random.
    pub seed: u64,
}

/// What a relay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections of clients that were passed on.
    pub connections: u64,
    /// Those that it reset while the network was cut, or left half-open.
    pub broken: u64,
    /// Bytes handed to the server, and to clients.
    pub bytes: [u64; 2],
    /// Of those, the ones of connections.
    pub in_connections: u64,
    /// Datagrams handed to the server, and to clients.
    pub datagrams: [u64; 2],
    /// Segments of TCP that got lost as wanted, both ways.
    pub segments_lost: u64,
    /// Datagrams that were lost: as wanted, in a cut, or because too much was under way or a socket did not take them.
    pub lost: u64,
}

/// Why a relay could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The port is taken or the address is not ours.
    #[error("cannot listen on {address}: {cause}; choose another port or --port 0 for a free one")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// It cannot hear orders.
    #[error("cannot take orders at {path}: {cause}; choose another file in a folder that exists")]
    Control {
        /// Where.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// A connection came, and this system lets no segments get lost.
    #[error("cannot lose segments: {0}")]
    Loss(String),
    /// The system does not let it wait for connections.
    #[error("cannot wait for connections: {0}")]
    Wait(#[from] rustix::io::Errno),
}

/// A relay that listens.
pub struct Relay {
    settings: Settings,
    door: Door,
    datagrams: UdpSocket,
    orders: Option<Orders>,
    epoll: OwnedFd,
}

impl Relay {
    /// Begins to listen. The server need not be up yet.
    ///
    /// # Errors
    /// See [`RelayError`].
    pub fn bind(settings: Settings) -> Result<Relay, RelayError> {
        let hear = |path: &PathBuf| {
            Orders::at(path).map_err(|cause| RelayError::Control { path: path.display().to_string(), cause })
        };
        // Whoever finds the port open can give orders.
        let orders = settings.control.as_ref().map(hear).transpose()?;
        let address = settings.listen;
        let attempts = if address.port() == 0 { ATTEMPTS } else { 1 };
        let mut opened = open(address);
        for _ in 1..attempts {
            opened = opened.or_else(|_| open(address));
        }
        let (door, datagrams) = opened.map_err(|cause| RelayError::Listen { address, cause })?;
        Ok(Relay { settings, door, datagrams, orders, epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.door.address()
    }

    /// Relays until `stop` is set.
    ///
    /// # Errors
    /// See [`RelayError`].
    pub fn run(mut self, stop: &AtomicBool) -> Result<Totals, RelayError> {
        let share = self.settings.network.loss;
        // Who loses datagrams alone needs no right to do it.
        let mut loss = match self.address() {
            Ok(address) if share > 0.0 => SegmentLoss::begin(address, share).map(Some),
            _ => Ok(None),
        };
        let address = self.address().ok();
        let mut next_look = monotonic() + LOOK;
        let mut server = Server::new(self.settings, address, self.datagrams, self.orders);
        server.begin(&self.epoll, &self.door)?;
        while !stop.load(Ordering::Relaxed) {
            server.turn(&self.epoll, &mut self.door)?;
            if let Err(why) = &loss
                && server.totals().in_connections > 0
            {
                return Err(RelayError::Loss(why.clone()));
            }
            if monotonic() < next_look {
                continue;
            }
            next_look = monotonic() + LOOK;
            if let Ok(Some(loss)) = &mut loss
                && loss.is_over()
            {
                return Err(RelayError::Loss("its `nft` has ended".into()));
            }
        }
        let segments_lost = loss.ok().flatten().map_or(0, |loss| loss.lost());
        Ok(Totals { segments_lost, ..server.totals() })
    }
}

/// Listens for connections and datagrams at one port.
fn open(address: SocketAddr) -> std::io::Result<(Door, UdpSocket)> {
    let door = Door::open(address, LISTENER)?;
    let datagrams = UdpSocket::bind(door.address()?)?;
    datagrams.set_nonblocking(true)?;
    Ok((door, datagrams))
}
