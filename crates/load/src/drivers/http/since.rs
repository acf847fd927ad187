//! Where an answer to a poll ended, so that the next one goes on there.

use plimsoll_scenario::plan::NextPollPlan;
use serde_json::Value;

/// Longest value that is taken; a longer one would be in every request.
const LONGEST_SINCE: usize = 1024;

/// Where an answer ended, by what it says.
pub fn since(next: &NextPollPlan, body: &[u8]) -> Option<String> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let mut value = &json;
    for part in next.since.split('/').skip(1) {
        value = match (value, part) {
            (Value::Array(array), "-") => array.last()?,
            (value, "-") => value,
            (Value::Array(array), part) => array.get(part.parse::<usize>().ok()?)?,
            (Value::Object(object), part) => object.get(&part.replace("~1", "/").replace("~0", "~"))?,
            _ => return None,
        };
    }
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| text.len() <= LONGEST_SINCE),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::plan::Template;

    #[test]
    fn an_answer_ends_where_its_pointer_says() {
        let at = |pointer: &str, body: &str| {
            let next = NextPollPlan { path: Template { pieces: Vec::new() }, since: pointer.to_owned() };
            since(&next, body.as_bytes())
        };
        let list = r#"[{"id":7,"a/b":"x"},{"id":8,"a/b":"2026-11-28T12:00:00+01:00"}]"#;
        assert_eq!(at("/-/id", list).as_deref(), Some("8"));
        assert_eq!(at("/0/a~1b", list).as_deref(), Some("x"));
        assert_eq!(at("/-/id", r#"{"id":9}"#).as_deref(), Some("9"), "one that stands alone is the last");
        for (pointer, body) in
            [("/-/id", "[]"), ("/id", list), ("/9/id", list), ("/-/id", "no JSON"), ("/0", list)]
        {
            assert_eq!(at(pointer, body), None, "{pointer} {body}");
        }
    }
}
