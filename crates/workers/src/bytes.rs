//! Numbers and texts as bytes: little-endian, lengths before what they are of.

/// Bytes that do not say what they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of a worker ends too soon or has a value that cannot be")]
pub struct Malformed;

/// What is left to be read.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the first byte on.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    /// Bytes that have their length before them.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        let (first, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(first)
    }

    /// A value in JSON.
    pub fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, Malformed> {
        serde_json::from_slice(self.bytes()?).map_err(|_| Malformed)
    }

    /// How many things of at least so many bytes each follow: no more than there is room for.
    pub fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        if count.checked_mul(least).is_some_and(|bytes| bytes <= self.0.len()) {
            Ok(count)
        } else {
            Err(Malformed)
        }
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Nothing is left.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// What [`Reader::bytes`] reads.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

/// What [`Reader::json`] reads. The types hold nothing that JSON cannot.
pub fn put_json<T: serde::Serialize>(out: &mut Vec<u8>, value: &T) {
    put_bytes(out, &serde_json::to_vec(value).unwrap_or_default());
}
