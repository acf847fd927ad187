//! The JSON Schemas of scenario files, and of those of profiles and load balancers. Tests generate them as files from the
//! types that the files are read into, so that the program has the schemas without the library that makes them.

use crate::aliases;
use crate::quantity::form;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The schema of the scenario of one population, which each of several becomes before it is checked. A matrix asks for
/// it a thousand times.
pub(crate) static POPULATION: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = read(include_str!("schema/population.json"));
    aliases::describe(&mut schema);
    schema
});

/// The schema of platform profiles: the published one.
pub(crate) static PROFILE: LazyLock<Value> =
    LazyLock::new(|| read(include_str!("../../../docs/schema/platform.schema.json")));

/// The schema of load balancers: the published one.
pub(crate) static BALANCER: LazyLock<Value> =
    LazyLock::new(|| read(include_str!("../../../docs/schema/balancer.schema.json")));

fn read(generated: &str) -> Value {
    // A test compares it with what the types say.
    serde_json::from_str(generated).unwrap_or_default()
}

/// The JSON Schema (draft 2020-12) of scenario files.
pub fn scenario_schema() -> Value {
    published_scenario(POPULATION.clone())
}

/// The schema of scenarios of one population or several, as others use it.
fn published_scenario(mut schema: Value) -> Value {
    // Either says who takes part.
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|key| key != "population");
    }
    if let Some(schema) = schema.as_object_mut() {
        schema
            .insert("oneOf".into(), json!([{ "required": ["population"] }, { "required": ["populations"] }]));
    }
    name_embedded(&mut schema);
    name_populations(&mut schema);
    published(schema, "scenario")
}

/// Allows the names of embedded profiles and load balancers, and paths of others.
fn name_embedded(schema: &mut Value) {
    let profiles: Vec<&str> = crate::profiles::embedded().collect();
    let balancers: Vec<&str> = crate::balancers::embedded().collect();
    for (place, names) in [
        ("/$defs/Platform/anyOf/0", &profiles),
        ("/$defs/AttachedPlatform/properties/profile", &profiles),
        ("/$defs/Balancer/anyOf/0", &balancers),
        ("/$defs/BalancerSettings/properties/by", &balancers),
    ] {
        if let Some(name) = schema.pointer_mut(place).and_then(Value::as_object_mut) {
            name.insert("pattern".into(), format!(r"^({})$|/|\.ya?ml$", names.join("|")).into());
        }
    }
}

/// Allows objectives of one population: `sensors.publish_p99`, or a map below its name.
fn name_populations(schema: &mut Value) {
    let Some(objectives) = schema.pointer_mut("/$defs/Objectives").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(keys) = objectives.get("properties").and_then(Value::as_object) else { return };
    let mut forms: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, condition) in keys {
        let form = condition.get("format").and_then(Value::as_str).unwrap_or_default();
        forms.entry(form).or_default().push(key);
    }
    let patterns = |prefix: &str| -> Map<String, Value> {
        let pattern = |(form, keys): (&&str, &Vec<&str>)| {
            let condition = json!({ "type": ["string", "null"], "format": form });
            (format!("^{prefix}({})$", keys.join("|")), condition)
        };
        forms.iter().map(pattern).collect()
    };
    let of_one =
        json!({ "type": "object", "patternProperties": patterns(""), "additionalProperties": false });
    let mut all = patterns(r"[a-z][a-z0-9_-]*\.");
    // A population has none of the names of objectives.
    let names: Vec<&str> = keys.keys().map(String::as_str).collect();
    all.insert(format!("^(?!({})$)[a-z][a-z0-9_-]*$", names.join("|")), of_one);
    objectives.insert("patternProperties".into(), all.into());
}

/// The schema as others use it: with an identifier, its draft, and patterns where this program checks forms.
fn published(mut schema: Value, name: &str) -> Value {
    add_patterns(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        root.insert("$id".into(), format!("urn:plimsoll:schema:{name}:1").into());
    }
    schema
}

/// Adds to each form the regular expression of its texts.
fn add_patterns(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let form = map.get("format").and_then(Value::as_str).and_then(form);
            if let Some(form) = form {
                map.insert("pattern".into(), form.pattern.into());
            }
            map.values_mut().for_each(add_patterns);
        }
        Value::Array(list) => list.iter_mut().for_each(add_patterns),
        _ => {}
    }
}

#[cfg(test)]
mod keys;
#[cfg(test)]
mod of_types;
#[cfg(test)]
mod tests;
