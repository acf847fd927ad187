//! What the command prints that has brought a platform up (docs/bringing-up.md).

use crate::config::RunningComponent;
use crate::plan::Endpoint;
use crate::quantity::Quantity;
use plimsoll_codec::credentials::hide_query_secrets;
use plimsoll_model::text::{harmless, one_line};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What is looked at of the end of what was printed, in bytes. An object has some hundred.
pub const LONGEST_OUTPUT: usize = 1 << 20;
/// Longest text that is kept or shown, in characters.
const LONGEST_TEXT: usize = 200;
/// Most facts.
const MOST_FACTS: usize = 100;
/// Facts of a platform that every run finds itself.
const OWN_FACTS: [&str; 6] = ["address", "mapping", "preloaded", "profile", "protocol", "state"];

/// What the command prints that has brought a platform up.
#[derive(Clone, Debug, PartialEq)]
pub struct BroughtUp {
    pub(crate) address: Endpoint,
    pub(crate) ports: BTreeMap<String, u16>,
    pub(crate) components: Vec<RunningComponent>,
    /// What the provenance of the run keeps of it, by name.
    pub facts: BTreeMap<String, String>,
}

/// The same as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    address: String,
    #[serde(default)]
    ports: BTreeMap<String, u16>,
    #[serde(default)]
    components: Vec<RunningComponent>,
    #[serde(default)]
    facts: BTreeMap<String, Value>,
}

impl BroughtUp {
    /// Reads what was printed. Its last thing is an object of JSON, which begins a line.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn read(printed: &str) -> Result<BroughtUp, String> {
        let object = last_object(printed).ok_or_else(|| why_no_object(printed))?;
        let Printed { address, ports, components, facts } = serde_json::from_str(object)
            .map_err(|error| format!("its object of JSON is wrong: {}", tidy(&error.to_string())))?;
        let address = Endpoint::parse(&address)
            .map_err(|error| format!("`{}` is not {}: {error}", tidy(&address), Endpoint::FORM.name))?;
        if let Some(name) = ports.iter().find_map(|(name, port)| (*port == 0).then_some(name)) {
            return Err(format!("the port `{}` is 0, and ports are numbers from 1 to 65535", tidy(name)));
        }
        if facts.len() > MOST_FACTS {
            return Err(format!("it has {} facts, more than the {MOST_FACTS} of a run", facts.len()));
        }
        let facts = facts.into_iter().map(fact).collect::<Result<_, String>>()?;
        Ok(BroughtUp { address, ports, components, facts })
    }

    /// The platform by its address and its components, for people.
    pub fn in_words(&self) -> String {
        let names: Vec<String> = self.components.iter().map(|component| tidy(&component.name)).collect();
        let components = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        format!("{}{components}", hide_query_secrets(&self.address.show()))
    }
}

/// A fact as the provenance has it.
fn fact((name, value): (String, Value)) -> Result<(String, String), String> {
    let name = tidy(&name);
    let value = match value {
        Value::String(text) => tidy(&text),
        Value::Number(number) => number.to_string(),
        Value::Bool(yes) => yes.to_string(),
        _ => return Err(format!("the fact `{name}` is neither a text nor a number")),
    };
    if name.is_empty() {
        return Err("a fact has no name".to_owned());
    }
    if OWN_FACTS.contains(&name.as_str()) {
        return Err(format!("every run finds the fact `{name}` itself: choose another name"));
    }
    Ok((name, value))
}

fn tidy(text: &str) -> String {
    harmless(&one_line(text, LONGEST_TEXT))
}

/// The object of JSON that ends a text and begins a line. Of nested objects no inner one ends the text.
pub fn last_object(text: &str) -> Option<&str> {
    beginnings(text).into_iter().rev().find(|object| parsed(object).is_ok())
}

fn parsed(text: &str) -> Result<Map<String, Value>, serde_json::Error> {
    serde_json::from_str(text)
}

/// What follows from each line on that may begin an object.
fn beginnings(text: &str) -> Vec<&str> {
    let text = text.trim_end();
    let mut at = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        let own = line.trim_start();
        let from = at + (line.len() - own.len());
        if own.starts_with('{') && text.len() - from <= LONGEST_OUTPUT {
            found.extend(text.get(from..));
        }
        at += line.len();
    }
    found
}

/// Why a text has no object at its end.
fn why_no_object(printed: &str) -> String {
    let wrong = beginnings(printed).last().and_then(|object| parsed(object).err());
    match wrong {
        None if printed.trim().is_empty() => "it printed nothing on standard output".to_owned(),
        None => "it printed no object of JSON on standard output".to_owned(),
        Some(error) => {
            let error = tidy(&error.to_string());
            format!("the last thing that it printed on standard output is no object of JSON: {error}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXAMPLE: &str = r#"{
  "address": "mqtt://10.0.0.7:1883",
  "ports": { "http": 8080 },
  "components": [ { "name": "broker", "port": 1883 },
{ "name": "db", "pid": 4711 } ],
  "facts": { "instance type": "m4.large", "replicas": 3, "spot": false }
}"#;

    #[test]
    fn the_last_object_is_read_whatever_stands_before_it() {
        for printed in [
            EXAMPLE.to_owned(),
            format!("{EXAMPLE}\n\n"),
            format!("creating ...\n{{\"level\":\"info\"}}\n{{ not JSON\n{EXAMPLE}\n"),
            format!("  {}", EXAMPLE.replace('\n', " ")),
        ] {
            let read = BroughtUp::read(&printed).unwrap();
            assert_eq!((read.address.host.as_str(), read.address.port), ("10.0.0.7", 1883), "{printed}");
            assert_eq!(read.ports, BTreeMap::from([("http".to_owned(), 8080)]));
            assert_eq!(read.components.len(), 2);
            assert_eq!(read.in_words(), "mqtt://10.0.0.7:1883 (broker, db)");
            let facts: Vec<String> =
                read.facts.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            assert_eq!(facts, ["instance type: m4.large", "replicas: 3", "spot: false"]);
        }
        assert!(BroughtUp::read(r#"{"address":"http://[::1]:8080/things/{device}"}"#).is_ok());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (printed, said) in [
            ("", "printed nothing"),
            (" \n", "printed nothing"),
            ("up\n", "no object of JSON on standard output"),
            ("[1]", "no object of JSON on standard output"),
            ("up {\"address\":\"mqtt://h\"}", "no object of JSON on standard output"),
            ("{\"address\":\"mqtt://h\"}\ndone", "trailing characters"),
            ("{\"address\":\"mqtt://h\"", "EOF"),
            ("{}", "missing field `address`"),
            ("{\"address\":7}", "invalid type"),
            ("{\"address\":\"mqtt://h\",\"adress\":\"\"}", "unknown field `adress`"),
            ("{\"address\":\"mqtt://h\",\"address\":\"mqtt://i\"}", "duplicate field"),
            ("{\"address\":\"10.0.0.7:1883\"}", "`10.0.0.7:1883` is not an address"),
            ("{\"address\":\"mqtt://h:0\"}", "not a port"),
            ("{\"address\":\"mqtt://h\",\"ports\":{\"http\":0}}", "`http` is 0"),
            ("{\"address\":\"mqtt://h\",\"ports\":{\"http\":70000}}", "invalid value"),
            ("{\"address\":\"mqtt://h\",\"components\":[{\"pid\":1}]}", "missing field `name`"),
            ("{\"address\":\"mqtt://h\",\"facts\":{\"a\":[]}}", "neither a text nor a number"),
            ("{\"address\":\"mqtt://h\",\"facts\":{\"profile\":\"x\"}}", "choose another name"),
            ("{\"address\":\"mqtt://h\",\"facts\":{\" \":\"x\"}}", "no name"),
        ] {
            let error = BroughtUp::read(printed).unwrap_err();
            assert!(error.contains(said), "{printed}: {error}");
        }
    }

    #[test]
    fn what_is_kept_stands_in_one_line() {
        let printed = r#"{"address":"mqtt://h","facts":{"a\nb":"c\u001b[2Jd"}}"#;
        let facts = BroughtUp::read(printed).unwrap().facts;
        assert_eq!(facts, BTreeMap::from([("a b".to_owned(), "c\u{fffd}[2Jd".to_owned())]));
    }

    #[test]
    fn a_flood_of_braces_is_read_fast() {
        for flood in ["{\n", "{\"a\":\n", "{}\n", "{\"a\":[\n{\n"] {
            assert!(BroughtUp::read(&(flood.repeat(LONGEST_OUTPUT / 256) + "end")).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(printed in any::<String>()) {
            let _ = BroughtUp::read(&printed);
        }

        #[test]
        fn no_bytes_are_too_strange(printed in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = BroughtUp::read(&String::from_utf8_lossy(&printed));
        }

        #[test]
        fn no_half_of_an_object_is_taken_for_a_whole(end in 0..EXAMPLE.len(), before in "[a-z{}\\n]{0,20}") {
            let cut = format!("{before}\n{}", EXAMPLE.get(..end).unwrap_or_default());
            prop_assert!(BroughtUp::read(&cut).is_err());
        }
    }
}
