//! Keys under the names that they had before: a scenario, `--set` and `matrix` may use either.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::tree::{Entry, Node, Value, is_within};
use serde_json::{Value as Json, json};

/// Earlier names, and the present ones.
const ALIASES: [(&str, &str); 6] = [
    ("mqtt.topic", "message.target"),
    ("mqtt.tls", "connection.tls"),
    ("mqtt.connect_timeout", "connection.timeout"),
    ("mqtt.reconnect", "connection.reconnect"),
    ("mqtt.offline", "connection.offline"),
    ("population.source_addresses", "connection.source_addresses"),
];

/// A key, or one below it, by its present name.
pub(crate) fn present(key: &str) -> String {
    let alias = ALIASES.iter().find(|(before, _)| is_within(key, Some(before)));
    let renamed = alias.and_then(|(before, now)| Some(format!("{now}{}", key.strip_prefix(before)?)));
    renamed.unwrap_or_else(|| key.to_owned())
}

/// A key by the name under which it stands in a scenario: an earlier one where that is there and the present one is not.
pub(crate) fn as_written(root: &Node, key: &str) -> String {
    let alias =
        ALIASES.iter().find(|(before, now)| is_within(key, Some(now)) && root.has(before) && !root.has(now));
    let written = alias.and_then(|(before, now)| Some(format!("{before}{}", key.strip_prefix(now)?)));
    written.unwrap_or_else(|| key.to_owned())
}

/// Gives all keys of a scenario their present names. What stands under both is an error.
pub(crate) fn rename(root: &mut Node, found: &mut Diagnostics) {
    for (before, now) in ALIASES {
        let Some((section, key)) = before.split_once('.') else { continue };
        let Some(entry) = take(root, section, key) else { continue };
        if root.has(now) {
            let message = format!("`{before}` and `{now}` are two names of one key");
            found.push(Diagnostic::new(&entry.key_span, message).help(format!("keep `{now}`")));
            continue;
        }
        put(root, now, entry);
    }
}

/// Describes the earlier names in the schema of scenarios, so that an editor knows them and advises the present ones.
pub(crate) fn describe(schema: &mut Json) {
    for (before, now) in ALIASES {
        let Some(mut described) = property(schema, now).cloned() else { continue };
        if let Some(described) = described.as_object_mut() {
            described.insert("description".into(), json!(format!("Earlier name of `{now}`.")));
            described.insert("deprecated".into(), json!(true));
        }
        let Some((section, key)) = before.split_once('.') else { continue };
        if let Some(properties) = properties(schema, section).and_then(Json::as_object_mut) {
            properties.insert(key.to_owned(), described);
        }
    }
}

fn property<'s>(schema: &'s mut Json, path: &str) -> Option<&'s mut Json> {
    let (section, key) = path.split_once('.')?;
    properties(schema, section)?.get_mut(key)
}

/// The properties of a section of the scenario, which stand where the schema refers to.
fn properties<'s>(schema: &'s mut Json, section: &str) -> Option<&'s mut Json> {
    let reference = schema.pointer(&format!("/properties/{section}/$ref"))?.as_str()?.to_owned();
    schema.pointer_mut(reference.strip_prefix('#')?)?.get_mut("properties")
}

/// Takes an entry out of a section, and the section itself where nothing is left in it.
fn take(root: &mut Node, section: &str, key: &str) -> Option<Entry> {
    let Value::Map(sections) = &mut root.value else { return None };
    let at = sections.iter().position(|entry| entry.key == section)?;
    let Value::Map(entries) = &mut sections.get_mut(at)?.value.value else { return None };
    let entry = entries.remove(entries.iter().position(|entry| entry.key == key)?);
    if entries.is_empty() {
        sections.remove(at);
    }
    Some(entry)
}

/// Puts an entry where its present name says.
fn put(root: &mut Node, now: &str, entry: Entry) {
    let (Some((section, key)), Value::Map(sections)) = (now.split_once('.'), &mut root.value) else { return };
    let at = sections.iter().position(|entry| entry.key == section).unwrap_or_else(|| {
        let value = Node::empty_map(&entry.value.span);
        sections.push(Entry { key: section.to_owned(), key_span: entry.key_span.clone(), value });
        sections.len() - 1
    });
    let Some(section) = sections.get_mut(at) else { return };
    if section.value.is_null() {
        section.value = Node::empty_map(&entry.value.span);
    }
    // A section that is no map is reported by the check of the whole tree.
    if let Value::Map(entries) = &mut section.value.value {
        entries.retain(|other| other.key != key);
        entries.push(Entry { key: key.to_owned(), ..entry });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader;
    use crate::span::{Origin, SourceFile};
    use std::sync::Arc;

    fn renamed(text: &str) -> (Node, String) {
        let origin = Arc::new(Origin::File(SourceFile { name: "f".into(), text: text.into() }));
        let mut found = Diagnostics::default();
        let mut root = reader::read(&origin, text, 0, &mut found).unwrap();
        rename(&mut root, &mut found);
        (root, found.to_string())
    }

    #[test]
    fn earlier_names_are_read_as_the_present_ones_and_keep_their_places() {
        let (root, errors) =
            renamed("name: a\nmqtt:\n  qos: 1\n  tls:\n    ca: x\nconnection:\n  timeout: 1s\n");
        assert_eq!(errors, "");
        assert!(root.has("connection.tls.ca") && root.has("connection.timeout") && root.has("mqtt.qos"));
        assert!(!root.has("mqtt.tls"));
        assert_eq!(root.locate("connection.tls.ca").line(), "    ca: x");
        let (root, errors) = renamed("mqtt: { topic: t, connect_timeout: 1s }\nconnection:\n");
        assert_eq!(errors, "");
        assert!(root.has("message.target") && root.has("connection.timeout") && root.child("mqtt").is_none());
    }

    #[test]
    fn both_names_of_a_key_are_an_error() {
        let (_, errors) = renamed("mqtt: { topic: t }\nmessage: { target: u }\n");
        assert!(errors.contains("`mqtt.topic` and `message.target` are two names of one key"), "{errors}");
    }

    #[test]
    fn keys_of_the_command_line_are_renamed_with_what_is_below_them() {
        assert_eq!(present("mqtt.tls.verify"), "connection.tls.verify");
        assert_eq!(present("population.source_addresses.0"), "connection.source_addresses.0");
        assert_eq!(present("mqtt.topic_alias"), "mqtt.topic_alias");
        assert_eq!(present("load.hold"), "load.hold");
    }

    #[test]
    fn the_published_schema_knows_earlier_names_as_deprecated() {
        let mut schema = crate::scenario_schema();
        for (before, _) in ALIASES {
            let property =
                property(&mut schema, before).unwrap_or_else(|| panic!("{before} is not described"));
            assert_eq!(property["deprecated"], true, "{before}");
        }
    }
}
