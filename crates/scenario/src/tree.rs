//! A file as a tree in which every key and value knows its place.

use crate::span::Span;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub value: Value,
    pub span: Span,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a map and its value. Keys of one map are distinct.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub key_span: Span,
    pub value: Node,
}

/// A single value as written. What it is meant to be decides the schema: `5` may be a number or a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar {
    pub text: String,
    /// Whether it stands without quotes, so that it may be something other than text.
    pub plain: bool,
}

/// What a scalar is by itself (YAML 1.2, core schema).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Null,
    Boolean,
    Number,
    Text,
}

/// The index that a part of a path is, written in one way alone: two paths that differ are two places.
pub(crate) fn index(name: &str) -> Option<usize> {
    name.parse().ok().filter(|index: &usize| index.to_string() == name)
}

impl Scalar {
    /// What it is by itself.
    pub fn kind(&self) -> ScalarKind {
        if !self.plain {
            return ScalarKind::Text;
        }
        match self.text.as_str() {
            "" | "~" | "null" | "Null" | "NULL" => ScalarKind::Null,
            "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => ScalarKind::Boolean,
            text if is_number(text) => ScalarKind::Number,
            _ => ScalarKind::Text,
        }
    }
}

/// Whether YAML takes a plain text for a number.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN" => true,
        _ => {
            unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
                && (unsigned.parse::<f64>().is_ok()
                    || unsigned.starts_with("0x")
                    || unsigned.starts_with("0o"))
        }
    }
}

impl Node {
    /// An unquoted scalar.
    pub fn plain(text: impl Into<String>, span: &Span) -> Node {
        Node { value: Value::Scalar(Scalar { text: text.into(), plain: true }), span: span.clone() }
    }

    /// A scalar that is text whatever it looks like.
    pub fn text(text: impl Into<String>, span: &Span) -> Node {
        Node { value: Value::Scalar(Scalar { text: text.into(), plain: false }), span: span.clone() }
    }

    /// A map without entries.
    pub fn empty_map(span: &Span) -> Node {
        Node { value: Value::Map(Vec::new()), span: span.clone() }
    }

    /// Whether nothing is written here.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.kind() == ScalarKind::Null)
    }

    /// What it is, for people.
    pub fn what(&self) -> &'static str {
        match &self.value {
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Scalar(scalar) => match scalar.kind() {
                ScalarKind::Null => "nothing",
                ScalarKind::Boolean => "true or false",
                ScalarKind::Number => "a number",
                ScalarKind::Text => "a text",
            },
        }
    }

    /// Whether it is a single value, written so.
    pub fn is_text(&self, text: &str) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.text == text)
    }

    /// The entry or item of that name or number.
    pub fn child(&self, name: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == name).map(|entry| &entry.value),
            Value::List(items) => items.get(index(name)?),
            Value::Scalar(_) => None,
        }
    }

    /// Whether something stands at a path such as `load.levels.0`.
    pub fn has(&self, path: &str) -> bool {
        path.split('.').try_fold(self, Node::child).is_some_and(|node| !node.is_null())
    }

    /// The place of the value at a path such as `load.levels.0`, or of the key of the deepest part that exists.
    pub fn locate(&self, path: &str) -> &Span {
        let mut place = &self.span;
        let mut node = self;
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            let Some(child) = node.child(name) else { return place };
            place = match &node.value {
                Value::Map(entries) if names.peek().is_some() || matches!(child.value, Value::Map(_)) => {
                    entries.iter().find(|entry| entry.key == name).map_or(place, |entry| &entry.key_span)
                }
                _ => &child.span,
            };
            node = child;
        }
        place
    }
}

/// Whether a key is that one or below it; all are where none is named.
pub(crate) fn is_within(key: &str, above: Option<&str>) -> bool {
    let Some(above) = above else { return true };
    key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_what_yaml_1_2_says() {
        let kind = |text: &str| Scalar { text: text.into(), plain: true }.kind();
        for (kind_wanted, texts) in [
            (ScalarKind::Null, ["", "~", "null"].as_slice()),
            (ScalarKind::Boolean, &["true", "False"]),
            (ScalarKind::Number, &["5", "-1.5", "1e3", ".5", "0x1f", ".inf", "-.INF", ".nan"]),
            (ScalarKind::Text, &["yes", "5s", "3.1.1", "nan", "inf", "infinity", "-", "1_000"]),
        ] {
            for text in texts {
                assert_eq!(kind(text), kind_wanted, "{text}");
            }
        }
        assert_eq!(Scalar { text: "5".into(), plain: false }.kind(), ScalarKind::Text);
    }
}
