//! Redis: replies, commands and messages of any kind.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (u8, Vec<(bool, Vec<u8>)>)| {
    plimsoll_fuzz::converse(6379, b"*1\r\n$4\r\nPING\r\n", data.0, &data.1);
});
