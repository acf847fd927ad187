//! What messages of CoAP have in common over UDP and TCP: codes, tokens, options (RFC 7252, sections 3 and 5.10).

use crate::action::{self, Action, Publish};
use crate::dissect::Output;
use crate::request::{Key, Request, Response};
use plimsoll_model::wire::Label;

/// The part of a message that tells what it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    /// Class in the upper three bits, detail in the lower five.
    pub code: u8,
    /// The token, and how long it is.
    pub key: u64,
    pub options: Options,
}

/// What the options say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// Observe (RFC 7641).
    pub observe: bool,
    /// A block that is not the first of its transfer (RFC 7959).
    pub later_block: bool,
    /// No-Response (RFC 7967) wants none.
    pub silent: bool,
    /// It names what it is for, in text.
    pub names_target: bool,
    /// All are registered.
    pub known: bool,
    /// Their bytes, a payload's mark included.
    pub length: usize,
}

/// A token as a number: the length in the uppermost byte tells 0 from 00.
pub(super) fn key(token: &[u8]) -> u64 {
    token.iter().fold(0_u64, |key, &byte| key << 8 | u64::from(byte)) ^ (token.len() as u64) << 56
}

/// Whether the code exists, or may one day.
pub(super) fn is_code(code: u8) -> bool {
    is_request(code) || is_response(code)
}

/// 0.01 to 0.07.
pub(super) fn is_request(code: u8) -> bool {
    (1..=7).contains(&code)
}

/// 2.01 to 2.05, 2.31, 4.00 to 4.31, 5.00 to 5.08.
pub(super) fn is_response(code: u8) -> bool {
    matches!((code >> 5, code & 31), (2, 1..=5 | 31) | (4, _) | (5, 0..=8))
}

/// A message of which parts were read, and the rest is to come in later blocks.
#[derive(Debug, Default)]
pub(super) struct Blocks(Option<Publish>);

impl Blocks {
    /// Tells what a request says that a client sends. `bytes` begin with its options, and `payload` bytes follow those. A message in
    /// blocks is told with the last one.
    pub fn publish(&mut self, code: u8, confirmable: bool, bytes: &[u8], payload: u64, out: &mut Output<'_>) {
        let method = match code {
            2 => "POST",
            3 => "PUT",
            6 => "PATCH",
            7 => "iPATCH",
            _ => return,
        };
        if !out.learns() {
            return;
        }
        let mut target = Vec::new();
        let mut block = None;
        // What is no option was refused before.
        let _ = walk(bytes, false, &mut |number, value| match number {
            11 => {
                target.push(b'/');
                target.extend_from_slice(value.get(..action::LONGEST).unwrap_or(value));
            }
            15 => {
                target.push(if target.contains(&b'?') { b'&' } else { b'?' });
                target.extend_from_slice(value.get(..action::LONGEST).unwrap_or(value));
            }
            27 if value.len() <= 3 => {
                block = Some(value.iter().fold(0_u32, |sum, &byte| sum << 8 | u32::from(byte)));
            }
            _ => {}
        });
        let target = action::name(&target);
        let earlier = self
            .0
            .take()
            .filter(|earlier| block.is_some_and(|block| block >> 4 > 0) && earlier.target == target);
        let bytes = payload + earlier.map_or(0, |earlier| earlier.bytes);
        let publish = Publish { method, target, qos: confirmable.into(), bytes, ..Publish::default() };
        if block.is_some_and(|block| block & 8 != 0) {
            self.0 = Some(publish);
        } else {
            out.act(Action::Publish(publish));
        }
    }
}

/// Reads options. `whole` says that nothing follows those bytes; else `None` says that more of them are needed.
pub(super) fn options(bytes: &[u8], whole: bool) -> Result<Option<Options>, &'static str> {
    let mut options = Options { known: true, ..Options::default() };
    let length = walk(bytes, whole, &mut |number, value| option(number, value, &mut options))?;
    Ok(length.map(|length| Options { length, ..options }))
}

/// Goes through options, and returns their length with that of a payload's mark. `whole` as in [`options`].
fn walk(bytes: &[u8], whole: bool, each: &mut dyn FnMut(u32, &[u8])) -> Result<Option<usize>, &'static str> {
    let (mut at, mut number) = (0, 0_u32);
    let cut = if whole { Err("an option that is longer than its message") } else { Ok(None) };
    loop {
        let Some(&first) = bytes.get(at) else {
            return if whole { Ok(Some(at)) } else { Ok(None) };
        };
        at += 1;
        if first == 0xff {
            if whole && at == bytes.len() {
                return Err("a payload that is announced and not there");
            }
            return Ok(Some(at));
        }
        let mut extended = |nibble: u8| match nibble {
            13 => {
                let &byte = bytes.get(at)?;
                at += 1;
                Some(u32::from(byte) + 13)
            }
            14 => {
                let &[high, low] = bytes.get(at..at + 2)? else { return None };
                at += 2;
                Some(u32::from(u16::from_be_bytes([high, low])) + 269)
            }
            short => Some(u32::from(short)),
        };
        if first >> 4 == 15 || first & 15 == 15 {
            return Err("an option with a reserved length or number");
        }
        let (Some(delta), Some(length)) = (extended(first >> 4), extended(first & 15)) else { return cut };
        number += delta;
        if number > u32::from(u16::MAX) {
            return Err("an option whose number is too large");
        }
        let Some(value) = bytes.get(at..at + length as usize) else { return cut };
        at += value.len();
        each(number, value);
    }
}

fn option(number: u32, value: &[u8], options: &mut Options) {
    let uint = || value.iter().fold(0_u32, |sum, &byte| sum << 8 | u32::from(byte));
    match number {
        6 => options.observe = true,
        // Number of the block, whether more follow, size.
        23 | 27 if value.len() <= 3 => options.later_block |= uint() >> 4 > 0,
        258 => options.silent = uint() == 26,
        3 | 11 | 15 | 35 | 39 => {
            options.names_target |= value.iter().all(|byte| (b' '..=b'~').contains(byte) || *byte >= 0x80);
        }
        _ => {}
    }
    options.known &= matches!(
        number,
        1 | 3..=9 | 11 | 12 | 14..=17 | 19..=21 | 23 | 27 | 28 | 31 | 35 | 39 | 60 | 163 | 252 | 258 | 292 | 2048..
    );
}

/// A request.
pub(super) fn ask(message: &Message, out: &mut Output<'_>) {
    let later = message.options.later_block;
    let verb = match message.code {
        1 if later => "GET block",
        1 => "GET",
        2 if later => "POST block",
        2 => "POST",
        3 if later => "PUT block",
        3 => "PUT",
        4 => "DELETE",
        5 if later => "FETCH block",
        5 => "FETCH",
        6 if later => "PATCH block",
        6 => "PATCH",
        _ if later => "iPATCH block",
        _ => "iPATCH",
    };
    let key = Key::Id(message.key);
    out.request(Request { verb: verb.into(), key, answered: !message.options.silent, tag: 0 });
}

/// A response, or a notification that follows one.
pub(super) fn answer(message: &Message, out: &mut Output<'_>) {
    if message.options.observe && out.waiting(message.key).is_none() {
        return out.notice("notification");
    }
    let (class, detail) = (message.code >> 5, message.code & 31);
    let status = [b'0' + class, b'.', b'0' + detail / 10, b'0' + detail % 10];
    let response =
        Response { key: Key::Id(message.key), status: Label::from_bytes(&status), failed: class >= 4 };
    out.response(response);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_other_lengths_are_other_keys() {
        let keys = [key(b""), key(b"\0"), key(b"\0\0"), key(b"\x01"), key(b"12345678")];
        for (place, one) in keys.iter().enumerate() {
            assert!(!keys[place + 1..].contains(one), "{keys:?}");
        }
    }

    #[test]
    fn options_are_read_to_the_payload() {
        // Uri-Path `echo`, Block2 number 1, payload.
        let options_of = |bytes: &[u8]| options(bytes, true).map(|options| options.unwrap());
        let read = options_of(b"\xb4echo\xc1\x16\xffpay").unwrap();
        assert_eq!((read.names_target, read.later_block, read.length), (true, true, 8));
        assert_eq!(options_of(b"\x60").map(|read| read.observe), Ok(true));
        // No-Response: 258 = 13 + 245.
        assert_eq!(options_of(b"\xd1\xf5\x1a").map(|read| (read.silent, read.known)), Ok((true, true)));
        for bad in
            [&b"\xb9echo"[..], b"\xf1a", b"\x1f", b"\xb4echo\xff", b"\xe0\xff\xff\xe0\xff\xff", b"\xd0"]
        {
            assert!(options(bad, true).is_err(), "{bad:?}");
        }
        assert_eq!(options(b"\xb9echo", false), Ok(None));
    }
}
