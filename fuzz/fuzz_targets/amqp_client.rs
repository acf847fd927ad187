//! Any bytes as frames of an AMQP broker: none panics, and none is longer than it says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::amqp;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some(length)) = amqp::length(rest) {
        let Some((frame, after)) = rest.split_at_checked(length) else { break };
        let _ = amqp::decode(frame);
        rest = after;
    }
});
