//! Text broken at spaces to fit a terminal.

/// Columns that text for people keeps to.
pub(crate) const WIDTH: usize = 80;

/// The words of a text after a first word or label, broken to fit; further lines are indented by the label's length.
pub fn wrapped(label: &str, text: &str) -> String {
    let indent = label.chars().count();
    let mut out = label.to_owned();
    let mut column = indent;
    for (position, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if position > 0 {
            if column + 1 + length > WIDTH {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                column = indent;
            } else {
                out.push(' ');
                column += 1;
            }
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_lines_stand_under_the_first_word() {
        let text = wrapped("help: ", &"word ".repeat(30));
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("      word")), "{text}");
    }

    #[test]
    fn a_word_longer_than_the_line_is_kept_whole() {
        assert_eq!(wrapped("a ", &"x".repeat(100)), format!("a {}\n", "x".repeat(100)));
    }
}
