//! `plimsoll target relay`: what stands between clients and a server, with the faults of a network.

use super::station::{every_for, probability};
use crate::failure::Failure;
use crate::output::say;
use crate::{exit_code, interrupt};
use clap::Args;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{LONGEST_RELAY_DELAY, SHORTEST_RELAY_PERIOD};
use plimsoll_scenario::{bit_rate, duration};
use plimsoll_stats::queue::Stall;
use plimsoll_target::relay::{self, Network};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Stands before a server and adds delay, a limited rate and broken connections
///
/// It passes on what clients and the server send over TCP and UDP. The delay and
/// the rate apply to each way.
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll target relay --to 127.0.0.1:1883 --delay 20ms --jitter 5ms
  plimsoll target relay --to 127.0.0.1:5432 --rate 10mbit
  plimsoll target relay --to 127.0.0.1:1883 --cut 30s:2s
  plimsoll target relay --to 127.0.0.1:1883 --half-open 60s
  plimsoll target relay --to 127.0.0.1:5683 --loss 0.05
  plimsoll target relay --to 127.0.0.1:8081 --to 127.0.0.1:8082

SIGTERM or Ctrl-C ends it. It then prints how much it has passed on.")]
pub struct Relay {
    /// The server to stand before, as 127.0.0.1:1883. Given several times, clients
    /// get these servers in turn
    #[arg(long, value_name = "ADDRESS", required = true)]
    to: Vec<SocketAddr>,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port; 0 for a free one, which is then printed
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// How long everything takes, each way
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = delay)]
    delay: Nanos,
    /// How much longer it takes at most, uniformly drawn. Connections keep their
    /// order, datagrams may overtake each other
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = delay)]
    jitter: Nanos,
    /// Bits a second of each way, which all connections share, such as 10mbit
    #[arg(long, value_name = "RATE", value_parser = bit_rate)]
    rate: Option<u64>,
    /// Share of the packets that get lost, each way. Over TCP, this needs root and
    /// `nft` of nftables: the kernel drops segments on their way to this port
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    loss: f64,
    /// From each multiple of EVERY on, resets all connections for FOR, new ones too,
    /// and loses all datagrams
    #[arg(long, value_name = "EVERY:FOR", value_parser = every_for)]
    cut: Option<Stall>,
    /// At each multiple of EVERY, closes all connections to the server; those to
    /// the clients stay open, and nothing answers there
    #[arg(long, value_name = "EVERY", value_parser = period)]
    half_open: Option<Nanos>,
    /// A file that it makes, a Unix socket for datagrams. What is sent there delays
    /// everything for a time: `delay FROM TO LENGTH`, in nanoseconds of the host's
    /// monotonic clock
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// Seeds jitter and losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Relay {
    pub fn perform(self) -> Result<u8, Failure> {
        let undoable = |error: &dyn std::fmt::Display| Failure::Undoable(error.to_string());
        let stop = interrupt::stop_flag().map_err(|error| undoable(&error))?;
        let relay = relay::Relay::bind(relay::Settings {
            listen: SocketAddr::new(self.host, self.port),
            to: self.to.clone(),
            network: Network { delay: self.delay, jitter: self.jitter, rate: self.rate, loss: self.loss },
            cut: self.cut,
            half_open: self.half_open,
            control: self.control,
            seed: self.seed,
        });
        let relay = relay.map_err(|error| undoable(&error))?;
        let address = relay.address().map_err(|error| undoable(&error))?;
        let is_own = |to: &SocketAddr| {
            let reaches =
                address.ip().is_unspecified() && (to.ip().is_loopback() || to.ip().is_unspecified());
            to.port() == address.port() && (reaches || to.ip() == address.ip())
        };
        if self.to.iter().any(is_own) {
            return Err(Failure::Usage(format!(
                "--to {address} is the relay's own address: give that of the server"
            )));
        }
        say(&format!("listening on {address}\n"));
        let totals = relay.run(&stop).map_err(|error| undoable(&error))?;
        let [up, down] = totals.bytes;
        say(&format!(
            "{} connections, {} broken; {up} bytes to the server, {down} bytes to clients\n",
            totals.connections, totals.broken
        ));
        if totals.segments_lost > 0 {
            say(&format!("{} segments of connections lost\n", totals.segments_lost));
        }
        if totals.datagrams != [0, 0] || totals.lost > 0 {
            let [up, down] = totals.datagrams;
            say(&format!("{up} datagrams to the server, {down} to clients, {} lost\n", totals.lost));
        }
        Ok(exit_code::MET)
    }
}

fn delay(text: &str) -> Result<Nanos, String> {
    let delay = duration(text)?;
    if delay > LONGEST_RELAY_DELAY { Err("one minute is the longest delay".into()) } else { Ok(delay) }
}

fn period(text: &str) -> Result<Nanos, String> {
    let period = duration(text)?;
    if period < SHORTEST_RELAY_PERIOD { Err("1ms is the shortest time".into()) } else { Ok(period) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_and_periods_are_bounded() {
        assert_eq!(delay("20ms"), Ok(Nanos::from_millis(20)));
        assert!(delay("2m").is_err() && delay("20").is_err());
        assert!(period("1us").is_err() && period("1s").is_ok());
    }
}
