//! Frames of HTTP/2 (RFC 9113, sections 4 and 6), and whether bytes can be frames at all.

use crate::dissect::Probe;
use crate::side::Side;

/// What a client begins with.
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame's header.
pub(super) const HEADER: usize = 9;

/// Types of frames.
pub(super) mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// One of [`kind`], or unknown.
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    /// Bytes that follow.
    pub content: usize,
}

impl Header {
    /// The stream of this side ends here.
    pub fn ends_stream(self) -> bool {
        self.flags & END_STREAM != 0
    }

    /// The fields end here.
    pub fn ends_fields(self) -> bool {
        self.flags & END_HEADERS != 0
    }

    /// Whether a part of the content is padding.
    pub fn is_padded(self) -> bool {
        self.flags & PADDED != 0
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self.kind {
            kind::DATA => "DATA",
            kind::HEADERS => "HEADERS",
            kind::PRIORITY => "PRIORITY",
            kind::RST_STREAM => "RST_STREAM",
            kind::SETTINGS => "SETTINGS",
            kind::PUSH_PROMISE => "PUSH_PROMISE",
            kind::PING => "PING",
            kind::GOAWAY => "GOAWAY",
            kind::WINDOW_UPDATE => "WINDOW_UPDATE",
            kind::CONTINUATION => "CONTINUATION",
            _ => "unknown frame",
        }
    }
}

/// Reads a header; `None` where bytes are missing.
pub(super) fn header(bytes: &[u8]) -> Result<Option<Header>, &'static str> {
    let Some(&[a, b, c, kind, flags, d, e, f, g]) = bytes.get(..HEADER) else { return Ok(None) };
    let header = Header {
        kind,
        flags,
        stream: u32::from_be_bytes([d & 0x7f, e, f, g]),
        content: u32::from_be_bytes([0, a, b, c]) as usize,
    };
    let length_fits = match kind {
        kind::PRIORITY => header.content == 5,
        kind::RST_STREAM | kind::WINDOW_UPDATE => header.content == 4,
        kind::PING => header.content == 8,
        kind::SETTINGS => header.content.is_multiple_of(6),
        kind::GOAWAY => header.content >= 8,
        _ => true,
    };
    let stream_fits = match kind {
        kind::SETTINGS | kind::PING | kind::GOAWAY => header.stream == 0,
        kind::WINDOW_UPDATE => true,
        0..=kind::CONTINUATION => header.stream != 0,
        _ => true,
    };
    match (length_fits, stream_fits) {
        (true, true) => Ok(Some(header)),
        (false, _) => Err("a frame of a wrong length"),
        (true, false) => Err("a frame on a stream on which it cannot be"),
    }
}

/// Bytes of a DATA frame that are no padding (RFC 9113, section 6.1), given the beginning of its content.
pub(super) fn unpadded(header: Header, content: &[u8]) -> usize {
    match content.first() {
        Some(&padding) if header.kind == kind::DATA && header.is_padded() => {
            header.content.saturating_sub(1 + usize::from(padding))
        }
        _ => header.content,
    }
}

/// The fields in a HEADERS or PUSH_PROMISE, without padding and what stands before them.
pub(super) fn fields(header: Header, mut content: &[u8]) -> Result<&[u8], &'static str> {
    let short = "a frame that is too short";
    if header.is_padded() {
        let (&padding, rest) = content.split_first().ok_or(short)?;
        content = rest.len().checked_sub(padding.into()).and_then(|end| rest.get(..end)).ok_or(short)?;
    }
    let before = match header.kind {
        kind::PUSH_PROMISE => 4,
        kind::HEADERS if header.flags & PRIORITY != 0 => 5,
        _ => 0,
    };
    content.get(before..).ok_or(short)
}

/// A conversation is known by its preface and first settings. In the middle of a stream, whole frames up to the packet's end
/// are believed: two, or one with fields that begin as those of a request or a response, or with a message of gRPC.
pub(super) fn probe(bytes: &[u8], speaker: Option<Side>, _: bool) -> Probe {
    if speaker != Some(Side::Server) {
        if bytes.starts_with(PREFACE) {
            return Probe::Yes(Some(Side::Client));
        }
        if PREFACE.starts_with(bytes) {
            return Probe::More;
        }
    }
    let first = match header(bytes) {
        Ok(Some(first)) => first,
        Ok(None) if speaker == Some(Side::Server) && bytes.first() == Some(&0) => return Probe::More,
        _ => return Probe::No,
    };
    let content = &bytes[HEADER..];
    let says = match first.kind {
        kind::SETTINGS if first.flags <= 1 && first.content <= 60 => {
            if speaker == Some(Side::Client) || first.flags == 1 && first.content > 0 {
                return Probe::No;
            }
            // Settings that exist (section 6.5.2; RFC 8441; RFC 9218).
            let known =
                |setting: &[u8]| setting[0] == 0 && matches!(setting.get(1), None | Some(1..=6 | 8 | 9));
            let settings = &content[..content.len().min(first.content)];
            return match (settings.chunks(6).all(known), settings.len() < first.content) {
                (false, _) => Probe::No,
                (true, true) => Probe::More,
                (true, false) if speaker.is_none() && first.content == 0 => Probe::No,
                (true, false) => Probe::Yes(Some(Side::Server)),
            };
        }
        kind::HEADERS if first.flags & !0x2d == 0 && first.ends_fields() && first.stream % 2 == 1 => {
            match fields(first, content).ok().and_then(<[u8]>::first) {
                // Of a request the method comes first, of a response the status.
                Some(0x82 | 0x83) => Side::Client,
                Some(0x88..=0x8e | 0x48) => Side::Server,
                _ => return several(bytes, speaker),
            }
        }
        kind::DATA if is_call(first, content) && chained(bytes, true) > 0 => return Probe::Yes(speaker),
        _ => return several(bytes, speaker),
    };
    let wrong = speaker.is_some_and(|speaker| speaker != says);
    if wrong || chained(bytes, true) == 0 { Probe::No } else { Probe::Yes(Some(says)) }
}

/// Two frames that end where the packet does are no accident.
fn several(bytes: &[u8], speaker: Option<Side>) -> Probe {
    if chained(bytes, true) > 1 { Probe::Yes(speaker) } else { Probe::No }
}

/// A whole message of gRPC: whether it is compressed, and its length.
fn is_call(header: Header, content: &[u8]) -> bool {
    let &[0 | 1, a, b, c, d, ..] = content else { return false };
    let plain = header.flags <= 1 && header.stream % 2 == 1;
    plain
        && usize::try_from(u32::from_be_bytes([a, b, c, d])).is_ok_and(|length| length + 5 == header.content)
}

/// Whether a frame begins there: all is known frames up to the end, which may cut the last one but not the first.
pub(super) fn resumes(bytes: &[u8]) -> bool {
    chained(bytes, false) > 0
}

/// How many whole frames there are, 0 where other bytes stand between them. `to_the_end` wants no part of another.
fn chained(mut bytes: &[u8], to_the_end: bool) -> usize {
    let mut whole = 0;
    let cut = |whole| if to_the_end { 0 } else { whole };
    while !bytes.is_empty() {
        let next = match header(bytes) {
            Ok(Some(next)) if next.kind <= kind::CONTINUATION && next.content <= 1 << 20 => next,
            Ok(None) => return cut(whole),
            _ => return 0,
        };
        let Some(rest) = bytes.get(HEADER + next.content..) else { return cut(whole) };
        whole += 1;
        bytes = rest;
    }
    whole
}
