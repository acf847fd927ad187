//! What is wrong with a file or a command line, where, and what to do about it.

use crate::span::Span;
use crate::wrap::{WIDTH, wrapped};
use plimsoll_codec::credentials::{credentials, hide_credentials};
use plimsoll_model::text::is_harmful;
use std::fmt;
use std::ops::Range;

/// Diagnostics shown before the rest is only counted.
const SHOWN: usize = 50;
/// Diagnostics kept: a hostile file of a few megabytes could hold a million errors.
const KEPT: usize = 1000;

/// Parts of the names of keys whose values are not repeated. Fewer than `names_secret` knows: a scenario has keys as `session`,
/// whose values must be seen to be mended.
const SECRETS: [&str; 10] = [
    "password",
    "passwd",
    "secret",
    "token",
    "credential",
    "authorization",
    "api_key",
    "api-key",
    "apikey",
    "cookie",
];

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// What is wrong.
    pub message: String,
    /// Where it stands; where something is missing, what it is missing from.
    pub span: Span,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A diagnostic at a place.
    pub(crate) fn new(span: &Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { message: message.into(), span: span.clone(), help: None }
    }

    /// Adds what to do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}

/// Everything that is wrong, in the order of finding, up to the first thousand. As an error it is never empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Adds one, if there are not too many already.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if !self.is_full() {
            self.0.push(diagnostic);
        }
    }

    /// Whether no more are kept.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= KEPT
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::error::Error for Diagnostics {}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, diagnostic) in self.0.iter().take(SHOWN).enumerate() {
            if position > 0 {
                writeln!(f)?;
            }
            write!(f, "{diagnostic}")?;
        }
        if self.0.len() > SHOWN {
            write!(f, "\nand {} more errors\n", self.0.len() - SHOWN)?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wrapped("error: ", &printable(&hide_credentials(&self.message))))?;
        write_excerpt(f, &self.span)?;
        if let Some(help) = &self.help {
            f.write_str(&wrapped("help: ", &printable(help)))?;
        }
        Ok(())
    }
}

/// Writes where a span is, its (first) line, and carets below it.
fn write_excerpt(f: &mut fmt::Formatter<'_>, span: &Span) -> fmt::Result {
    let number = span.line_number().map(|line| line.to_string()).unwrap_or_default();
    let gutter = " ".repeat(number.len());
    writeln!(f, "{gutter}--> {}", printable(&span.place()))?;
    writeln!(f, "{gutter} |")?;
    let line: Vec<char> = printable(&masked(span.line())).chars().collect();
    let columns = span.columns();
    let room = WIDTH.saturating_sub(number.len() + 3);
    // A line that is too long is shown from a third of the room before the span.
    let cut = if columns.end.min(line.len()) <= room { 0 } else { columns.start.saturating_sub(room / 3) };
    let shown: String = line.iter().skip(cut).take(room).collect();
    writeln!(f, "{number} | {}", shown.trim_end())?;
    let before = columns.start.saturating_sub(cut);
    let carets = columns.end.saturating_sub(columns.start).clamp(1, room.saturating_sub(before).max(1));
    writeln!(f, "{gutter} | {}{}", " ".repeat(before), "^".repeat(carets))
}

/// The credentials of a line as asterisks, in addresses and behind keys; each character stays one, so that carets stand
/// where they should.
fn masked(line: &str) -> String {
    let mut hidden = vec![false; line.len()];
    for range in credentials(line).into_iter().chain(written_secrets(line)) {
        hidden.get_mut(range).unwrap_or_default().fill(true);
    }
    let is_hidden = |at: usize| hidden.get(at).is_some_and(|&hidden| hidden);
    line.char_indices().map(|(at, character)| if is_hidden(at) { '*' } else { character }).collect()
}

/// Where values stand in a line whose keys say that they are secrets, up to the end of the value: `key: value` of a file and
/// `key=value` of the command line.
fn written_secrets(line: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, _) in line.match_indices([':', '=']) {
        if found.last().is_some_and(|last| at < last.end) {
            continue;
        }
        let (before, after) = (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default());
        let before = before.trim_end().trim_end_matches(['"', '\'']);
        let key =
            before.rsplit(|c: char| !c.is_alphanumeric() && !"_-".contains(c)).next().unwrap_or_default();
        let value = after.trim_start();
        if value.is_empty() || value.starts_with(['{', '[']) || !is_secret(key) {
            continue;
        }
        let begin = at + 1 + (after.len() - value.len());
        found.push(begin..begin + length_of(value));
    }
    found
}

fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRETS.iter().any(|secret| key.contains(secret))
}

/// Bytes of the value that a text begins with: up to its closing quote, else up to what ends a value within a map.
fn length_of(value: &str) -> usize {
    if let Some(quote) = value.chars().next().filter(|first| ['"', '\''].contains(first)) {
        let inner = value.get(1..).unwrap_or_default();
        // An escaped quote does not end it; without an end it is the rest of the line.
        let mut escaped = false;
        let end = inner.char_indices().find(|(_, character)| {
            let ends = *character == quote && !escaped;
            escaped = *character == '\\' && !escaped;
            ends
        });
        return end.map_or(value.len(), |(end, _)| end + 2);
    }
    value.split([',', '}']).next().unwrap_or_default().trim_end().len()
}

/// What could move the cursor, colour the terminal or turn the text around is not shown. One character stays one.
fn printable(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\t' => ' ',
            character if is_harmful(character) => char::REPLACEMENT_CHARACTER,
            character => character,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::{Origin, Position, SourceFile};
    use std::sync::Arc;

    fn span(text: &str, start: usize, end: usize) -> Span {
        let source = SourceFile { name: "file.yaml".into(), text: text.into() };
        let at = |column| Position { line: 1, column };
        Span::new(&Arc::new(Origin::File(source)), at(start), at(end))
    }

    #[test]
    fn a_long_line_is_shown_around_the_span() {
        let text = format!("{}WRONG{}", "a".repeat(200), "b".repeat(200));
        let shown = Diagnostic::new(&span(&text, 200, 205), "wrong").to_string();
        assert!(shown.lines().all(|line| line.chars().count() <= WIDTH), "{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        let carets = lines[4].find('^').unwrap();
        assert_eq!(&lines[3][carets..carets + 5], "WRONG");
    }

    #[test]
    fn control_characters_of_a_file_do_not_reach_the_terminal() {
        let shown = Diagnostic::new(&span("a: \u{1b}[31mred", 3, 4), "wrong \u{7}").to_string();
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
    }

    #[test]
    fn what_a_key_calls_a_secret_is_not_repeated() {
        let line = "mqtt: { password: hunter2, qos: 9, token: { env: T }, client_secret: s3 }";
        let shown = Diagnostic::new(&span(line, 32, 33), "wrong").to_string();
        assert!(
            shown.contains("mqtt: { password: *******, qos: 9, token: { env: T }, client_secret: ** }"),
            "{shown}"
        );
    }

    #[test]
    fn a_secret_is_hidden_however_its_key_and_value_are_written() {
        for (line, shown) in [
            ("--set mqtt.password=hunter2", "--set mqtt.password=*******"),
            ("\"password\": hunter2", "\"password\": *******"),
            ("password : hunter2", "password : *******"),
            ("password: \"hun,ter2\", qos: 1", "password: **********, qos: 1"),
            ("password: 'a\\'b', qos: 1", "password: ******, qos: 1"),
            ("api_key: k1", "api_key: **"),
            ("Authorization: Bearer x", "Authorization: ********"),
            ("qos: 9", "qos: 9"),
        ] {
            assert_eq!(masked(line), shown);
        }
    }

    #[test]
    fn many_diagnostics_are_counted_not_shown() {
        let many = Diagnostics(vec![Diagnostic::new(&span("a: b", 0, 1), "wrong"); 60]);
        assert_eq!(many.to_string().matches("error: wrong").count(), 50);
        assert!(many.to_string().contains("and 10 more errors"));
    }
}
