//! What a platform said, for people: cut, and without controls, which could command a terminal.

use plimsoll_codec::credentials::hide_credentials;
use plimsoll_codec::hiding::{CUT, cut};

/// Characters of its own words that are shown.
pub const LONGEST: usize = 200;

/// Its own words behind a colon; nothing where it said none.
pub fn own(body: &[u8]) -> String {
    // A character has four bytes at most.
    let begin = body.get(..4 * (LONGEST + 1));
    let words = shown(&String::from_utf8_lossy(begin.unwrap_or(body)), LONGEST);
    // What follows may end a secret that begins here.
    let is_marked = begin.is_none() || words.ends_with(CUT);
    let words = if is_marked { words } else { format!("{words}{CUT}") };
    if words.is_empty() { words } else { format!(": {words}") }
}

/// Its own words in brackets; nothing where it said none.
pub fn in_brackets(text: Option<&str>) -> String {
    text.map(|text| format!(" ({})", shown(text, LONGEST))).unwrap_or_default()
}

/// Its own words.
pub fn plain(text: &str) -> String {
    shown(text, LONGEST)
}

/// How it refused a request, with the request behind it.
pub fn refusal(told: &str, target: &str) -> String {
    format!("{} ({target})", shown(told, 2 * LONGEST))
}

/// Method and URL of a request. The values in its query may be secrets, whatever they are called.
pub fn target(method: &str, place: &str, path: &str) -> String {
    hide_credentials(&format!("{method} {place}{path}"))
}

fn shown(text: &str, longest: usize) -> String {
    let clean: String = text.chars().filter(|character| !character.is_control()).collect();
    cut(&clean, longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_short_and_command_nothing() {
        assert_eq!(in_brackets(Some(&"x".repeat(1000))).chars().count(), LONGEST + 4);
        assert_eq!(own(b"\x1b[2Jno\xff"), ": [2Jno\u{fffd}");
        assert_eq!((own(b""), in_brackets(None)), (String::new(), String::new()));
        let hostile = [&b"pass"[..], &[0; 900], b"word"].concat();
        assert_eq!(own(&hostile), ": pass…", "what was left out is marked, so that a cut secret is known");
        assert_eq!(target("POST", "coap://h:1", "/a?sid=5"), "POST coap://h:1/a?sid=***");
        assert_eq!(refusal("4.00: no", "GET /x"), "4.00: no (GET /x)");
    }
}
