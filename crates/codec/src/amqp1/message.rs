//! Messages (section 3.2): what lies around their contents.

use super::Malformed;
use super::types::{Reader, Value, put_bool, put_bytes, put_descriptor, put_list};

const MESSAGE_HEADER: u8 = 0x70;
const DATA: u8 = 0x75;
const VALUE: u64 = 0x77;

/// Appends a message with that content, which outlives the platform's end if it is durable.
pub fn put(content: &[u8], durable: bool, out: &mut Vec<u8>) {
    if durable {
        put_list(MESSAGE_HEADER, 1, out, |out| put_bool(true, out));
    }
    put_descriptor(DATA, out);
    put_bytes(content, out);
}

/// Appends the content of a message: its data, one part behind the other, or its value where that is a text or bytes.
///
/// # Errors
/// It is malformed.
pub fn content(message: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut reader = Reader::new(message);
    while !reader.rest().is_empty() {
        if let Value::DescribedBytes(Some(number), bytes) = reader.value()?
            && (number == u64::from(DATA) || number == VALUE)
        {
            out.extend_from_slice(bytes);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_read_as_it_was_written_whatever_lies_around_it() {
        let mut out = Vec::new();
        put(b"hello", true, &mut out);
        put_descriptor(0x78, &mut out);
        out.extend([0xc1, 1, 0]);
        let mut read = Vec::new();
        content(&out, &mut read).unwrap();
        assert_eq!(read, b"hello");
        read.clear();
        content(b"\x00\x53\x77\xa1\x02hi", &mut read).unwrap();
        assert_eq!(read, b"hi");
        assert_eq!(content(b"\x00\x53\x75\xa0\x05hi", &mut read), Err(Malformed::Short));
    }
}
