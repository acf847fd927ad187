//! Texts that come from files and peers.

/// Whether a character could break a line, command a terminal or change the direction of writing (Unicode Standard Annex 9).
pub fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
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
}
