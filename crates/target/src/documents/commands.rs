//! The commands of a store: `find`, `insert`, `update`, `delete`, `findAndModify`, counting, and what drivers ask before
//! (MongoDB manual, "Database Commands").

use super::collections::Collections;
use super::filter::{Filter, equalities};
use super::update::{apply, set};
use super::{Refusal, bytes, key, ok, refused};
use plimsoll_codec::mongodb::LARGEST;
use plimsoll_codec::mongodb::bson::{Document, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest document, in bytes, as servers have it.
pub const LARGEST_DOCUMENT: usize = 16 << 20;
/// Largest batch of documents that an answer has, in bytes.
const LARGEST_BATCH: usize = 16 << 20;
/// Most documents that a driver writes at once.
const LARGEST_WRITE: usize = 100_000;
/// The wire version of servers of the generation 7.0, which drivers compare with what they need.
const WIRE_VERSION: i32 = 21;
/// The code of a document with an id that is taken.
const DUPLICATE: i32 = 11000;

/// What a command costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It reads documents.
    Read,
    /// It writes so many.
    Write(u32),
    /// It is about something else.
    Other,
}

/// The name of a command: its first key.
pub fn name(command: &Document) -> &str {
    command.0.first().map_or("", |(name, _)| name.as_str())
}

/// What it costs.
pub fn kind(command: &Document) -> Kind {
    let statements = |key: &str| match command.get(key) {
        Some(Value::Array(list)) => Kind::Write(u32::try_from(list.len()).unwrap_or(u32::MAX)),
        _ => Kind::Write(1),
    };
    match name(command) {
        "find" | "count" | "aggregate" => Kind::Read,
        "insert" => statements("documents"),
        "update" => statements("updates"),
        "delete" => statements("deletes"),
        "findAndModify" | "findandmodify" => Kind::Write(1),
        _ => Kind::Other,
    }
}

/// Does a command.
pub fn perform(command: Document, collections: &mut Collections) -> Document {
    match answer(command, collections) {
        Ok(document) => ok(document),
        Err(refusal) => refused(refusal),
    }
}

fn answer(mut command: Document, collections: &mut Collections) -> Result<Document, Refusal> {
    if let Some(answer) = of_any_server(&command, false) {
        return Ok(answer);
    }
    let database = text(command.get("$db")).unwrap_or("admin").to_owned();
    let own = command.0.first().and_then(|(_, value)| text(Some(value)));
    let collection = format!("{database}.{}", own.unwrap_or_default());
    let name = name(&command).to_owned();
    match name.as_str() {
        "find" => find(&command, &collection, collections),
        "insert" => insert(&mut command, &collection, collections),
        "update" => update(&mut command, &collection, collections),
        "delete" => delete(&mut command, &collection, collections),
        "findAndModify" | "findandmodify" => find_and_modify(&command, &collection, collections),
        "count" => {
            let filter = filter(command.get("query"))?;
            let found = collections.find(&collection, &filter).count();
            Ok(Document::default().with("n", whole(found)))
        }
        "aggregate" => {
            let filter = counted(&command)?;
            let found = collections.find(&collection, &filter).count();
            let row = Document::default().with("_id", 1).with("n", whole(found));
            let rows = if found == 0 { Vec::new() } else { vec![Value::Document(row)] };
            Ok(cursor(&collection, rows))
        }
        "create" | "createIndexes" => Ok(Document::default()),
        "drop" => {
            collections.drop_collection(&collection);
            Ok(Document::default())
        }
        "dropDatabase" => {
            for name in collections.names(&database) {
                collections.drop_collection(&format!("{database}.{name}"));
            }
            Ok(Document::default())
        }
        "listCollections" => {
            let row = |name: String| Document::default().with("name", name).with("type", "collection");
            let rows = collections.names(&database).into_iter().map(row).map(Value::Document).collect();
            Ok(cursor(&format!("{database}.$cmd.listCollections"), rows))
        }
        unknown => Err(Refusal::unknown(unknown)),
    }
}

/// What each server answers by itself, a router as well; `None` where documents are concerned.
pub fn of_any_server(command: &Document, is_router: bool) -> Option<Document> {
    Some(match name(command) {
        "hello" | "isMaster" | "ismaster" => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let answer = Document::default().with("helloOk", true).with("ismaster", true);
            let answer = if is_router { answer.with("msg", "isdbgrid") } else { answer };
            answer
                .with("isWritablePrimary", true)
                .with("maxBsonObjectSize", whole(LARGEST_DOCUMENT))
                .with("maxMessageSizeBytes", whole(LARGEST))
                .with("maxWriteBatchSize", whole(LARGEST_WRITE))
                .with("localTime", Value::DateTime(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)))
                .with("connectionId", 1)
                .with("minWireVersion", 0)
                .with("maxWireVersion", WIRE_VERSION)
                .with("readOnly", false)
        }
        "buildInfo" | "buildinfo" => {
            let version = concat!("7.0.0-plimsoll-", env!("CARGO_PKG_VERSION"));
            let numbers: Vec<Value> = [7, 0, 0, 0].map(Value::Int32).to_vec();
            Document::default().with("version", version).with("versionArray", numbers).with("bits", 64)
        }
        "ping" | "endSessions" | "killCursors" => Document::default(),
        _ => return None,
    })
}

fn whole(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn text(value: Option<&Value>) -> Option<&str> {
    match value {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

fn document(value: Option<&Value>) -> Option<&Document> {
    match value {
        Some(Value::Document(document)) => Some(document),
        _ => None,
    }
}

/// The documents of a list that a command must have, taken out of it.
pub fn documents(command: &mut Document, key: &str) -> Result<Vec<Document>, Refusal> {
    let Some(Value::Array(list)) = command.take(key) else {
        return Err(Refusal::bad(format!("{} needs an array `{key}`", name(command))));
    };
    if list.len() > LARGEST_WRITE {
        return Err(Refusal::bad(format!("`{key}` has at most {LARGEST_WRITE} documents")));
    }
    let each = list.into_iter().map(|value| match value {
        Value::Document(document) => Ok(document),
        _ => Err(Refusal::bad(format!("`{key}` has something that is no document"))),
    });
    each.collect()
}

/// The filter of a command; one that is missing takes everything.
pub fn filter(written: Option<&Value>) -> Result<Filter, Refusal> {
    match written {
        None => Ok(Filter::default()),
        Some(Value::Document(written)) => Filter::read(written),
        Some(_) => Err(Refusal::bad("a filter is a document")),
    }
}

/// The filter of an aggregation that counts, which is the only one that this target does: drivers count documents so.
pub fn counted(command: &Document) -> Result<Filter, Refusal> {
    let unknown = || {
        Refusal::bad("this target knows only aggregations that count: $match, then $group with a $sum of 1")
    };
    let Some(Value::Array(stages)) = command.get("pipeline") else { return Err(unknown()) };
    let stage = |place: usize, name: &str| document(stages.get(place)).and_then(|stage| stage.get(name));
    let (matched, group) = match (stage(0, "$match"), stages.len()) {
        (Some(matched), 2) => (Some(matched), stage(1, "$group")),
        (None, 1) => (None, stage(0, "$group")),
        _ => return Err(unknown()),
    };
    let sum = document(group).and_then(|group| document(group.get("n"))).and_then(|n| n.get("$sum"));
    if sum.and_then(Value::whole) != Some(1) {
        return Err(unknown());
    }
    filter(matched)
}

/// An answer with all of its rows at once.
pub fn cursor(namespace: &str, rows: Vec<Value>) -> Document {
    let cursor = Document::default().with("firstBatch", rows).with("id", 0i64).with("ns", namespace);
    Document::default().with("cursor", cursor)
}

/// Refuses what would have to be passed over in silence.
fn without(document: &Document, keys: &[&str]) -> Result<(), Refusal> {
    match keys.iter().find(|key| document.get(key).is_some()) {
        None => Ok(()),
        Some(unknown) => Err(Refusal::bad(format!("this target does not know `{unknown}`"))),
    }
}

fn find(command: &Document, collection: &str, collections: &Collections) -> Result<Document, Refusal> {
    without(command, &["sort", "projection", "collation", "min", "max"])?;
    let filter = filter(command.get("filter"))?;
    let number =
        |key: &str| command.get(key).and_then(Value::whole).and_then(|number| usize::try_from(number).ok());
    let limit = number("limit").filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let (mut rows, mut size) = (Vec::new(), 0);
    for (_, document) in collections.find(collection, &filter).skip(number("skip").unwrap_or(0)).take(limit) {
        size += bytes(document).len();
        within_batch(size)?;
        rows.push(Value::Document(document.clone()));
    }
    Ok(cursor(collection, rows))
}

/// Whether documents of so many bytes fit into one answer: there are no others behind it.
pub fn within_batch(bytes: usize) -> Result<(), Refusal> {
    match bytes <= LARGEST_BATCH {
        true => Ok(()),
        false => Err(Refusal::bad(format!("what is found has over {LARGEST_BATCH} bytes: give a limit"))),
    }
}

/// An id as drivers make them, where one gives none.
fn fresh_id() -> Value {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut id = [0; 12];
    let (_, number) = id.split_at_mut(4);
    number.copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    Value::ObjectId(id)
}

/// An error of one of several statements.
fn write_error(index: usize, code: i32, message: String) -> Value {
    Document::default().with("index", whole(index)).with("code", code).with("errmsg", message).into()
}

fn with_errors(answer: Document, errors: Vec<Value>) -> Document {
    if errors.is_empty() { answer } else { answer.with("writeErrors", errors) }
}

/// Does statements one after the other; after one that fails it ends, unless the command says otherwise.
fn each<T>(
    is_ordered: bool,
    statements: Vec<T>,
    mut one: impl FnMut(usize, T) -> Result<(), (i32, String)>,
) -> Vec<Value> {
    let mut errors = Vec::new();
    for (index, statement) in statements.into_iter().enumerate() {
        if let Err((code, message)) = one(index, statement) {
            errors.push(write_error(index, code, message));
            if is_ordered {
                break;
            }
        }
    }
    errors
}

/// Whether statements behind one that fails are not done.
pub fn is_ordered(command: &Document) -> bool {
    command.get("ordered").is_none_or(Value::is_true)
}

fn insert(
    command: &mut Document,
    collection: &str,
    collections: &mut Collections,
) -> Result<Document, Refusal> {
    let mut inserted = 0;
    let statements = documents(command, "documents")?;
    let errors = each(is_ordered(command), statements, |_, mut document| {
        if document.get("_id").is_none() {
            document.0.insert(0, ("_id".to_owned(), fresh_id()));
        }
        let id = document.get("_id").map(ToString::to_string).unwrap_or_default();
        match collections.insert(collection, document) {
            Ok(true) => {
                inserted += 1;
                Ok(())
            }
            Ok(false) => {
                let key = format!("index: _id_ dup key: {{ _id: {id:.100} }}");
                Err((DUPLICATE, format!("E11000 duplicate key error collection: {collection} {key}")))
            }
            Err(refusal) => Err((refusal.code, refusal.message)),
        }
    });
    Ok(with_errors(Document::default().with("n", inserted), errors))
}

/// What an update of one statement did.
struct Updated {
    matched: i32,
    modified: i32,
    upserted: Option<Value>,
}

fn update_one(
    query: &Document,
    change: &Document,
    [is_upsert, is_multi]: [bool; 2],
    collection: &str,
    collections: &mut Collections,
) -> Result<Updated, Refusal> {
    let filter = Filter::read(query)?;
    let most = if is_multi { usize::MAX } else { 1 };
    let found = collections.find(collection, &filter).take(most);
    let found: Vec<(Vec<u8>, Document)> =
        found.map(|(id, document)| (id.clone(), document.clone())).collect();
    let mut updated = Updated { matched: whole(found.len()), modified: 0, upserted: None };
    let is_new = found.is_empty();
    for (id, mut document) in found {
        let before = document.clone();
        apply(&mut document, change, false)?;
        if document != before {
            collections.put(collection, id, document)?;
            updated.modified += 1;
        }
    }
    if is_new && is_upsert {
        let mut document = Document::default();
        for (path, value) in equalities(query) {
            set(&mut document, path, value.clone())?;
        }
        apply(&mut document, change, true)?;
        let id = document.get("_id").cloned().unwrap_or_else(fresh_id);
        document.take("_id");
        document.0.insert(0, ("_id".to_owned(), id.clone()));
        collections.put(collection, key(&id), document)?;
        updated.upserted = Some(id);
    }
    Ok(updated)
}

/// Does one statement of an update.
fn update_as_said(
    statement: &Document,
    collection: &str,
    collections: &mut Collections,
) -> Result<Updated, Refusal> {
    without(statement, &["arrayFilters", "collation"])?;
    let missing = || Refusal::bad("an update needs the documents `q` and `u`");
    let query = document(statement.get("q")).ok_or_else(missing)?;
    let change = document(statement.get("u")).ok_or_else(missing)?;
    let flags = ["upsert", "multi"].map(|key| statement.get(key).is_some_and(Value::is_true));
    update_one(query, change, flags, collection, collections)
}

fn update(
    command: &mut Document,
    collection: &str,
    collections: &mut Collections,
) -> Result<Document, Refusal> {
    let (mut matched, mut modified, mut upserted) = (0i32, 0i32, Vec::new());
    let statements = documents(command, "updates")?;
    let errors = each(is_ordered(command), statements, |index, statement| {
        let done = update_as_said(&statement, collection, collections);
        let done = done.map_err(|refusal| (refusal.code, refusal.message))?;
        matched = matched.saturating_add(done.matched).saturating_add(i32::from(done.upserted.is_some()));
        modified = modified.saturating_add(done.modified);
        if let Some(id) = done.upserted {
            let entry = Document::default().with("index", whole(index)).with("_id", id);
            upserted.push(Value::Document(entry));
        }
        Ok(())
    });
    let answer = Document::default().with("n", matched).with("nModified", modified);
    let answer = if upserted.is_empty() { answer } else { answer.with("upserted", upserted) };
    Ok(with_errors(answer, errors))
}

fn delete(
    command: &mut Document,
    collection: &str,
    collections: &mut Collections,
) -> Result<Document, Refusal> {
    let mut deleted = 0i32;
    let statements = documents(command, "deletes")?;
    let errors = each(is_ordered(command), statements, |_, statement| {
        let filter = filter(statement.get("q")).map_err(|refusal| (refusal.code, refusal.message))?;
        let is_one = statement.get("limit").and_then(Value::whole) == Some(1);
        let found = collections.find(collection, &filter).take(if is_one { 1 } else { usize::MAX });
        let found: Vec<Vec<u8>> = found.map(|(id, _)| id.clone()).collect();
        deleted = deleted.saturating_add(whole(found.len()));
        found.iter().for_each(|id| collections.remove(collection, id));
        Ok(())
    });
    Ok(with_errors(Document::default().with("n", deleted), errors))
}

fn find_and_modify(
    command: &Document,
    collection: &str,
    collections: &mut Collections,
) -> Result<Document, Refusal> {
    without(command, &["sort", "fields", "arrayFilters", "collation"])?;
    let nothing = Document::default();
    let query = document(command.get("query")).unwrap_or(&nothing);
    let filter = Filter::read(query)?;
    let is = |key: &str| command.get(key).is_some_and(Value::is_true);
    let found = collections.find(collection, &filter).next();
    let before: Option<(Vec<u8>, Document)> = found.map(|(id, document)| (id.clone(), document.clone()));
    let value = |found: Option<Document>| found.map_or(Value::Null, Value::Document);
    if is("remove") {
        if let Some((id, _)) = &before {
            collections.remove(collection, id);
        }
        let said = Document::default().with("n", i32::from(before.is_some()));
        let shown = value(before.map(|(_, old)| old));
        return Ok(Document::default().with("lastErrorObject", said).with("value", shown));
    }
    let missing = || Refusal::bad("findAndModify needs `update` or `remove`");
    let change = document(command.get("update")).ok_or_else(missing)?;
    let done = update_one(query, change, [is("upsert"), false], collection, collections)?;
    let is_there = before.is_some() || done.upserted.is_some();
    let said = Document::default().with("n", i32::from(is_there)).with("updatedExisting", before.is_some());
    let said = match &done.upserted {
        Some(id) => said.with("upserted", id.clone()),
        None => said,
    };
    let shown = if is("new") {
        let id = done.upserted.as_ref().map(key).or_else(|| before.map(|(id, _)| id));
        id.and_then(|id| collections.get(collection, &id).cloned())
    } else {
        before.map(|(_, old)| old)
    };
    Ok(Document::default().with("lastErrorObject", said).with("value", value(shown)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Store(Collections);

    impl Store {
        fn ask(&mut self, command: Document) -> Document {
            perform(command.with("$db", "city"), &mut self.0)
        }

        fn ids(&mut self, filter: Document) -> Vec<i64> {
            let answer = self.ask(Document::default().with("find", "things").with("filter", filter));
            let Some(Value::Document(cursor)) = answer.get("cursor") else { panic!("{answer:?}") };
            let Some(Value::Array(rows)) = cursor.get("firstBatch") else { panic!("{cursor:?}") };
            rows.iter().filter_map(|row| document(Some(row))?.get("_id")?.whole()).collect()
        }
    }

    fn list(documents: impl IntoIterator<Item = Document>) -> Vec<Value> {
        documents.into_iter().map(Value::Document).collect()
    }

    fn with_id(id: i32) -> Document {
        Document::default().with("_id", id)
    }

    fn store(ids: impl IntoIterator<Item = i32>) -> Store {
        let mut store = Store(Collections::default());
        let documents = list(ids.into_iter().map(with_id));
        let answer = store.ask(Document::default().with("insert", "things").with("documents", documents));
        assert_eq!(answer.get("ok"), Some(&1.0.into()));
        store
    }

    #[test]
    fn documents_are_found_counted_and_deleted() {
        let mut store = store(1..=5);
        assert_eq!(store.ids(with_id(3)), [3]);
        assert_eq!(store.ids(Document::default()), [1, 2, 3, 4, 5]);
        let group = Document::default().with("_id", 1).with("n", Document::default().with("$sum", 1));
        let stages = list([
            Document::default().with("$match", Document::default()),
            Document::default().with("$group", group),
        ]);
        let counted = store.ask(Document::default().with("aggregate", "things").with("pipeline", stages));
        assert!(format!("{counted:?}").contains("(\"n\", Int32(5))"), "{counted:?}");
        let delete = Document::default().with("q", with_id(2)).with("limit", 1);
        let answer = store.ask(Document::default().with("delete", "things").with("deletes", list([delete])));
        assert_eq!((answer.get("n"), store.ids(Document::default())), (Some(&1.into()), vec![1, 3, 4, 5]));
        store.ask(Document::default().with("drop", "things"));
        assert!(store.ids(Document::default()).is_empty() && store.0.names("city").is_empty());
    }

    #[test]
    fn an_id_that_is_taken_is_an_error_of_its_statement() {
        let mut store = store([1]);
        let again = list([1, 2].map(with_id));
        let insert = |ordered: bool| {
            Document::default()
                .with("insert", "things")
                .with("documents", again.clone())
                .with("ordered", ordered)
        };
        let answer = store.ask(insert(true));
        assert_eq!(answer.get("n"), Some(&0.into()), "{answer:?}");
        assert!(format!("{answer:?}").contains("E11000"), "{answer:?}");
        assert_eq!(store.ask(insert(false)).get("n"), Some(&1.into()));
    }

    #[test]
    fn an_update_makes_a_document_where_it_may() {
        let mut store = store([1]);
        let change = Document::default().with("$set", Document::default().with("attrs.speed", "9"));
        let one = |id: i32, upsert: bool| {
            let statement =
                Document::default().with("q", with_id(id)).with("u", change.clone()).with("upsert", upsert);
            Document::default().with("update", "things").with("updates", list([statement]))
        };
        let answer = store.ask(one(1, false));
        assert_eq!((answer.get("n"), answer.get("nModified")), (Some(&1.into()), Some(&1.into())));
        assert_eq!(store.ask(one(1, false)).get("nModified"), Some(&0.into()), "it is so already");
        assert_eq!(store.ask(one(2, false)).get("n"), Some(&0.into()));
        assert!(store.ask(one(2, true)).get("upserted").is_some());
        let filter = Document::default().with("attrs.speed", "9");
        assert_eq!(store.ids(filter), [1, 2]);
        let modify = Document::default()
            .with("findAndModify", "things")
            .with("query", with_id(1))
            .with("remove", true);
        let answer = store.ask(modify);
        assert!(matches!(answer.get("value"), Some(Value::Document(_))), "{answer:?}");
        assert_eq!(store.ids(Document::default()), [2]);
    }

    #[test]
    fn a_driver_hears_what_it_asks_before_and_that_a_command_is_not_known() {
        let mut store = store([]);
        let hello = store.ask(Document::default().with("hello", 1));
        assert_eq!(hello.get("maxWireVersion"), Some(&WIRE_VERSION.into()));
        let answer = store.ask(Document::default().with("shutdown", 1));
        assert_eq!((answer.get("ok"), answer.get("code")), (Some(&0.0.into()), Some(&59.into())));
        for command in [
            Document::default().with("insert", "things"),
            Document::default().with("update", "things").with("updates", list([Document::default()])),
            Document::default().with("find", "things").with("filter", 1),
            Document::default().with("find", "things").with("sort", with_id(1)),
            Document::default().with("aggregate", "things").with("pipeline", list([])),
            Document::default(),
        ] {
            let answer = store.ask(command);
            assert!(answer.get("errmsg").is_some() || answer.get("writeErrors").is_some(), "{answer:?}");
        }
    }

    #[test]
    fn what_a_command_costs_is_by_what_it_writes() {
        let write =
            |documents: Vec<Value>| Document::default().with("insert", "things").with("documents", documents);
        assert_eq!(kind(&write(list([1, 2, 3].map(with_id)))), Kind::Write(3));
        assert_eq!(kind(&Document::default().with("find", "things")), Kind::Read);
        assert_eq!(kind(&Document::default().with("ping", 1)), Kind::Other);
    }
}
