//! Any bytes as a stream of CoAP over TCP: none panics, and what is read is the same when written again, unless it was longer than it
//! need be.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::coap::stream::{self, Frame};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Frame::Message(message, length)) = stream::decode(rest, 1 << 20) {
        let mut written = Vec::new();
        stream::encode(&message, &mut written);
        assert!(written.len() <= length);
        assert_eq!(written.len(), stream::length(&message));
        assert_eq!(stream::decode(&written, 1 << 20), Ok(Frame::Message(message, written.len())));
        let _ = (message.path(), message.block_of_stream(23), message.block_of_stream(27));
        rest = &rest[length..];
    }
});
