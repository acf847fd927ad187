//! Attributes of entities: read from JSON, checked, written again.

use super::refusal::Refusal;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Characters that ids, names and values may not have.
const FORBIDDEN: &[char] = &['<', '>', '"', '\'', '=', ';', '(', ')'];
/// The type of an attribute whose values may have all characters.
const UNRESTRICTED: &str = "TextUnrestricted";
/// Longest id, type or name, in characters.
const LONGEST_NAME: usize = 256;

/// An attribute: a value with a type and further facts about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its type.
    pub kind: String,
    /// Its value.
    pub value: Value,
    /// Its metadata, each with type and value.
    pub metadata: Map<String, Value>,
}

/// Attributes by name. One entity may have tens of thousands.
pub type Attributes = BTreeMap<String, Attribute>;

/// How entities are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Type, value and metadata of each attribute.
    #[default]
    Normalized,
    /// The value of each attribute alone.
    KeyValues,
}

impl Attribute {
    /// Reads an attribute.
    ///
    /// # Errors
    /// It is no object with `value`, `type` and `metadata`, or has what may not be in one.
    pub fn read(written: Value) -> Result<Attribute, Refusal> {
        let Value::Object(mut object) = written else {
            return Err(Refusal::bad("an attribute is a JSON object with a value"));
        };
        let value = object.shift_remove("value").unwrap_or(Value::Null);
        let kind = match object.shift_remove("type") {
            Some(Value::String(kind)) => checked(kind, "the type of an attribute")?,
            Some(_) => return Err(Refusal::bad("the type of an attribute is a text")),
            None => default_kind(&value).to_owned(),
        };
        let metadata = match object.shift_remove("metadata") {
            Some(Value::Object(metadata)) => read_metadata(metadata)?,
            Some(_) => return Err(Refusal::bad("metadata are a JSON object")),
            None => Map::new(),
        };
        if let Some(unknown) = object.keys().next() {
            return Err(Refusal::bad(format!("an attribute has no member `{unknown}`")));
        }
        Attribute { kind, value, metadata }.checked()
    }

    /// An attribute of a value alone.
    ///
    /// # Errors
    /// The value has characters that it may not have.
    pub fn of(value: Value) -> Result<Attribute, Refusal> {
        Attribute { kind: default_kind(&value).to_owned(), value, metadata: Map::new() }.checked()
    }

    fn checked(self) -> Result<Attribute, Refusal> {
        if self.kind != UNRESTRICTED && has_forbidden(&self.value) {
            return Err(Refusal::bad("Invalid characters in attribute value"));
        }
        Ok(self)
    }

    /// The attribute as JSON.
    pub fn write(&self, format: Format) -> Value {
        match format {
            Format::Normalized => {
                json!({ "type": self.kind, "value": self.value, "metadata": self.metadata })
            }
            Format::KeyValues => self.value.clone(),
        }
    }

    /// Roughly how much memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        let metadata: usize = self.metadata.iter().map(|(name, value)| name.len() + bytes(value)).sum();
        self.kind.len() + bytes(&self.value) + metadata
    }
}

/// Reads the attributes of an entity, `id` and `type` taken out of it before.
///
/// # Errors
/// One of them is none.
pub fn read_all(object: Map<String, Value>, format: Format) -> Result<Attributes, Refusal> {
    let read = object.into_iter().map(|(name, value)| {
        let name = checked(name, "the name of an attribute")?;
        let attribute = match format {
            Format::Normalized => Attribute::read(value)?,
            Format::KeyValues => Attribute::of(value)?,
        };
        Ok((name, attribute))
    });
    read.collect()
}

/// An id, type or name, if it may be one.
///
/// # Errors
/// It is empty, too long, or has characters that it may not have.
pub fn checked(name: String, what: &str) -> Result<String, Refusal> {
    let of_paths = |c: char| c.is_whitespace() || c.is_control() || "&?/#".contains(c);
    if name.is_empty() || name.chars().count() > LONGEST_NAME {
        return Err(Refusal::bad(format!("{what} has 1 to {LONGEST_NAME} characters")));
    }
    if name.contains(FORBIDDEN) || name.contains(of_paths) {
        return Err(Refusal::bad(format!("Invalid characters in {what}")));
    }
    Ok(name)
}

fn read_metadata(written: Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    let read = written.into_iter().map(|(name, value)| {
        let name = checked(name, "the name of a metadata")?;
        // Written like an attribute, but without metadata of its own.
        let Attribute { kind, value, .. } = Attribute::read(value)?;
        Ok((name, json!({ "type": kind, "value": value })))
    });
    read.collect()
}

fn default_kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "Text",
        Value::Number(_) => "Number",
        Value::Bool(_) => "Boolean",
        Value::Null => "None",
        Value::Array(_) | Value::Object(_) => "StructuredValue",
    }
}

fn has_forbidden(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(FORBIDDEN),
        Value::Array(list) => list.iter().any(has_forbidden),
        Value::Object(object) => {
            object.iter().any(|(name, value)| name.contains(FORBIDDEN) || has_forbidden(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn bytes(value: &Value) -> usize {
    let inner = match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(bytes).sum(),
        Value::Object(object) => object.iter().map(|(name, value)| name.len() + bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + inner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_and_written() {
        let read = Attribute::read(json!({ "value": 3.5 })).unwrap();
        let expected = json!({ "type": "Number", "value": 3.5, "metadata": {} });
        assert_eq!(read.write(Format::Normalized), expected);
        let whole =
            json!({ "type": "T", "value": [1], "metadata": { "a": { "type": "Text", "value": "x" } } });
        assert_eq!(Attribute::read(whole.clone()).unwrap().write(Format::Normalized), whole);
        assert_eq!(Attribute::of(json!({ "a": 1 })).unwrap().kind, "StructuredValue");
    }

    #[test]
    fn forbidden_characters_pass_in_unrestricted_texts_only() {
        for value in [json!("a=b"), json!(["(x"]), json!({ "a": { "<": 1 } }), json!("say \"x\"")] {
            let refused = Attribute::read(json!({ "value": value }));
            assert_eq!(refused.unwrap_err().description, "Invalid characters in attribute value");
            assert!(Attribute::read(json!({ "value": value, "type": UNRESTRICTED })).is_ok());
        }
        for name in ["", "a b", "a;b", "a/b", &"x".repeat(257)] {
            assert!(checked(name.to_owned(), "a name").is_err(), "{name}");
        }
    }
}
