//! Record batches, version 2: how records lie in requests, answers and logs.

use super::crc32c;
use super::fields::{Malformed, Reader, varint, varint_length};

/// Bytes before those that the length counts, and before those that the checksum is of.
pub(super) const BEFORE_LENGTH: usize = 12;
pub(super) const BEFORE_CHECKED: usize = 21;
/// The version of these batches.
pub(super) const MAGIC: i8 = 2;
/// Of the attributes: how the records are compressed.
pub(super) const COMPRESSION: i16 = 7;
/// Of the attributes: records of the broker's own.
pub(super) const CONTROL: i16 = 0x20;

/// Who produced records, so that a broker knows those that come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Its number, which the broker gives.
    pub id: i64,
    /// How often the broker gave it anew.
    pub epoch: i16,
}

/// No producer: records that come again are stored again.
pub const NOBODY: Producer = Producer { id: -1, epoch: -1 };

/// A record to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: &'a [u8],
}

/// A record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its place in its partition.
    pub offset: i64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
}

/// Appends a batch of records, of which the first has that sequence of the producer; `at` is in milliseconds since 1970.
pub fn write<'a>(
    records: impl ExactSizeIterator<Item = Entry<'a>>,
    (producer, sequence): (Producer, i32),
    at: i64,
    out: &mut Vec<u8>,
) {
    let begin = out.len();
    let count = records.len() as i32;
    out.extend(0_i64.to_be_bytes());
    // Length and checksum are put in at the end.
    out.extend([0; 4]);
    out.extend((-1_i32).to_be_bytes());
    out.push(MAGIC as u8);
    out.extend([0; 4]);
    out.extend(0_i16.to_be_bytes());
    out.extend((count - 1).to_be_bytes());
    out.extend(at.to_be_bytes());
    out.extend(at.to_be_bytes());
    out.extend(producer.id.to_be_bytes());
    out.extend(producer.epoch.to_be_bytes());
    out.extend(sequence.to_be_bytes());
    out.extend(count.to_be_bytes());
    for (number, Entry { key, value }) in records.enumerate() {
        let number = number as i64;
        let key_length = key.map_or(-1, |key| key.len() as i64);
        let of_lengths = [0, number, key_length, value.len() as i64, 0].map(varint_length);
        // Before the fields there are attributes; what follows them says that there are no headers.
        let length = 1 + of_lengths.iter().sum::<usize>() + key.map_or(0, <[u8]>::len) + value.len();
        varint(length as i64, out);
        out.push(0);
        varint(0, out);
        varint(number, out);
        varint(key_length, out);
        out.extend_from_slice(key.unwrap_or_default());
        varint(value.len() as i64, out);
        out.extend_from_slice(value);
        varint(0, out);
    }
    let length = (out.len() - begin - BEFORE_LENGTH) as i32;
    let checksum = crc32c(out.get(begin + BEFORE_CHECKED..).unwrap_or_default());
    if let Some(place) = out.get_mut(begin + 8..begin + BEFORE_LENGTH) {
        place.copy_from_slice(&length.to_be_bytes());
    }
    if let Some(place) = out.get_mut(begin + BEFORE_CHECKED - 4..begin + BEFORE_CHECKED) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Reads the records of some batches, of which the last may be cut off, and gives each to `taker`; the offset behind the last one of a
/// whole batch, if there is one.
///
/// # Errors
/// A batch is of another version, compressed, or not what its checksum says.
pub fn read<'a>(bytes: &'a [u8], taker: &mut dyn FnMut(Record<'a>)) -> Result<Option<i64>, Malformed> {
    let (mut rest, mut next) = (bytes, None);
    loop {
        let mut reader = Reader::new(rest);
        let (Ok(base), Ok(length)) = (reader.i64(), reader.i32()) else { return Ok(next) };
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let Ok(body) = reader.take(length) else { return Ok(next) };
        rest = reader.rest();
        next = Some(batch(base, body, taker)?);
    }
}

fn batch<'a>(base: i64, body: &'a [u8], taker: &mut dyn FnMut(Record<'a>)) -> Result<i64, Malformed> {
    let mut reader = Reader::new(body);
    let _epoch = reader.i32()?;
    if reader.i8()? != MAGIC {
        return Err(Malformed);
    }
    let checksum = reader.i32()?.cast_unsigned();
    if crc32c(reader.rest()) != checksum {
        return Err(Malformed);
    }
    let attributes = reader.i16()?;
    let last = reader.i32()?;
    let _times = (reader.i64()?, reader.i64()?);
    let _producer = (reader.i64()?, reader.i16()?, reader.i32()?);
    let count = reader.i32()?;
    let next = base.checked_add(i64::from(last)).and_then(|last| last.checked_add(1)).ok_or(Malformed)?;
    if attributes & CONTROL != 0 {
        return Ok(next);
    }
    if attributes & COMPRESSION != 0 {
        return Err(Malformed);
    }
    for _ in 0..count {
        taker(record(base, &mut reader)?);
    }
    Ok(next)
}

/// Reads a record of a batch that begins at that offset.
pub(super) fn record<'a>(base: i64, reader: &mut Reader<'a>) -> Result<Record<'a>, Malformed> {
    let length = usize::try_from(reader.varint()?).map_err(|_| Malformed)?;
    let mut record = Reader::new(reader.take(length)?);
    let _attributes = record.i8()?;
    let _time = record.varint()?;
    let offset = base.checked_add(record.varint()?).ok_or(Malformed)?;
    let mut field = || match usize::try_from(record.varint()?) {
        Ok(length) => record.take(length).map(Some),
        Err(_) => Ok(None),
    };
    let (key, value) = (field()?, field()?);
    Ok(Record { offset, key, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(values: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let records = values.iter().map(|value| Entry { key: None, value });
        write(records, (Producer { id: 5, epoch: 0 }, 7), 1_700_000_000_000, &mut out);
        out
    }

    /// The offset and the value of each record, and the offset behind them.
    type Read = (Vec<(i64, Vec<u8>)>, Option<i64>);

    fn records(bytes: &[u8]) -> Result<Read, Malformed> {
        let mut all = Vec::new();
        let next = read(bytes, &mut |record| {
            all.push((record.offset, record.value.unwrap_or_default().to_vec()));
        })?;
        Ok((all, next))
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let bytes = written(&[b"a", b"", &[7; 300]]);
        let expected = vec![(0, b"a".to_vec()), (1, Vec::new()), (2, vec![7; 300])];
        assert_eq!(records(&bytes), Ok((expected.clone(), Some(3))));
        // A second one that is cut off is left for the next time.
        let mut two = bytes.clone();
        two.extend_from_slice(&bytes[..bytes.len() - 1]);
        assert_eq!(records(&two), Ok((expected, Some(3))));
        assert_eq!(records(&bytes[..11]), Ok((Vec::new(), None)));
    }

    #[test]
    fn keys_go_with_their_records() {
        let mut out = Vec::new();
        write([Entry { key: Some(b"k"), value: b"v" }].into_iter(), (NOBODY, -1), 5, &mut out);
        let mut all = Vec::new();
        read(&out, &mut |record| all.push(record)).unwrap();
        assert_eq!(all, [Record { offset: 0, key: Some(b"k"), value: Some(b"v") }]);
    }

    #[test]
    fn what_was_changed_on_the_way_is_malformed() {
        let bytes = written(&[b"value"]);
        for place in 16..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 1;
            assert_eq!(records(&wrong), Err(Malformed), "byte {place}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_malformed(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = records(&bytes);
        }
    }
}
