//! Entities in a document store: each request reads those that it names, and writes what it changed before it is answered.
//! So several brokers before one store see each other's entities. Nothing is locked while the store is asked: of two requests
//! that write one attribute at once, the later one stays.
//!
//! An entity is a document of the collection `entities`, in a database for each tenant. Its `_id` is one text of tenant, path,
//! type and id, by which a router knows the store of the entity; `attrs` has the JSON text of each attribute.

mod subscriptions;

use super::StoreSettings;
use super::attribute::{Attribute, Attributes, Format};
use super::broker::Broker;
use super::entities::{Change, Entities, Key};
use super::operations::{self, Done, Named, Operations};
use super::refusal::Refusal;
use super::request::{Answer, Request};
use crate::documents::client::Client;
use crate::threads::lock;
use plimsoll_codec::mongodb::bson::{Document, Value};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::{Error, ErrorKind, Result as IoResult};
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a request waits for a free connection, and the store may take to accept one and to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The collection of entities in the database of a tenant.
const COLLECTION: &str = "entities";

/// A store, and the connections to it.
pub struct Store {
    address: SocketAddr,
    connections: Mutex<Connections>,
    /// Rings when a connection is free again.
    bell: Condvar,
    /// When it was last looked for what other brokers subscribed.
    looked: Mutex<Option<Instant>>,
}

struct Connections {
    /// How many may be begun or taken.
    free: usize,
    /// Those that are open and wait.
    kept: Vec<Client>,
}

impl Store {
    /// Connects when it is first asked.
    pub fn new(settings: &StoreSettings) -> Store {
        let connections = Connections { free: settings.connections.max(1), kept: Vec::new() };
        let connections = Mutex::new(connections);
        Store { address: settings.address, connections, bell: Condvar::new(), looked: Mutex::default() }
    }

    /// Does what a request asks for.
    pub fn answer(&self, request: &Request<'_>, broker: &Mutex<Broker>) -> Answer {
        lock(broker).count();
        self.perform(request, broker).unwrap_or_else(Answer::from)
    }

    fn perform(&self, request: &Request<'_>, broker: &Mutex<Broker>) -> Result<Answer, Refusal> {
        let tenant = &request.tenant;
        if !operations::is_of_entities(request) {
            return self.of_others(request, broker);
        }
        let mut entities = self.read(tenant, &operations::named(request))?;
        let mut journal = Journal::default();
        let mut observe = |done: Done<'_>| journal.note(done);
        let operations =
            Operations { request, entities: &mut entities, room: Some(usize::MAX), observe: &mut observe };
        // What was done before a refusal stays.
        let answer = operations.perform();
        self.write(tenant, &journal)?;
        if !journal.written.is_empty() {
            self.look_for_subscriptions(broker);
            lock(broker).notify(request, &journal.written);
        }
        answer
    }

    /// The entities of a tenant that may be concerned.
    fn read(&self, tenant: &str, named: &Named) -> Result<Entities, Refusal> {
        let mut found = Entities::default();
        let Some(filter) = filter(tenant, named) else { return Ok(found) };
        let find = command("find", COLLECTION, &database(tenant)).with("filter", filter);
        for row in self.rows(find)? {
            let (key, attributes) =
                read(&row).ok_or_else(|| self.failed("it has a document that is no entity"))?;
            found.load(key, attributes);
        }
        Ok(found)
    }

    fn write(&self, tenant: &str, journal: &Journal) -> Result<(), Refusal> {
        let (mut deletes, mut updates): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
        for (key, touched) in &journal.touched {
            let query = Document::default().with("_id", id(tenant, key));
            if touched.is_deleted {
                deletes.push(Document::default().with("q", query.clone()).with("limit", 1).into());
            }
            if touched.is_written {
                let change = touched.update(key);
                updates
                    .push(Document::default().with("q", query).with("u", change).with("upsert", true).into());
            }
        }
        self.change(COLLECTION, &database(tenant), deletes, updates)
    }

    /// The documents that are found.
    fn rows(&self, find: Document) -> Result<Vec<Document>, Refusal> {
        let answer = self.ask(find)?;
        let rows = match answer.get("cursor") {
            Some(Value::Document(cursor)) => cursor.get("firstBatch"),
            _ => None,
        };
        let Some(Value::Array(rows)) = rows else { return Err(self.failed("it answered without documents")) };
        let row = |row: &Value| match row {
            Value::Document(row) => Ok(row.clone()),
            _ => Err(self.failed("it answered with something that is no document")),
        };
        rows.iter().map(row).collect()
    }

    /// Deletes and updates documents of a collection.
    fn change(
        &self,
        collection: &str,
        database: &str,
        deletes: Vec<Value>,
        updates: Vec<Value>,
    ) -> Result<(), Refusal> {
        for (name, list, statements) in [("delete", "deletes", deletes), ("update", "updates", updates)] {
            if !statements.is_empty() {
                let statements =
                    command(name, collection, database).with(list, statements).with("ordered", false);
                let answer = self.ask(statements)?;
                if let Some(Value::Array(errors)) = answer.get("writeErrors") {
                    return Err(self.failed(reason(errors.first())));
                }
            }
        }
        Ok(())
    }

    /// Asks the store, and checks that it does what it is asked.
    fn ask(&self, command: Document) -> Result<Document, Refusal> {
        let kept = self.take()?;
        let (client, answer) = self.ask_over(kept, command);
        self.give_back(client);
        let answer = answer.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                self.failed(format!("no answer within {PATIENCE:?}"))
            }
            _ => self.failed(error),
        })?;
        match answer.get("ok").is_some_and(Value::is_true) {
            true => Ok(answer),
            false => Err(self.failed(reason(Some(&Value::Document(answer))))),
        }
    }

    /// Asks over a connection that is kept or begun, and gives it back if it still serves. One that was closed while nobody
    /// used it is made again, once: what the store is asked may be done twice.
    fn ask_over(&self, kept: Option<Client>, command: Document) -> (Option<Client>, IoResult<Document>) {
        if let Some(mut client) = kept {
            match client.ask(command.clone()) {
                Err(error) if was_closed(&error) => {}
                answer => return (answer.is_ok().then_some(client), answer),
            }
        }
        let mut client = match Client::connect_within(self.address, PATIENCE) {
            Ok(client) => client,
            Err(error) => return (None, Err(error)),
        };
        let answer = client.ask(command);
        (answer.is_ok().then_some(client), answer)
    }

    /// Waits for the right to use a connection, and takes one that is open if there is any.
    fn take(&self) -> Result<Option<Client>, Refusal> {
        let none_is_free = |connections: &mut Connections| connections.free == 0;
        let (mut connections, _) = self
            .bell
            .wait_timeout_while(lock(&self.connections), PATIENCE, none_is_free)
            .unwrap_or_else(PoisonError::into_inner);
        let Some(left) = connections.free.checked_sub(1) else {
            return Err(self.failed("no connection to it became free"));
        };
        connections.free = left;
        Ok(connections.kept.pop())
    }

    fn give_back(&self, client: Option<Client>) {
        let mut connections = lock(&self.connections);
        connections.free += 1;
        connections.kept.extend(client);
        self.bell.notify_one();
    }

    fn failed(&self, why: impl std::fmt::Display) -> Refusal {
        Refusal::store(format!("the store at {}: {why}", self.address))
    }
}

fn was_closed(error: &Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// What an answer or a part of it says of an error.
fn reason(said: Option<&Value>) -> String {
    match said {
        Some(Value::Document(said)) => match said.get("errmsg") {
            Some(Value::Text(text)) => text.clone(),
            _ => "it does not say what is wrong".into(),
        },
        _ => "it does not say what is wrong".into(),
    }
}

/// A command that concerns a collection.
fn command(name: &str, collection: &str, database: &str) -> Document {
    Document::default().with(name, collection).with("$db", database)
}

/// The database of a tenant's entities.
fn database(tenant: &str) -> String {
    if tenant.is_empty() { "ngsi".to_owned() } else { format!("ngsi-{tenant}") }
}

/// By what the store knows an entity. JSON keeps the parts apart, whatever is in them.
fn id(tenant: &str, key: &Key) -> String {
    json!([tenant, key.path, key.kind, key.id]).to_string()
}

/// The documents of entities; `None` where no entity is meant. Where type and path are known they are found by their `_id`.
fn filter(tenant: &str, named: &Named) -> Option<Document> {
    let (path, entities) = match named {
        Named::Any => return Some(Document::default()),
        Named::These { entities, .. } if entities.is_empty() => return None,
        Named::These { path, entities } => (path.as_deref(), entities),
    };
    let exact = |(own, kind): &(String, Option<String>)| {
        let key = Key { id: own.clone(), kind: kind.clone()?, path: path?.to_owned() };
        Some(Value::Text(id(tenant, &key)))
    };
    let ids: Option<Vec<Value>> = entities.iter().map(exact).collect();
    let (field, values) = match ids {
        Some(ids) => ("_id", ids),
        None => ("id", entities.iter().map(|(id, _)| Value::Text(id.clone())).collect()),
    };
    Some(Document::default().with(field, Document::default().with("$in", values)))
}

/// The entity of a document; `None` where it is none.
fn read(document: &Document) -> Option<(Key, Attributes)> {
    let text = |name: &str| match document.get(name) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let key = Key { id: text("id")?, kind: text("type")?, path: text("path")? };
    let written = match document.get("attrs") {
        Some(Value::Document(written)) => written.0.as_slice(),
        Some(_) => return None,
        None => &[],
    };
    let attribute = |(name, value): &(String, Value)| {
        let Value::Text(value) = value else { return None };
        let attribute = Attribute::read(serde_json::from_str(value).ok()?).ok()?;
        Some((decoded(name)?, attribute))
    };
    Some((key, written.iter().map(attribute).collect::<Option<_>>()?))
}

/// The name of an attribute as a key of a document: a dot would part it, a dollar would be an operator, and a zero would end it.
fn encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '%' | '.' | '$' | '\0' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "%{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

fn decoded(key: &str) -> Option<String> {
    let mut parts = key.split('%');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        out.push(char::from(u8::from_str_radix(digits, 16).ok()?));
        out.push_str(rest);
    }
    Some(out)
}

/// What a request did.
#[derive(Default)]
struct Journal {
    touched: BTreeMap<Key, Touched>,
    /// Changes of which subscriptions are told, each with all attributes that the entity had then.
    written: Vec<(Change, Attributes)>,
}

/// What was done to an entity.
#[derive(Debug, Default)]
struct Touched {
    /// It was deleted, before anything that was written.
    is_deleted: bool,
    is_written: bool,
    set: Attributes,
    gone: BTreeSet<String>,
}

impl Journal {
    fn note(&mut self, done: Done<'_>) {
        match done {
            Done::Written { change, attributes } => {
                let touched = self.touched(&change.key);
                touched.is_written = true;
                for name in &change.written {
                    touched.gone.remove(name);
                    let written = attributes.get(name).map(|attribute| (name.clone(), attribute.clone()));
                    touched.set.extend(written);
                }
                self.written.push((change.clone(), attributes.clone()));
            }
            Done::Removed { key, names } => {
                let touched = self.touched(key);
                for name in names {
                    touched.is_written = true;
                    touched.set.remove(name);
                    touched.gone.insert(name.clone());
                }
            }
            Done::Deleted { key } => {
                *self.touched(key) = Touched { is_deleted: true, ..Touched::default() };
            }
        }
    }

    fn touched(&mut self, key: &Key) -> &mut Touched {
        self.touched.entry(key.clone()).or_default()
    }
}

impl Touched {
    /// The update of the entity's document.
    fn update(&self, key: &Key) -> Document {
        let own = Document::default().with("id", key.id.as_str()).with("type", key.kind.as_str());
        let own = own.with("path", key.path.as_str());
        let path = |name: &String| format!("attrs.{}", encoded(name));
        let text = |attribute: &Attribute| attribute.write(Format::Normalized).to_string();
        let set = self.set.iter().map(|(name, attribute)| (path(name), Value::Text(text(attribute))));
        let gone = self.gone.iter().map(|name| (path(name), Value::Text(String::new())));
        let mut update = Document::default().with("$setOnInsert", own);
        for (operator, fields) in [("$set", set.collect()), ("$unset", gone.collect::<Vec<_>>())] {
            if !fields.is_empty() {
                update = update.with(operator, Document(fields));
            }
        }
        update
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(id: &str, kind: &str, path: &str) -> Key {
        Key { id: id.into(), kind: kind.into(), path: path.into() }
    }

    #[test]
    fn an_id_keeps_its_parts_apart() {
        let ids = [
            id("t", &key("c", "b", "/a")),
            id("t", &key("b\",\"c", "", "/a")),
            id("t", &key("c", "/a\",\"b", "")),
            id("", &key("c", "b", "t/a")),
        ];
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    }

    #[test]
    fn entities_are_found_by_their_ids_where_all_of_them_are_known() {
        let these = |path: Option<&str>, kinds: [Option<&str>; 2]| {
            let entities = kinds.map(|kind| ("road".to_owned(), kind.map(str::to_owned))).to_vec();
            filter("t", &Named::These { path: path.map(str::to_owned), entities }).unwrap().0[0].0.clone()
        };
        assert_eq!(these(Some("/a"), [Some("Road"), Some("Street")]), "_id");
        assert_eq!(these(Some("/a"), [Some("Road"), None]), "id");
        assert_eq!(these(None, [Some("Road"), Some("Street")]), "id");
        assert!(filter("t", &Named::These { path: None, entities: Vec::new() }).is_none());
        assert_eq!(filter("t", &Named::Any), Some(Document::default()));
    }

    fn attributes(names: &[&str]) -> Attributes {
        names.iter().map(|name| ((*name).to_owned(), Attribute::of(json!(*name)).unwrap())).collect()
    }

    #[test]
    fn what_a_request_did_to_an_entity_becomes_one_update() {
        let key = key("road", "Road", "/");
        let mut journal = Journal::default();
        let after = attributes(&["a.b", "$c"]);
        let change = Change { key: key.clone(), written: vec!["a.b".into()], changed: Vec::new() };
        journal.note(Done::Removed { key: &key, names: &["a.b".into(), "old".into()] });
        journal.note(Done::Written { change: &change, attributes: &after });
        let update = journal.touched.get(&key).unwrap().update(&key);
        let Some(Value::Document(set)) = update.get("$set") else { panic!("{update:?}") };
        let Some(Value::Document(unset)) = update.get("$unset") else { panic!("{update:?}") };
        assert_eq!((set.0.len(), unset.0.len()), (1, 1), "{update:?}");
        assert!(set.get("attrs.a%2eb").is_some() && unset.get("attrs.old").is_some(), "{update:?}");
        assert_eq!(journal.written.len(), 1);
        journal.note(Done::Deleted { key: &key });
        let touched = journal.touched.get(&key).unwrap();
        assert!(touched.is_deleted && !touched.is_written && touched.set.is_empty(), "{touched:?}");
    }

    #[test]
    fn a_document_of_somebody_else_is_no_entity() {
        let own = || Document::default().with("id", "a").with("type", "T").with("path", "/");
        assert!(read(&own()).is_some());
        assert!(read(&Document::default().with("id", "a")).is_none());
        assert!(read(&own().with("attrs", 1)).is_none());
        for (name, value) in
            [("a", "no JSON"), ("a", "[]"), ("a%2", "{\"value\":1}"), ("a%zz", "{\"value\":1}")]
        {
            let attrs = Document::default().with(name, value);
            assert!(read(&own().with("attrs", attrs)).is_none(), "{name} {value}");
        }
    }

    proptest! {
        #[test]
        fn names_are_encoded_without_what_stores_would_misread(name in any::<String>().prop_map(|name| name + "%.$\0")) {
            let key = encoded(&name);
            assert!(!key.contains(['.', '$', '\0']), "{key}");
            prop_assert_eq!(decoded(&key), Some(name));
        }

        #[test]
        fn no_key_is_a_panic(key in "[%a-f0-9ä]{0,12}") {
            let _ = decoded(&key);
        }
    }
}
