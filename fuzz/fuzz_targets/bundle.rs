//! A bundle: any bytes are read or refused with a reason. The bytes are those of the archive, so that most of what is tried gets through
//! the packing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::packing::{Packing, pack};
use plimsoll_runner::bundle::Bundle;

fuzz_target!(|bytes: &[u8]| {
    let _ = Bundle::open(bytes);
    if let Ok(packed) = pack(Packing::Gzip, bytes)
        && let Ok(bundle) = Bundle::open(packed.as_slice())
    {
        assert!(!bundle.scenario().is_empty() || bundle.file("scenario.yaml").is_some());
        assert!(bundle.file("../scenario.yaml").is_none());
    }
});
