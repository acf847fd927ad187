//! Entities of one tenant: found by id, type and path.

use super::attribute::{self, Attribute, Attributes, Format, checked};
use super::filter::Filter;
use super::refusal::Refusal;
use super::request::is_in_scope;
use regex_lite::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Type of an entity that is written without one.
const NO_TYPE: &str = "Thing";
/// What an entity takes beside its texts, in bytes, roughly.
const ENTITY_BYTES: usize = 200;

/// By what an entity is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its id.
    pub id: String,
    /// Its type.
    pub kind: String,
    /// The path it lies under.
    pub path: String,
}

/// An entity as it comes in.
pub struct EntityPayload {
    /// Its id.
    pub id: String,
    /// Its type, where one is written.
    pub kind: Option<String>,
    /// Its attributes.
    pub attributes: Attributes,
}

impl EntityPayload {
    /// Reads an entity.
    ///
    /// # Errors
    /// It has no id, or something in it is not what it must be.
    pub fn read(value: Value, format: Format) -> Result<EntityPayload, Refusal> {
        let Value::Object(mut object) = value else {
            return Err(Refusal::bad("an entity is a JSON object"));
        };
        let id = match object.shift_remove("id") {
            Some(Value::String(id)) => checked(id, "the id of an entity")?,
            _ => return Err(Refusal::bad("an entity has an id, a text")),
        };
        let kind = match object.shift_remove("type") {
            Some(Value::String(kind)) => Some(checked(kind, "the type of an entity")?),
            Some(_) => return Err(Refusal::bad("the type of an entity is a text")),
            None => None,
        };
        Ok(EntityPayload { id, kind, attributes: attribute::read_all(object, format)? })
    }
}

/// Which entities are meant.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Those ids; empty for any.
    pub ids: Vec<String>,
    /// Ids that match.
    pub id_pattern: Option<Regex>,
    /// Those types; empty for any.
    pub kinds: Vec<String>,
    /// Types that match.
    pub kind_pattern: Option<Regex>,
    /// Attributes that are so.
    pub filter: Option<Filter>,
}

impl Selection {
    /// Whether an entity is meant, its attributes apart.
    pub fn names(&self, key: &Key) -> bool {
        (self.ids.is_empty() || self.ids.contains(&key.id))
            && (self.kinds.is_empty() || self.kinds.contains(&key.kind))
            && self.id_pattern.as_ref().is_none_or(|pattern| pattern.is_match(&key.id))
            && self.kind_pattern.as_ref().is_none_or(|pattern| pattern.is_match(&key.kind))
    }

    /// Whether an entity with those attributes is meant.
    pub fn takes(&self, key: &Key, attributes: &Attributes) -> bool {
        self.names(key) && self.filter.as_ref().is_none_or(|filter| filter.holds(attributes))
    }
}

/// What a change to an entity did.
#[derive(Clone)]
pub struct Change {
    /// Which.
    pub key: Key,
    /// Names of the attributes that were written.
    pub written: Vec<String>,
    /// Those of them whose type, value or metadata are others than before.
    pub changed: Vec<String>,
}

/// Entities of one tenant.
#[derive(Default)]
pub struct Entities {
    entities: BTreeMap<Key, Attributes>,
    bytes: usize,
}

impl Entities {
    /// Roughly how much memory they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an entity that is kept elsewhere, in the place of one like it.
    pub fn load(&mut self, key: Key, attributes: Attributes) {
        self.delete(&key);
        self.bytes += size(&key, &attributes);
        self.entities.insert(key, attributes);
    }

    /// Makes an entity.
    ///
    /// # Errors
    /// There is one like it.
    pub fn create(&mut self, written: EntityPayload, path: &str) -> Result<Change, Refusal> {
        let EntityPayload { id, kind, attributes } = written;
        let kind = kind.unwrap_or_else(|| NO_TYPE.to_owned());
        let key = Key { id, kind, path: path.to_owned() };
        let names: Vec<String> = attributes.keys().cloned().collect();
        match self.entities.entry(key.clone()) {
            Entry::Occupied(_) => Err(Refusal::unprocessable("Already Exists")),
            Entry::Vacant(place) => {
                self.bytes += size(&key, &attributes);
                place.insert(attributes);
                Ok(Change { key, written: names.clone(), changed: names })
            }
        }
    }

    /// The one entity with that id, of a type where one is given, in a scope.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn find(&self, id: &str, kind: Option<&str>, scope: &str) -> Result<(&Key, &Attributes), Refusal> {
        let first = Key { id: id.to_owned(), kind: String::new(), path: String::new() };
        let same = self.entities.range(first..).take_while(|(key, _)| key.id == id);
        let mut meant =
            same.filter(|(key, _)| kind.is_none_or(|kind| key.kind == kind) && is_in_scope(scope, &key.path));
        match (meant.next(), meant.next()) {
            (None, _) => Err(Refusal::not_found(format!("the entity `{id}`"))),
            (Some(one), None) => Ok(one),
            (Some(_), Some(_)) => Err(Refusal::too_many(id)),
        }
    }

    /// The entities that a selection takes, in the order of their ids.
    pub fn select<'a>(
        &'a self,
        selection: &'a Selection,
        scope: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Attributes)> {
        let in_scope = self.entities.iter().filter(move |(key, _)| is_in_scope(scope, &key.path));
        in_scope.filter(move |(key, attributes)| selection.takes(key, attributes))
    }

    /// Writes attributes of an entity, new ones and old ones.
    pub fn put(&mut self, key: &Key, attributes: Attributes) -> Change {
        let (mut written, mut changed) = (Vec::new(), Vec::new());
        let known = self.entities.entry(key.clone()).or_default();
        for (name, attribute) in attributes {
            self.bytes += attribute_size(&name, &attribute);
            let before = known.insert(name.clone(), attribute);
            self.bytes =
                self.bytes.saturating_sub(before.as_ref().map_or(0, |before| attribute_size(&name, before)));
            if before.as_ref() != known.get(&name) {
                changed.push(name.clone());
            }
            written.push(name);
        }
        Change { key: key.clone(), written, changed }
    }

    /// Takes attributes away from an entity.
    pub fn remove_attributes(&mut self, key: &Key, names: &[String]) {
        if let Some(known) = self.entities.get_mut(key) {
            for name in names {
                let gone = known.remove(name).map_or(0, |gone| attribute_size(name, &gone));
                self.bytes = self.bytes.saturating_sub(gone);
            }
        }
    }

    /// Deletes an entity.
    pub fn delete(&mut self, key: &Key) {
        if let Some(attributes) = self.entities.remove(key) {
            self.bytes = self.bytes.saturating_sub(size(key, &attributes));
        }
    }

    /// The attributes of an entity that is there.
    pub fn attributes(&self, key: &Key) -> Option<&Attributes> {
        self.entities.get(key)
    }
}

/// An entity as JSON; `only`: the attributes that are written, all where it is `None`.
pub fn write(key: &Key, attributes: &Attributes, only: Option<&[String]>, format: Format) -> Value {
    let mut object = Map::new();
    object.insert("id".into(), key.id.clone().into());
    object.insert("type".into(), key.kind.clone().into());
    object.extend(write_attributes(attributes, only, format));
    Value::Object(object)
}

/// Attributes as JSON.
pub fn write_attributes(
    attributes: &Attributes,
    only: Option<&[String]>,
    format: Format,
) -> Map<String, Value> {
    let write = |(name, attribute): (&String, &Attribute)| (name.clone(), attribute.write(format));
    match only {
        Some(only) => only.iter().filter_map(|name| attributes.get_key_value(name)).map(write).collect(),
        None => attributes.iter().map(write).collect(),
    }
}

fn size(key: &Key, attributes: &Attributes) -> usize {
    let attributes: usize = attributes.iter().map(|(name, attribute)| attribute_size(name, attribute)).sum();
    ENTITY_BYTES + key.id.len() + key.kind.len() + key.path.len() + attributes
}

fn attribute_size(name: &str, attribute: &Attribute) -> usize {
    name.len() + attribute.bytes()
}
