//! The wire protocol of MongoDB, as far as servers and drivers of today use it: OP_MSG, and OP_QUERY with OP_REPLY, by which old
//! drivers say hello (MongoDB Wire Protocol, of the MongoDB manual).

pub mod bson;

use bson::{Document, Value};

/// Bytes of the header of a message.
pub const HEADER: usize = 16;
/// Largest message, bytes, as servers have it.
pub const LARGEST: usize = 48_000_000;

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_MSG: i32 = 2013;
/// Flags of OP_MSG: a checksum stands at the end; no answer is awaited.
const CHECKSUM: u32 = 1;
const MORE_TO_COME: u32 = 2;
/// Flags below this bit must be understood.
const REQUIRED: u32 = 1 << 16;

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its number, which its sender gave it.
    pub number: i32,
    /// The number of the message that it answers; 0 of none.
    pub answers: i32,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A command or its answer. What its sender put into sequences stands in the document as lists.
    Message {
        /// The document.
        document: Document,
        /// Whether no answer is awaited.
        is_silent: bool,
    },
    /// A command of an old driver.
    Query {
        /// The collection that is asked, such as `admin.$cmd`.
        collection: String,
        /// The document.
        document: Document,
    },
    /// The answer to that.
    Reply(Vec<Document>),
}

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A length that no message has.
    #[error("a message of {0} bytes; one has {HEADER} to {LARGEST}")]
    Size(i64),
    /// An operation that we do not know.
    #[error("the unknown operation {0}; OP_MSG and OP_QUERY are known")]
    Operation(i32),
    /// A flag of OP_MSG that must be understood.
    #[error("unknown flags 0x{0:04x} of OP_MSG")]
    Flags(u32),
    /// Something ends too early, or does not end.
    #[error("a message that does not end where it says")]
    Length,
    /// Not exactly one document, or an unknown kind of section.
    #[error("sections that are no command")]
    Sections,
    /// A document that is none.
    #[error(transparent)]
    Document(#[from] bson::Malformed),
}

/// The length of the first message, of which some bytes may not have come; `None` until that can be known.
///
/// # Errors
/// It is shorter than its header, or larger than we take.
pub fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = i32::from_le_bytes(*length);
    match usize::try_from(length) {
        Ok(length) if (HEADER..=LARGEST).contains(&length) => Ok(Some(length)),
        _ => Err(Malformed::Size(length.into())),
    }
}

impl Message {
    /// Reads a whole message.
    ///
    /// # Errors
    /// It is none, or of a kind that we do not know.
    pub fn read(bytes: &[u8]) -> Result<Message, Malformed> {
        if length(bytes)? != Some(bytes.len()) {
            return Err(Malformed::Length);
        }
        let [_, number, answers, operation] = header(bytes).ok_or(Malformed::Length)?;
        let rest = bytes.get(HEADER..).unwrap_or_default();
        let body = match operation {
            OP_MSG => message(rest)?,
            OP_QUERY => query(rest)?,
            OP_REPLY => reply(rest)?,
            other => return Err(Malformed::Operation(other)),
        };
        Ok(Message { number, answers, body })
    }

    /// Writes it behind what is there.
    pub fn write(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        let operation = match self.body {
            Body::Message { .. } => OP_MSG,
            Body::Query { .. } => OP_QUERY,
            Body::Reply(_) => OP_REPLY,
        };
        for number in [0, self.number, self.answers, operation] {
            out.extend(number.to_le_bytes());
        }
        match &self.body {
            Body::Message { document, is_silent } => {
                let flags = if *is_silent { MORE_TO_COME } else { 0 };
                out.extend(flags.to_le_bytes());
                out.push(0);
                document.write(out);
            }
            Body::Query { collection, document } => {
                out.extend([0; 4]);
                out.extend(collection.bytes().filter(|byte| *byte != 0));
                out.push(0);
                // Nothing is skipped, and one document is awaited.
                out.extend([0; 4]);
                out.extend((-1i32).to_le_bytes());
                document.write(out);
            }
            Body::Reply(documents) => {
                // Flags, the number of a cursor, and where these documents begin in it.
                out.extend([0; 16]);
                out.extend((documents.len() as u32).to_le_bytes());
                documents.iter().for_each(|document| document.write(out));
            }
        }
        let length = ((out.len() - begin) as u32).to_le_bytes();
        if let Some(place) = out.get_mut(begin..begin + 4) {
            place.copy_from_slice(&length);
        }
    }
}

/// The four numbers of a header: length, number, what it answers, operation.
fn header(bytes: &[u8]) -> Option<[i32; 4]> {
    let mut numbers = bytes.get(..HEADER)?.chunks_exact(4).filter_map(|four| four.first_chunk::<4>());
    let mut next = || numbers.next().map(|four| i32::from_le_bytes(*four));
    Some([next()?, next()?, next()?, next()?])
}

fn message(bytes: &[u8]) -> Result<Body, Malformed> {
    let (flags, mut rest) = bytes.split_first_chunk::<4>().ok_or(Malformed::Length)?;
    let flags = u32::from_le_bytes(*flags);
    if (flags % REQUIRED) & !(CHECKSUM | MORE_TO_COME) != 0 {
        return Err(Malformed::Flags(flags));
    }
    if flags & CHECKSUM != 0 {
        // TCP has a checksum already.
        rest = rest.split_last_chunk::<4>().ok_or(Malformed::Length)?.0;
    }
    let (mut command, mut sequences) = (None, Vec::new());
    while let [kind, behind @ ..] = rest {
        rest = match (kind, command.is_none()) {
            (0, true) => {
                let (document, behind) = Document::read(behind)?;
                command = Some(document);
                behind
            }
            (1, _) => {
                let size = behind.first_chunk::<4>().ok_or(Malformed::Length)?;
                let size = usize::try_from(i32::from_le_bytes(*size)).map_err(|_| Malformed::Length)?;
                let (section, after) = behind.split_at_checked(size).ok_or(Malformed::Length)?;
                sequences.push(sequence(section.get(4..).ok_or(Malformed::Length)?)?);
                after
            }
            _ => return Err(Malformed::Sections),
        };
    }
    let mut document = command.ok_or(Malformed::Sections)?;
    document.0.extend(sequences);
    Ok(Body::Message { document, is_silent: flags & MORE_TO_COME != 0 })
}

/// Documents that belong to a key of the command.
fn sequence(bytes: &[u8]) -> Result<(String, Value), Malformed> {
    let (key, mut rest) = name(bytes)?;
    let mut documents = Vec::new();
    while !rest.is_empty() {
        let (document, behind) = Document::read(rest)?;
        documents.push(Value::Document(document));
        rest = behind;
    }
    Ok((key, Value::Array(documents)))
}

/// A text up to a zero byte, and what stands behind it.
fn name(bytes: &[u8]) -> Result<(String, &[u8]), Malformed> {
    let end = memchr::memchr(0, bytes).ok_or(Malformed::Length)?;
    let (text, rest) = bytes.split_at_checked(end).ok_or(Malformed::Length)?;
    let text = std::str::from_utf8(text).map_err(|_| bson::Malformed::Text)?;
    Ok((text.to_owned(), rest.get(1..).unwrap_or_default()))
}

fn query(bytes: &[u8]) -> Result<Body, Malformed> {
    let (collection, rest) = name(bytes.get(4..).ok_or(Malformed::Length)?)?;
    let (document, _) = Document::read(rest.get(8..).ok_or(Malformed::Length)?)?;
    Ok(Body::Query { collection, document })
}

fn reply(bytes: &[u8]) -> Result<Body, Malformed> {
    let mut rest = bytes.get(20..).ok_or(Malformed::Length)?;
    let mut documents = Vec::new();
    while !rest.is_empty() {
        let (document, behind) = Document::read(rest)?;
        documents.push(document);
        rest = behind;
    }
    Ok(Body::Reply(documents))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(message: &Message) -> Vec<u8> {
        let mut out = Vec::new();
        message.write(&mut out);
        out
    }

    #[test]
    fn messages_of_each_kind_are_read_as_they_were_written() {
        let document = Document::default().with("ping", 1).with("$db", "admin");
        let query = Body::Query { collection: "admin.$cmd".into(), document: document.clone() };
        for body in [
            Body::Message { document: document.clone(), is_silent: false },
            Body::Message { document: document.clone(), is_silent: true },
            query,
            Body::Reply(vec![document.clone(), Document::default()]),
        ] {
            let message = Message { number: 7, answers: 3, body };
            let bytes = written(&message);
            assert_eq!(length(&bytes[..5]), Ok(Some(bytes.len())));
            assert_eq!(Message::read(&bytes), Ok(message));
            for end in 0..bytes.len() {
                assert!(Message::read(&bytes[..end]).is_err(), "{end}");
            }
        }
    }

    /// As drivers write several documents at once, with a checksum.
    #[test]
    fn sequences_become_lists_of_the_command_and_a_checksum_is_passed_over() {
        let (mut command, mut row) = (Vec::new(), Vec::new());
        Document::default().with("insert", "things").write(&mut command);
        Document::default().with("_id", 1).write(&mut row);
        let section = [b"documents\0".as_slice(), &row, &row].concat();
        let size = (section.len() as u32 + 4).to_le_bytes();
        let rest = [&CHECKSUM.to_le_bytes()[..], &[0], &command, &[1], &size, &section, b"sums"].concat();
        let header = [(rest.len() + HEADER) as i32, 9, 0, OP_MSG].map(i32::to_le_bytes).concat();
        let message = Message::read(&[header, rest].concat()).unwrap();
        let Body::Message { document, is_silent: false } = message.body else { panic!("{message:?}") };
        let row = Value::Document(Document::default().with("_id", 1));
        assert_eq!(document.get("documents"), Some(&Value::Array(vec![row.clone(), row])));
    }

    #[test]
    fn what_no_server_may_pass_over_is_refused() {
        let ping = Body::Message { document: Document::default().with("ping", 1), is_silent: false };
        let bytes = written(&Message { number: 1, answers: 0, body: ping });
        let with = |place: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[place] = byte;
            Message::read(&bytes)
        };
        assert_eq!(with(HEADER, 4), Err(Malformed::Flags(4)));
        assert!(with(HEADER + 2, 1).is_ok(), "an optional flag");
        assert_eq!(with(HEADER + 4, 2), Err(Malformed::Sections));
        assert_eq!(with(12, 0), Err(Malformed::Operation(OP_MSG & !0xff)));
        assert_eq!(length(&[15, 0, 0, 0]), Err(Malformed::Size(15)));
        assert_eq!(length(&[0, 0, 0, 0x7f]), Err(Malformed::Size(0x7f00_0000)));
        assert_eq!(length(&[1, 2, 3]), Ok(None));
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(
            mut bytes in prop::collection::vec(any::<u8>(), HEADER..300),
            operation in prop::sample::select(vec![OP_MSG, OP_QUERY, OP_REPLY]),
        ) {
            let length = (bytes.len() as u32).to_le_bytes();
            bytes[..4].copy_from_slice(&length);
            bytes[12..16].copy_from_slice(&operation.to_le_bytes());
            let _ = Message::read(&bytes);
        }
    }
}
