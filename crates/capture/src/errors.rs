//! Who answered with an error first. A component that answers with an error because one that it has called did so passes the
//! error on, and is not its origin.
//!
//! A failed call of the answering component belongs to its answer if it was made after the question came, and had failed
//! before the answer left. Of several, that with the same marker counts; where none has it and they have several origins, the
//! origin is not known.

use crate::component::{Holder, Party};
use crate::marker::MessageId;
use crate::observations::Exchange;
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Label, Outcome, WireProtocol};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Callers that are told apart; of the others it is not known what they call.
const CALLERS: usize = 256;
/// Failed calls of one caller that are remembered.
const REMEMBERED: usize = 1024;
/// Origins that are told apart.
const ORIGINS: usize = 1024;

/// Where an error came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Who answered so first; `None` where several may have.
    pub who: Option<Holder>,
    /// In what.
    pub protocol: WireProtocol,
    /// With what status; `None` where it gave no answer.
    pub status: Option<Label>,
}

/// Errors of one origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// How many.
    pub count: u64,
    /// Of those, the ones that who had asked passed on as errors of its own.
    pub passed_on: u64,
    /// Who did.
    pub by: BTreeSet<Holder>,
}

/// A call that failed, and whose caller may fail because of it.
#[derive(Clone, Copy, Debug)]
struct Failed {
    begin: Nanos,
    /// When its answer began; without one it may have been given up at any time.
    end: Option<Nanos>,
    marker: Option<MessageId>,
    origin: Origin,
    /// Whether the error had been passed on already.
    counted: bool,
}

/// All errors, by their origins.
#[derive(Debug, Default)]
pub struct Failures {
    failed: FxHashMap<Holder, VecDeque<Failed>>,
    origins: BTreeMap<Origin, Errors>,
}

impl Failures {
    /// Takes in an exchange that failed, or was never answered, in the order in which they ended; who asked, and whom.
    pub(crate) fn observe(&mut self, exchange: &Exchange, asker: Holder, asked: Holder) {
        let marker = exchange.marker.filter(|_| exchange.carried);
        let begin = exchange.request.first;
        let own = |status| Origin { who: Some(asked), protocol: exchange.protocol, status };
        match (exchange.outcome, exchange.response) {
            // Nobody has failed yet: it counts if somebody fails because of it.
            (Outcome::Unanswered, _) => {
                self.remember(asker, Failed { begin, end: None, marker, origin: own(None), counted: false });
            }
            (Outcome::Failed, Some(response)) => {
                let cause = self.cause(asked, begin, response.first, marker);
                let origin = cause.map_or_else(|| own(Some(exchange.status)), |cause| cause.origin);
                if self.origins.len() < ORIGINS || self.origins.contains_key(&origin) {
                    let errors = self.origins.entry(origin).or_default();
                    match cause {
                        None => errors.count += 1,
                        Some(cause) => {
                            errors.count += u64::from(!cause.counted && origin.status.is_none());
                            errors.passed_on += u64::from(!cause.counted);
                            errors.by.insert(asked);
                        }
                    }
                }
                let counted = cause.is_some();
                self.remember(asker, Failed { begin, end: Some(response.first), marker, origin, counted });
            }
            _ => {}
        }
    }

    /// The failed call because of which somebody fails who was asked and answered at those times.
    fn cause(&mut self, who: Holder, begin: Nanos, end: Nanos, marker: Option<MessageId>) -> Option<Failed> {
        let calls = match self.failed.contains_key(&who) {
            true => self.failed.get_mut(&who)?,
            // A server without a name calls from any port of its host: only the marker tells which call is its own.
            false => match who {
                Holder::Party(Party::Server(server)) if marker.is_some() => {
                    self.failed.get_mut(&Holder::Party(Party::Host(server.address)))?
                }
                _ => return None,
            },
        };
        let nameless = !matches!(who, Holder::Party(Party::Component(_)));
        let within = |call: &Failed| call.begin >= begin && call.end.unwrap_or(call.begin) <= end;
        let same = |call: &Failed| marker.is_some() && call.marker == marker;
        let other = |call: &Failed| !nameless && (marker.is_none() || call.marker.is_none());
        let last = |fits: &dyn Fn(&Failed) -> bool| calls.iter().rposition(|call| within(call) && fits(call));
        let place = last(&same).or_else(|| last(&other))?;
        let mut found = calls.remove(place)?;
        let told_apart = same(&found)
            || !calls.iter().any(|call| within(call) && other(call) && call.origin != found.origin);
        if !told_apart {
            found.origin.who = None;
        }
        Some(found)
    }

    fn remember(&mut self, caller: Holder, call: Failed) {
        // A connection without a name may be that of any server of its host.
        let caller = match caller {
            Holder::Socket(socket) => Holder::Party(Party::Host(socket.address)),
            party => party,
        };
        if self.failed.len() >= CALLERS && !self.failed.contains_key(&caller) {
            return;
        }
        let calls = self.failed.entry(caller).or_default();
        if calls.len() >= REMEMBERED {
            calls.pop_front();
        }
        calls.push_back(call);
    }

    /// Errors by their origins.
    pub fn by_origin(&self) -> &BTreeMap<Origin, Errors> {
        &self.origins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::ConversationId;
    use crate::packet::Endpoint;
    use crate::request::Asking;
    use crate::side::Side;
    use plimsoll_model::wire::Span;

    const CLIENT: Holder = Holder::Party(Party::Component(0));
    const AGENT: Holder = Holder::Party(Party::Component(1));
    const PROXY: Holder = Holder::Party(Party::Component(2));
    const CONTEXT: Holder = Holder::Party(Party::Component(3));

    fn message(sequence: u64) -> Option<MessageId> {
        Some(MessageId { device: 1, sequence })
    }

    fn exchange(from: i64, to: i64, status: &str, marker: Option<MessageId>) -> Exchange {
        let at = |ms: i64| {
            let at = Nanos::from_millis(ms);
            Span { first: at, last: at, bytes: 1 }
        };
        let answered = !status.is_empty();
        Exchange {
            conversation: ConversationId(0),
            protocol: WireProtocol::Http,
            requester: Side::Client,
            verb: Label::new("POST"),
            outcome: if answered { Outcome::Failed } else { Outcome::Unanswered },
            status: Label::new(status),
            request: at(from),
            interim: None,
            response: answered.then(|| at(to)),
            marker,
            carried: marker.is_some(),
            asking: Asking::Now,
        }
    }

    fn origins(failures: &Failures) -> Vec<(Option<Holder>, String, u64, u64)> {
        let of = |(origin, errors): (&Origin, &Errors)| {
            let status = origin.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
            (origin.who, status, errors.count, errors.passed_on)
        };
        failures.by_origin().iter().map(of).collect()
    }

    /// The proxy is full; the agent gives the error on with another status.
    #[test]
    fn who_answers_with_an_error_first_is_its_origin() {
        let mut failures = Failures::default();
        for number in 0..3 {
            let from = 10 * number;
            failures.observe(&exchange(from + 1, from + 2, "503", message(number as u64)), AGENT, PROXY);
            failures.observe(&exchange(from, from + 3, "500", message(number as u64)), CLIENT, AGENT);
        }
        assert_eq!(origins(&failures), [(Some(PROXY), "503".into(), 3, 3)]);
        let by: Vec<Holder> = failures.by_origin().values().flat_map(|errors| errors.by.clone()).collect();
        assert_eq!(by, [AGENT]);
    }

    /// Through three components; each error counts once.
    #[test]
    fn an_error_that_is_passed_on_twice_has_one_origin() {
        let mut failures = Failures::default();
        failures.observe(&exchange(3, 4, "500", message(1)), PROXY, CONTEXT);
        failures.observe(&exchange(2, 5, "500", message(1)), AGENT, PROXY);
        failures.observe(&exchange(1, 6, "500", message(1)), CLIENT, AGENT);
        assert_eq!(origins(&failures), [(Some(CONTEXT), "500".into(), 1, 1)]);
        assert_eq!(failures.by_origin().values().next().map(|errors| errors.by.len()), Some(2));
    }

    /// The agent is asked twice at once: the call for the one message has failed, and the agent refuses the other itself.
    #[test]
    fn the_failed_call_of_another_message_is_no_excuse() {
        let mut failures = Failures::default();
        failures.observe(&exchange(2, 3, "503", message(1)), AGENT, PROXY);
        failures.observe(&exchange(1, 4, "400", message(2)), CLIENT, AGENT);
        failures.observe(&exchange(1, 5, "500", message(1)), CLIENT, AGENT);
        let expected = [(Some(AGENT), "400".into(), 1, 0), (Some(PROXY), "503".into(), 1, 1)];
        assert_eq!(origins(&failures), expected);
        // Nor is one that had failed before the question came.
        failures.observe(&exchange(6, 7, "404", None), AGENT, CONTEXT);
        failures.observe(&exchange(8, 9, "400", None), CLIENT, AGENT);
        assert!(origins(&failures).contains(&(Some(AGENT), "400".into(), 2, 0)), "{:?}", origins(&failures));
    }

    /// A proxy that gives up waiting passes on that there was no answer.
    #[test]
    fn who_gives_no_answer_is_the_origin_of_the_error_that_says_so() {
        let mut failures = Failures::default();
        failures.observe(&exchange(2, 0, "", message(1)), PROXY, CONTEXT);
        assert_eq!(origins(&failures), []);
        failures.observe(&exchange(1, 9, "504", message(1)), AGENT, PROXY);
        assert_eq!(origins(&failures), [(Some(CONTEXT), "-".into(), 1, 1)]);
    }

    /// Of a capture alone, in which the agent listens at one port and calls from others.
    #[test]
    fn the_calls_of_a_server_without_a_name_are_known_by_their_markers() {
        let end = |port| Endpoint { address: [7; 16], port };
        let [agent, proxy] = [80, 81].map(|port| Holder::Party(Party::Server(end(port))));
        let [device, caller] = [50_000, 50_001].map(|port| Holder::Socket(end(port)));
        let mut failures = Failures::default();
        failures.observe(&exchange(2, 3, "503", message(1)), caller, proxy);
        failures.observe(&exchange(2, 3, "503", None), caller, proxy);
        failures.observe(&exchange(1, 4, "500", message(1)), device, agent);
        failures.observe(&exchange(1, 5, "400", message(2)), device, agent);
        let expected = [(Some(agent), "400".into(), 1, 0), (Some(proxy), "503".into(), 2, 1)];
        assert_eq!(origins(&failures), expected);
    }

    /// Without markers, and with failed calls of two origins at the same time, it may have been either.
    #[test]
    fn where_several_may_be_the_origin_nobody_is_named() {
        let mut failures = Failures::default();
        failures.observe(&exchange(2, 3, "503", None), AGENT, PROXY);
        failures.observe(&exchange(2, 4, "503", None), AGENT, CONTEXT);
        failures.observe(&exchange(1, 5, "500", None), CLIENT, AGENT);
        assert!(origins(&failures).contains(&(None, "503".into(), 0, 1)), "{:?}", origins(&failures));
    }
}
