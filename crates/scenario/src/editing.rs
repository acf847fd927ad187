//! Reads and changes single settings in the text of a scenario. Comments, the order and the form of all else stay as they were written.
//!
//! A change is made in the text itself, at the place that the reader knows. Then the text is read again. It must be the old scenario with
//! that one setting changed, or the change is refused: some forms of YAML are changed by hand alone.

use crate::aliases;
use crate::diagnostic::Diagnostics;
use crate::matrix::written;
use crate::overrides::set;
use crate::reader::read;
use crate::span::{Origin, SourceFile, Span};
use crate::tree::{Entry, Node, Scalar, ScalarKind, Value};
use crate::yaml;
use std::ops::Range;
use std::sync::Arc;

/// Parts that the path of a setting may have.
const DEEPEST: usize = 32;

/// A scenario's text, and where its settings stand in it.
pub struct ScenarioText {
    text: String,
    root: Node,
}

/// What a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// A single value.
    Single,
    /// A list.
    List,
    /// A map.
    Map,
}

/// A setting as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What it is.
    pub kind: SettingKind,
    /// A single value without its quotes; a list or map in one line of YAML.
    pub value: String,
    /// Whether it is written in one line, so that another value can take its place.
    pub is_in_line: bool,
}

/// What a setting is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewValue<'a> {
    /// A text, quoted where it needs quotes.
    Text(&'a str),
    /// YAML in one line, such as `5` or `[100, 200]`.
    Yaml(&'a str),
    /// Nothing: the key is removed.
    Absent,
}

/// Why a setting was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// What leads to it is no path.
    #[error("`{0}` is no key such as `load.hold`")]
    NoKey(String),
    /// The value is no YAML, or has several lines.
    #[error("`{0}` is no value in one line of YAML")]
    NoValue(String),
    /// It is written in a form that is not changed here.
    #[error("`{0}` is written in a form that only you can change: change it in the text")]
    Form(String),
}

impl ScenarioText {
    /// Reads a text.
    ///
    /// # Errors
    /// It is no YAML, or not of the kind that a scenario has.
    pub fn read(text: &str) -> Result<ScenarioText, Diagnostics> {
        let mut found = Diagnostics::default();
        match tree(text, &mut found) {
            Some(root) if found.is_empty() => Ok(ScenarioText { text: text.to_owned(), root }),
            _ => Err(found),
        }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The setting at a path such as `load.hold`, also where it stands there under an earlier name; `None` where nothing does.
    pub fn setting(&self, path: &str) -> Option<Setting> {
        let path = aliases::as_written(&self.root, path);
        let node = path.split('.').try_fold(&self.root, Node::child).filter(|node| !is_empty(node))?;
        let (kind, value) = match &node.value {
            Value::Scalar(scalar) => (SettingKind::Single, scalar.text.clone()),
            Value::List(_) => (SettingKind::List, self.in_line(node)),
            Value::Map(_) => (SettingKind::Map, self.in_line(node)),
        };
        Some(Setting { kind, value, is_in_line: self.is_in_line(node) })
    }

    /// The keys of a map at a path, as they are written; none where there is no map.
    pub fn keys(&self, path: &str) -> Vec<&str> {
        let path = aliases::as_written(&self.root, path);
        match path.split('.').try_fold(&self.root, Node::child).map(|node| &node.value) {
            Some(Value::Map(entries)) => entries.iter().map(|entry| entry.key.as_str()).collect(),
            _ => Vec::new(),
        }
    }

    /// The text with another value at a path. What is on the way to it and missing is added.
    ///
    /// # Errors
    /// The path or the value is none, or stands in a form that is not changed here.
    pub fn with(&self, path: &str, value: NewValue<'_>) -> Result<String, EditError> {
        let names: Vec<&str> = path.split('.').collect();
        if names.len() > DEEPEST || names.iter().any(|name| !is_name(name)) {
            return Err(EditError::NoKey(path.to_owned()));
        }
        let path = aliases::as_written(&self.root, path);
        let names: Vec<&str> = path.split('.').collect();
        let refused = || EditError::Form(path.clone());
        let (written, wanted) = match value {
            NewValue::Absent => (None, without(&self.root, &names)),
            NewValue::Text(text) => {
                let node = Node::text(text, &self.root.span);
                (Some(yaml::text(text)), self.with_node(&path, node))
            }
            NewValue::Yaml(value) => {
                let value = value.trim();
                let node = value_of(value).ok_or_else(|| EditError::NoValue(value.to_owned()))?;
                (Some(value.to_owned()), self.with_node(&path, node))
            }
        };
        let wanted = wanted.ok_or_else(refused)?;
        let edited = self.edited(&names, written.as_deref()).ok_or_else(refused)?;
        let read = tree(&edited, &mut Diagnostics::default()).ok_or_else(refused)?;
        if is_same(&read, &wanted) { Ok(edited) } else { Err(refused()) }
    }

    fn with_node(&self, path: &str, node: Node) -> Option<Node> {
        let mut root = self.root.clone();
        set(&mut root, path, &self.root.span, node).ok().map(|()| root)
    }

    /// The text with that at a path, `None` for nothing there; `None` where it is in a form that is not changed.
    fn edited(&self, names: &[&str], value: Option<&str>) -> Option<String> {
        let mut above: Option<(&Node, &Entry)> = None;
        let mut node = &self.root;
        for (depth, name) in names.iter().enumerate() {
            let Value::Map(entries) = &node.value else {
                return self.below_empty(above?.1, names.get(depth..)?, value?);
            };
            let Some(entry) = entries.iter().find(|entry| entry.key == *name) else {
                return self.added(node, above.map(|(_, entry)| entry), names.get(depth..)?, value?);
            };
            if depth + 1 == names.len() {
                return match value {
                    Some(value) => self.replaced(entry, value),
                    None => self.removed(node, above.map(|(_, entry)| entry), entry),
                };
            }
            above = Some((node, entry));
            node = &entry.value;
        }
        None
    }

    /// Another value in the place of one that stands in one line, or of none.
    fn replaced(&self, entry: &Entry, value: &str) -> Option<String> {
        if is_empty(&entry.value) {
            let colon = self.after_colon(entry)?;
            return self.spliced(colon..colon, &format!(" {value}"));
        }
        if !self.is_in_line(&entry.value) {
            return None;
        }
        self.spliced(self.bytes(&entry.value), value)
    }

    /// What is missing, below a key that has no value.
    fn below_empty(&self, entry: &Entry, names: &[&str], value: &str) -> Option<String> {
        if !entry.value.is_null() {
            return None;
        }
        let colon = self.after_colon(entry)?;
        let column = self.own_column(entry);
        match column.filter(|_| is_empty(&entry.value)) {
            Some(column) => {
                let end = self.end_of_line(colon);
                self.spliced(end..end, &format!("\n{}", in_block(names, value, column + 2)))
            }
            None if is_empty(&entry.value) => {
                self.spliced(colon..colon, &format!(" {{ {} }}", in_flow(names, value)))
            }
            None => self.spliced(self.bytes(&entry.value), &format!("{{ {} }}", in_flow(names, value))),
        }
    }

    /// What is missing, after all else in a map.
    fn added(&self, map: &Node, key: Option<&Entry>, names: &[&str], value: &str) -> Option<String> {
        let Value::Map(entries) = &map.value else { return None };
        let Some(last) = entries.last() else {
            return match key {
                Some(_) => self.spliced(self.bytes(map), &format!("{{ {} }}", in_flow(names, value))),
                None => None,
            };
        };
        let end = self.end_of_entry(last)?;
        if self.is_flow(map) {
            return self.spliced(end..end, &format!(", {}", in_flow(names, value)));
        }
        // The first entry of a map may stand behind the sign of a list's item.
        let column = entries.first()?.key_span.columns().start;
        let end = self.end_of_line(end);
        self.spliced(end..end, &format!("\n{}", in_block(names, value, column)))
    }

    /// The text without an entry of a map: its lines, or its part of a line.
    fn removed(&self, map: &Node, key: Option<&Entry>, entry: &Entry) -> Option<String> {
        let Value::Map(entries) = &map.value else { return None };
        let at = entries.iter().position(|own| own.key == entry.key)?;
        let (start, end) = (self.bytes_of(&entry.key_span).start, self.end_of_entry(entry)?);
        if self.is_flow(map) {
            return match (entries.get(at + 1), at.checked_sub(1).and_then(|before| entries.get(before))) {
                (Some(next), _) => {
                    let next = self.bytes_of(&next.key_span).start;
                    let is_one_line = !self.text.get(end..next)?.contains('\n');
                    is_one_line.then(|| self.spliced(start..next, ""))?
                }
                (None, Some(before)) => self.spliced(self.end_of_entry(before)?..end, ""),
                (None, None) => self.spliced(self.bytes(map), "{}"),
            };
        }
        // Only whole lines are removed.
        self.own_column(entry)?;
        let line = self.start_of_line(start);
        let below = self.end_of_line(end);
        let below = if self.text.get(below..)?.starts_with('\n') { below + 1 } else { below };
        if entries.len() > 1 {
            return self.spliced(line..below, "");
        }
        let colon = self.after_colon(key?)?;
        let removed = self.spliced(line..below, "")?;
        // What stands before the removed lines has not moved.
        (colon <= line).then(|| spliced(&removed, colon..colon, " {}"))?
    }

    /// The value in one line, as written where it stands in one.
    fn in_line(&self, node: &Node) -> String {
        match self.is_in_line(node) {
            true => self.text.get(self.bytes(node)).unwrap_or_default().to_owned(),
            false => written(node),
        }
    }

    /// Whether a value stands in one line, apart from the lines of others.
    fn is_in_line(&self, node: &Node) -> bool {
        let bytes = self.bytes(node);
        let text = self.text.get(bytes).unwrap_or_default();
        let is_block = match &node.value {
            Value::Scalar(scalar) => scalar.text.contains('\n') || (scalar_is_block(scalar, text)),
            Value::List(_) | Value::Map(_) => !self.is_flow(node),
        };
        !is_block && !text.contains('\n')
    }

    /// Whether a list or map is in brackets.
    fn is_flow(&self, node: &Node) -> bool {
        let start = self.bytes(node).start;
        self.text.get(start..).is_some_and(|rest| rest.starts_with(['{', '[']))
    }

    /// The column of an entry's key that has its line for itself.
    fn own_column(&self, entry: &Entry) -> Option<usize> {
        let start = self.bytes_of(&entry.key_span).start;
        let before = self.text.get(self.start_of_line(start)..start)?;
        before.chars().all(|before| before == ' ').then_some(before.len())
    }

    /// The place after the colon of an entry.
    fn after_colon(&self, entry: &Entry) -> Option<usize> {
        let key = self.bytes_of(&entry.key_span);
        let rest = self.text.get(key.end..)?;
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        rest.get(blanks..)?.starts_with(':').then_some(key.end + blanks + 1)
    }

    fn end_of_entry(&self, entry: &Entry) -> Option<usize> {
        if is_empty(&entry.value) { self.after_colon(entry) } else { self.end_of(&entry.value) }
    }

    /// The end of what is written of a value. The reader knows the end of a list or map in block style only as the begin of what follows.
    fn end_of(&self, node: &Node) -> Option<usize> {
        match &node.value {
            Value::Map(entries) if !self.is_flow(node) => self.end_of_entry(entries.last()?),
            Value::List(items) if !self.is_flow(node) => self.end_of(items.last()?),
            _ => {
                let bytes = self.bytes(node);
                Some(bytes.start + self.text.get(bytes)?.trim_end().len())
            }
        }
    }

    fn bytes(&self, node: &Node) -> Range<usize> {
        self.bytes_of(&node.span)
    }

    fn bytes_of(&self, span: &Span) -> Range<usize> {
        let mark = self.text.len() - self.text.trim_start_matches('\u{feff}').len();
        let bytes = span.bytes();
        bytes.start + mark..bytes.end + mark
    }

    fn start_of_line(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1)
    }

    fn end_of_line(&self, at: usize) -> usize {
        self.text.get(at..).and_then(|rest| rest.find('\n')).map_or(self.text.len(), |end| at + end)
    }

    fn spliced(&self, place: Range<usize>, new: &str) -> Option<String> {
        spliced(&self.text, place, new)
    }
}

fn spliced(text: &str, place: Range<usize>, new: &str) -> Option<String> {
    Some([text.get(..place.start)?, new, text.get(place.end..)?].concat())
}

/// Names on the way to a value, in block style: a line each, without the last end of a line.
fn in_block(names: &[&str], value: &str, indent: usize) -> String {
    let lines = names.iter().enumerate().map(|(depth, name)| {
        let blanks = " ".repeat(indent + 2 * depth);
        let value = if depth + 1 == names.len() { format!(" {value}") } else { String::new() };
        format!("{blanks}{}:{value}", yaml::text(name))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The same in braces.
fn in_flow(names: &[&str], value: &str) -> String {
    match names {
        [] => value.to_owned(),
        [name] => format!("{}: {value}", yaml::text(name)),
        [name, below @ ..] => format!("{}: {{ {} }}", yaml::text(name), in_flow(below, value)),
    }
}

/// Whether a scalar is in block style: it begins with the sign of that.
fn scalar_is_block(scalar: &Scalar, text: &str) -> bool {
    !scalar.plain && text.starts_with(['|', '>'])
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::is_control)
}

/// Whether nothing at all is written.
fn is_empty(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar(scalar) if scalar.plain && scalar.text.is_empty())
}

fn tree(text: &str, found: &mut Diagnostics) -> Option<Node> {
    let origin = Arc::new(Origin::File(SourceFile { name: "scenario".into(), text: text.into() }));
    read(&origin, text, 0, found)
}

/// A value of one line, without a comment behind it.
fn value_of(value: &str) -> Option<Node> {
    if value.is_empty() || value.contains(char::is_control) {
        return None;
    }
    let mut found = Diagnostics::default();
    let node = tree(value, &mut found)?;
    (found.is_empty() && node.span.bytes() == (0..value.len())).then_some(node)
}

/// A tree without what stands at a path; `None` where nothing does.
fn without(root: &Node, names: &[&str]) -> Option<Node> {
    let mut root = root.clone();
    let (last, way) = names.split_last()?;
    let mut node = &mut root;
    for name in way {
        let Value::Map(entries) = &mut node.value else { return None };
        node = &mut entries.iter_mut().find(|entry| entry.key == *name)?.value;
    }
    let Value::Map(entries) = &mut node.value else { return None };
    entries.remove(entries.iter().position(|entry| entry.key == *last)?);
    Some(root)
}

/// Whether two trees say the same in the same order.
fn is_same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (Value::Scalar(one), Value::Scalar(other)) => {
            let kinds = (one.kind(), other.kind());
            kinds.0 == kinds.1 && (kinds.0 == ScalarKind::Null || one.text == other.text)
        }
        (Value::List(ones), Value::List(others)) => {
            ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| is_same(one, other))
        }
        (Value::Map(ones), Value::Map(others)) => {
            let is_same_entry =
                |(one, other): (&Entry, &Entry)| one.key == other.key && is_same(&one.value, &other.value);
            ones.len() == others.len() && ones.iter().zip(others).all(is_same_entry)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "# A day.\nname: first  # of all\nplatform: mosquitto\npopulation: { devices: 10, subscribers: 1 }\n\nload:\n  # From low to high.\n  levels: [ 100,  200 ] # two\n  hold:   30s  # long\nmqtt:\n  qos: 1\nmessage:   # none yet\nobjectives:\n  publish_p99: \"< 50 ms\"\n# The end.\n";

    fn read_text(text: &str) -> ScenarioText {
        ScenarioText::read(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
    }

    /// The lines that differ, old and new.
    fn difference(path: &str, value: NewValue<'_>) -> (Vec<String>, Vec<String>) {
        let new = read_text(TEXT).with(path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
        let missing = |of: &str, from: &str| -> Vec<String> {
            of.lines().filter(|line| !from.lines().any(|other| other == *line)).map(str::to_owned).collect()
        };
        (missing(TEXT, &new), missing(&new, TEXT))
    }

    #[test]
    fn a_change_concerns_its_own_key_and_no_comment() {
        use NewValue::{Absent, Text, Yaml};
        for (path, value, before, after) in [
            ("name", Text("a b"), &["name: first  # of all"][..], &["name: a b  # of all"][..]),
            ("name", Text("5"), &["name: first  # of all"], &["name: \"5\"  # of all"]),
            ("load.hold", Text("10s"), &["  hold:   30s  # long"], &["  hold:   10s  # long"]),
            ("load.levels", Yaml("[1, 2]"), &["  levels: [ 100,  200 ] # two"], &["  levels: [1, 2] # two"]),
            (
                "population.devices",
                Yaml("20"),
                &["population: { devices: 10, subscribers: 1 }"],
                &["population: { devices: 20, subscribers: 1 }"],
            ),
            (
                "population.at",
                Text("edge"),
                &["population: { devices: 10, subscribers: 1 }"],
                &["population: { devices: 10, subscribers: 1, at: edge }"],
            ),
            (
                "population.link.delay",
                Text("5ms"),
                &["population: { devices: 10, subscribers: 1 }"],
                &["population: { devices: 10, subscribers: 1, link: { delay: 5ms } }"],
            ),
            (
                "population.devices",
                Absent,
                &["population: { devices: 10, subscribers: 1 }"],
                &["population: { subscribers: 1 }"],
            ),
            (
                "population.subscribers",
                Absent,
                &["population: { devices: 10, subscribers: 1 }"],
                &["population: { devices: 10 }"],
            ),
            ("load.warm_up", Text("1s"), &[], &["  warm_up: 1s"]),
            ("load.hold", Absent, &["  hold:   30s  # long"], &[]),
            ("mqtt.qos", Absent, &["mqtt:", "  qos: 1"], &["mqtt: {}"]),
            ("message.size", Text("64 B"), &[], &["  size: 64 B"]),
            ("http.path", Text("x"), &[], &["http:", "  path: x"]),
            ("seed", Yaml("7"), &[], &["seed: 7"]),
            ("objectives.delivered", Text(">= 99 %"), &[], &["  delivered: \">= 99 %\""]),
            (
                "objectives.publish_p99",
                Text("< 9 ms"),
                &["  publish_p99: \"< 50 ms\""],
                &["  publish_p99: \"< 9 ms\""],
            ),
            ("objectives", Absent, &["objectives:", "  publish_p99: \"< 50 ms\""], &[]),
        ] {
            let (old, new) = difference(path, value);
            assert_eq!(
                (old, new),
                (
                    before.iter().map(|line| (*line).to_owned()).collect(),
                    after.iter().map(|line| (*line).to_owned()).collect()
                ),
                "{path}"
            );
        }
    }

    #[test]
    fn what_is_added_stands_behind_the_last_key_of_its_map() {
        let new = read_text(TEXT).with("load.warm_up", NewValue::Text("1s")).unwrap();
        assert!(new.contains("  hold:   30s  # long\n  warm_up: 1s\nmqtt:\n"), "{new}");
        let new = read_text(TEXT).with("message.size", NewValue::Text("64")).unwrap();
        assert!(new.contains("message:   # none yet\n  size: \"64\"\nobjectives:\n"), "{new}");
        let new = read_text(TEXT).with("seed", NewValue::Yaml("7")).unwrap();
        assert!(new.ends_with("  publish_p99: \"< 50 ms\"\nseed: 7\n# The end.\n"), "{new}");
        assert_eq!(read_text("name: a").with("seed", NewValue::Yaml("7")).unwrap(), "name: a\nseed: 7");
        assert_eq!(read_text("a: { b: }").with("a.b.c", NewValue::Yaml("7")).unwrap(), "a: { b: { c: 7 } }");
        assert_eq!(read_text("a: ~ # x").with("a.b", NewValue::Yaml("7")).unwrap(), "a: { b: 7 } # x");
        assert_eq!(read_text("a: {}\n").with("a.b", NewValue::Yaml("7")).unwrap(), "a: { b: 7 }\n");
        let literal = "a: |\n  one\n  two\n\nb:\n  c: >\n    x\n    y\n";
        let new = read_text(literal).with("b.d", NewValue::Yaml("7")).unwrap();
        assert!(new.starts_with("a: |\n  one\n  two\n\nb:\n  c: >\n    x\n    y\n  d: 7"), "{new}");
    }

    #[test]
    fn a_setting_is_shown_without_quotes_and_says_whether_it_can_be_changed() {
        let text = read_text(
            "name: \"a b\"\nload: { levels: [1,  2] }\nplatform:\n  with:\n    a: b\nlist:\n  - 1\n  - 2\nlong: |\n  x\nnone:\nempty: \"\"\nmqtt: { topic: t }\n",
        );
        let setting =
            |path: &str| text.setting(path).map(|found| (found.kind, found.value, found.is_in_line));
        for (path, kind, value, is_in_line) in [
            ("name", SettingKind::Single, "a b", true),
            ("load.levels", SettingKind::List, "[1,  2]", true),
            ("load", SettingKind::Map, "{ levels: [1,  2] }", true),
            ("platform.with", SettingKind::Map, "{ a: b }", false),
            ("list", SettingKind::List, "[1, 2]", false),
            ("long", SettingKind::Single, "x\n", false),
            ("empty", SettingKind::Single, "", true),
            ("message.target", SettingKind::Single, "t", true),
        ] {
            assert_eq!(setting(path), Some((kind, value.to_owned(), is_in_line)), "{path}");
        }
        for absent in ["none", "load.hold", "name.x", "x", "", "load..levels"] {
            assert_eq!(setting(absent), None, "{absent}");
        }
        // An earlier name is kept.
        let new = text.with("message.target", NewValue::Text("u")).unwrap();
        assert!(new.contains("mqtt: { topic: u }") && !new.contains("message"), "{new}");
    }

    #[test]
    fn what_cannot_be_changed_safely_is_refused() {
        let text = "long: |\n  x\nlist:\n  - a: 1\n    b: 2\nblock:\n  - 1\nflow: {\n  a: 1, # one\n  b: 2\n}\nsingle: 5\n";
        for (path, value) in [
            ("long", NewValue::Text("y")),
            ("block", NewValue::Yaml("[1]")),
            ("list.0.a", NewValue::Absent),
            ("flow.a", NewValue::Absent),
            ("single.x", NewValue::Yaml("1")),
            ("single", NewValue::Yaml("a: b")),
            ("none", NewValue::Absent),
        ] {
            assert_eq!(read_text(text).with(path, value), Err(EditError::Form(path.into())), "{path}");
        }
        for value in ["", "[1", "a\nb: 1", "*x", "1 # x"] {
            assert!(
                matches!(read_text(text).with("single", NewValue::Yaml(value)), Err(EditError::NoValue(_))),
                "{value}"
            );
        }
        for path in ["", "a..b", ".", "a\nb", &"a.".repeat(40)] {
            assert!(
                matches!(read_text(text).with(path, NewValue::Yaml("1")), Err(EditError::NoKey(_))),
                "{path}"
            );
        }
        assert_eq!(read_text("a: 1\n").with("a", NewValue::Absent), Err(EditError::Form("a".into())));
        assert!(ScenarioText::read("a: [").is_err() && ScenarioText::read("").is_err());
    }

    proptest! {
        /// Whatever is changed, all lines of comments stay, and the value is what was wanted.
        #[test]
        fn comments_stay_whatever_is_changed(
            path in "(name|load|load\\.(hold|levels|x|search\\.from)|population\\.(devices|x)|mqtt\\.(qos|x)|message\\.x|seed|objectives)",
            text in "([ a-z0-9:#\\[\\]{}|>'\",-]|\\PC){0,12}",
        ) {
            for value in [NewValue::Text(&text), NewValue::Yaml(&text), NewValue::Absent] {
                let Ok(new) = read_text(TEXT).with(&path, value) else { continue };
                for comment in ["# A day.", "# of all", "# From low to high.", "# none yet", "# The end."] {
                    // What is removed takes the comments in its own lines along.
                    prop_assert!(new.contains(comment) || value == NewValue::Absent, "{comment}: {new}");
                }
                if let NewValue::Text(text) = value {
                    prop_assert_eq!(read_text(&new).setting(&path).map(|found| found.value), Some(text.to_owned()));
                }
            }
        }

        #[test]
        fn no_text_makes_a_change_panic(
            text in "([ \n\t:?,\\[\\]{}#|>'\"~-]|[a-c]|é|\r|\u{feff}|key: ){0,60}",
            path in "[a-c](\\.[a-c]){0,3}|key|key\\.a",
        ) {
            let Ok(read) = ScenarioText::read(&text) else { return Ok(()) };
            for value in [NewValue::Text("v w"), NewValue::Yaml("[1]"), NewValue::Absent] {
                let _ = read.with(&path, value);
            }
            let _ = read.setting(&path);
        }
    }
}
