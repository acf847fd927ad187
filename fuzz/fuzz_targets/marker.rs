//! Any bytes as payloads: no search panics, and a marker that is found is the same when written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::marker::{INTEGER_LENGTH, Marker};

fuzz_target!(|payload: &[u8]| {
    if let Some(marker) = Marker::read_binary(payload) {
        assert!(payload.starts_with(&marker.to_binary()));
    }
    if let Some(marker) = Marker::find_ascii(payload) {
        let mut text = Vec::new();
        marker.write_ascii(&mut text);
        assert!(payload.windows(text.len()).any(|window| window == text));
    }
    let run_tag = payload.first().copied().map_or(0, u16::from);
    if let Some(marker) = Marker::find_integer(payload, run_tag) {
        assert_eq!(marker.run, run_tag);
        let number = marker.to_integer().map(|number| number.to_string()).unwrap_or_default();
        assert!((1..=INTEGER_LENGTH).contains(&number.len()));
        assert!(payload.windows(number.len()).any(|window| window == number.as_bytes()));
    }
});
