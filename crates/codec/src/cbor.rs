//! CBOR (RFC 8949): items one after the other, and whole values as JSON has them.

use serde_json::{Map, Number, Value};

/// Kinds of items (section 3.1), in the upper three bits of their first byte.
pub mod major {
    /// A whole number from 0 on.
    pub const UNSIGNED: u8 = 0;
    /// A whole number below 0.
    pub const NEGATIVE: u8 = 1;
    /// Bytes.
    pub const BYTES: u8 = 2;
    /// Text in UTF-8.
    pub const TEXT: u8 = 3;
    /// Items in order.
    pub const ARRAY: u8 = 4;
    /// Pairs of items.
    pub const MAP: u8 = 5;
    /// What says something of the item behind it.
    pub const TAG: u8 = 6;
    /// Numbers with a fraction, and values that stand for themselves.
    pub const SIMPLE: u8 = 7;
}

use major::{ARRAY, BYTES, MAP, NEGATIVE, SIMPLE, TAG, TEXT, UNSIGNED};

/// `application/cbor`, as a content format of CoAP (RFC 7252 section 12.3).
pub const CONTENT_FORMAT: u32 = 60;

/// The first byte of what ends an array or a map whose length is not said.
const BREAK: u8 = 0xff;
/// An array or a map whose length is not said.
const INDEFINITE: u8 = 31;
/// How deep a value may be that is read as a whole.
const DEEPEST: u8 = 32;

/// Why bytes are no CBOR, or none that is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

const TOO_SHORT: Malformed = Malformed("it ends within an item");

/// An item, without what it holds if it is an array or a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'a> {
    /// A whole number.
    Integer(i64),
    /// One that 64 bits with a sign do not hold.
    Large(i128),
    /// A number with a fraction.
    Float(f64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Text.
    Text(&'a str),
    /// Of so many items, or of unsaid length.
    Array(Option<u64>),
    /// Of so many pairs, or of unsaid length.
    Map(Option<u64>),
    /// True or false.
    Boolean(bool),
    /// Something else that stands for itself.
    Other,
}

/// Reads items one after the other.
pub struct Reader<'a> {
    /// What is not read yet.
    pub rest: &'a [u8],
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
            _ => return Err(Malformed("it has an item of a reserved or unsaid length")),
        };
        Ok(self.take(length)?.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    }

    /// The next item.
    ///
    /// # Errors
    /// It is cut off, or none that is read here: text or bytes in pieces, or several tags.
    pub fn item(&mut self) -> Result<Item<'a>, Malformed> {
        let first = self.byte()?;
        let (major, info) = (first >> 5, first & 0x1f);
        if info == INDEFINITE {
            return match major {
                ARRAY => Ok(Item::Array(None)),
                MAP => Ok(Item::Map(None)),
                _ => Err(Malformed("it has text or bytes in pieces")),
            };
        }
        let argument = self.argument(info)?;
        let whole = |number: i128| i64::try_from(number).map_or(Item::Large(number), Item::Integer);
        Ok(match major {
            UNSIGNED => whole(i128::from(argument)),
            NEGATIVE => whole(-1 - i128::from(argument)),
            BYTES => Item::Bytes(self.take(argument)?),
            TEXT => Item::Text(
                std::str::from_utf8(self.take(argument)?).map_err(|_| Malformed("a text is no UTF-8"))?,
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
            Some(next) if next >> 5 == TAG => Err(Malformed("an item has several tags")),
            _ => self.item(),
        }
    }

    /// Whether another item of an array or a map follows, after so many.
    ///
    /// # Errors
    /// The end is not there.
    pub fn has_more(&mut self, length: Option<u64>, read: u64) -> Result<bool, Malformed> {
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
    ///
    /// # Errors
    /// As [`Reader::item`]; it is deeper than that.
    pub fn skip(&mut self, deepest: u8) -> Result<(), Malformed> {
        let item = self.item()?;
        self.skip_inside(item, deepest)
    }

    /// The same for what an item that was read holds.
    ///
    /// # Errors
    /// As [`Reader::skip`].
    pub fn skip_inside(&mut self, item: Item<'a>, deepest: u8) -> Result<(), Malformed> {
        let (length, each) = match item {
            Item::Array(length) => (length, 1),
            Item::Map(length) => (length, 2),
            _ => return Ok(()),
        };
        let deepest = deepest.checked_sub(1).ok_or(Malformed("it is too deep"))?;
        let mut read = 0;
        while self.has_more(length, read)? {
            (0..each).try_for_each(|_| self.skip(deepest))?;
            read += 1;
        }
        Ok(())
    }

    /// The next item as a value, with all that it holds.
    fn value(&mut self, deepest: u8) -> Result<Value, Malformed> {
        let deepest = deepest.checked_sub(1).ok_or(Malformed("it is too deep"))?;
        Ok(match self.item()? {
            Item::Integer(number) => Value::from(number),
            // Below the least number of 64 bits, JSON has only numbers with a fraction.
            Item::Large(number) => {
                Number::from_i128(number).map_or_else(|| Value::from(number as f64), Value::Number)
            }
            Item::Float(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
            Item::Bytes(bytes) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
            Item::Text(text) => Value::String(text.to_owned()),
            Item::Boolean(is_true) => Value::Bool(is_true),
            Item::Other => Value::Null,
            Item::Array(length) => {
                let mut items = Vec::new();
                while self.has_more(length, items.len() as u64)? {
                    items.push(self.value(deepest)?);
                }
                Value::Array(items)
            }
            Item::Map(length) => {
                let (mut pairs, mut read) = (Map::new(), 0);
                while self.has_more(length, read)? {
                    let key = match self.value(deepest)? {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    pairs.insert(key, self.value(deepest)?);
                    read += 1;
                }
                Value::Object(pairs)
            }
        })
    }
}

/// A whole value as JSON has it. Bytes become text, keys that are no text become their JSON; what JSON has not is null.
///
/// # Errors
/// It is no CBOR, too deep, or something follows it.
pub fn to_json(bytes: &[u8]) -> Result<Value, Malformed> {
    let mut reader = Reader { rest: bytes };
    let value = reader.value(DEEPEST)?;
    if !reader.rest.is_empty() {
        return Err(Malformed("something follows it"));
    }
    Ok(value)
}

/// Appends a value of JSON.
pub fn write_json(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(SIMPLE << 5 | 22),
        Value::Bool(is_true) => boolean(*is_true, out),
        Value::Number(number) => write_number(number, out),
        Value::String(own) => text(own, out),
        Value::Array(items) => {
            head(ARRAY, items.len() as u64, out);
            items.iter().for_each(|item| write_json(item, out));
        }
        Value::Object(pairs) => {
            head(MAP, pairs.len() as u64, out);
            for (key, value) in pairs {
                text(key, out);
                write_json(value, out);
            }
        }
    }
}

/// Appends a number of JSON: a whole one as such.
pub fn write_number(number: &Number, out: &mut Vec<u8>) {
    match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => integer(whole, out),
        (None, Some(whole)) => head(UNSIGNED, whole, out),
        (None, None) => float(number.as_f64().unwrap_or(f64::NAN), out),
    }
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

/// The head of an item: its kind and its number.
pub fn head(major: u8, argument: u64, out: &mut Vec<u8>) {
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

/// Appends a whole number.
pub fn integer(number: i64, out: &mut Vec<u8>) {
    match u64::try_from(number) {
        Ok(number) => head(UNSIGNED, number, out),
        Err(_) => head(NEGATIVE, !number as u64, out),
    }
}

/// Appends true or false.
pub fn boolean(is_true: bool, out: &mut Vec<u8>) {
    out.push(SIMPLE << 5 | if is_true { 21 } else { 20 });
}

/// Appends bytes.
pub fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    head(BYTES, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a text.
pub fn text(text: &str, out: &mut Vec<u8>) {
    head(TEXT, text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a number in four bytes where these hold it exactly, else in eight.
pub fn float(number: f64, out: &mut Vec<u8>) {
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
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn short_floats_are_read() {
        for (bits, number) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65504.0), (0x0001, 5.960_464_477_539_063e-8)]
        {
            assert_eq!(half(bits), number);
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f64::NEG_INFINITY);
    }

    /// Examples of RFC 8949 appendix A.
    #[test]
    fn values_are_those_of_the_standard() {
        for (value, bytes) in [
            (json!(0), &[0x00][..]),
            (json!(24), &[0x18, 0x18]),
            (json!(1_000_000), &[0x1a, 0x00, 0x0f, 0x42, 0x40]),
            (json!(i64::MAX), &[0x1b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (json!(i64::MAX as u64 + 1), &[0x1b, 0x80, 0, 0, 0, 0, 0, 0, 0]),
            (json!(u64::MAX), &[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (json!(i64::MIN), &[0x3b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (json!(-1), &[0x20]),
            (json!(-1000), &[0x39, 0x03, 0xe7]),
            (json!(1.1), &[0xfb, 0x3f, 0xf1, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a]),
            (json!(false), &[0xf4]),
            (json!(null), &[0xf6]),
            (json!("IETF"), &[0x64, 0x49, 0x45, 0x54, 0x46]),
            (json!([1, [2, 3], [4, 5]]), &[0x83, 0x01, 0x82, 0x02, 0x03, 0x82, 0x04, 0x05]),
            (json!({"a": 1, "b": [2, 3]}), &[0xa2, 0x61, 0x61, 0x01, 0x61, 0x62, 0x82, 0x02, 0x03]),
        ] {
            let mut out = Vec::new();
            write_json(&value, &mut out);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(to_json(bytes), Ok(value));
        }
        // What JSON can only say as a number with a fraction.
        assert_eq!(
            to_json(&[0x3b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Ok(json!(-(2_f64.powi(64))))
        );
        // Bytes, and a key that is a number.
        assert_eq!(to_json(&[0xa1, 0x01, 0x42, b'h', b'i']), Ok(json!({"1": "hi"})));
    }

    #[test]
    fn what_is_no_value_is_malformed() {
        let deep = [0x81; 40];
        for wrong in [&[][..], &[0x00, 0x00], &[0x61], &[0x9f], &[0x1c], &[0x7f, 0x61, b'a', 0xff], &deep] {
            assert!(to_json(wrong).is_err(), "{wrong:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_malformed(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = to_json(&bytes) {
                let mut out = Vec::new();
                write_json(&value, &mut out);
                prop_assert_eq!(to_json(&out), Ok(value));
            }
        }
    }
}
