//! Markers of messages in any bytes: ours, and those of a pattern that somebody else uses. Ids that only tell which response
//! answers which request are found in the same way.

use memchr::memmem::Finder;
use plimsoll_codec::marker::{ASCII_LENGTH, BINARY_LENGTH, INTEGER_LENGTH, Marker};
use plimsoll_codec::numbering::Numbering;
use plimsoll_model::wire::{SharedId, in_id};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;
use std::sync::{Arc, Mutex, PoisonError};

/// Longest name of a device in a pattern, bytes.
const NAME: usize = 64;
/// Digits of the largest number.
const DIGITS: usize = 20;
/// Names of devices that are told apart; beyond them a marker is not taken.
const NAMES: usize = 1 << 20;

/// A message that was recognised by its marker: which device's, and the how manyth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The number of the device; of a pattern, the number that its name was given.
    pub device: u32,
    /// The number of the message within its device.
    pub sequence: u64,
}

/// In the place of a device: this is an id that request and response share, and nobody's message. No device has so high a number.
const SHARED: u32 = u32::MAX;

impl MessageId {
    /// Whether it only tells which response answers which request.
    pub fn is_shared(self) -> bool {
        self.device == SHARED
    }
}

/// What markers look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Ours in ASCII, of that run, or of any.
    Ascii(Option<u16>),
    /// Ours in ten bytes, of that run.
    Binary(u16),
    /// Ours as an integer in a text, of that run.
    Integer(u16),
    /// Somebody else's.
    Pattern(Pattern),
    /// An id that a request and its response share.
    Shared(SharedId),
}

/// The id with which those bytes begin.
fn read_shared<'a>(shared: &SharedId, bytes: &'a [u8]) -> Reading<'a> {
    let Some(rest) = bytes.strip_prefix(shared.before.as_bytes()) else { return Reading::None };
    let length = rest.iter().take(NAME + 1).take_while(|&&byte| in_id(byte)).count();
    let (id, behind, after) = (&rest[..length], &rest[length..], shared.after.as_bytes());
    let there = behind.len().min(after.len());
    if length > NAME || behind[..there] != after[..there] {
        Reading::None
    } else if behind.is_empty() || there < after.len() {
        Reading::CutShort
    } else if id.is_empty() {
        Reading::None
    } else {
        Reading::Marker(id, 0)
    }
}

/// A text with a device and a number in it, such as `plm1:{device}:{seq};`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    literals: [Vec<u8>; 3],
    device_first: bool,
}

impl Pattern {
    /// Reads `TEXT{device}TEXT{seq}TEXT`, or with the two the other way round. What is wrong with it, in words for its
    /// writer.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let places = (text.find("{device}"), text.find("{seq}"));
        let (Some(device), Some(seq)) = places else {
            return Err(format!(
                "the marker pattern `{text}` needs `{{device}}` and `{{seq}}`, as in `plm1:{{device}}:{{seq}};`"
            ));
        };
        let device_first = device < seq;
        let (first, second) = if device_first { ("{device}", "{seq}") } else { ("{seq}", "{device}") };
        let (prefix, rest) = text.split_once(first).unwrap_or_default();
        let (middle, suffix) = rest.split_once(second).unwrap_or_default();
        if prefix.is_empty() || middle.is_empty() {
            return Err(format!(
                "the marker pattern `{text}` needs a text before `{first}` and one between it and `{second}`, so that it can be found and read"
            ));
        }
        let begins_like_a_name = middle.bytes().next().is_some_and(in_id);
        if device_first && begins_like_a_name
            || !device_first && middle.bytes().next().is_some_and(|b| b.is_ascii_digit())
        {
            return Err(format!(
                "in the marker pattern `{text}`, `{middle}` after `{first}` must begin with a character that cannot be part of it"
            ));
        }
        let literals = [prefix, middle, suffix].map(|literal| literal.as_bytes().to_vec());
        Ok(Pattern { literals, device_first })
    }

    /// Name, number and length of a marker at the beginning of those bytes.
    fn read<'a>(&self, bytes: &'a [u8]) -> Reading<'a> {
        let mut at = 0;
        let (mut name, mut number) = (&bytes[..0], 0);
        for (place, literal) in self.literals.iter().enumerate() {
            let Some(rest) = bytes.get(at..) else { return Reading::CutShort };
            let shared = rest.len().min(literal.len());
            if rest[..shared] != literal[..shared] {
                return Reading::None;
            }
            if shared < literal.len() {
                return Reading::CutShort;
            }
            at += literal.len();
            if place == 2 {
                break;
            }
            let rest = &bytes[at..];
            let is_name = (place == 0) == self.device_first;
            let (fits, most): (fn(u8) -> bool, usize) =
                if is_name { (in_id, NAME) } else { (|byte| byte.is_ascii_digit(), DIGITS) };
            let length = rest.iter().take(most + 1).take_while(|&&byte| fits(byte)).count();
            if length > most {
                return Reading::None;
            }
            // A field that reaches the end may go on.
            if length == rest.len() && (place == 0 || !self.literals[2].is_empty()) {
                return Reading::CutShort;
            }
            if length == 0 {
                return Reading::None;
            }
            if is_name {
                name = &rest[..length];
            } else {
                let Some(value) = decimal(&rest[..length]) else { return Reading::None };
                number = value;
            }
            at += length;
        }
        Reading::Marker(name, number)
    }
}

enum Reading<'a> {
    Marker(&'a [u8], u64),
    CutShort,
    None,
}

/// The names that devices have in patterns, and their numbers. Shared by all threads.
#[derive(Debug, Default)]
pub struct Names {
    numbers: FxHashMap<Box<[u8]>, u32>,
    names: Vec<Box<[u8]>>,
}

impl Names {
    fn number(&mut self, name: &[u8]) -> Option<u32> {
        if let Some(&number) = self.numbers.get(name) {
            return Some(number);
        }
        let number = u32::try_from(self.names.len()).ok().filter(|&number| (number as usize) < NAMES)?;
        self.numbers.insert(name.into(), number);
        self.names.push(name.into());
        Some(number)
    }
}

/// Finds markers of some forms.
#[derive(Clone, Debug, Default)]
pub struct Search {
    forms: Vec<(Form, Option<Finder<'static>>)>,
    /// How our markers are divided.
    numbering: Numbering,
    names: Arc<Mutex<Names>>,
}

impl Search {
    /// For those forms.
    pub fn new(forms: Vec<Form>) -> Search {
        let with_finder = |form: Form| {
            let finder = match &form {
                Form::Ascii(_) => Some(Finder::new(b"plm").into_owned()),
                Form::Binary(run) => Some(Finder::new(&run.to_be_bytes()).into_owned()),
                Form::Integer(_) => None,
                Form::Pattern(pattern) => Some(Finder::new(&pattern.literals[0]).into_owned()),
                Form::Shared(shared) => Some(Finder::new(&shared.before).into_owned()),
            };
            (form, finder)
        };
        Search { forms: forms.into_iter().map(with_finder).collect(), ..Search::default() }
    }

    /// The same where our markers are divided in that way.
    #[must_use]
    pub fn numbered(self, numbering: Numbering) -> Search {
        Search { numbering, ..self }
    }

    /// Whether anything is looked for.
    pub fn is_wanted(&self) -> bool {
        !self.forms.is_empty()
    }

    /// What a device is called.
    pub fn name(&self, device: u32) -> String {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        match names.names.get(device as usize) {
            Some(name) => String::from_utf8_lossy(name).into_owned(),
            None => device.to_string(),
        }
    }

    /// Whether a marker may be in those bytes or begin in them. Cheap, and never wrong when it says no.
    pub fn may_hold(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|(form, finder)| match (form, finder) {
            (_, Some(finder)) => finder.find(bytes).is_some() || begins_at_the_end(bytes, finder.needle()),
            (Form::Integer(_), _) => bytes.iter().any(u8::is_ascii_digit),
            _ => true,
        })
    }

    /// Appends all that are whole in those bytes, in their order for each form.
    pub fn find(&self, bytes: &[u8], found: &mut Vec<MessageId>) {
        for (form, finder) in &self.forms {
            let begins = || finder.iter().flat_map(|finder| finder.find_iter(bytes));
            match form {
                Form::Ascii(run) => found.extend(
                    begins()
                        .filter_map(|begin| Marker::read_ascii(bytes.get(begin..)?))
                        .filter(|marker| run.is_none_or(|run| marker.run == run))
                        .map(|marker| MessageId::from(self.numbering.read(marker))),
                ),
                Form::Binary(run) => found.extend(
                    begins()
                        .filter_map(|begin| Marker::read_binary(&bytes[begin..]))
                        .filter(|marker| marker.run == *run)
                        .map(|marker| MessageId::from(self.numbering.read(marker))),
                ),
                Form::Integer(run) => found.extend(Marker::all_integer(bytes, *run).map(MessageId::from)),
                Form::Pattern(pattern) => {
                    for begin in begins() {
                        if let Reading::Marker(name, sequence) = pattern.read(&bytes[begin..]) {
                            let number =
                                self.names.lock().unwrap_or_else(PoisonError::into_inner).number(name);
                            found.extend(number.map(|device| MessageId { device, sequence }));
                        }
                    }
                }
                Form::Shared(shared) => {
                    for begin in begins() {
                        if let Reading::Marker(id, _) = read_shared(shared, &bytes[begin..]) {
                            // There may be as many as messages: none is remembered by its name.
                            let mut hasher = FxHasher::default();
                            hasher.write(id);
                            found.push(MessageId { device: SHARED, sequence: hasher.finish() });
                        }
                    }
                }
            }
        }
    }

    /// The end of those bytes from where a marker may begin that is not whole in them. Where several forms are looked for, one
    /// of another form may stand whole in it.
    pub fn open_end<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let opens = |(form, finder): &(Form, Option<Finder<'static>>)| {
            let longest = match form {
                Form::Ascii(_) => ASCII_LENGTH,
                Form::Binary(_) => BINARY_LENGTH,
                Form::Integer(_) => INTEGER_LENGTH + 1,
                Form::Pattern(pattern) => {
                    pattern.literals.iter().map(Vec::len).sum::<usize>() + NAME + DIGITS
                }
                Form::Shared(shared) => shared.before.len() + NAME + shared.after.len() + 1,
            };
            let from = bytes.len().saturating_sub(longest - 1);
            let end = &bytes[from..];
            let Some(finder) = finder else {
                let digits = end.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
                return (digits > 0).then(|| bytes.len() - digits);
            };
            let whole = finder.find_iter(end).find(|&begin| match form {
                Form::Pattern(pattern) => matches!(pattern.read(&end[begin..]), Reading::CutShort),
                Form::Shared(shared) => matches!(read_shared(shared, &end[begin..]), Reading::CutShort),
                _ => end.len() - begin < longest,
            });
            let needle = finder.needle();
            let part = || {
                (1..needle.len())
                    .rev()
                    .find(|&length| end.ends_with(&needle[..length]))
                    .map(|l| end.len() - l)
            };
            whole.or_else(part).map(|begin| from + begin)
        };
        let begin = self.forms.iter().filter_map(opens).min();
        &bytes[begin.unwrap_or(bytes.len())..]
    }
}

impl From<Marker> for MessageId {
    fn from(marker: Marker) -> MessageId {
        MessageId { device: marker.device, sequence: u64::from(marker.sequence) }
    }
}

fn begins_at_the_end(bytes: &[u8], needle: &[u8]) -> bool {
    (1..needle.len()).any(|length| bytes.ends_with(&needle[..length]))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern() -> Search {
        Search::new(vec![Form::Pattern(Pattern::parse("plm1:{device}:{seq};").unwrap())])
    }

    fn all(search: &Search, bytes: &[u8]) -> Vec<(String, u64)> {
        let mut found = Vec::new();
        search.find(bytes, &mut found);
        found.iter().map(|id| (search.name(id.device), id.sequence)).collect()
    }

    #[test]
    fn a_pattern_finds_device_and_number() {
        let search = pattern();
        let text = b"{\"id\":\"plm1:d0:17;\"} plm1:d-1.x:0; plm1::3; plm1:d0:; plm1:d0:9 plm1:d0:18446744073709551616;";
        assert_eq!(all(&search, text), [("d0".into(), 17), ("d-1.x".into(), 0)]);
        let reversed = Search::new(vec![Form::Pattern(Pattern::parse("n={seq}/{device}").unwrap())]);
        assert_eq!(all(&reversed, b"n=12/abc n=3/"), [("abc".into(), 12)]);
    }

    #[test]
    fn a_pattern_that_cannot_be_found_or_read_is_refused() {
        for text in ["plm1", "{device}:{seq}", "a{device}{seq}", "a{device}b{seq}", "a{seq}1{device}"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_id_that_request_and_response_share_is_nobodys_message() {
        let search = Search::new(vec![Form::Shared(SharedId::parse("\"id\":\"{id}\"").unwrap())]);
        let text = b"{\"id\":\"a-1\"} {\"id\":\"\"} {\"id\":\"a b\"} {\"id\":\"a-1\"} {\"id\":\"2\"";
        let mut found = Vec::new();
        search.find(text, &mut found);
        assert_eq!((found.len(), found[0] == found[1], found[0] == found[2]), (3, true, false));
        assert!(found.iter().all(|id| id.is_shared()));
        assert_eq!(search.open_end(b"..\"id\":\"a-"), b"\"id\":\"a-");
    }

    #[test]
    fn our_own_are_found_in_their_forms() {
        let marker = Marker { run: 77, device: 5, sequence: 1234 };
        let mut text = b"x=".to_vec();
        marker.write_ascii(&mut text);
        let id = (String::from("5"), 1234);
        assert_eq!(all(&Search::new(vec![Form::Ascii(None)]), &text), std::slice::from_ref(&id));
        assert!(all(&Search::new(vec![Form::Ascii(Some(78))]), &text).is_empty());
        let many = Search::new(vec![Form::Ascii(None)]).numbered(Numbering::ManyDevices);
        let divided = Numbering::ManyDevices.read(marker);
        assert_eq!(
            all(&many, &text),
            [(divided.device.to_string(), u64::from(divided.sequence))],
            "of a run with many devices"
        );
        let binary = [b"\x00\x01\x4d".as_slice(), &marker.to_binary(), b"\x00"].concat();
        assert_eq!(all(&Search::new(vec![Form::Binary(77)]), &binary), std::slice::from_ref(&id));
        let number = format!("{{\"v\":{}}}", marker.to_integer().unwrap());
        assert_eq!(all(&Search::new(vec![Form::Integer(77)]), number.as_bytes()), [id]);
    }

    proptest! {
        /// However the bytes are cut in two, the open end of the first and the second hold what is not whole in the first.
        #[test]
        fn nothing_is_missed_between_two_pieces(cut in 0_usize..60, noise in "[plm1:d;0-9]{0,12}") {
            let marker = Marker { run: 77, device: 5, sequence: 1234 };
            let mut text = format!("{noise}plm1:dev:42;..").into_bytes();
            marker.write_ascii(&mut text);
            text.extend_from_slice(b" tail");
            let cut = cut.min(text.len());
            let forms = vec![Form::Ascii(Some(77)), Form::Pattern(Pattern::parse("plm1:{device}:{seq};").unwrap())];
            let search = Search::new(forms);
            let mut whole = all(&search, &text);
            let mut pieces = all(&search, &text[..cut]);
            let open = search.open_end(&text[..cut]);
            pieces.extend(all(&search, &[open, &text[cut..]].concat()));
            whole.sort();
            pieces.sort();
            pieces.dedup();
            prop_assert_eq!(whole, pieces);
        }
    }
}
