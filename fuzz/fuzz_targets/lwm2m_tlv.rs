//! Any bytes as TLV of LwM2M: none panics, entries that are written anew are read as they were, and so are their values.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::lwm2m::tlv::{self, Entries};
use plimsoll_codec::lwm2m::{Kind, Path, format, payload};

fuzz_target!(|bytes: &[u8]| {
    let entries: Vec<_> = Entries::new(bytes).flatten().collect();
    let mut anew = Vec::new();
    entries.iter().for_each(|entry| tlv::write(entry.level, entry.id, entry.value, &mut anew));
    assert!(Entries::new(&anew).flatten().eq(entries.iter().copied()));
    for entry in &entries {
        for value in Kind::ALL.into_iter().filter_map(|kind| tlv::read_value(entry.value, kind)) {
            let mut written = Vec::new();
            tlv::write_value(value, &mut written);
            let again = tlv::read_value(&written, value.kind());
            // What is no number is not equal to itself.
            assert!(again == Some(value) || value.number().is_some_and(f64::is_nan));
        }
    }
    for base in [Path::ROOT, Path::resource(3, 0, 9).up_to(2), Path::resource(3, 0, 9)] {
        let _ = payload::read(format::TLV, base, bytes);
    }
});
