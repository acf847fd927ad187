//! Whether bytes are Redis, and whose.

use crate::dissect::Probe;
use crate::side::Side;

/// Commands that are recognised in a line of their own, with nothing but their words to know them by.
const INLINE: &[&[u8]] = &[
    b"AUTH", b"CLIENT", b"CONFIG", b"DEL", b"ECHO", b"EXISTS", b"GET", b"HELLO", b"INCR", b"INFO", b"KEYS",
    b"PING", b"SELECT", b"SET", b"TTL",
];
/// Commands that no server begins an array with, unless somebody has stored their names: where only a part of a conversation
/// was captured, they tell who asks.
const COMMANDS: &[&[u8]] = &[
    b"APPEND",
    b"BLPOP",
    b"BRPOP",
    b"DECR",
    b"DEL",
    b"EVALSHA",
    b"EXISTS",
    b"EXPIRE",
    b"GET",
    b"GETSET",
    b"HDEL",
    b"HGET",
    b"HGETALL",
    b"HINCRBY",
    b"HMGET",
    b"HMSET",
    b"HSET",
    b"INCR",
    b"INCRBY",
    b"LLEN",
    b"LPOP",
    b"LPUSH",
    b"LRANGE",
    b"MGET",
    b"MSET",
    b"MULTI",
    b"PING",
    b"PUBLISH",
    b"RPOP",
    b"RPUSH",
    b"SADD",
    b"SET",
    b"SETEX",
    b"SISMEMBER",
    b"SMEMBERS",
    b"SREM",
    b"TTL",
    b"XACK",
    b"XADD",
    b"XREADGROUP",
    b"ZADD",
    b"ZRANGE",
];
/// With which servers begin what they push.
const PUSHES: &[&[u8]] = &[
    b"message",
    b"pmessage",
    b"smessage",
    b"subscribe",
    b"psubscribe",
    b"ssubscribe",
    b"unsubscribe",
    b"punsubscribe",
    b"sunsubscribe",
    b"invalidate",
];
/// Longest name of a command, that of a module included.
const NAME: usize = 32;

/// Judges the first bytes of a side whose protocol is not known.
pub(super) fn probe(bytes: &[u8], speaker: Option<Side>, _whole: bool) -> Probe {
    if speaker != Some(Side::Server) && bytes.first() != Some(&b'*') {
        let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let first = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let begins = |name: &[u8]| match first.len() == bytes.len() {
            true => name.get(..first.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(first)),
            false => name.eq_ignore_ascii_case(first),
        };
        // The answer will tell.
        if INLINE.iter().any(|name| begins(name)) && !line.windows(5).any(|part| part == b"HTTP/") {
            return Probe::More;
        }
    }
    match bytes.first() {
        Some(b'*') => array(bytes, speaker),
        // An array of one side's: the other never begins so.
        Some(b'>' | b'%' | b'~') if speaker != Some(Side::Client) => match header(&bytes[1..]) {
            Header::Whole(1.., rest) => match rest.first() {
                None => Probe::More,
                Some(b'+' | b'$' | b':' | b'*' | b'%' | b'~' | b',' | b'#' | b'_') => {
                    Probe::Yes(Some(Side::Server))
                }
                _ => Probe::No,
            },
            Header::Short => Probe::More,
            _ => Probe::No,
        },
        // Or a part of a command that came in several packets.
        Some(b'$') if speaker != Some(Side::Client) => match header(&bytes[1..]) {
            Header::Whole(length, rest) => match rest.get(length as usize..) {
                Some([]) | None => {
                    if rest.len() >= 16 {
                        Probe::Yes(speaker)
                    } else {
                        Probe::More
                    }
                }
                Some([b'\r']) => Probe::More,
                Some([b'\r', b'\n', ..]) => Probe::Yes(speaker),
                _ => Probe::No,
            },
            Header::Short => Probe::More,
            _ => Probe::No,
        },
        Some(b':') if speaker != Some(Side::Client) => {
            let digits = bytes[1..].strip_prefix(b"-").unwrap_or(&bytes[1..]);
            match header(digits) {
                Header::Whole(..) => Probe::Yes(Some(Side::Server)),
                Header::Short => Probe::More,
                Header::None => Probe::No,
            }
        }
        // `+OK` and `-ERR '` are said by NATS, too.
        Some(b'+') if speaker != Some(Side::Client) => literal(bytes, &[b"+PONG\r\n", b"+QUEUED\r\n"]),
        Some(b'-') if speaker != Some(Side::Client) => literal(
            bytes,
            &[b"-WRONGTYPE ", b"-NOAUTH ", b"-MOVED ", b"-NOSCRIPT ", b"-LOADING ", b"-ERR unknown command"],
        ),
        _ => Probe::No,
    }
}

/// Whether a value of that side begins here.
pub(super) fn resumes(side: Side, bytes: &[u8]) -> bool {
    match side {
        Side::Client => bytes.first() == Some(&b'*') && matches!(array(bytes, Some(side)), Probe::Yes(_)),
        Side::Server => {
            let word = |bytes: &[u8]| {
                let letters = bytes.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
                letters >= 2 && matches!(bytes.get(letters), Some(b'\r' | b' ') | None)
            };
            match bytes {
                [b'+' | b'-', text @ ..] => word(text),
                [b'*' | b':' | b'$' | b'>' | b'%' | b'~', text @ ..] => {
                    let text = text.strip_prefix(b"-").unwrap_or(text);
                    matches!(header(text), Header::Whole(..))
                }
                b"_\r\n" => true,
                _ => false,
            }
        }
    }
}

/// An array of strings, the first of which is a word.
fn array(bytes: &[u8], speaker: Option<Side>) -> Probe {
    let rest = match header(&bytes[1..]) {
        Header::Whole(1.., rest) => rest,
        Header::Short => return Probe::More,
        _ => return Probe::No,
    };
    let Some((b'$', rest)) = rest.split_first() else {
        return if rest.is_empty() { Probe::More } else { Probe::No };
    };
    let (length, rest) = match header(rest) {
        Header::Whole(length, rest) => (length as usize, rest),
        Header::Short => return Probe::More,
        Header::None => return Probe::No,
    };
    if speaker == Some(Side::Server) {
        return Probe::Yes(Some(Side::Server));
    }
    let word = &rest[..length.min(rest.len())];
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'|');
    if length == 0
        || length > NAME
        || !word.first().is_none_or(u8::is_ascii_alphabetic)
        || !word.iter().all(is_name)
    {
        return Probe::No;
    }
    match rest.get(length..) {
        None | Some([] | [b'\r']) => Probe::More,
        Some([b'\r', b'\n', ..]) if PUSHES.contains(&word) && speaker.is_none() => {
            Probe::Yes(Some(Side::Server))
        }
        Some([b'\r', b'\n', ..]) => {
            let asks = || COMMANDS.iter().any(|name| name.eq_ignore_ascii_case(word));
            Probe::Yes(speaker.or_else(|| asks().then_some(Side::Client)))
        }
        _ => Probe::No,
    }
}

enum Header<'a> {
    /// The number, and what is behind its line.
    Whole(u32, &'a [u8]),
    Short,
    None,
}

/// Digits and a line end.
fn header(bytes: &[u8]) -> Header<'_> {
    let digits = bytes.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    match &bytes[digits..] {
        [] | [b'\r'] if digits < 10 => Header::Short,
        [b'\r', b'\n', rest @ ..] if (1..10).contains(&digits) => Header::Whole(
            bytes[..digits].iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')),
            rest,
        ),
        _ => Header::None,
    }
}

fn literal(bytes: &[u8], any: &[&[u8]]) -> Probe {
    if any.iter().any(|text| bytes.starts_with(text)) {
        Probe::Yes(Some(Side::Server))
    } else if any.iter().any(|text| text.starts_with(bytes)) {
        Probe::More
    } else {
        Probe::No
    }
}
