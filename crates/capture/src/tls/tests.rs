//! What is opened, what is not, and what becomes of holes.

use super::keys::Keys;
use super::sessions::{Pair, Said, Session, suites};
use super::{Clear, Opener, Piece, Unopened, What};
use plimsoll_model::Nanos;
use proptest::prelude::*;
use rustls::{Connection, HandshakeKind, ServerConfig, version};
use std::io::Write;
use std::sync::Arc;

/// What an opener makes of it.
struct Opened {
    /// By direction.
    text: [Vec<u8>; 2],
    gaps: usize,
    outcome: Result<(), Unopened>,
}

/// Opens what was said, in pieces of at most that size.
fn open(wire: &[Said], keys: &Keys, size: usize) -> Opened {
    open_with(wire, keys, size, 0)
}

/// The same where an empty part is a hole of that many bytes.
fn open_with(wire: &[Said], keys: &Keys, size: usize, hole: usize) -> Opened {
    let mut opener = Opener::default();
    let mut opened = Opened { text: Default::default(), gaps: 0, outcome: Ok(()) };
    let mut clear = Clear::default();
    for (from, bytes) in wire {
        for piece in bytes.chunks(size.min(bytes.len().max(1))) {
            if opened.outcome.is_ok() {
                opened.outcome = opener.take(*from, Nanos(1), Piece::Data(piece), keys, &mut clear);
            }
        }
        if bytes.is_empty() && hole > 0 && opened.outcome.is_ok() {
            opened.outcome = opener.take(*from, Nanos(1), Piece::Gap(hole as u64), keys, &mut clear);
        }
        assert!(opener.kept() < 1 << 19, "{}", opener.kept());
    }
    opened.outcome = opened.outcome.and_then(|()| opener.close(keys, &mut clear));
    for part in clear.parts {
        match part.what {
            What::Data(place) => opened.text[part.direction].extend_from_slice(&clear.bytes[place]),
            What::Gap => opened.gaps += 1,
            What::End => {}
        }
    }
    opened
}

fn text(said: &[Said], by: usize) -> Vec<u8> {
    said.iter().filter(|(from, _)| *from == by).flat_map(|(_, text)| text.clone()).collect()
}

fn assert_open(session: &Session, keys: &Keys) {
    for size in [usize::MAX, 1500, 7, 1] {
        let opened = open(&session.wire, keys, size);
        assert_eq!(opened.outcome, Ok(()), "in pieces of {size}");
        for by in [0, 1] {
            assert!(opened.text[by] == text(&session.said, by), "side {by} in pieces of {size}");
        }
        assert_eq!(opened.gaps, 0);
    }
}

#[test]
fn every_suite_is_opened_also_where_a_session_is_resumed() {
    let suites = suites();
    assert_eq!(suites.len(), 6);
    for (suite, version) in suites {
        let pair = Pair::new(suite, version);
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut session = pair.open();
            session.talk();
            let Connection::Client(client) = &session.ends[0] else { panic!() };
            assert_eq!(client.handshake_kind(), Some(kind));
            assert_open(&session, &pair.keys());
        }
    }
}

#[test]
fn keys_that_are_updated_are_followed() {
    for (suite, version) in suites().into_iter().filter(|(_, version)| *version == &version::TLS13) {
        let pair = Pair::new(suite, version);
        let mut session = pair.open();
        session.talk();
        for from in [0, 1, 1, 0] {
            session.update_keys(from);
            session.talk();
        }
        assert_open(&session, &pair.keys());
    }
}

/// What the server refuses was not said; what it takes cannot be read, and the rest alone would be read wrongly.
#[test]
fn early_data_is_skipped_where_it_is_void_and_closes_the_rest_where_it_is_not() {
    let (suite, version) = suites().into_iter().find(|(_, version)| *version == &version::TLS13).unwrap();
    for taken in [true, false] {
        let mut pair = Pair::new(suite, version);
        pair.open().talk();
        let mut session = pair.open();
        if !taken {
            let mut server = ServerConfig::clone(&pair.server);
            server.max_early_data_size = 0;
            pair.server = Arc::new(server);
            session = pair.open();
        }
        let Connection::Client(client) = &mut session.ends[0] else { panic!() };
        client.early_data().unwrap().write_all(&[b'e'; 100]).unwrap();
        session.talk();
        let opened = open(&session.wire, &pair.keys(), usize::MAX);
        if taken {
            assert_eq!(opened.outcome, Err(Unopened::EarlyData));
            assert!(opened.text.iter().all(Vec::is_empty));
        } else {
            assert_open(&session, &pair.keys());
        }
    }
}

#[test]
fn what_cannot_be_opened_is_told_apart() {
    for (suite, version) in suites() {
        let pair = Pair::new(suite, version);
        let mut session = pair.open();
        session.talk();
        let (wire, keys) = (&session.wire, pair.keys());
        assert_eq!(open(wire, &Keys::default(), 1000).outcome, Err(Unopened::NoKey));
        assert_eq!(open(&wire[1..], &keys, 1000).outcome, Err(Unopened::Beginning));
        assert_eq!(open(&wire[4..], &keys, 1000).outcome, Err(Unopened::Beginning));
        assert_eq!(open(&wire[..1], &keys, 1000).outcome, Err(Unopened::Unfinished));
        let client: Vec<Said> = wire.iter().filter(|(from, _)| *from == 0).cloned().collect();
        assert_eq!(open(&client, &keys, 1000).outcome, Err(Unopened::Hole));
        // Another session's keys under this one's name.
        let other = Pair::new(suite, version);
        other.open().talk();
        let random = pair.log.0.lock().unwrap().split(' ').nth(1).unwrap().to_owned();
        let theirs = other.log.0.lock().unwrap().clone();
        let strange = theirs.replace(theirs.split(' ').nth(1).unwrap(), &random);
        let keys = Keys::default();
        keys.read(strange.as_bytes(), "the log".into());
        let opened = open(wire, &keys, 1000);
        assert_eq!(opened.outcome, Err(Unopened::Broken));
        assert!(opened.text.iter().all(Vec::is_empty));
        // A suite that is not known: the server's choice follows its random and the session's id.
        let mut odd = wire.clone();
        let session_id = usize::from(odd[1].1[43]);
        odd[1].1[44 + session_id..46 + session_id].copy_from_slice(&[0xc0, 0x27]);
        assert_eq!(open(&odd, &pair.keys(), 1000).outcome, Err(Unopened::Suite));
    }
}

/// Holes within a record, of whole records, and of many of them; of the handshake, too, once both hellos are there.
#[test]
fn behind_a_hole_reading_goes_on_at_the_next_record() {
    for (suite, version) in suites() {
        let pair = Pair::new(suite, version);
        let mut session = pair.open();
        session.talk();
        let first_answer = session.said.iter().position(|(from, _)| *from == 1).unwrap();
        if version == &version::TLS13 {
            session.update_keys(1);
        }
        for round in 0..20 {
            session.say(0, format!("later question {round};").as_bytes());
            session.say(1, format!("later answer {round};").as_bytes());
        }
        let keys = pair.keys();
        assert!(first_answer > 0);
        let of_server: Vec<usize> =
            (0..session.wire.len()).filter(|&part| session.wire[part].0 == 1).collect();
        // Of one long part, bytes in the middle: what it holds behind them is found by its look alone.
        let long = *of_server.iter().max_by_key(|&&part| session.wire[part].1.len()).unwrap();
        let bytes = session.wire[long].1.clone();
        for (from, length) in [(100, 50), (100, 20_000), (16_000, 800), (0, 30_000)] {
            let mut wire = session.wire.clone();
            wire.splice(
                long..=long,
                [(1, bytes[..from].to_vec()), (1, Vec::new()), (1, bytes[from + length..].to_vec())],
            );
            let opened = open_with(&wire, &keys, usize::MAX, length);
            assert_eq!((opened.outcome, opened.gaps), (Ok(()), 1), "{length} from {from}");
            let all = text(&session.said, 1);
            assert!(opened.text[1].len() < all.len() && all.ends_with(b"later answer 19;"));
            assert!(opened.text[1].ends_with(b"later answer 18;later answer 19;"));
            assert!(opened.text[0] == text(&session.said, 0));
        }
        // Whole parts.
        for parts in [1, 5, 10] {
            let mut wire = session.wire.clone();
            let mut lost = 0;
            for &part in of_server.iter().rev().skip(3).take(parts) {
                lost += wire[part].1.len();
                wire[part].1.clear();
            }
            let opened = open_with(&wire, &keys, usize::MAX, lost);
            assert_eq!(opened.outcome, Ok(()), "{parts} parts");
            assert!(opened.text[1].ends_with(b"later answer 17;later answer 18;later answer 19;"));
        }
        // The end of the server's handshake, whose Finished changes the keys.
        let mut wire = session.wire.clone();
        let part = of_server.iter().copied().find(|&part| wire[part].1.len() > 300).unwrap();
        let keep = 5 + usize::from(u16::from_be_bytes([wire[part].1[3], wire[part].1[4]]));
        let lost = wire[part].1.split_off(keep).len();
        wire.insert(part + 1, (1, Vec::new()));
        let opened = open_with(&wire, &keys, usize::MAX, lost);
        assert_eq!(opened.outcome, Ok(()), "{suite:?}");
        assert!(text(&session.said, 1) == opened.text[1]);
    }
}

/// A log that is written while the capture goes on.
#[test]
fn records_wait_for_a_key_that_may_still_come() {
    let (suite, version) = suites()[0];
    let pair = Pair::new(suite, version);
    let mut session = pair.open();
    session.talk();
    let path = std::env::temp_dir().join(format!("plimsoll-late-keys-{}", std::process::id()));
    std::fs::write(&path, "").unwrap();
    let late = Keys::of_files(std::slice::from_ref(&path), true).unwrap();
    let (mut opener, mut clear) = (Opener::default(), Clear::default());
    let (before, after) = session.wire.split_at(6);
    for (from, bytes) in before {
        opener.take(*from, Nanos(1), Piece::Data(bytes), &late, &mut clear).unwrap();
    }
    assert!(clear.parts.is_empty() && opener.kept() > 0);
    std::fs::write(&path, pair.log.0.lock().unwrap().as_bytes()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(60));
    for (from, bytes) in after {
        opener.take(*from, Nanos(2), Piece::Data(bytes), &late, &mut clear).unwrap();
    }
    assert_eq!(opener.close(&late, &mut clear), Ok(()));
    std::fs::remove_file(&path).unwrap();
    let order: Vec<usize> = clear.parts.iter().map(|part| part.direction).collect();
    assert_eq!(order[..4], [0, 1, 0, 1], "in the order in which they were said");
    // Without an end, what waits is bounded.
    std::fs::write(&path, "").unwrap();
    let never = Keys::of_files(std::slice::from_ref(&path), true).unwrap();
    let mut opener = Opener::default();
    let outcome = session
        .wire
        .iter()
        .try_for_each(|(from, bytes)| opener.take(*from, Nanos(1), Piece::Data(bytes), &never, &mut clear));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(outcome, Err(Unopened::NoKey));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    /// Whatever befalls a session on its way into a capture: what is opened is a part of what was said, in its order.
    #[test]
    fn nothing_is_opened_that_was_not_said(
        changes in prop::collection::vec((any::<usize>(), any::<usize>(), any::<Option<u8>>()), 0..6),
        garbage in prop::collection::vec((0..2_usize, prop::collection::vec(any::<u8>(), 0..300)), 0..4),
        choice in 0..6_usize,
        size in 1..3000_usize,
    ) {
        let (suite, version) = suites()[choice];
        let pair = Pair::new(suite, version);
        let mut session = pair.open();
        session.talk();
        let mut wire = session.wire.clone();
        for (part, place, byte) in changes {
            let count = wire.len();
            let bytes = &mut wire[part % count].1;
            if bytes.is_empty() {
                continue;
            }
            let place = place % bytes.len();
            match byte {
                Some(byte) => bytes[place] = byte,
                None => bytes.truncate(place),
            }
        }
        wire.extend(garbage);
        let opened = open(&wire, &pair.keys(), size);
        for by in [0, 1] {
            let all = text(&session.said, by);
            if opened.gaps == 0 {
                prop_assert!(all.starts_with(&opened.text[by]));
            }
            prop_assert!(opened.text[by].len() <= all.len());
        }
    }

    /// Bytes that nobody meant to send.
    #[test]
    fn any_bytes_are_survived(
        said in prop::collection::vec((0..2_usize, prop::collection::vec(any::<u8>(), 0..200)), 0..8),
        size in 1..100_usize,
    ) {
        let opened = open(&said, &Keys::default(), size);
        prop_assert!(opened.text.iter().all(Vec::is_empty) && opened.outcome.is_err());
    }
}
