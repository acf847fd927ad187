//! The schemas of types that do not derive them.

use crate::config::Objectives;
use crate::objective::Name;
use crate::plan::{Protocol, Subject};
use crate::profiles::roles::Speaks;
use crate::protocols::lwm2m::config::Lwm2mVersion;
use crate::protocols::mqtt::config::ProtocolVersion;
use crate::protocols::mqtt::qos::QosLevel;
use crate::quantity::{AsText, Quantity};
use plimsoll_model::Metric;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// The forms that a bare number may have, too.
const BARE_NUMBERS: [&str; 3] = ["rate", "share", "size"];

impl<T: Quantity> JsonSchema for AsText<T> {
    fn schema_name() -> Cow<'static, str> {
        T::FORM.format.into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        if BARE_NUMBERS.contains(&T::FORM.format) {
            json_schema!({ "type": ["string", "number"], "format": T::FORM.format })
        } else {
            json_schema!({ "type": "string", "format": T::FORM.format })
        }
    }
}

impl JsonSchema for Objectives {
    fn schema_name() -> Cow<'static, str> {
        "Objectives".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        for name in Name::all() {
            let property = serde_json::json!({
                "description": description(name),
                "type": ["string", "null"],
                "format": format(name),
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

impl JsonSchema for Speaks {
    fn schema_name() -> Cow<'static, str> {
        "Speaks".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let all: Vec<String> = Protocol::ALL.into_iter().map(Protocol::key).collect();
        json_schema!({ "type": "string", "enum": all, "description": "A protocol." })
    }
}

impl JsonSchema for QosLevel {
    fn schema_name() -> Cow<'static, str> {
        "QosLevel".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [0, 1, 2] })
    }
}

impl JsonSchema for ProtocolVersion {
    fn schema_name() -> Cow<'static, str> {
        "ProtocolVersion".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // A bare 5 is a number in YAML.
        json_schema!({ "enum": ["3.1.1", "5", 5] })
    }
}

impl JsonSchema for Lwm2mVersion {
    fn schema_name() -> Cow<'static, str> {
        "Lwm2mVersion".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["1.0", "1.1", 1.0, 1.1] })
    }
}

/// The `format` of its condition in the schema.
fn format(name: Name) -> &'static str {
    match name {
        Name::Level(Subject::Delivered | Subject::Achieved | Subject::Connected) => "ratio-condition",
        Name::Level(Subject::Quantile(..) | Subject::Mean(_) | Subject::FaultRecovery) => "time-condition",
        Name::LoadLine => "rate-condition",
    }
}

/// What it is about, for the schema.
fn description(name: Name) -> String {
    let time = |metric: Metric| metric.row().objective.map_or("", |objective| objective.words);
    match name {
        Name::Level(Subject::Delivered) => {
            "Messages delivered / (messages due x receivers). Default \">= 99.9 %\" where there are subscribers."
                .to_owned()
        }
        Name::Level(Subject::Achieved) => {
            "Operations completed / operations due within the hold. Default \">= 99 %\" in the open model."
                .to_owned()
        }
        Name::Level(Subject::Connected) => {
            "Devices connected when the level ended / devices of the level. Default \">= 99.9 %\" where levels \
             connect devices."
                .to_owned()
        }
        Name::Level(Subject::FaultRecovery) => {
            "Time from the end of a fault or of a spike until objectives are met again, the longest of a level's (docs/faults.md)."
                .to_owned()
        }
        Name::Level(Subject::Quantile(Metric::PublishTime, 0.99)) => {
            "99th percentile of the publish time from due. Default \"< 50 ms\" at QoS 1 and 2.".to_owned()
        }
        Name::Level(Subject::Quantile(Metric::SubscribeTime, 0.99)) => {
            "99th percentile of the subscribe time from due. Default \"< 50 ms\" at QoS 0 where there are \
             subscribers."
                .to_owned()
        }
        Name::Level(Subject::Quantile(metric, quantile)) => {
            format!("The {quantile} quantile of the {}.", time(metric))
        }
        Name::Level(Subject::Mean(metric)) => format!("Mean of the {}.", time(metric)),
        Name::LoadLine => "Lowest acceptable load line, in operations per second.".to_owned(),
    }
}
