//! SenML (RFC 8428) as LwM2M has it (1.1 core, sections 7.4.4 and 7.4.5): records of a name and a value, in JSON or in CBOR.

pub mod cbor;
pub mod json;

use super::path::DEEPEST;
use super::{Given, MOST_ENTRIES, Malformed, Path, Value};
use std::borrow::Cow;
use std::fmt::{self, Write};

/// A record as it was read, its base resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<'a> {
    /// Base name and name together.
    pub name: String,
    /// What it has; `None` of one that only names something, as in a composite request.
    pub value: Option<Given<'a>>,
}

/// A record as it stands in a pack.
#[derive(Debug, Default)]
struct Written<'a> {
    base_name: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
    value: Option<Given<'a>>,
    /// Added to each number that follows.
    base_value: Option<f64>,
}

/// What earlier records of a pack say for later ones (RFC 8428 section 4.6).
#[derive(Debug, Default)]
struct Base {
    name: String,
    value: f64,
}

impl Base {
    /// `None` where a name is longer than a path can be: each record has it whole.
    fn resolve<'a>(&mut self, written: Written<'a>) -> Option<Record<'a>> {
        if let Some(name) = written.base_name {
            self.name = name.into_owned();
        }
        let name = written.name.unwrap_or_default();
        if self.name.len() + name.len() > LONGEST_NAME {
            return None;
        }
        self.value = written.base_value.unwrap_or(self.value);
        let value = written.value.map(|value| match value {
            Given::Float(number) => Given::Float(number + self.value),
            Given::Integer(number) if self.value != 0.0 => Given::Float(number as f64 + self.value),
            other => other,
        });
        Some(Record { name: self.name.clone() + &name, value })
    }
}

impl Record<'_> {
    /// The path that it names; `None` where it names none.
    pub fn path(&self) -> Option<Path> {
        Path::parse(&self.name)
    }
}

/// A name of a pack, on the stack: it is written with each notification.
#[derive(Clone, Copy, Debug, Default)]
struct Name {
    bytes: [u8; LONGEST_NAME],
    length: usize,
}

/// A slash and five digits for each number of a path, and a slash behind them.
const LONGEST_NAME: usize = 6 * DEEPEST + 1;

impl Name {
    fn as_str(&self) -> &str {
        std::str::from_utf8(self.bytes.get(..self.length).unwrap_or_default()).unwrap_or_default()
    }
}

impl fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// The base name of a pack about that path, and the name of an entry behind it.
fn names(base: Path, entry: Path) -> (Name, Name) {
    let (mut base_name, mut name) = (Name::default(), Name::default());
    let behind = entry.ids().get(base.depth()..).unwrap_or_default();
    let separator = if behind.is_empty() || base == Path::ROOT { "" } else { "/" };
    // There is room for every path.
    let _ = write!(base_name, "{base}{separator}");
    for (at, id) in behind.iter().enumerate() {
        let _ = if at == 0 { write!(name, "{id}") } else { write!(name, "/{id}") };
    }
    (base_name, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lwm2m::Kind;
    use proptest::prelude::*;

    /// Every value that there is, under one instance.
    fn all(text: &str, integer: i64, float: f64) -> Vec<(Path, Value<'_>)> {
        let values = [
            Value::Integer(integer),
            Value::Time(integer),
            Value::Float(float),
            Value::Boolean(integer > 0),
            Value::String(text),
            Value::Opaque(text.as_bytes()),
            Value::ObjectLink(3, 65534),
        ];
        (0..).zip(values).map(|(id, value)| (Path::resource(7, 0, id), value)).collect()
    }

    fn is_the_same(records: &[Record<'_>], entries: &[(Path, Value<'_>)]) -> bool {
        let read = |(record, (path, value)): (&Record<'_>, &(Path, Value<'_>))| {
            let given = record.value.as_ref().and_then(|given| given.as_kind(value.kind()));
            record.path() == Some(*path) && given == Some(*value)
        };
        records.len() == entries.len() && records.iter().zip(entries).all(read)
    }

    #[test]
    fn a_base_holds_for_what_follows() {
        let mut base = Base::default();
        let of = |base_name: Option<&'static str>, name: &'static str, value| Written {
            base_name: base_name.map(Cow::from),
            name: Some(name.into()),
            value: Some(value),
            base_value: None,
        };
        let first = base.resolve(of(Some("/3/0/"), "1", Given::Integer(5))).unwrap();
        let second =
            base.resolve(Written { base_value: Some(20.0), ..of(None, "9", Given::Integer(5)) }).unwrap();
        let long = of(Some("/65534/65534/65534/65534/65534/"), "", Given::Integer(5));
        assert_eq!(base.resolve(long), None);
        assert_eq!((first.path(), first.value), (Some(Path::resource(3, 0, 1)), Some(Given::Integer(5))));
        assert_eq!((second.path(), second.value), (Some(Path::resource(3, 0, 9)), Some(Given::Float(25.0))));
    }

    #[test]
    fn a_value_alone_needs_no_name_behind_its_base() {
        let path = Path::resource(3303, 0, 5700);
        let of = |base: Path, entry: Path| {
            let (base, name) = names(base, entry);
            (base.as_str().to_owned(), name.as_str().to_owned())
        };
        let expected = |base: &str, name: &str| (base.to_owned(), name.to_owned());
        assert_eq!(of(path, path), expected("/3303/0/5700", ""));
        assert_eq!(of(path.up_to(2), path), expected("/3303/0/", "5700"));
        assert_eq!(of(Path::ROOT, path), expected("/", "3303/0/5700"));
        let longest = Path::new(&[65534; 4]).unwrap();
        assert_eq!(of(longest.up_to(3), longest), expected("/65534/65534/65534/", "65534"));
        assert_eq!(of(longest, longest).0, longest.to_string());
    }

    proptest! {
        #[test]
        fn values_survive_in_both_forms(
            text: String,
            integer in -(1_i64 << 62)..1 << 62,
            thousandths in -1_000_000_000_i64..1_000_000_000
        ) {
            // Of more digits than sensors have, JSON's reader may miss the last bit.
            let float = thousandths as f64 / 1000.0;
            let entries = all(&text, integer, float);
            let base = Path::new(&[7, 0]).unwrap();
            let (mut in_json, mut in_cbor) = (Vec::new(), Vec::new());
            json::write(base, &entries, &mut in_json);
            cbor::write(base, &entries, &mut in_cbor);
            prop_assert!(is_the_same(&json::read(&in_json).unwrap(), &entries), "{}", String::from_utf8_lossy(&in_json));
            prop_assert!(is_the_same(&cbor::read(&in_cbor).unwrap(), &entries), "{in_cbor:x?}");
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            for record in [json::read(&bytes), cbor::read(&bytes)].into_iter().flatten().flatten() {
                let _ = (record.path(), record.value.map(|value| value.as_kind(Kind::Float).is_some()));
            }
        }
    }
}
