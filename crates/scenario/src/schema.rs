//! The JSON Schemas of scenario and profile files, generated from the types that they are read into.

use crate::aliases;
use crate::config::Scenario;
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
    schema
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
            "docs/schema/{name} is stale; write it anew with\n    \
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
