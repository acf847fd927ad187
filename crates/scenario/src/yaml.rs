//! Writes plain values as YAML, in the order that they have.

use crate::tree::{Scalar, ScalarKind};
use serde_json::Value;

/// The value as a YAML document in block style.
pub(crate) fn write(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

fn block(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                out.push_str(&format!("{indent}{}:", text(key)));
                beside(value, depth, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                out.push_str(&format!("{indent}-"));
                beside(item, depth, out);
            }
        }
        single => out.push_str(&format!("{indent}{}\n", scalar(single))),
    }
}

/// What stands after a `key:` or a `-`: a scalar on the same line, anything else on the lines below.
fn beside(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(map) if map.is_empty() => out.push_str(" {}\n"),
        Value::Array(items) if items.is_empty() => out.push_str(" []\n"),
        Value::Object(_) | Value::Array(_) => {
            out.push('\n');
            block(value, depth + 1, out);
        }
        single => out.push_str(&format!(" {}\n", scalar(single))),
    }
}

fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), text)
}

/// A text without quotes where no reader can take it for anything else, otherwise in the quotes of JSON, which YAML
/// understands.
fn text(text: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_-./ ".contains(c);
    let plain = Scalar { text: text.to_owned(), plain: true };
    let bare = text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !text.ends_with(' ')
        && text.chars().all(harmless)
        && plain.kind() == ScalarKind::Text;
    if bare { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_would_be_something_else_are_quoted() {
        for (written, expected) in [
            ("plain text", "plain text"),
            ("30s", "30s"),
            ("5", "\"5\""),
            ("true", "\"true\""),
            ("null", "\"null\""),
            ("", "\"\""),
            (">= 99.9 %", "\">= 99.9 %\""),
            ("a: b", "\"a: b\""),
            ("two\nlines", "\"two\\nlines\""),
            ("- a", "\"- a\""),
        ] {
            assert_eq!(text(written), expected);
        }
    }

    #[test]
    fn maps_and_lists_are_written_in_blocks() {
        let value = serde_json::json!({"a": {"b": [1, {"c": null}], "d": []}, "e": "f"});
        assert_eq!(write(&value), "a:\n  b:\n    - 1\n    -\n      c: null\n  d: []\ne: f\n");
    }
}
