//! What an update does to a document: operators such as `$set`, or a new document in its place.

use super::filter::at;
use super::{Refusal, key};
use plimsoll_codec::mongodb::bson::{Document, Value};

/// Deepest path that is written.
const DEEPEST: usize = 100;

/// Does it. `is_new`: the document is made for it.
///
/// # Errors
/// An operator or a path that this target does not know.
pub fn apply(document: &mut Document, update: &Document, is_new: bool) -> Result<(), Refusal> {
    let is_operators = update.0.first().is_some_and(|(key, _)| key.starts_with('$'));
    if !is_operators {
        let id = document.take("_id").or_else(|| update.get("_id").cloned());
        *document = update.clone();
        if let Some(id) = id {
            document.take("_id");
            document.0.insert(0, ("_id".to_owned(), id));
        }
        return Ok(());
    }
    let id = document.get("_id").map(key);
    for (operator, fields) in &update.0 {
        let Value::Document(fields) = fields else {
            return Err(Refusal::bad(format!("{operator} needs a document")));
        };
        for (path, value) in &fields.0 {
            match operator.as_str() {
                "$set" => set(document, path, value.clone())?,
                "$setOnInsert" if is_new => set(document, path, value.clone())?,
                "$setOnInsert" => {}
                "$unset" => unset(document, path),
                "$inc" => {
                    let sum = sum(at(document, path), value)?;
                    set(document, path, sum)?;
                }
                unknown => {
                    return Err(Refusal::bad(format!(
                        "this target does not know the operator {unknown}; it knows $set, $setOnInsert, $unset and $inc"
                    )));
                }
            }
        }
    }
    // Whichever operator it was: the document would not be found under its key again.
    if id.is_some() && document.get("_id").map(key) != id {
        return Err(Refusal::bad("the field _id cannot be changed"));
    }
    Ok(())
}

/// Sets the value at a path such as `a.b`, whose documents are made where they are missing.
pub fn set(document: &mut Document, path: &str, value: Value) -> Result<(), Refusal> {
    match path.split('.').count() <= DEEPEST {
        true => place(document, path, value),
        false => Err(Refusal::bad(format!("a path has at most {DEEPEST} parts"))),
    }
}

fn place(document: &mut Document, path: &str, value: Value) -> Result<(), Refusal> {
    let Some((first, rest)) = path.split_once('.') else {
        document.set(path, value);
        return Ok(());
    };
    match document.0.iter_mut().find(|(key, _)| key == first) {
        Some((_, Value::Document(inner))) => place(inner, rest, value),
        Some(_) => Err(Refusal::bad(format!("cannot create a field in `{first}`, which is no document"))),
        None => {
            let mut inner = Document::default();
            place(&mut inner, rest, value)?;
            document.set(first, inner.into());
            Ok(())
        }
    }
}

fn unset(document: &mut Document, path: &str) {
    match path.split_once('.') {
        None => drop(document.take(path)),
        Some((first, rest)) => {
            let inner = document.0.iter_mut().find(|(key, _)| key == first);
            if let Some((_, Value::Document(inner))) = inner {
                unset(inner, rest);
            }
        }
    }
}

fn sum(known: Option<&Value>, more: &Value) -> Result<Value, Refusal> {
    let number = |value: &Value| match *value {
        Value::Int32(number) => Some(f64::from(number)),
        Value::Int64(number) => Some(number as f64),
        Value::Double(number) => Some(number),
        _ => None,
    };
    let whole = |value: &Value| match *value {
        Value::Int32(number) => Some(i64::from(number)),
        Value::Int64(number) => Some(number),
        _ => None,
    };
    let nothing = Value::Int32(0);
    let known = known.unwrap_or(&nothing);
    if let (Some(one), Some(other)) = (whole(known), whole(more)) {
        let are_short = matches!((known, more), (Value::Int32(_), Value::Int32(_)));
        let sum = one.checked_add(other).ok_or_else(|| Refusal::bad("a sum beyond 64 bits"))?;
        let short = i32::try_from(sum).ok().filter(|_| are_short);
        return Ok(short.map_or(Value::Int64(sum), Value::Int32));
    }
    match (number(known), number(more)) {
        (Some(one), Some(other)) => Ok(Value::Double(one + other)),
        _ => Err(Refusal::bad("$inc needs numbers")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(update: Document, is_new: bool) -> Result<Document, Refusal> {
        let mut document =
            Document::default().with("_id", 1).with("a", Document::default().with("b", 2)).with("n", 4);
        apply(&mut document, &update, is_new).map(|()| document)
    }

    fn by(operator: &str, path: &str, value: impl Into<Value>) -> Document {
        Document::default().with(operator, Document::default().with(path, value))
    }

    #[test]
    fn operators_change_fields_and_leave_the_others() {
        let set = after(by("$set", "a.c.d", "x"), false).unwrap();
        assert_eq!(at(&set, "a.c.d"), Some(&"x".into()));
        assert_eq!(at(&set, "a.b"), Some(&2.into()));
        let unset = after(by("$unset", "a.b", ""), false).unwrap();
        assert_eq!(at(&unset, "a.b"), None);
        assert_eq!(after(by("$inc", "n", 3), false).unwrap().get("n"), Some(&7.into()));
        assert_eq!(after(by("$inc", "m", 0.5), false).unwrap().get("m"), Some(&0.5.into()));
        assert_eq!(after(by("$setOnInsert", "n", 9), false).unwrap().get("n"), Some(&4.into()));
        assert_eq!(after(by("$setOnInsert", "n", 9), true).unwrap().get("n"), Some(&9.into()));
    }

    #[test]
    fn a_document_in_its_place_keeps_the_id() {
        let replaced = after(Document::default().with("z", 1), false).unwrap();
        assert_eq!(replaced, Document::default().with("_id", 1).with("z", 1));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for update in [by("$push", "a", 1), by("$set", "n.x", 1), by("$inc", "a", 1)] {
            assert!(after(update.clone(), false).is_err(), "{update:?}");
        }
        for (operator, path) in [("$set", "_id"), ("$set", "_id.x"), ("$inc", "_id"), ("$unset", "_id")] {
            assert!(after(by(operator, path, 2), false).is_err(), "{operator} {path}");
            assert!(after(by(operator, path, 2), true).is_err(), "{operator} {path}");
        }
        assert!(after(by("$set", "_id", 1), false).is_ok(), "it is so already");
        let deep = vec!["a"; 10_000].join(".");
        assert!(after(by("$set", &format!("x.{deep}"), 1), false).is_err());
        assert!(after(by("$unset", &format!("x.{deep}"), 1), false).is_ok());
    }
}
