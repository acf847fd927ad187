//! What operations carry: values of one path, in the format that was asked for (1.1 core, section 7.4).

use super::path::DEEPEST;
use super::senml::{Record, cbor, json};
use super::tlv::{self, Entries, Level};
use super::{Given, MOST_ENTRIES, Malformed, Path, Value, format, text};
use std::borrow::Cow;

/// Appends values of what lies at or below a path, in the order of their paths. Whether the format can carry them: plain text and
/// opaque have room for one value.
pub fn write(content_format: u16, base: Path, entries: &[(Path, Value<'_>)], out: &mut Vec<u8>) -> bool {
    match (content_format, entries) {
        (format::TEXT | format::OLD_TEXT, [(path, value)]) if *path == base => text::write(*value, out),
        (format::OPAQUE, [(path, Value::Opaque(bytes))]) if *path == base => out.extend_from_slice(bytes),
        // A resource, or an instance of one, that was asked for by itself is written with its own number.
        (format::TLV | format::OLD_TLV, _) => {
            let depth = if base.depth() == DEEPEST { DEEPEST - 1 } else { base.depth().min(2) };
            write_tlv(depth, entries, out);
        }
        (format::SENML_JSON, _) => json::write(base, entries, out),
        (format::SENML_CBOR, _) => cbor::write(base, entries, out),
        _ => return false,
    }
    true
}

/// Appends entries as TLV, from below that depth of their paths on.
fn write_tlv(depth: usize, entries: &[(Path, Value<'_>)], out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    for group in entries.chunk_by(|(one, _), (other, _)| one.up_to(depth + 1) == other.up_to(depth + 1)) {
        let Some((first, value)) = group.first() else { continue };
        let Some(id) = first.ids().get(depth).copied() else { continue };
        let is_whole = first.depth() == depth + 1;
        let level = match (depth, is_whole) {
            // All objects at once have no form in TLV: their instances stand side by side.
            (0, _) => {
                write_tlv(1, group, out);
                continue;
            }
            (1, _) => Level::ObjectInstance,
            (2, true) => Level::Resource,
            (2, false) => Level::MultipleResource,
            _ => Level::ResourceInstance,
        };
        if is_whole {
            tlv::write_entry(level, id, *value, out);
        } else {
            inner.clear();
            write_tlv(depth + 1, group, &mut inner);
            tlv::write(level, id, &inner, out);
        }
    }
}

/// Reads the values of what lies at or below a path. Plain text and opaque have one value, that of the path itself.
///
/// # Errors
/// The payload is malformed, has something that is not below the path, or its format is not known.
pub fn read(content_format: u16, base: Path, payload: &[u8]) -> Result<Vec<(Path, Given<'_>)>, Malformed> {
    let values = match content_format {
        format::TEXT | format::OLD_TEXT => {
            let text = std::str::from_utf8(payload).map_err(|_| malformed("plain text that is no UTF-8"))?;
            vec![(base, Given::Text(text.into()))]
        }
        format::OPAQUE => vec![(base, Given::Bytes(payload.into()))],
        format::TLV | format::OLD_TLV => {
            let mut values = Vec::new();
            read_tlv(base, 0, payload, &mut values)?;
            values
        }
        format::SENML_JSON => named(json::read(payload)?)?,
        format::SENML_CBOR => named(cbor::read(payload)?)?,
        _ => return Err(malformed("a format that is not known")),
    };
    let is_inside = |(path, _): &(Path, Given<'_>)| base.covers(path);
    if values.iter().all(is_inside) { Ok(values) } else { Err(malformed("a value outside of its path")) }
}

/// Reads the paths that a composite request names; values that stand there are left aside.
///
/// # Errors
/// The payload is malformed, names what is no path, or its format is none of several paths.
pub fn read_paths(content_format: u16, payload: &[u8]) -> Result<Vec<Path>, Malformed> {
    let path = |record: Record<'_>| record.path().ok_or(malformed("a record without a path"));
    match content_format {
        format::SENML_JSON => json::read(payload)?.into_iter().map(path).collect(),
        format::SENML_CBOR => cbor::read(payload)?.into_iter().map(path).collect(),
        _ => Err(malformed("a format that names no paths")),
    }
}

/// The instance that a payload creates, where it says which.
pub fn created_instance(content_format: u16, payload: &[u8]) -> Option<u16> {
    match content_format {
        format::TLV | format::OLD_TLV => {
            let first = Entries::new(payload).next()?.ok()?;
            (first.level == Level::ObjectInstance).then_some(first.id)
        }
        format::SENML_JSON => json::read(payload).ok()?.first()?.path()?.instance(),
        format::SENML_CBOR => cbor::read(payload).ok()?.first()?.path()?.instance(),
        _ => None,
    }
}

/// Reads entries that have so many levels above them at least: what is in an entry is below it, so that none is endlessly deep.
fn read_tlv<'a>(
    base: Path,
    least: usize,
    payload: &'a [u8],
    values: &mut Vec<(Path, Given<'a>)>,
) -> Result<(), Malformed> {
    for entry in Entries::new(payload) {
        let entry = entry?;
        // The levels above an entry are those of the path that was asked for.
        let above = match entry.level {
            Level::ObjectInstance => 1,
            Level::Resource | Level::MultipleResource => 2,
            Level::ResourceInstance => 3,
        };
        let outside = malformed("a value that its path has no place for");
        if base.depth() < above || above < least {
            return Err(outside);
        }
        let path = base.up_to(above).child(entry.id).ok_or(outside)?;
        match entry.level {
            Level::ObjectInstance | Level::MultipleResource => {
                read_tlv(path, path.depth(), entry.value, values)?;
            }
            Level::Resource | Level::ResourceInstance if values.len() >= MOST_ENTRIES => {
                return Err(malformed("more values than a device has"));
            }
            Level::Resource | Level::ResourceInstance => {
                values.push((path, Given::Bytes(Cow::Borrowed(entry.value))));
            }
        }
    }
    Ok(())
}

fn named(records: Vec<Record<'_>>) -> Result<Vec<(Path, Given<'_>)>, Malformed> {
    records.into_iter().map(path_and_value).collect()
}

fn path_and_value(record: Record<'_>) -> Result<(Path, Given<'_>), Malformed> {
    let path = record.path().ok_or(malformed("a record without a path"))?;
    Ok((path, record.value.ok_or(malformed("a record without a value"))?))
}

fn malformed(what: &'static str) -> Malformed {
    Malformed { format: "payload of LwM2M", what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTH_WAYS: [u16; 4] = [format::TLV, format::OLD_TLV, format::SENML_JSON, format::SENML_CBOR];

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    #[test]
    fn one_resource_goes_in_every_format() {
        let own = path("/3303/0/5700");
        for content_format in [format::TEXT, format::OLD_TEXT].into_iter().chain(BOTH_WAYS) {
            let (mut out, value) = (Vec::new(), Value::Float(21.5));
            assert!(write(content_format, own, &[(own, value)], &mut out));
            let read = read(content_format, own, &out).unwrap();
            assert_eq!(read.len(), 1, "{content_format}");
            assert_eq!((read[0].0, read[0].1.as_kind(value.kind())), (own, Some(value)), "{content_format}");
        }
        let mut out = Vec::new();
        assert!(write(format::OPAQUE, own, &[(own, Value::Opaque(b"ab"))], &mut out) && out == b"ab");
        assert!(!write(format::OPAQUE, own, &[(own, Value::Float(1.0))], &mut out));
        assert!(!write(format::TEXT, own.up_to(2), &[(own, Value::Float(1.0))], &mut out));
        assert!(!write(999, own, &[(own, Value::Float(1.0))], &mut out));
    }

    #[test]
    fn instances_objects_and_several_values_of_a_resource_go_too() {
        let entries = [
            (path("/3/0/0"), Value::String("maker")),
            (path("/3/0/6/0"), Value::Integer(1)),
            (path("/3/0/6/1"), Value::Integer(5)),
            (path("/3/0/9"), Value::Integer(100)),
        ];
        for base in [path("/3"), path("/3/0")] {
            for content_format in BOTH_WAYS {
                let mut out = Vec::new();
                assert!(write(content_format, base, &entries, &mut out));
                let read = read(content_format, base, &out).unwrap();
                let paths: Vec<Path> = read.iter().map(|(path, _)| *path).collect();
                assert_eq!(paths, entries.map(|(path, _)| path), "{content_format} {base}");
            }
        }
    }

    #[test]
    fn a_resource_that_was_asked_for_stands_with_its_number() {
        let mut out = Vec::new();
        write(format::TLV, path("/3/0/9"), &[(path("/3/0/9"), Value::Integer(100))], &mut out);
        assert_eq!(out, [0xc1, 9, 100]);
        out.clear();
        write(format::TLV, path("/3/0/6"), &[(path("/3/0/6/1"), Value::Integer(5))], &mut out);
        assert_eq!(out, [0x83, 6, 0x41, 1, 5]);
    }

    #[test]
    fn entries_in_entries_of_their_own_level_are_refused() {
        let mut nested = Vec::new();
        for _ in 0..5_000 {
            let mut outer = Vec::new();
            tlv::write(Level::ObjectInstance, 0, &nested, &mut outer);
            nested = outer;
        }
        assert!(read(format::TLV, path("/3"), &nested).is_err());
    }

    #[test]
    fn a_payload_may_say_which_instance_it_creates() {
        let (mut wrapped, mut bare) = (Vec::new(), Vec::new());
        write(format::TLV, path("/3303"), &[(path("/3303/7/5700"), Value::Integer(1))], &mut wrapped);
        write(format::TLV, path("/3303/7"), &[(path("/3303/7/5700"), Value::Integer(1))], &mut bare);
        assert_eq!(created_instance(format::TLV, &wrapped), Some(7));
        assert_eq!(created_instance(format::TLV, &bare), None);
        assert_eq!(created_instance(format::SENML_JSON, br#"[{"n":"/3303/7/5700","v":1}]"#), Some(7));
    }

    #[test]
    fn a_composite_request_names_paths() {
        let named = br#"[{"n":"/3/0/9"},{"bn":"/3303/","n":"0/5700"}]"#;
        assert_eq!(read_paths(format::SENML_JSON, named).unwrap(), [path("/3/0/9"), path("/3303/0/5700")]);
        assert!(read_paths(format::SENML_JSON, br#"[{"n":"x"}]"#).is_err());
        assert!(read_paths(format::TLV, named).is_err());
    }

    #[test]
    fn what_is_not_below_the_path_is_refused() {
        let inside = br#"[{"bn":"/3/0/9","v":1}]"#;
        assert!(read(format::SENML_JSON, path("/3"), inside).is_ok());
        assert!(read(format::SENML_JSON, path("/4"), inside).is_err());
        assert!(read(format::TLV, path("/3"), &[0xc1, 9, 100]).is_err(), "a resource of no instance");
        assert!(read(format::TLV, path("/3/0/8"), &[0xc1, 9, 100]).is_err());
        assert!(read(50, path("/3"), b"{}").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            ids in prop::collection::vec(0..5_u16, 0..4)
        ) {
            let base = Path::new(&ids).unwrap();
            let known = [0, 40, 42, 110, 112, 1541, 1542, 11542];
            for content_format in known {
                let _ = (read(content_format, base, &bytes).is_ok(), created_instance(content_format, &bytes));
            }
        }
    }
}
