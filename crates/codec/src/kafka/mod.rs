//! The protocol of Kafka as far as a client of one broker needs it: topics, records in, records out. Versions without compact fields,
//! which brokers from 2.1 to 4.x speak (<https://kafka.apache.org/protocol>).

pub mod batch;
mod fields;
mod requests;

pub use fields::{Malformed, Reader};
pub use requests::{
    Fetched, Offset, Partition, Produced, create_topic, created_topic, fetch, fetched, init_producer,
    latest_offset, metadata, offset, partitions, produce, produced, producer,
};

/// Errors by their numbers, those that a client treats in their own ways.
pub mod error {
    /// None.
    pub const NONE: i16 = 0;
    /// The offset is not kept any more, or not yet there.
    pub const OFFSET_OUT_OF_RANGE: i16 = 1;
    /// The broker does not know the topic, or not yet.
    pub const UNKNOWN_TOPIC: i16 = 3;
    /// Nobody leads the partition at present.
    pub const LEADER_NOT_AVAILABLE: i16 = 5;
    /// Another broker leads the partition.
    pub const NOT_LEADER: i16 = 6;
    /// The broker could not do it in time.
    pub const REQUEST_TIMED_OUT: i16 = 7;
    /// Too few brokers have a copy at present.
    pub const NOT_ENOUGH_REPLICAS: i16 = 19;
    /// The topic exists.
    pub const TOPIC_EXISTS: i16 = 36;
    /// The records were stored before.
    pub const DUPLICATE_SEQUENCE: i16 = 46;
    /// The broker does not know the producer's sequence.
    pub const OUT_OF_ORDER_SEQUENCE: i16 = 45;
    /// The broker does not know the producer.
    pub const UNKNOWN_PRODUCER: i16 = 59;

    /// Whether the same may succeed a little later.
    pub fn is_passing(error: i16) -> bool {
        // The numbers are those of brokers, replicas and coordinators that are not there at present.
        let is_of_others = matches!(error, 8 | 9 | 13..=16);
        is_of_others
            || matches!(
                error,
                UNKNOWN_TOPIC | LEADER_NOT_AVAILABLE | NOT_LEADER | REQUEST_TIMED_OUT | NOT_ENOUGH_REPLICAS
            )
    }
}

/// Bytes before each message: its length.
pub const LENGTH: usize = 4;

/// An answer that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The number of the request.
    pub correlation: i32,
    /// What it says.
    pub body: &'a [u8],
    /// The bytes that it takes, its length included.
    pub length: usize,
}

/// The answer at the beginning of some bytes; `None` while it is not whole.
///
/// # Errors
/// [`Malformed`], also for one of more than `most` bytes.
pub fn answer(bytes: &[u8], most: usize) -> Result<Option<Answer<'_>>, Malformed> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| Malformed)?;
    if length > most || length < 4 {
        return Err(Malformed);
    }
    let Some(whole) = rest.get(..length) else { return Ok(None) };
    let (correlation, body) = whole.split_first_chunk::<4>().ok_or(Malformed)?;
    Ok(Some(Answer { correlation: i32::from_be_bytes(*correlation), body, length: LENGTH + length }))
}

/// CRC-32C (Castagnoli), by which record batches are checked.
pub fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let (mut table, mut at) = ([0; 256], 0);
        while at < 256 {
            let (mut value, mut bit) = (at as u32, 0);
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0x82f6_3b78 } else { value >> 1 };
                bit += 1;
            }
            table[at] = value;
            at += 1;
        }
        table
    };
    let step =
        |crc: u32, byte: &u8| crc >> 8 ^ TABLE.get((crc as u8 ^ byte) as usize).copied().unwrap_or_default();
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 appendix B.4.
    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn an_answer_is_cut_off_a_stream() {
        let bytes = [0, 0, 0, 6, 0, 0, 0, 9, 0xaa, 0xbb, 0];
        let expected = Answer { correlation: 9, body: &[0xaa, 0xbb], length: 10 };
        assert_eq!(answer(&bytes, 100), Ok(Some(expected)));
        assert_eq!(answer(&bytes[..9], 100), Ok(None));
        assert_eq!(answer(&bytes[..3], 100), Ok(None));
        assert_eq!(answer(&bytes, 5), Err(Malformed));
        assert_eq!(answer(&[0xff; 8], 100), Err(Malformed));
        assert_eq!(answer(&[0, 0, 0, 2, 0, 0], 100), Err(Malformed));
    }
}
