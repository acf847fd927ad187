//! One test of a gateway, from its bootup to its end.

use crate::bootup::{BootupError, Interface, Manager};
use crate::calls::{CallError, resolve};
use crate::configuration::{Configuration, OutOfRange, PushProtocol};
use crate::dispatcher;
use crate::handler::Shared;
use crate::log::Log;
use crate::reactor::ReactorError;
use crate::work::Work;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

/// How long lines of the log wait for others.
const FLUSH: Duration = Duration::from_millis(5);

/// A gateway that polls devices, and where it belongs.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// What it is.
    pub configuration: Configuration,
    /// Who knows the devices and starts the test.
    pub bootup: Bootup,
    /// `HOST:PORT` of the log server (UDP).
    pub log: String,
    /// Where the I/O work writes.
    pub folder: PathBuf,
}

/// Who takes part in the start of a test.
#[derive(Clone, Debug)]
pub struct Bootup {
    /// `HOST:PORT` of the manager's name service.
    pub manager: String,
    /// `ADDRESS:PORT` of the gateway's own interface.
    pub interface: String,
}

/// A gateway to which devices send their events.
#[derive(Debug)]
pub struct Push {
    /// What it is.
    pub configuration: Configuration,
    /// What the devices speak.
    pub protocol: PushProtocol,
    /// Where they connect.
    pub listener: TcpListener,
    /// A test manager that is asked whether it is started with the same configuration, and starts the test.
    pub bootup: Option<Bootup>,
    /// `HOST:PORT` of the log server (UDP), where the life of events shall be logged.
    pub log: Option<String>,
    /// Where the I/O work writes.
    pub folder: PathBuf,
}

/// Why there was no test.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// A value.
    #[error(transparent)]
    Configuration(#[from] OutOfRange),
    /// The manager.
    #[error(transparent)]
    Bootup(#[from] BootupError),
    /// The loop, or a thread.
    #[error(transparent)]
    Reactor(#[from] ReactorError),
    /// The log server.
    #[error("the log server at {address} has no address: {cause}")]
    Log {
        /// Where.
        address: String,
        /// Why.
        cause: CallError,
    },
    /// More devices than open files.
    #[error(
        "{wanted} devices are to be connected at once, and this process may open files for {room} of them: raise the \
         limit (ulimit -n), or let the devices take turns (--sockets)"
    )]
    Files {
        /// Connections.
        wanted: usize,
        /// For how many there is room.
        room: usize,
    },
    /// Something of this host.
    #[error("{what}: {cause}")]
    Host {
        /// What was to be done.
        what: String,
        /// Why not.
        cause: io::Error,
    },
}

/// What a gateway has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Events whose work was done.
    pub done: u64,
    /// Events whose work failed.
    pub failed: u64,
    /// Connections of devices that could not be taken.
    pub refused: u64,
}

impl Gateway {
    /// Takes part in a test until `stop`.
    pub fn run(self, stop: &Arc<AtomicBool>) -> Result<Done, GatewayError> {
        let configuration = self.configuration;
        prepare(&configuration, &self.folder)?;
        let log = log_to(&self.log)?;
        let (interface, mut manager) = self.bootup.begin(&configuration, stop)?;
        let devices = manager.devices()?;
        let (wanted, room) =
            (dispatcher::connections(&configuration, devices.len()), dispatcher::room(&configuration));
        if wanted > room {
            let error = GatewayError::Files { wanted, room };
            // The manager waits for this gateway, and shall know why it goes.
            log.say("ERROR", &error.to_string());
            log.flush();
            return Err(error);
        }
        let work = Work::new(&configuration, &self.folder);
        let shared = Arc::new(Shared::new(configuration, work, log, devices.len(), Arc::clone(stop)));
        logged(&shared, || match interface.await_start(stop) && !devices.is_empty() {
            true => dispatcher::run(&shared, &devices),
            false => Ok(()),
        })
    }
}

impl Push {
    /// Takes events until `stop`.
    pub fn run(self, stop: &Arc<AtomicBool>) -> Result<Done, GatewayError> {
        let configuration = self.configuration;
        prepare(&configuration, &self.folder)?;
        let log = self.log.as_deref().map_or_else(|| Ok(Log::none()), log_to)?;
        let begun = self.bootup.map(|bootup| bootup.begin(&configuration, stop)).transpose()?;
        let most = dispatcher::push::most_connections(&configuration);
        let work = Work::new(&configuration, &self.folder);
        let shared = Arc::new(Shared::new(configuration, work, log, most, Arc::clone(stop)));
        logged(&shared, || match begun.is_none_or(|(interface, _)| interface.await_start(stop)) {
            true => dispatcher::push::run(&shared, self.protocol, self.listener),
            false => Ok(()),
        })
    }
}

impl Bootup {
    /// Serves the interface, and asks the manager whether it is started with the same configuration.
    fn begin(
        &self,
        configuration: &Configuration,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Interface, Manager), GatewayError> {
        let listening =
            TcpListener::bind(&self.interface).and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (own, listener) = listening.map_err(host(format!("cannot listen at {}", self.interface)))?;
        let interface = Interface::serve(listener, Arc::clone(stop))
            .map_err(host("no thread for the interface".to_owned()))?;
        let mut manager = Manager::connect(&self.manager, stop)?;
        let own = if own.ip().is_unspecified() { manager.own_address(own.port())? } else { own };
        manager.verify(configuration, own)?;
        Ok((interface, manager))
    }
}

fn host(what: String) -> impl FnOnce(io::Error) -> GatewayError {
    move |cause| GatewayError::Host { what, cause }
}

fn prepare(configuration: &Configuration, folder: &Path) -> Result<(), GatewayError> {
    configuration.check()?;
    limit_cores(configuration.cores)?;
    std::fs::create_dir_all(folder).map_err(host(format!("the folder {} cannot be made", folder.display())))
}

fn log_to(address: &str) -> Result<Log, GatewayError> {
    let server =
        resolve(address).map_err(|cause| GatewayError::Log { address: address.to_owned(), cause })?;
    Log::to(server).map_err(host(format!("cannot log to {address}")))
}

/// Lets a dispatcher run while the log is sent; asks all others for their end when it is over.
fn logged(
    shared: &Arc<Shared>,
    dispatch: impl FnOnce() -> Result<(), ReactorError>,
) -> Result<Done, GatewayError> {
    let flusher = Arc::clone(shared);
    let flushing = move || {
        while !flusher.ends() {
            thread::sleep(FLUSH);
            flusher.log.flush();
        }
    };
    let thread = thread::Builder::new().name("log".into()).spawn(flushing);
    let flusher = thread.map_err(host("no thread for the log".to_owned()))?;
    let ran = dispatch();
    // Where the dispatcher failed, nobody has asked for the end.
    shared.stop.store(true, Ordering::Relaxed);
    let _ = flusher.join();
    shared.log.end();
    ran?;
    let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    Ok(Done { done: of(&shared.done), failed: of(&shared.failed), refused: of(&shared.refused) })
}

/// Keeps this process to the first of the processors that it may use.
fn limit_cores(cores: usize) -> Result<(), GatewayError> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    if cores == 0 {
        return Ok(());
    }
    let failed =
        |cause: io::Error| GatewayError::Host { what: format!("cannot keep to {cores} processors"), cause };
    let allowed = sched_getaffinity(None).map_err(|error| failed(error.into()))?;
    let mut few = CpuSet::new();
    let all = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let taken = all.take(cores).map(|cpu| few.set(cpu)).count();
    if taken < cores {
        return Err(failed(io::Error::other(format!("there are {taken}"))));
    }
    sched_setaffinity(None, &few).map_err(|error| failed(error.into()))
}
