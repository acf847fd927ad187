//! A small document store that speaks the wire protocol of MongoDB, for tests and rehearsal, with a planted limit: it works on one
//! command at a time. And a router that spreads documents over several of them.
//!
//! Main flow: [`DocumentTarget::run`] accepts connections, each has a thread that reads commands ([`connection`]), waits for the lock
//! of the store, and lets [`commands`] do them. [`router`] sends them on instead.

pub mod client;
mod collections;
mod commands;
mod connection;
mod filter;
pub mod router;
mod update;

use crate::clock::thread_time;
use crate::threads::{Connections, accept, lock};
use crate::workers::Workers;
use collections::Collections;
use commands::Kind;
use plimsoll_codec::mongodb::bson::{Document, Value};
use plimsoll_model::Nanos;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the store is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub host: IpAddr,
    /// Its port; 0 for a free one.
    pub port: u16,
    /// How long a command that reads holds the lock.
    pub read: Duration,
    /// How long each document that is written holds it.
    pub write: Duration,
    /// What it does meanwhile.
    pub work: Work,
}

/// What the store does while a command holds its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It computes: the time is processor time.
    Compute,
    /// It waits, as for a disk.
    Wait,
}

/// Why a target could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The port is taken or the address is not ours.
    #[error("cannot listen on {address}: {cause}; choose another port or --port 0 for a free one")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// The operating system refused something else.
    #[error("the target cannot go on: {0}")]
    System(#[from] std::io::Error),
}

/// A store that listens.
pub struct DocumentTarget {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// What all connections share.
struct Shared {
    settings: Settings,
    /// Its one place is the planted lock.
    lock: Workers,
    collections: Mutex<Collections>,
}

fn listen(host: IpAddr, port: u16) -> Result<TcpListener, DocumentError> {
    let address = SocketAddr::new(host, port);
    TcpListener::bind(address).map_err(|cause| DocumentError::Listen { address, cause })
}

impl DocumentTarget {
    /// Begins to listen.
    ///
    /// # Errors
    /// The port is taken.
    pub fn bind(settings: &Settings) -> Result<DocumentTarget, DocumentError> {
        let listener = listen(settings.host, settings.port)?;
        let (settings, collections) = (settings.clone(), Mutex::new(Collections::default()));
        Ok(DocumentTarget {
            listener,
            shared: Arc::new(Shared { settings, lock: Workers::new(1), collections }),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is set, which is looked at twenty times a second.
    ///
    /// # Errors
    /// The system fails.
    pub fn run(self, stop: &AtomicBool) -> Result<(), DocumentError> {
        let connections = Connections::default();
        accept(&self.listener, stop, |stream| {
            let shared = Arc::clone(&self.shared);
            // A client that there is no room for sees its connection closed, as one that breaks off.
            let _ = connections.spawn(stream, move |stream| {
                drop(connection::answer_all(stream, |command| shared.answer(command)));
            });
        })?;
        connections.close_all();
        Ok(())
    }
}

impl Shared {
    /// Does a command, under the lock if it concerns documents.
    fn answer(&self, command: Document) -> Document {
        let Settings { read, write, work, .. } = self.settings;
        let time = match commands::kind(&command) {
            Kind::Other => return commands::perform(command, &mut lock(&self.collections)),
            Kind::Read => read,
            Kind::Write(documents) => write.saturating_mul(documents),
        };
        let _held = self.lock.wait();
        work.take(time);
        commands::perform(command, &mut lock(&self.collections))
    }
}

impl Work {
    fn take(self, time: Duration) {
        match self {
            Work::Wait if time.is_zero() => {}
            Work::Wait => std::thread::sleep(time),
            Work::Compute => {
                let end = thread_time() + Nanos::from(time);
                while thread_time() < end {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

/// The answer to a command that was done, with its end, without which no driver takes it.
fn ok(answer: Document) -> Document {
    answer.with("ok", 1.0)
}

/// The answer to a command that was not done.
fn refused(refusal: Refusal) -> Document {
    let Refusal { code, name, message } = refusal;
    Document::default().with("ok", 0.0).with("errmsg", message).with("code", code).with("codeName", name)
}

/// Why a command is not done, as servers say it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    code: i32,
    name: &'static str,
    message: String,
}

impl Refusal {
    fn bad(message: impl Into<String>) -> Refusal {
        Refusal { code: 2, name: "BadValue", message: message.into() }
    }

    fn unknown(command: &str) -> Refusal {
        let message = format!("no such command: '{command}'");
        Refusal { code: 59, name: "CommandNotFound", message }
    }

    fn full() -> Refusal {
        Refusal { code: 14031, name: "OutOfDiskSpace", message: "there is no room for more documents".into() }
    }

    fn unreachable(message: impl Into<String>) -> Refusal {
        Refusal { code: 6, name: "HostUnreachable", message: message.into() }
    }
}

/// What a document is known by: equal values are equal bytes, of whichever type a number is.
fn key(value: &Value) -> Vec<u8> {
    let value = value.whole().map_or_else(|| value.clone(), Value::Int64);
    bytes(&Document::default().with("", value))
}

/// A document as it goes over the wire.
fn bytes(document: &Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    document.write(&mut bytes);
    bytes
}
