//! Any bytes as frames of workers and as the messages in them: nothing panics, and what is read is the same when written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_workers::frame::Frame;
use plimsoll_workers::message::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(frame) = Frame::decode(bytes) {
        assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
    }
    if let Ok(message) = Message::decode(bytes) {
        assert!(Message::decode(&message.encode()).is_ok());
    }
});
