//! Secrets in what others say: a peer that repeats one may have written it anew, for JSON, HTML, a URL or a header.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

/// What stands in the place of a secret.
const HIDDEN: &str = "***";
/// Ends a text that was cut.
const CUT: char = '…';
/// So many characters at the end of a text that was cut tell of a secret.
const TELLING: usize = 4;
/// An escaped character is shorter, in bytes.
const LONGEST_ESCAPE: usize = 12;
/// Shorter codes are found in texts that have nothing to do with them.
const SHORTEST_CODE: usize = 6;
/// Characters of a secret from which its codes begin with that many letters.
const CODED: usize = 8;
/// The characters that HTML has names for, as far as a secret needs them.
const ENTITIES: [(char, &str); 5] =
    [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&apos;")];
/// The escapes of JSON (RFC 8259 section 7).
const ESCAPES: [(char, &str); 8] = [
    ('"', "\\\""),
    ('\\', "\\\\"),
    ('/', "\\/"),
    ('\u{8}', "\\b"),
    ('\u{c}', "\\f"),
    ('\n', "\\n"),
    ('\r', "\\r"),
    ('\t', "\\t"),
];

/// At most so many characters of a text. One that is longer ends with a mark, by which [`hide`] knows a
/// secret that was cut.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => text.get(..end).unwrap_or_default().chars().chain([CUT]).collect(),
        None => text.to_owned(),
    }
}

/// A text with asterisks wherever a secret stands in it: as it is, with any of its characters escaped for JSON,
/// HTML or a URL, in base64, also as a part of something longer, and in hexadecimal digits. A text, or by [`cut`]
/// a part of it, may end within the secret.
pub fn hide(text: &str, secret: &str) -> String {
    if secret.is_empty() {
        return text.to_owned();
    }
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match reach(rest, secret) {
            Some(end) => {
                hidden.push_str(HIDDEN);
                rest = rest.get(end..).unwrap_or_default();
            }
            None => {
                hidden.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
    }
    // Most texts hold none of its codes, and all codes of a long secret would take long.
    let begins = codes(&secret.chars().take(CODED).collect::<String>());
    let begins = begins.iter().filter_map(|code| code.get(..SHORTEST_CODE));
    if !begins.into_iter().any(|begin| hidden.contains(begin)) {
        return hidden;
    }
    codes(secret).iter().fold(hidden, |text, code| hide_code(&text, code))
}

/// A text without a code, and without what is left of one where the text was cut.
fn hide_code(text: &str, code: &str) -> String {
    let text = text.replace(code, HIDDEN);
    let parts = text.split_inclusive(CUT).map(|part| {
        let (said, mark) = part
            .strip_suffix(CUT)
            .map_or((part, ""), |said| (said, part.get(said.len()..).unwrap_or_default()));
        let left =
            (SHORTEST_CODE..code.len()).rev().find_map(|length| said.strip_suffix(code.get(..length)?));
        left.map_or(part.to_owned(), |left| format!("{left}{HIDDEN}{mark}"))
    });
    parts.collect()
}

/// How many bytes of the text's beginning say the secret, or as much of it as there is room for.
fn reach(text: &str, secret: &str) -> Option<usize> {
    // Most places of a text are none of a secret.
    lengths(text, secret.chars().next()?).next()?;
    // A character may be meant in several ways: `&` may stand for itself or begin `&amp;`.
    let mut ends = vec![0];
    let mut cut = None;
    for (count, character) in secret.chars().enumerate() {
        let mut next: Vec<usize> = Vec::new();
        for &end in &ends {
            let rest = text.get(end..).unwrap_or_default();
            if count >= TELLING {
                cut = unfinished(rest).map(|length| end + length).or(cut);
            }
            next.extend(lengths(rest, character).map(|length| end + length));
        }
        next.sort_unstable();
        next.dedup();
        ends = next;
        if ends.is_empty() {
            return cut;
        }
    }
    ends.last().copied()
}

/// How many bytes of an escape stand before the place where the text was cut; `None` where it was not cut
/// there.
fn unfinished(rest: &str) -> Option<usize> {
    let said = rest.split(CUT).next().unwrap_or_default();
    let is_escape = said.starts_with(['%', '\\', '&']) && said.len() < LONGEST_ESCAPE;
    (said.is_empty() || is_escape).then_some(said.len())
}

/// How many bytes the character takes in each way in which it may stand at the text's beginning.
fn lengths(text: &str, character: char) -> impl Iterator<Item = usize> {
    let plain = text.starts_with(character).then_some(character.len_utf8());
    let plus = (character == ' ' && text.starts_with('+')).then_some(1);
    let named = ENTITIES.iter().chain(&ESCAPES);
    let named = named.filter(move |(one, name)| *one == character && text.starts_with(name));
    let named = named.map(|(_, name)| name.len());
    let special = match text.as_bytes().first() {
        Some(b'%') => percent(text, character),
        Some(b'\\') => unicode_escape(text, character),
        Some(b'&') => numbered(text, character),
        _ => None,
    };
    plain.into_iter().chain(plus).chain(named).chain(special)
}

/// `%C3%A9` (RFC 3986 section 2.1).
fn percent(text: &str, character: char) -> Option<usize> {
    let mut bytes = [0; 4];
    let encoded = character.encode_utf8(&mut bytes).bytes();
    let count = encoded.len();
    let mut rest = text.as_bytes();
    for byte in encoded {
        let [b'%', digits @ ..] = rest else { return None };
        let (digits, after) = digits.split_at_checked(2)?;
        if u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16) != Ok(byte) {
            return None;
        }
        rest = after;
    }
    Some(3 * count)
}

/// `\u00e9`, in two halves where the character needs them (RFC 8259 section 7).
fn unicode_escape(text: &str, character: char) -> Option<usize> {
    let mut halves = [0; 2];
    let halves = character.encode_utf16(&mut halves);
    let mut rest = text;
    for half in halves.iter() {
        let (digits, after) = rest.strip_prefix("\\u")?.split_at_checked(4)?;
        if u16::from_str_radix(digits, 16) != Ok(*half) {
            return None;
        }
        rest = after;
    }
    Some(6 * halves.len())
}

/// `&#233;` or `&#xE9;`.
fn numbered(text: &str, character: char) -> Option<usize> {
    let (number, _) = text.strip_prefix("&#")?.split_once(';')?;
    let value = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    (value == Ok(u32::from(character))).then_some("&#".len() + number.len() + 1)
}

/// The secret in hexadecimal digits and in base64, as far as its letters do not depend on what stands before and behind it.
fn codes(secret: &str) -> Vec<String> {
    let hex = |upper: bool| {
        let digits = |byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
        secret.bytes().map(digits).collect::<String>()
    };
    let mut codes = vec![hex(false), hex(true)];
    for letters in [&alphabet::STANDARD, &alphabet::URL_SAFE] {
        let engine = GeneralPurpose::new(letters, NO_PAD);
        for before in 0..3 {
            let code = engine.encode([&b"\0\0"[..before.min(2)], secret.as_bytes()].concat());
            // Six bits a letter: those that share bits with a neighbour say something else there.
            let (first, last) = ((8 * before).div_ceil(6), (8 * (before + secret.len())) / 6);
            codes.extend(code.get(first..last).map(str::to_owned));
        }
    }
    codes.retain(|code| code.len() >= SHORTEST_CODE);
    codes.sort_by_key(|code| std::cmp::Reverse(code.len()));
    codes.dedup();
    codes
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    const SECRET: &str = "s3cr&t \"é\"/+\u{1f600}!";

    #[test]
    fn a_secret_is_hidden_in_every_way_of_writing_it() {
        let json = SECRET.replace('"', "\\\"").replace('/', "\\/");
        let escaped: String = SECRET.encode_utf16().map(|half| format!("\\u{half:04X}")).collect();
        let percent = |upper: bool| -> String {
            let digits = |byte| if upper { format!("%{byte:02X}") } else { format!("%{byte:02x}") };
            SECRET.bytes().map(digits).collect()
        };
        let html =
            SECRET.replace('&', "&amp;").replace('"', "&quot;").replace('+', "&#43;").replace('é', "&#xE9;");
        let form = "s3cr%26t+%22%c3%a9%22%2F%2b%F0%9F%98%80%21".to_owned();
        for told in [SECRET.to_owned(), json, escaped, percent(true), percent(false), html, form] {
            let hidden = hide(&format!("who has {told} may enter"), SECRET);
            assert!(
                hidden.contains("***") && !hidden.contains("s3cr") && !hidden.contains('%'),
                "{told}: {hidden}"
            );
            assert!(hidden.starts_with("who has ") && hidden.ends_with(" may enter"), "{hidden}");
        }
    }

    #[test]
    fn a_secret_is_hidden_in_codes_wherever_it_stands_in_them() {
        for user in ["", "a", "ab", "abc"] {
            let told = format!("{user}:{SECRET}:rest");
            for code in [STANDARD.encode(&told), URL_SAFE_NO_PAD.encode(&told)] {
                let hidden = hide(&format!("Basic {code}"), SECRET);
                assert!(hidden.contains("***"), "{code}: {hidden}");
                // What is left says less than a letter of the secret at either end.
                assert!(hidden.len() < code.len(), "{code}: {hidden}");
            }
        }
        let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hide(&hex, SECRET), "***");
        assert_eq!(hide(&hex.to_uppercase(), SECRET), "***");
    }

    #[test]
    fn a_secret_that_was_cut_is_hidden_and_other_texts_stay() {
        assert_eq!(hide("it says s3cr&amp;t", SECRET), "it says ***");
        assert_eq!(hide("it says s3cr%2", SECRET), "it says ***");
        assert_eq!(hide("it says s3cr&t \"%c3%A", SECRET), "it says ***");
        assert_eq!(hide("it says s3cr%26t+\\", SECRET), "it says ***");
        assert_eq!(hide("it says s3cr&#3", SECRET), "it says ***");
        assert_eq!(hide("a text about s3c", SECRET), "a text about s3c");
        assert_eq!(hide("100 % of &amp; \\u00 %4", SECRET), "100 % of &amp; \\u00 %4");
        assert_eq!(hide("anything", ""), "anything");
        assert_eq!(hide("no second, nor a secret", "second"), "no ***, nor a secret");
        assert_eq!(hide("dots… and more", "dots… and"), "*** more");
    }

    #[test]
    fn a_secret_that_was_cut_within_a_text_is_hidden() {
        let told = format!("said {}", SECRET.replace('&', "&amp;"));
        for most in 5 + TELLING..told.chars().count() {
            let joined = format!("{}; and more was said", cut(&told, most));
            let hidden = hide(&joined, SECRET);
            assert!(hidden.starts_with("said ***…; and"), "{joined}: {hidden}");
        }
        let code = STANDARD.encode(format!("me:{SECRET}"));
        for most in 4 + SHORTEST_CODE..code.len() {
            let hidden = hide(&format!("{}; and more", cut(&code, most)), SECRET);
            assert!(hidden.contains("***…; and") && hidden.chars().count() < 20, "{most}: {hidden}");
        }
        assert_eq!((cut("abc", 3), cut("abcd", 3)), ("abc".to_owned(), "abc…".to_owned()));
    }
}
