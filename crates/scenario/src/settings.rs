//! The settings of a stored scenario, to be laid beside those of another one.

use crate::aliases;
use crate::diagnostic::Diagnostics;
use crate::matrix::written;
use crate::reader;
use crate::span::{Origin, SourceFile};
use crate::tree::{Node, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Each setting of a scenario by its key, such as `population.devices`, with its value as written in one line; none where
/// the text cannot be read. Keys have their present names, also in scenarios that were stored before.
pub fn settings(scenario: &str) -> BTreeMap<String, String> {
    let origin = Arc::new(Origin::File(SourceFile { name: "scenario".into(), text: scenario.into() }));
    let mut settings = BTreeMap::new();
    let mut found = Diagnostics::default();
    if let Some(mut root) = reader::read(&origin, scenario, 0, &mut found) {
        aliases::rename(&mut root, &mut found);
        gather(None, &root, &mut settings);
    }
    settings
}

fn gather(key: Option<&str>, node: &Node, settings: &mut BTreeMap<String, String>) {
    match (&node.value, key) {
        (Value::Map(entries), key) if !entries.is_empty() => {
            for entry in entries {
                let key = key.map_or(entry.key.clone(), |above| format!("{above}.{}", entry.key));
                gather(Some(&key), &entry.value, settings);
            }
        }
        (_, Some(key)) => {
            settings.insert(key.to_owned(), written(node));
        }
        (_, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_the_key_that_leads_to_it() {
        let found = settings("seed: 1\nload:\n  levels: [10, 20]\n  hold: 1s\nmqtt: {}\n");
        let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(found, [("load.hold", "1s"), ("load.levels", "[10, 20]"), ("mqtt", "{}"), ("seed", "1")]);
        assert!(settings("a: [").is_empty());
    }
}
