//! The protocol of Kafka as far as clients need it: topics, records in, records out, consumer groups. Versions without compact fields,
//! which brokers from 2.1 to 4.x speak (<https://kafka.apache.org/protocol>).

pub mod batch;
mod fields;
mod groups;
mod login;
mod requests;
pub mod streamed;

pub use fields::{Malformed, Reader};
pub use groups::{
    Joined, Member, alive, commit, committed, committed_offsets, coordinator, find_coordinator, heartbeat,
    join_group, joined, leave_group, read_up_to, share, shared_out, sync_group,
};
pub use login::{authenticated, mechanisms, sasl_handshake, sasl_plain};
pub use requests::{
    Acks, Cluster, End, Fetched, Node, Offset, Partition, Position, Produced, ask_offsets, cluster,
    create_topic, created_topic, delete_topic, fetch, fetched, init_producer, metadata, offsets, produce,
    produce_record, produced, produced_record, producer,
};

/// Errors by their numbers, those that a client treats in their own ways.
pub mod error {
    use super::Acks;

    /// The broker does not say what.
    pub const UNKNOWN: i16 = -1;
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
    /// The same, when the broker that leads has stored the record.
    pub const NOT_ENOUGH_REPLICAS_AFTER_APPEND: i16 = 20;
    /// The disk of the broker failed.
    pub const DISK_FAILED: i16 = 56;
    /// The topic exists.
    pub const TOPIC_EXISTS: i16 = 36;
    /// The records were stored before.
    pub const DUPLICATE_SEQUENCE: i16 = 46;
    /// The broker does not know the producer's sequence.
    pub const OUT_OF_ORDER_SEQUENCE: i16 = 45;
    /// The broker does not know the producer.
    pub const UNKNOWN_PRODUCER: i16 = 59;

    /// The record is larger than the broker takes.
    pub const MESSAGE_TOO_LARGE: i16 = 10;
    /// The broker looks for who looks after the group.
    pub const COORDINATOR_NOT_AVAILABLE: i16 = 15;
    /// Another broker looks after the group.
    pub const NOT_COORDINATOR: i16 = 16;
    /// The group was shared out again since.
    pub const ILLEGAL_GENERATION: i16 = 22;
    /// The group does not know the member.
    pub const UNKNOWN_MEMBER: i16 = 25;
    /// The group is shared out again.
    pub const REBALANCE_IN_PROGRESS: i16 = 27;
    /// The broker knows no such way to say who one is.
    pub const UNSUPPORTED_MECHANISM: i16 = 33;
    /// The broker does not let the user in.
    pub const AUTHENTICATION_FAILED: i16 = 58;

    /// What an error means, for people.
    pub fn told(error: i16) -> String {
        let known = match error {
            OFFSET_OUT_OF_RANGE => "the offset is not kept any more",
            UNKNOWN_TOPIC => "there is no such topic or partition",
            LEADER_NOT_AVAILABLE => "no broker leads the partition at present",
            NOT_LEADER => "another broker leads the partition",
            REQUEST_TIMED_OUT => "the brokers did not keep it in time",
            MESSAGE_TOO_LARGE => "the record is larger than the broker takes (message.max.bytes)",
            NOT_COORDINATOR => "another broker looks after the group",
            COORDINATOR_NOT_AVAILABLE => "no broker looks after the group at present",
            17 => "that is no name of a topic",
            NOT_ENOUGH_REPLICAS | NOT_ENOUGH_REPLICAS_AFTER_APPEND => {
                "too few brokers have a copy (min.insync.replicas)"
            }
            29 => "the user may not use the topic",
            30 => "the user may not use the group",
            31 => "the user may not use the cluster",
            35 => "the broker speaks no version of this request that is spoken here",
            37 => "the number of partitions is not possible",
            38 => "there are fewer brokers than copies are wanted",
            41 => "another broker is the controller",
            44 => "a policy of the broker forbids it",
            DISK_FAILED => "the broker's disk failed",
            AUTHENTICATION_FAILED => "user name or password is wrong",
            87 => "the record is not as the topic demands",
            _ => return format!("error {error} of Kafka"),
        };
        format!("{known} (error {error} of Kafka)")
    }

    /// Whether a record may be in the log although the broker says so of it. The broker that leads stores a record before it waits for
    /// other copies. What ends the wait says nothing of the record, and so does a leader that is none any more by then.
    pub fn may_be_stored(error: i16, acks: Acks) -> bool {
        match error {
            REQUEST_TIMED_OUT | NOT_ENOUGH_REPLICAS_AFTER_APPEND | DISK_FAILED | UNKNOWN => true,
            NOT_LEADER => acks == Acks::All,
            _ => false,
        }
    }

    /// Whether the same may succeed a little later.
    pub fn is_passing(error: i16) -> bool {
        // The numbers are those of brokers, replicas and coordinators that are not there at present.
        // So are those of a disk that failed and of a listener that is not there yet.
        let is_of_others = matches!(error, 8 | 9 | 13..=16 | DISK_FAILED | 72);
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
    crc32c_behind(0, bytes)
}

/// The same of bytes that lie behind others, which have that one.
pub fn crc32c_behind(before: u32, bytes: &[u8]) -> u32 {
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
    !bytes.iter().fold(!before, step)
}

/// The partition of records with that key, of so many, where Java's client puts them.
pub fn partition_of(key: &[u8], partitions: i32) -> i32 {
    (murmur2(key) & i32::MAX.cast_unsigned()).cast_signed().checked_rem(partitions).unwrap_or_default()
}

/// MurmurHash2 with the seed that clients of Kafka use.
fn murmur2(bytes: &[u8]) -> u32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mixed = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ (mixed ^ mixed >> 24).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let shifted = rest.iter().zip([0, 8, 16]).map(|(byte, shift)| u32::from(*byte) << shift);
        hash = (hash ^ shifted.fold(0, |all, own| all | own)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that other clients of Kafka test for, too.
    #[test]
    fn keys_lie_where_other_clients_put_them() {
        let known = [("21", -973_932_308), ("foobar", -790_332_482), ("abc", 479_470_107)];
        for (key, hash) in known {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
        assert_eq!(murmur2(b"a-little-bit-long-string").cast_signed(), -985_981_536);
        assert_eq!(partition_of(b"foobar", 8), (-790_332_482_i32 & i32::MAX) % 8);
        assert_eq!(partition_of(b"foobar", 0), 0);
    }

    /// RFC 3720 appendix B.4.
    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_behind(crc32c(b"1234"), b"56789"), 0xe306_9283);
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
