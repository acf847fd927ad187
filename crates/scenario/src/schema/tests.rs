use super::*;
use crate::balancers::BalancerConfig;
use crate::config::Scenario;
use crate::diagnostic::Diagnostics;
use crate::environment::Environment;
use crate::profiles::ProfileConfig;
use crate::span::{Origin, SourceFile};
use crate::tree::{Node, ScalarKind, Value as Tree};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use std::path::Path;
use std::sync::Arc;

/// The JSON Schema (draft 2020-12) of a type.
fn schema<T: JsonSchema>(title: &str) -> Value {
    let mut schema = SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

fn compare(path: &str, schema: &Value) {
    compare_text(path, serde_json::to_string_pretty(schema).unwrap() + "\n");
}

fn compare_text(path: &str, generated: String) {
    let absolute = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&absolute, &generated).unwrap();
    }
    let written = std::fs::read_to_string(&absolute).unwrap_or_default();
    assert!(
        written == generated,
        "{path} is stale; write it again with\n    \
         UPDATE_SCHEMAS=1 cargo test -p plimsoll-scenario schemas"
    );
}

#[test]
fn schemas_are_those_of_the_types() {
    let mut population = schema::<Scenario>("Plimsoll scenario");
    let profile = schema::<ProfileConfig>("Plimsoll platform profile");
    let balancer = schema::<BalancerConfig>("Plimsoll load balancer");
    compare("crates/scenario/src/schema/population.json", &population);
    aliases::describe(&mut population);
    compare("docs/schema/scenario.schema.json", &published_scenario(population.clone()));
    compare_text("docs/scenario.md", keys::page(&published_scenario(population)));
    compare("docs/schema/platform.schema.json", &published(profile, "platform"));
    compare("docs/schema/balancer.schema.json", &published(balancer, "balancer"));
}

/// As an editor has it: YAML alone, without what this program knows of it.
fn json(node: &Node) -> Value {
    match &node.value {
        Tree::List(items) => items.iter().map(json).collect(),
        Tree::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect::<Map<_, _>>().into()
        }
        Tree::Scalar(scalar) => match scalar.kind() {
            ScalarKind::Null => Value::Null,
            ScalarKind::Boolean => (scalar.text.to_lowercase() == "true").into(),
            ScalarKind::Number => {
                serde_json::from_str(&scalar.text).unwrap_or_else(|_| scalar.text.clone().into())
            }
            ScalarKind::Text => scalar.text.clone().into(),
        },
    }
}

fn yaml(text: &str) -> Value {
    let source = SourceFile { name: "test.yaml".into(), text: text.into() };
    let mut found = Diagnostics::default();
    let tree = crate::reader::read(&Arc::new(Origin::File(source)), text, 0, &mut found);
    json(&tree.unwrap_or_else(|| panic!("{text}: {found}")))
}

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&scenario_schema()).unwrap()
}

#[test]
fn every_example_is_valid_for_an_editor() {
    let (validator, mut count) = (validator(), 0);
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let value = yaml(&std::fs::read_to_string(&path).unwrap());
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
        count += 1;
    }
    assert!(count > 20, "{count} examples");
}

/// A scenario without error, to which one line is added or in which one is changed.
const RIGHT: &str = "\
name: right
platform: { profile: existing, address: 'mqtt://localhost:1883' }
population: { devices: 10, subscribers: 1 }
mqtt: { qos: 1 }
message: { size: 64 }
load: { levels: [100], hold: 10s }
objectives: { publish_p99: '< 50 ms' }
";

/// What stands in the right scenario, and what stands in the wrong one in its place.
const WRONG: [(&str, &str); 54] = [
    ("name: right", ""),
    ("name: right", "name: [right]"),
    ("name: right", "nmae: right"),
    ("name: right", "name: right\nlaod: 1"),
    ("name: right", "name: right\nseed: -1"),
    ("name: right", "name: right\nseed: many"),
    ("{ profile: existing, address: 'mqtt://localhost:1883' }", "embeded"),
    ("{ profile: existing, address: 'mqtt://localhost:1883' }", "mosquito"),
    ("{ profile: existing, address: 'mqtt://localhost:1883' }", "profiles.yaml.txt"),
    ("{ profile: existing, address: 'mqtt://localhost:1883' }", "{}"),
    ("{ profile: existing, address: 'mqtt://localhost:1883' }", "5"),
    ("profile: existing", "profile: exsting"),
    ("mqtt://localhost:1883", "localhost:1883"),
    ("mqtt://localhost:1883", "stomp://localhost"),
    ("mqtt://localhost:1883", "mqtt//localhost"),
    ("mqtt://localhost:1883", "mqtt://"),
    ("address:", "adress:"),
    ("devices: 10", "devices: 0"),
    ("devices: 10", "devices: -5"),
    ("devices: 10", "devices: 1.5"),
    ("devices: 10", "devices: ten"),
    ("devices: 10, ", ""),
    ("devices: 10", "devices: 999999999"),
    ("subscribers: 1", "subscribers: -1"),
    ("subscribers: 1", "subscriber: 1"),
    ("qos: 1", "qos: 3"),
    ("qos: 1", "qos: high"),
    ("qos: 1", "version: 4"),
    ("qos: 1", "retain: perhaps"),
    ("qos: 1", "in_flight: 0"),
    ("size: 64", "size: big"),
    ("size: 64", "size: 64 bytes"),
    ("size: 64", "sise: 64"),
    ("size: 64", "marker: morse"),
    ("levels: [100]", "levels: 100"),
    ("levels: [100]", "levels: [fast]"),
    ("levels: [100]", "levels: { from: 1, to: 10 }"),
    ("levels: [100]", "levels: { from: 1, to: 10, stop: 1 }"),
    ("levels: [100]", "search: { from: 100, tolerance: lots }"),
    ("levels: [100]", "levels: [100], model: opened"),
    ("levels: [100]", "levels: [100], arrivals: poison"),
    ("levels: [100]", "levels: [100], samples: 1"),
    ("levels: [100]", "levels: [100], connect_rate: quick"),
    ("hold: 10s", "hold: 10"),
    ("hold: 10s", "hold: 10 sec"),
    ("hold: 10s", "hold: ten seconds"),
    ("hold: 10s", "hold: 10s, warmup: 1s"),
    ("publish_p99: '< 50 ms'", "publish_p99: '50 ms'"),
    ("publish_p99: '< 50 ms'", "publish_p99: '> 50 ms'"),
    ("publish_p99: '< 50 ms'", "publish_p99: 50"),
    ("publish_p99: '< 50 ms'", "publish_p98: '< 50 ms'"),
    ("publish_p99: '< 50 ms'", "delivered: '99 %'"),
    ("publish_p99: '< 50 ms'", "delivered: '< 99 %'"),
    ("publish_p99: '< 50 ms'", "load_line: '1000'"),
];

#[test]
fn what_this_program_refuses_an_editor_marks_too() {
    let validator = validator();
    assert!(validator.is_valid(&yaml(RIGHT)));
    let nowhere = Environment { profile: &|_| Err("there is none".into()), variable: &|_| None };
    for (right, wrong) in WRONG {
        assert!(RIGHT.contains(right), "{right}");
        let text = RIGHT.replace(right, wrong);
        assert!(!validator.is_valid(&yaml(&text)), "the schema allows {wrong:?}");
        let source = SourceFile { name: "test.yaml".into(), text };
        assert!(crate::load(&source, &[], &nowhere).is_err(), "the program allows {wrong:?}");
    }
    for (right, other) in [
        ("existing, address: 'mqtt://localhost:1883'", "./mine.yaml"),
        ("publish_p99: '< 50 ms'", "publish_p99: null"),
        ("publish_p99: '< 50 ms'", "sensors.publish_p99: '<= 1 s'"),
        ("publish_p99: '< 50 ms'", "sensors: { delivered: '>= 99 %' }"),
        ("hold: 10s", "hold: 1h30m"),
        ("levels: [100]", "levels: [1.5k/s, 200]"),
        ("size: 64", "size: 1 KiB"),
    ] {
        let value = yaml(&RIGHT.replace(right, other));
        let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{other}: {errors:?}");
    }
}
