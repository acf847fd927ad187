//! `plimsoll target documents` and `plimsoll target documents-router`: a small document store, and a router before several.

use super::target_time::service_time;
use crate::failure::Failure;
use crate::output::say;
use crate::{exit_code, interrupt};
use clap::{Args, ValueEnum};
use plimsoll_model::Nanos;
use plimsoll_target::documents::router::{self, RouterTarget};
use plimsoll_target::documents::{DocumentTarget, Settings, Work};
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};

/// A small document store that speaks the wire protocol of MongoDB, for tests and
/// rehearsal: everything in memory, and one command at a time
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll target documents --port 27017
  plimsoll target documents --read 200us --write 500us
  plimsoll target documents --write 2ms --work wait

SIGTERM or Ctrl-C ends it.")]
pub struct Documents {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port; 0 for a free one, which is then printed
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// How long a command that reads holds the lock of the store
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = service_time)]
    read: Nanos,
    /// How long each document that is written holds it
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = service_time)]
    write: Nanos,
    /// What the store does meanwhile: it burns processor time, or waits as for a disk
    #[arg(long, value_enum, default_value_t = WorkOption::Compute)]
    work: WorkOption,
}

#[derive(Clone, Copy, ValueEnum)]
enum WorkOption {
    Compute,
    Wait,
}

fn undoable(error: &dyn Display) -> Failure {
    Failure::Undoable(error.to_string())
}

impl Documents {
    pub fn perform(self) -> Result<u8, Failure> {
        let settings = Settings {
            host: self.host,
            port: self.port,
            read: self.read.to_duration(),
            write: self.write.to_duration(),
            work: match self.work {
                WorkOption::Compute => Work::Compute,
                WorkOption::Wait => Work::Wait,
            },
        };
        let stop = interrupt::stop_flag().map_err(|error| undoable(&error))?;
        let target = DocumentTarget::bind(&settings).map_err(|error| undoable(&error))?;
        let address = target.address().map_err(|error| undoable(&error))?;
        say(&format!("listening on mongodb://{address}\n"));
        target.run(&stop).map_err(|error| undoable(&error))?;
        Ok(exit_code::MET)
    }
}

/// A router before several document stores: each document belongs to one of them,
/// by a hash of its _id
#[derive(Args)]
#[command(after_help = "Example:
  plimsoll target documents-router --port 27017 \\
    --to 127.0.0.1:27018 --to 127.0.0.1:27019

SIGTERM or Ctrl-C ends it.")]
pub struct DocumentsRouter {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port; 0 for a free one, which is then printed
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// A store; given several times, each has its part of the documents
    #[arg(long, value_name = "ADDRESS", required = true)]
    to: Vec<SocketAddr>,
}

impl DocumentsRouter {
    pub fn perform(self) -> Result<u8, Failure> {
        let settings = router::Settings { host: self.host, port: self.port, shards: self.to };
        let stop = interrupt::stop_flag().map_err(|error| undoable(&error))?;
        let target = RouterTarget::bind(&settings).map_err(|error| undoable(&error))?;
        let address = target.address().map_err(|error| undoable(&error))?;
        say(&format!("listening on mongodb://{address}\n"));
        target.run(&stop).map_err(|error| undoable(&error))?;
        Ok(exit_code::MET)
    }
}
