//! `plimsoll gateway`: the abstract gateway, to be tested by `plimsoll run` or by a test manager of somebody else.

use crate::failure::Failure;
use crate::output::say;
use crate::{exit_code, interrupt};
use clap::Args;
use plimsoll_gateway::configuration::{Configuration, Model, Order, PushProtocol, Reactor, Spread};
use plimsoll_gateway::gateway::{Bootup, Done, Gateway as Pull, GatewayError, Push};
use plimsoll_observe::limits::raise_open_files;
use plimsoll_platform::folder::Folder;
use std::net::TcpListener;
use std::path::PathBuf;

/// Connections for which there shall be room.
const MOST_DEVICES: u64 = 1 << 16;

/// Runs the abstract gateway, to compare nine models of event propagation
///
/// It polls devices for events, or receives them, and works on them. Its dispatcher
/// and its event handler are each serial, preemptive or cooperative.
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll gateway --manager 127.0.0.1:5000 --dispatcher serial \\
      --handler preemptive
  plimsoll gateway --manager 10.0.0.2:5000 --listen 0.0.0.0:0 \\
      --dispatcher cooperative --handler cooperative --cpu 0.1 --io 0.0002
  plimsoll gateway --push http --listen 127.0.0.1:8080 --cpu 0.1

Start the test manager first, with the same values. With --push, a manager is
optional: devices connect here and send their events. The gateway answers each
event when its work is done. docs/gateway-protocol.md describes the calls.
Ctrl-C or SIGTERM ends the gateway after the work that it has begun.

Exit codes: 0 ended as asked, 1 the test cannot go on, 104 wrong usage or
another configuration than the manager's.")]
pub struct Gateway {
    /// The test manager's name service, as HOST:PORT; may be left out with --push
    #[arg(long, value_name = "ADDRESS", required_unless_present = "push")]
    manager: Option<String>,
    /// The log server (UDP); default: the manager's host and port, if there is one
    #[arg(long, value_name = "ADDRESS")]
    log: Option<String>,
    /// Devices send their events: over tcp (calls), http (POST) or mqtt (3.1.1)
    #[arg(long, value_name = "PROTOCOL")]
    push: Option<PushProtocol>,
    /// Where the manager asks this gateway for the time and starts the test; with --push,
    /// where devices connect
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: String,
    /// With --push and --manager: where the manager asks this gateway for the time and
    /// starts the test
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:0",
        requires = "push",
        requires = "manager"
    )]
    interface: String,
    /// How it fetches events: serial (one device at a time), preemptive (a thread for
    /// each device) or cooperative (one event loop)
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
    /// Devices that are connected at once; 0 for all. Fewer take turns; with --push, more
    /// are refused
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
            None => {
                let folder = std::env::current_exe().and_then(|program| Folder::fresh(&program));
                Some(folder.map_err(|error| undoable("no folder for the I/O work", error))?)
            }
        };
        let folder = self.folder.or_else(|| own_folder.as_ref().map(|folder| folder.path().to_owned()));
        let configuration = Configuration {
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
        };
        let (listen, folder) = (self.listen, folder.unwrap_or_default());
        let log = self.log.or_else(|| self.manager.clone());
        raise_open_files(MOST_DEVICES);
        let done = match self.push {
            Some(protocol) => {
                let cannot = |error| undoable(&format!("cannot listen at {listen}"), error);
                let listener = TcpListener::bind(&listen).map_err(cannot)?;
                let address = listener.local_addr().map_err(cannot)?;
                let interface = self.interface;
                let bootup = self.manager.map(|manager| Bootup { manager, interface });
                let push = Push { configuration, protocol, listener, bootup, log, folder };
                say(&format!("listening on {address}\n"));
                push.run(&stop).map_err(failure)?
            }
            None => {
                let (manager, log) = (self.manager.unwrap_or_default(), log.unwrap_or_default());
                let bootup = Bootup { manager, interface: listen };
                Pull { configuration, bootup, log, folder }.run(&stop).map_err(failure)?
            }
        };
        say(&sum(&done));
        Ok(exit_code::MET)
    }
}

fn sum(done: &Done) -> String {
    let refused = match done.refused {
        0 => String::new(),
        refused => format!(", {refused} connections refused"),
    };
    format!("{} events done, {} failed{refused}\n", done.done, done.failed)
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
