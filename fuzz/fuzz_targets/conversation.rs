//! Any bytes as what two sides say to each other, after a good beginning in one of the protocols: no dissector panics or goes
//! on for ever, and what is understood of whole messages does not depend on how the packets cut them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_capture::conversation::{Conversation, DissectionContext, Opening};
use plimsoll_capture::dissect::Carrier;
use plimsoll_capture::marker::{Form, Pattern, Search};
use plimsoll_capture::observations::{ConversationId, Observations};
use plimsoll_capture::tls::keys::Keys;
use plimsoll_model::Nanos;

/// What client and server begin with.
const BEGINNINGS: [(Carrier, u16, &[u8], &[u8]); 10] = [
    (Carrier::Stream, 9999, b"", b""),
    (Carrier::Stream, 8080, b"GET / HTTP/1.1\r\n\r\n", b""),
    (Carrier::Stream, 8080, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n", b""),
    (
        Carrier::Stream,
        8080,
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
    ),
    (
        Carrier::Stream,
        8080,
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n\x82\x92\0\0\0\0\x10\x10\0\x04MQTT\x05\x02\0\0\0\0\x03abc",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
    ),
    (
        Carrier::Stream,
        8080,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x03\x01\x04\0\0\0\x01\x83\x86\x84",
        b"\0\0\0\x04\0\0\0\0\0",
    ),
    (Carrier::Stream, 1883, b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04abcd", b"\x20\x02\0\0"),
    (Carrier::Stream, 5683, b"\x50\xe1\x23\x10\0\0\x20", b"\x50\xe1\x23\x10\0\0\x20"),
    (Carrier::Datagrams, 5683, b"\x42\x01\x00\x01aa\xb4echo", b""),
    (Carrier::Datagrams, 9999, b"", b""),
];

/// The protocol, and how many exchanges, notices and breaches were observed.
fn play(bytes: &[u8], cut: usize, search: &Search) -> (String, [usize; 3]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return Default::default() };
    let (carrier, port, client, server) = BEGINNINGS[usize::from(choice) % BEGINNINGS.len()];
    let mut observations = Observations { actions: Some(Vec::new()), ..Observations::default() };
    let mut context = DissectionContext { search, keys: &Keys::default(), observations: &mut observations };
    let mut conversation = Conversation::new(ConversationId(0), carrier, [50_000, port], Opening::Seen(0));
    let mut say = |direction: usize, bytes: &[u8]| {
        let cut = if carrier == Carrier::Datagrams { bytes.len() } else { cut };
        for piece in bytes.chunks(cut.max(1)) {
            conversation.data(direction, Nanos::ZERO, piece, &mut context);
        }
    };
    say(0, client);
    say(1, server);
    // A byte says who speaks and how long.
    while let Some((&turn, behind)) = rest.split_first() {
        let (said, behind) = behind.split_at(behind.len().min(usize::from(turn >> 1)));
        say(usize::from(turn & 1), said);
        rest = behind;
    }
    for direction in [0, 1] {
        conversation.finished(direction, Nanos::ZERO, &mut context);
    }
    conversation.end(&mut context);
    let counts = [observations.exchanges.len(), observations.notices.len(), observations.breaches.len()];
    (conversation.protocol().name().to_owned(), counts)
}

fuzz_target!(|bytes: &[u8]| {
    let search = Search::new(vec![Form::Pattern(Pattern::parse("plm1:{device}:{seq};").expect("a pattern"))]);
    let whole = play(bytes, usize::MAX, &search);
    let pieces = play(bytes, 1, &search);
    // After a breach, and before it is known what is spoken, the pieces decide where reading goes on.
    let known =
        bytes.first().is_some_and(|choice| !BEGINNINGS[usize::from(*choice) % BEGINNINGS.len()].2.is_empty());
    if known && whole.1[2] == 0 && pieces.1[2] == 0 {
        assert_eq!(whole, pieces);
    }
});
