//! Fields of Kafka's messages one after the other (Apache Kafka, "Protocol Guide", protocol primitive types).

/// A place in a message. What is cut short is `None`.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Lengths are compact and tagged fields follow.
    flexible: bool,
}

impl<'a> Fields<'a> {
    /// At the beginning of those bytes, of a version that is flexible or not.
    pub fn new(bytes: &'a [u8], flexible: bool) -> Fields<'a> {
        Fields { bytes, at: 0, flexible }
    }

    /// How far it has come, bytes.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn skip(&mut self, length: usize) -> Option<()> {
        self.take(length).map(|_| ())
    }

    pub fn int16(&mut self) -> Option<i16> {
        self.take(2)?.first_chunk().map(|bytes| i16::from_be_bytes(*bytes))
    }

    pub fn int32(&mut self) -> Option<i32> {
        self.take(4)?.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
    }

    /// A string that may be null, in the encoding of the version; empty where it is.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let length =
            if self.flexible { self.varint()?.saturating_sub(1) } else { self.int16()?.max(0) as u64 };
        self.take(usize::try_from(length).ok()?)
    }

    /// How many elements an array has; a null one none.
    pub fn array(&mut self) -> Option<u64> {
        self.length()
    }

    /// How many bytes follow; none of null.
    pub fn length(&mut self) -> Option<u64> {
        if self.flexible { Some(self.varint()?.saturating_sub(1)) } else { Some(self.int32()?.max(0) as u64) }
    }

    /// Steps over the tagged fields of a flexible version.
    pub fn tags(&mut self) -> Option<()> {
        if !self.flexible {
            return Some(());
        }
        for _ in 0..self.varint()? {
            self.varint()?;
            let size = self.varint()?;
            self.skip(usize::try_from(size).ok()?)?;
        }
        Some(())
    }

    /// An unsigned number of up to five bytes of seven bits each.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// So many bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }
}
