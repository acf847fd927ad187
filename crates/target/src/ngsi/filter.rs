//! The simple query language of `q`: terms with `;` between them, all of which must hold (NGSIv2 specification,
//! "Simple Query Language").

use super::attribute::Attributes;
use super::refusal::Refusal;
use serde_json::Value;
use std::cmp::Ordering;

/// Most terms of a filter.
const MOST_TERMS: usize = 32;

/// What an entity's attributes must be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    /// The attribute, then the members of its value.
    path: Vec<String>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Exists,
    Absent,
    Compares(Comparison, Operand),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    Unequal,
    Below,
    Above,
    AtMost,
    AtLeast,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Number(f64),
    Bool(bool),
    Text(String),
}

impl Filter {
    /// Reads an expression such as `speed>10;road.name==A1;!broken`.
    ///
    /// # Errors
    /// It is none.
    pub fn read(text: &str) -> Result<Filter, Refusal> {
        let terms: Vec<Term> = text.split(';').map(term).collect::<Result<_, _>>()?;
        match terms.len() <= MOST_TERMS {
            true => Ok(Filter { terms }),
            false => Err(Refusal::bad(format!("q has at most {MOST_TERMS} terms"))),
        }
    }

    /// Whether all terms hold. A comparison with what is not there, or is of another type, does not.
    pub fn holds(&self, attributes: &Attributes) -> bool {
        self.terms.iter().all(|term| term.holds(attributes))
    }
}

impl Term {
    fn holds(&self, attributes: &Attributes) -> bool {
        let (name, members) = self.path.split_first().unzip();
        let attribute = name.and_then(|name| attributes.get(name));
        let mut value = attribute.map(|attribute| &attribute.value);
        for member in members.unwrap_or_default() {
            value = value.and_then(|value| value.get(member));
        }
        match (&self.test, value) {
            (Test::Exists, found) => found.is_some(),
            (Test::Absent, found) => found.is_none(),
            (Test::Compares(..), None) => false,
            (Test::Compares(Comparison::Unequal, operand), Some(value)) => {
                compare(value, operand) != Some(Ordering::Equal)
            }
            (Test::Compares(comparison, operand), Some(value)) => {
                compare(value, operand).is_some_and(|order| match comparison {
                    Comparison::Equal => order.is_eq(),
                    Comparison::Unequal => order.is_ne(),
                    Comparison::Below => order.is_lt(),
                    Comparison::Above => order.is_gt(),
                    Comparison::AtMost => order.is_le(),
                    Comparison::AtLeast => order.is_ge(),
                })
            }
        }
    }
}

fn compare(value: &Value, operand: &Operand) -> Option<Ordering> {
    match (value, operand) {
        (Value::Number(number), Operand::Number(operand)) => number.as_f64()?.partial_cmp(operand),
        (Value::String(text), Operand::Text(operand)) => Some(text.as_str().cmp(operand)),
        (Value::Bool(value), Operand::Bool(operand)) => Some(value.cmp(operand)),
        _ => None,
    }
}

fn term(text: &str) -> Result<Term, Refusal> {
    let wrong = || Refusal::bad(format!("`{text}` is no term of q, such as speed>10"));
    let is_sign = |c: char| "=!<>".contains(c);
    // An exclamation mark at the beginning is no comparison.
    let begin = text.char_indices().find(|&(at, c)| is_sign(c) && at > 0).map(|(at, _)| at);
    let Some((path, rest)) = begin.and_then(|at| text.split_at_checked(at)) else {
        let (test, path) = text.strip_prefix('!').map_or((Test::Exists, text), |path| (Test::Absent, path));
        return Ok(Term { path: members(path).ok_or_else(wrong)?, test });
    };
    let (sign, operand) = rest.split_at(rest.find(|c| !is_sign(c)).unwrap_or(rest.len()));
    let comparison = match sign {
        "==" => Comparison::Equal,
        "!=" => Comparison::Unequal,
        "<" => Comparison::Below,
        ">" => Comparison::Above,
        "<=" => Comparison::AtMost,
        ">=" => Comparison::AtLeast,
        _ => return Err(wrong()),
    };
    let quoted = operand.strip_prefix('\'').and_then(|operand| operand.strip_suffix('\''));
    let operand = match (quoted, operand) {
        (Some(text), _) => Operand::Text(text.to_owned()),
        (None, "") => return Err(wrong()),
        (None, "true") => Operand::Bool(true),
        (None, "false") => Operand::Bool(false),
        (None, text) => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Operand::Number(number),
            _ => Operand::Text(text.to_owned()),
        },
    };
    Ok(Term { path: members(path).ok_or_else(wrong)?, test: Test::Compares(comparison, operand) })
}

fn members(path: &str) -> Option<Vec<String>> {
    let members: Vec<String> = path.split('.').map(str::to_owned).collect();
    let is_sound = |member: &String| !member.is_empty() && !member.contains(|c| "=!<>'".contains(c));
    members.iter().all(is_sound).then_some(members)
}

#[cfg(test)]
mod tests {
    use super::super::attribute::Attribute;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn attributes() -> Attributes {
        let values = [("speed", json!(12.5)), ("name", json!("A1")), ("m", json!({ "deep": { "x": true } }))];
        values.map(|(name, value)| (name.to_owned(), Attribute::of(value).unwrap())).into()
    }

    #[test]
    fn terms_hold_as_written() {
        for (text, expected) in [
            ("speed>10", true),
            ("speed>12.5", false),
            ("speed>=12.5;speed<=12.5", true),
            ("speed<10", false),
            ("speed==12.5;name==A1", true),
            ("name!='A1'", false),
            ("name=='12'", false),
            ("speed==A1", false),
            ("speed!=A1", true),
            ("m.deep.x==true", true),
            ("m.deep", true),
            ("!m.deep.y;!other", true),
            ("other>1", false),
            ("other!=1", false),
        ] {
            assert_eq!(Filter::read(text).unwrap().holds(&attributes()), expected, "{text}");
        }
        for wrong in ["", "speed=1", "speed>", ">1", "a..b>1", "speed=>1", "a;;b", "!", "a!b"] {
            assert!(Filter::read(wrong).is_err(), "{wrong}");
        }
        assert!(Filter::read(&"a;".repeat(40)).is_err());
    }

    proptest! {
        #[test]
        fn no_expression_panics(text in "[a-c.!=<>';1 ä]{0,12}") {
            if let Ok(filter) = Filter::read(&text) {
                filter.holds(&attributes());
            }
        }
    }
}
