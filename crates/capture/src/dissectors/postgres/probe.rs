//! Whether bytes are PostgreSQL's, and whose.

use super::{CANCEL, GSS, SSL, STARTUP, number};
use crate::dissect::Probe;
use crate::side::Side;
use memchr::memchr;

/// Longest message that is believed at the beginning, bytes.
const LONGEST: usize = 1 << 28;
/// Messages of a packet that are looked at.
const MESSAGES: usize = 4;
/// Bytes of a message cut short that convince.
const ENOUGH: usize = 16;
/// The most columns of a table.
const COLUMNS: usize = 1664;

/// Whether messages of a side begin somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    Yes,
    No,
    /// As far as can be seen.
    Perhaps,
}

/// Judges the first bytes of a side whose protocol is not known.
pub(super) fn probe(bytes: &[u8], speaker: Option<Side>, _whole: bool) -> Probe {
    if bytes.first() == Some(&0) {
        return match speaker {
            Some(Side::Server) => Probe::No,
            _ => startup(bytes),
        };
    }
    let judge = |side: Side| {
        if speaker.is_none_or(|speaker| speaker == side) { begins(side, bytes) } else { Begins::No }
    };
    match (judge(Side::Client), judge(Side::Server)) {
        (Begins::Yes, Begins::No) => Probe::Yes(Some(Side::Client)),
        (Begins::No, Begins::Yes) => Probe::Yes(Some(Side::Server)),
        (Begins::No, Begins::No) => Probe::No,
        // `c` of four bytes is said by both.
        (Begins::Yes, Begins::Yes) => Probe::Yes(None),
        _ => Probe::More,
    }
}

fn startup(bytes: &[u8]) -> Probe {
    if bytes.iter().take(2).any(|&byte| byte != 0) {
        return Probe::No;
    }
    let (Some(length), Some(code)) = (number(bytes, 0), number(bytes, 4)) else { return Probe::More };
    let fits = match code {
        SSL | GSS => length == 8,
        CANCEL => (16..=268).contains(&length),
        // Versions 3.0 and 3.2, and the name of the first setting, the user or another.
        0x3_0000 | 0x3_0002 if (16..=STARTUP as u32).contains(&length) => {
            let settings = &bytes[8..];
            let name = settings.iter().take_while(|byte| byte.is_ascii_lowercase() || **byte == b'_').count();
            match settings.get(name) {
                None => return Probe::More,
                Some(&end) => end == 0 && name >= 2,
            }
        }
        _ => false,
    };
    if fits { Probe::Yes(Some(Side::Client)) } else { Probe::No }
}

/// Whether messages of that side begin with those bytes, which may be cut short.
pub(super) fn begins(side: Side, bytes: &[u8]) -> Begins {
    let mut rest = bytes;
    for seen in 0..MESSAGES {
        let (Some(&kind), length) = (rest.first(), number(rest, 1)) else {
            return if seen > 0 { Begins::Yes } else { Begins::Perhaps };
        };
        let known = match side {
            Side::Client => b"BCDEHPQSXc".contains(&kind),
            Side::Server => b"123ACDEGHIKNRSTWZcnst".contains(&kind),
        };
        // Behind the first message there may be one that proves nothing.
        if !known {
            let other =
                matches!((side, kind), (Side::Client, b'F' | b'd' | b'f' | b'p') | (_, b'd' | b'V' | b'v'));
            return if seen > 0 && other { Begins::Yes } else { Begins::No };
        }
        let Some(length) = length else {
            return if seen > 0 { Begins::Yes } else { Begins::Perhaps };
        };
        let length = length as usize;
        if !(4..LONGEST).contains(&length) {
            return Begins::No;
        }
        let content = &rest[5..rest.len().min(length + 1)];
        let whole = rest.len() > length;
        let fits = match side {
            Side::Client => client(kind, content, length - 4),
            Side::Server => server(kind, content, length - 4),
        };
        if !fits {
            return Begins::No;
        }
        if !whole {
            return if seen > 0 || content.len() >= ENOUGH { Begins::Yes } else { Begins::Perhaps };
        }
        rest = &rest[length + 1..];
    }
    Begins::Yes
}

/// Whether that content, which may be cut short, is what such a message of a client holds.
fn client(kind: u8, content: &[u8], length: usize) -> bool {
    let whole = content.len() == length;
    match kind {
        b'S' | b'H' | b'X' | b'c' => length == 0,
        b'Q' => length > 0 && text(content).is_some_and(|end| !whole || end + 1 == length),
        b'P' => match text(content) {
            Some(name) if name < content.len() => match text(&content[name + 1..]) {
                Some(query) => {
                    let types = content.get(name + query + 2..).unwrap_or_default();
                    !whole || matches!(types, [high, low, rest @ ..] if rest.len() == 4 * pair(*high, *low))
                }
                None => false,
            },
            other => other.is_some() && !whole,
        },
        b'B' => match text(content) {
            Some(portal) if portal < content.len() => match text(&content[portal + 1..]) {
                Some(statement) => match content.get(portal + statement + 2..).unwrap_or_default() {
                    [high, low, formats @ ..] => {
                        let count = pair(*high, *low);
                        count <= COLUMNS
                            && (2 * count <= formats.len() || !whole)
                            && formats.chunks(2).take(count).all(|format| matches!(format, [0] | [0, 0 | 1]))
                    }
                    _ => !whole,
                },
                None => false,
            },
            other => other.is_some() && !whole,
        },
        b'E' => text(content).is_some_and(|end| !whole || end + 5 == length),
        b'C' | b'D' => match content {
            [b'S' | b'P', name @ ..] => text(name).is_some_and(|end| !whole || end + 2 == length),
            _ => content.is_empty() && length > 1,
        },
        _ => false,
    }
}

/// Whether that content, which may be cut short, is what such a message of a server holds.
fn server(kind: u8, content: &[u8], length: usize) -> bool {
    let whole = content.len() == length;
    let upper = |text: &[u8]| {
        text.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ')
            && text.first().is_none_or(u8::is_ascii_uppercase)
    };
    match kind {
        b'1' | b'2' | b'3' | b'n' | b's' | b'I' | b'c' => length == 0,
        b'Z' => length == 1 && matches!(content, [] | [b'I' | b'T' | b'E']),
        b'R' => {
            length >= 4
                && content.iter().zip([0, 0, 0]).all(|(&byte, zero)| byte == zero)
                && content.get(3).is_none_or(|&method| method <= 12)
        }
        b'K' => (8..=260).contains(&length),
        b'S' => match text(content) {
            Some(name) if name > 0 && name < content.len() => {
                text(&content[name + 1..]).is_some_and(|value| !whole || name + value + 2 == length)
            }
            other => other.is_some_and(|name| name > 0 || content.is_empty()) && !whole,
        },
        b'C' => {
            let end = memchr(0, content).unwrap_or(content.len());
            (3..=64).contains(&length) && (!whole || end + 1 == length) && upper(&content[..end])
        }
        b'E' | b'N' => match content {
            [b'S', severity @ ..] => {
                let end = memchr(0, severity).unwrap_or(severity.len());
                end <= 16 && text(&severity[..end]).is_some() && (!whole || content.ends_with(b"\0\0"))
            }
            _ => content.is_empty() && length > 0,
        },
        b'A' => length > 6 && content.get(4..).is_none_or(|name| text(name).is_some()),
        b'G' | b'H' | b'W' => match content {
            [0 | 1, high, low, formats @ ..] => {
                length == 3 + 2 * pair(*high, *low)
                    && formats.chunks(2).all(|format| matches!(format, [0] | [0, 0 | 1]))
            }
            [] | [0 | 1] | [0 | 1, _] => !whole,
            _ => false,
        },
        b't' => {
            matches!(content, [high, low, ..] if length == 2 + 4 * pair(*high, *low))
                || content.len() < 2 && !whole
        }
        b'T' => match content {
            [high, low, columns @ ..] => {
                let count = pair(*high, *low);
                count <= COLUMNS
                    && if count == 0 {
                        length == 2
                    } else {
                        text(columns).is_some() && length >= 2 + 19 * count
                    }
            }
            _ => !whole,
        },
        b'D' => row(content, length),
        _ => false,
    }
}

/// Whether those are the columns of a row.
fn row(content: &[u8], length: usize) -> bool {
    let [high, low, columns @ ..] = content else { return content.len() < length };
    let count = pair(*high, *low);
    let (mut at, mut end) = (0, 0_usize);
    if count > COLUMNS {
        return false;
    }
    for _ in 0..count {
        let Some(size) = number(columns, at) else { return content.len() < length };
        let size = if size == u32::MAX { 0 } else { size as usize };
        end = at + 4 + size;
        if end > length - 2 {
            return false;
        }
        at = end;
    }
    end + 2 == length
}

/// Where a text ends: at a zero, or where it is cut short. `None` if it is none.
fn text(bytes: &[u8]) -> Option<usize> {
    let end = memchr(0, bytes).unwrap_or(bytes.len());
    bytes[..end].iter().all(|&byte| byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r')).then_some(end)
}

fn pair(high: u8, low: u8) -> usize {
    usize::from(u16::from_be_bytes([high, low]))
}
