//! NATS: lines and contents of any size.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (u8, Vec<(bool, Vec<u8>)>)| {
    plimsoll_fuzz::converse(4222, b"SUB x 1\r\n", data.0, &data.1);
});
