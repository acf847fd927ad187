//! Thrift's compact protocol, as far as the metadata of a Parquet file need it
//! (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>).

const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;
/// A list of this size or more has its size after the header.
const LONG_LIST: usize = 15;

/// A struct that is being written. Its fields are given in ascending order of their numbers, at most 15 apart.
pub struct Struct<'a> {
    out: &'a mut Vec<u8>,
    last: u8,
}

impl Struct<'_> {
    /// Appends a struct to a buffer.
    pub fn write(out: &mut Vec<u8>, fields: impl FnOnce(&mut Struct)) {
        let mut written = Struct { out, last: 0 };
        fields(&mut written);
        written.out.push(0);
    }

    /// A field of 32 bits; enumerations are such fields.
    pub fn i32(&mut self, number: u8, value: i32) {
        self.header(number, I32);
        varint(self.out, zigzag(value.into()));
    }

    /// A field of 64 bits.
    pub fn i64(&mut self, number: u8, value: i64) {
        self.header(number, I64);
        varint(self.out, zigzag(value));
    }

    /// A truth value, which is part of the field's header.
    pub fn bool(&mut self, number: u8, value: bool) {
        self.header(number, if value { 1 } else { 2 });
    }

    /// A text.
    pub fn text(&mut self, number: u8, value: &str) {
        self.header(number, BINARY);
        binary(self.out, value.as_bytes());
    }

    /// A struct in this one.
    pub fn nested(&mut self, number: u8, fields: impl FnOnce(&mut Struct)) {
        self.header(number, STRUCT);
        Struct::write(self.out, fields);
    }

    /// A list of structs.
    pub fn structs<T>(&mut self, number: u8, items: &[T], fields: impl Fn(&mut Struct, &T)) {
        self.list(number, STRUCT, items.len());
        items.iter().for_each(|item| Struct::write(self.out, |written| fields(written, item)));
    }

    /// A list of numbers of 32 bits.
    pub fn i32s(&mut self, number: u8, items: &[i32]) {
        self.list(number, I32, items.len());
        items.iter().for_each(|item| varint(self.out, zigzag((*item).into())));
    }

    /// A list of texts.
    pub fn texts(&mut self, number: u8, items: &[&str]) {
        self.list(number, BINARY, items.len());
        items.iter().for_each(|item| binary(self.out, item.as_bytes()));
    }

    fn header(&mut self, number: u8, kind: u8) {
        self.out.push(((number - self.last) << 4) | kind);
        self.last = number;
    }

    fn list(&mut self, number: u8, kind: u8, items: usize) {
        self.header(number, LIST);
        if items < LONG_LIST {
            self.out.push(((items as u8) << 4) | kind);
        } else {
            self.out.push(0xf0 | kind);
            varint(self.out, items as u64);
        }
    }
}

/// Appends a number in groups of seven bits, the lowest first.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn binary(out: &mut Vec<u8>, bytes: &[u8]) {
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Small numbers in few bits, whatever their sign.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_specification() {
        let mut out = Vec::new();
        Struct::write(&mut out, |written| {
            written.i32(1, -1);
            written.i64(3, 300);
            written.bool(4, true);
            written.text(5, "ab");
            written.i32s(6, &[0, 3]);
            written.nested(8, |nested| nested.bool(1, false));
            written.structs(9, &[7; 15], |written, item| written.i32(1, *item));
            written.texts(10, &["c"]);
        });
        let mut expected = vec![0x15, 1, 0x26, 0xd8, 0x04, 0x11, 0x18, 2, b'a', b'b', 0x19, 0x25, 0, 6];
        expected.extend([0x2c, 0x12, 0, 0x19, 0xfc, 15]);
        expected.extend([0x15, 14, 0].repeat(15));
        expected.extend([0x19, 0x18, 1, b'c', 0]);
        assert_eq!(out, expected);
    }
}
