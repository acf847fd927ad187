//! Any bytes as an answer with records that comes in pieces: none panics, and none is read for ever.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::kafka::streamed::{Piece, Records};

fuzz_target!(|bytes: &[u8]| {
    let mut records = Records::new(bytes.len());
    let mut rest = bytes;
    while let Ok(Some(length)) = records.length(rest) {
        let Some((piece, after)) = rest.split_at_checked(length).filter(|_| length > 0) else { break };
        match records.take(piece) {
            Err(_) => break,
            Ok(Piece::Packed(packed)) => drop(packed.unpack(&mut |_| ())),
            Ok(_) => {}
        }
        rest = after;
    }
});
