//! Where errors and records stand in the messages that hold some (Apache Kafka, "Protocol Guide"). A version that is newer
//! than what is written here is read as the newest that is.

use super::fields::Fields;
use crate::action::name;

/// Bytes of the id of a topic.
const ID: usize = 16;
/// Versions at which nothing changes any more.
const NEVER: u16 = u16::MAX;

/// How a message is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    ProduceRequest,
    ProduceResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsResponse,
    OffsetCommitResponse,
    /// An error behind the throttle time, which is there from a version on.
    Error {
        throttled: u16,
        flexible: u16,
    },
    /// It is not looked into.
    Other,
}

/// A part of a message that has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Elements that follow: topics, or partitions of a topic.
    pub count: u64,
    /// An error, 0 for none.
    pub error: i16,
    /// Bytes of records that follow.
    pub records: u64,
    /// Of a request to produce: how many acknowledge it, none (0), the leader (1) or all (-1).
    pub acknowledgements: Option<i16>,
    /// Of a request to fetch: a broker asks that follows another one.
    pub follows: bool,
}

impl Layout {
    /// Of the request with that key.
    pub fn request(key: u16) -> Layout {
        match key {
            0 => Layout::ProduceRequest,
            1 => Layout::FetchRequest,
            _ => Layout::Other,
        }
    }

    /// Of the response to the request with that key.
    pub fn response(key: u16, version: u16) -> Layout {
        let error = |throttled, flexible| Layout::Error { throttled, flexible };
        match key {
            0 => Layout::ProduceResponse,
            1 => Layout::FetchResponse,
            // Its first version holds lists of offsets.
            2 if version > 0 => Layout::ListOffsetsResponse,
            8 => Layout::OffsetCommitResponse,
            10 if version < 4 => error(1, 3),
            11 => error(2, 6),
            12..=14 => error(1, 4),
            17 => error(NEVER, NEVER),
            // Its header is never flexible, so that everybody can read it.
            18 => error(NEVER, NEVER),
            22 => error(0, 2),
            25 | 26 => error(0, 3),
            36 => error(NEVER, 2),
            _ => Layout::Other,
        }
    }

    /// Whether that version is flexible.
    pub fn is_flexible(self, version: u16) -> bool {
        version
            >= match self {
                Layout::ProduceRequest | Layout::ProduceResponse => 9,
                Layout::FetchRequest | Layout::FetchResponse => 12,
                Layout::ListOffsetsResponse => 6,
                Layout::OffsetCommitResponse => 8,
                Layout::Error { flexible, .. } => flexible,
                Layout::Other => NEVER,
            }
    }

    /// Whether topics follow the beginning.
    pub fn has_topics(self) -> bool {
        !matches!(self, Layout::Error { .. } | Layout::FetchRequest | Layout::Other)
    }

    /// Reads from the correlation id to the number of topics.
    pub fn beginning(self, version: u16, fields: &mut Fields<'_>) -> Option<Part> {
        fields.skip(4)?;
        let mut part = Part::default();
        match self {
            Layout::ProduceRequest => {
                // The name of the client is never compact.
                let name = fields.int16()?.max(0);
                fields.skip(name as usize)?;
                fields.tags()?;
                if version >= 3 {
                    fields.string()?;
                }
                // All replicas, none, or the leader.
                part.acknowledgements = Some(fields.int16().filter(|count| (-1..=1).contains(count))?);
                fields.skip(4)?;
            }
            Layout::FetchRequest => {
                let name = fields.int16()?.max(0);
                fields.skip(name as usize)?;
                fields.tags()?;
                // From version 15 on, only brokers say who they are, in a tagged field at the end.
                part.follows = version < 15 && fields.int32()? >= 0;
                return Some(part);
            }
            Layout::ProduceResponse => fields.tags()?,
            Layout::FetchResponse => {
                fields.tags()?;
                if version >= 1 {
                    fields.skip(4)?;
                }
                if version >= 7 {
                    part.error = fields.int16()?;
                    fields.skip(4)?;
                }
            }
            Layout::ListOffsetsResponse | Layout::OffsetCommitResponse => {
                fields.tags()?;
                if version >= if self == Layout::ListOffsetsResponse { 2 } else { 3 } {
                    fields.skip(4)?;
                }
            }
            Layout::Error { throttled, .. } => {
                fields.tags()?;
                if version >= throttled {
                    fields.skip(4)?;
                }
                part.error = fields.int16()?;
                return Some(part);
            }
            Layout::Other => return Some(part),
        }
        part.count = fields.array()?;
        Some(part)
    }

    /// Reads the number of partitions of a topic behind its name.
    pub fn topic(self, version: u16, fields: &mut Fields<'_>) -> Option<Part> {
        if self.has_topic_ids(version) {
            fields.skip(ID)?;
        } else {
            fields.string()?;
        }
        Some(Part { count: fields.array()?, ..Part::default() })
    }

    /// The name of a topic; where it is known by its id alone, that in hexadecimal digits.
    pub fn topic_name(self, version: u16, fields: &mut Fields<'_>) -> Option<String> {
        match self.has_topic_ids(version) {
            true => Some(fields.take(ID)?.iter().map(|byte| format!("{byte:02x}")).collect()),
            false => fields.string().map(name),
        }
    }

    fn has_topic_ids(self, version: u16) -> bool {
        matches!(self, Layout::ProduceRequest | Layout::ProduceResponse | Layout::FetchResponse)
            && version >= 13
    }

    /// Reads what stands before the records of a partition, or all of it where it holds none.
    pub fn partition(self, version: u16, fields: &mut Fields<'_>) -> Option<Part> {
        fields.skip(4)?;
        let mut part = Part::default();
        match self {
            Layout::ProduceRequest => part.records = fields.length()?,
            Layout::ProduceResponse => {
                part.error = fields.int16()?;
                fields.skip(8 + if version >= 2 { 8 } else { 0 } + if version >= 5 { 8 } else { 0 })?;
                if version >= 8 {
                    for _ in 0..fields.array()? {
                        fields.skip(4)?;
                        fields.string()?;
                        fields.tags()?;
                    }
                    fields.string()?;
                }
            }
            Layout::FetchResponse => {
                part.error = fields.int16()?;
                fields.skip(8 + if version >= 4 { 8 } else { 0 } + if version >= 5 { 8 } else { 0 })?;
                if version >= 4 {
                    for _ in 0..fields.array()? {
                        fields.skip(16)?;
                        fields.tags()?;
                    }
                }
                if version >= 11 {
                    fields.skip(4)?;
                }
                part.records = fields.length()?;
            }
            Layout::ListOffsetsResponse => {
                part.error = fields.int16()?;
                fields.skip(16 + if version >= 4 { 4 } else { 0 })?;
            }
            Layout::OffsetCommitResponse => part.error = fields.int16()?,
            Layout::FetchRequest | Layout::Error { .. } | Layout::Other => {}
        }
        Some(part)
    }
}
