//! AMQP 1.0: frames of both sides, on links and sessions of any number.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (u8, Vec<(bool, Vec<u8>)>)| {
    plimsoll_fuzz::converse(5672, b"AMQP\0\x01\0\0", data.0, &data.1);
});
