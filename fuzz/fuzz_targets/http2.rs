//! HTTP/2: frames and blocks of fields of both sides.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (u8, Vec<(bool, Vec<u8>)>)| {
    plimsoll_fuzz::converse(8080, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", data.0, &data.1);
});
