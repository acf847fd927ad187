//! Values as plain text (1.1 core, section 7.4.1): one value, and nothing that says of which resource it is.

use super::{Kind, Value};
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use std::io::Write;

/// Appends a value. Bytes are written in Base64.
pub fn write(value: Value<'_>, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = match value {
        Value::Integer(number) | Value::Time(number) => write!(out, "{number}"),
        Value::Float(number) => write!(out, "{number}"),
        Value::Boolean(is_true) => write!(out, "{}", u8::from(is_true)),
        Value::String(text) => out.write_all(text.as_bytes()),
        Value::Opaque(bytes) => write!(out, "{}", Base64Display::new(bytes, &STANDARD)),
        Value::ObjectLink(object, instance) => write!(out, "{object}:{instance}"),
    };
}

/// Reads a value of that kind; `None` where it is none. Bytes are not read from text: they do not lie in it.
pub fn read(text: &str, kind: Kind) -> Option<Value<'_>> {
    Some(match kind {
        Kind::Integer => Value::Integer(text.parse().ok()?),
        Kind::Time => Value::Time(text.parse().ok()?),
        Kind::Float => Value::Float(text.parse().ok().filter(|number: &f64| number.is_finite())?),
        Kind::Boolean => Value::Boolean(match text {
            "1" | "true" => true,
            "0" | "false" => false,
            _ => return None,
        }),
        Kind::String => Value::String(text),
        Kind::Opaque => return None,
        Kind::ObjectLink => {
            let (object, instance) = text.split_once(':')?;
            Value::ObjectLink(object.parse().ok()?, instance.parse().ok()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(value: Value<'_>) -> String {
        let mut out = Vec::new();
        write(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_what_a_person_would_write() {
        assert_eq!(written(Value::Float(21.5)), "21.5");
        assert_eq!(written(Value::Boolean(true)), "1");
        assert_eq!(written(Value::ObjectLink(66, 1)), "66:1");
        assert_eq!(written(Value::Opaque(&[0, 255])), "AP8=");
        assert_eq!(read("true", Kind::Boolean), Some(Value::Boolean(true)));
        for wrong in ["", "x", "1:2:3", "inf", "NaN"] {
            assert_eq!(read(wrong, Kind::Float), None, "{wrong}");
            assert_eq!(read(wrong, Kind::ObjectLink), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn numbers_survive(integer: i64, float in -1e300..1e300_f64, object: u16, instance: u16) {
            for value in [Value::Integer(integer), Value::Float(float), Value::ObjectLink(object, instance)] {
                let text = written(value);
                prop_assert_eq!(read(&text, value.kind()), Some(value));
            }
        }

        #[test]
        fn any_text_is_read_without_panic(text: String) {
            prop_assert!(Kind::ALL.into_iter().any(|kind| read(&text, kind).is_some()), "any text is one");
        }
    }
}
