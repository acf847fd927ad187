//! Topics and paths as shapes: which parts are words that many share, and which are names that vary. The rule is lexical and
//! simple, so that a reader can check it ([`varies`]).

use std::collections::{BTreeMap, BTreeSet};

/// More values than that in one place are names.
const WORDS: usize = 8;
/// So many clients that each have a value of their own show that it is theirs.
const OWN: usize = 3;

/// A part of a target, with what separates it from the one before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Part {
    pub separator: &'static str,
    pub text: String,
    /// The value of a query, which is nobody's word.
    pub is_value: bool,
}

/// Takes a target apart: at slashes, and behind a question mark at `&` and `=`.
pub(super) fn parts(target: &str) -> Vec<Part> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let part = |separator, text: &str, is_value| Part { separator, text: text.to_owned(), is_value };
    let mut parts: Vec<Part> = path
        .split('/')
        .enumerate()
        .map(|(place, text)| part(if place == 0 { "" } else { "/" }, text, false))
        .collect();
    for (place, pair) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        let (key, value) = match pair.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (pair, None),
        };
        parts.push(part(if place == 0 { "?" } else { "&" }, key, false));
        parts.extend(value.map(|value| part("=", value, true)));
    }
    parts
}

/// Something with a target, and whose it is.
#[derive(Clone, Debug)]
pub(super) struct Shaped {
    /// Its place among the sources.
    pub source: usize,
    pub parts: Vec<Part>,
    pub client: u32,
}

/// Sources whose targets have the same shape, and the places of the parts that vary.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub members: Vec<Shaped>,
    pub varying: BTreeSet<usize>,
}

/// Divides sources with equally many parts, from the first part to the last: where a part varies they stay together, else each
/// word has its own. `sessions` says that a client is one party, and not a host of many.
pub(super) fn shapes(members: Vec<Shaped>, sessions: bool) -> Vec<Shape> {
    let places = members.first().map_or(0, |first| first.parts.len());
    let mut shapes = vec![Shape { members, varying: BTreeSet::new() }];
    for place in 0..places {
        let mut divided = Vec::new();
        for mut shape in shapes {
            if varies(&shape.members, place, sessions) {
                shape.varying.insert(place);
                divided.push(shape);
                continue;
            }
            let mut by_word: BTreeMap<Part, Vec<Shaped>> = BTreeMap::new();
            for member in shape.members {
                by_word.entry(member.parts[place].clone()).or_default().push(member);
            }
            divided.extend(
                by_word.into_values().map(|members| Shape { members, varying: shape.varying.clone() }),
            );
        }
        shapes = divided;
    }
    shapes
}

/// Whether a part varies from device to device. It does if it has several values, and
/// - it is the value of a query,
/// - or there are more than [`WORDS`] of them,
/// - or at least half of them have a digit, and not each is said by several clients,
/// - or each of at least [`OWN`] clients has a value of its own.
fn varies(members: &[Shaped], place: usize, sessions: bool) -> bool {
    let mut values: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    let mut is_value = true;
    for member in members {
        let part = &member.parts[place];
        is_value &= part.is_value;
        values.entry(&part.text).or_default().insert(member.client);
    }
    if values.len() < 2 {
        return false;
    }
    if is_value || values.len() > WORDS {
        return true;
    }
    let shared = sessions && values.values().all(|clients| clients.len() > 1);
    let with_digit = values.keys().filter(|value| value.contains(|c: char| c.is_ascii_digit())).count();
    if 2 * with_digit >= values.len() && !shared {
        return true;
    }
    let clients: BTreeSet<u32> = values.values().flatten().copied().collect();
    let own = values.values().all(|clients| clients.len() == 1);
    sessions && own && values.len() >= OWN && clients.len() == values.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shapes of targets, each with its client; parts that vary are stars.
    fn shaped(targets: &[(&str, u32)], sessions: bool) -> Vec<String> {
        let members = targets
            .iter()
            .enumerate()
            .map(|(source, (target, client))| Shaped { source, parts: parts(target), client: *client })
            .collect();
        let told = |shape: &Shape| {
            let parts = shape.members[0].parts.iter().enumerate();
            parts
                .map(|(place, part)| {
                    let text = if shape.varying.contains(&place) { "*" } else { &part.text };
                    format!("{}{text}", part.separator)
                })
                .collect()
        };
        shapes(members, sessions).iter().map(told).collect()
    }

    #[test]
    fn names_vary_and_words_do_not() {
        assert_eq!(
            shaped(&[("city/s1/temp", 1), ("city/s1/hum", 1), ("city/s2/temp", 2), ("city/s2/hum", 2)], true),
            ["city/*/hum", "city/*/temp"]
        );
        // Words without digits are names if each client has one of its own.
        assert_eq!(shaped(&[("home/kitchen", 1), ("home/garage", 2), ("home/attic", 3)], true), ["home/*"]);
        assert_eq!(shaped(&[("home/kitchen", 1), ("home/garage", 1)], true), ["home/garage", "home/kitchen"]);
        // Two versions that many clients use are words.
        assert_eq!(shaped(&[("v1/x", 1), ("v1/x", 2), ("v2/x", 1), ("v2/x", 3)], true), ["v1/x", "v2/x"]);
    }

    #[test]
    fn the_values_of_a_query_are_nobodys_words() {
        assert_eq!(
            shaped(&[("/in?k=secret&d=a", 1), ("/in?k=secret&d=b", 1)], false),
            ["/in?k=secret&d=*"],
            "what does not vary is left to those who anonymise"
        );
    }

    #[test]
    fn more_values_than_words_are_names() {
        let targets: Vec<String> = ('a'..='j').map(|letter| format!("t/{letter}")).collect();
        let targets: Vec<(&str, u32)> = targets.iter().map(|target| (target.as_str(), 1)).collect();
        assert_eq!(shaped(&targets, false), ["t/*"]);
    }
}
