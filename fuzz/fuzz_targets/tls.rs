//! Records of TLS and key logs of any kind: nothing panics, is kept without a bound, or is opened with keys of no session.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_capture::tls::keys::Keys;
use plimsoll_capture::tls::{Clear, Opener, Piece, What};
use plimsoll_model::Nanos;

/// A ClientHello and a ServerHello of TLS 1.3 or 1.2, of randoms that are all ones and all twos, so that there is a session.
fn hello(kind: u8, middle: &[u8], extensions: &[u8]) -> Vec<u8> {
    let random = [kind; 32];
    let length = (extensions.len() as u16).to_be_bytes();
    let body = [&[3, 3][..], &random, &[0], middle, &length, extensions].concat();
    let record = ((body.len() + 4) as u16).to_be_bytes();
    let message = [kind, 0, 0, body.len() as u8];
    [&[22, 3, 3][..], &record, &message, &body].concat()
}

fuzz_target!(|data: (bool, u8, Vec<u8>, Vec<(bool, Vec<u8>)>)| {
    let (newer, cut, log, parts) = data;
    let keys = Keys::default();
    keys.read(&log, "fuzz".into());
    for label in [
        "CLIENT_RANDOM",
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
    ] {
        keys.learn(label, &[1; 32], if label == "CLIENT_RANDOM" { &[3; 48] } else { &[3; 32] });
    }
    let client = hello(1, &[0, 2, 0x13, 1, 1, 0], &[]);
    let server = if newer {
        hello(2, &[0x13, 1, 0], &[0, 43, 0, 2, 3, 4])
    } else {
        hello(2, &[0xc0, 0x2f, 0], &[])
    };
    let (mut opener, mut clear) = (Opener::default(), Clear::default());
    let beginning = [(false, client), (true, server)];
    for (by_server, bytes) in beginning.iter().chain(&parts) {
        let direction = usize::from(*by_server);
        let mut pieces: Vec<Piece<'_>> =
            bytes.chunks(usize::from(cut).max(1)).map(Piece::Data).collect();
        if bytes.is_empty() {
            pieces.push(Piece::Gap(u64::from(cut)));
        }
        for piece in pieces {
            if opener.take(direction, Nanos::ZERO, piece, &keys, &mut clear).is_err() {
                return;
            }
            assert!(opener.kept() < 1 << 20);
        }
    }
    let _ = opener.close(&keys, &mut clear);
    assert!(clear.parts.iter().all(|part| !matches!(part.what, What::Data(_))));
});
