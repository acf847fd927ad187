//! Names from files and peers in texts of ours: a name can neither end a line, nor turn it around, nor become markup or a
//! formula.

use plimsoll_model::text::{harmless, is_harmful};

/// A name that stands in a line with others: what would break the line, command a terminal or turn the text around is
/// replaced.
pub fn line(text: &str) -> String {
    harmless(text)
}

/// A page of HTML, whose names were escaped: what would turn the text around or is no character of HTML is replaced.
pub fn page(html: String) -> String {
    let is_wrong = |one: char| is_harmful(one) && !matches!(one, '\n' | '\t');
    if !html.contains(is_wrong) {
        return html;
    }
    html.chars().map(|one| if is_wrong(one) { char::REPLACEMENT_CHARACTER } else { one }).collect()
}

/// The same in a cell of Markdown.
pub fn markdown(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    for character in line(text).chars() {
        match character {
            '<' => cell.push_str("&lt;"),
            '&' => cell.push_str("&amp;"),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '!' | '~' | '#' => cell.extend(['\\', character]),
            _ => cell.push(character),
        }
    }
    cell
}

/// A cell of comma-separated values (RFC 4180), which no spreadsheet takes for a formula.
pub fn csv(text: &str) -> String {
    // Nearly all cells of a log of messages.
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':')) {
        return text.to_owned();
    }
    let text = line(text);
    let is_formula = text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err();
    let text = if is_formula { format!("'{text}") } else { text };
    if text.contains([',', ';', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_name_wherever_it_stands() {
        let name = "a\nMET \x1b[2J\u{202e}|<img src=x>`_";
        assert_eq!(line(name), "a\u{fffd}MET \u{fffd}[2J\u{fffd}|<img src=x>`_");
        assert_eq!(markdown(name), "a\u{fffd}MET \u{fffd}\\[2J\u{fffd}\\|&lt;img src=x>\\`\\_");
        assert_eq!(csv("=HYPERLINK(\"x\",1)"), "\"'=HYPERLINK(\"\"x\"\",1)\"");
        assert_eq!((csv("-1.5e3"), csv("-x"), csv("a b")), ("-1.5e3".into(), "'-x".into(), "a b".into()));
        assert_eq!(page("<p>\n\tGerät\u{202e}\x1b".into()), "<p>\n\tGerät\u{fffd}\u{fffd}");
        assert_eq!(line("Gerät 5 µs, 測定"), "Gerät 5 µs, 測定");
    }
}
