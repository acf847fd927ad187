//! `plimsoll target broker`: an MQTT broker.

use crate::failure::Failure;
use crate::output::{file, say};
use crate::{exit_code, interrupt};
use clap::{Args, ValueEnum};
use plimsoll_target::broker::{self, Settings};
use std::net::IpAddr;
use std::path::PathBuf;

/// The embedded MQTT broker: MQTT 3.1.1 and 5 on one port
#[derive(Args)]
#[command(
    display_name = "plimsoll broker",
    version,
    after_help = "Examples:
  plimsoll target broker --port 1883
  plimsoll target broker --port 0 --record record.csv

SIGTERM or Ctrl-C ends it and completes the record."
)]
pub struct Broker {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port; 0 for a free one, which is then printed
    #[arg(long, value_name = "PORT", default_value_t = 1883)]
    port: u16,
    /// A second port, which speaks the same
    #[arg(long, value_name = "PORT")]
    port_v5: Option<u16>,
    /// Largest number of clients that are connected
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    max_connections: usize,
    /// Largest packet that clients may send, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2 * 1024 * 1024)]
    max_payload: usize,
    /// Largest number of messages handed to one connection before others have their turn
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_outgoing: u64,
    /// Bytes kept for all clients together; messages that would have to wait
    /// beyond them are dropped and counted
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    memory: usize,
    /// Where to write what became of each message, as CSV
    #[arg(long, value_name = "FILE", value_parser = file())]
    record: Option<PathBuf>,
    /// Which broker runs
    #[arg(long, value_enum, default_value_t = Engine::Plimsoll)]
    engine: Engine,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// The broker that comes with Plimsoll
    Plimsoll,
    /// rumqttd: no record, --port for MQTT 3.1.1 and --port-v5 for MQTT 5
    #[cfg(feature = "rumqttd")]
    Rumqttd,
}

impl Broker {
    pub fn perform(self) -> Result<u8, Failure> {
        let settings = Settings {
            host: self.host,
            port: self.port,
            port_v5: self.port_v5,
            max_connections: self.max_connections,
            max_payload: self.max_payload,
            max_outgoing: self.max_outgoing,
            memory: self.memory,
            record: self.record,
        };
        match self.engine {
            Engine::Plimsoll => own(&settings),
            #[cfg(feature = "rumqttd")]
            Engine::Rumqttd => rumqttd(settings),
        }
    }
}

fn own(settings: &Settings) -> Result<u8, Failure> {
    let undoable = |error: &dyn std::fmt::Display| Failure::Undoable(error.to_string());
    let stop = interrupt::stop_flag().map_err(|error| undoable(&error))?;
    let broker = broker::Broker::bind(settings).map_err(|error| undoable(&error))?;
    for address in broker.addresses().map_err(|error| undoable(&error))? {
        say(&format!("listening on mqtt://{address} (MQTT 3.1.1 and 5)\n"));
    }
    broker.run(&stop).map_err(|error| undoable(&error))?;
    Ok(exit_code::MET)
}

#[cfg(feature = "rumqttd")]
fn rumqttd(mut settings: Settings) -> Result<u8, Failure> {
    if settings.record.is_some() {
        return Err(Failure::Usage("rumqttd writes no record: leave --record or --engine out".into()));
    }
    if settings.port == 0 {
        // rumqttd does not tell which port it got.
        let found = std::net::TcpListener::bind((settings.host, 0)).and_then(|socket| socket.local_addr());
        settings.port = found.map_err(|error| Failure::Undoable(format!("no free port: {error}")))?.port();
    }
    say(&format!("listening on mqtt://{}:{} (MQTT 3.1.1)\n", settings.host, settings.port));
    let ended = plimsoll_target::rumqttd::run(&settings);
    Err(Failure::Undoable(ended.map_or_else(|error| error.to_string(), |()| "rumqttd ended".into())))
}
