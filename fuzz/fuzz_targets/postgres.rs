//! PostgreSQL: messages of any type in any order.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (u8, Vec<(bool, Vec<u8>)>)| {
    plimsoll_fuzz::converse(5432, b"S\0\0\0\x04", data.0, &data.1);
});
