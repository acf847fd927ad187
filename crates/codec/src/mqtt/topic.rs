//! Topic names and topic filters (MQTT 5 sections 4.7 and 4.8.2, MQTT 3.1.1 section 4.7).

use super::Version;

/// Begins a shared subscription.
const SHARED: &str = "$share/";

/// Longest topic name or filter, bytes (MQTT 5 section 1.5.4).
const LONGEST: usize = 65_535;

/// A shared subscription, `$share/group/filter` (MQTT 5 section 4.8.2). Brokers of MQTT 3.1.1 that know it write it
/// the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared<'a> {
    /// The share name: each message goes to one subscriber of the group.
    pub group: &'a str,
    /// The topic filter of the group.
    pub filter: &'a str,
}

/// Whether a message may be published to that name: 1 to 65,535 bytes, no wildcard, no U+0000.
pub fn valid_name(name: &str) -> bool {
    has_valid_length(name) && !name.bytes().any(|byte| matches!(byte, b'+' | b'#' | 0))
}

/// Whether that filter can be subscribed to: wildcards fill their levels, `#` stands last, and a shared subscription
/// has a group and a filter.
pub fn valid_filter(filter: &str) -> bool {
    has_valid_wildcards(filter) && (!filter.starts_with(SHARED) || shared(filter).is_some())
}

/// As [`valid_filter`], but to MQTT 3.1.1 a shared subscription is a filter like any other.
pub(super) fn valid_filter_in(version: Version, filter: &str) -> bool {
    match version {
        Version::V311 => has_valid_wildcards(filter),
        Version::V5 => valid_filter(filter),
    }
}

/// Takes a shared subscription apart; `None` when the filter is not one.
pub fn shared(filter: &str) -> Option<Shared<'_>> {
    let (group, filter) = filter.strip_prefix(SHARED)?.split_once('/')?;
    (valid_name(group) && has_valid_wildcards(filter)).then_some(Shared { group, filter })
}

/// Whether a message with that topic name goes to subscriptions with that filter. A shared subscription matches what
/// its own filter matches. Names that begin with `$` are not matched by a filter that begins with a wildcard
/// (MQTT 5 section 4.7.2). Both are taken to be valid.
pub fn matches(filter: &str, name: &str) -> bool {
    let filter = shared(filter).map_or(filter, |shared| shared.filter);
    if name.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut levels = name.split('/');
    for wanted in filter.split('/') {
        match (wanted, levels.next()) {
            // `#` also matches its parent level, when the levels have ended.
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (wanted, Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

/// Whether there is a topic name that both filters match; a topic name is a filter without wildcards. Both are taken to be
/// valid, and neither to be a shared subscription.
pub fn overlap(one: &str, other: &str) -> bool {
    let is_hidden_from = |name: &str, filter: &str| name.starts_with('$') && filter.starts_with(['+', '#']);
    if is_hidden_from(one, other) || is_hidden_from(other, one) {
        return false;
    }
    let (mut levels, mut others) = (one.split('/'), other.split('/'));
    loop {
        match (levels.next(), others.next()) {
            // `#` also matches its parent level, when the levels have ended.
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some(level), Some(other)) if level == other || level == "+" || other == "+" => {}
            _ => return false,
        }
    }
}

fn has_valid_length(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len())
}

fn has_valid_wildcards(filter: &str) -> bool {
    let mut levels = filter.split('/').peekable();
    let mut valid = has_valid_length(filter);
    while let Some(level) = levels.next() {
        valid &= match level {
            "+" => true,
            "#" => levels.peek().is_none(),
            _ => !level.bytes().any(|byte| matches!(byte, b'+' | b'#' | 0)),
        };
    }
    valid
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of MQTT 5 sections 4.7.1 and 4.7.2, and the corners beside them.
    #[test]
    fn matches_as_the_standard_says() {
        let table = [
            ("sport/tennis/player1/#", "sport/tennis/player1", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
            ("sport/tennis/player1/#", "sport/tennis/player2", false),
            ("sport/#", "sport", true),
            ("sport/#", "sports", false),
            ("#", "a/b/c", true),
            ("#", "/", true),
            ("sport/tennis/+", "sport/tennis/player1", true),
            ("sport/tennis/+", "sport/tennis/player1/ranking", false),
            ("sport/+", "sport", false),
            ("sport/+", "sport/", true),
            ("+/+", "/finance", true),
            ("/+", "/finance", true),
            ("+", "/finance", false),
            ("+/tennis/#", "sport/tennis", true),
            ("a/+/c", "a//c", true),
            ("a/b", "a/b", true),
            ("a/b", "a/b/", false),
            ("a/b/", "a/b", false),
            ("A/b", "a/b", false),
            ("#", "$SYS/monitor", false),
            ("+/monitor/Clients", "$SYS/monitor/Clients", false),
            ("$SYS/#", "$SYS/monitor", true),
            ("$SYS/monitor/+", "$SYS/monitor/Clients", true),
            ("a/#", "a/$b", true),
            ("$share/group/a/+", "a/b", true),
            ("$share/group/a/+", "b/b", false),
            ("$share/group/#", "$SYS/monitor", false),
        ];
        for (filter, name, expected) in table {
            assert_eq!(matches(filter, name), expected, "{filter} against {name}");
        }
    }

    #[test]
    fn filters_overlap_where_a_topic_matches_both() {
        let table = [
            ("a/+/c", "a/b/+", true),
            ("a/#", "+/b/c", true),
            ("a/#", "a", true),
            ("#", "+", true),
            ("a/+", "a/b/c", false),
            ("a/+/c", "a/b", false),
            ("nothing/#", "plimsoll/1/+", false),
            ("a/>", "a/+", true),
            ("a/>", "a/b", false),
            ("+/monitor", "$SYS/monitor", false),
            ("$SYS/#", "+", false),
            ("$SYS/#", "$SYS/+", true),
        ];
        for (one, other, expected) in table {
            assert_eq!(overlap(one, other), expected, "{one} and {other}");
            assert_eq!(overlap(other, one), expected, "{other} and {one}");
        }
    }

    #[test]
    fn tells_valid_filters_from_others() {
        let longest = "a".repeat(65_535);
        let valid =
            ["#", "+", "/", "a//b", "+/tennis/#", "sport/+/player1", "$share", "$share/g/+", " ", &longest];
        for filter in valid {
            assert!(valid_filter(filter), "{filter}");
        }
        let too_long = "a".repeat(65_536);
        let invalid = [
            "",
            "sport/tennis#",
            "sport/tennis/#/ranking",
            "sport+",
            "##",
            "a/\0",
            "$share/g",
            "$share/g/",
            "$share//a",
            "$share/+/a",
            "$share/g/a#",
            &too_long,
        ];
        for filter in invalid {
            assert!(!valid_filter(filter), "{filter}");
        }
    }

    #[test]
    fn tells_valid_names_from_others() {
        for name in ["a", "/", "a/b", "$SYS/x", "Accounts payable", "\u{e9}"] {
            assert!(valid_name(name), "{name}");
        }
        for name in ["", "a/+", "#", "a+b", "\0"] {
            assert!(!valid_name(name), "{name}");
        }
        assert!(!valid_name(&"a".repeat(65_536)));
    }

    #[test]
    fn a_shared_subscription_has_group_and_filter() {
        assert_eq!(shared("$share/g/a/#"), Some(Shared { group: "g", filter: "a/#" }));
        assert_eq!(shared("$share/g//a"), Some(Shared { group: "g", filter: "/a" }));
        assert_eq!(shared("share/g/a"), None);
        assert_eq!(shared("$share/g"), None);
    }
}
