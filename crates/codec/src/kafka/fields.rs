//! Fields of messages.

/// Bytes that are no message of Kafka, or none of a version that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no message of Kafka, or of another version")]
pub struct Malformed;

/// Reads fields one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The fields of some bytes.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// What is not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// So many bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A number of 8 bits.
    ///
    /// # Errors
    /// It is not there.
    pub fn i8(&mut self) -> Result<i8, Malformed> {
        self.array().map(i8::from_be_bytes)
    }

    /// A number of 16 bits.
    ///
    /// # Errors
    /// It is not there.
    pub fn i16(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    /// A number of 32 bits.
    ///
    /// # Errors
    /// It is not there.
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    /// A number of 64 bits.
    ///
    /// # Errors
    /// It is not there.
    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    /// A number of as many bytes as it needs, seven bits each, in zigzag.
    ///
    /// # Errors
    /// It is cut off, or has more than 64 bits.
    pub fn varint(&mut self) -> Result<i64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(Malformed)
    }

    /// A text; `None` where it is null.
    ///
    /// # Errors
    /// It is cut off, or no UTF-8.
    pub fn text(&mut self) -> Result<Option<&'a str>, Malformed> {
        match usize::try_from(self.i16()?) {
            Ok(length) => std::str::from_utf8(self.take(length)?).map(Some).map_err(|_| Malformed),
            Err(_) => Ok(None),
        }
    }

    /// Bytes; `None` where they are null.
    ///
    /// # Errors
    /// They are cut off.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match usize::try_from(self.i32()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// How many items an array has; none of one that is null. More than there are bytes left cannot be.
    ///
    /// # Errors
    /// It is not there, or cannot be.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.i32()?).unwrap_or_default();
        if count > self.rest.len() { Err(Malformed) } else { Ok(count) }
    }
}

/// Appends a text.
pub fn text(text: &str, out: &mut Vec<u8>) {
    let length = text.len().min(i16::MAX as usize);
    out.extend((length as i16).to_be_bytes());
    out.extend_from_slice(text.as_bytes().get(..length).unwrap_or_default());
}

/// Appends a text that is null.
pub fn null_text(out: &mut Vec<u8>) {
    out.extend((-1_i16).to_be_bytes());
}

/// Appends bytes.
pub fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    count(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends what is written by that, with its length in 32 bits before it.
pub fn sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend([0; 4]);
    write(out);
    let length = (out.len() - begin - 4) as i32;
    if let Some(place) = out.get_mut(begin..begin + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Appends how many items an array has.
pub fn count(count: usize, out: &mut Vec<u8>) {
    out.extend((count as i32).to_be_bytes());
}

/// Appends a number in zigzag, seven bits a byte.
pub fn varint(value: i64, out: &mut Vec<u8>) {
    let mut rest = (value << 1 ^ value >> 63).cast_unsigned();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// How many bytes [`varint`] appends.
pub fn varint_length(value: i64) -> usize {
    let bits = 64 - (value << 1 ^ value >> 63).leading_zeros() as usize;
    bits.div_ceil(7).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_numbers_take_one_byte() {
        for (value, bytes) in [(0, &[0][..]), (-1, &[1]), (63, &[0x7e]), (64, &[0x80, 1]), (-300, &[0xd7, 4])]
        {
            let mut out = Vec::new();
            varint(value, &mut out);
            assert_eq!(out, bytes, "{value}");
        }
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(value: i64) {
            let mut out = Vec::new();
            varint(value, &mut out);
            prop_assert_eq!(Reader::new(&out).varint(), Ok(value));
            prop_assert_eq!(varint_length(value), out.len());
        }

        #[test]
        fn any_bytes_are_read_or_malformed(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut reader = Reader::new(&bytes);
            let _ = (reader.varint(), reader.text(), reader.bytes(), reader.count());
        }
    }
}
