//! Any bytes, cut anywhere, as an answer that is taken as it comes: no panic, and the same messages however they are cut. The same bytes
//! as packets of Socket.IO.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::http::{Messages, StreamReader};
use plimsoll_codec::socket_io::Packet;

/// The messages of an answer that comes in pieces of that size, and whether all was well.
fn read(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut reader, mut messages) = (StreamReader::default(), Messages::default());
    let (mut body, mut seen, mut has_begun) = (Vec::new(), Vec::new(), false);
    for piece in bytes.chunks(piece.max(1)) {
        let pushed = reader.push(piece, &mut body);
        if let Some(begun) = reader.begun()
            && !std::mem::replace(&mut has_begun, true)
        {
            messages.begin(begun.has_events);
        }
        let cut = messages.push(&body, 4096, &mut |message| seen.push(message.to_vec()));
        body.clear();
        if pushed.is_err() || cut.is_err() {
            return (seen, false);
        }
    }
    (seen, reader.end().is_ok())
}

fuzz_target!(|data: (u8, bool, Vec<u8>)| {
    let (piece, has_events, bytes) = data;
    Packet::read(&bytes);
    let kind = if has_events { "text/event-stream" } else { "application/json" };
    let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: {kind}\r\n\r\n");
    for bytes in [bytes.clone(), [head.as_bytes(), &bytes].concat()] {
        assert_eq!(read(&bytes, usize::from(piece)), read(&bytes, bytes.len()));
    }
});
