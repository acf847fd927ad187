//! Which documents a command means: `{ _id: 7, "attrs.speed": { $exists: true } }`.

use super::{Refusal, key};
use plimsoll_codec::mongodb::bson::{Document, Value};
use std::collections::BTreeSet;

/// Conditions that a document must meet, all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter(Vec<(String, Condition)>);

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    /// One of these, each by its [`key`] and in that order; a document without the field is as one whose field is null.
    OneOf(Vec<Vec<u8>>),
    /// None of these.
    NoneOf(Vec<Vec<u8>>),
    /// The field is there, or is not.
    Exists(bool),
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// It has an operator that this target does not know.
    pub fn read(written: &Document) -> Result<Filter, Refusal> {
        let mut conditions = Vec::new();
        for (path, value) in &written.0 {
            if path.starts_with('$') {
                return Err(unknown(path));
            }
            match value {
                Value::Document(operators) if is_operators(operators) => {
                    for (operator, operand) in &operators.0 {
                        conditions.push((path.clone(), condition(operator, operand)?));
                    }
                }
                Value::Regex(..) => return Err(unknown("$regex")),
                value => conditions.push((path.clone(), Condition::OneOf(vec![key(value)]))),
            }
        }
        Ok(Filter(conditions))
    }

    /// Whether a document is meant.
    pub fn takes(&self, document: &Document) -> bool {
        self.0.iter().all(|(path, condition)| {
            let found = at(document, path);
            let is_one_of =
                |keys: &[Vec<u8>]| keys.binary_search(&key(found.unwrap_or(&Value::Null))).is_ok();
            match condition {
                Condition::OneOf(keys) => is_one_of(keys),
                Condition::NoneOf(keys) => !is_one_of(keys),
                Condition::Exists(exists) => found.is_some() == *exists,
            }
        })
    }

    /// The keys of the only documents that it can mean; `None` where their ids say nothing.
    pub fn ids(&self) -> Option<&[Vec<u8>]> {
        self.0.iter().find_map(|(path, condition)| match condition {
            Condition::OneOf(keys) if path == "_id" => Some(keys.as_slice()),
            _ => None,
        })
    }
}

/// The fields that a document has because of a filter that it was made for: those which must be equal to something.
pub fn equalities(written: &Document) -> impl Iterator<Item = (&str, &Value)> {
    written.0.iter().filter_map(|(path, value)| match value {
        Value::Document(operators) if is_operators(operators) => {
            operators.get("$eq").map(|value| (path.as_str(), value))
        }
        value => Some((path.as_str(), value)),
    })
}

/// The value at a path such as `a.b`.
pub fn at<'a>(document: &'a Document, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        None => document.get(path),
        Some((first, rest)) => match document.get(first)? {
            Value::Document(inner) => at(inner, rest),
            Value::Array(list) => list.get(rest.parse::<usize>().ok()?),
            _ => None,
        },
    }
}

fn is_operators(document: &Document) -> bool {
    document.0.first().is_some_and(|(key, _)| key.starts_with('$'))
}

fn condition(operator: &str, operand: &Value) -> Result<Condition, Refusal> {
    let list = || match operand {
        // In order, and one that is named twice is found once.
        Value::Array(list) => Ok(list.iter().map(key).collect::<BTreeSet<_>>().into_iter().collect()),
        _ => Err(Refusal::bad(format!("{operator} needs an array"))),
    };
    match operator {
        "$eq" => Ok(Condition::OneOf(vec![key(operand)])),
        "$ne" => Ok(Condition::NoneOf(vec![key(operand)])),
        "$in" => list().map(Condition::OneOf),
        "$nin" => list().map(Condition::NoneOf),
        "$exists" => Ok(Condition::Exists(operand.is_true())),
        unknown => Err(self::unknown(unknown)),
    }
}

fn unknown(operator: &str) -> Refusal {
    Refusal::bad(format!(
        "this target does not know the operator {operator}; it knows $eq, $ne, $in, $nin and $exists"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let inner = Document::default().with("b", "x").with("c", Value::Null);
        Document::default().with("_id", 7).with("a", inner).with("list", vec![Value::Int32(4)])
    }

    fn takes(filter: Document) -> bool {
        Filter::read(&filter).unwrap().takes(&document())
    }

    #[test]
    fn a_filter_takes_what_meets_all_of_its_conditions() {
        let one = |path: &str, value: Value| Document::default().with(path, value);
        let by = |path: &str, operator: &str, value: Value| one(path, one(operator, value).into());
        assert!(takes(Document::default()));
        assert!(takes(one("_id", 7i64.into())) && takes(one("_id", 7.0.into())), "numbers of whichever type");
        assert!(takes(one("a.b", "x".into())) && !takes(one("a.b", "y".into())));
        assert!(takes(one("list.0", 4.into())));
        assert!(takes(one("none", Value::Null)), "what is not there is null");
        assert!(takes(by("a.c", "$exists", true.into())) && !takes(by("a.d", "$exists", true.into())));
        assert!(takes(by("_id", "$in", Value::Array(vec![1.into(), 7.into()]))));
        assert!(takes(by("_id", "$nin", Value::Array(vec![1.into()]))) && !takes(by("_id", "$ne", 7.into())));
        assert!(!takes(one("_id", 7.into()).with("a.b", "y")));
        assert!(Filter::read(&by("_id", "$gt", 1.into())).is_err());
        assert!(Filter::read(&one("$or", Value::Array(Vec::new()))).is_err());
    }

    #[test]
    fn ids_are_known_where_they_must_be_equal_to_something() {
        let of = |filter: Document| Filter::read(&filter).unwrap().ids().map(<[_]>::len);
        assert_eq!(of(Document::default().with("_id", 1)), Some(1));
        assert_eq!(of(Document::default().with("a", 1)), None);
        let several = Document::default().with("$in", vec![Value::Int32(1), Value::Int32(2)]);
        assert_eq!(of(Document::default().with("_id", several)), Some(2));
        let twice = Document::default().with("$in", vec![Value::Int32(1), Value::Int64(1)]);
        assert_eq!(of(Document::default().with("_id", twice)), Some(1));
    }
}
