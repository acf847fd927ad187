//! Any bytes as operations of a NATS server: none panics, and none is longer than it says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::nats;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some(length)) = nats::length(rest) {
        let Some((operation, after)) = rest.split_at_checked(length) else { break };
        let _ = nats::decode(operation);
        rest = after;
    }
});
