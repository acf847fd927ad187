//! `plimsoll target`: servers to be loaded.

use super::chain::Chain;
use super::documents::{Documents, DocumentsRouter};
use super::lwm2m::Lwm2m;
use super::ngsi::Ngsi;
use super::ocf::Ocf;
use super::relay::Relay;
use super::station::Station;
use super::target_broker::Broker;
use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Runs a server to be loaded
#[derive(Args)]
#[command(after_help = "Examples:
  plimsoll target broker --port 1883
  plimsoll target station --service exponential:2ms --truth truth.csv
  plimsoll target chain --stations 3 -- --service exponential:1ms
  plimsoll target ngsi --port 1026
  plimsoll target documents --port 27017 --write 500us
  plimsoll target lwm2m --port 5683 --record record.csv
  plimsoll target ocf queue --port 5686
  plimsoll target relay --to 127.0.0.1:1883 --delay 20ms")]
pub struct Target {
    #[command(subcommand)]
    target: Kind,
}

#[derive(Subcommand)]
enum Kind {
    Broker(Broker),
    // A chain gives the options of one station after those of every station.
    #[command(args_override_self = true)]
    Station(Station),
    Chain(Chain),
    Ngsi(Ngsi),
    Documents(Documents),
    DocumentsRouter(DocumentsRouter),
    Lwm2m(Lwm2m),
    Ocf(Ocf),
    Relay(Relay),
}

impl Target {
    pub fn perform(self) -> Result<u8, Failure> {
        match self.target {
            Kind::Broker(broker) => broker.perform(),
            Kind::Station(station) => station.perform(),
            Kind::Chain(chain) => chain.perform(),
            Kind::Ngsi(ngsi) => ngsi.perform(),
            Kind::Documents(documents) => documents.perform(),
            Kind::DocumentsRouter(router) => router.perform(),
            Kind::Lwm2m(lwm2m) => lwm2m.perform(),
            Kind::Ocf(ocf) => ocf.perform(),
            Kind::Relay(relay) => relay.perform(),
        }
    }
}
