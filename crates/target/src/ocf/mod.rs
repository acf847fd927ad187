//! Servers in the shape of a cloud for devices of OCF, as work C drew it, for tests and rehearsal: each is a process of its own that speaks
//! CoAP over TCP, and keeps a count and a record of all that it does.
//!
//! Devices and controllers connect to an [`interface`], which passes on what they ask: who they are to the [`account`] server, their
//! resources to the [`directory`], what they publish to the message [`queue`]. What is asked of a device goes to the device, over its own
//! connection. Nothing of this is anybody's product, and nothing is kept on disk.

mod account;
mod desk;
mod directory;
mod interface;
mod kafka;
mod links;
mod queue;

use crate::clock::monotonic;
use crate::record_file::{RecordFile, Unwritable};
use crate::tcp::Door;
use desk::Desk;
use links::{Came, Links};
use plimsoll_codec::coap::stream::signal;
use plimsoll_codec::coap::{Message, OptionList, code};
use plimsoll_model::Nanos;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Connections accepted before others have their turn.
const ACCEPTED: usize = 256;
/// How often the record is handed to the kernel.
const FLUSH: Nanos = Nanos::from_millis(200);
/// The first line of a record.
const HEADER: &str = "time_ns,what,connection,path,bytes,marker\n";

/// Which of the servers it is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Knows users and their devices. Access tokens hold so many seconds; `None` for ever.
    Account(Option<u32>),
    /// Knows the resources of devices.
    Directory,
    /// Takes what is published, and notifies those that observe.
    Queue(Queue),
    /// Stands before the others.
    Interface(Upstreams),
}

/// What a message queue is told.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// The broker of Kafka that keeps topics; `None` keeps them in memory.
    pub kafka: Option<SocketAddr>,
    /// What is published so soon after the first request to observe a topic reaches nobody.
    pub starts_late: Nanos,
}

/// Where an interface finds the others.
#[derive(Clone, Copy, Debug)]
pub struct Upstreams {
    /// The account server.
    pub account: SocketAddr,
    /// The resource directory.
    pub directory: SocketAddr,
    /// The message queue.
    pub queue: SocketAddr,
    /// How long a device may take to answer what was relayed to it.
    pub patience: Nanos,
}

/// Whether a server says what it takes (CSM, RFC 8323 section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Csm {
    /// As the standard has it: by itself, and first.
    First,
    /// When the other side has said so.
    Answer,
    /// Never.
    Never,
}

/// What a server is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which it is.
    pub kind: Kind,
    /// Where it listens.
    pub host: IpAddr,
    /// Its port; 0 for a free one.
    pub port: u16,
    /// Whether it says what it takes.
    pub csm: Csm,
    /// Where the record is written.
    pub record: Option<PathBuf>,
}

/// Why a server could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum OcfError {
    /// The port is taken or the address is not ours.
    #[error("cannot listen on {address}: {cause}; choose another port or --port 0 for a free one")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// A server that it needs.
    #[error("cannot reach {what} at {address}: {cause}; start it first")]
    Upstream {
        /// Which.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// The record.
    #[error(transparent)]
    Record(#[from] Unwritable),
    /// The operating system refused something else.
    #[error("the target cannot go on: {0}")]
    System(#[from] std::io::Error),
}

impl From<rustix::io::Errno> for OcfError {
    fn from(error: rustix::io::Errno) -> OcfError {
        OcfError::System(error.into())
    }
}

/// How often a server has seen something when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Requests.
    pub requests: u64,
    /// Answers that were sent, those that refuse left out.
    pub answered: u64,
    /// Answers that refuse.
    pub refused: u64,
    /// Requests that were passed on.
    pub passed_on: u64,
    /// Messages that were published and taken.
    pub published: u64,
    /// Notifications that were sent.
    pub notified: u64,
    /// Connections that were closed because they did not read what was for them.
    pub unread: u64,
}

/// What one of the servers does.
trait Server: Send {
    /// A request came over a connection.
    fn request(&mut self, link: u64, request: &Message<'_>, desk: &mut Desk);

    /// An answer came over a connection.
    fn answer(&mut self, _link: u64, _answer: &Message<'_>, _desk: &mut Desk) {}

    /// A connection is gone.
    fn closed(&mut self, _link: u64, _desk: &mut Desk) {}

    /// Does what others have brought to an end meanwhile.
    ///
    /// # Errors
    /// It cannot go on.
    fn turn(&mut self, _desk: &mut Desk) -> Result<(), OcfError> {
        Ok(())
    }
}

/// A server that listens.
pub struct OcfTarget {
    door: Door,
    desk: Desk,
    server: Box<dyn Server>,
}

impl OcfTarget {
    /// Begins to listen, and connects to what it needs.
    ///
    /// # Errors
    /// The port is taken, what it needs cannot be reached, or the record cannot be written.
    pub fn bind(settings: &Settings) -> Result<OcfTarget, OcfError> {
        let address = SocketAddr::new(settings.host, settings.port);
        let door = Door::open(address, links::DOOR).map_err(|cause| OcfError::Listen { address, cause })?;
        let mut links = Links::new(settings.csm)?;
        door.register(links.epoll())?;
        let server: Box<dyn Server> = match &settings.kind {
            Kind::Account(token_life) => Box::new(account::Account::new(*token_life)),
            Kind::Directory => Box::<directory::Directory>::default(),
            Kind::Queue(queue) => Box::new(queue::MessageQueue::new(queue, &mut links)?),
            Kind::Interface(upstreams) => Box::new(interface::Interface::new(*upstreams, &mut links)?),
        };
        let record = settings.record.as_deref().map(|path| RecordFile::begin(path, HEADER)).transpose()?;
        Ok(OcfTarget {
            door,
            desk: Desk { links, record, seen: Seen::default(), at: monotonic(), failed: None },
            server,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<SocketAddr, OcfError> {
        Ok(self.door.address()?)
    }

    /// Serves until it is to stop; what it has seen.
    ///
    /// # Errors
    /// The record cannot be written, or the server cannot go on.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Seen, OcfError> {
        let mut flushed = monotonic();
        while !stop.load(Ordering::Relaxed) {
            let (accepts, came) = self.desk.links.wait();
            self.desk.at = monotonic();
            if accepts {
                self.accept();
            }
            for Came { link, bytes } in came {
                self.take(link, &bytes);
            }
            self.server.turn(&mut self.desk)?;
            for link in self.desk.links.send() {
                self.server.closed(link, &mut self.desk);
            }
            self.door.resume(self.desk.links.epoll(), self.desk.at)?;
            if self.desk.at - flushed > FLUSH {
                flushed = self.desk.at;
                self.desk.flush()?;
            }
        }
        self.desk.seen.unread = self.desk.links.unread();
        self.desk.flush()?;
        Ok(self.desk.seen)
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED {
            let Some(stream) = self.door.accept(self.desk.links.epoll(), self.desk.at) else { return };
            // Whoever cannot be watched is closed.
            let _ = self.desk.links.welcome(stream);
        }
    }

    /// Takes the messages that came over a connection.
    fn take(&mut self, link: u64, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((message, length)) = self.desk.links.cut(link, rest) {
            rest = rest.get(length..).unwrap_or_default();
            match message.code {
                signal::CSM => self.desk.links.heard_csm(link),
                signal::PING => {
                    self.desk.links.say(link, signal::PONG, message.token, &OptionList::new(), &[])
                }
                signal::RELEASE | signal::ABORT => self.desk.links.close(link),
                code::EMPTY => {}
                code if signal::is_signal(code) => {}
                code if code >> 5 == 0 => {
                    self.desk.seen.requests += 1;
                    self.server.request(link, &message, &mut self.desk);
                }
                _ => self.server.answer(link, &message, &mut self.desk),
            }
        }
        self.desk.links.keep(link, rest);
    }
}
