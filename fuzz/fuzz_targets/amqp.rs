//! AMQP 0-9-1: frames of any type on any channel.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (u8, Vec<(bool, Vec<u8>)>)| {
    plimsoll_fuzz::converse(5672, b"AMQP\0\0\x09\x01", data.0, &data.1);
});
