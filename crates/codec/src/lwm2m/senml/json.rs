//! SenML in JSON (RFC 8428 section 5).

use super::{Base, Given, MOST_ENTRIES, Malformed, Path, Record, Value, Written, names};
use base64::Engine;
use base64::display::Base64Display;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Number;
use std::io::Write;

/// A record in JSON.
#[derive(Deserialize)]
struct JsonRecord {
    bn: Option<String>,
    bv: Option<f64>,
    n: Option<String>,
    v: Option<Number>,
    vs: Option<String>,
    vb: Option<bool>,
    vd: Option<String>,
    vlo: Option<String>,
}

/// Reads a pack.
///
/// # Errors
/// It is no array of records, or a record has a value that is none.
pub fn read(payload: &[u8]) -> Result<Vec<Record<'static>>, Malformed> {
    if payload.iter().filter(|byte| **byte == b'{').count() > MOST_ENTRIES {
        return Err(malformed("more records than a device has values"));
    }
    let records: Vec<JsonRecord> =
        serde_json::from_slice(payload).map_err(|_| malformed("it is no array of records"))?;
    let mut base = Base::default();
    let too_long = malformed("a name is longer than a path can be");
    records.into_iter().map(|record| base.resolve(written(record)?).ok_or(too_long)).collect()
}

fn written(record: JsonRecord) -> Result<Written<'static>, Malformed> {
    let JsonRecord { bn, bv, n, v, vs, vb, vd, vlo } = record;
    let value = if let Some(number) = v {
        Some(match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Given::Integer(number),
            (None, Some(number)) => Given::Float(number),
            (None, None) => return Err(malformed("a number is beyond what a float holds")),
        })
    } else if let Some(text) = vs {
        Some(Given::Text(text.into()))
    } else if let Some(is_true) = vb {
        Some(Given::Boolean(is_true))
    } else if let Some(text) = vd {
        let text = text.trim_end_matches('=');
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed("`vd` is no Base64 for URLs"))?;
        Some(Given::Bytes(bytes.into()))
    } else if let Some(text) = vlo {
        Some(link(&text).ok_or(malformed("`vlo` is no object and instance"))?)
    } else {
        None
    };
    Ok(Written { base_name: bn.map(Into::into), name: n.map(Into::into), value, base_value: bv })
}

/// Object and instance as text.
pub(super) fn link(text: &str) -> Option<Given<'static>> {
    let (object, instance) = text.split_once(':')?;
    Some(Given::ObjectLink(object.parse().ok()?, instance.parse().ok()?))
}

fn malformed(what: &'static str) -> Malformed {
    Malformed { format: "SenML in JSON", what }
}

/// Appends a pack about a path. A number that JSON has not, as infinity, is left out.
pub fn write(base: Path, entries: &[(Path, Value<'_>)], out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, (path, value)) in entries.iter().enumerate() {
        let (base_name, name) = names(base, *path);
        let is_first = at == 0;
        out.extend_from_slice(if is_first { b"{\"bn\":\"" } else { b",{" });
        if is_first {
            out.extend_from_slice(base_name.as_str().as_bytes());
            out.push(b'"');
        }
        if !name.as_str().is_empty() {
            out.extend_from_slice(if is_first { b",\"n\":\"" } else { b"\"n\":\"" });
            out.extend_from_slice(name.as_str().as_bytes());
            out.push(b'"');
        }
        write_value(*value, out);
        out.push(b'}');
    }
    out.push(b']');
}

fn write_value(value: Value<'_>, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = match value {
        Value::Integer(number) | Value::Time(number) => write!(out, ",\"v\":{number}"),
        Value::Float(number) if number.is_finite() => {
            out.extend_from_slice(b",\"v\":");
            serde_json::to_writer(&mut *out, &number).map_err(Into::into)
        }
        Value::Float(_) => Ok(()),
        Value::Boolean(is_true) => write!(out, ",\"vb\":{is_true}"),
        Value::String(text) => {
            out.extend_from_slice(b",\"vs\":");
            serde_json::to_writer(&mut *out, text).map_err(Into::into)
        }
        Value::Opaque(bytes) => write!(out, ",\"vd\":\"{}\"", Base64Display::new(bytes, &URL_SAFE_NO_PAD)),
        Value::ObjectLink(object, instance) => write!(out, ",\"vlo\":\"{object}:{instance}\""),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_reads_well_and_is_read() {
        let path = |id| Path::resource(3303, 0, id);
        let entries = [(path(5700), Value::Float(21.5)), (path(5701), Value::String("C\"el\""))];
        let mut out = Vec::new();
        write(path(0).up_to(2), &entries, &mut out);
        let expected = r#"[{"bn":"/3303/0/","n":"5700","v":21.5},{"n":"5701","vs":"C\"el\""}]"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let read = read(expected.as_bytes()).unwrap();
        assert_eq!(read[1].value, Some(Given::Text("C\"el\"".into())));
    }

    #[test]
    fn a_record_without_a_value_names_something() {
        let records = read(br#"[{"n":"/3/0/9"},{"bn":"/3303/","n":"0/5700"}]"#).unwrap();
        assert_eq!(records[0], Record { name: "/3/0/9".to_owned(), value: None });
        assert_eq!(records[1].path(), Some(Path::resource(3303, 0, 5700)));
    }

    #[test]
    fn what_is_no_pack_is_malformed() {
        for wrong in [
            &b""[..],
            b"{}",
            b"[1]",
            br#"[{"n":1}]"#,
            br#"[{"vd":"!"}]"#,
            br#"[{"vlo":"1"}]"#,
            br#"[{"vb":1}]"#,
            b"[[[[[[[[[[[[[[[[",
        ] {
            assert!(read(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }
}
