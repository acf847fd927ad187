//! One test of a gateway, from its bootup to its end.

use crate::bootup::{BootupError, Interface, Manager};
use crate::calls::{CallError, resolve};
use crate::configuration::{Configuration, OutOfRange};
use crate::dispatcher;
use crate::handler::Shared;
use crate::log::Log;
use crate::reactor::ReactorError;
use crate::work::Work;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

/// How long lines of the log wait for others.
const FLUSH: Duration = Duration::from_millis(5);

/// A gateway and where it belongs.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// What it is.
    pub configuration: Configuration,
    /// `HOST:PORT` of the manager's name service.
    pub manager: String,
    /// `HOST:PORT` of the log server (UDP).
    pub log: String,
    /// `ADDRESS:PORT` of the gateway's own interface.
    pub listen: String,
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
}

impl Gateway {
    /// Takes part in a test until `stop`.
    pub fn run(self, stop: &Arc<AtomicBool>) -> Result<Done, GatewayError> {
        let configuration = self.configuration;
        configuration.check()?;
        limit_cores(configuration.cores)?;
        let host = |what: String| move |cause| GatewayError::Host { what, cause };
        std::fs::create_dir_all(&self.folder)
            .map_err(host(format!("the folder {} cannot be made", self.folder.display())))?;
        let listening = TcpListener::bind(&self.listen).and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (own, listener) = listening.map_err(host(format!("cannot listen at {}", self.listen)))?;
        let server =
            resolve(&self.log).map_err(|cause| GatewayError::Log { address: self.log.clone(), cause })?;
        let log = Log::to(server).map_err(host(format!("cannot log to {}", self.log)))?;
        let interface = Interface::serve(listener, Arc::clone(stop))
            .map_err(host("no thread for the interface".to_owned()))?;
        let mut manager = Manager::connect(&self.manager, stop)?;
        let own = if own.ip().is_unspecified() { manager.own_address(own.port())? } else { own };
        manager.verify(&configuration, own)?;
        let devices = manager.devices()?;
        let work = Work::new(&configuration, &self.folder);
        let shared = Arc::new(Shared::new(configuration, work, log, devices.len(), Arc::clone(stop)));
        let flusher = Arc::clone(&shared);
        let flushing = move || {
            while !flusher.ends() {
                thread::sleep(FLUSH);
                flusher.log.flush();
            }
        };
        let thread = thread::Builder::new().name("log".into()).spawn(flushing);
        let flusher = thread.map_err(host("no thread for the log".to_owned()))?;
        let ran = if interface.await_start(stop) && !devices.is_empty() {
            dispatcher::run(&shared, &devices)
        } else {
            Ok(())
        };
        // Where the dispatcher failed, nobody has asked for the end.
        stop.store(true, Ordering::Relaxed);
        let _ = flusher.join();
        shared.log.end();
        ran?;
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        Ok(Done { done: of(&shared.done), failed: of(&shared.failed) })
    }
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
