//! `--set load.hold=10s` and `--objective "publish_p99 < 50 ms"`: values that replace those of a file before it is checked.

use crate::aliases;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::reader::read;
use crate::span::{Origin, Position, Span};
use crate::tree::{Entry, Node, Value, index};
use std::sync::Arc;

/// A value to set, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Override {
    /// `load.levels.0=100`. The value is YAML, or text where YAML would say nothing that a scenario can hold: `>= 400`,
    /// `{message}`. A number in the path is an index into a list.
    Key(String),
    /// `publish_p99 < 50 ms`.
    Objective(String),
}

/// A piece of the command line: an option and its value, shown as typed in diagnostics.
pub(crate) struct Words {
    origin: Arc<Origin>,
    shift: usize,
    value: String,
}

impl Words {
    /// `--option value`; without an option the value alone.
    pub fn new(option: &str, value: &str) -> Words {
        let before = if option.is_empty() { String::new() } else { format!("{option} ") };
        let origin = Arc::new(Origin::CommandLine(format!("{before}{value}")));
        Words { origin, shift: before.chars().count(), value: value.to_owned() }
    }

    /// The value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The place of the value.
    pub fn span(&self) -> Span {
        self.part(0, self.value.chars().count())
    }

    /// The place of some characters of the value.
    pub fn part(&self, start: usize, end: usize) -> Span {
        let at = |column| Position { line: 1, column: self.shift + column };
        Span::new(&self.origin, at(start), at(end))
    }

    /// The value read as YAML; `None` where it cannot be, which `found` then says.
    pub fn read(&self, found: &mut Diagnostics) -> Option<Node> {
        read(&self.origin, &self.value, self.shift, found)
    }

    /// The value as a scalar.
    pub fn node(&self) -> Node {
        Node::plain(self.value.trim(), &self.span())
    }
}

/// A value and the key of the scenario that it is meant for.
pub(crate) struct Change {
    /// The key, such as `load.levels.0`.
    pub path: String,
    /// Where the key stands.
    pub span: Span,
    /// The value.
    pub value: Node,
}

impl Change {
    /// Sets the value at its key.
    pub fn apply(self, root: &mut Node, found: &mut Diagnostics) {
        let Change { path, span, value } = self;
        if let Err(message) = set(root, &aliases::present(&path), &span, value) {
            found.push(Diagnostic::new(&span, message));
        }
        // A section that is set whole may have keys under earlier names.
        aliases::rename(root, found);
    }
}

/// What the overrides are to change, in their order.
pub(crate) fn changes(overrides: &[Override], found: &mut Diagnostics) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for given in overrides {
        let change = match given {
            Override::Key(text) => key(&Words::new("--set", text), found),
            Override::Objective(text) => objective(&Words::new("--objective", text), &changes, found),
        };
        changes.extend(change);
    }
    changes
}

fn key(words: &Words, found: &mut Diagnostics) -> Option<Change> {
    let Some((path, value)) = words.value.split_once('=') else {
        found.push(Diagnostic::new(&words.span(), "there is no `=`").help("write `--set load.hold=10s`"));
        return None;
    };
    let columns = path.chars().count();
    let mut node = match is_text(value.trim()) {
        true => Node::text(value.trim(), &words.part(columns + 1, words.value.chars().count())),
        false => read(&words.origin, value, words.shift + columns + 1, found)?,
    };
    // A value of several lines is shown whole.
    if node.span.columns().is_empty() {
        node.span = words.span();
    }
    Some(Change { path: path.to_owned(), span: words.part(0, columns), value: node })
}

/// Whether a value means nothing to a scenario as YAML: the head of a block that has no lines, an alias, a tag, a character
/// that begins no value, or a placeholder, which YAML takes for a map.
fn is_text(value: &str) -> bool {
    let inner = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}').or(Some(rest)));
    let placeholder = inner.is_some_and(|inner| !inner.trim().is_empty() && !inner.contains(':'));
    let block = value.starts_with(['>', '|']) && !value.contains(['\n', '\r']);
    placeholder || block || value.starts_with(['*', '&', '!', '%', '@', '`'])
}

fn objective(words: &Words, before: &[Change], found: &mut Diagnostics) -> Option<Change> {
    let value = words.value();
    let (key, condition) = value.split_at(value.find(['<', '>']).unwrap_or(value.len()));
    let key = key.trim();
    let is_named = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if condition.is_empty() || !is_named {
        found.push(
            Diagnostic::new(&words.span(), "this is no objective")
                .help("write `--objective \"publish_p99 < 50 ms\"`: a name, a comparison and a bound"),
        );
        return None;
    }
    let (path, span) = (format!("objectives.{key}"), words.part(0, key.chars().count()));
    if before.iter().any(|change| change.path == path) {
        found.push(
            Diagnostic::new(&span, format!("a second bound for `{key}`"))
                .help("an objective has one bound; remove the other `--objective`"),
        );
        return None;
    }
    let length = value.chars().count();
    let bound = words.part(length - condition.chars().count(), length);
    Some(Change { path, span, value: Node::text(condition.trim(), &bound) })
}

/// Puts a value at a path, and makes the maps and lists on the way that are missing.
pub(crate) fn set(root: &mut Node, path: &str, key_span: &Span, value: Node) -> Result<(), String> {
    if path.split('.').count() > 32 {
        return Err("the path has more than 32 parts".to_owned());
    }
    let mut node = root;
    let mut walked = String::new();
    for name in path.split('.') {
        if name.is_empty() {
            return Err(format!("`{path}` is not a path such as `load.levels.0`"));
        }
        if node.is_null() {
            let list = index(name).is_some();
            node.value = if list { Value::List(Vec::new()) } else { Value::Map(Vec::new()) };
        }
        let missing = || Node::plain("", key_span);
        let what = node.what();
        node = match &mut node.value {
            Value::Scalar(_) => return Err(format!("`{walked}` is {what}; it has no `{name}`")),
            Value::Map(entries) => {
                let position = entries.iter().position(|entry| entry.key == name).unwrap_or_else(|| {
                    let entry = Entry { key: name.to_owned(), key_span: key_span.clone(), value: missing() };
                    entries.push(entry);
                    entries.len() - 1
                });
                match entries.get_mut(position) {
                    Some(entry) => &mut entry.value,
                    None => return Ok(()),
                }
            }
            Value::List(items) => {
                let length = items.len();
                // One of several populations by its name.
                let named = |item: &Node| item.child("name").is_some_and(|own| own.is_text(name));
                let index = index(name).or_else(|| items.iter().position(named));
                let index = index.filter(|index| *index <= length);
                let Some(index) = index else {
                    return Err(format!(
                        "`{walked}` is a list of {length}; `{name}` is no index from 0 to {length}"
                    ));
                };
                if index == length {
                    items.push(missing());
                }
                match items.get_mut(index) {
                    Some(item) => item,
                    None => return Ok(()),
                }
            }
        };
        if !walked.is_empty() {
            walked.push('.');
        }
        walked.push_str(name);
    }
    *node = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::SourceFile;
    use crate::tree::Scalar;

    fn apply_to(text: &str, overrides: &[&str]) -> (Node, String) {
        let origin = Arc::new(Origin::File(SourceFile { name: "f".into(), text: text.into() }));
        let mut found = Diagnostics::default();
        let mut root = read(&origin, text, 0, &mut found).unwrap();
        let overrides: Vec<Override> = overrides.iter().map(|text| Override::Key((*text).into())).collect();
        changes(&overrides, &mut found).into_iter().for_each(|change| change.apply(&mut root, &mut found));
        (root, found.to_string())
    }

    fn text_at<'n>(root: &'n Node, path: &str) -> &'n str {
        match path.split('.').try_fold(root, Node::child) {
            Some(Node { value: Value::Scalar(Scalar { text, .. }), .. }) => text,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn values_are_replaced_added_and_appended() {
        let (root, errors) = apply_to(
            "load: { hold: 1s, levels: [1, 2] }\nempty:\n",
            &[
                "load.hold=2s",
                "load.levels.1=20",
                "load.levels.2=30",
                "mqtt.reconnect.from=1s",
                "empty.a=b",
                "load.hold=3s",
            ],
        );
        assert_eq!(errors, "");
        for (path, expected) in [
            ("load.hold", "3s"),
            ("load.levels.0", "1"),
            ("load.levels.1", "20"),
            ("load.levels.2", "30"),
            ("connection.reconnect.from", "1s"),
            ("empty.a", "b"),
        ] {
            assert_eq!(text_at(&root, path), expected, "{path}");
        }
    }

    #[test]
    fn a_value_that_means_nothing_as_yaml_is_text() {
        for value in [">= 400", "{message}", "{device}/{message}", "%x", "*", "@home"] {
            let (root, errors) = apply_to("a: 1\n", &[&format!("b.c={value}")]);
            assert_eq!((text_at(&root, "b.c"), errors.as_str()), (value, ""));
        }
        let (root, _) = apply_to("a: 1\n", &["b={ c: 2 }"]);
        assert_eq!(text_at(&root, "b.c"), "2");
        let (root, errors) = apply_to("a: 1\n", &["b.c=|\n  one\n  two\n", "d={ }"]);
        assert_eq!((text_at(&root, "b.c"), errors.as_str()), ("one\ntwo\n", ""));
        assert!(matches!(&root.child("d").unwrap().value, Value::Map(entries) if entries.is_empty()));
    }

    #[test]
    fn what_cannot_be_set_is_shown_as_typed() {
        for (typed, expected) in [
            ("load.hold", "there is no `=`"),
            ("load.hold.x=1", "`load.hold` is a text; it has no `x`"),
            ("load.levels.5=1", "no index from 0 to 2"),
            ("load.levels.x=1", "no index from 0 to 2"),
            ("load..x=1", "is not a path"),
            ("load.hold=[1", "not YAML"),
            ("load.hold=", "nothing is written"),
        ] {
            let (_, errors) = apply_to("load: { hold: 1s, levels: [1, 2] }\n", &[typed]);
            assert!(errors.contains(expected), "{typed}: {errors}");
            assert!(errors.contains(&format!("| --set {typed}")), "{typed}: {errors}");
        }
    }

    #[test]
    fn a_value_knows_its_place_on_the_command_line() {
        let (root, _) = apply_to("a: 1\n", &["load.levels=[1, x]"]);
        let span = root.locate("load.levels.1");
        assert_eq!(&span.line()[span.columns()], "x");
    }
}
