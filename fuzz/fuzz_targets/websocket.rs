//! Any bytes as frames of WebSocket and as an answer to its handshake: nothing panics, and it does not matter how they
//! are cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::websocket::{Deflate, Reader, Request};

/// The content of messages, and whether all was well.
fn read(mut reader: Reader, bytes: &[u8], cut: usize) -> (Vec<u8>, bool) {
    let mut data = Vec::new();
    for piece in bytes.chunks(cut) {
        let mut rest = piece;
        while !rest.is_empty() {
            match reader.read(rest, &mut data) {
                Ok((taken, _)) => rest = &rest[taken..],
                Err(_) => return (data, false),
            }
        }
    }
    (data, true)
}

fuzz_target!(|bytes: &[u8]| {
    for compression in [false, true] {
        let subprotocol = Some("mqtt");
        let request = Request { host: "h", path: "/", subprotocol, headers: "", compression, key: [0; 16] };
        let _ = request.answered(bytes);
    }
    let mut out = Vec::new();
    let _ = Deflate::default().decompress(bytes, 1 << 16, &mut out);
    for reader in [Reader::of_server(), Reader::of_server().compressed(), Reader::of_client()] {
        assert_eq!(read(reader.clone(), bytes, 1), read(reader, bytes, bytes.len().max(1)));
    }
});
