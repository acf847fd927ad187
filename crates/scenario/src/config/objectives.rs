//! What is demanded.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Objectives by name, as conditions. `null` switches a default off.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Objectives(pub BTreeMap<String, Option<String>>);

impl JsonSchema for Objectives {
    fn schema_name() -> Cow<'static, str> {
        "Objectives".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        for name in crate::objective::Name::all() {
            let property = serde_json::json!({
                "description": name.description(),
                "type": ["string", "null"],
                "format": name.format(),
            });
            properties.insert(name.key(), property);
        }
        json_schema!({
            "description": "What is demanded of each level, and of the load line. `null` switches a default off.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}
