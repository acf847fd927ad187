//! YAML text to a located tree. Bounded in size and depth; any text gives a tree or diagnostics.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::span::{Origin, Position, Span};
use crate::tree::{Entry, Node, Scalar, Value};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput};
use std::collections::HashMap;
use std::sync::Arc;

/// Largest text read, in bytes.
const LARGEST: usize = 8 << 20;
/// Deepest nesting of maps and lists.
const DEEPEST: usize = 64;

/// Reads the one document of a text. `None` where it cannot be read, which `found` then says. The text's first line
/// begins at column `shift` of the origin.
pub(crate) fn read(origin: &Arc<Origin>, text: &str, shift: usize, found: &mut Diagnostics) -> Option<Node> {
    let begin = Position { line: 1, column: shift };
    let beginning = Span::new(origin, begin, begin);
    if text.len() > LARGEST {
        found.push(
            Diagnostic::new(
                &beginning,
                format!("the text has {} bytes, more than the 8 MiB allowed", text.len()),
            )
            .help("a scenario or profile is a few kilobytes; is this the right file?"),
        );
        return None;
    }
    let reader = Reader { origin, shift, found, open: Vec::new(), root: None };
    match reader.run(text.trim_start_matches('\u{feff}')) {
        Ok(Some(root)) => Some(root),
        Ok(None) => {
            found.push(Diagnostic::new(&beginning, "nothing is written here"));
            None
        }
        Err(diagnostic) => {
            found.push(diagnostic);
            None
        }
    }
}

/// A map or list whose end has not come yet.
enum Open {
    List { items: Vec<Node>, start: Marker },
    Map { entries: Vec<Entry>, lines: HashMap<String, usize>, key: Option<(String, Span)>, start: Marker },
}

struct Reader<'a> {
    origin: &'a Arc<Origin>,
    shift: usize,
    found: &'a mut Diagnostics,
    open: Vec<Open>,
    root: Option<Node>,
}

impl Reader<'_> {
    fn run(mut self, text: &str) -> Result<Option<Node>, Diagnostic> {
        let mut parser = Parser::new(StrInput::new(text));
        let mut documents = 0;
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| self.not_yaml(&error, text))?;
            match event {
                Event::StreamEnd => break,
                Event::Nothing | Event::StreamStart | Event::DocumentEnd => {}
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        let message = "a second document begins here, but a file holds one";
                        return Err(self.error(span.start, span.end, message).help("remove the `---`"));
                    }
                }
                Event::Alias(_) => {
                    let message = "aliases (`*name`) are not supported";
                    return Err(self.error(span.start, span.end, message).help("write the value out"));
                }
                Event::Scalar(_, _, _, Some(_))
                | Event::SequenceStart(_, Some(_))
                | Event::MappingStart(_, Some(_)) => {
                    let message = "tags (`!name`) are not supported";
                    return Err(self.error(span.start, span.end, message).help("remove the tag"));
                }
                Event::Scalar(text, style, _, None) => {
                    let scalar = Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain };
                    // An absent value is reported as `~` with an empty span.
                    let text = if span.is_empty() && scalar.plain { String::new() } else { scalar.text };
                    let value = Value::Scalar(Scalar { text, plain: scalar.plain });
                    self.complete(Node { value, span: self.span(span.start, span.end) })?;
                }
                Event::SequenceStart(_, None) => {
                    self.enter(Open::List { items: Vec::new(), start: span.start }, span.start)?;
                }
                Event::MappingStart(_, None) => self.enter(
                    Open::Map { entries: Vec::new(), lines: HashMap::new(), key: None, start: span.start },
                    span.start,
                )?,
                Event::SequenceEnd | Event::MappingEnd => {
                    let (value, start) = match self.open.pop() {
                        Some(Open::List { items, start }) => (Value::List(items), start),
                        Some(Open::Map { entries, start, .. }) => (Value::Map(entries), start),
                        None => continue,
                    };
                    // A bracket is one character; the parser counts the blanks after it to it.
                    let mut end = self.position(span.start);
                    end.column += 1;
                    self.complete(Node { value, span: Span::new(self.origin, self.position(start), end) })?;
                }
            }
        }
        Ok(self.root)
    }

    /// A map or list begins.
    fn enter(&mut self, opened: Open, at: Marker) -> Result<(), Diagnostic> {
        if let Some(Open::Map { key: None, .. }) = self.open.last() {
            return Err(self.error(at, at, "a key must be a plain text, not a map or a list"));
        }
        if self.open.len() >= DEEPEST {
            return Err(self.error(at, at, format!("nested deeper than {DEEPEST} levels")));
        }
        self.open.push(opened);
        Ok(())
    }

    /// A value is whole: it belongs to what is open around it.
    fn complete(&mut self, node: Node) -> Result<(), Diagnostic> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, lines, key, .. }) => match (key.take(), node.value) {
                (None, Value::Scalar(scalar)) => *key = Some((scalar.text, node.span)),
                (None, _) => {
                    return Err(Diagnostic::new(
                        &node.span,
                        "a key must be a plain text, not a map or a list",
                    ));
                }
                (Some((key, key_span)), value) => {
                    if let Some(&first) = lines.get(&key) {
                        self.found.push(
                            Diagnostic::new(&key_span, format!("the key `{key}` stands twice"))
                                .help(format!("keep one of them; the first is on line {first}")),
                        );
                    } else {
                        lines.insert(key.clone(), key_span.line_number().unwrap_or(1));
                        entries.push(Entry { key, key_span, value: Node { value, span: node.span } });
                    }
                }
            },
        }
        Ok(())
    }

    fn position(&self, marker: Marker) -> Position {
        let shift = if marker.line() <= 1 { self.shift } else { 0 };
        Position { line: marker.line(), column: marker.col() + shift }
    }

    fn span(&self, start: Marker, end: Marker) -> Span {
        Span::new(self.origin, self.position(start), self.position(end))
    }

    fn error(&self, start: Marker, end: Marker, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.span(start, end), message)
    }

    /// The text is not YAML. The commonest trap here is an objective whose `>=` lacks quotes.
    fn not_yaml(&self, error: &ScanError, text: &str) -> Diagnostic {
        let marker = *error.marker();
        // What was not closed is found out at the end of the text, perhaps many empty lines below.
        let written = text.trim_end();
        let last = written.rsplit('\n').next().unwrap_or_default().chars().count();
        let end = Marker::new(written.len(), written.matches('\n').count() + 1, last);
        let marker = if marker.line() > end.line() { end } else { marker };
        let diagnostic = self.error(marker, marker, format!("this is not YAML: {}", error.info()));
        let value = diagnostic.span.line().split_once(':').map(|(_, value)| value.trim_start());
        let trapped = value.is_some_and(|value| value.starts_with('>'));
        if trapped {
            diagnostic.help("write a comparison in quotes, as in `\">= 99.9 %\"`")
        } else {
            diagnostic
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::SourceFile;
    use proptest::prelude::*;

    fn read_text(text: &str) -> Result<Node, String> {
        let origin = Arc::new(Origin::File(SourceFile { name: "f.yaml".into(), text: text.into() }));
        let mut found = Diagnostics::default();
        let node = read(&origin, text, 0, &mut found);
        match node {
            Some(node) if found.is_empty() => Ok(node),
            _ => Err(found.to_string()),
        }
    }

    /// The text that a span of a single line covers.
    fn covered<'t>(text: &'t str, span: &Span) -> &'t str {
        let line = text.lines().nth(span.line_number().unwrap() - 1).unwrap();
        &line[span.columns()]
    }

    #[test]
    fn every_key_and_value_knows_its_place() {
        let text =
            "name: first \nload:\n  levels: [ 100,  200 ] # two\n  hold:   30s  # long\n  text: \"a b\"\n";
        let root = read_text(text).unwrap();
        for (path, expected) in [
            ("name", "first"),
            ("load", "load"),
            ("load.levels", "[ 100,  200 ]"),
            ("load.levels.1", "200"),
            ("load.hold", "30s"),
            ("load.text", "\"a b\""),
            ("load.absent.deep", "load"),
        ] {
            assert_eq!(covered(text, root.locate(path)), expected, "{path}");
        }
    }

    #[test]
    fn what_is_not_supported_is_told_with_its_place() {
        for (text, expected) in [
            ("a: &x 1\nb: *x\n", "aliases"),
            ("a: !!str 1\n", "tags"),
            ("a: 1\n---\nb: 2\n", "second document"),
            ("? [a, b]\n: 1\n", "a key must be a plain text"),
            ("a: 1\na: 2\n", "the key `a` stands twice"),
            ("a: [1, 2\n", "not YAML"),
            ("objectives:\n  delivered: >= 99.9 %\n", "in quotes"),
            ("", "nothing is written"),
            ("# only a comment\n", "nothing is written"),
        ] {
            let shown = read_text(text).unwrap_err();
            assert!(shown.contains(expected), "{text}: {shown}");
            assert!(shown.contains("--> f.yaml:"), "{shown}");
        }
    }

    #[test]
    fn hostile_nesting_and_size_are_refused_quickly() {
        for text in ["[".repeat(1 << 20), "{a: ".repeat(1 << 18), "- ".repeat(1 << 20), "? ".repeat(1 << 19)]
        {
            assert!(read_text(&text).is_err());
        }
        assert!(read_text(&"a".repeat(LARGEST + 1)).unwrap_err().contains("8 MiB"));
        assert!(read_text(&"[".repeat(60)).is_err());
        let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
        assert!(read_text(&deep).unwrap_err().contains("deeper than 64"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in any::<String>()) {
            let _ = read_text(&text);
        }

        #[test]
        fn no_text_that_looks_like_yaml_makes_the_reader_panic(
            text in "([ \n\t:?,\\[\\]{}#&*!|>'\"%@`~-]|[a-c]|é|\r|---|\\.\\.\\.|<<: |!!str |key: ){0,60}"
        ) {
            let _ = read_text(&text);
        }
    }
}
