//! Texts that come from files and peers, and numbers for people.

/// Whether a character could break a line, command a terminal or change the direction of writing (Unicode Standard Annex 9).
pub fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// The same text with a mark in the place of each such character.
pub fn harmless(text: &str) -> String {
    text.chars().map(|one| if is_harmful(one) { char::REPLACEMENT_CHARACTER } else { one }).collect()
}

/// A number for people, with its thousands set apart: `12,345.6`.
pub fn grouped(number: f64) -> String {
    let shown = number.to_string();
    let whole = shown.find('.').unwrap_or(shown.len());
    let mut out = String::new();
    for (place, character) in shown.char_indices() {
        let follows_a_digit = out.ends_with(|before: char| before.is_ascii_digit());
        if place < whole && (whole - place).is_multiple_of(3) && follows_a_digit {
            out.push(',');
        }
        out.push(character);
    }
    out
}

/// A text in one line, with an ellipsis in its middle where it is longer than so many characters: long values mostly differ at their
/// ends.
pub fn one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let length = line.chars().count();
    if length <= most {
        return line;
    }
    let (head, tail) = (most / 2, most - most / 2 - 1);
    line.chars().take(head).chain(['\u{2026}']).chain(line.chars().skip(length - tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_and_marks_of_direction_are_harmful_and_letters_of_any_script_are_not() {
        assert!(
            "\n\t\x1b\u{7f}\u{9b}\u{61c}\u{200f}\u{2028}\u{2029}\u{202e}\u{2069}".chars().all(is_harmful)
        );
        assert!(!"Gerät 5 (µs), 測定 مرحبا".chars().any(is_harmful));
    }

    #[test]
    fn thousands_are_set_apart() {
        for (number, told) in [
            (0.0, "0"),
            (999.0, "999"),
            (1000.0, "1,000"),
            (-123_456.0, "-123,456"),
            (1_234_567.125, "1,234,567.125"),
            (0.001_234, "0.001234"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(grouped(number), told);
        }
    }
}
