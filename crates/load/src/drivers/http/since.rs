//! Where an answer to a poll ended, so that the next one goes on there.

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use plimsoll_codec::hiding::cut;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::NextPollPlan;
use serde_json::Value;
use std::str::FromStr;

/// Longest value that is taken; a longer one would be in every request.
const LONGEST_SINCE: usize = 1024;
/// Characters of such a value that are shown.
const LONGEST_SHOWN: usize = 40;

/// Where an answer ended, by what it says, and by where the `last` one ended; `None` where it does not say so. What has no order goes never
/// back.
///
/// # Errors
/// What stands there cannot be put off by `plus`: why, for people.
pub fn since(next: &NextPollPlan, last: &str, body: &[u8]) -> Result<Option<String>, String> {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let Some(found) = json.and_then(|json| at(&json, next.since.split('/').skip(1))) else { return Ok(None) };
    let Some(later) = plus(&found, next.plus) else {
        let found = cut(&found, LONGEST_SHOWN);
        return Err(format!(
            "`{found}` at `{}` is no date and time, to which `plus` could be added",
            next.since
        ));
    };
    let has_no_order = next.since.split('/').any(|part| part == "*");
    Ok(Some(if has_no_order && !last.is_empty() { greater(last.to_owned(), later) } else { later }))
}

/// What stands there.
fn at<'a>(value: &Value, mut parts: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    match (value, parts.next()) {
        (Value::String(text), None) => Some(text.clone()).filter(|text| text.len() <= LONGEST_SINCE),
        (Value::Number(number), None) => Some(number.to_string()),
        (_, None) => None,
        (Value::Array(array), Some("-")) => at(array.last()?, parts),
        (Value::Array(array), Some("*")) => {
            array.iter().filter_map(|each| at(each, parts.clone())).reduce(greater)
        }
        (value, Some("-" | "*")) => at(value, parts),
        (Value::Array(array), Some(part)) => at(array.get(part.parse::<usize>().ok()?)?, parts),
        (Value::Object(object), Some(part)) => {
            at(object.get(&part.replace("~1", "/").replace("~0", "~"))?, parts)
        }
        _ => None,
    }
}

/// The greater of two numbers, the later of two times, or the last of two texts.
fn greater(one: String, other: String) -> String {
    fn of<T: FromStr + PartialOrd>(one: &str, other: &str) -> Option<bool> {
        Some(one.parse::<T>().ok()? < other.parse::<T>().ok()?)
    }
    let (a, b) = (one.as_str(), other.as_str());
    // Numbers of 64 bits are not exact as floating ones, and a time may leave out a fraction that is zero.
    let numbers = of::<i128>(a, b).or_else(|| of::<f64>(a, b));
    let is_less = numbers.or_else(|| of::<Timestamp>(a, b)).or_else(|| of::<DateTime>(a, b)).unwrap_or(a < b);
    if is_less { other } else { one }
}

/// A date and time so much later, with the digits that both have.
fn plus(text: &str, plus: Nanos) -> Option<String> {
    if plus == Nanos::ZERO {
        return Some(text.to_owned());
    }
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let given = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let needed = (0..9).find(|digits| plus.0 % 10_i64.pow(9 - digits) == 0).unwrap_or(9);
    let (digits, by) = (given.clamp(needed as usize, 9), SignedDuration::from_nanos(plus.0));
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(format!("{:.digits$}", time.checked_add(by).ok()?));
    }
    Some(format!("{:.digits$}", text.parse::<DateTime>().ok()?.checked_add(by).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_scenario::plan::Template;

    fn next(pointer: &str, plus: Nanos) -> NextPollPlan {
        NextPollPlan { path: Template { pieces: Vec::new() }, since: pointer.to_owned(), plus }
    }

    #[test]
    fn what_has_no_order_ends_at_the_greatest_and_never_goes_back() {
        let at = |pointer: &str, last: &str, body: &str| {
            since(&next(pointer, Nanos::ZERO), last, body.as_bytes()).unwrap()
        };
        let list = r#"[{"id":8,"at":"12:00:01"},{"id":10,"at":"12:00:03"},{"id":9,"at":"12:00:02"},{}]"#;
        assert_eq!(at("/*/at", "", list).as_deref(), Some("12:00:03"));
        assert_eq!(at("/*/id", "", list).as_deref(), Some("10"), "as numbers");
        assert_eq!(at("/*/id", "11", list).as_deref(), Some("11"));
        assert_eq!(at("/*/at", "12:00:04", r#"{"at":"12:00:02"}"#).as_deref(), Some("12:00:04"));
        assert_eq!(at("/*/at", "12:00:04", "[]"), None);
        assert_eq!(at("/2/id", "11", list).as_deref(), Some("9"), "the platform's order counts");
        let large = r#"[{"id":1795918110689011222},{"id":1795918110689011223}]"#;
        assert_eq!(at("/*/id", "", large).as_deref(), Some("1795918110689011223"), "above 2^53");
        for (earlier, later) in [
            ("2026-11-29T02:01:46Z", "2026-11-29T02:01:46.5Z"),
            ("2026-11-29T02:01:46", "2026-11-29T02:01:46.5"),
            ("2026-11-29T02:01:46.5+01:00", "2026-11-29T02:01:46Z"),
        ] {
            let list = format!(r#"[{{"at":"{later}"}},{{"at":"{earlier}"}}]"#);
            assert_eq!(at("/*/at", earlier, &list).as_deref(), Some(later));
        }
    }

    #[test]
    fn a_platform_that_repeats_what_came_then_is_asked_for_what_came_later() {
        let later = |plus: Nanos, text: &str| {
            since(&next("/*/at", plus), "", format!(r#"[{{"at":"{text}"}}]"#).as_bytes()).ok().flatten()
        };
        for (time, expected) in [
            ("2026-11-29T02:01:46.403", "2026-11-29T02:01:46.404"),
            ("2026-12-31T23:59:59.999", "2027-01-01T00:00:00.000"),
            ("2026-11-29T02:01:46", "2026-11-29T02:01:46.001"),
            ("2026-11-29T02:01:46.403Z", "2026-11-29T02:01:46.404Z"),
            ("2026-11-29T02:01:46.403217+01:00", "2026-11-29T01:01:46.404217Z"),
        ] {
            assert_eq!(later(Nanos::from_millis(1), time).as_deref(), Some(expected), "{time}");
        }
        assert_eq!(later(Nanos::from_secs(1), "2026-11-29T02:01:59").as_deref(), Some("2026-11-29T02:02:00"));
        assert_eq!(later(Nanos::from_millis(1), "soon"), None);
        let number = since(&next("/id", Nanos::from_millis(1)), "", br#"{"id":7}"#).unwrap_err();
        assert_eq!(number, "`7` at `/id` is no date and time, to which `plus` could be added");
    }

    #[test]
    fn an_answer_ends_where_its_pointer_says() {
        let at = |pointer: &str, body: &str| since(&next(pointer, Nanos::ZERO), "", body.as_bytes()).unwrap();
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
