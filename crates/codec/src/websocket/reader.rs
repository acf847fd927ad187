//! From bytes, however they are cut, to messages (RFC 6455 section 5).

use super::frame::{
    COMPRESSED, FIN, LARGEST_CONTROL, LENGTH, LENGTH_16, LENGTH_64, MASKED, OPCODE, Opcode, RESERVED, mask,
};

/// The longest head of a frame: two bytes, eight of length, four of mask.
const LONGEST_HEAD: usize = 14;

/// Reads frames of one side and keeps what is incomplete: never more than the head of a frame and the content of a
/// control frame, for content of messages is passed on as it comes. Whether text is UTF-8 is left to who takes it.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Whether the other side is a client, which masks.
    from_client: bool,
    head: [u8; LONGEST_HEAD],
    head_length: usize,
    frame: Option<Frame>,
    /// Whether messages may be compressed.
    may_compress: bool,
    /// What the message under way is, between its first frame and its last, and whether it is compressed.
    message: Option<(Opcode, bool)>,
    control: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: Opcode,
    ends: bool,
    key: Option<[u8; 4]>,
    taken: u64,
    length: u64,
}

/// Something that came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A message of that kind (text or binary): what was appended since the last one is its content.
    Message(Opcode),
    /// The same, whose content is compressed (RFC 7692).
    Compressed(Opcode),
    /// A ping; the same content is to be sent back as a pong.
    Ping(&'a [u8]),
    /// A pong.
    Pong(&'a [u8]),
    /// The orderly end, with a code (section 7.4) and a reason where they were given.
    Close(Option<u16>, &'a str),
}

/// What the other side must not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Bits for extensions that nobody agreed on.
    #[error("reserved bits are set in a frame")]
    Reserved,
    /// An opcode without meaning.
    #[error("opcode {0} is reserved")]
    Opcode(u8),
    /// A client's frame without mask, or a server's with one.
    #[error("a frame of a client is not masked, or one of a server is")]
    Mask,
    /// A length that is not written in the shortest form, or above 2^63.
    #[error("the length of a frame is not written as it must be")]
    Length,
    /// A control frame that is cut or longer than 125 bytes.
    #[error("a control frame is cut or longer than 125 bytes")]
    Control,
    /// A continuation of nothing, or a message within another.
    #[error("the frames of a message do not follow each other")]
    Sequence,
    /// A close with half a code, or with a reason that is no UTF-8.
    #[error("a close frame is malformed")]
    Close,
}

impl Reader {
    /// Reads what a server sends.
    pub fn of_server() -> Reader {
        Reader::new(false)
    }

    /// Reads what a client sends.
    pub fn of_client() -> Reader {
        Reader::new(true)
    }

    /// The same, where compression was agreed on (RFC 7692).
    pub fn compressed(self) -> Reader {
        Reader { may_compress: true, ..self }
    }

    fn new(from_client: bool) -> Reader {
        Reader {
            from_client,
            head: [0; LONGEST_HEAD],
            head_length: 0,
            frame: None,
            may_compress: false,
            message: None,
            control: Vec::new(),
        }
    }

    /// Bytes of the frame under way that are still to come.
    pub fn announced(&self) -> u64 {
        self.frame.map_or(0, |frame| frame.length - frame.taken)
    }

    /// Reads on until something comes to its end or nothing is left; appends the content of messages to `data`. Returns
    /// how many bytes were taken.
    ///
    /// # Errors
    /// The other side broke the protocol: the connection is of no more use.
    pub fn read(
        &mut self,
        bytes: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<(usize, Option<Event<'_>>), Violation> {
        let mut taken = 0;
        loop {
            let rest = bytes.get(taken..).unwrap_or_default();
            let Some(frame) = &mut self.frame else {
                let Some(&byte) = rest.first() else { return Ok((taken, None)) };
                taken += 1;
                self.frame = self.head_byte(byte)?;
                continue;
            };
            let left = usize::try_from(frame.length - frame.taken).unwrap_or(usize::MAX);
            let some = rest.get(..left).unwrap_or(rest);
            let into = if frame.opcode.is_control() { &mut self.control } else { &mut *data };
            let begin = into.len();
            into.extend_from_slice(some);
            if let (Some(key), Some(fresh)) = (frame.key, into.get_mut(begin..)) {
                mask(key, frame.taken, fresh);
            }
            frame.taken += some.len() as u64;
            taken += some.len();
            if frame.taken < frame.length {
                return Ok((taken, None));
            }
            let Frame { opcode, ends, .. } = *frame;
            self.frame = None;
            match opcode {
                Opcode::Ping => return Ok((taken, Some(Event::Ping(&self.control)))),
                Opcode::Pong => return Ok((taken, Some(Event::Pong(&self.control)))),
                Opcode::Close => return Ok((taken, Some(close(&self.control)?))),
                Opcode::Continuation | Opcode::Text | Opcode::Binary if ends => {
                    let (message, is_compressed) = self.message.take().ok_or(Violation::Sequence)?;
                    let event =
                        if is_compressed { Event::Compressed(message) } else { Event::Message(message) };
                    return Ok((taken, Some(event)));
                }
                Opcode::Continuation | Opcode::Text | Opcode::Binary => {}
            }
        }
    }

    /// Takes one more byte of a frame's head; the frame when it is whole.
    fn head_byte(&mut self, byte: u8) -> Result<Option<Frame>, Violation> {
        if let Some(place) = self.head.get_mut(self.head_length) {
            *place = byte;
        }
        self.head_length += 1;
        let [first, second, ..] = self.head;
        if self.head_length == 1 {
            // Only the first frame of a message has the bit (RFC 7692 section 6).
            let may_have = self.may_compress
                && Opcode::from_number(first & OPCODE)
                    .is_some_and(|opcode| !opcode.is_control() && opcode != Opcode::Continuation);
            let allowed = if may_have { COMPRESSED } else { 0 };
            if first & RESERVED & !allowed != 0 {
                return Err(Violation::Reserved);
            }
            return Opcode::from_number(first & OPCODE)
                .map(|_| None)
                .ok_or(Violation::Opcode(first & OPCODE));
        }
        let masked = second & MASKED != 0;
        if masked != self.from_client {
            return Err(Violation::Mask);
        }
        let extended = match second & LENGTH {
            LENGTH_16 => 2,
            LENGTH_64 => 8,
            _ => 0,
        };
        let whole = 2 + extended + if masked { 4 } else { 0 };
        if self.head_length < whole {
            return Ok(None);
        }
        self.head_length = 0;
        let written = self.head.get(2..2 + extended).unwrap_or_default();
        let written = written.iter().fold(0u64, |length, &byte| length << 8 | u64::from(byte));
        let (length, least, most) = match extended {
            2 => (written, u64::from(LENGTH_16), u64::MAX),
            8 => (written, 1 << 16, i64::MAX as u64),
            _ => (u64::from(second & LENGTH), 0, u64::MAX),
        };
        if !(least..=most).contains(&length) {
            return Err(Violation::Length);
        }
        let opcode = Opcode::from_number(first & OPCODE).ok_or(Violation::Opcode(first & OPCODE))?;
        let ends = first & FIN != 0;
        if opcode.is_control() {
            if !ends || length > LARGEST_CONTROL as u64 {
                return Err(Violation::Control);
            }
            self.control.clear();
        } else if (opcode == Opcode::Continuation) != self.message.is_some() {
            return Err(Violation::Sequence);
        } else if opcode != Opcode::Continuation {
            self.message = Some((opcode, first & COMPRESSED != 0));
        }
        let key = self.head.get(2 + extended..whole).and_then(|key| key.try_into().ok());
        Ok(Some(Frame { opcode, ends, key, taken: 0, length }))
    }
}

fn close(content: &[u8]) -> Result<Event<'_>, Violation> {
    match content {
        [] => Ok(Event::Close(None, "")),
        [high, low, reason @ ..] => {
            let reason = std::str::from_utf8(reason).map_err(|_| Violation::Close)?;
            Ok(Event::Close(Some(u16::from_be_bytes([*high, *low])), reason))
        }
        [_] => Err(Violation::Close),
    }
}
