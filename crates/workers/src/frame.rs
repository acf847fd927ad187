//! Frames: what one process sends another through the server, as bytes. A frame may be lost, come twice or out of order.

use crate::bytes::{Malformed, Reader};

/// Version of the frames and of what is in them. A frame of another version is not read.
pub const VERSION: u8 = 3;
/// What every frame begins with.
const MAGIC: [u8; 2] = *b"PW";
/// Kinds of frames.
const LINK: u8 = 0;
const PING: u8 = 1;
const PONG: u8 = 2;
/// Flags of a piece.
const HAS_PIECE: u8 = 1;
const GOES_ON: u8 = 2;

/// A process that takes part: a random number, new with each process. So one that was started again is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct ProcessId(pub u64);

impl std::fmt::Display for ProcessId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A frame, and who sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The sender.
    pub from: ProcessId,
    /// What it says.
    pub body: Body,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A part of what a link carries, or an acknowledgement alone.
    Link(LinkFrame),
    /// Asks for the time: answered at once, by a [`Body::Pong`].
    Ping {
        /// What the sender's monotonic clock showed, in nanoseconds.
        asked: i64,
    },
    /// The answer.
    Pong {
        /// From the question.
        asked: i64,
        /// What the monotonic clock of the one who answers showed, in nanoseconds.
        theirs: i64,
        /// By how many nanoseconds its wall clock was ahead of that.
        wall_ahead: i64,
    },
}

/// A frame of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkFrame {
    /// The run that the link belongs to, as its bits.
    pub run: u64,
    /// So many pieces of the other end have come, all of them in order.
    pub received: u64,
    /// A piece; `None` where the frame only acknowledges.
    pub piece: Option<Piece>,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its number within the link, from 0.
    pub number: u64,
    /// Whether the message goes on in the next piece.
    pub goes_on: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Frame {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend(MAGIC);
        out.push(VERSION);
        let kind = match &self.body {
            Body::Link(_) => LINK,
            Body::Ping { .. } => PING,
            Body::Pong { .. } => PONG,
        };
        out.push(kind);
        out.extend(self.from.0.to_le_bytes());
        match &self.body {
            Body::Link(LinkFrame { run, received, piece }) => {
                out.extend(run.to_le_bytes());
                out.extend(received.to_le_bytes());
                let flags =
                    piece.as_ref().map_or(0, |piece| HAS_PIECE | if piece.goes_on { GOES_ON } else { 0 });
                out.push(flags);
                if let Some(piece) = piece {
                    out.extend(piece.number.to_le_bytes());
                    out.extend(&piece.bytes);
                }
            }
            Body::Ping { asked } => out.extend(asked.to_le_bytes()),
            Body::Pong { asked, theirs, wall_ahead } => {
                for time in [asked, theirs, wall_ahead] {
                    out.extend(time.to_le_bytes());
                }
            }
        }
        out
    }

    /// Reads what [`Frame::encode`] wrote.
    ///
    /// # Errors
    /// It is no frame, or one of another version.
    pub fn decode(bytes: &[u8]) -> Result<Frame, Malformed> {
        let mut reader = Reader::new(bytes);
        let magic = [reader.u8()?, reader.u8()?];
        if magic != MAGIC || reader.u8()? != VERSION {
            return Err(Malformed);
        }
        let kind = reader.u8()?;
        let from = ProcessId(reader.u64()?);
        let body = match kind {
            LINK => {
                let (run, received, flags) = (reader.u64()?, reader.u64()?, reader.u8()?);
                let piece = match flags & HAS_PIECE {
                    0 => None,
                    _ => Some(Piece {
                        number: reader.u64()?,
                        goes_on: flags & GOES_ON != 0,
                        bytes: reader.rest().to_vec(),
                    }),
                };
                Body::Link(LinkFrame { run, received, piece })
            }
            PING => Body::Ping { asked: reader.i64()? },
            PONG => Body::Pong { asked: reader.i64()?, theirs: reader.i64()?, wall_ahead: reader.i64()? },
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(Frame { from, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_of_another_version_and_other_bytes_are_refused() {
        let frame = Frame { from: ProcessId(7), body: Body::Ping { asked: -1 } };
        let mut bytes = frame.encode();
        assert_eq!(Frame::decode(&bytes), Ok(frame));
        let pong = Frame { from: ProcessId(8), body: Body::Pong { asked: 1, theirs: -2, wall_ahead: 3 } };
        assert_eq!(Frame::decode(&pong.encode()), Ok(pong));
        bytes[2] = VERSION + 1;
        assert_eq!(Frame::decode(&bytes), Err(Malformed));
        assert_eq!(Frame::decode(b""), Err(Malformed));
        assert_eq!(Frame::decode(b"PUB x 0"), Err(Malformed));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(from: u64, run: u64, received: u64, number: u64, goes_on: bool, bytes: Vec<u8>, has: bool) {
            let piece = has.then_some(Piece { number, goes_on, bytes });
            let frame = Frame { from: ProcessId(from), body: Body::Link(LinkFrame { run, received, piece }) };
            prop_assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
        }

        #[test]
        fn nothing_makes_it_panic(bytes: Vec<u8>) {
            let _ = Frame::decode(&bytes);
            let _ = Frame::decode(&[&MAGIC[..], &[VERSION], &bytes].concat());
        }
    }
}
