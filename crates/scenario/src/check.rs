//! Checks a located tree against a JSON Schema, finds everything that is wrong at once, and gives the JSON that the
//! types are read from.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::quantity;
use crate::span::Span;
use crate::tree::{Entry, Node, Scalar, ScalarKind, Value};
use serde_json::{Map, Value as Json};

/// How often `$ref` and alternatives may lead on; the schemas of this crate need fewer than ten.
const DEEPEST_SCHEMA: usize = 32;

/// Checks a whole tree. The JSON is of use only if nothing was found.
pub(crate) fn check(root: &Node, schema: &Json, found: &mut Diagnostics) -> Json {
    let mut checker = Checker { definitions: schema.get("$defs").unwrap_or(&Json::Null), found };
    checker.node(root, schema, &Place { span: &root.span, path: String::new() })
}

/// Checks a part of a tree against the part of the schema that a pointer (RFC 6901) leads to; `path` is where it stands.
pub(crate) fn check_at(
    node: &Node,
    schema: &Json,
    pointer: &str,
    path: &str,
    found: &mut Diagnostics,
) -> Json {
    let mut checker = Checker { definitions: schema.get("$defs").unwrap_or(&Json::Null), found };
    let part = schema.pointer(pointer).unwrap_or(&Json::Null);
    checker.node(node, part, &Place { span: &node.span, path: path.to_owned() })
}

/// Where a value stands: the key that names it, and its path.
struct Place<'a> {
    span: &'a Span,
    path: String,
}

impl Place<'_> {
    fn below(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// " in `load`", or nothing at the root.
    fn within(&self) -> String {
        if self.path.is_empty() { String::new() } else { format!(" in `{}`", self.path) }
    }

    /// "`load.hold`: ", or nothing at the root.
    fn prefix(&self) -> String {
        if self.path.is_empty() { String::new() } else { format!("`{}`: ", self.path) }
    }
}

/// What a schema allows, alternatives flattened, by kind.
#[derive(Default)]
pub(crate) struct Allowed<'s> {
    /// Whether nothing is a value.
    pub null: bool,
    /// The schemas of maps.
    pub maps: Vec<&'s Map<String, Json>>,
    /// The schemas of lists.
    pub lists: Vec<&'s Map<String, Json>>,
    /// The words of enumerations.
    pub words: Vec<&'s Json>,
    /// The schemas of other single values.
    pub scalars: Vec<&'s Map<String, Json>>,
}

impl<'s> Allowed<'s> {
    /// Adds what a schema allows, by itself or through references and alternatives.
    pub fn add(&mut self, schema: &'s Json, definitions: &'s Json, depth: usize) {
        let Some(schema) = schema.as_object().filter(|_| depth <= DEEPEST_SCHEMA) else { return };
        let referenced = schema.get("$ref").and_then(Json::as_str).and_then(|path| path.rsplit('/').next());
        if let Some(definition) = referenced.and_then(|name| definitions.get(name)) {
            self.add(definition, definitions, depth + 1);
        }
        for alternative in ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten()
        {
            self.add(alternative, definitions, depth + 1);
        }
        if let Some(words) = schema.get("enum").and_then(Json::as_array) {
            self.null |= words.contains(&Json::Null);
            self.words.extend(words.iter().filter(|word| !word.is_null()));
            return;
        }
        if let Some(word) = schema.get("const") {
            self.words.push(word);
            return;
        }
        let types: Vec<&str> = match schema.get("type") {
            Some(Json::String(name)) => vec![name],
            Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
            _ => return,
        };
        for name in &types {
            match *name {
                "null" => self.null = true,
                "object" => self.maps.push(schema),
                "array" => self.lists.push(schema),
                _ => {}
            }
        }
        if types.iter().any(|name| !matches!(*name, "null" | "object" | "array")) {
            self.scalars.push(schema);
        }
    }
}

impl Allowed<'_> {
    /// What stands on the command line where a text is wanted, and is a map or a list to YAML: the text, such as
    /// `{"value":"{marker}"}`.
    fn as_typed(&self, node: &Node) -> Option<Node> {
        let has = |schema: &Map<String, Json>, entry: &Entry| {
            let properties = schema.get("properties").and_then(Json::as_object);
            schema.get("additionalProperties") != Some(&Json::Bool(false))
                || properties.is_some_and(|properties| properties.contains_key(&entry.key))
        };
        let unwanted = match &node.value {
            Value::Map(entries) => {
                !self.maps.iter().any(|schema| entries.iter().any(|entry| has(schema, entry)))
            }
            Value::List(_) => self.lists.is_empty(),
            Value::Scalar(_) => false,
        };
        let takes_text = self.scalars.iter().any(|schema| scalar_name(schema) == "a text");
        let typed = node.span.typed().filter(|_| unwanted && takes_text)?;
        Some(Node::text(typed, &node.span))
    }
}

/// What is wrong with a scalar.
struct Complaint {
    message: String,
    help: Option<String>,
}

struct Checker<'a> {
    definitions: &'a Json,
    found: &'a mut Diagnostics,
}

impl Checker<'_> {
    fn node(&mut self, node: &Node, schema: &Json, place: &Place<'_>) -> Json {
        let mut allowed = Allowed::default();
        allowed.add(schema, self.definitions, 0);
        let as_typed = allowed.as_typed(node);
        let node = as_typed.as_ref().unwrap_or(node);
        match &node.value {
            Value::Map(entries) if !allowed.maps.is_empty() => self.map(entries, &allowed.maps, place),
            Value::List(items) if !allowed.lists.is_empty() => self.list(items, &allowed.lists, node, place),
            Value::Scalar(scalar) if scalar.kind() == ScalarKind::Null && allowed.null => Json::Null,
            Value::Scalar(scalar)
                if scalar.kind() != ScalarKind::Null
                    && !(allowed.words.is_empty() && allowed.scalars.is_empty()) =>
            {
                match scalar_as(scalar, &allowed) {
                    Ok(json) => json,
                    Err(complaint) => {
                        let message = format!("{}{}", place.prefix(), complaint.message);
                        let diagnostic = Diagnostic::new(&node.span, message);
                        self.found.push(Diagnostic { help: complaint.help, ..diagnostic });
                        Json::Null
                    }
                }
            }
            _ => {
                let span = if node.is_null() { place.span } else { &node.span };
                let what =
                    format!("{}expected {}, found {}", place.prefix(), expected(&allowed), node.what());
                let diagnostic = Diagnostic::new(span, what);
                let help = secret(&allowed, &place.path);
                self.found.push(Diagnostic { help, ..diagnostic });
                Json::Null
            }
        }
    }

    fn list(
        &mut self,
        items: &[Node],
        schemas: &[&Map<String, Json>],
        node: &Node,
        place: &Place<'_>,
    ) -> Json {
        let Some(schema) = schemas.first() else { return Json::Null };
        let least = schema.get("minItems").and_then(Json::as_u64).unwrap_or(0);
        if (items.len() as u64) < least {
            self.found.push(Diagnostic::new(&node.span, format!("{}the list is empty", place.prefix())));
        }
        let Some(of_item) = schema.get("items") else { return Json::Null };
        let checked = items.iter().enumerate().map(|(position, item)| {
            self.node(item, of_item, &Place { span: &item.span, path: place.below(&position.to_string()) })
        });
        Json::Array(checked.collect())
    }

    fn map(&mut self, entries: &[Entry], schemas: &[&Map<String, Json>], place: &Place<'_>) -> Json {
        // Of several kinds of map, the one is meant whose required key is there.
        let meant = |schema: &&&Map<String, Json>| {
            required(schema).all(|key| entries.iter().any(|entry| entry.key == key))
        };
        let schema = match schemas {
            [only] => only,
            several => match several.iter().find(meant) {
                Some(schema) => schema,
                None => {
                    self.no_alternative(entries, several, place);
                    return Json::Null;
                }
            },
        };
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&empty);
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        let mut checked = Map::new();
        for entry in entries {
            if let Some(of_value) = properties.get(&entry.key).or(others) {
                let below = Place { span: &entry.key_span, path: place.below(&entry.key) };
                checked.insert(entry.key.clone(), self.node(&entry.value, of_value, &below));
            } else {
                self.unknown_key(entry, properties.keys().map(String::as_str), place);
            }
        }
        for key in required(schema).filter(|key| !checked.contains_key(*key)) {
            let diagnostic = Diagnostic::new(place.span, format!("missing key `{key}`{}", place.within()));
            let description = properties.get(key).and_then(|property| property.get("description")?.as_str());
            self.found.push(match description {
                Some(description) => diagnostic.help(format!("`{key}`: {description}")),
                None => diagnostic,
            });
        }
        Json::Object(checked)
    }

    fn no_alternative(&mut self, entries: &[Entry], schemas: &[&Map<String, Json>], place: &Place<'_>) {
        let keys: Vec<&str> = schemas.iter().flat_map(|schema| required(schema)).collect();
        match entries.first() {
            Some(entry) => self.unknown_key(entry, keys.into_iter(), place),
            None => {
                let message = format!("{}expected one of {}", place.prefix(), listed(keys.into_iter()));
                self.found.push(Diagnostic::new(place.span, message));
            }
        }
    }

    fn unknown_key<'k>(
        &mut self,
        entry: &Entry,
        known: impl Iterator<Item = &'k str> + Clone,
        place: &Place<'_>,
    ) {
        // To look for similar words takes time, and nobody would see them.
        if self.found.is_full() {
            return;
        }
        let message = format!("unknown key `{}`{}", entry.key, place.within());
        self.found.push(Diagnostic::new(&entry.key_span, message).help(near_miss(&entry.key, known)));
    }
}

fn required(schema: &Map<String, Json>) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
}

/// "did you mean `hold`? allowed here: ..."
pub(crate) fn near_miss<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    let distance = |candidate: &&str| strsim::damerau_levenshtein(&word.to_lowercase(), candidate);
    // The distance takes time in proportion to both lengths; no word of ours is that long.
    let nearest = known.clone().filter(|_| word.len() <= 64).min_by_key(distance);
    let nearest = nearest.filter(|candidate| distance(candidate) <= (candidate.len() / 3).max(1));
    let allowed = format!("allowed here: {}", listed(known));
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`? {allowed}"),
        None => allowed,
    }
}

fn listed<'k>(words: impl Iterator<Item = &'k str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

/// A word of an `enum`, as it is written.
fn word(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), str::to_owned)
}

/// What is allowed, for people.
fn expected(allowed: &Allowed<'_>) -> String {
    let mut parts: Vec<String> = Vec::new();
    if !allowed.words.is_empty() {
        parts.push(format!("one of {}", words(allowed).join(", ")));
    }
    for schema in &allowed.scalars {
        let form = schema.get("format").and_then(Json::as_str).and_then(quantity::form);
        parts.push(
            form.map_or_else(|| scalar_name(schema).to_owned(), |form| format!("{} {}", form.name, form.how)),
        );
    }
    if !allowed.maps.is_empty() {
        let keys: Vec<&str> = allowed.maps.iter().flat_map(|schema| required(schema)).collect();
        parts.push(match keys.as_slice() {
            [] => "a map".to_owned(),
            keys if allowed.maps.len() > 1 => format!("a map with one of the keys {}", keys.join(", ")),
            keys => format!("a map with {}", keys.join(", ")),
        });
    }
    if !allowed.lists.is_empty() {
        parts.push("a list".to_owned());
    }
    parts.join(", or ")
}

/// How a value is written that only an environment variable may hold.
fn secret(allowed: &Allowed<'_>, path: &str) -> Option<String> {
    let is_variable = |schema: &&Map<String, Json>| required(schema).eq(["env"]);
    let only = allowed.maps.first().filter(|schema| allowed.maps.len() == 1 && is_variable(schema));
    let key = path.rsplit('.').next().unwrap_or(path);
    only.map(|_| {
        format!(
            "write `{key}: {{ env: NAME }}` and set the environment variable NAME: it does not belong in a file"
        )
    })
}

/// The words of an enumeration, each once: a number that may also stand in quotes is listed twice in the schema.
pub(crate) fn words(allowed: &Allowed<'_>) -> Vec<String> {
    let mut words: Vec<String> = allowed.words.iter().map(|json| word(json)).collect();
    words.dedup();
    words
}

/// What a single value of a schema is, with its article.
pub(crate) fn scalar_name(schema: &Map<String, Json>) -> &'static str {
    let types = schema.get("type");
    let is = |name: &str| match types {
        Some(Json::String(only)) => only == name,
        Some(Json::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    };
    match () {
        () if is("string") => "a text",
        () if is("integer") => "a whole number",
        () if is("number") => "a number",
        () => "`true` or `false`",
    }
}

/// Reads a scalar as whatever is allowed.
fn scalar_as(scalar: &Scalar, allowed: &Allowed<'_>) -> Result<Json, Complaint> {
    if let Some(found) = allowed.words.iter().find(|json| word(json) == scalar.text) {
        return Ok((*found).clone());
    }
    let mut complaint = None;
    for schema in &allowed.scalars {
        match single(scalar, schema) {
            Ok(json) => return Ok(json),
            Err(wrong) => complaint = Some(wrong),
        }
    }
    let many = !allowed.words.is_empty() && !allowed.scalars.is_empty();
    match complaint {
        Some(complaint) if !many => Err(complaint),
        _ => {
            let words = words(allowed);
            Err(Complaint {
                message: format!("`{}` is not allowed here", shortened(&scalar.text)),
                help: Some(if allowed.maps.is_empty() && !many {
                    near_miss(&scalar.text, words.iter().map(String::as_str))
                } else {
                    near_miss(&scalar.text, words.iter().map(String::as_str)) + "; or " + &others(allowed)
                }),
            })
        }
    }
}

/// What is allowed besides words.
fn others(allowed: &Allowed<'_>) -> String {
    let Allowed { maps, lists, scalars, .. } = allowed;
    expected(&Allowed {
        null: false,
        words: Vec::new(),
        maps: maps.clone(),
        lists: lists.clone(),
        scalars: scalars.clone(),
    })
}

/// Checks a scalar against the schema of one kind of scalar.
fn single(scalar: &Scalar, schema: &Map<String, Json>) -> Result<Json, Complaint> {
    let text = scalar.text.as_str();
    if let Some(form) = schema.get("format").and_then(Json::as_str).and_then(quantity::form) {
        return match (form.check)(text) {
            Ok(()) => Ok(Json::String(text.to_owned())),
            Err(reason) => Err(Complaint {
                message: format!("`{}` is not {}: {reason}", shortened(text), form.name),
                help: Some(format!("{} is {}", form.name, form.how)),
            }),
        };
    }
    let wanted = scalar_name(schema);
    let wrong =
        || Complaint { message: format!("expected {wanted}, found `{}`", shortened(text)), help: None };
    match wanted {
        "a text" if matches!(scalar.kind(), ScalarKind::Text | ScalarKind::Number) => {
            let most = schema.get("maxLength").and_then(Json::as_u64);
            match most.filter(|most| text.chars().count() as u64 > *most) {
                None => Ok(Json::String(text.to_owned())),
                Some(most) => Err(Complaint {
                    message: format!("`{}` is longer than {most} characters", shortened(text)),
                    help: None,
                }),
            }
        }
        "a whole number" if scalar.plain => {
            let unsigned = text.parse::<u64>().map(Json::from);
            let number = unsigned.or_else(|_| text.parse::<i64>().map(Json::from)).map_err(|_| wrong())?;
            within_bounds(number, schema)
        }
        "a number" if scalar.kind() == ScalarKind::Number => {
            let number = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).ok_or_else(wrong)?;
            within_bounds(Json::Number(number), schema)
        }
        "`true` or `false`" if scalar.kind() == ScalarKind::Boolean => {
            Ok(Json::Bool(text.eq_ignore_ascii_case("true")))
        }
        _ => Err(wrong()),
    }
}

fn within_bounds(number: Json, schema: &Map<String, Json>) -> Result<Json, Complaint> {
    let bound = |key: &str| schema.get(key).and_then(Json::as_f64);
    // The schema says of some types how large they are by their name alone.
    let widest = match schema.get("format").and_then(Json::as_str) {
        Some("uint16") => Some(f64::from(u16::MAX)),
        Some("uint32") => Some(f64::from(u32::MAX)),
        _ => None,
    };
    let value = number.as_f64().unwrap_or(f64::NAN);
    let low = bound("minimum").is_some_and(|minimum| value < minimum);
    let low_or_equal = bound("exclusiveMinimum").is_some_and(|minimum| value <= minimum);
    let high = bound("maximum").or(widest).is_some_and(|maximum| value > maximum);
    if !(low || low_or_equal || high) {
        return Ok(number);
    }
    let from = schema.get("minimum").map(|minimum| format!("at least {minimum}"));
    let above = schema.get("exclusiveMinimum").map(|minimum| format!("above {minimum}"));
    let to = bound("maximum").or(widest).map(|maximum| format!("at most {maximum}"));
    let range: Vec<String> = from.into_iter().chain(above).chain(to).collect();
    Err(Complaint {
        message: format!("{number} is out of range"),
        help: Some(format!("it must be {}", range.join(" and "))),
    })
}

/// A text short enough for a message.
pub(crate) fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}
