//! Any bytes as a CoAP datagram: none panics, and what is read is the same when written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::coap::Message;

fuzz_target!(|datagram: &[u8]| {
    if let Ok(message) = Message::decode(datagram) {
        let mut written = Vec::new();
        message.encode(&mut written);
        assert_eq!(written, datagram);
        let _ = message.path();
    }
});
