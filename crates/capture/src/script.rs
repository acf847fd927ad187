//! Conversations of tests: what both sides say, and what is observed of it, whole and in pieces of any size.

use crate::action::{Action, Publish};
use crate::conversation::{Conversation, DissectionContext, Opening};
use crate::dissect::Carrier;
use crate::marker::{Form, Pattern, Search};
use crate::observations::{ConversationId, Manner, Observations};
use crate::side::Side;
use crate::tls::keys::Keys;
use plimsoll_model::Nanos;
use plimsoll_model::wire::WireProtocol;

/// What was observed, in plain words: `GET -> 200`, `GET unanswered`, `SET one-way`, `! PUBLISH` (a notice), `? 200` (unexpected), `breach: ...`.
pub struct Transcript {
    pub lines: Vec<String>,
    pub markers: Vec<(Side, u64)>,
    pub observations: Observations,
    pub protocol: WireProtocol,
}

impl Transcript {
    /// What the client did, without times: `connect abcd 4 60s`, `publish PUBLISH a/b q1 2 B`, `subscribe a/# q1`, `receive`.
    pub fn actions(&self) -> Vec<String> {
        let told = |action: &crate::action::ClientAction| match &action.action {
            Action::Connect(connect) => {
                format!("connect {} {} {}s", connect.client, connect.version, connect.keep_alive)
            }
            Action::Publish(publish) => {
                let retained = if publish.retained { " retained" } else { "" };
                let Publish { method, target, topic, qos, bytes, .. } = publish;
                let topic = if topic.is_empty() { String::new() } else { format!("{topic}: ") };
                format!("publish {method} {topic}{target} q{qos} {bytes} B{retained}")
            }
            Action::Subscribe { filter, qos } => format!("subscribe {filter} q{qos}"),
            Action::Receive => "receive".to_owned(),
        };
        self.observations.actions.iter().flatten().map(told).collect()
    }

    /// How each message with a marker came to be said: `handed`, `echoed`, `answered`, `taken`, with its number.
    pub fn manners(&self) -> Vec<(u64, &'static str)> {
        let told = |sighting: &crate::observations::Sighting| {
            let manner = match sighting.manner {
                Manner::Handed => "handed",
                Manner::Echoed => "echoed",
                Manner::Answered(_) => "answered",
                Manner::Taken => "taken",
            };
            (sighting.message.sequence, manner)
        };
        self.observations.sightings.iter().map(told).collect()
    }
}

/// Plays a conversation on that port, each part in one packet, a millisecond apart. Played again in pieces of 1, 2, 3, 7 and 64
/// bytes over TCP, it must give the same.
pub fn play(carrier: Carrier, port: u16, parts: &[(Side, &[u8])]) -> Transcript {
    let whole = once(carrier, port, parts, usize::MAX);
    if carrier == Carrier::Stream {
        for size in [1, 2, 3, 7, 64] {
            let pieces = once(carrier, port, parts, size);
            assert_eq!(pieces.lines, whole.lines, "in pieces of {size} bytes");
            assert_eq!(pieces.markers, whole.markers, "in pieces of {size} bytes");
            assert_eq!(pieces.actions(), whole.actions(), "in pieces of {size} bytes");
        }
    }
    whole
}

/// Plays bytes of any kind, whole and in pieces. After a breach the pieces decide where reading goes on, so that nothing is
/// demanded but that it ends.
pub fn survive(port: u16, parts: &[(Side, &[u8])]) {
    for size in [1, 3, 64, usize::MAX] {
        once(Carrier::Stream, port, parts, size);
    }
}

/// Plays a conversation once, in pieces of at most that size.
pub fn once(carrier: Carrier, port: u16, parts: &[(Side, &[u8])], size: usize) -> Transcript {
    let search = Search::new(vec![Form::Pattern(Pattern::parse("plm1:{device}:{seq};").unwrap())]);
    let mut observations = Observations { actions: Some(Vec::new()), ..Observations::default() };
    let mut context =
        DissectionContext { search: &search, keys: &Keys::default(), observations: &mut observations };
    let mut conversation = Conversation::new(ConversationId(0), carrier, [50_000, port], Opening::Seen(0));
    let mut at = Nanos::ZERO;
    for (side, bytes) in parts {
        at += Nanos::from_millis(1);
        for piece in bytes.chunks(size.min(bytes.len()).max(1)) {
            conversation.data(side.index(), at, piece, &mut context);
        }
    }
    for direction in [0, 1] {
        conversation.finished(direction, at, &mut context);
    }
    conversation.end(&mut context);
    let exchange = |exchange: &crate::observations::Exchange| {
        let Label { verb, status } = Label { verb: exchange.verb, status: exchange.status };
        match exchange.response {
            Some(_) => (exchange.request.first, format!("{verb} -> {status}")),
            None => (exchange.request.first, format!("{verb} {}", exchange.outcome.name())),
        }
    };
    struct Label {
        verb: plimsoll_model::wire::Label,
        status: plimsoll_model::wire::Label,
    }
    let mut lines: Vec<(Nanos, String)> = observations.exchanges.iter().map(exchange).collect();
    lines.extend(observations.notices.iter().map(|notice| {
        (notice.span.first, format!("{} {}", if notice.unexpected { '?' } else { '!' }, notice.verb))
    }));
    lines
        .extend(observations.breaches.iter().map(|breach| (breach.at, format!("breach: {}", breach.reason))));
    lines.sort_by_key(|(at, _)| *at);
    Transcript {
        lines: lines.into_iter().map(|(_, line)| line).collect(),
        markers: observations
            .sightings
            .iter()
            .map(|sighting| (sighting.from, sighting.message.sequence))
            .collect(),
        protocol: conversation.protocol(),
        observations,
    }
}

/// Bytes that nobody meant to send: any at all, and a good conversation with bytes changed and left out, in pieces of any
/// size. They must neither panic nor run for ever.
pub fn survives(carrier: Carrier, port: u16, good: &[(Side, &[u8])]) {
    use proptest::prelude::*;
    let said = (
        prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..80)), 0..6),
        1..90_usize,
    );
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&said, |(said, size)| {
            let side = |client| if client { Side::Client } else { Side::Server };
            let parts: Vec<_> =
                said.iter().map(|(client, bytes)| (side(*client), bytes.as_slice())).collect();
            once(carrier, port, &parts, size);
            let after_good: Vec<_> = good.iter().copied().chain(parts).collect();
            once(carrier, port, &after_good, size);
            Ok(())
        })
        .unwrap();
    let changes = prop::collection::vec((any::<usize>(), any::<usize>(), any::<Option<u8>>()), 1..4);
    runner
        .run(&(changes, 1..90_usize), |(changes, size)| {
            let mut parts: Vec<_> = good.iter().map(|(side, bytes)| (*side, bytes.to_vec())).collect();
            for (part, place, byte) in changes {
                let part = part % parts.len();
                let bytes = &mut parts[part].1;
                let place = place % bytes.len().max(1);
                match byte {
                    Some(byte) if !bytes.is_empty() => bytes[place] = byte,
                    _ => bytes.truncate(place),
                }
            }
            let parts: Vec<_> = parts.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
            once(carrier, port, &parts, size);
            Ok(())
        })
        .unwrap();
}
