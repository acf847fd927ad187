//! Any bytes as frames of an AMQP 1.0 broker: none panics, and none is longer than it says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::amqp1::{self, Frame, message, performatives};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some(length)) = amqp1::length(rest) {
        let Some((frame, after)) = rest.split_at_checked(length) else { break };
        if let Ok(Frame::Performative(number, fields, payload)) = amqp1::decode(frame) {
            let _ = performatives::read(number, fields, payload);
            let _ = message::content(payload, &mut Vec::new());
        }
        rest = after;
    }
});
