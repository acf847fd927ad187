//! The fields of methods: numbers, short and long strings, tables (AMQP 0-9-1, section 4.2.5).

/// What is wrong with a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No kind of frame that there is.
    #[error("a frame of no known kind")]
    Kind,
    /// A frame of that many bytes.
    #[error("a frame of {0} bytes, more than we take")]
    Large(usize),
    /// A frame that ends before what it must say.
    #[error("a frame that ends too early")]
    Short,
    /// No end where the frame's size says.
    #[error("a frame that does not end where its size says")]
    End,
    /// A text that is no UTF-8.
    #[error("a text that is no UTF-8")]
    Text,
}

/// The fields of a frame that were not read yet.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*array)
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    pub fn short_text(&mut self) -> Result<&'a str, Malformed> {
        let length = usize::from(self.u8()?);
        std::str::from_utf8(self.bytes(length)?).map_err(|_| Malformed::Text)
    }

    /// A long string, or a table as its bytes.
    pub fn long(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.u32()?).map_err(|_| Malformed::Short)?;
        self.bytes(length)
    }
}

/// Appends a short string; what is longer than one can be is cut.
pub fn append_short(text: &[u8], out: &mut Vec<u8>) {
    let text = text.get(..usize::from(u8::MAX)).unwrap_or(text);
    out.push(text.len() as u8);
    out.extend_from_slice(text);
}

/// Appends a long string.
pub fn append_long(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text);
}

/// A value of a table.
pub enum Value<'a> {
    Bool(bool),
    Int(i32),
    Text(&'a str),
    Table(&'a [(&'a str, Value<'a>)]),
}

/// Appends a table.
pub fn append_table(entries: &[(&str, Value<'_>)], out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    for (name, value) in entries {
        append_short(name.as_bytes(), out);
        match value {
            Value::Bool(value) => out.extend_from_slice(&[b't', u8::from(*value)]),
            Value::Int(value) => {
                out.push(b'I');
                out.extend_from_slice(&value.to_be_bytes());
            }
            Value::Text(text) => {
                out.push(b'S');
                append_long(text.as_bytes(), out);
            }
            Value::Table(entries) => {
                out.push(b'F');
                append_table(entries, out);
            }
        }
    }
    let size = (out.len() - at - 4) as u32;
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&size.to_be_bytes());
    }
}
