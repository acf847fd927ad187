//! `plimsoll target ocf`: servers in the shape of a cloud for devices of OCF.

use crate::failure::Failure;
use crate::output::say;
use crate::{exit_code, interrupt};
use clap::{Args, Subcommand, ValueEnum};
use plimsoll_model::Nanos;
use plimsoll_target::ocf::{Csm, Kind, OcfTarget, Queue, Settings, Upstreams};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// How long a device may take to answer what was relayed to it.
const PATIENCE: Nanos = Nanos::from_secs(60);

/// Servers in the shape of a cloud for devices of OCF:
/// an interface, and what stands behind it, over CoAP over TCP
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll target ocf account --port 5685
  plimsoll target ocf directory --port 5684
  plimsoll target ocf queue --port 5686 --record queue.csv
  plimsoll target ocf interface --port 5683 --account 127.0.0.1:5685 \\
    --directory 127.0.0.1:5684 --queue 127.0.0.1:5686

SIGTERM or Ctrl-C ends a server, which then says what it has seen.")]
pub struct Ocf {
    #[command(subcommand)]
    kind: ServerKind,
}

#[derive(Subcommand)]
enum ServerKind {
    /// Knows users, their devices, and their access tokens
    #[command(after_help = "Example:\n  plimsoll target ocf account --port 5685 --token-life 60")]
    Account {
        #[command(flatten)]
        common: Common,
        /// Seconds for which an access token holds (default: for ever)
        #[arg(long, value_name = "SECONDS")]
        token_life: Option<u32>,
    },
    /// Knows the resources of devices
    #[command(after_help = "Example:\n  plimsoll target ocf directory --port 5684")]
    Directory {
        #[command(flatten)]
        common: Common,
    },
    /// Takes what is published, and notifies those that observe
    #[command(after_help = "Example:\n  plimsoll target ocf queue --port 5686 --kafka 127.0.0.1:9092")]
    Queue {
        #[command(flatten)]
        common: Common,
        /// The broker of Kafka that keeps the topics (default: they are kept in memory)
        #[arg(long, value_name = "ADDRESS")]
        kafka: Option<SocketAddr>,
        /// What is published so many milliseconds after the first request to observe a topic reaches nobody
        #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
        starts_late: u32,
    },
    /// Stands before the others: devices and controllers connect to it
    #[command(override_usage = "plimsoll target ocf interface [OPTIONS]\n         \
        --account <ADDRESS> --directory <ADDRESS> --queue <ADDRESS>")]
    #[command(after_help = "Example:
  plimsoll target ocf interface --port 5683 --account 127.0.0.1:5685 \\
    --directory 127.0.0.1:5684 --queue 127.0.0.1:5686")]
    Interface {
        #[command(flatten)]
        common: Common,
        /// The account server
        #[arg(long, value_name = "ADDRESS")]
        account: SocketAddr,
        /// The resource directory
        #[arg(long, value_name = "ADDRESS")]
        directory: SocketAddr,
        /// The message queue
        #[arg(long, value_name = "ADDRESS")]
        queue: SocketAddr,
    },
}

#[derive(Args)]
struct Common {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// TCP port; 0 for a free one, which is then printed
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// When to say what it takes (CSM)
    #[arg(long, value_enum, default_value = "first")]
    csm: CsmOption,
    /// Where to write what it does
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum CsmOption {
    /// By itself, as RFC 8323 has it
    First,
    /// When the other side has said it
    Answer,
    /// Never
    Never,
}

impl Ocf {
    pub fn perform(self) -> Result<u8, Failure> {
        let (common, kind) = match self.kind {
            ServerKind::Account { common, token_life } => (common, Kind::Account(token_life)),
            ServerKind::Directory { common } => (common, Kind::Directory),
            ServerKind::Queue { common, kafka, starts_late } => {
                let starts_late = Nanos::from_millis(i64::from(starts_late));
                (common, Kind::Queue(Queue { kafka, starts_late }))
            }
            ServerKind::Interface { common, account, directory, queue } => {
                (common, Kind::Interface(Upstreams { account, directory, queue, patience: PATIENCE }))
            }
        };
        let settings = Settings {
            kind,
            host: common.host,
            port: common.port,
            csm: match common.csm {
                CsmOption::First => Csm::First,
                CsmOption::Answer => Csm::Answer,
                CsmOption::Never => Csm::Never,
            },
            record: common.record,
        };
        let undoable = |error: &dyn std::fmt::Display| Failure::Undoable(error.to_string());
        let stop = interrupt::stop_flag().map_err(|error| undoable(&error))?;
        let target = OcfTarget::bind(&settings).map_err(|error| undoable(&error))?;
        let address = target.address().map_err(|error| undoable(&error))?;
        say(&format!("listening on coap+tcp://{address}\n"));
        let seen = target.run(&stop).map_err(|error| undoable(&error))?;
        say(&format!("{} requests, {} answered, {} refused\n", seen.requests, seen.answered, seen.refused));
        for (count, what) in [
            (seen.passed_on, "passed on"),
            (seen.published, "messages published"),
            (seen.notified, "notifications"),
            (seen.unread, "connections closed that did not read"),
        ] {
            if count > 0 {
                say(&format!("{count} {what}\n"));
            }
        }
        Ok(exit_code::MET)
    }
}
