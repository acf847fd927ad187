//! The text in which exporters tell metrics (Prometheus exposition format 0.0.4, OpenMetrics 1.0), and selectors of its series.

use regex_lite::Regex;
use std::str::FromStr;

/// Chooses series by their metric's name and their labels, in the words of PromQL: `name{label="value",other!~"pattern"}`.
#[derive(Clone, Debug)]
pub struct Selector {
    name: String,
    matchers: Vec<Matcher>,
}

/// Why a text is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` selects no series: {reason}")]
pub struct SelectorError {
    text: String,
    reason: String,
}

/// What a label must be; one that a series does not have counts as empty.
#[derive(Clone, Debug)]
struct Matcher {
    label: String,
    wanted: Wanted,
    /// Whether the label must differ instead.
    negated: bool,
}

#[derive(Clone, Debug)]
enum Wanted {
    Text(String),
    Pattern(Regex),
}

/// A line of the text: the metric's name, its labels, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The metric's name.
    pub name: &'a str,
    /// Labels with their values, in the order of the text.
    pub labels: Vec<(&'a str, String)>,
    /// The value, which may be no number.
    pub value: f64,
}

impl Selector {
    /// Whether a series is one of those.
    pub fn selects(&self, sample: &Sample<'_>) -> bool {
        self.name == sample.name && self.matchers.iter().all(|matcher| matcher.takes(sample))
    }
}

impl Matcher {
    fn takes(&self, sample: &Sample<'_>) -> bool {
        let value = sample.labels.iter().find(|(name, _)| *name == self.label);
        let value = value.map(|(_, value)| value.as_str()).unwrap_or_default();
        let is_wanted = match &self.wanted {
            Wanted::Text(text) => text == value,
            Wanted::Pattern(pattern) => pattern.is_match(value),
        };
        is_wanted != self.negated
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Selector, SelectorError> {
        let wrong = |reason: &str| SelectorError { text: text.to_owned(), reason: reason.to_owned() };
        let mut cursor = Cursor { rest: text.trim() };
        let name = cursor.name(true).ok_or_else(|| wrong("it begins with the name of a metric"))?.to_owned();
        let mut matchers = Vec::new();
        if cursor.take("{") {
            while !cursor.take("}") {
                let label = cursor.name(false).ok_or_else(|| wrong("a label has a name"))?.to_owned();
                let (operator, negated, is_pattern) = OPERATORS
                    .into_iter()
                    .find(|(operator, ..)| cursor.take(operator))
                    .ok_or_else(|| wrong("after a label stands `=`, `!=`, `=~` or `!~`"))?;
                let value = cursor
                    .quoted()
                    .ok_or_else(|| wrong(&format!("after `{operator}` stands a text in \"\"")))?;
                let wanted = match is_pattern {
                    // PromQL matches the whole value.
                    true => Wanted::Pattern(
                        Regex::new(&format!("^(?s:{value})$"))
                            .map_err(|_| wrong(&format!("\"{value}\" is no regular expression")))?,
                    ),
                    false => Wanted::Text(value),
                };
                matchers.push(Matcher { label, wanted, negated });
                if !cursor.take(",") && !cursor.rest.trim_start().starts_with('}') {
                    return Err(wrong("labels are separated by commas, and end with `}`"));
                }
            }
        }
        match cursor.rest.trim() {
            "" => Ok(Selector { name, matchers }),
            _ => Err(wrong(
                "nothing may stand after the labels; functions need a server that is asked PromQL (`prometheus`)",
            )),
        }
    }
}

/// Each with whether it negates and whether it takes a pattern; longer ones first.
const OPERATORS: [(&str, bool, bool); 4] =
    [("!=", true, false), ("=~", false, true), ("!~", true, true), ("=", false, false)];

/// Reads a text from its begin.
struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The name of a metric, in which colons may stand, or of a label.
    fn name(&mut self, of_metric: bool) -> Option<&'a str> {
        let text = self.rest.trim_start();
        let belongs = |c: char| c.is_ascii_alphanumeric() || c == '_' || (of_metric && c == ':');
        let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at_checked(end)?;
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.rest = rest;
        Some(name)
    }

    /// A text in quotation marks, with its escapes resolved.
    fn quoted(&mut self) -> Option<String> {
        let text = self.rest.trim_start().strip_prefix('"')?;
        let mut value = String::new();
        let mut characters = text.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = text.get(at + 1..)?;
                    return Some(value);
                }
                '\\' => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other if matches!(other, '\\' | '"') => value.push(other),
                    // A pattern has escapes of its own.
                    other => value.extend(['\\', other]),
                },
                other => value.push(other),
            }
        }
        None
    }
}

/// The samples of a text, line by line; lines that are none are left out.
pub fn samples(text: &str) -> impl Iterator<Item = Sample<'_>> {
    text.lines().filter_map(sample)
}

/// Name, labels, value; a timestamp and an exemplar may follow.
fn sample(line: &str) -> Option<Sample<'_>> {
    let mut cursor = Cursor { rest: line };
    let name = cursor.name(true)?;
    let mut labels = Vec::new();
    if cursor.take("{") {
        while !cursor.take("}") {
            let label = cursor.name(false)?;
            if !cursor.take("=") {
                return None;
            }
            labels.push((label, cursor.quoted()?));
            if !cursor.take(",") && !cursor.rest.trim_start().starts_with('}') {
                return None;
            }
        }
    }
    if !cursor.rest.starts_with([' ', '\t']) {
        return None;
    }
    let value = cursor.rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { name, labels, value })
}

/// The sum of the values of the series that each selector chooses; `None` where it chooses none. All of it is `None` where
/// not one line of the text is a sample.
pub fn sums(text: &str, selectors: &[&Selector]) -> Option<Vec<Option<f64>>> {
    let mut sums = vec![None; selectors.len()];
    let mut any = false;
    for sample in samples(text) {
        any = true;
        for (selector, sum) in selectors.iter().zip(&mut sums) {
            if selector.selects(&sample) {
                *sum = Some(sum.unwrap_or(0.0) + sample.value);
            }
        }
    }
    any.then_some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "# HELP queue_length Messages that wait.\n# TYPE queue_length gauge\n\
        queue_length{queue=\"in\",node=\"a\"} 4\nqueue_length{queue=\"in\",node=\"b\"} 3.5 1700000000000\n\
        queue_length{queue=\"out, \\\"later\\\"\",} 2 # {trace_id=\"x\"} 1\nup 1\npauses_seconds_total NaN\n\
        job:busy:rate5m{} +Inf\nthis is no sample\nneither{is=this} 1\n# EOF\n";

    #[track_caller]
    fn sum(selector: &str) -> Option<f64> {
        sums(TEXT, &[&selector.parse().unwrap()]).unwrap()[0]
    }

    #[test]
    fn selectors_choose_series_as_promql_does() {
        for (selector, expected) in [
            ("queue_length", Some(9.5)),
            ("queue_length{queue=\"in\"}", Some(7.5)),
            ("queue_length{queue!=\"in\"}", Some(2.0)),
            ("queue_length{queue=~\"i.\", node!~\"[bc]\"}", Some(4.0)),
            // The whole value must match.
            ("queue_length{queue=~\"i\"}", None),
            ("queue_length{queue=~\"(?i)IN|\\\\d\"}", Some(7.5)),
            ("queue_length{queue=\"out, \\\"later\\\"\"}", Some(2.0)),
            // A label that is not there is empty.
            ("up{node=\"\"}", Some(1.0)),
            ("up{node!=\"\"}", None),
            ("job:busy:rate5m", Some(f64::INFINITY)),
            ("missing", None),
            ("neither", None),
        ] {
            assert_eq!(sum(selector), expected, "{selector}");
        }
        assert!(sum("pauses_seconds_total").unwrap().is_nan());
    }

    #[test]
    fn what_is_no_selector_is_told() {
        for (text, reason) in [
            ("", "name of a metric"),
            ("9lives", "name of a metric"),
            ("a{b}", "stands `=`"),
            ("a{b=c}", "a text in"),
            ("a{b=\"c\" d=\"e\"}", "commas"),
            ("a{b=~\"(\"}", "no regular expression"),
            ("a{b=~\"[a[bc]]\"}", "no regular expression"),
            ("rate(a[5m])", "functions"),
            ("a{", "a label has a name"),
        ] {
            let error = text.parse::<Selector>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_text_without_samples_is_none() {
        assert_eq!(sums("<html>not found</html>", &[]), None);
        assert_eq!(sums("", &[]), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC*", selector in "[a-z]{0,3}\\PC{0,12}") {
            let _ = samples(&text).count();
            let _ = selector.parse::<Selector>();
        }

        #[test]
        fn what_is_written_is_read_back(value in -1e9..1e9f64, label in "\\PC{0,20}") {
            let escaped = label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let text = format!("metric{{label=\"{escaped}\"}} {value}\n");
            let read: Vec<_> = samples(&text).collect();
            let expected = Sample { name: "metric", labels: vec![("label", label)], value };
            prop_assert_eq!(read, vec![expected]);
        }
    }
}
