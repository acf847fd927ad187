//! BSON documents (BSON specification, version 1.1).

use std::fmt;

/// Deepest nesting of documents that we read: what a server stores is nested half as deep, and commands and answers wrap it.
const DEEPEST: usize = 200;
/// The shortest document: its length and its end.
const SHORTEST: usize = 5;

/// Keys and values, in their order. A key may occur twice; the first one counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document(pub Vec<(String, Value)>);

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number with a fraction.
    Double(f64),
    /// A text.
    Text(String),
    /// A document within the document.
    Document(Document),
    /// A list.
    Array(Vec<Value>),
    /// Bytes, with their subtype.
    Binary(u8, Vec<u8>),
    /// An id of twelve bytes, as drivers make them.
    ObjectId([u8; 12]),
    /// True or false.
    Bool(bool),
    /// Milliseconds since 1970.
    DateTime(i64),
    /// Nothing.
    Null,
    /// A regular expression and its options.
    Regex(String, String),
    /// A whole number of 32 bits.
    Int32(i32),
    /// A time within a server's log.
    Timestamp(u64),
    /// A whole number of 64 bits.
    Int64(i64),
    /// A decimal number of 128 bits, as it stands there.
    Decimal([u8; 16]),
    /// Below all values.
    MinKey,
    /// Above all values.
    MaxKey,
}

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A length goes beyond what is there, or ends within a value.
    #[error("a document whose lengths do not fit together")]
    Length,
    /// A type that BSON does not have, or one that is out of use.
    #[error("a value of the unknown type 0x{0:02x}")]
    Type(u8),
    /// A text that is no UTF-8.
    #[error("a text that is not UTF-8")]
    Text,
    /// Documents within documents, deeper than we read.
    #[error("documents that are nested deeper than {DEEPEST} levels")]
    Depth,
}

impl Document {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, value)| value)
    }

    /// Takes the value of a key out.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        let place = self.0.iter().position(|(own, _)| own == key)?;
        Some(self.0.remove(place).1)
    }

    /// Sets the value of a key: the old one's place is kept.
    pub fn set(&mut self, key: &str, value: Value) {
        match self.0.iter_mut().find(|(own, _)| own == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// The same document with one key more.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Document {
        self.0.push((key.to_owned(), value.into()));
        self
    }

    /// How deep documents and lists are nested in it: 0 where it has none.
    pub fn depth(&self) -> usize {
        deepest(self.0.iter().map(|(_, value)| value))
    }

    /// Reads the document at the beginning of `bytes`, and gives what stands behind it.
    ///
    /// # Errors
    /// It is none.
    pub fn read(bytes: &[u8]) -> Result<(Document, &[u8]), Malformed> {
        read(bytes, 0)
    }

    /// Writes it behind what is there.
    pub fn write(&self, out: &mut Vec<u8>) {
        let pairs = self.0.iter().map(|(key, value)| (key.as_str(), value));
        write(pairs, out);
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Value {
        Value::Int32(number)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int64(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Double(number)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Value {
        Value::Bool(is)
    }
}

impl From<Document> for Value {
    fn from(document: Document) -> Value {
        Value::Document(document)
    }
}

impl From<Vec<Value>> for Value {
    fn from(list: Vec<Value>) -> Value {
        Value::Array(list)
    }
}

impl Value {
    /// The whole number that it is, of whichever type.
    pub fn whole(&self) -> Option<i64> {
        match *self {
            Value::Int32(number) => Some(number.into()),
            Value::Int64(number) => Some(number),
            // Drivers of languages without whole numbers write them so.
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(number as i64),
            _ => None,
        }
    }

    /// Whether it stands for yes: what is neither false, nor null, nor zero.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Bool(is) => *is,
            Value::Null => false,
            Value::Double(number) => *number != 0.0,
            Value::Int32(number) => *number != 0,
            Value::Int64(number) => *number != 0,
            _ => true,
        }
    }

    const fn kind(&self) -> u8 {
        match self {
            Value::Double(_) => 0x01,
            Value::Text(_) => 0x02,
            Value::Document(_) => 0x03,
            Value::Array(_) => 0x04,
            Value::Binary(..) => 0x05,
            Value::ObjectId(_) => 0x07,
            Value::Bool(_) => 0x08,
            Value::DateTime(_) => 0x09,
            Value::Null => 0x0a,
            Value::Regex(..) => 0x0b,
            Value::Int32(_) => 0x10,
            Value::Timestamp(_) => 0x11,
            Value::Int64(_) => 0x12,
            Value::Decimal(_) => 0x13,
            Value::MinKey => 0xff,
            Value::MaxKey => 0x7f,
        }
    }

    /// Writes it without its type and its key.
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::Double(number) => out.extend(number.to_le_bytes()),
            Value::Text(text) => {
                out.extend(((text.len() + 1) as u32).to_le_bytes());
                out.extend(text.as_bytes());
                out.push(0);
            }
            Value::Document(document) => document.write(out),
            Value::Array(list) => {
                let keys: Vec<String> = (0..list.len()).map(|place| place.to_string()).collect();
                write(keys.iter().map(String::as_str).zip(list), out);
            }
            Value::Binary(subtype, bytes) => {
                out.extend((bytes.len() as u32).to_le_bytes());
                out.push(*subtype);
                out.extend(bytes);
            }
            Value::ObjectId(id) => out.extend(id),
            Value::Bool(is) => out.push(u8::from(*is)),
            Value::DateTime(number) | Value::Int64(number) => out.extend(number.to_le_bytes()),
            Value::Regex(pattern, options) => {
                name(pattern, out);
                name(options, out);
            }
            Value::Int32(number) => out.extend(number.to_le_bytes()),
            Value::Timestamp(number) => out.extend(number.to_le_bytes()),
            Value::Decimal(bytes) => out.extend(bytes),
            Value::Null | Value::MinKey | Value::MaxKey => {}
        }
    }
}

impl fmt::Display for Value {
    /// For messages of errors: texts in quotes, numbers and ids as they are, and of anything larger only what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "\"{text}\""),
            Value::Int32(number) => write!(f, "{number}"),
            Value::Int64(number) => write!(f, "{number}"),
            Value::Double(number) => write!(f, "{number}"),
            Value::ObjectId(id) => id.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            other => write!(f, "a value of the type 0x{:02x}", other.kind()),
        }
    }
}

fn deepest<'a>(values: impl Iterator<Item = &'a Value>) -> usize {
    let below = |value: &Value| match value {
        Value::Document(document) => 1 + document.depth(),
        Value::Array(list) => 1 + deepest(list.iter()),
        _ => 0,
    };
    values.map(below).max().unwrap_or(0)
}

fn write<'a>(pairs: impl Iterator<Item = (&'a str, &'a Value)>, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend([0; 4]);
    for (key, value) in pairs {
        out.push(value.kind());
        name(key, out);
        value.write(out);
    }
    out.push(0);
    let length = ((out.len() - begin) as u32).to_le_bytes();
    if let Some(place) = out.get_mut(begin..begin + 4) {
        place.copy_from_slice(&length);
    }
}

/// A text that ends with a zero byte: one within it would end it, and is left out.
fn name(text: &str, out: &mut Vec<u8>) {
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed::Length)
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        usize::try_from(i32::from_le_bytes(self.array()?)).map_err(|_| Malformed::Length)
    }

    /// A text up to a zero byte.
    fn name(&mut self) -> Result<String, Malformed> {
        let end = memchr::memchr(0, self.0).ok_or(Malformed::Length)?;
        let bytes = self.take(end)?;
        self.take(1)?;
        text(bytes)
    }
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed::Text)
}

fn read(bytes: &[u8], depth: usize) -> Result<(Document, &[u8]), Malformed> {
    if depth > DEEPEST {
        return Err(Malformed::Depth);
    }
    let length = Rest(bytes).length()?;
    let (document, rest) = bytes.split_at_checked(length).ok_or(Malformed::Length)?;
    let [.., 0] = document else { return Err(Malformed::Length) };
    if length < SHORTEST {
        return Err(Malformed::Length);
    }
    let mut inner = Rest(document.get(4..length - 1).unwrap_or_default());
    let mut found = Document::default();
    while let [kind, ..] = *inner.0 {
        inner.take(1)?;
        let key = inner.name()?;
        found.0.push((key, value(kind, &mut inner, depth)?));
    }
    Ok((found, rest))
}

fn value(kind: u8, rest: &mut Rest<'_>, depth: usize) -> Result<Value, Malformed> {
    Ok(match kind {
        0x01 => Value::Double(f64::from_le_bytes(rest.array()?)),
        0x02 => {
            let length = rest.length()?;
            let [text @ .., 0] = rest.take(length)? else { return Err(Malformed::Length) };
            Value::Text(self::text(text)?)
        }
        0x03 | 0x04 => {
            let (document, behind) = read(rest.0, depth + 1)?;
            rest.0 = behind;
            match kind {
                0x03 => Value::Document(document),
                _ => Value::Array(document.0.into_iter().map(|(_, value)| value).collect()),
            }
        }
        0x05 => {
            let length = rest.length()?;
            let [subtype] = rest.array()?;
            Value::Binary(subtype, rest.take(length)?.to_vec())
        }
        0x07 => Value::ObjectId(rest.array()?),
        0x08 => Value::Bool(rest.array::<1>()? != [0]),
        0x09 => Value::DateTime(i64::from_le_bytes(rest.array()?)),
        0x0a => Value::Null,
        0x0b => Value::Regex(rest.name()?, rest.name()?),
        0x10 => Value::Int32(i32::from_le_bytes(rest.array()?)),
        0x11 => Value::Timestamp(u64::from_le_bytes(rest.array()?)),
        0x12 => Value::Int64(i64::from_le_bytes(rest.array()?)),
        0x13 => Value::Decimal(rest.array()?),
        0xff => Value::MinKey,
        0x7f => Value::MaxKey,
        unknown => return Err(Malformed::Type(unknown)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The example of the specification.
    #[test]
    fn the_example_of_the_specification_is_read_and_written() {
        let bytes = b"\x16\0\0\0\x02hello\0\x06\0\0\0world\0\0";
        let (document, rest) = Document::read(bytes).unwrap();
        assert_eq!((document.get("hello"), rest), (Some(&"world".into()), &[][..]));
        let mut written = Vec::new();
        document.write(&mut written);
        assert_eq!(written, bytes);
    }

    #[test]
    fn what_is_cut_short_or_of_no_known_type_is_refused() {
        let mut bytes = Vec::new();
        Document::default()
            .with("a", 1)
            .with("b", "text")
            .with("c", vec![Value::Null, true.into()])
            .write(&mut bytes);
        for end in 0..bytes.len() {
            assert_eq!(Document::read(&bytes[..end]), Err(Malformed::Length), "{end}");
        }
        bytes[4] = 0x06;
        assert_eq!(Document::read(&bytes), Err(Malformed::Type(0x06)));
        assert_eq!(Document::read(&[4, 0, 0, 0]), Err(Malformed::Length));
        assert_eq!(Document::read(b"\xff\xff\xff\xff\0"), Err(Malformed::Length));
    }

    #[test]
    fn documents_within_documents_end_somewhere() {
        let nested = |depth: usize| {
            let mut bytes = Vec::new();
            (0..depth)
                .fold(Document::default(), |inner, _| Document::default().with("a", inner))
                .write(&mut bytes);
            Document::read(&bytes).map(drop)
        };
        assert_eq!(nested(DEEPEST), Ok(()));
        assert_eq!(nested(DEEPEST + 1), Err(Malformed::Depth));
    }

    #[test]
    fn how_deep_a_document_is_counts_documents_and_lists() {
        assert_eq!(Document::default().with("a", 1).depth(), 0);
        let list = vec![Value::Document(Document::default().with("b", vec![Value::Null]))];
        assert_eq!(Document::default().with("a", list).with("c", Document::default()).depth(), 3);
    }

    #[test]
    fn messages_name_what_is_short() {
        let shown = |value: Value| value.to_string();
        assert_eq!(shown("x".into()), "\"x\"");
        assert_eq!((shown(7.into()), shown(Value::ObjectId([0xab; 12]))), ("7".into(), "ab".repeat(12)));
        assert_eq!(shown(Document::default().into()), "a value of the type 0x03");
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i32>().prop_map(Value::Int32),
            any::<i64>().prop_map(Value::Int64),
            (-1e9f64..1e9).prop_map(Value::Double),
            ".{0,12}".prop_map(Value::Text),
            any::<bool>().prop_map(Value::Bool),
            any::<[u8; 12]>().prop_map(Value::ObjectId),
            (any::<u8>(), prop::collection::vec(any::<u8>(), 0..8))
                .prop_map(|(kind, bytes)| Value::Binary(kind, bytes)),
            Just(Value::Null),
            Just(Value::MinKey),
            any::<u64>().prop_map(Value::Timestamp),
            any::<[u8; 16]>().prop_map(Value::Decimal),
            ("[a-z]{0,4}", "[a-z]{0,2}").prop_map(|(pattern, options)| Value::Regex(pattern, options)),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec(("[a-z$_.]{0,6}", inner), 0..4)
                    .prop_map(|pairs| Value::Document(Document(pairs))),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            pairs in prop::collection::vec(("[a-z$_.]{0,6}", values()), 0..5),
            behind in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let document = Document(pairs);
            let mut bytes = Vec::new();
            document.write(&mut bytes);
            bytes.extend(&behind);
            prop_assert_eq!(Document::read(&bytes), Ok((document, behind.as_slice())));
        }

        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Document::read(&bytes);
        }
    }
}
