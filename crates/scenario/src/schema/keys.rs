//! The page of all keys of a scenario, out of its schema.

use serde_json::Value;
use std::collections::BTreeMap;

/// Longest line of the page.
const WIDTH: usize = 120;
/// Keys below so many others are left to the key above them: they are the same wherever they stand.
const DEEPEST: usize = 4;

const BEGINNING: &str = "# All keys of a scenario

A test writes this page out of [the schema](schema/scenario.schema.json), which editors use as well. A key in *italics*
must be there where the key above it is. Objectives exist for more quantiles: `publish_p90`, `publish_p999` and so on.
Scenarios of several populations may set most keys for each of them ([populations](populations.md)).

";

/// The page, in Markdown.
pub fn page(schema: &Value) -> String {
    let mut page = Page { root: schema, text: BEGINNING.to_owned(), told: BTreeMap::new() };
    let (parts, plain): (Vec<_>, Vec<_>) =
        keys(schema, schema).into_iter().partition(|key| !keys(schema, key.schema).is_empty());
    // What several populations may have is what one has.
    let (several, alone): (Vec<_>, Vec<_>) =
        parts.into_iter().partition(|key| ["subscribers", "populations"].contains(&key.name));
    plain.iter().for_each(|key| page.item(key, key.name, None));
    for part in alone.into_iter().chain(several) {
        let described = wrapped(&described(schema, part.schema), 0);
        page.text += &format!("\n## {}\n\n{described}\n\n", part.name);
        page.below(part.schema, part.name, 1);
    }
    page.text
}

/// A page that is being written.
struct Page<'a> {
    root: &'a Value,
    text: String,
    /// Where the keys of a type were described.
    told: BTreeMap<&'a str, String>,
}

impl<'a> Page<'a> {
    /// The keys below a key.
    fn below(&mut self, schema: &'a Value, path: &str, depth: usize) {
        let is_named = resolved(self.root, schema)["additionalProperties"].is_object();
        let between = if is_named { ".NAME." } else { "." };
        for key in keys(self.root, schema).into_iter().filter(|key| !is_quantile_of_others(key.name)) {
            let path = format!("{path}{between}{}", key.name);
            let known = reference(key.schema).and_then(|type_| self.told.get(type_)).cloned();
            let has_keys = depth < DEEPEST && !keys(self.root, key.schema).is_empty();
            self.item(&key, &path, known.as_deref().filter(|_| has_keys));
            if has_keys && known.is_none() {
                self.told.extend(reference(key.schema).map(|type_| (type_, path.clone())));
                self.below(key.schema, &path, depth + 1);
            }
        }
    }

    /// A key as an item of a list; its own keys are `known` from elsewhere.
    fn item(&mut self, key: &Key<'_>, path: &str, known: Option<&str>) {
        let path = if key.must_be { format!("*`{path}`*") } else { format!("`{path}`") };
        let known = known.map(|known| format!(" Its keys are those of `{known}`.")).unwrap_or_default();
        let described = described(self.root, key.schema);
        let values = values(self.root, key.schema);
        let default = default(key.schema).filter(|_| !described.contains("efault"));
        let default = default.map(|default| format!(" Default `{default}`.")).unwrap_or_default();
        self.text += &format!("- {}\n", wrapped(&format!("{path}: {described}{values}{default}{known}"), 2));
    }
}

/// Objectives have a key for each quantile; the page has those of the median and the 99th percentile.
fn is_quantile_of_others(name: &str) -> bool {
    name.rsplit_once("_p").is_some_and(|(_, digits)| {
        digits.bytes().all(|byte| byte.is_ascii_digit()) && !["50", "99"].contains(&digits)
    })
}

/// The words that a value may be, as a sentence; empty where they are not listed.
fn values(root: &Value, schema: &Value) -> String {
    let schema = resolved(root, schema);
    let forms = ["oneOf", "anyOf"].into_iter().flat_map(|word| schema[word].as_array().into_iter().flatten());
    let own = schema["enum"].as_array().into_iter().flatten();
    let of_forms = forms.flat_map(|form| {
        let form = resolved(root, form);
        form["enum"].as_array().into_iter().flatten().chain(form.get("const"))
    });
    let words: Vec<String> =
        own.chain(of_forms).filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
    if words.len() < 2 { String::new() } else { format!(" One of {}.", words.join(", ")) }
}

/// The default that the schema has of a value in one word.
fn default(schema: &Value) -> Option<String> {
    match schema.get("default")? {
        Value::String(text) => Some(text.clone()),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        _ => None,
    }
}

/// The type that a key refers to.
fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"]
        .as_str()
        .or_else(|| schema["anyOf"].as_array()?.iter().find_map(|form| form["$ref"].as_str()))
}

/// A key of a map.
struct Key<'a> {
    name: &'a str,
    schema: &'a Value,
    must_be: bool,
}

/// The keys of all maps that a value may be.
fn keys<'a>(root: &'a Value, schema: &'a Value) -> Vec<Key<'a>> {
    let schema = resolved(root, schema);
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let own = schema["properties"].as_object().into_iter().flatten();
    let own = own.map(|(name, schema)| Key { name, schema, must_be: required.contains(&name.as_str()) });
    let forms = ["anyOf", "oneOf"].into_iter().flat_map(|word| schema[word].as_array().into_iter().flatten());
    // A list of maps, and maps by name: `platform.relays.NAME`.
    let within = [&schema["items"], &schema["additionalProperties"]].into_iter().filter(|it| it.is_object());
    // Of several forms one is chosen, so that no key of them must be there.
    let of_forms = forms.flat_map(|form| keys(root, form)).map(|key| Key { must_be: false, ..key });
    let others = of_forms.chain(within.flat_map(|form| keys(root, form)));
    let mut all: Vec<Key<'a>> = Vec::new();
    for key in own.chain(others) {
        if !all.iter().any(|known| known.name == key.name) {
            all.push(key);
        }
    }
    all
}

/// What a reference stands for.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let place = schema["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
    place.and_then(|place| root.pointer(place)).unwrap_or(schema)
}

/// What a key means: its own words before those of its type.
fn described(root: &Value, schema: &Value) -> String {
    let own = schema["description"].as_str();
    own.or(resolved(root, schema)["description"].as_str()).unwrap_or_default().replace('\n', " ")
}

/// A text in lines that fit; the later ones are indented.
fn wrapped(text: &str, indent: usize) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        let length = indent + line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && length > WIDTH {
            lines += &format!("{line}\n{}", " ".repeat(indent));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line
}
