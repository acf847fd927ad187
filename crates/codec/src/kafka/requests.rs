//! Requests and their answers.

use super::batch::Producer;
use super::fields::{self, Malformed, Reader};

/// Kinds of requests, and the versions that are spoken here.
const PRODUCE: (i16, i16) = (0, 3);
const FETCH: (i16, i16) = (1, 4);
const LIST_OFFSETS: (i16, i16) = (2, 1);
const METADATA: (i16, i16) = (3, 1);
const CREATE_TOPICS: (i16, i16) = (19, 2);
const INIT_PRODUCER_ID: (i16, i16) = (22, 0);
/// How long the broker may take for what it stores, in milliseconds.
const TIMEOUT: i32 = 10_000;
/// What a client of ours calls itself.
const CLIENT: &str = "plimsoll";

/// Appends a request with its length.
fn request((key, version): (i16, i16), correlation: i32, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend([0; 4]);
    out.extend(key.to_be_bytes());
    out.extend(version.to_be_bytes());
    out.extend(correlation.to_be_bytes());
    fields::text(CLIENT, out);
    body(out);
    let length = (out.len() - begin - 4) as i32;
    if let Some(place) = out.get_mut(begin..begin + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
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

/// Appends a question about topics.
pub fn metadata(topics: &[&str], correlation: i32, out: &mut Vec<u8>) {
    request(METADATA, correlation, out, |out| {
        fields::count(topics.len(), out);
        topics.iter().for_each(|topic| fields::text(topic, out));
    });
}

/// Reads the answer to [`metadata`]: the partitions of the topics.
///
/// # Errors
/// [`Malformed`].
pub fn partitions(body: &[u8]) -> Result<Vec<Partition>, Malformed> {
    let mut reader = Reader::new(body);
    for _ in 0..reader.count()? {
        let _broker = (reader.i32()?, reader.text()?, reader.i32()?, reader.text()?);
    }
    let _controller = reader.i32()?;
    let mut found = Vec::new();
    for _ in 0..reader.count()? {
        let (of_topic, topic, _internal) = (reader.i16()?, reader.text()?, reader.i8()?);
        let topic = topic.unwrap_or_default().to_owned();
        let count = reader.count()?;
        if count == 0 {
            let (topic, number, leader) = (topic.clone(), 0, -1);
            found.push(Partition { topic, number, error: of_topic, leader });
        }
        for _ in 0..count {
            let (error, number, leader) = (reader.i16()?, reader.i32()?, reader.i32()?);
            for _ in 0..2 {
                let copies = reader.count()?;
                (0..copies).try_for_each(|_| reader.i32().map(drop))?;
            }
            found.push(Partition { topic: topic.clone(), number, error, leader });
        }
    }
    Ok(found)
}

/// Appends a request for a topic of one partition with one copy.
pub fn create_topic(topic: &str, correlation: i32, out: &mut Vec<u8>) {
    request(CREATE_TOPICS, correlation, out, |out| {
        fields::count(1, out);
        fields::text(topic, out);
        out.extend(1_i32.to_be_bytes());
        out.extend(1_i16.to_be_bytes());
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

/// Where a topic is read on: its name, and the next offset.
pub type Offset<'a> = (&'a str, i64);

/// Appends a request for the records from these offsets on, in partition 0 of each topic. The broker waits so many milliseconds where there
/// are none, and gives so many bytes in all at most, or one batch.
pub fn fetch(offsets: &[Offset<'_>], (wait, most): (i32, i32), correlation: i32, out: &mut Vec<u8>) {
    request(FETCH, correlation, out, |out| {
        out.extend((-1_i32).to_be_bytes());
        out.extend(wait.to_be_bytes());
        out.extend(1_i32.to_be_bytes());
        out.extend(most.to_be_bytes());
        // What is not committed is read, too: nothing here is transactional.
        out.push(0);
        fields::count(offsets.len(), out);
        for (topic, offset) in offsets {
            fields::text(topic, out);
            fields::count(1, out);
            out.extend(0_i32.to_be_bytes());
            out.extend(offset.to_be_bytes());
            out.extend(most.to_be_bytes());
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

/// Appends a question about the offset behind the newest record of a topic.
pub fn latest_offset(topic: &str, correlation: i32, out: &mut Vec<u8>) {
    request(LIST_OFFSETS, correlation, out, |out| {
        out.extend((-1_i32).to_be_bytes());
        fields::count(1, out);
        fields::text(topic, out);
        fields::count(1, out);
        out.extend(0_i32.to_be_bytes());
        out.extend((-1_i64).to_be_bytes());
    });
}

/// Reads the answer to [`latest_offset`]: the error, and the offset.
///
/// # Errors
/// [`Malformed`].
pub fn offset(body: &[u8]) -> Result<(i16, i64), Malformed> {
    let mut reader = Reader::new(body);
    if reader.count()? != 1 {
        return Err(Malformed);
    }
    let _topic = reader.text()?;
    if reader.count()? != 1 {
        return Err(Malformed);
    }
    let _partition = reader.i32()?;
    let error = reader.i16()?;
    let _time = reader.i64()?;
    Ok((error, reader.i64()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_has_its_length_and_says_who_asks() {
        let mut out = Vec::new();
        metadata(&["t"], 9, &mut out);
        let mut expected = vec![0, 0, 0, 25, 0, 3, 0, 1, 0, 0, 0, 9, 0, 8];
        expected.extend_from_slice(b"plimsoll");
        expected.extend([0, 0, 0, 1, 0, 1, b't']);
        assert_eq!(out, expected);
    }

    #[test]
    fn answers_are_read() {
        let mut body = vec![0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 3];
        body.extend(7_i64.to_be_bytes());
        body.extend((-1_i64).to_be_bytes());
        body.extend([0; 4]);
        assert_eq!(produced(&body), Ok(vec![Produced { topic: "t".into(), error: 3, offset: 7 }]));
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
            let _ = (partitions(&body), created_topic(&body), producer(&body));
            let _ = (produced(&body), fetched(&body), offset(&body));
        }
    }
}
