//! What fuzz targets share.

use plimsoll_capture::conversation::{Conversation, DissectionContext, Opening};
use plimsoll_capture::dissect::Carrier;
use plimsoll_capture::marker::{Form, Pattern, Search};
use plimsoll_capture::observations::{ConversationId, Observations};
use plimsoll_capture::tls::keys::Keys;
use plimsoll_model::Nanos;

/// Plays what two sides say over TCP on the port of a server, whose protocol is known by the opening of the client: parts of
/// either side, in pieces of at most that size, some missing where a part is empty. Nothing panics, ends never, or is kept without a
/// bound.
pub fn converse(port: u16, opening: &[u8], piece: u8, parts: &[(bool, Vec<u8>)]) {
    let pattern = Pattern::parse("plm1:{device}:{seq};").unwrap();
    let search = Search::new(vec![Form::Pattern(pattern)]);
    let mut observations = Observations { actions: Some(Vec::new()), ..Observations::default() };
    let mut context =
        DissectionContext { search: &search, keys: &Keys::default(), observations: &mut observations };
    let mut conversation =
        Conversation::new(ConversationId(0), Carrier::Stream, [50_000, port], Opening::Seen(0));
    conversation.data(0, Nanos::ZERO, opening, &mut context);
    let mut at = Nanos::ZERO;
    for (server, bytes) in parts {
        at += Nanos::from_millis(1);
        let direction = usize::from(*server);
        if bytes.is_empty() {
            conversation.gap(direction, Nanos::ZERO, u64::from(piece), &mut context);
        }
        for piece in bytes.chunks(usize::from(piece).max(1)) {
            conversation.data(direction, at, piece, &mut context);
        }
    }
    for direction in [0, 1] {
        conversation.finished(direction, at, &mut context);
    }
    conversation.end(&mut context);
    assert!(conversation.kept() <= 8 << 20);
}
