//! Places in the texts that users write.

use std::ops::Range;
use std::sync::Arc;

/// A file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name, as the user gave it.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Where a text comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A file.
    File(SourceFile),
    /// One word or option of the command line, as typed.
    CommandLine(String),
}

/// A point in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 0, in characters.
    pub column: usize,
}

/// A stretch of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    origin: Arc<Origin>,
    start: Position,
    end: Position,
}

impl Span {
    /// The stretch from `start` up to `end`.
    pub(crate) fn new(origin: &Arc<Origin>, start: Position, end: Position) -> Span {
        Span { origin: Arc::clone(origin), start, end }
    }

    /// The first place of some words within this span, or the whole span where they stand in it in another form.
    pub(crate) fn find(&self, words: &str) -> Span {
        let within =
            lines(self.text()).enumerate().take(self.end.line).skip(self.start.line.saturating_sub(1));
        for (index, line) in within {
            let first = if index + 1 == self.start.line { self.start.column } else { 0 };
            let from = line.char_indices().nth(first).map_or(line.len(), |(byte, _)| byte);
            let Some(rest) = line.get(from..) else { continue };
            if let Some((before, _)) = rest.split_once(words) {
                let start = first + before.chars().count();
                let at = |column| Position { line: index + 1, column };
                return Span::new(&self.origin, at(start), at(start + words.chars().count()));
            }
        }
        self.clone()
    }

    /// The line's number from 1; `None` for the command line, which has none.
    pub fn line_number(&self) -> Option<usize> {
        match *self.origin {
            Origin::File(_) => Some(self.start.line),
            Origin::CommandLine(_) => None,
        }
    }

    /// The file's name, as the user gave it; `None` for the command line.
    pub(crate) fn file(&self) -> Option<&str> {
        match &*self.origin {
            Origin::File(source) => Some(&source.name),
            Origin::CommandLine(_) => None,
        }
    }

    /// The text itself, where it was typed on the command line.
    pub fn typed(&self) -> Option<String> {
        if matches!(*self.origin, Origin::File(_)) {
            return None;
        }
        let first = self.columns();
        let of_line = |(index, line): (usize, &str)| -> String {
            let from = if index + 1 == self.start.line { first.start } else { 0 };
            let to = if index + 1 == self.end.line { self.end.column } else { usize::MAX };
            line.chars().skip(from).take(to.saturating_sub(from)).collect()
        };
        let within =
            lines(self.text()).enumerate().take(self.end.line).skip(self.start.line.saturating_sub(1));
        Some(within.map(of_line).collect::<Vec<_>>().join("\n"))
    }

    /// Where the span begins, for people: `file:line:column`, or `command line`.
    pub fn place(&self) -> String {
        match &*self.origin {
            Origin::File(source) => format!("{}:{}:{}", source.name, self.start.line, self.start.column + 1),
            Origin::CommandLine(_) => "command line".to_owned(),
        }
    }

    /// The text of the line on which the span begins.
    pub(crate) fn line(&self) -> &str {
        lines(self.text()).nth(self.start.line.saturating_sub(1)).unwrap_or_default()
    }

    /// The bytes that it covers of its text, which begins after a mark of the order of bytes.
    pub(crate) fn bytes(&self) -> Range<usize> {
        let start = byte_of(self.text(), self.start);
        start..byte_of(self.text(), self.end).max(start)
    }

    fn text(&self) -> &str {
        match &*self.origin {
            Origin::File(source) => &source.text,
            Origin::CommandLine(words) => words,
        }
    }

    /// The columns on the line where the span begins, from 0; to the end of the line where the span goes on.
    pub(crate) fn columns(&self) -> Range<usize> {
        let line = self.line().trim_end().chars().count();
        let end = if self.end.line == self.start.line { self.end.column } else { line };
        self.start.column..end.min(line).max(self.start.column)
    }
}

/// The byte at which a position is; the end of the line or the text where it is beyond.
fn byte_of(text: &str, position: Position) -> usize {
    let text = text.trim_start_matches('\u{feff}');
    let Some(line) = lines(text).nth(position.line.saturating_sub(1)) else { return text.len() };
    let begin = line.as_ptr() as usize - text.as_ptr() as usize;
    begin + line.char_indices().nth(position.column).map_or(line.len(), |(byte, _)| byte)
}

/// Lines as YAML sees them: ended by a line feed, a carriage return, or both.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim_start_matches('\u{feff}');
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let current = rest?;
        let Some((line, after)) = current.find(['\n', '\r']).and_then(|end| current.split_at_checked(end))
        else {
            return rest.take();
        };
        rest = after.strip_prefix("\r\n").or_else(|| after.get(1..));
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_like_those_of_yaml() {
        assert_eq!(lines("a\nb\r\nc\rd").collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(lines("").collect::<Vec<_>>(), [""]);
        assert_eq!(lines("a\n").collect::<Vec<_>>(), ["a", ""]);
    }

    #[test]
    fn a_span_over_several_lines_is_marked_to_the_end_of_its_first() {
        let origin = Arc::new(Origin::File(SourceFile { name: "f".into(), text: "abc  \ndef".into() }));
        let span = Span::new(&origin, Position { line: 1, column: 1 }, Position { line: 2, column: 2 });
        assert_eq!(span.columns(), 1..3);
        assert_eq!(span.place(), "f:1:2");
    }

    #[test]
    fn what_was_typed_is_whole_over_several_lines() {
        let origin = Arc::new(Origin::CommandLine("--set a={\"b\":1,\n\"c\":2} ".into()));
        let span = Span::new(&origin, Position { line: 1, column: 8 }, Position { line: 2, column: 6 });
        assert_eq!(span.typed().unwrap(), "{\"b\":1,\n\"c\":2}");
    }

    #[test]
    fn words_are_found_within_a_span_of_several_lines() {
        let text = "x: |\n  y ä {x}\n  {y}\n".to_owned();
        let origin = Arc::new(Origin::File(SourceFile { name: "f".into(), text }));
        let span = Span::new(&origin, Position { line: 1, column: 3 }, Position { line: 4, column: 0 });
        assert_eq!(span.find("{x}").place(), "f:2:7");
        assert_eq!(span.find("{y}").place(), "f:3:3");
        assert_eq!(span.find("{z}"), span);
    }
}
