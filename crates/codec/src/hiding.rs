//! Secrets in what others say: a peer that repeats one may have written it anew, for JSON, HTML, a URL or a header.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use std::borrow::Cow;
use std::sync::LazyLock;

/// What stands in the place of a secret.
const HIDDEN: &str = "***";
/// Ends a text that was cut.
pub const CUT: char = '…';
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
/// How often a secret may have been escaped: JSON within JSON, a URL within HTML.
const LAYERS: u32 = 2;
/// What nearly all escapes begin with.
const BEGIN_ESCAPES: [char; 3] = ['%', '\\', '&'];
/// What stands for a character without such a beginning: in forms, in SQL, in shells.
const REPLACEMENTS: [(char, &str); 4] = [(' ', "+"), ('+', " "), ('\'', "''"), ('\'', "'\\''")];
/// The escapes of JSON (RFC 8259 section 7) and of other languages.
const ESCAPES: [(char, &str); 9] = [
    ('\'', "\\'"),
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

/// A text with asterisks wherever a secret stands in it: as it is, with any of its characters escaped for JSON, HTML, a URL, a
/// shell or SQL, also twice, in base64, also as a part of something longer, and in hexadecimal digits. A text, or by [`cut`]
/// a part of it, may end within the secret.
pub fn hide(text: &str, secret: &str) -> String {
    if secret.is_empty() {
        return text.to_owned();
    }
    let hidden = without(text, secret, TELLING);
    // Most texts hold none of its codes, and all codes of a long secret would take long.
    let begins = codes(&secret.chars().take(CODED).collect::<String>());
    let mut begins = begins.iter().filter_map(|code| code.get(..SHORTEST_CODE));
    if !begins.any(|begin| without(&hidden, begin, SHORTEST_CODE) != hidden) {
        return hidden;
    }
    codes(secret).iter().fold(hidden, |text, code| without(&text, code, SHORTEST_CODE))
}

/// A text without a word, however it is written there. Of one at whose end the text was cut, so many characters tell.
fn without(text: &str, word: &str, telling: usize) -> String {
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match reach(rest, word, telling) {
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
    hidden
}

/// How many bytes of the text's beginning say the word, or as much of it as there is room for.
fn reach(text: &str, word: &str, telling: usize) -> Option<usize> {
    // A character may be meant in several ways: `&` may stand for itself or begin `&amp;`.
    let mut ends = vec![0];
    let mut cut = None;
    for (count, character) in word.chars().enumerate() {
        if count >= telling {
            let rest = |end: usize| text.get(end..).unwrap_or_default();
            let mut unfinished = ends.iter().filter_map(|&end| Some(end + unfinished(rest(end))?));
            cut = unfinished.next_back().or(cut);
        }
        ends = step(text, &ends, character, LAYERS);
        if ends.is_empty() {
            return cut;
        }
    }
    ends.last().copied()
}

/// Where a character may end that begins at one of some places of a text, in rising order.
fn step(text: &str, begins: &[usize], character: char, layers: u32) -> Vec<usize> {
    let mut ends = Vec::new();
    for &begin in begins {
        let rest = text.get(begin..).unwrap_or_default();
        if rest.starts_with(character) {
            ends.push(begin + character.len_utf8());
        }
        let replacements =
            REPLACEMENTS.iter().filter(|(one, other)| *one == character && rest.starts_with(other));
        ends.extend(replacements.map(|(_, other)| begin + other.len()));
        // Of another character set.
        if !character.is_ascii() && rest.starts_with(char::REPLACEMENT_CHARACTER) {
            ends.push(begin + char::REPLACEMENT_CHARACTER.len_utf8());
        }
        if layers > 0 && rest.starts_with(BEGIN_ESCAPES) {
            for spelling in spellings(character).iter() {
                // What an escape is made of may be escaped itself.
                let all = spelling.chars().try_fold(vec![begin], |places, part| {
                    let next = step(text, &places, part, layers - 1);
                    (!next.is_empty()).then_some(next)
                });
                ends.extend(all.into_iter().flatten());
            }
        }
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// How many bytes of an escape stand before the place where the text was cut; `None` where it was not cut
/// there.
fn unfinished(rest: &str) -> Option<usize> {
    let said = rest.split(CUT).next().unwrap_or_default();
    let is_escape = said.starts_with(['%', '\\', '&']) && said.len() < LONGEST_ESCAPE;
    (said.is_empty() || is_escape).then_some(said.len())
}

/// The ways in which others escape a character.
fn spellings(character: char) -> Cow<'static, [String]> {
    static OF_ASCII: LazyLock<Vec<Vec<String>>> =
        LazyLock::new(|| (0..128).map(|code: u8| spelled(char::from(code))).collect());
    match OF_ASCII.get(character as usize) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(spelled(character)),
    }
}

fn spelled(character: char) -> Vec<String> {
    let named = ENTITIES.iter().chain(&ESCAPES).filter(|(one, _)| *one == character);
    let mut spellings: Vec<String> = named.map(|(_, name)| (*name).to_owned()).collect();
    let (mut bytes, mut halves) = ([0; 4], [0; 2]);
    let bytes = character.encode_utf8(&mut bytes).as_bytes();
    let halves = character.encode_utf16(&mut halves);
    let each = |write: &dyn Fn(u8) -> String| bytes.iter().map(|byte| write(*byte)).collect::<String>();
    let number = u32::from(character);
    // RFC 3986 section 2.1, RFC 8259 section 7, and what languages and shells have beside.
    spellings.extend([
        each(&|byte| format!("%{byte:02X}")),
        each(&|byte| format!("%{byte:02x}")),
        each(&|byte| format!("\\x{byte:02x}")),
        each(&|byte| format!("\\x{byte:02X}")),
        each(&|byte| format!("\\{byte:03o}")),
        halves.iter().map(|half| format!("\\u{half:04x}")).collect(),
        halves.iter().map(|half| format!("\\u{half:04X}")).collect(),
        format!("\\u{{{number:x}}}"),
        format!("\\x{number:02x}"),
        format!("&#{number}"),
        format!("&#{number};"),
        format!("&#{number:03}"),
        format!("&#{number:03};"),
    ]);
    spellings.extend(["&#x", "&#X"].iter().flat_map(|head| {
        let digits = [
            format!("{number:x}"),
            format!("{number:X}"),
            format!("{number:02x}"),
            format!("{number:04x}"),
            format!("{number:04X}"),
        ];
        digits.into_iter().flat_map(move |digits| [format!("{head}{digits};"), format!("{head}{digits}")])
    }));
    spellings
}

/// The secret in hexadecimal digits and in base64, as far as its letters do not depend on what stands before and behind it.
fn codes(secret: &str) -> Vec<String> {
    let hex = |upper: bool| {
        let digits = |byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
        secret.bytes().map(digits).collect::<String>()
    };
    let pairs: Vec<String> = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut codes = vec![hex(false), hex(true), pairs.join(":"), pairs.join(":").to_uppercase()];
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
    fn a_secret_is_hidden_that_was_written_anew_twice_or_for_a_shell() {
        let secret = "pa\"ss/w<o&r>d+é'x?>?>zz";
        let json = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let percent = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let html = |text: &str| text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
        let base64 = STANDARD.encode(secret);
        for told in [
            json(&json(secret)),
            percent(&percent(secret)),
            html(&html(secret)),
            percent(&json(secret)),
            html(&percent(secret)),
            secret.replace('\'', "\\'"),
            secret.replace('\'', "'\\''"),
            secret.replace('\'', "''"),
            secret.replace('é', "\u{fffd}"),
            secret.replace('"', "&#034;").replace('<', "&#x003c;").replace('+', "&#043;"),
            secret.replace('"', "&#34").replace('<', "\\x3c").replace('>', "\\u{3e}").replace('+', "\\053"),
            base64.replace('/', "\\/").replace('+', "\\u002b"),
            base64.replace('/', "%2F").replace('+', "%2B"),
            base64.replace('/', "&#x2F;").replace('+', "&#43;"),
            secret.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
        ] {
            let hidden = hide(&format!("who has {told} may enter"), secret);
            assert!(hidden.contains("***") && hidden.len() < 40, "{told}: {hidden}");
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
    fn a_text_of_nothing_but_escapes_stays() {
        let text = "&amp;%25\\u0026".repeat(100);
        assert_eq!(hide(&text, SECRET), text);
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
