//! Writes plain values as YAML, in the order that they have.

use crate::tree::{Scalar, ScalarKind};
use serde_json::Value;

/// The value as a YAML document in block style.
pub fn write(value: &Value) -> String {
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
        Value::String(text) if is_literal(text) => {
            let indent = "  ".repeat(depth + 1);
            out.push_str(" |\n");
            for line in text.lines() {
                let indent = if line.is_empty() { "" } else { &indent };
                out.push_str(&format!("{indent}{line}\n"));
            }
        }
        single => out.push_str(&format!(" {}\n", scalar(single))),
    }
}

/// Whether a text of several lines can stand as it is, below its key: its first line says how far all are indented, and its end has
/// one line feed.
fn is_literal(text: &str) -> bool {
    let Some(lines) = text.strip_suffix('\n').filter(|lines| lines.contains('\n')) else { return false };
    let is_shown = |c: char| {
        c == '\n' || (!c.is_control() && !('\u{2028}'..='\u{2029}').contains(&c) && c != '\u{feff}')
    };
    !lines.starts_with([' ', '\n']) && !lines.ends_with('\n') && lines.chars().all(is_shown)
}

fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), text)
}

/// A text without quotes where no reader can take it for anything else, not even one of YAML 1.1, otherwise in the quotes of
/// JSON, which YAML understands.
pub(crate) fn text(text: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_-./ ".contains(c);
    let plain = Scalar { text: text.to_owned(), plain: true };
    let is_boolean_of_old =
        ["y", "n", "yes", "no", "on", "off"].iter().any(|word| text.eq_ignore_ascii_case(word));
    let bare = !is_boolean_of_old
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !text.ends_with(' ')
        && text.chars().all(harmless)
        && plain.kind() == ScalarKind::Text;
    if bare { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Diagnostics;
    use crate::span::{Origin, SourceFile};
    use crate::tree;
    use proptest::prelude::*;
    use std::sync::Arc;

    #[test]
    fn texts_that_would_be_something_else_are_quoted() {
        for (written, expected) in [
            ("plain text", "plain text"),
            ("30s", "30s"),
            ("5", "\"5\""),
            ("true", "\"true\""),
            ("null", "\"null\""),
            ("On", "\"On\""),
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

    #[test]
    fn a_text_of_several_lines_stands_as_it_is() {
        let value = serde_json::json!({"a": {"b": "one:\n  - two\n\nthree  \n"}, "c": "no\nend", "d": " first\nlast\n"});
        let written =
            "a:\n  b: |\n    one:\n      - two\n\n    three  \nc: \"no\\nend\"\nd: \" first\\nlast\\n\"\n";
        assert_eq!(write(&value), written);
    }

    proptest! {
        #[test]
        fn a_text_is_read_back_as_it_was(text in "([ a-z:#|>'\"\t%-]|\n|\\PC){0,40}") {
            let written = write(&serde_json::json!({"a": {"b": text}, "c": [text]}));
            let source = SourceFile { name: "written.yaml".into(), text: written.clone() };
            let mut found = Diagnostics::default();
            let read = crate::reader::read(&Arc::new(Origin::File(source)), &written, 0, &mut found);
            let read = read.unwrap_or_else(|| panic!("{written}: {found}"));
            let mut texts = Vec::new();
            scalars(&read, &mut texts);
            prop_assert_eq!(texts, vec![text.clone(), text], "{}", written);
        }
    }

    fn scalars(node: &tree::Node, texts: &mut Vec<String>) {
        match &node.value {
            tree::Value::Scalar(scalar) => texts.push(scalar.text.clone()),
            tree::Value::List(items) => items.iter().for_each(|item| scalars(item, texts)),
            tree::Value::Map(entries) => entries.iter().for_each(|entry| scalars(&entry.value, texts)),
        }
    }
}
