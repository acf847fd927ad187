//! The fields of a form in which a scenario is set: those of its JSON Schema, with what the schema says of each.

use crate::check::{Allowed, scalar_name, words};
use crate::editing::{NewValue, ScenarioText, SettingKind};
use crate::quantity::{form, how_written};
use crate::schema::scenario_schema;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// How deep groups are in each other.
const DEEPEST: usize = 16;
/// Keys that the form does not show where the scenario has populations: they say the same of one.
const OF_ONE: &str = "population";
const OF_SEVERAL: &str = "populations";

static SCHEMA: LazyLock<Value> = LazyLock::new(scenario_schema);

/// A part of the form.
#[derive(Clone, Debug, PartialEq)]
pub enum FormItem {
    /// A setting.
    Field(Field),
    /// A map of settings.
    Group(Group),
}

/// A map of settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its key, such as `load.search`.
    pub path: String,
    /// What it is.
    pub description: String,
    /// What is in it.
    pub items: Vec<FormItem>,
}

/// A setting that has one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its key, such as `load.hold`.
    pub path: String,
    /// What it is.
    pub description: String,
    /// What holds where it is not set, if the schema says so.
    pub default: Option<String>,
    /// How it is written.
    pub input: Input,
    /// Whether `null` is a value of it.
    takes_null: bool,
}

/// How the value of a field is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The name of a platform profile, or the path of one.
    Profile,
    /// One of some words.
    Choice(Vec<String>),
    /// A number.
    Number {
        /// Whether it has no fraction.
        is_whole: bool,
        /// The least one allowed.
        least: Option<String>,
        /// The most allowed.
        most: Option<String>,
    },
    /// A text.
    Text {
        /// How it is written, for people, where it has a form.
        how: Option<String>,
        /// A regular expression of its form.
        pattern: Option<&'static str>,
        /// Most characters that it has.
        longest: Option<u64>,
        /// Whether numbers need no quotes.
        takes_numbers: bool,
    },
    /// YAML in one line: a list or a map.
    Yaml,
}

/// The form of a scenario. Where the schema allows several forms of a setting, it has the fields of that which is written.
pub fn fields(text: &ScenarioText) -> Vec<FormItem> {
    let properties = SCHEMA.get("properties").and_then(Value::as_object).into_iter().flatten();
    let has_several = text.setting(OF_SEVERAL).is_some();
    let shown = properties.filter(|(key, _)| !(has_several && key.as_str() == OF_ONE));
    shown.filter_map(|(key, schema)| item(schema, key.clone(), text, 0)).collect()
}

impl FormItem {
    /// Its key.
    pub fn path(&self) -> &str {
        match self {
            FormItem::Field(field) => &field.path,
            FormItem::Group(group) => &group.path,
        }
    }

    /// The field of that key in it.
    pub fn field(&self, path: &str) -> Option<&Field> {
        match self {
            FormItem::Field(field) => (field.path == path).then_some(field),
            FormItem::Group(group) => group.items.iter().find_map(|item| item.field(path)),
        }
    }
}

impl Field {
    /// What is meant by a text that somebody has typed: nothing where it is empty.
    pub fn meant<'t>(&self, typed: &'t str) -> NewValue<'t> {
        let typed = typed.trim();
        let is_number = || typed.parse::<f64>().is_ok_and(f64::is_finite);
        match &self.input {
            _ if typed.is_empty() => NewValue::Absent,
            _ if self.takes_null && typed == "null" => NewValue::Yaml(typed),
            Input::Yaml => NewValue::Yaml(typed),
            Input::Choice(words) if words.iter().any(|word| word == typed) => NewValue::Yaml(typed),
            Input::Number { .. } | Input::Text { takes_numbers: true, .. } if is_number() => {
                NewValue::Yaml(typed)
            }
            _ => NewValue::Text(typed),
        }
    }
}

fn item(schema: &Value, path: String, text: &ScenarioText, depth: usize) -> Option<FormItem> {
    if depth > DEEPEST || schema.get("deprecated") == Some(&Value::Bool(true)) {
        return None;
    }
    let definitions = SCHEMA.get("$defs").unwrap_or(&Value::Null);
    let mut allowed = Allowed::default();
    allowed.add(schema, definitions, 0);
    let description = described(schema, definitions);
    if let Some(properties) = group(&allowed, &path, text) {
        let below = |(key, schema): (&String, &Value)| item(schema, format!("{path}.{key}"), text, depth + 1);
        let items = properties.iter().filter_map(below).collect();
        return Some(FormItem::Group(Group { path, description, items }));
    }
    let default = schema.get("default").filter(|default| !default.is_null() && !default.is_object());
    let default = default.map(|default| default.as_str().map_or_else(|| default.to_string(), str::to_owned));
    let is_profile = path == "platform" || path == "platform.profile";
    let written = text.setting(&path).map(|setting| setting.kind);
    let is_single = written.is_none_or(|kind| kind == SettingKind::Single);
    let input = if is_single && is_profile { Input::Profile } else { input(&allowed, is_single) };
    Some(FormItem::Field(Field { path, description, default, input, takes_null: allowed.null }))
}

/// The settings of a map: where that is the one form that is allowed, or the one that is written.
fn group<'s>(allowed: &Allowed<'s>, path: &str, text: &ScenarioText) -> Option<&'s Map<String, Value>> {
    let maps = allowed.maps.iter().filter_map(|map| map.get("properties")?.as_object());
    let maps: Vec<&'s Map<String, Value>> = maps.collect();
    let written = text.setting(path).map(|setting| setting.kind);
    let is_only = allowed.words.is_empty() && allowed.scalars.is_empty() && allowed.lists.is_empty();
    match (written, maps.as_slice()) {
        (None, [only]) if is_only && allowed.maps.len() == 1 => Some(*only),
        (Some(SettingKind::Map), several) => {
            let keys = text.keys(path);
            several.iter().find(|map| keys.iter().all(|key| map.contains_key(*key))).copied()
        }
        _ => None,
    }
}

fn input(allowed: &Allowed<'_>, is_single: bool) -> Input {
    if !is_single {
        return Input::Yaml;
    }
    match (allowed.scalars.first(), allowed.words.is_empty()) {
        (None, true) => Input::Yaml,
        (None, false) => Input::Choice(words(allowed)),
        (Some(scalar), true) => single(scalar),
        (Some(_), false) => Input::Text { how: None, pattern: None, longest: None, takes_numbers: true },
    }
}

fn single(schema: &Map<String, Value>) -> Input {
    let bound = |key: &str| schema.get(key).map(Value::to_string);
    match scalar_name(schema) {
        "a whole number" => Input::Number { is_whole: true, least: bound("minimum"), most: bound("maximum") },
        "a number" => Input::Number { is_whole: false, least: bound("minimum"), most: bound("maximum") },
        "a text" => {
            let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
            let takes_numbers = form(format).is_some_and(|form| (form.check)("1").is_ok());
            Input::Text {
                how: how_written(format),
                pattern: form(format).map(|form| form.pattern),
                longest: schema.get("maxLength").and_then(Value::as_u64),
                takes_numbers,
            }
        }
        _ => Input::Choice(vec!["true".to_owned(), "false".to_owned()]),
    }
}

/// What a schema says of a setting: by itself, else by what it refers to.
fn described(schema: &Value, definitions: &Value) -> String {
    let own = schema.get("description").and_then(Value::as_str);
    let referenced = || {
        let name = schema.get("$ref")?.as_str()?.rsplit('/').next()?;
        definitions.get(name)?.get("description")?.as_str()
    };
    own.or_else(referenced).unwrap_or_default().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "name: a\nplatform: embedded\npopulation: { devices: 10 }\nload: { levels: [100], hold: 10s }\n";

    fn field(text: &str, path: &str) -> Field {
        let text = ScenarioText::read(text).unwrap();
        let items = fields(&text);
        items.iter().find_map(|item| item.field(path)).cloned().unwrap_or_else(|| panic!("no {path}"))
    }

    fn paths(items: &[FormItem], all: &mut Vec<String>) {
        for item in items {
            match item {
                FormItem::Field(field) => all.push(field.path.clone()),
                FormItem::Group(group) => paths(&group.items, all),
            }
        }
    }

    #[test]
    fn a_field_says_what_the_schema_says_of_it() {
        let devices = field(TEXT, "population.devices");
        assert_eq!(devices.description, "Simulated publishers.");
        let (least, most) = (Some("1".to_owned()), Some("268435455".to_owned()));
        assert_eq!(devices.input, Input::Number { is_whole: true, least, most });
        assert_eq!(field(TEXT, "mqtt.qos").input, Input::Choice(vec!["0".into(), "1".into(), "2".into()]));
        assert_eq!(field(TEXT, "mqtt.qos").default.as_deref(), Some("1"));
        assert_eq!(field(TEXT, "mqtt.retain").input, Input::Choice(vec!["true".into(), "false".into()]));
        assert_eq!(
            field(TEXT, "load.model").input,
            Input::Choice(["open", "closed", "partly_open"].map(str::to_owned).into())
        );
        assert_eq!(field(TEXT, "load.levels").input, Input::Yaml);
        assert_eq!(field(TEXT, "platform").input, Input::Profile);
        let Input::Text { how: Some(how), takes_numbers: false, .. } = field(TEXT, "load.hold").input else {
            panic!()
        };
        assert!(how.starts_with("a duration, written like"), "{how}");
        let Input::Text { longest: Some(200), .. } = field(TEXT, "name").input else { panic!() };
    }

    #[test]
    fn the_form_follows_what_is_written() {
        let range = TEXT
            .replace("[100]", "{ from: 1, to: 2, step: 1 }")
            .replace("platform: embedded", "platform: { profile: x }");
        assert!(matches!(field(&range, "load.levels.from").input, Input::Text { takes_numbers: true, .. }));
        assert_eq!(field(&range, "platform.profile").input, Input::Profile);
        let group = TEXT.replace("devices: 10", "devices: 10, subscribers: { count: 1 }");
        assert!(matches!(field(&group, "population.subscribers.count").input, Input::Number { .. }));
        assert!(matches!(field(TEXT, "population.subscribers").input, Input::Number { .. }));
        let several = ScenarioText::read("populations: [{ name: a }]\n").unwrap();
        let mut all = Vec::new();
        paths(&fields(&several), &mut all);
        assert!(
            all.iter().any(|path| path == "populations")
                && !all.iter().any(|path| path == "population.devices")
        );
    }

    #[test]
    fn each_field_is_there_once_and_described_and_old_names_are_not() {
        let mut all = Vec::new();
        paths(&fields(&ScenarioText::read(TEXT).unwrap()), &mut all);
        assert!(all.len() > 200, "{}", all.len());
        assert!(!all.iter().any(|path| path == "mqtt.topic"));
        for path in &all {
            assert!(!field(TEXT, path).description.is_empty(), "{path}");
            assert_eq!(all.iter().filter(|other| *other == path).count(), 1, "{path}");
        }
    }

    #[test]
    fn what_is_typed_becomes_a_value_of_the_kind_that_is_wanted() {
        for (path, typed, meant) in [
            ("population.devices", " 20 ", NewValue::Yaml("20")),
            ("population.devices", "many", NewValue::Text("many")),
            ("name", "5", NewValue::Text("5")),
            ("name", "", NewValue::Absent),
            ("load.hold", "5s", NewValue::Text("5s")),
            ("load.levels", "[1, 2]", NewValue::Yaml("[1, 2]")),
            ("mqtt.retain", "true", NewValue::Yaml("true")),
            ("mqtt.version", "5", NewValue::Yaml("5")),
            ("mqtt.version", "{", NewValue::Text("{")),
            ("objectives.delivered", "null", NewValue::Yaml("null")),
            ("objectives.delivered", ">= 9 %", NewValue::Text(">= 9 %")),
            ("message.size", "64", NewValue::Yaml("64")),
        ] {
            assert_eq!(field(TEXT, path).meant(typed), meant, "{path}");
        }
    }
}
