//! A station: a server whose truth is known. What arrives waits for a worker, is served for a drawn time, and is then
//! acknowledged and delivered; the record of what really happened is what a measurement of it must agree with.
//!
//! Main flow: [`Station::run`] turns in one loop over epoll. Bytes become messages (`mqtt`), a message arrives at the
//! `servers` (a computed [`System`](plimsoll_stats::system::System) or threads, the `workers`), a nanosecond timer holds it
//! until its departure, `faults` say what befalls its delivery, `truth` writes down what did.

mod coap;
mod connection;
mod faults;
mod http;
mod jobs;
mod lock;
mod mqtt;
mod next;
mod server;
mod servers;
mod session;
mod truth;
mod websocket;
mod workers;

pub use faults::Faults;

use crate::record_file::Unwritable;
use crate::tcp::Door;
use plimsoll_stats::queue::{ServiceTime, Settings as QueueSettings};
use plimsoll_stats::system::Discipline;
use rustix::event::epoll;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a station speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StationProtocol {
    /// MQTT 3.1.1 and 5, over TCP.
    Mqtt,
    /// HTTP/1.1, over TCP.
    Http,
    /// CoAP (RFC 7252), over UDP.
    Coap,
    /// WebSocket (RFC 6455), over TCP: MQTT where the client asks for it, else an echo.
    WebSocket,
}

/// How a worker is busy.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Not at all: departures are computed and held by a timer, so that late wake-ups do not accumulate.
    Sleep(Discipline),
    /// In a thread of its own.
    Thread {
        /// What the thread does for the time of a service.
        busy: Busy,
        /// What it holds at the end of each service.
        lock: Option<Lock>,
    },
}

/// What a thread does for the time of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// It burns processor time.
    Spin,
    /// It sleeps. Unlike one that is computed, a service that should begin while the process is stopped begins afterwards.
    Wait,
}

/// A lock that one thread holds at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// How long it is held.
    pub time: ServiceTime,
    /// A file that is locked, too, by which stations share one lock; made where it does not exist.
    pub file: Option<PathBuf>,
}

impl Work {
    /// What hinders workers.
    pub fn discipline(&self) -> Discipline {
        match self {
            Work::Sleep(discipline) => *discipline,
            Work::Thread { lock, .. } => {
                Discipline { lock: lock.as_ref().map(|lock| lock.time), ..Discipline::default() }
            }
        }
    }
}

/// What a station is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What it speaks.
    pub protocol: StationProtocol,
    /// Where it listens.
    pub host: IpAddr,
    /// Its port; 0 for a free one.
    pub port: u16,
    /// Workers, service times, queue limit, stalls and the seed of everything random.
    pub queue: QueueSettings,
    /// How a worker is busy.
    pub work: Work,
    /// What befalls deliveries.
    pub faults: Faults,
    /// Where to write the record.
    pub truth: Option<PathBuf>,
    /// The station that everything served is passed on to, and that answers for it.
    pub next: Option<NextStation>,
}

/// A station behind another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextStation {
    /// Where it listens.
    pub address: SocketAddr,
    /// Connections of the pool to it: so many messages at most are there and not answered, the others wait for a
    /// connection in the order in which they were served. `None` for any number.
    pub pool: Option<NonZeroUsize>,
}

/// Why a station could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum StationError {
    /// The port is taken or the address is not ours.
    #[error("cannot listen on {address}: {cause}; choose another port or --port 0 for a free one")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// The record cannot be written.
    #[error(transparent)]
    Truth(#[from] Unwritable),
    /// The lock's file cannot be opened or locked.
    #[error("cannot lock {file}, which --lock-file names: {cause}")]
    LockFile {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The next station of the chain cannot be reached, or is gone.
    #[error("the next station, {address}, does not go on: {cause}; start it first, with --protocol mqtt")]
    Next {
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// The operating system refused something else.
    #[error("the station cannot go on: {0}")]
    System(#[from] std::io::Error),
}

impl From<rustix::io::Errno> for StationError {
    fn from(error: rustix::io::Errno) -> StationError {
        StationError::System(error.into())
    }
}

/// Where clients come in.
enum Doors {
    Tcp(Door),
    Udp(SocketAddr),
}

/// A station that listens.
pub struct Station {
    doors: Doors,
    epoll: OwnedFd,
    server: server::Server,
}

impl Station {
    /// Begins to listen.
    ///
    /// # Errors
    /// The port is taken, the record cannot be made, or the system refuses an epoll instance or threads.
    pub fn bind(settings: &Settings) -> Result<Station, StationError> {
        let address = SocketAddr::new(settings.host, settings.port);
        let refused = |cause| StationError::Listen { address, cause };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (doors, endpoint) = match settings.protocol {
            StationProtocol::Coap => {
                let socket = UdpSocket::bind(address).map_err(refused)?;
                (Doors::Udp(socket.local_addr()?), Some(coap::Endpoint::new(socket)?))
            }
            StationProtocol::Mqtt | StationProtocol::Http | StationProtocol::WebSocket => {
                (Doors::Tcp(Door::open(address, server::LISTENER).map_err(refused)?), None)
            }
        };
        let server = server::Server::new(settings, endpoint)?;
        Ok(Station { doors, epoll, server })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        match &self.doors {
            Doors::Tcp(door) => door.address(),
            Doors::Udp(address) => Ok(*address),
        }
    }

    /// Serves until `stop` is set, which is looked at ten times a second, then completes the record.
    ///
    /// # Errors
    /// The record can no longer be written, or the system fails.
    pub fn run(mut self, stop: &AtomicBool) -> Result<(), StationError> {
        let mut door = match self.doors {
            Doors::Tcp(door) => Some(door),
            Doors::Udp(_) => None,
        };
        self.server.begin(&self.epoll, door.as_ref())?;
        while !stop.load(Ordering::Relaxed) {
            self.server.turn(&self.epoll, door.as_mut())?;
        }
        self.server.finish()
    }
}
