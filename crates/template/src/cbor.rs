//! Bodies of CBOR (RFC 8949) from templates of JSON: what is the same in each of them is encoded once.

use crate::template::{Names, Piece, Template, TemplateError};
use plimsoll_codec::cbor;
use serde_json::Value;

/// Most bytes before what an item of CBOR holds.
pub const LONGEST_HEAD: usize = 9;
/// They stand around the number of a variable while the text is read as JSON: in a text, as a value, and behind both. Nobody writes them:
/// Unicode keeps them for private use.
const IN_TEXT: char = '\u{f8f0}';
const AS_VALUE: char = '\u{f8f1}';
const END: char = '\u{f8f2}';

/// Compiles JSON with variables to what renders CBOR. A variable stands within a text, or takes the place of a number, true, false or null.
///
/// # Errors
/// A variable is none, or the text is no JSON.
pub fn compile(text: &str, names: &Names<'_>) -> Result<Template, TemplateError> {
    let pieces = Template::compile_with(text, names)?.pieces;
    let wrong = |message: String| TemplateError {
        message,
        help: "write JSON, with variables within texts or in the place of numbers".to_owned(),
        written: text.to_owned(),
    };
    if text.contains([IN_TEXT, AS_VALUE, END]) {
        return Err(wrong("characters for private use stand in it".to_owned()));
    }
    let json = marked(&pieces);
    let value: Value = serde_json::from_str(&json).map_err(|error| {
        // The text that was read has other columns.
        wrong(format!("it is no JSON: {}", error.to_string().split(" at line").next().unwrap_or_default()))
    })?;
    let mut encoder = Encoder { variables: &pieces, plain: Vec::new(), pieces: Vec::new() };
    encoder.value(&value);
    encoder.flush();
    Ok(Template { pieces: encoder.pieces })
}

/// The text with its variables as what JSON can hold.
fn marked(pieces: &[Piece]) -> String {
    let (mut json, mut in_text, mut escaped) = (String::new(), false, false);
    for (number, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) => {
                for c in text.chars() {
                    match c {
                        _ if escaped => escaped = false,
                        '\\' if in_text => escaped = true,
                        '"' => in_text = !in_text,
                        _ => {}
                    }
                    json.push(c);
                }
            }
            _ if in_text => json.push_str(&format!("{IN_TEXT}{number}{END}")),
            _ => json.push_str(&format!("\"{AS_VALUE}{number}{END}\"")),
        }
    }
    json
}

struct Encoder<'a> {
    variables: &'a [Piece],
    /// Bytes that are the same in each body, since the last piece.
    plain: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Encoder<'_> {
    fn flush(&mut self) {
        if !self.plain.is_empty() {
            self.pieces.push(Piece::Bytes(std::mem::take(&mut self.plain)));
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                cbor::head(cbor::major::ARRAY, items.len() as u64, &mut self.plain);
                items.iter().for_each(|item| self.value(item));
            }
            Value::Object(pairs) => {
                cbor::head(cbor::major::MAP, pairs.len() as u64, &mut self.plain);
                for (key, value) in pairs {
                    self.text(key);
                    self.value(value);
                }
            }
            plain => cbor::write_json(plain, &mut self.plain),
        }
    }

    fn text(&mut self, text: &str) {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(begin) = rest.find([IN_TEXT, AS_VALUE]) {
            let (before, from) = rest.split_at(begin);
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            let (marker, after) = from.split_once(END).unwrap_or((from, ""));
            let number: String = marker.chars().skip(1).collect();
            let variable = number.parse::<usize>().ok().and_then(|number| self.variables.get(number));
            pieces.extend(variable.cloned());
            rest = after;
            if marker.starts_with(AS_VALUE) {
                self.flush();
                return self.pieces.push(Piece::CborValue(pieces));
            }
        }
        if pieces.is_empty() {
            return cbor::text(text, &mut self.plain);
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        self.flush();
        self.pieces.push(Piece::CborText(pieces));
    }
}

/// Makes a text of CBOR of the bytes from there on.
pub fn become_text(begin: usize, out: &mut Vec<u8>) {
    let length = out.len() - begin;
    // The head is written behind the text, and brought before it.
    cbor::head(cbor::major::TEXT, length as u64, out);
    if let Some(item) = out.get_mut(begin..) {
        item.rotate_left(length);
    }
}

/// Makes a value of CBOR of the JSON from there on; a text where that is none.
pub fn become_value(begin: usize, out: &mut Vec<u8>) {
    let written = out.get(begin..).unwrap_or_default();
    // Most are whole numbers.
    if let Some(whole) = std::str::from_utf8(written).ok().and_then(|text| text.parse().ok()) {
        out.truncate(begin);
        return cbor::integer(whole, out);
    }
    match serde_json::from_slice::<Value>(written) {
        Ok(value) => {
            out.truncate(begin);
            cbor::write_json(&value, out);
        }
        Err(_) => become_text(begin, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Variables;
    use serde_json::json;

    const NAMES: Names<'_> =
        Names { built_in: &["device", "sequence", "message", "random"], captured: &["token"], columns: None };

    fn rendered(text: &str, message: &[u8]) -> Vec<u8> {
        let template = compile(text, &NAMES).unwrap();
        let variables = Variables { device: 7, sequence: 300, message, ..Variables::default() };
        let mut out = Vec::new();
        template.render(&variables, &mut || 0, &mut out);
        assert!(out.len() <= template.longest_with(0, message.len(), None));
        out
    }

    #[test]
    fn variables_stand_in_texts_and_for_numbers() {
        let text = r#"{"di":"d-{device}", "n": {sequence}, "v": {random:-2..-2}, "a": [true, null, 1.5, "x\"y"],
            "{device}": "{message}", "plain": {}}"#;
        let expected = json!({
            "di": "d-7", "n": 300, "v": -2, "a": [true, null, 1.5, "x\"y"], "7": "{\"", "plain": {}
        });
        assert_eq!(cbor::to_json(&rendered(text, b"{\"")), Ok(expected));
    }

    #[test]
    fn what_never_changes_is_encoded_once() {
        let template = compile(r#"{"a":[1,2],"m":"{message}"}"#, &NAMES).unwrap();
        assert!(matches!(&template.pieces[..], [Piece::Bytes(_), Piece::CborText(_)]), "{template:?}");
        assert!(template.has(&|piece| matches!(piece, Piece::Message(_))));
    }

    #[test]
    fn long_texts_have_longer_heads() {
        for length in [0, 23, 24, 255, 256, 70_000] {
            let message = vec![b'x'; length];
            let value = cbor::to_json(&rendered(r#"["{message}"]"#, &message)).unwrap();
            assert_eq!(value[0].as_str().map(str::len), Some(length));
        }
    }

    #[test]
    fn what_is_no_json_is_said() {
        for (text, said) in [
            ("{\"a\":}", "no JSON"),
            ("{\"a\":\"{devise}\"}", "no variable"),
            ("\"\u{f8f0}\"", "private use"),
        ] {
            let error = compile(text, &NAMES).unwrap_err();
            assert!(error.message.contains(said), "{text}: {}", error.message);
        }
    }

    #[test]
    fn an_empty_variable_in_the_place_of_a_number_is_a_text() {
        assert_eq!(cbor::to_json(&rendered(r#"{"t": {token}}"#, b"")), Ok(json!({"t": ""})));
    }
}
