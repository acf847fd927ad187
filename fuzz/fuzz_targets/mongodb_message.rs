//! Any bytes as a message of MongoDB's wire protocol: none panics, and what is read may be written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::mongodb::{Message, length};

fuzz_target!(|bytes: &[u8]| {
    let _ = length(bytes);
    if let Ok(message) = Message::read(bytes) {
        let mut written = Vec::new();
        message.write(&mut written);
        // Sequences have become lists by now, which may be nested too deep.
        let _ = Message::read(&written);
    }
});
