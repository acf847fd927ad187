//! Values (part 1 of the specification): how they are read past, taken and written.

use super::Malformed;

/// How deep values may lie within each other: the specification sets no limit, and each level takes a call.
const DEEPEST: u8 = 32;

/// Reads values one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The values in some bytes.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// What is not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A value.
    ///
    /// # Errors
    /// It is not there, or of no type that there is.
    pub fn value(&mut self) -> Result<Value<'a>, Malformed> {
        self.value_within(0)
    }

    fn value_within(&mut self, depth: u8) -> Result<Value<'a>, Malformed> {
        if depth > DEEPEST {
            return Err(Malformed::Deep);
        }
        let code = self.byte()?;
        Ok(match code {
            0x00 => {
                let descriptor = self.value_within(depth + 1)?.number();
                match self.value_within(depth + 1)? {
                    Value::List(fields) => Value::Described(descriptor, fields),
                    Value::Bytes(bytes) => Value::DescribedBytes(descriptor, bytes),
                    Value::Text(text) => Value::DescribedBytes(descriptor, text.as_bytes()),
                    _ => Value::Other,
                }
            }
            0x40 => Value::Null,
            0x41 => Value::Bool(true),
            0x42 => Value::Bool(false),
            0x56 => Value::Bool(self.byte()? != 0),
            0x43 | 0x44 => Value::Number(0),
            0x50 | 0x52 | 0x53 => Value::Number(u64::from(self.byte()?)),
            0x60 => Value::Number(u64::from(u16::from_be_bytes(self.array()?))),
            0x70 => Value::Number(u64::from(u32::from_be_bytes(self.array()?))),
            0x80 => Value::Number(u64::from_be_bytes(self.array()?)),
            0xa0 => Value::Bytes(self.short()?),
            0xb0 => Value::Bytes(self.long()?),
            0xa1 | 0xa3 => Value::Text(text(self.short()?)?),
            0xb1 | 0xb3 => Value::Text(text(self.long()?)?),
            0x45 => Value::List(Fields { count: 0, reader: Reader::new(&[]) }),
            0xc0 => {
                let body = self.short()?;
                let (count, rest) = body.split_first().ok_or(Malformed::Short)?;
                Value::List(Fields { count: u32::from(*count), reader: Reader::new(rest) })
            }
            0xd0 => {
                let body = self.long()?;
                let (count, rest) = body.split_first_chunk::<4>().ok_or(Malformed::Short)?;
                Value::List(Fields { count: u32::from_be_bytes(*count), reader: Reader::new(rest) })
            }
            0xe0 => array(self.short()?, 1)?,
            0xf0 => array(self.long()?, 4)?,
            // The first half of a code says how long what is left out here is.
            0x51 | 0x54 | 0x55 => self.past(1)?,
            0x61 => self.past(2)?,
            0x71..=0x74 => self.past(4)?,
            0x81..=0x84 => self.past(8)?,
            0x94 | 0x98 => self.past(16)?,
            0xc1 => {
                self.short()?;
                Value::Other
            }
            0xd1 => {
                self.long()?;
                Value::Other
            }
            _ => return Err(Malformed::Type(code)),
        })
    }

    fn past(&mut self, length: usize) -> Result<Value<'a>, Malformed> {
        self.take(length).map(|_| Value::Other)
    }

    /// Bytes with their number in one byte before them.
    fn short(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.byte()?;
        self.take(usize::from(length))
    }

    /// Bytes with their number in four bytes before them.
    fn long(&mut self) -> Result<&'a [u8], Malformed> {
        let length = u32::from_be_bytes(self.array()?);
        self.take(length as usize)
    }
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::Text)
}

/// The texts of an array; one of other values is of no use here.
fn array(body: &[u8], width: usize) -> Result<Value<'_>, Malformed> {
    let (count, rest) = body.split_at_checked(width).ok_or(Malformed::Short)?;
    let (code, items) = rest.split_first().ok_or(Malformed::Short)?;
    let count = count.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
    Ok(match code {
        0xa3 | 0xb3 => Value::Texts(Texts { count, is_long: *code == 0xb3, reader: Reader::new(items) }),
        _ => Value::Other,
    })
}

/// A value, as far as it matters to clients.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// None.
    Null,
    /// A truth.
    Bool(bool),
    /// An unsigned number.
    Number(u64),
    /// A text, or a symbol.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A list.
    List(Fields<'a>),
    /// Symbols.
    Texts(Texts<'a>),
    /// A list of the kind that the number says.
    Described(Option<u64>, Fields<'a>),
    /// Bytes or a text of the kind that the number says.
    DescribedBytes(Option<u64>, &'a [u8]),
    /// Something else.
    Other,
}

impl<'a> Value<'a> {
    /// A number, if it is one.
    pub fn number(self) -> Option<u64> {
        if let Value::Number(number) = self { Some(number) } else { None }
    }

    /// A text, if it is one.
    pub fn text(self) -> Option<&'a str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    /// Whether it is true.
    pub fn is_true(self) -> bool {
        matches!(self, Value::Bool(true))
    }
}

/// The fields of a list; those that are left out at its end are null.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    count: u32,
    reader: Reader<'a>,
}

impl<'a> Fields<'a> {
    /// Takes the next field.
    ///
    /// # Errors
    /// It is malformed.
    pub fn field(&mut self) -> Result<Value<'a>, Malformed> {
        let Some(left) = self.count.checked_sub(1) else { return Ok(Value::Null) };
        self.count = left;
        self.reader.value_within(1)
    }

    /// The number in the next field, if there is one.
    ///
    /// # Errors
    /// It is malformed.
    pub fn number(&mut self) -> Result<Option<u32>, Malformed> {
        Ok(self.field()?.number().and_then(|number| u32::try_from(number).ok()))
    }

    /// Leaves so many fields out.
    ///
    /// # Errors
    /// One is malformed.
    pub fn skip(&mut self, count: usize) -> Result<(), Malformed> {
        (0..count).try_for_each(|_| self.field().map(drop))
    }
}

/// Symbols of an array.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    count: u32,
    is_long: bool,
    reader: Reader<'a>,
}

impl<'a> Iterator for Texts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.count = self.count.checked_sub(1)?;
        let bytes = if self.is_long { self.reader.long() } else { self.reader.short() };
        bytes.ok().and_then(|bytes| text(bytes).ok())
    }
}

/// Appends nothing in the place of a value.
pub fn put_null(out: &mut Vec<u8>) {
    out.push(0x40);
}

/// Appends a truth.
pub fn put_bool(value: bool, out: &mut Vec<u8>) {
    out.push(if value { 0x41 } else { 0x42 });
}

/// Appends a number of 32 bits.
pub fn put_uint(number: u32, out: &mut Vec<u8>) {
    match u8::try_from(number) {
        Ok(0) => out.push(0x43),
        Ok(small) => out.extend([0x52, small]),
        Err(_) => {
            out.push(0x70);
            out.extend(number.to_be_bytes());
        }
    }
}

/// Appends a number of 8 bits.
pub fn put_ubyte(number: u8, out: &mut Vec<u8>) {
    out.extend([0x50, number]);
}

/// Appends a text.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    put_sized((0xa1, 0xb1), text.as_bytes(), out);
}

/// Appends a symbol.
pub fn put_symbol(symbol: &str, out: &mut Vec<u8>) {
    put_sized((0xa3, 0xb3), symbol.as_bytes(), out);
}

/// Appends bytes.
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_sized((0xa0, 0xb0), bytes, out);
}

fn put_sized((short, long): (u8, u8), bytes: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(bytes.len()) {
        Ok(length) => out.extend([short, length]),
        Err(_) => {
            out.push(long);
            out.extend((bytes.len() as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

/// Appends the number that says of which kind the value behind it is.
pub fn put_descriptor(descriptor: u8, out: &mut Vec<u8>) {
    out.extend([0x00, 0x53, descriptor]);
}

/// Appends a list of that kind with so many fields, which `fields` writes.
pub fn put_list(descriptor: u8, count: u32, out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    put_descriptor(descriptor, out);
    out.push(0xd0);
    let begin = out.len();
    out.extend([0; 4]);
    out.extend(count.to_be_bytes());
    fields(out);
    let length = (out.len() - begin - 4) as u32;
    if let Some(place) = out.get_mut(begin..begin + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_of_every_width_are_read() {
        let numbers = [
            &[0x43][..],
            &[0x44],
            &[0x52, 0],
            &[0x53, 0],
            &[0x50, 0],
            &[0x60, 0, 0],
            &[0x70, 0, 0, 0, 0],
            &[0x80, 0, 0, 0, 0, 0, 0, 0, 0],
        ];
        for bytes in numbers {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.value().unwrap().number(), Some(0), "{bytes:?}");
            assert!(reader.rest().is_empty(), "{bytes:?}");
        }
        for bytes in [&b"\xa1\x02ab"[..], b"\xa3\x02ab", b"\xb1\0\0\0\x02ab", b"\xb3\0\0\0\x02ab"] {
            assert_eq!(Reader::new(bytes).value().unwrap().text(), Some("ab"), "{bytes:?}");
        }
        let Value::Texts(texts) = Reader::new(b"\xe0\x09\x02\xa3\x02ab\x03cde").value().unwrap() else {
            panic!("no array")
        };
        assert_eq!(texts.collect::<Vec<_>>(), ["ab", "cde"]);
    }

    #[test]
    fn fields_that_are_left_out_are_null() {
        let mut out = Vec::new();
        put_list(0x10, 2, &mut out, |out| {
            put_text("a", out);
            put_uint(300, out);
        });
        let Value::Described(Some(0x10), mut fields) = Reader::new(&out).value().unwrap() else {
            panic!("no list")
        };
        assert_eq!(fields.field().unwrap().text(), Some("a"));
        assert_eq!((fields.number(), fields.number()), (Ok(Some(300)), Ok(None)));
    }

    #[test]
    fn what_lies_too_deep_is_malformed() {
        let mut out = vec![0; 1000];
        out.push(0x40);
        assert_eq!(Reader::new(&out).value().map(drop), Err(Malformed::Deep));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_malformed(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut reader = Reader::new(&bytes);
            while let Ok(value) = reader.value() {
                match value {
                    Value::List(mut fields) | Value::Described(_, mut fields) => {
                        let _ = fields.skip(20);
                    }
                    Value::Texts(texts) => assert!(texts.count() <= bytes.len()),
                    _ => {}
                }
            }
        }

        #[test]
        fn numbers_and_bytes_are_read_as_they_were_written(
            number: u32,
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let mut out = Vec::new();
            put_uint(number, &mut out);
            put_bytes(&bytes, &mut out);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.value().unwrap().number(), Some(u64::from(number)));
            prop_assert!(matches!(reader.value().unwrap(), Value::Bytes(read) if read == bytes));
        }
    }
}
