//! `plimsoll gateway`: the abstract gateway, to be tested by `plimsoll run` or by a test manager of somebody else.

use crate::failure::Failure;
use crate::output::say;
use crate::{exit_code, interrupt};
use clap::Args;
use plimsoll_gateway::configuration::{Configuration, Model, Order, Reactor, Spread};
use plimsoll_gateway::gateway::{Gateway as Test, GatewayError};
use std::path::PathBuf;

/// A gateway that polls devices for events and works on them, in one of nine ways: dispatcher
/// and event handler are each serial, preemptive or cooperative
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll gateway --manager 127.0.0.1:5000 --dispatcher serial --handler preemptive
  plimsoll gateway --manager 10.0.0.2:5000 --dispatcher cooperative \\
      --handler cooperative --cpu 0.1 --io 0.0002 --cores 1

The test manager must be there, started with the same values: else it refuses. The
calls are in docs/gateway-protocol.md. Ctrl-C or SIGTERM ends it; what is being worked
on is finished first.

Exit codes: 0 ended as asked; 1 the test cannot go on; 104 wrong usage, or another
configuration than the manager's.")]
pub struct Gateway {
    /// The test manager's name service, as HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    manager: String,
    /// The log server (UDP); default: the manager's host and port
    #[arg(long, value_name = "ADDRESS")]
    log: Option<String>,
    /// Where the manager asks this gateway for the time and starts the test
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:0")]
    listen: String,
    /// How it gets at events: serial (one device after the other), preemptive (a thread
    /// for each device) or cooperative (state machines on one event loop)
    #[arg(long, value_name = "MODEL", default_value = "cooperative")]
    dispatcher: Model,
    /// How it works on them: serial, preemptive (a pool of threads) or cooperative (CPU
    /// work on the loop, files by the loop)
    #[arg(long, value_name = "MODEL", default_value = "preemptive")]
    handler: Model,
    /// CPU work of an event: the n-th prime, n being this times 4096
    #[arg(long, value_name = "0..1", default_value_t = 0.1)]
    cpu: f64,
    /// I/O work of an event: this times 2^28 bytes are written to a file
    #[arg(long, value_name = "0..1", default_value_t = 2e-4)]
    io: f64,
    /// Threads of the pool, and of the loop for files
    #[arg(long, value_name = "N", default_value_t = 10)]
    pool: usize,
    /// Processors it may use; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    cores: usize,
    /// Devices that are connected at once; 0 for all. Fewer take turns
    #[arg(long, value_name = "N", default_value_t = 0)]
    sockets: usize,
    /// How the CPU work differs by event: constant, uniform or exponential
    #[arg(long, value_name = "LAW", default_value = "constant")]
    cpu_spread: Spread,
    /// The same of the I/O work
    #[arg(long, value_name = "LAW", default_value = "constant")]
    io_spread: Spread,
    /// When the I/O work begins: after the CPU work, or beside it
    #[arg(long, value_name = "WHEN", default_value = "after")]
    io_order: Order,
    /// The event loop of the cooperative models: libuv (apt-get install libuv1) or epoll
    #[arg(long = "loop", value_name = "LOOP", default_value = "libuv")]
    event_loop: Reactor,
    /// Where the I/O work writes; default: a folder of its own, which is removed
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Gateway {
    pub fn perform(self) -> Result<u8, Failure> {
        let undoable = |what: &str, cause: std::io::Error| Failure::Undoable(format!("{what}: {cause}"));
        let stop = interrupt::stop_flag().map_err(|error| undoable("cannot watch for signals", error))?;
        let own_folder = match self.folder {
            Some(_) => None,
            None => Some(
                tempfile::TempDir::with_prefix("plimsoll-gateway-")
                    .map_err(|error| undoable("no folder for the I/O work", error))?,
            ),
        };
        let folder = self.folder.or_else(|| own_folder.as_ref().map(|folder| folder.path().to_owned()));
        let test = Test {
            configuration: Configuration {
                dispatcher: self.dispatcher,
                event_handler: self.handler,
                cpu_intensity: self.cpu,
                io_intensity: self.io,
                pool_size: self.pool,
                cores: self.cores,
                cpu_spread: self.cpu_spread,
                io_spread: self.io_spread,
                io_order: self.io_order,
                event_loop: self.event_loop,
                sockets: self.sockets,
            },
            log: self.log.unwrap_or_else(|| self.manager.clone()),
            manager: self.manager,
            listen: self.listen,
            folder: folder.unwrap_or_default(),
        };
        let done = test.run(&stop).map_err(failure)?;
        say(&format!("{} events done, {} failed", done.done, done.failed));
        Ok(exit_code::MET)
    }
}

fn failure(error: GatewayError) -> Failure {
    use plimsoll_gateway::bootup::BootupError;
    match error {
        GatewayError::Configuration(_) | GatewayError::Bootup(BootupError::Refused { .. }) => {
            Failure::Usage(error.to_string())
        }
        _ => Failure::Undoable(error.to_string()),
    }
}
