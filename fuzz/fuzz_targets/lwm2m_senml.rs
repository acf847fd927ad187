//! Any bytes as SenML in JSON and in CBOR: none panics, and what is read is the same when it is written anew.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_codec::lwm2m::senml::{cbor, json};
use plimsoll_codec::lwm2m::{Given, Kind, Path, Value};

/// The value as it is written: kinds are those that the format tells apart.
fn value<'a>(given: &'a Given<'_>) -> Value<'a> {
    match given {
        Given::Bytes(bytes) => Value::Opaque(bytes),
        Given::Text(text) => Value::String(text),
        other => Kind::ALL.into_iter().find_map(|kind| other.as_kind(kind)).unwrap(),
    }
}

fuzz_target!(|bytes: &[u8]| {
    for records in [json::read(bytes), cbor::read(bytes)].into_iter().flatten() {
        let entries: Option<Vec<(Path, Value<'_>)>> =
            records.iter().map(|record| Some((record.path()?, value(record.value.as_ref()?)))).collect();
        let Some(entries) = entries.filter(|entries| !entries.is_empty()) else { continue };
        let is_finite = |(_, value): &(Path, Value<'_>)| value.number().is_none_or(f64::is_finite);
        if !entries.iter().all(is_finite) {
            continue;
        }
        let (mut in_json, mut in_cbor) = (Vec::new(), Vec::new());
        json::write(Path::ROOT, &entries, &mut in_json);
        cbor::write(Path::ROOT, &entries, &mut in_cbor);
        for again in [json::read(&in_json).unwrap(), cbor::read(&in_cbor).unwrap()] {
            assert!(again.len() == entries.len());
            for (record, (path, _)) in again.iter().zip(&entries) {
                assert_eq!(record.path(), Some(*path));
            }
        }
    }
});
