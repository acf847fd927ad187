//! One frame (RFC 6455 section 5.2).

/// Most bytes that a ping, a pong or a close carries (section 5.5).
pub const LARGEST_CONTROL: usize = 125;

pub(super) const FIN: u8 = 0x80;
pub(super) const RESERVED: u8 = 0x70;
/// Of the reserved bits, the one that marks a compressed message (RFC 7692 section 6).
pub(super) const COMPRESSED: u8 = 0x40;
pub(super) const OPCODE: u8 = 0x0f;
pub(super) const MASKED: u8 = 0x80;
pub(super) const LENGTH: u8 = 0x7f;
/// Lengths that say that the length follows in two or in eight bytes.
pub(super) const LENGTH_16: u8 = 126;
pub(super) const LENGTH_64: u8 = 127;

/// What a frame is (section 11.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// More of the message that was begun.
    Continuation,
    /// A message of text begins.
    Text,
    /// A message of bytes begins.
    Binary,
    /// The orderly end.
    Close,
    /// Is the connection alive?
    Ping,
    /// It is.
    Pong,
}

impl Opcode {
    /// The opcode with this number; `None` where it is reserved.
    pub fn from_number(number: u8) -> Option<Opcode> {
        Some(match number {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            Opcode::Continuation => 0,
            Opcode::Text => 1,
            Opcode::Binary => 2,
            Opcode::Close => 8,
            Opcode::Ping => 9,
            Opcode::Pong => 10,
        }
    }

    /// Whether it is a control frame, which is never cut and may stand between the frames of a message.
    pub fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

/// Bytes of the header of a frame with so long a payload, its key included.
pub fn header_length(payload: usize, masked: bool) -> usize {
    let length = match (u8::try_from(payload), u16::try_from(payload)) {
        (Ok(length), _) if length < LENGTH_16 => 2,
        (_, Ok(_)) => 4,
        _ => 10,
    };
    length + if masked { 4 } else { 0 }
}

/// Appends a frame. `ends` tells whether it ends its message; `key` masks it, as clients must and servers must not. Of a
/// control frame only the first [`LARGEST_CONTROL`] bytes are taken, and it ends in any case.
pub fn encode_frame(opcode: Opcode, ends: bool, key: Option<[u8; 4]>, payload: &[u8], out: &mut Vec<u8>) {
    let (payload, ends) = if opcode.is_control() {
        (payload.get(..LARGEST_CONTROL).unwrap_or(payload), true)
    } else {
        (payload, ends)
    };
    out.push(if ends { FIN | opcode.number() } else { opcode.number() });
    let masked = if key.is_some() { MASKED } else { 0 };
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < LENGTH_16 => out.push(masked | length),
        (_, Ok(length)) => {
            out.push(masked | LENGTH_16);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(masked | LENGTH_64);
            out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(key.as_ref().map_or(&[][..], |key| key));
    let begin = out.len();
    out.extend_from_slice(payload);
    if let (Some(key), Some(bytes)) = (key, out.get_mut(begin..)) {
        mask(key, 0, bytes);
    }
}

/// Appends a message of one frame whose content is compressed.
pub fn encode_compressed(opcode: Opcode, key: Option<[u8; 4]>, payload: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    encode_frame(opcode, true, key, payload, out);
    if let Some(first) = out.get_mut(begin) {
        *first |= COMPRESSED;
    }
}

/// Masks bytes, or takes the mask off (section 5.3); `offset` is the place of the first of them in its frame.
pub fn mask(key: [u8; 4], offset: u64, bytes: &mut [u8]) {
    let from = (offset % 4) as usize;
    for (byte, key) in bytes.iter_mut().zip(key.iter().cycle().skip(from)) {
        *byte ^= key;
    }
}
