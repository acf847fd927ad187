//! SenML in CBOR (RFC 8428 section 6; CBOR is RFC 8949).

use super::{Base, Given, MOST_ENTRIES, Malformed, Path, Record, Value, Written, json, names};

/// Kinds of items of CBOR (RFC 8949 section 3.1), in the upper three bits of their first byte.
const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;
/// The first byte of what ends an array or a map whose length is not said.
const BREAK: u8 = 0xff;
/// An array or a map whose length is not said.
const INDEFINITE: u8 = 31;

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

/// An item, without what it holds if it is an array or a map.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Item<'a> {
    /// A whole number.
    Integer(i64),
    Float(f64),
    Bytes(&'a [u8]),
    Text(&'a str),
    /// Of so many items, or of unsaid length.
    Array(Option<u64>),
    /// Of so many pairs, or of unsaid length.
    Map(Option<u64>),
    Boolean(bool),
    /// Something else that stands for itself.
    Other,
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (&byte, rest) = self.rest.split_first().ok_or(TOO_SHORT)?;
        self.rest = rest;
        Ok(byte)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| TOO_SHORT)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(TOO_SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The number in or behind the first byte of an item.
    fn argument(&mut self, info: u8) -> Result<u64, Malformed> {
        let length = match info {
            0..=23 => return Ok(u64::from(info)),
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            _ => return Err(malformed("it has an item of a reserved or unsaid length")),
        };
        Ok(self.take(length)?.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    }

    fn item(&mut self) -> Result<Item<'a>, Malformed> {
        let first = self.byte()?;
        let (major, info) = (first >> 5, first & 0x1f);
        if info == INDEFINITE {
            return match major {
                ARRAY => Ok(Item::Array(None)),
                MAP => Ok(Item::Map(None)),
                _ => Err(malformed("it has text or bytes in pieces")),
            };
        }
        let argument = self.argument(info)?;
        let whole = || i64::try_from(argument).map_err(|_| malformed("a number is beyond 64 bits"));
        Ok(match major {
            UNSIGNED => Item::Integer(whole()?),
            NEGATIVE => Item::Integer(-1 - whole()?),
            BYTES => Item::Bytes(self.take(argument)?),
            TEXT => Item::Text(
                std::str::from_utf8(self.take(argument)?).map_err(|_| malformed("a text is no UTF-8"))?,
            ),
            ARRAY => Item::Array(Some(argument)),
            MAP => Item::Map(Some(argument)),
            // What a tag says of its item changes nothing here.
            TAG => return self.item_behind_tags(),
            _ => match info {
                20 => Item::Boolean(false),
                21 => Item::Boolean(true),
                25 => Item::Float(half(argument as u16)),
                26 => Item::Float(f64::from(f32::from_bits(argument as u32))),
                27 => Item::Float(f64::from_bits(argument)),
                _ => Item::Other,
            },
        })
    }

    /// An item that has a tag: one is enough for what is sent.
    fn item_behind_tags(&mut self) -> Result<Item<'a>, Malformed> {
        match self.rest.first() {
            Some(next) if next >> 5 == TAG => Err(malformed("an item has several tags")),
            _ => self.item(),
        }
    }

    /// Whether another item of an array or a map follows, after so many.
    fn has_more(&mut self, length: Option<u64>, read: u64) -> Result<bool, Malformed> {
        match length {
            Some(length) => Ok(read < length),
            None => match self.rest.split_first() {
                None => Err(TOO_SHORT),
                Some((&BREAK, rest)) => {
                    self.rest = rest;
                    Ok(false)
                }
                Some(_) => Ok(true),
            },
        }
    }

    /// Passes over an item with all that it holds.
    fn skip(&mut self, deepest: u8) -> Result<(), Malformed> {
        let item = self.item()?;
        self.skip_inside(item, deepest)
    }

    fn skip_inside(&mut self, item: Item<'a>, deepest: u8) -> Result<(), Malformed> {
        let (length, each) = match item {
            Item::Array(length) => (length, 1),
            Item::Map(length) => (length, 2),
            _ => return Ok(()),
        };
        let deepest = deepest.checked_sub(1).ok_or(malformed("it is too deep"))?;
        let mut read = 0;
        while self.has_more(length, read)? {
            (0..each).try_for_each(|_| self.skip(deepest))?;
            read += 1;
        }
        Ok(())
    }

    fn record(&mut self) -> Result<Written<'a>, Malformed> {
        let Item::Map(length) = self.item()? else { return Err(malformed("a record is no map")) };
        let (mut record, mut read) = (Written::default(), 0);
        while self.has_more(length, read)? {
            let label = self.item()?;
            self.field(label, &mut record)?;
            read += 1;
        }
        Ok(record)
    }

    fn field(&mut self, label: Item<'a>, record: &mut Written<'a>) -> Result<(), Malformed> {
        let item = self.item()?;
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
            _ => self.skip_inside(item, DEEPEST)?,
        }
        Ok(())
    }
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
        let record = reader.record()?;
        records.push(base.resolve(record).ok_or(malformed("a name is longer than a path can be"))?);
    }
    if !reader.rest.is_empty() {
        return Err(malformed("something follows the records"));
    }
    Ok(records)
}

const TOO_SHORT: Malformed = malformed("it ends within an item");

const fn malformed(what: &'static str) -> Malformed {
    Malformed { format: "SenML in CBOR", what }
}

/// A number of 16 bits (IEEE 754 binary16).
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (fraction + 1024.0) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { magnitude } else { -magnitude }
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
            out.push(SIMPLE << 5 | if is_true { 21 } else { 20 });
        }
        Value::String(value) => {
            label(STRING, out);
            text(value, out);
        }
        Value::Opaque(bytes) => {
            label(DATA, out);
            head(BYTES, bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        Value::ObjectLink(object, instance) => {
            text(OBJECT_LINK, out);
            text(&format!("{object}:{instance}"), out);
        }
    }
}

/// The head of an item: its kind and its number.
fn head(major: u8, argument: u64, out: &mut Vec<u8>) {
    let first = major << 5;
    match argument {
        0..=23 => out.push(first | argument as u8),
        24..=0xff => out.extend([first | 24, argument as u8]),
        0x100..=0xffff => {
            out.push(first | 25);
            out.extend((argument as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(first | 26);
            out.extend((argument as u32).to_be_bytes());
        }
        _ => {
            out.push(first | 27);
            out.extend(argument.to_be_bytes());
        }
    }
}

fn integer(number: i64, out: &mut Vec<u8>) {
    match u64::try_from(number) {
        Ok(number) => head(UNSIGNED, number, out),
        Err(_) => head(NEGATIVE, !number as u64, out),
    }
}

fn label(number: i64, out: &mut Vec<u8>) {
    integer(number, out);
}

fn text(text: &str, out: &mut Vec<u8>) {
    head(TEXT, text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// A number in four bytes where these hold it exactly, else in eight.
fn float(number: f64, out: &mut Vec<u8>) {
    let short = number as f32;
    if f64::from(short).to_bits() == number.to_bits() {
        out.push(SIMPLE << 5 | 26);
        out.extend(short.to_be_bytes());
    } else {
        out.push(SIMPLE << 5 | 27);
        out.extend(number.to_be_bytes());
    }
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
    fn unsaid_lengths_tags_and_short_floats_are_read() {
        // [_ {_ -2: "/3/0/", 0: "9", 2: 50(tag 1), 99: [1, {2: 3}]}]
        let pack = [
            0x9f, 0xbf, 0x21, 0x65, b'/', b'3', b'/', b'0', b'/', 0x00, 0x61, b'9', 0x02, 0xc1, 0x18, 50,
            0x18, 99, 0x82, 0x01, 0xa1, 0x02, 0x03, 0xff, 0xff,
        ];
        let records = read(&pack).unwrap();
        assert_eq!(records, [Record { name: "/3/0/9".to_owned(), value: Some(Given::Integer(50)) }]);
        for (bits, number) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65504.0), (0x0001, 5.960_464_477_539_063e-8)]
        {
            assert_eq!(half(bits), number);
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f64::NEG_INFINITY);
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
