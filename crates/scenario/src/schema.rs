//! The JSON Schemas of scenario and profile files, generated from the types that they are read into.

use crate::aliases;
use crate::config::Scenario;
use crate::quantity::form;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

/// The JSON Schema (draft 2020-12) of scenario files.
pub fn scenario_schema() -> Value {
    let mut schema = population_schema();
    // Either says who takes part.
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|key| key != "population");
    }
    if let Some(schema) = schema.as_object_mut() {
        schema
            .insert("oneOf".into(), json!([{ "required": ["population"] }, { "required": ["populations"] }]));
    }
    name_profiles(&mut schema);
    name_populations(&mut schema);
    published(schema, "scenario")
}

/// Allows the names of embedded profiles, and paths of others.
fn name_profiles(schema: &mut Value) {
    let names: Vec<&str> = crate::profiles::embedded().collect();
    let pattern = format!(r"^({})$|/|\.ya?ml$", names.join("|"));
    for place in ["/$defs/Platform/anyOf/0", "/$defs/AttachedPlatform/properties/profile"] {
        if let Some(name) = schema.pointer_mut(place).and_then(Value::as_object_mut) {
            name.insert("pattern".into(), pattern.clone().into());
        }
    }
}

/// Allows objectives of one population: `sensors.publish_p99`, or a map below its name.
fn name_populations(schema: &mut Value) {
    let Some(objectives) = schema.pointer_mut("/$defs/Objectives").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(keys) = objectives.get("properties").and_then(Value::as_object).cloned() else { return };
    let mut patterns = serde_json::Map::new();
    let known: Vec<&str> = keys.keys().map(String::as_str).collect();
    for (key, condition) in &keys {
        patterns.insert(format!(r"^[a-z][a-z0-9_-]*\.{key}$"), condition.clone());
    }
    // A population has none of these names.
    let name = format!("^(?!({})$)[a-z][a-z0-9_-]*$", known.join("|"));
    patterns.insert(name, json!({ "type": "object", "properties": keys, "additionalProperties": false }));
    objectives.insert("patternProperties".into(), patterns.into());
}

/// The schema as others use it: with an identifier, its draft, and patterns where this program checks forms.
pub(crate) fn published(mut schema: Value, name: &str) -> Value {
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

/// The schema of the scenario of one population, which each of several becomes before it is checked.
pub(crate) fn population_schema() -> Value {
    let mut schema = schema::<Scenario>("Plimsoll scenario");
    aliases::describe(&mut schema);
    schema
}

/// The JSON Schema (draft 2020-12) of a type.
pub(crate) fn schema<T: JsonSchema>(title: &str) -> Value {
    let mut schema = SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn compare(name: &str, schema: &Value) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema").join(name);
        let generated = serde_json::to_string_pretty(schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &generated).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            published == generated,
            "docs/schema/{name} is stale; write it again with\n    \
             UPDATE_SCHEMAS=1 cargo test -p plimsoll-scenario schemas"
        );
    }

    #[test]
    fn published_schemas_are_those_of_the_types() {
        compare("scenario.schema.json", &scenario_schema());
        compare("platform.schema.json", &crate::platform_schema());
    }

    #[test]
    fn schemas_are_generated_the_same_each_time() {
        assert_eq!(scenario_schema().to_string(), scenario_schema().to_string());
    }
}
