//! Captures of real servers and clients, with known truth.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod amqp;
mod clients;
mod coap;
mod damaged;
mod holes;
mod http;
mod http2;
mod kafka;
mod mongodb;
mod mqtt;
mod nats;
mod postgres;
mod probes;
mod redis;
mod transport;
mod websocket;

use plimsoll_capture::marker::{Form, Pattern, Search};
use plimsoll_capture::observations::{Exchange, Sighting};
use plimsoll_capture::phases::Phases;
use plimsoll_capture::pipeline::{Dissected, dissect};
use plimsoll_capture::source::PacketSource;
use plimsoll_capture::table::{Located, Settings};
use plimsoll_capture::tally::Counted;
use plimsoll_model::wire::WireProtocol;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything that was observed in a capture.
pub struct Reading {
    /// What was counted.
    pub dissected: Dissected,
    /// In the order of their requests.
    pub exchanges: Vec<Located<Exchange>>,
    /// Of markers.
    pub sightings: Vec<Located<Sighting>>,
    /// Knows the names of devices.
    pub search: Search,
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures"))
}

/// Dissects a capture of the repository, on one thread and on three, which must tell the same.
pub fn read(name: &str) -> Reading {
    let one = on_threads(name, 1);
    let three = on_threads(name, 3);
    let counts = |reading: &Reading| {
        let mut lines: Vec<String> =
            reading.exchanges.iter().map(|exchange| format!("{:?}", exchange.observed.request)).collect();
        lines.sort();
        (reading.dissected.counts, reading.sightings.len(), lines)
    };
    assert_eq!(counts(&one), counts(&three), "{name}: on one thread and on three");
    one
}

fn on_threads(name: &str, threads: usize) -> Reading {
    dissected(vec![PacketSource::open(&folder().join(format!("{name}.zst"))).unwrap()], threads)
}

fn dissected(sources: Vec<PacketSource>, threads: usize) -> Reading {
    let search = Search::new(vec![Form::Pattern(Pattern::parse("plm1:{device}:{seq};").unwrap())]);
    let settings = Settings {
        search: search.clone(),
        components: Arc::default(),
        phases: Arc::new(Phases::default()),
        keys: Arc::default(),
        exchanges: true,
        actions: false,
        only_known: false,
        open: 1000,
        stop: Arc::default(),
    };
    let (mut exchanges, mut sightings) = (Vec::new(), Vec::new());
    let dissected = dissect(sources, &settings, threads, &mut |batch, _| {
        exchanges.extend(batch.exchanges);
        sightings.extend(batch.sightings);
    });
    Reading { dissected: dissected.unwrap(), exchanges, sightings, search }
}

/// What the makers of a capture wrote down.
pub fn truth(name: &str) -> Value {
    let packed = std::fs::read(folder().join(format!("{name}.truth.json.zst"))).unwrap();
    serde_json::from_slice(&zstd::decode_all(packed.as_slice()).unwrap()).unwrap()
}

/// A number of the truth.
pub fn count(truth: &Value, name: &str) -> u64 {
    truth["counts"][name].as_u64().unwrap_or_else(|| panic!("no count {name} in {}", truth["counts"]))
}

impl Reading {
    /// All that was counted of a protocol.
    pub fn protocol(&self, protocol: WireProtocol) -> Counted {
        let mut sum = Counted::default();
        for (service, counted) in self.dissected.tally.services() {
            if service.protocol == protocol {
                sum.merge(counted);
            }
        }
        sum
    }

    /// How often a verb was counted in a protocol.
    pub fn verb(&self, protocol: WireProtocol, verb: &str) -> u64 {
        self.protocol(protocol).verbs.get(&verb.into()).map_or(0, |verb| verb.count)
    }
}
