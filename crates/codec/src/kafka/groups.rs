//! Requests of the members of a consumer group, and their answers. The member that leads a group says who reads what.

use super::fields::{self, Malformed, Reader};
use super::requests::request;

/// Kinds of requests, and the versions that are spoken here.
const OFFSET_COMMIT: (i16, i16) = (8, 2);
const OFFSET_FETCH: (i16, i16) = (9, 1);
const FIND_COORDINATOR: (i16, i16) = (10, 0);
const JOIN_GROUP: (i16, i16) = (11, 2);
const HEARTBEAT: (i16, i16) = (12, 1);
const LEAVE_GROUP: (i16, i16) = (13, 1);
const SYNC_GROUP: (i16, i16) = (14, 1);
/// What the members of these groups are.
const CONSUMER: &str = "consumer";
/// How partitions are shared here, by the name that other clients know.
const ROUND_ROBIN: &str = "roundrobin";
/// The version of what members say to each other.
const VERSION: i16 = 0;

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The group.
    pub group: &'a str,
    /// The number of times that the group was shared out.
    pub generation: i32,
    /// What the broker calls the member.
    pub name: &'a str,
}

/// Appends a question about which broker looks after a group.
pub fn find_coordinator(group: &str, correlation: i32, out: &mut Vec<u8>) {
    request(FIND_COORDINATOR, correlation, out, |out| fields::text(group, out));
}

/// Reads the answer to [`find_coordinator`]: the error, and the number of the broker.
///
/// # Errors
/// [`Malformed`].
pub fn coordinator(body: &[u8]) -> Result<(i16, i32), Malformed> {
    let mut reader = Reader::new(body);
    Ok((reader.i16()?, reader.i32()?))
}

/// Appends a request to join a group that reads a topic. A member of which nothing is heard for so many milliseconds is put out, and one
/// that does not join again for so many when the group is shared out; `member` is empty for one that has no name yet.
pub fn join_group(
    (group, member): (&str, &str),
    topic: &str,
    (silence, rebalance): (i32, i32),
    correlation: i32,
    out: &mut Vec<u8>,
) {
    request(JOIN_GROUP, correlation, out, |out| {
        fields::text(group, out);
        out.extend(silence.to_be_bytes());
        out.extend(rebalance.to_be_bytes());
        fields::text(member, out);
        fields::text(CONSUMER, out);
        fields::count(1, out);
        fields::text(ROUND_ROBIN, out);
        fields::sized(out, |out| {
            out.extend(VERSION.to_be_bytes());
            fields::count(1, out);
            fields::text(topic, out);
            fields::bytes(&[], out);
        });
    });
}

/// That a member has joined its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// What went wrong.
    pub error: i16,
    /// The number of times that the group was shared out.
    pub generation: i32,
    /// Which member leads the group.
    pub leader: String,
    /// What the broker calls this one.
    pub member: String,
    /// All members, for the one that leads.
    pub members: Vec<String>,
}

/// Reads the answer to [`join_group`].
///
/// # Errors
/// [`Malformed`].
pub fn joined(body: &[u8]) -> Result<Joined, Malformed> {
    let mut reader = Reader::new(body);
    let text = |reader: &mut Reader<'_>| reader.text().map(|text| text.unwrap_or_default().to_owned());
    let (_throttled, error, generation) = (reader.i32()?, reader.i16()?, reader.i32()?);
    let (_way, leader, member) = (text(&mut reader)?, text(&mut reader)?, text(&mut reader)?);
    let mut members = Vec::new();
    for _ in 0..reader.count()? {
        members.push(text(&mut reader)?);
        let _topics = reader.bytes()?;
    }
    Ok(Joined { error, generation, leader, member, members })
}

/// Shares partitions among members: the first one to the first member, and so on.
pub fn shared_out(members: &[String], partitions: &[i32]) -> Vec<(String, Vec<i32>)> {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    let count = sorted.len();
    let of_member = |(place, name): (usize, String)| {
        let own = partitions.iter().skip(place).step_by(count.max(1));
        (name, own.copied().collect())
    };
    sorted.into_iter().enumerate().map(of_member).collect()
}

/// Appends a request for what a member is to read. The one that leads says it of all.
pub fn sync_group(
    member: Member<'_>,
    topic: &str,
    shares: &[(String, Vec<i32>)],
    correlation: i32,
    out: &mut Vec<u8>,
) {
    request(SYNC_GROUP, correlation, out, |out| {
        put_member(member, out);
        fields::count(shares.len(), out);
        for (name, partitions) in shares {
            fields::text(name, out);
            fields::sized(out, |out| {
                out.extend(VERSION.to_be_bytes());
                fields::count(1, out);
                fields::text(topic, out);
                fields::count(partitions.len(), out);
                partitions.iter().for_each(|number| out.extend(number.to_be_bytes()));
                fields::bytes(&[], out);
            });
        }
    });
}

/// Reads the answer to [`sync_group`]: the error, and the partitions that the member reads.
///
/// # Errors
/// [`Malformed`].
pub fn share(body: &[u8]) -> Result<(i16, Vec<i32>), Malformed> {
    let mut reader = Reader::new(body);
    let (_throttled, error) = (reader.i32()?, reader.i16()?);
    let mut partitions = Vec::new();
    let Some(share) = reader.bytes()?.filter(|share| !share.is_empty()) else {
        return Ok((error, partitions));
    };
    let mut reader = Reader::new(share);
    let _version = reader.i16()?;
    for _ in 0..reader.count()? {
        let _topic = reader.text()?;
        for _ in 0..reader.count()? {
            partitions.push(reader.i32()?);
        }
    }
    Ok((error, partitions))
}

/// Appends that a member is still there.
pub fn heartbeat(member: Member<'_>, correlation: i32, out: &mut Vec<u8>) {
    request(HEARTBEAT, correlation, out, |out| put_member(member, out));
}

/// Reads the answer to [`heartbeat`]: the error.
///
/// # Errors
/// [`Malformed`].
pub fn alive(body: &[u8]) -> Result<i16, Malformed> {
    let mut reader = Reader::new(body);
    let _throttled = reader.i32()?;
    reader.i16()
}

/// Appends that a member is not there any more.
pub fn leave_group(group: &str, member: &str, correlation: i32, out: &mut Vec<u8>) {
    request(LEAVE_GROUP, correlation, out, |out| {
        fields::text(group, out);
        fields::text(member, out);
    });
}

/// Appends up to where a member has read partitions.
pub fn commit(member: Member<'_>, topic: &str, offsets: &[(i32, i64)], correlation: i32, out: &mut Vec<u8>) {
    request(OFFSET_COMMIT, correlation, out, |out| {
        put_member(member, out);
        // As long as the broker keeps them by itself.
        out.extend((-1_i64).to_be_bytes());
        fields::count(1, out);
        fields::text(topic, out);
        fields::count(offsets.len(), out);
        for (partition, offset) in offsets {
            out.extend(partition.to_be_bytes());
            out.extend(offset.to_be_bytes());
            fields::null_text(out);
        }
    });
}

/// Reads the answer to [`commit`]: the first error, or none.
///
/// # Errors
/// [`Malformed`].
pub fn committed(body: &[u8]) -> Result<i16, Malformed> {
    let mut reader = Reader::new(body);
    let mut first = super::error::NONE;
    for _ in 0..reader.count()? {
        let _topic = reader.text()?;
        for _ in 0..reader.count()? {
            let (_partition, error) = (reader.i32()?, reader.i16()?);
            first = if first == super::error::NONE { error } else { first };
        }
    }
    Ok(first)
}

/// Appends a question about up to where a group has read partitions.
pub fn committed_offsets(group: &str, topic: &str, partitions: &[i32], correlation: i32, out: &mut Vec<u8>) {
    request(OFFSET_FETCH, correlation, out, |out| {
        fields::text(group, out);
        fields::count(1, out);
        fields::text(topic, out);
        fields::count(partitions.len(), out);
        partitions.iter().for_each(|number| out.extend(number.to_be_bytes()));
    });
}

/// Reads the answer to [`committed_offsets`]: each partition, the next offset, which is below 0 where nothing was read, and the
/// error.
///
/// # Errors
/// [`Malformed`].
pub fn read_up_to(body: &[u8]) -> Result<Vec<(i32, i64, i16)>, Malformed> {
    let mut reader = Reader::new(body);
    let mut all = Vec::new();
    for _ in 0..reader.count()? {
        let _topic = reader.text()?;
        for _ in 0..reader.count()? {
            let (partition, offset, _said) = (reader.i32()?, reader.i64()?, reader.text()?);
            all.push((partition, offset, reader.i16()?));
        }
    }
    Ok(all)
}

fn put_member(member: Member<'_>, out: &mut Vec<u8>) {
    fields::text(member.group, out);
    out.extend(member.generation.to_be_bytes());
    fields::text(member.name, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn partitions_are_shared_out_in_turn() {
        let members = ["b".to_owned(), "a".to_owned()];
        let shares = shared_out(&members, &[0, 1, 2]);
        assert_eq!(shares, [("a".to_owned(), vec![0, 2]), ("b".to_owned(), vec![1])]);
        assert_eq!(shared_out(&[], &[0]), []);
    }

    /// What the member that leads says of one comes to that one as it was written.
    #[test]
    fn a_share_is_read_as_it_was_written() {
        let member = Member { group: "g", generation: 3, name: "a" };
        let mut out = Vec::new();
        sync_group(member, "t", &[("a".to_owned(), vec![1, 5])], 9, &mut out);
        let share_at = out.windows(4).position(|four| four == [0, 0, 0, 25]).unwrap();
        let body = [&[0; 6][..], out.get(share_at..).unwrap()].concat();
        assert_eq!(share(&body), Ok((0, vec![1, 5])));
        assert_eq!(share(&[0, 0, 0, 0, 0, 27, 0, 0, 0, 0]), Ok((27, Vec::new())));
    }

    #[test]
    fn answers_about_offsets_are_read() {
        let mut body = vec![0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 4];
        body.extend(7_i64.to_be_bytes());
        body.extend([0xff, 0xff, 0, 3]);
        assert_eq!(read_up_to(&body), Ok(vec![(4, 7, 3)]));
        let body = [0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 25];
        assert_eq!(committed(&body), Ok(25));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_malformed(body in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = (coordinator(&body), joined(&body), share(&body));
            let _ = (alive(&body), committed(&body), read_up_to(&body));
        }
    }
}
