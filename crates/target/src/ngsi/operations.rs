//! What requests do to the entities of their tenant, wherever those are kept.

use super::attribute::{self, Attribute, Attributes, Format};
use super::entities::{self, Change, Entities, EntityPayload, Key, Selection};
use super::filter::Filter;
use super::refusal::Refusal;
use super::request::{Answer, Request};
use super::subscriptions;
use plimsoll_codec::http::escape_path;
use serde_json::{Value, json};

/// Most entities of one list, and how many are given where nothing is said.
pub const LONGEST_LIST: usize = 1000;
pub const LIST: usize = 20;

/// A request about entities, and those of its tenant that it may concern.
pub struct Operations<'a> {
    pub request: &'a Request<'a>,
    pub entities: &'a mut Entities,
    /// How many bytes the tenant's entities may take; `None` where there is no room for another tenant.
    pub room: Option<usize>,
    /// Sees everything that is done, as it is done.
    pub observe: &'a mut dyn FnMut(Done<'_>),
}

/// Something that was done to an entity.
#[derive(Clone, Copy)]
pub enum Done<'a> {
    /// It was made, or attributes were written; `attributes` are all that it has now.
    Written { change: &'a Change, attributes: &'a Attributes },
    /// Attributes were taken away.
    Removed { key: &'a Key, names: &'a [String] },
    /// It was deleted.
    Deleted { key: &'a Key },
}

/// Which entities a request may concern.
pub enum Named {
    /// Any of the tenant's.
    Any,
    /// Those with these ids, and types where they are given; under one path where that is known.
    These { path: Option<String>, entities: Vec<(String, Option<String>)> },
}

/// Whether a request is about entities.
pub fn is_of_entities(request: &Request<'_>) -> bool {
    let mut parts = request.path.iter().map(String::as_str);
    parts.next() == Some("v2") && matches!(parts.next(), Some("entities" | "op"))
}

/// Which entities a request may concern: none where it will be refused anyway.
pub fn named(request: &Request<'_>) -> Named {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let of_body = |entity: &Value| {
        let text = |name: &str| entity.get(name).and_then(Value::as_str).map(str::to_owned);
        Some((text("id")?, text("type")))
    };
    let mut scope = Some(request.scope()).filter(|scope| !scope.ends_with('#'));
    let entities: Vec<(String, Option<String>)> = match (path.as_slice(), request.method) {
        (["v2", "entities"], "GET") | (["v2", "op", "query"], "POST") => return Named::Any,
        (["v2", "entities"], _) => {
            scope = request.one_scope().ok();
            of_body(&request.json().unwrap_or_default()).into_iter().collect()
        }
        (["v2", "op", ..], _) => {
            let body = request.json().unwrap_or_default();
            let list = body.get("entities").and_then(Value::as_array);
            list.into_iter().flatten().filter_map(of_body).collect()
        }
        ([_, _, id, ..], _) => vec![((*id).to_owned(), request.parameter("type").map(str::to_owned))],
        _ => Vec::new(),
    };
    Named::These { path: scope.map(str::to_owned), entities }
}

impl Operations<'_> {
    /// Does what the request asks for.
    ///
    /// # Errors
    /// It is refused. Of several entities, those before the one that is refused stay written.
    pub fn perform(mut self) -> Result<Answer, Refusal> {
        let request = self.request;
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        match (path.as_slice(), request.method) {
            (["v2", "entities"], "GET") => self.list(),
            (["v2", "entities"], "POST") => self.create(),
            (["v2", "entities", id], "GET") => self.retrieve(id),
            (["v2", "entities", id], "DELETE") => self.delete(id),
            (["v2", "entities", id, "attrs"], "GET") => self.retrieve_attributes(id),
            (["v2", "entities", id, "attrs"], method @ ("POST" | "PATCH" | "PUT")) => {
                let action = match method {
                    "POST" if request.has_option("append") => Action::AppendStrict,
                    "POST" => Action::Append,
                    "PATCH" => Action::Update,
                    _ => Action::Replace,
                };
                self.write_attributes(id, action)
            }
            (["v2", "entities", id, "attrs", name], method) => self.attribute(id, name, method),
            (["v2", "entities", id, "attrs", name, "value"], method) => self.value(id, name, method),
            (["v2", "op", "update"], "POST") => self.update(),
            (["v2", "op", "query"], "POST") => self.query(),
            (_, method) => Err(Refusal::method(method)),
        }
    }

    /// The entity that a path names.
    fn find(&self, id: &str) -> Result<(&Key, &Attributes), Refusal> {
        self.entities.find(id, self.request.parameter("type"), self.request.scope())
    }

    fn list(&self) -> Result<Answer, Refusal> {
        let request = self.request;
        let several = |name: &str| match request.parameter(name) {
            Some(list) => list.split(',').map(str::to_owned).collect(),
            None => Vec::new(),
        };
        let selection = Selection {
            ids: several("id"),
            id_pattern: request.parameter("idPattern").map(subscriptions::pattern).transpose()?,
            kinds: several("type"),
            kind_pattern: request.parameter("typePattern").map(subscriptions::pattern).transpose()?,
            filter: request.parameter("q").map(Filter::read).transpose()?,
        };
        self.found(&[selection], &several("attrs"))
    }

    fn query(&self) -> Result<Answer, Refusal> {
        let Value::Object(written) = self.request.json()? else {
            return Err(Refusal::bad("a query is a JSON object"));
        };
        if let Some(unknown) =
            written.keys().find(|name| !["entities", "attrs", "expression"].contains(&name.as_str()))
        {
            return Err(Refusal::bad(format!("this target does not know `{unknown}` of a query")));
        }
        let filter =
            match written.get("expression").map(|expression| expression.get("q").and_then(Value::as_str)) {
                None => None,
                Some(Some(q)) => Some(Filter::read(q)?),
                Some(None) => return Err(Refusal::bad("an expression has a q, a text")),
            };
        let mut selections = match written.contains_key("entities") {
            true => subscriptions::selections(written.get("entities"))?,
            false => vec![Selection::default()],
        };
        selections.iter_mut().for_each(|selection| selection.filter.clone_from(&filter));
        self.found(&selections, &subscriptions::texts(written.get("attrs"), "attrs")?)
    }

    /// Those of the entities that selections take which lie within offset and limit.
    fn found(&self, selections: &[Selection], only: &[String]) -> Result<Answer, Refusal> {
        let request = self.request;
        let limit = request.number("limit", LIST, LONGEST_LIST)?.max(1);
        let offset = request.number("offset", 0, usize::MAX)?;
        let (only, format) = ((!only.is_empty()).then_some(only), format(request));
        let all = Selection::default();
        let known = self.entities.select(&all, request.scope());
        let taken = known
            .filter(|(key, attributes)| selections.iter().any(|selection| selection.takes(key, attributes)));
        let (mut list, mut count) = (Vec::new(), 0);
        for (key, attributes) in taken {
            if count >= offset && list.len() < limit {
                list.push(entities::write(key, attributes, only, format));
            }
            count += 1;
        }
        let answer = Answer::json(&Value::Array(list));
        Ok(match request.has_option("count") {
            true => answer.with("Fiware-Total-Count", count.to_string()),
            false => answer,
        })
    }

    fn create(&mut self) -> Result<Answer, Refusal> {
        let request = self.request;
        let written = EntityPayload::read(request.json()?, format(request))?;
        let scope = request.one_scope()?;
        let found =
            self.entities.find(&written.id, written.kind.as_deref(), scope).map(|(key, _)| key.clone());
        if let (true, Ok(key)) = (request.has_option("upsert"), found) {
            self.put(&key, written.attributes)?;
            return Ok(Answer::no_content());
        }
        let location = location(&written);
        self.add(written)?;
        Ok(match request.has_option("upsert") {
            true => Answer::no_content(),
            false => Answer::created(location),
        })
    }

    fn retrieve(&self, id: &str) -> Result<Answer, Refusal> {
        let (key, attributes) = self.find(id)?;
        let only = only(self.request);
        Ok(Answer::json(&entities::write(key, attributes, only.as_deref(), format(self.request))))
    }

    fn retrieve_attributes(&self, id: &str) -> Result<Answer, Refusal> {
        let (_, attributes) = self.find(id)?;
        let only = only(self.request);
        let written = entities::write_attributes(attributes, only.as_deref(), format(self.request));
        Ok(Answer::json(&Value::Object(written)))
    }

    fn delete(&mut self, id: &str) -> Result<Answer, Refusal> {
        let key = self.find(id)?.0.clone();
        self.remove(&key);
        Ok(Answer::no_content())
    }

    fn write_attributes(&mut self, id: &str, action: Action) -> Result<Answer, Refusal> {
        let Value::Object(written) = self.request.json()? else {
            return Err(Refusal::bad("attributes are a JSON object"));
        };
        let attributes = attribute::read_all(written, format(self.request))?;
        let (key, known) = self.find(id)?;
        action.check(known, &attributes)?;
        let key = key.clone();
        match action {
            Action::Replace => self.replace(&key, attributes)?,
            _ => self.put(&key, attributes)?,
        }
        Ok(Answer::no_content())
    }

    fn attribute(&mut self, id: &str, name: &str, method: &str) -> Result<Answer, Refusal> {
        let (key, attributes) = self.find(id)?;
        let known = attribute_of(attributes, name)?;
        match method {
            "GET" => Ok(Answer::json(&known.write(Format::Normalized))),
            "PUT" => {
                let (key, written) = (key.clone(), Attribute::read(self.request.json()?)?);
                self.put(&key, [(name.to_owned(), written)].into())?;
                Ok(Answer::no_content())
            }
            "DELETE" => {
                let key = key.clone();
                self.remove_attributes(&key, &[name.to_owned()]);
                Ok(Answer::no_content())
            }
            _ => Err(Refusal::method(method)),
        }
    }

    fn value(&mut self, id: &str, name: &str, method: &str) -> Result<Answer, Refusal> {
        let (key, attributes) = self.find(id)?;
        let known = attribute_of(attributes, name)?;
        match method {
            "GET" => Ok(Answer::json(&known.value)),
            "PUT" => {
                let Attribute { kind, metadata, .. } = known.clone();
                // Read like an attribute, so that its characters are checked by its type.
                let written = json!({ "type": kind, "value": self.request.json()?, "metadata": metadata });
                let (key, written) = (key.clone(), Attribute::read(written)?);
                self.put(&key, [(name.to_owned(), written)].into())?;
                Ok(Answer::no_content())
            }
            _ => Err(Refusal::method(method)),
        }
    }

    /// Several entities at once. Those before one that is refused stay written, as in the real thing.
    fn update(&mut self) -> Result<Answer, Refusal> {
        let Value::Object(mut written) = self.request.json()? else {
            return Err(Refusal::bad("an update is a JSON object"));
        };
        let action = match written.get("actionType").and_then(Value::as_str) {
            Some("append") => Action::Append,
            Some("appendStrict") => Action::AppendStrict,
            Some("update") => Action::Update,
            Some("replace") => Action::Replace,
            Some("delete") => Action::Delete,
            _ => {
                return Err(Refusal::bad(
                    "actionType is one of append, appendStrict, update, replace and delete",
                ));
            }
        };
        let Some(Value::Array(list)) = written.shift_remove("entities") else {
            return Err(Refusal::bad("an update has entities, a list"));
        };
        for entity in list {
            let entity = EntityPayload::read(entity, format(self.request))?;
            self.update_one(entity, action)?;
        }
        Ok(Answer::no_content())
    }

    fn update_one(&mut self, entity: EntityPayload, action: Action) -> Result<(), Refusal> {
        let found = self.entities.find(&entity.id, entity.kind.as_deref(), self.request.scope());
        let (key, known) = match found {
            Ok((key, known)) => (key.clone(), known),
            Err(refusal) if refusal.status == 404 && action.creates() => return self.add(entity),
            Err(refusal) => return Err(refusal),
        };
        action.check(known, &entity.attributes)?;
        match action {
            Action::Delete if entity.attributes.is_empty() => self.remove(&key),
            Action::Delete => self.remove_attributes(&key, &names(&entity.attributes)),
            Action::Replace => self.replace(&key, entity.attributes)?,
            Action::Append | Action::AppendStrict | Action::Update => self.put(&key, entity.attributes)?,
        }
        Ok(())
    }

    fn add(&mut self, written: EntityPayload) -> Result<(), Refusal> {
        self.check_room()?;
        let change = self.entities.create(written, self.request.one_scope()?)?;
        self.wrote(&change);
        Ok(())
    }

    fn put(&mut self, key: &Key, attributes: Attributes) -> Result<(), Refusal> {
        self.check_room()?;
        let change = self.entities.put(key, attributes);
        self.wrote(&change);
        Ok(())
    }

    /// Writes attributes and takes the others of the entity away.
    fn replace(&mut self, key: &Key, attributes: Attributes) -> Result<(), Refusal> {
        let before = self.entities.attributes(key).map(names).unwrap_or_default();
        let gone: Vec<String> = before.into_iter().filter(|name| !attributes.contains_key(name)).collect();
        self.remove_attributes(key, &gone);
        self.put(key, attributes)
    }

    fn wrote(&mut self, change: &Change) {
        if let Some(attributes) = self.entities.attributes(&change.key) {
            (self.observe)(Done::Written { change, attributes });
        }
    }

    fn remove_attributes(&mut self, key: &Key, names: &[String]) {
        self.entities.remove_attributes(key, names);
        (self.observe)(Done::Removed { key, names });
    }

    fn remove(&mut self, key: &Key) {
        self.entities.delete(key);
        (self.observe)(Done::Deleted { key });
    }

    fn check_room(&self) -> Result<(), Refusal> {
        match self.room {
            Some(room) if self.entities.bytes() < room => Ok(()),
            Some(_) => Err(Refusal::full("there is no room for more entities")),
            None => Err(Refusal::full("there is no room for another tenant")),
        }
    }
}

/// What is done with attributes that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Append,
    AppendStrict,
    Update,
    Replace,
    Delete,
}

impl Action {
    fn creates(self) -> bool {
        matches!(self, Action::Append | Action::AppendStrict)
    }

    /// Whether it can be done to an entity with these attributes.
    fn check(self, known: &Attributes, written: &Attributes) -> Result<(), Refusal> {
        let is_known = |name: &&String| known.contains_key(*name);
        let wrong = match self {
            Action::AppendStrict => written.keys().find(is_known),
            Action::Update | Action::Delete => written.keys().find(|name| !is_known(name)),
            Action::Append | Action::Replace => None,
        };
        match (self, wrong) {
            (_, None) => Ok(()),
            (Action::AppendStrict, Some(name)) => {
                Err(Refusal::unprocessable(format!("the attribute `{name}` exists already")))
            }
            (_, Some(name)) => Err(Refusal::unprocessable(format!("the attribute `{name}` does not exist"))),
        }
    }
}

fn format(request: &Request<'_>) -> Format {
    if request.has_option("keyValues") { Format::KeyValues } else { Format::Normalized }
}

fn only(request: &Request<'_>) -> Option<Vec<String>> {
    request.parameter("attrs").map(|list| list.split(',').map(str::to_owned).collect())
}

fn names(attributes: &Attributes) -> Vec<String> {
    attributes.keys().cloned().collect()
}

fn attribute_of<'a>(attributes: &'a Attributes, name: &str) -> Result<&'a Attribute, Refusal> {
    attributes.get(name).ok_or_else(|| Refusal::not_found(format!("the attribute `{name}`")))
}

/// Where a new entity is found.
fn location(written: &EntityPayload) -> String {
    let mut location = b"/v2/entities/".to_vec();
    escape_path(written.id.as_bytes(), &mut location);
    if let Some(kind) = &written.kind {
        location.extend_from_slice(b"?type=");
        escape_path(kind.as_bytes(), &mut location);
    }
    String::from_utf8_lossy(&location).into_owned()
}
