//! Any bytes as CBOR: none panics, and what is read as JSON is the same when written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::cbor;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = cbor::to_json(bytes) {
        let mut written = Vec::new();
        cbor::write_json(&value, &mut written);
        assert_eq!(cbor::to_json(&written), Ok(value));
    }
});
