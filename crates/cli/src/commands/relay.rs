//! `plimsoll target relay`: what stands between clients and a server, with the faults of a network.

use super::station::{SHORTEST_PERIOD, every_for};
use crate::failure::Failure;
use crate::output::say;
use crate::{exit_code, interrupt};
use clap::Args;
use plimsoll_model::Nanos;
use plimsoll_scenario::duration;
use plimsoll_stats::queue::Stall;
use plimsoll_target::relay::{self, Network};
use std::net::{IpAddr, SocketAddr};

/// Longest delay, and longest jitter.
const LONGEST_DELAY: Nanos = Nanos::from_secs(60);
/// Lowest rate, bits a second: a byte takes at most a second.
const LOWEST_RATE: u64 = 8;
/// Highest rate, bits a second.
const HIGHEST_RATE: u64 = 1_000_000_000_000;

/// Stands before a server and adds delay, a limited rate and broken connections
///
/// It passes on what clients and the server send over TCP. The delay and the rate
/// apply to each way.
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll target relay --to 127.0.0.1:1883 --delay 20ms --jitter 5ms
  plimsoll target relay --to 127.0.0.1:5432 --rate 10mbit
  plimsoll target relay --to 127.0.0.1:1883 --cut 30s:2s
  plimsoll target relay --to 127.0.0.1:1883 --half-open 60s

SIGTERM or Ctrl-C ends it. It then prints how much it has passed on.")]
pub struct Relay {
    /// The server to stand before, as 127.0.0.1:1883
    #[arg(long, value_name = "ADDRESS")]
    to: SocketAddr,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port; 0 for a free one, which is then printed
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// How long everything takes, each way
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = delay)]
    delay: Nanos,
    /// How much longer it takes at most: uniformly drawn, in order
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = delay)]
    jitter: Nanos,
    /// Bits a second of each way, which all connections share, such as 10mbit
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<u64>,
    /// From each multiple of EVERY on, resets all connections for FOR, new ones too
    #[arg(long, value_name = "EVERY:FOR", value_parser = every_for)]
    cut: Option<Stall>,
    /// At each multiple of EVERY, closes all connections to the server; those to
    /// the clients stay open, and nothing answers there
    #[arg(long, value_name = "EVERY", value_parser = period)]
    half_open: Option<Nanos>,
    /// Seeds the jitter
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Relay {
    pub fn perform(self) -> Result<u8, Failure> {
        let undoable = |error: &dyn std::fmt::Display| Failure::Undoable(error.to_string());
        let stop = interrupt::stop_flag().map_err(|error| undoable(&error))?;
        let relay = relay::Relay::bind(relay::Settings {
            listen: SocketAddr::new(self.host, self.port),
            to: self.to,
            network: Network { delay: self.delay, jitter: self.jitter, rate: self.rate },
            cut: self.cut,
            half_open: self.half_open,
            seed: self.seed,
        });
        let relay = relay.map_err(|error| undoable(&error))?;
        let address = relay.address().map_err(|error| undoable(&error))?;
        if address == self.to {
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
        Ok(exit_code::MET)
    }
}

fn delay(text: &str) -> Result<Nanos, String> {
    let delay = duration(text)?;
    if delay > LONGEST_DELAY { Err("one minute is the longest delay".into()) } else { Ok(delay) }
}

fn period(text: &str) -> Result<Nanos, String> {
    let period = duration(text)?;
    if period < SHORTEST_PERIOD { Err("1ms is the shortest time".into()) } else { Ok(period) }
}

fn rate(text: &str) -> Result<u64, String> {
    let how = "write a number and bit, kbit, mbit or gbit, such as 10mbit";
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(how.into()),
    };
    let rate = number.parse::<f64>().map_err(|_| how)? * unit;
    if !(LOWEST_RATE as f64..=HIGHEST_RATE as f64).contains(&rate) {
        return Err(format!(
            "a rate is {LOWEST_RATE}bit at least and {}gbit at most",
            HIGHEST_RATE / 1_000_000_000
        ));
    }
    Ok(rate as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_unit() {
        assert_eq!(rate("10mbit"), Ok(10_000_000));
        assert_eq!(rate("1.5kbit"), Ok(1500));
        for wrong in ["10", "mbit", "10mb", "-1mbit", "nanbit", "infbit", "0bit", "1001gbit", "1é", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn delays_and_periods_are_bounded() {
        assert_eq!(delay("20ms"), Ok(Nanos::from_millis(20)));
        assert!(delay("2m").is_err() && delay("20").is_err());
        assert!(period("1us").is_err() && period("1s").is_ok());
    }
}
