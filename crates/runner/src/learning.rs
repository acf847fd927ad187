//! Captures read to their end, and a scenario learned from what clients did in them.

use plimsoll_analysis::learning::{Gathering, Learned, Wishes, learn};
use plimsoll_capture::component::Components;
use plimsoll_capture::marker::Search;
use plimsoll_capture::phases::Phases;
use plimsoll_capture::pipeline::{Dissected, dissect};
use plimsoll_capture::source::{Ending, PacketSource, SourceError};
use plimsoll_capture::table::Settings;
use plimsoll_capture::tls::keys::Keys;
use plimsoll_model::wire::WireProtocol;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How captures are read.
pub struct Learning {
    /// What opens TLS.
    pub keys: Keys,
    /// Conversations that are followed at once.
    pub conversations: usize,
    /// Threads that follow them; a further one reads.
    pub threads: usize,
    /// Ends the reading.
    pub stop: Arc<AtomicBool>,
    /// How the scenario is made.
    pub wishes: Wishes,
}

impl Learning {
    /// Reads the captures as one; `progress` is given how many bytes have been read, unpacked. Also how each file ended.
    ///
    /// # Errors
    /// What was read is no capture.
    pub fn read(
        self,
        sources: Vec<PacketSource>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Learned, Vec<Ending>), SourceError> {
        let Learning { keys, conversations, threads, stop, wishes } = self;
        let keys = Arc::new(keys);
        let settings = Settings {
            search: Search::default(),
            components: Arc::new(Components::default()),
            phases: Arc::new(Phases::default()),
            keys: Arc::clone(&keys),
            exchanges: false,
            actions: true,
            only_known: false,
            open: conversations,
            stop,
        };
        let mut gathering = Gathering::default();
        let dissected = dissect(sources, &settings, threads, &mut |batch, read| {
            batch.actions.into_iter().for_each(|action| gathering.take(action));
            progress(read);
        })?;
        let mut learned = learn(&gathering, &wishes);
        learned.notes.extend(not_learned(&dissected));
        learned.notes.extend(keys.notes());
        Ok((learned, dissected.endings))
    }
}

/// What the capture has beside what was learned from.
fn not_learned(dissected: &Dissected) -> Vec<String> {
    let mut others: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut asked, mut called) = (0, 0);
    for (service, counted) in dissected.tally.services() {
        match service.protocol {
            // Requests of these are packets of a session, most of which were learned from.
            WireProtocol::Mqtt
            | WireProtocol::Nats
            | WireProtocol::Amqp
            | WireProtocol::Amqp1
            | WireProtocol::Kafka
            | WireProtocol::Tls
            | WireProtocol::Unknown => {}
            WireProtocol::Http | WireProtocol::Http2 | WireProtocol::Coap => {
                let of = |names: &[&str]| -> u64 {
                    let these = counted.verbs.iter().filter(|(verb, _)| names.contains(&verb.as_str()));
                    these.map(|(_, verb)| verb.count).sum()
                };
                let asking = of(&["GET", "HEAD", "DELETE", "OPTIONS", "FETCH"]);
                asked += asking;
                if service.protocol == WireProtocol::Http2 {
                    // The names of calls stand in the place of methods.
                    let others = of(&["POST", "PUT", "PATCH", "CONNECT", "?"]);
                    called += counted.requests.saturating_sub(asking + others);
                }
            }
            other => *others.entry(other.name()).or_default() += counted.requests,
        }
    }
    let mut notes: Vec<String> = others
        .into_iter()
        .filter(|(_, requests)| *requests > 0)
        .map(|(protocol, requests)| {
            format!(
                "requests over {protocol} are left out, since devices are not learned from it: {requests}"
            )
        })
        .collect();
    if asked > 0 {
        notes.push(format!(
            "requests that ask and send nothing (GET and the like) are left out: {asked}; `northbound` could ask for as much"
        ));
    }
    if called > 0 {
        notes.push(format!("calls of gRPC are left out, since devices of a scenario make none: {called}"));
    }
    let unopened: u64 = dissected.tally.unopened.values().sum();
    if unopened > 0 {
        notes.push(format!(
            "conversations under TLS that were not opened are left out: {unopened} (--keys FILE)"
        ));
    }
    if dissected.tally.evicted > 0 {
        let given_up = dissected.tally.evicted;
        notes.push(format!(
            "conversations that were given up to bound memory, and of which a part may be missing: {given_up}"
        ));
    }
    notes
}
