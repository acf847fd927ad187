//! What candidates are called: by what differs between them.

use std::collections::{BTreeMap, BTreeSet};

/// Most settings that a label names.
const MOST: usize = 3;
/// Most characters of a value in a label.
const LONGEST: usize = 32;
/// Settings that say nothing beside the platform's name, or vary from run to run.
const UNTOLD: [&str; 4] = ["name", "seed", "platform.profile", "platform.with.mapping"];

/// What may be said of a candidate.
pub(super) struct Named<'a> {
    pub platform: &'a str,
    pub settings: &'a BTreeMap<String, String>,
    /// The name of its scenario.
    pub name: &'a str,
}

/// A label for each candidate: its platform where there are several, and the settings that differ. Where these do not tell all
/// apart, all that differs does, and last the name of the scenario.
pub(super) fn of(candidates: &[Named<'_>]) -> Vec<String> {
    let mut keys = varying(candidates);
    if candidates.windows(2).any(|pair| pair[0].platform != pair[1].platform) {
        // Other platforms have other components: their names say it.
        keys.retain(|key| !is_version(key));
    }
    // Another platform behind the same name comes first: labels name few settings.
    keys.sort_by_key(|key| !is_version(key));
    let settings: Vec<&str> = keys.iter().copied().filter(|key| is_setting(key)).collect();
    let labels = with(candidates, &settings);
    if are_distinct(&labels) {
        return labels;
    }
    let labels = with(candidates, &keys);
    if are_distinct(&labels) {
        return labels;
    }
    candidates.iter().zip(labels).map(|(one, label)| format!("{label} ({})", one.name)).collect()
}

fn are_distinct(labels: &[String]) -> bool {
    labels.iter().collect::<BTreeSet<_>>().len() == labels.len()
}

/// Whether it changes what is measured, and is not only where that was done or what was demanded.
fn is_setting(key: &str) -> bool {
    key.contains('.') && !key.starts_with("objectives.")
}

/// Whether it is the version of a platform's component.
fn is_version(key: &str) -> bool {
    key.starts_with("platform.") && key.ends_with(" version")
}

/// The keys in which candidates differ; of those that say the same, as where a default follows another setting, the first.
fn varying<'a>(candidates: &[Named<'a>]) -> Vec<&'a str> {
    let keys: BTreeSet<&str> =
        candidates.iter().flat_map(|one| one.settings.keys()).map(String::as_str).collect();
    let mut known: BTreeSet<Vec<Option<&String>>> = BTreeSet::new();
    let mut varies = |key: &&str| {
        let values: Vec<_> = candidates.iter().map(|one| one.settings.get(*key)).collect();
        let differ = values.windows(2).any(|pair| pair[0] != pair[1]);
        differ && !UNTOLD.contains(key) && known.insert(values)
    };
    keys.into_iter().filter(|key| varies(key)).collect()
}

/// What candidates are called by those keys.
fn with(candidates: &[Named<'_>], keys: &[&str]) -> Vec<String> {
    let platforms: BTreeSet<&str> = candidates.iter().map(|one| one.platform).collect();
    let label = |one: &Named<'_>| {
        let mut words = Vec::new();
        if platforms.len() > 1 || keys.is_empty() {
            words.push(one.platform.to_owned());
        }
        words.extend(keys.iter().take(MOST).map(|key| setting(one, key, keys)));
        if keys.len() > MOST {
            words.push(format!("{} more settings", keys.len() - MOST));
        }
        words.join(", ")
    };
    candidates.iter().map(label).collect()
}

/// The last part of a key with its value; the whole key where the last parts of two are the same.
fn setting(candidate: &Named<'_>, key: &str, keys: &[&str]) -> String {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let is_alone = keys.iter().filter(|other| last(other) == last(key)).count() == 1;
    let name = if is_alone { last(key) } else { key.to_owned() };
    match candidate.settings.get(key) {
        Some(value) => format!("{name} {}", shortened(value)),
        None => format!("no {name}"),
    }
}

fn shortened(value: &str) -> String {
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}\u{2026}", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(candidates: &[(&str, &[(&str, &str)])]) -> Vec<String> {
        let of_one = |settings: &[(&str, &str)]| {
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let settings: Vec<BTreeMap<String, String>> =
            candidates.iter().map(|(_, settings)| of_one(settings)).collect();
        let named = candidates.iter().zip(&settings);
        let named = named.map(|((platform, _), settings)| Named { platform, settings, name: "harbour" });
        of(&named.collect::<Vec<_>>())
    }

    #[test]
    fn a_label_says_what_differs_and_nothing_else() {
        let qos = |qos| [("mqtt.qos", qos), ("mqtt.version", "5"), ("seed", qos), ("name", qos)];
        assert_eq!(labels(&[("a", &qos("0")), ("a", &qos("1"))]), ["qos 0", "qos 1"]);
        assert_eq!(labels(&[("a", &qos("0")), ("b", &qos("0"))]), ["a", "b"]);
        assert_eq!(labels(&[("a", &qos("0")), ("b", &qos("1"))]), ["a, qos 0", "b, qos 1"]);
        assert_eq!(labels(&[("a", &qos("0"))]), ["a"]);
        assert_eq!(labels(&[("a", &[]), ("a", &[("load.hold", "1s")])]), ["no hold", "hold 1s"]);
        let both = |qos, of| [("mqtt.qos", qos), ("population.subscribers.qos", of)];
        assert_eq!(labels(&[("a", &both("0", "0")), ("a", &both("1", "1"))]), ["qos 0", "qos 1"]);
        assert_eq!(
            labels(&[("a", &both("0", "1")), ("a", &both("0", "0")), ("a", &both("1", "0"))])[0],
            "mqtt.qos 0, population.subscribers.qos 1"
        );
    }

    #[test]
    fn objectives_and_hosts_tell_apart_what_settings_do_not() {
        let of = |qos, bound, kernel| [("mqtt.qos", qos), ("objectives.p", bound), ("kernel", kernel)];
        assert_eq!(labels(&[("a", &of("0", "1", "6")), ("a", &of("1", "2", "5"))]), ["qos 0", "qos 1"]);
        assert_eq!(labels(&[("a", &of("0", "1", "6")), ("a", &of("0", "2", "6"))]), ["p 1", "p 2"]);
        assert_eq!(labels(&[("a", &of("0", "1", "6")), ("a", &of("0", "1", "5"))]), ["kernel 6", "kernel 5"]);
    }

    #[test]
    fn what_nothing_tells_apart_has_the_name_of_its_scenario_and_long_values_end_early() {
        assert_eq!(labels(&[("a", &[]), ("a", &[])]), ["a (harbour)", "a (harbour)"]);
        let of = |value: &str| labels(&[("a", &[("message.payload", value)]), ("a", &[])])[0].clone();
        assert_eq!(of(&"\u{e4}".repeat(40)), format!("payload {}\u{2026}", "\u{e4}".repeat(32)));
        let many = [("a.a", "1"), ("a.b", "2"), ("a.c", "3"), ("a.d", "4"), ("a.e", "5")];
        assert_eq!(labels(&[("x", &many), ("x", &[])])[0], "a 1, b 2, c 3, 2 more settings");
    }
}
