//! MongoDB: messages and documents of any form, compressed or not.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (u8, Vec<(bool, Vec<u8>)>)| {
    plimsoll_fuzz::converse(
        27017,
        b"\x1f\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x0a\0\0\0\x0ax\0\0\0\0",
        data.0,
        &data.1,
    );
});
