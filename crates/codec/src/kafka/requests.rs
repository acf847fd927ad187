//! Requests about topics and records, and their answers.

use super::batch::{self, Entry, NOBODY, Producer};
use super::fields::{self, Malformed, Reader};

/// Kinds of requests, and the versions that are spoken here.
const PRODUCE: (i16, i16) = (0, 3);
const FETCH: (i16, i16) = (1, 4);
const LIST_OFFSETS: (i16, i16) = (2, 1);
const METADATA: (i16, i16) = (3, 4);
const CREATE_TOPICS: (i16, i16) = (19, 2);
const DELETE_TOPICS: (i16, i16) = (20, 1);
const INIT_PRODUCER_ID: (i16, i16) = (22, 0);
/// How long the broker may take for what it stores, in milliseconds.
const TIMEOUT: i32 = 10_000;
/// What a client of ours calls itself.
const CLIENT: &str = "plimsoll";

/// Appends a request with its length.
pub(super) fn request(
    (key, version): (i16, i16),
    correlation: i32,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>),
) {
    fields::sized(out, |out| {
        out.extend(key.to_be_bytes());
        out.extend(version.to_be_bytes());
        out.extend(correlation.to_be_bytes());
        fields::text(CLIENT, out);
        body(out);
    });
}

/// What a broker says of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The brokers.
    pub nodes: Vec<Node>,
    /// What went wrong with a topic as a whole: the first such thing.
    pub error: i16,
    /// The partitions of the topics that were asked for.
    pub partitions: Vec<Partition>,
}

/// A broker of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub number: i32,
    /// The name or address at which clients reach it.
    pub host: String,
    /// Its port.
    pub port: i32,
}

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The topic.
    pub topic: String,
    /// Its number.
    pub number: i32,
    /// What went wrong with it.
    pub error: i16,
    /// The node of the broker that leads it.
    pub leader: i32,
}

/// Appends a question about topics; none is made because of it.
pub fn metadata(topics: &[&str], correlation: i32, out: &mut Vec<u8>) {
    request(METADATA, correlation, out, |out| {
        fields::count(topics.len(), out);
        topics.iter().for_each(|topic| fields::text(topic, out));
        // Topics are not made by the way.
        out.push(0);
    });
}

/// Reads the answer to [`metadata`].
///
/// # Errors
/// [`Malformed`].
pub fn cluster(body: &[u8]) -> Result<Cluster, Malformed> {
    let mut reader = Reader::new(body);
    let _throttled = reader.i32()?;
    let mut nodes = Vec::new();
    for _ in 0..reader.count()? {
        let (number, host, port, _rack) = (reader.i32()?, reader.text()?, reader.i32()?, reader.text()?);
        nodes.push(Node { number, host: host.unwrap_or_default().to_owned(), port });
    }
    let (_cluster, _controller) = (reader.text()?, reader.i32()?);
    let (mut found, mut error_of_topics) = (Vec::new(), super::error::NONE);
    for _ in 0..reader.count()? {
        let (of_topic, topic, _internal) = (reader.i16()?, reader.text()?, reader.i8()?);
        let topic = topic.unwrap_or_default().to_owned();
        if error_of_topics == super::error::NONE {
            error_of_topics = of_topic;
        }
        for _ in 0..reader.count()? {
            let (error, number, leader) = (reader.i16()?, reader.i32()?, reader.i32()?);
            for _ in 0..2 {
                let copies = reader.count()?;
                (0..copies).try_for_each(|_| reader.i32().map(drop))?;
            }
            found.push(Partition { topic: topic.clone(), number, error, leader });
        }
    }
    Ok(Cluster { nodes, error: error_of_topics, partitions: found })
}

/// Appends a request for a topic of so many partitions with so many copies each.
pub fn create_topic(topic: &str, (partitions, copies): (i32, i16), correlation: i32, out: &mut Vec<u8>) {
    request(CREATE_TOPICS, correlation, out, |out| {
        fields::count(1, out);
        fields::text(topic, out);
        out.extend(partitions.to_be_bytes());
        out.extend(copies.to_be_bytes());
        // Neither assignments nor settings.
        fields::count(0, out);
        fields::count(0, out);
        out.extend(TIMEOUT.to_be_bytes());
        out.push(0);
    });
}

/// Reads the answer to [`create_topic`]: the error.
///
/// # Errors
/// [`Malformed`].
pub fn created_topic(body: &[u8]) -> Result<i16, Malformed> {
    let mut reader = Reader::new(body);
    let _throttled = reader.i32()?;
    if reader.count()? != 1 {
        return Err(Malformed);
    }
    let _topic = reader.text()?;
    reader.i16()
}

/// Appends a request to remove a topic with its records.
pub fn delete_topic(topic: &str, correlation: i32, out: &mut Vec<u8>) {
    request(DELETE_TOPICS, correlation, out, |out| {
        fields::count(1, out);
        fields::text(topic, out);
        out.extend(TIMEOUT.to_be_bytes());
    });
}

/// Appends a request for a number by which the broker knows a producer.
pub fn init_producer(correlation: i32, out: &mut Vec<u8>) {
    request(INIT_PRODUCER_ID, correlation, out, |out| {
        fields::null_text(out);
        out.extend(TIMEOUT.to_be_bytes());
    });
}

/// Reads the answer to [`init_producer`]: the error, and the producer.
///
/// # Errors
/// [`Malformed`].
pub fn producer(body: &[u8]) -> Result<(i16, Producer), Malformed> {
    let mut reader = Reader::new(body);
    let _throttled = reader.i32()?;
    Ok((reader.i16()?, Producer { id: reader.i64()?, epoch: reader.i16()? }))
}

/// Appends a request to store record batches, each in partition 0 of its topic; all copies must have them before the answer.
pub fn produce(batches: &[(&str, &[u8])], correlation: i32, out: &mut Vec<u8>) {
    request(PRODUCE, correlation, out, |out| {
        fields::null_text(out);
        out.extend((-1_i16).to_be_bytes());
        out.extend(TIMEOUT.to_be_bytes());
        fields::count(batches.len(), out);
        for (topic, batch) in batches {
            fields::text(topic, out);
            fields::count(1, out);
            out.extend(0_i32.to_be_bytes());
            fields::count(batch.len(), out);
            out.extend_from_slice(batch);
        }
    });
}

/// Which copies of a partition must have a record before the broker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// None: the broker does not answer.
    None,
    /// That of the broker that leads the partition.
    Leader,
    /// All that are in step.
    All,
}

impl Acks {
    fn number(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

/// Appends a request to store one record of nobody's in particular, with a key; `at` is in milliseconds since 1970.
pub fn produce_record(
    (topic, partition, acks): (&str, i32, Acks),
    (key, value): (&[u8], &[u8]),
    at: i64,
    correlation: i32,
    out: &mut Vec<u8>,
) {
    request(PRODUCE, correlation, out, |out| {
        fields::null_text(out);
        out.extend(acks.number().to_be_bytes());
        out.extend(TIMEOUT.to_be_bytes());
        fields::count(1, out);
        fields::text(topic, out);
        fields::count(1, out);
        out.extend(partition.to_be_bytes());
        fields::sized(out, |out| {
            batch::write([Entry { key: Some(key), value }].into_iter(), (NOBODY, -1), at, out);
        });
    });
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Produced {
    /// Its topic.
    pub topic: String,
    /// What went wrong.
    pub error: i16,
    /// The offset of its first record.
    pub offset: i64,
}

/// Reads the answer to [`produce`].
///
/// # Errors
/// [`Malformed`].
pub fn produced(body: &[u8]) -> Result<Vec<Produced>, Malformed> {
    let mut reader = Reader::new(body);
    let mut all = Vec::new();
    for _ in 0..reader.count()? {
        let topic = reader.text()?.unwrap_or_default();
        for _ in 0..reader.count()? {
            let (_partition, error, offset, _time) =
                (reader.i32()?, reader.i16()?, reader.i64()?, reader.i64()?);
            all.push(Produced { topic: topic.to_owned(), error, offset });
        }
    }
    Ok(all)
}

/// Reads the answer to [`produce_record`]: the error, and for how many milliseconds the broker holds the client back.
///
/// # Errors
/// [`Malformed`].
pub fn produced_record(body: &[u8]) -> Result<(i16, i32), Malformed> {
    let mut reader = Reader::new(body);
    if reader.count()? != 1 {
        return Err(Malformed);
    }
    let _topic = reader.text()?;
    if reader.count()? != 1 {
        return Err(Malformed);
    }
    let (_partition, error) = (reader.i32()?, reader.i16()?);
    let _place = (reader.i64()?, reader.i64()?);
    Ok((error, reader.i32()?))
}

/// Where a partition is read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The next offset.
    pub offset: i64,
}

/// Appends a request for the records from these positions on; those of a topic stand together. The broker waits so many milliseconds
/// where there are none, and gives so many bytes in all at most, or one batch.
pub fn fetch(positions: &[Position<'_>], (wait, most): (i32, i32), correlation: i32, out: &mut Vec<u8>) {
    let topics = || positions.chunk_by(|one, next| one.topic == next.topic);
    request(FETCH, correlation, out, |out| {
        out.extend((-1_i32).to_be_bytes());
        out.extend(wait.to_be_bytes());
        out.extend(1_i32.to_be_bytes());
        out.extend(most.to_be_bytes());
        // What is not committed is read, too: nothing here is transactional.
        out.push(0);
        fields::count(topics().count(), out);
        for of_topic in topics() {
            fields::text(of_topic.first().map(|first| first.topic).unwrap_or_default(), out);
            fields::count(of_topic.len(), out);
            for position in of_topic {
                out.extend(position.partition.to_be_bytes());
                out.extend(position.offset.to_be_bytes());
                out.extend(most.to_be_bytes());
            }
        }
    });
}

/// Records of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched<'a> {
    /// The topic.
    pub topic: &'a str,
    /// What went wrong.
    pub error: i16,
    /// Its record batches, see [`batch`](super::batch).
    pub batches: &'a [u8],
}

/// Reads the answer to [`fetch`].
///
/// # Errors
/// [`Malformed`].
pub fn fetched(body: &[u8]) -> Result<Vec<Fetched<'_>>, Malformed> {
    let mut reader = Reader::new(body);
    let _throttled = reader.i32()?;
    let mut all = Vec::new();
    for _ in 0..reader.count()? {
        let topic = reader.text()?.unwrap_or_default();
        for _ in 0..reader.count()? {
            let (_partition, error) = (reader.i32()?, reader.i16()?);
            let _marks = (reader.i64()?, reader.i64()?);
            let aborted = reader.count()?;
            (0..aborted).try_for_each(|_| reader.take(16).map(drop))?;
            let batches = reader.bytes()?.unwrap_or_default();
            all.push(Fetched { topic, error, batches });
        }
    }
    Ok(all)
}

/// An end of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The offset of its oldest record.
    Oldest = -2,
    /// The offset behind its newest record.
    Newest = -1,
}

/// Appends a question about an end of partitions.
pub fn ask_offsets(topic: &str, (partitions, end): (&[i32], End), correlation: i32, out: &mut Vec<u8>) {
    request(LIST_OFFSETS, correlation, out, |out| {
        out.extend((-1_i32).to_be_bytes());
        fields::count(1, out);
        fields::text(topic, out);
        fields::count(partitions.len(), out);
        for partition in partitions {
            out.extend(partition.to_be_bytes());
            out.extend((end as i64).to_be_bytes());
        }
    });
}

/// Where an end of a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Its number.
    pub partition: i32,
    /// What went wrong.
    pub error: i16,
    /// The offset.
    pub offset: i64,
}

/// Reads the answer to [`ask_offsets`].
///
/// # Errors
/// [`Malformed`].
pub fn offsets(body: &[u8]) -> Result<Vec<Offset>, Malformed> {
    let mut reader = Reader::new(body);
    let mut all = Vec::new();
    for _ in 0..reader.count()? {
        let _topic = reader.text()?;
        for _ in 0..reader.count()? {
            let (partition, error, _time) = (reader.i32()?, reader.i16()?, reader.i64()?);
            all.push(Offset { partition, error, offset: reader.i64()? });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_has_its_length_and_says_who_asks() {
        let mut out = Vec::new();
        metadata(&["t"], 9, &mut out);
        let mut expected = vec![0, 0, 0, 26, 0, 3, 0, 4, 0, 0, 0, 9, 0, 8];
        expected.extend_from_slice(b"plimsoll");
        expected.extend([0, 0, 0, 1, 0, 1, b't', 0]);
        assert_eq!(out, expected);
    }

    #[test]
    fn positions_of_a_topic_stand_together() {
        let at = |topic, partition| Position { topic, partition, offset: 7 };
        let mut out = Vec::new();
        fetch(&[at("t", 0), at("t", 1), at("u", 0)], (1, 2), 9, &mut out);
        let topics = out.get(4 + 10 + 8 + 17..).unwrap();
        let partition = |number: u8| [&[0, 0, 0, number][..], &7_i64.to_be_bytes(), &[0, 0, 0, 2]].concat();
        let of_t = [&[0, 1, b't', 0, 0, 0, 2][..], &partition(0), &partition(1)].concat();
        let of_u = [&[0, 1, b'u', 0, 0, 0, 1][..], &partition(0)].concat();
        assert_eq!(topics, [&[0, 0, 0, 2][..], &of_t, &of_u].concat());
    }

    #[test]
    fn one_record_is_produced_as_a_batch_of_one() {
        let (mut one, mut batched, mut batch) = (Vec::new(), Vec::new(), Vec::new());
        produce_record(("t", 0, Acks::All), (b"k", b"v"), 5, 9, &mut one);
        batch::write([Entry { key: Some(b"k"), value: b"v" }].into_iter(), (NOBODY, -1), 5, &mut batch);
        produce(&[("t", &batch)], 9, &mut batched);
        assert_eq!(one, batched);
    }

    #[test]
    fn answers_are_read() {
        let mut body = vec![0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 3];
        body.extend(7_i64.to_be_bytes());
        body.extend((-1_i64).to_be_bytes());
        body.extend([0; 4]);
        assert_eq!(produced(&body), Ok(vec![Produced { topic: "t".into(), error: 3, offset: 7 }]));
        assert_eq!(produced_record(&body), Ok((3, 0)));
        let mut body = vec![0, 0, 0, 0, 0, 0];
        body.extend(40_i64.to_be_bytes());
        body.extend(2_i16.to_be_bytes());
        assert_eq!(producer(&body), Ok((0, Producer { id: 40, epoch: 2 })));
        let mut body = vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        body.extend([0; 16]);
        body.extend((-1_i32).to_be_bytes());
        body.extend([0, 0, 0, 2, 0xaa, 0xbb]);
        assert_eq!(fetched(&body), Ok(vec![Fetched { topic: "t", error: 0, batches: &[0xaa, 0xbb] }]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_malformed(body in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = (cluster(&body), created_topic(&body), producer(&body));
            let _ = (produced(&body), produced_record(&body), fetched(&body), offsets(&body));
        }
    }
}
