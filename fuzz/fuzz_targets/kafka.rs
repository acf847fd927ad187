//! Kafka: requests and responses of any version, with batches of any codec.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (u8, Vec<(bool, Vec<u8>)>)| {
    plimsoll_fuzz::converse(9092, b"\0\0\0\x0c\0\x01\0\x04\0\0\0\x01\0\x02me", data.0, &data.1);
});
