//! `plimsoll target`: servers to be loaded.

use super::chain::Chain;
use super::ngsi::Ngsi;
use super::station::Station;
use crate::failure::Failure;
use crate::output::say;
use clap::{Args, Subcommand};
use plimsoll_target::broker;
use std::net::IpAddr;

/// Runs a server to be loaded
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll target broker --port 1883
  plimsoll target station --service exponential:2ms --truth truth.csv
  plimsoll target chain --stations 3 -- --service exponential:1ms
  plimsoll target ngsi --port 1026")]
pub struct Target {
    #[command(subcommand)]
    target: Kind,
}

#[derive(Subcommand)]
enum Kind {
    Broker(Broker),
    Station(Station),
    Chain(Chain),
    Ngsi(Ngsi),
}

/// The embedded MQTT broker, rumqttd
#[derive(Args)]
#[command(after_help = "Example:\n  plimsoll target broker --port 1883 --port-v5 1884")]
struct Broker {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port for MQTT 3.1.1
    #[arg(long, value_name = "PORT", default_value_t = 1883)]
    port: u16,
    /// Port for MQTT 5; without it only 3.1.1 is spoken
    #[arg(long, value_name = "PORT")]
    port_v5: Option<u16>,
    /// Most connections
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    max_connections: usize,
    /// Largest packet in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2 * 1024 * 1024)]
    max_payload: usize,
    /// Most packets handed to one connection at once
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_outgoing: u64,
}

impl Target {
    pub fn perform(self) -> Result<u8, Failure> {
        let broker = match self.target {
            Kind::Broker(broker) => broker,
            Kind::Station(station) => return station.perform(),
            Kind::Chain(chain) => return chain.perform(),
            Kind::Ngsi(ngsi) => return ngsi.perform(),
        };
        let port = free_unless_given(broker.port, broker.host)?;
        let settings = broker::Settings {
            host: broker.host,
            port,
            port_v5: broker.port_v5,
            max_connections: broker.max_connections,
            max_payload: broker.max_payload,
            max_outgoing: broker.max_outgoing,
        };
        say(&format!("listening on mqtt://{}:{} (MQTT 3.1.1)\n", settings.host, settings.port));
        let ended = broker::run(&settings);
        Err(Failure::Undoable(ended.map_or_else(|error| error.to_string(), |()| "the broker ended".into())))
    }
}

/// That port, or a free one for 0: the broker itself does not tell which it got.
fn free_unless_given(port: u16, host: std::net::IpAddr) -> Result<u16, Failure> {
    if port != 0 {
        return Ok(port);
    }
    let found = std::net::TcpListener::bind((host, 0)).and_then(|socket| socket.local_addr());
    found.map(|address| address.port()).map_err(|error| Failure::Undoable(format!("no free port: {error}")))
}
