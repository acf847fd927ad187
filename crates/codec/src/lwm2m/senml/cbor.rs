//! SenML in CBOR (RFC 8428 section 6; CBOR is RFC 8949).

use super::{Base, Given, MOST_ENTRIES, Malformed, Path, Record, Value, Written, json, names};
use crate::cbor::major::{ARRAY, MAP};
use crate::cbor::{self, Item, Reader, boolean, bytes, float, head, integer, text};

/// Labels of a record (RFC 8428 section 6).
const BASE_NAME: i64 = -2;
const BASE_VALUE: i64 = -5;
const NAME: i64 = 0;
const NUMBER: i64 = 2;
const STRING: i64 = 3;
const BOOLEAN: i64 = 4;
const DATA: i64 = 8;
/// LwM2M's own label, as text.
const OBJECT_LINK: &str = "vlo";

/// How deep what a record says beside its value may be.
const DEEPEST: u8 = 8;

fn record<'a>(reader: &mut Reader<'a>) -> Result<Written<'a>, Malformed> {
    let Item::Map(length) = reader.item()? else { return Err(malformed("a record is no map")) };
    let (mut record, mut read) = (Written::default(), 0);
    while reader.has_more(length, read)? {
        let label = reader.item()?;
        field(reader, label, &mut record)?;
        read += 1;
    }
    Ok(record)
}

fn field<'a>(reader: &mut Reader<'a>, label: Item<'a>, record: &mut Written<'a>) -> Result<(), Malformed> {
    let item = reader.item()?;
    match (label, item) {
        (Item::Integer(BASE_NAME), Item::Text(name)) => record.base_name = Some(name.into()),
        (Item::Integer(NAME), Item::Text(name)) => record.name = Some(name.into()),
        (Item::Integer(BASE_VALUE), Item::Float(number)) => record.base_value = Some(number),
        (Item::Integer(BASE_VALUE), Item::Integer(number)) => record.base_value = Some(number as f64),
        (Item::Integer(NUMBER), Item::Integer(number)) => record.value = Some(Given::Integer(number)),
        (Item::Integer(NUMBER), Item::Float(number)) => record.value = Some(Given::Float(number)),
        (Item::Integer(STRING), Item::Text(text)) => record.value = Some(Given::Text(text.into())),
        (Item::Integer(BOOLEAN), Item::Boolean(is_true)) => record.value = Some(Given::Boolean(is_true)),
        (Item::Integer(DATA), Item::Bytes(bytes)) => record.value = Some(Given::Bytes(bytes.into())),
        (Item::Text(OBJECT_LINK), Item::Text(text)) => {
            record.value = Some(json::link(text).ok_or(malformed("`vlo` is no object and instance"))?);
        }
        (Item::Integer(BASE_NAME | BASE_VALUE | NAME | NUMBER | STRING | BOOLEAN | DATA), _) => {
            return Err(malformed("a field has an item of another kind"));
        }
        _ => reader.skip_inside(item, DEEPEST)?,
    }
    Ok(())
}

/// Reads a pack.
///
/// # Errors
/// It is no array of records, or something follows it.
pub fn read(payload: &[u8]) -> Result<Vec<Record<'_>>, Malformed> {
    let mut reader = Reader { rest: payload };
    let Item::Array(length) = reader.item()? else { return Err(malformed("it is no array of records")) };
    let (mut base, mut records) = (Base::default(), Vec::new());
    while reader.has_more(length, records.len() as u64)? {
        if records.len() >= MOST_ENTRIES {
            return Err(malformed("more records than a device has values"));
        }
        let record = record(&mut reader)?;
        records.push(base.resolve(record).ok_or(malformed("a name is longer than a path can be"))?);
    }
    if !reader.rest.is_empty() {
        return Err(malformed("something follows the records"));
    }
    Ok(records)
}

const fn malformed(what: &'static str) -> Malformed {
    Malformed { format: "SenML in CBOR", what }
}

impl From<cbor::Malformed> for Malformed {
    fn from(cbor::Malformed(what): cbor::Malformed) -> Malformed {
        malformed(what)
    }
}

/// Appends a pack about a path.
pub fn write(base: Path, entries: &[(Path, Value<'_>)], out: &mut Vec<u8>) {
    head(ARRAY, entries.len() as u64, out);
    for (at, (path, value)) in entries.iter().enumerate() {
        let (base_name, name) = names(base, *path);
        let (has_base, has_name) = (at == 0, !name.as_str().is_empty());
        head(MAP, 1 + u64::from(has_base) + u64::from(has_name), out);
        if has_base {
            label(BASE_NAME, out);
            text(base_name.as_str(), out);
        }
        if has_name {
            label(NAME, out);
            text(name.as_str(), out);
        }
        write_value(*value, out);
    }
}

fn write_value(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Integer(number) | Value::Time(number) => {
            label(NUMBER, out);
            integer(number, out);
        }
        Value::Float(number) => {
            label(NUMBER, out);
            float(number, out);
        }
        Value::Boolean(is_true) => {
            label(BOOLEAN, out);
            boolean(is_true, out);
        }
        Value::String(value) => {
            label(STRING, out);
            text(value, out);
        }
        Value::Opaque(value) => {
            label(DATA, out);
            bytes(value, out);
        }
        Value::ObjectLink(object, instance) => {
            text(OBJECT_LINK, out);
            text(&format!("{object}:{instance}"), out);
        }
    }
}

fn label(number: i64, out: &mut Vec<u8>) {
    integer(number, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_is_as_short_as_it_can_be() {
        let path = Path::resource(3303, 0, 5700);
        let mut out = Vec::new();
        write(path, &[(path, Value::Float(21.5))], &mut out);
        let mut expected = vec![0x81, 0xa2, 0x21, 0x6c];
        expected.extend_from_slice(b"/3303/0/5700");
        expected.extend([0x02, 0xfa, 0x41, 0xac, 0, 0]);
        assert_eq!(out, expected);
    }

    #[test]
    fn unsaid_lengths_and_tags_are_read() {
        // [_ {_ -2: "/3/0/", 0: "9", 2: 50(tag 1), 99: [1, {2: 3}]}]
        let pack = [
            0x9f, 0xbf, 0x21, 0x65, b'/', b'3', b'/', b'0', b'/', 0x00, 0x61, b'9', 0x02, 0xc1, 0x18, 50,
            0x18, 99, 0x82, 0x01, 0xa1, 0x02, 0x03, 0xff, 0xff,
        ];
        let records = read(&pack).unwrap();
        assert_eq!(records, [Record { name: "/3/0/9".to_owned(), value: Some(Given::Integer(50)) }]);
    }

    #[test]
    fn what_is_no_pack_is_malformed() {
        for wrong in [
            &[][..],
            &[0xa0],
            &[0x81],
            &[0x81, 0x01],
            &[0x81, 0xa1, 0x00, 0x01],
            &[0x81, 0xa1, 0x03, 0x01],
            &[0x80, 0x00],
            &[0x9f],
            &[0x81, 0xa1, 0x02, 0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x81, 0xa1, 0x18, 99, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x81, 0x01],
            &[0x81, 0xa1, 0x03, 0x7f, 0x61, b'a', 0xff],
        ] {
            assert!(read(wrong).is_err(), "{wrong:x?}");
        }
    }
}
