//! Counts and times, by who called whom in what protocol and in which phase of a run. Each thread has its own; they are
//! merged.

use crate::component::Party;
use crate::observations::{Exchange, Notice};
use crate::pulse::Pulse;
use crate::times::Times;
use crate::tls::Unopened;
use plimsoll_model::wire::{Label, Outcome, WireProtocol};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Verbs that are told apart for each service; the others are counted together.
const VERBS: usize = 512;
/// Services that are told apart, by each thread; the others are counted together, by protocol and phase.
const SERVICES: usize = 1 << 13;
/// Seconds of a service whose bytes are told apart: two hours.
const SECONDS: usize = 7200;

/// Who called whom, in what, when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Service {
    /// Who called.
    pub client: Party,
    /// Who was called.
    pub server: Party,
    /// In what.
    pub protocol: WireProtocol,
    /// The phase of the run in which the request began; 0 where there are none.
    pub phase: u16,
}

/// What one verb cost.
#[derive(Clone, Debug, Default)]
pub struct Verb {
    /// Requests, or messages that are none.
    pub count: u64,
    /// Of those, failed.
    pub failed: u64,
    /// Of those, unanswered.
    pub unanswered: u64,
    /// From the last byte of the request to the last of the response.
    pub times: Times,
}

/// What was counted of a service.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Connections (of UDP: pairs of ports) with at least one message.
    pub conversations: u64,
    /// Requests of either side.
    pub requests: u64,
    /// Answered, errors included.
    pub responses: u64,
    /// Answered with an error.
    pub errors: u64,
    /// Not answered.
    pub unanswered: u64,
    /// Asking for no answer.
    pub one_way: u64,
    /// Whose answer may lie in a hole of the capture.
    pub unknown: u64,
    /// Responses to nothing.
    pub unexpected: u64,
    /// Messages that are neither request nor response.
    pub notices: u64,
    /// Stretches that were not understood.
    pub malformed: u64,
    /// Bytes of content of TCP and UDP, from client and from server.
    pub bytes: [u64; 2],
    /// The same by second since 1970.
    pub seconds: BTreeMap<i64, [u64; 2]>,
    /// Segments sent again, by client and by server.
    pub retransmissions: [u64; 2],
    /// Their delays.
    pub retransmission_delays: Times,
    /// Zero windows.
    pub zero_windows: u64,
    /// Bytes that are not in the capture.
    pub missing: u64,
    /// From the last byte of a request to the first of its response.
    pub first_byte_times: Times,
    /// Round trips of the transport.
    pub round_trips: Times,
    /// By verb of the request, and of messages that are neither.
    pub verbs: FxHashMap<Label, Verb>,
    /// By status of the response.
    pub statuses: FxHashMap<Label, u64>,
}

impl Counted {
    /// Counts bytes from client and from server.
    pub fn bytes_of(&mut self, second: i64, bytes: [u64; 2]) {
        let known = self.seconds.len() < SECONDS || self.seconds.contains_key(&second);
        if let Some(sum) = known.then(|| self.seconds.entry(second).or_default()) {
            *sum = [sum[0] + bytes[0], sum[1] + bytes[1]];
        }
        self.bytes = [self.bytes[0] + bytes[0], self.bytes[1] + bytes[1]];
    }

    /// Counts an exchange.
    pub fn exchange(&mut self, exchange: &Exchange) {
        self.requests += 1;
        let verb = verb(&mut self.verbs, exchange.verb);
        verb.count += 1;
        match exchange.outcome {
            Outcome::Answered | Outcome::Failed => self.responses += 1,
            Outcome::Unanswered => {
                self.unanswered += 1;
                verb.unanswered += 1;
            }
            Outcome::OneWay => self.one_way += 1,
            Outcome::Unknown => self.unknown += 1,
        }
        if exchange.outcome == Outcome::Failed {
            self.errors += 1;
            verb.failed += 1;
        }
        if let Some(response) = exchange.response {
            verb.times.record(response.last - exchange.request.last);
            self.first_byte_times.record(exchange.interim.unwrap_or(response.first) - exchange.request.last);
            if self.statuses.len() < VERBS || self.statuses.contains_key(&exchange.status) {
                *self.statuses.entry(exchange.status).or_default() += 1;
            }
        }
    }

    /// Counts a notice.
    pub fn notice(&mut self, notice: &Notice) {
        if notice.unexpected {
            self.unexpected += 1;
        } else {
            self.notices += 1;
            verb(&mut self.verbs, notice.verb).count += 1;
        }
    }

    /// From the last byte of a request to the last of its response, of all verbs.
    pub fn response_times(&self) -> Times {
        let mut all = Times::default();
        self.verbs.values().for_each(|verb| all.merge(&verb.times));
        all
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Counted) {
        let Counted {
            conversations,
            requests,
            responses,
            errors,
            unanswered,
            one_way,
            unknown,
            unexpected,
            notices,
            malformed,
            bytes,
            seconds,
            retransmissions,
            retransmission_delays,
            zero_windows,
            missing,
            first_byte_times,
            round_trips,
            verbs,
            statuses,
        } = other;
        self.conversations += conversations;
        self.requests += requests;
        self.responses += responses;
        self.errors += errors;
        self.unanswered += unanswered;
        self.one_way += one_way;
        self.unknown += unknown;
        self.unexpected += unexpected;
        self.notices += notices;
        self.malformed += malformed;
        self.zero_windows += zero_windows;
        self.missing += missing;
        for side in [0, 1] {
            self.bytes[side] += bytes[side];
            self.retransmissions[side] += retransmissions[side];
        }
        for (second, more) in seconds {
            let sum = self.seconds.entry(*second).or_default();
            *sum = [sum[0] + more[0], sum[1] + more[1]];
        }
        self.retransmission_delays.merge(retransmission_delays);
        self.first_byte_times.merge(first_byte_times);
        self.round_trips.merge(round_trips);
        for (label, more) in verbs {
            let sum = self.verbs.entry(*label).or_default();
            sum.count += more.count;
            sum.failed += more.failed;
            sum.unanswered += more.unanswered;
            sum.times.merge(&more.times);
        }
        for (status, count) in statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
    }
}

/// The entry of a verb; that of `others` where there are too many.
fn verb(verbs: &mut FxHashMap<Label, Verb>, label: Label) -> &mut Verb {
    let label = if verbs.len() < VERBS || verbs.contains_key(&label) { label } else { Label::new("others") };
    verbs.entry(label).or_default()
}

/// All services.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    places: FxHashMap<Service, u32>,
    services: Vec<(Service, Counted)>,
    /// Reasons why something was not understood, by protocol.
    pub malformed: FxHashMap<(WireProtocol, &'static str), u64>,
    /// Bytes of known protocols that were skipped after a hole or a breach.
    pub skipped: u64,
    /// Packets that stand in the capture more than once.
    pub duplicate_packets: u64,
    /// Packets in another order than they were sent in.
    pub reordered: u64,
    /// Conversations that were given up to make room.
    pub evicted: u64,
    /// Conversations under TLS that were opened, to their end.
    pub opened: u64,
    /// Those that were not, by the reason.
    pub unopened: BTreeMap<Unopened, u64>,
    /// Who spoke when, and who waited for whom.
    pub pulse: Pulse,
}

impl Tally {
    /// The place of a service; that of all others where there are too many.
    pub fn place(&mut self, service: Service) -> u32 {
        if let Some(&place) = self.places.get(&service) {
            return place;
        }
        let others = Service { client: Party::Others, server: Party::Others, ..service };
        let service = if self.services.len() < SERVICES { service } else { others };
        *self.places.entry(service).or_insert_with(|| {
            self.services.push((service, Counted::default()));
            self.services.len() as u32 - 1
        })
    }

    /// What is counted at a place.
    pub fn at(&mut self, place: u32) -> &mut Counted {
        let place = (place as usize).min(self.services.len() - 1);
        &mut self.services[place].1
    }

    /// Counts what became of a conversation under TLS.
    pub fn secured(&mut self, outcome: Result<(), Unopened>) {
        match outcome {
            Ok(()) => self.opened += 1,
            Err(reason) => *self.unopened.entry(reason).or_default() += 1,
        }
    }

    /// Adds another's.
    pub fn merge(&mut self, other: Tally) {
        for (service, counted) in other.services {
            let known = self.services.len();
            let place = self.place(service);
            if self.services.len() > known {
                *self.at(place) = counted;
            } else {
                self.at(place).merge(&counted);
            }
        }
        for (reason, count) in other.malformed {
            *self.malformed.entry(reason).or_default() += count;
        }
        self.pulse.merge(other.pulse);
        self.skipped += other.skipped;
        self.duplicate_packets += other.duplicate_packets;
        self.reordered += other.reordered;
        self.evicted += other.evicted;
        self.opened += other.opened;
        for (reason, count) in &other.unopened {
            *self.unopened.entry(*reason).or_default() += count;
        }
    }

    /// All services, those with the most requests first.
    pub fn services(&self) -> Vec<&(Service, Counted)> {
        let mut services: Vec<_> = self.services.iter().collect();
        services.sort_by_key(|(service, counted)| (std::cmp::Reverse(counted.requests), *service));
        services
    }
}
