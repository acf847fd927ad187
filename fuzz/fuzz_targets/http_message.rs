//! Any bytes, cut anywhere, as requests and as answers: no panic, and the same messages however they are cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::http::{Reader, Side};

/// What a reader makes of bytes that come in pieces of that size and then end.
fn read(side: Side, bytes: &[u8], piece: usize) -> Vec<Option<(usize, Vec<u8>)>> {
    let mut reader = Reader::new(side, 4096);
    let mut seen = Vec::new();
    let mut pieces = bytes.chunks(piece.max(1)).map(Some).chain([None]);
    while let Some(piece) = pieces.next() {
        reader.push(piece.unwrap_or_default());
        loop {
            match reader.take(piece.is_none(), false) {
                Ok(Some(message)) => seen.push(Some((message.wire_bytes as usize, message.body.to_vec()))),
                Ok(None) => break,
                Err(_) => {
                    seen.push(None);
                    return seen;
                }
            }
        }
    }
    seen
}

fuzz_target!(|data: (u8, Vec<u8>)| {
    let (piece, bytes) = data;
    for side in [Side::Answer, Side::Request] {
        assert_eq!(read(side, &bytes, usize::from(piece)), read(side, &bytes, bytes.len()));
    }
});
