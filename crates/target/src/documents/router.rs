//! A router before several stores: each document belongs to one of them, by a hash of its `_id`.

use super::client::Client;
use super::commands::{
    Kind, counted, cursor, documents, filter, is_ordered, kind, name, of_any_server, within_batch,
};
use super::filter::Filter;
use super::{DocumentError, Refusal, bytes, connection, key, listen, ok, refused};
use crate::threads::{Connections, accept};
use plimsoll_codec::mongodb::bson::{Document, Value};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;

/// How the router is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub host: IpAddr,
    /// Its port; 0 for a free one.
    pub port: u16,
    /// The stores, one at least.
    pub shards: Vec<SocketAddr>,
}

/// A router that listens.
pub struct RouterTarget {
    listener: TcpListener,
    shards: Vec<SocketAddr>,
}

impl RouterTarget {
    /// Begins to listen.
    ///
    /// # Errors
    /// The port is taken.
    pub fn bind(settings: &Settings) -> Result<RouterTarget, DocumentError> {
        let listener = listen(settings.host, settings.port)?;
        Ok(RouterTarget { listener, shards: settings.shards.clone() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is set, which is looked at twenty times a second.
    ///
    /// # Errors
    /// The system fails.
    pub fn run(self, stop: &AtomicBool) -> Result<(), DocumentError> {
        let connections = Connections::default();
        accept(&self.listener, stop, |stream| {
            let mut router = Router { addresses: self.shards.clone(), clients: Vec::new() };
            router.clients.resize_with(self.shards.len(), || None);
            // A client that there is no room for sees its connection closed, as one that breaks off.
            let _ = connections.spawn(stream, move |stream| {
                drop(connection::answer_all(stream, |command| router.answer(command)));
            });
        })?;
        connections.close_all();
        Ok(())
    }
}

/// What one client has of the stores: a connection of its own to each that it needs.
struct Router {
    addresses: Vec<SocketAddr>,
    clients: Vec<Option<Client>>,
}

/// A hash that is spread well over its lowest bits, too (FNV-1a, then the finish of SplitMix64).
fn hash(bytes: &[u8]) -> u64 {
    let hashed = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hashed ^ (hashed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Router {
    fn answer(&mut self, command: Document) -> Document {
        if let Some(answer) = of_any_server(&command, true) {
            return ok(answer);
        }
        match self.send_on(command) {
            Ok(answer) => answer,
            Err(refusal) => refused(refusal),
        }
    }

    fn send_on(&mut self, command: Document) -> Result<Document, Refusal> {
        let name = name(&command).to_owned();
        match name.as_str() {
            "insert" => self.write(command, "documents", |router, document| {
                let id = document
                    .get("_id")
                    .ok_or_else(|| Refusal::bad("a document of several stores needs an _id"))?;
                Ok(Some(router.shard(&key(id))))
            }),
            "update" => {
                self.write(command, "updates", |router, statement| router.of_statement(statement, false))
            }
            "delete" => self.write(command, "deletes", |router, statement| {
                let is_one = statement.get("limit").and_then(Value::whole) == Some(1);
                router.of_statement(statement, !is_one)
            }),
            "findAndModify" | "findandmodify" => {
                let Some(shard) = self.of_filter(&filter(command.get("query"))?) else {
                    return Err(Refusal::bad("findAndModify needs the _id of a document"));
                };
                self.one(shard, command)
            }
            "find" => {
                let found = filter(command.get("filter"))?;
                match self.of_filter(&found) {
                    Some(shard) => self.one(shard, command),
                    None => self.find(command),
                }
            }
            "count" | "aggregate" => {
                let found = if name == "count" { filter(command.get("query"))? } else { counted(&command)? };
                match self.of_filter(&found) {
                    Some(shard) => self.one(shard, command),
                    None => self.count(command, name == "count"),
                }
            }
            // Each store has its part of a collection.
            _ if kind(&command) == Kind::Other => {
                let mut answers = self.all(command)?;
                let wrong = answers.iter().position(|answer| !is_done(answer));
                Ok(answers.swap_remove(wrong.unwrap_or(0)))
            }
            unknown => Err(Refusal::unknown(unknown)),
        }
    }

    /// The store of a document, by the bytes of its id.
    fn shard(&self, id: &[u8]) -> usize {
        (hash(id) % self.addresses.len().max(1) as u64) as usize
    }

    /// The only store that a filter concerns.
    fn of_filter(&self, filter: &Filter) -> Option<usize> {
        let mut shards = filter.ids()?.iter().map(|id| self.shard(id));
        let first = shards.next()?;
        shards.all(|shard| shard == first).then_some(first)
    }

    /// The store of an update or a deletion; `None` for all of them.
    fn of_statement(&self, statement: &Document, is_of_all: bool) -> Result<Option<usize>, Refusal> {
        let shard = self.of_filter(&filter(statement.get("q"))?);
        let is = |key: &str| statement.get(key).is_some_and(Value::is_true);
        // With `upsert`, each of them would make a document of its own.
        match shard {
            None if is("upsert") || !(is_of_all || is("multi")) => {
                Err(Refusal::bad("a change of one document needs its _id, by which its store is known"))
            }
            shard => Ok(shard),
        }
    }

    /// Sends statements to the stores that they belong to, and puts the answers together. Where their order counts, those in a
    /// row that belong to one store go at once, and the next ones after its answer.
    fn write(
        &mut self,
        mut command: Document,
        key: &str,
        shard: impl Fn(&Router, &Document) -> Result<Option<usize>, Refusal>,
    ) -> Result<Document, Refusal> {
        let is_ordered = is_ordered(&command);
        let statements = documents(&mut command, key)?;
        let owners: Vec<Option<usize>> =
            statements.iter().map(|statement| shard(self, statement)).collect::<Result<_, _>>()?;
        let mut statements = statements.into_iter().enumerate();
        let (mut count, mut modified, mut errors, mut upserted) = (0i64, 0i64, Vec::new(), Vec::new());
        for owners in owners.chunk_by(|one, other| !is_ordered || one == other) {
            let parts = self.parts(owners, &mut statements);
            let (mut commands, mut places) = (Vec::new(), Vec::new());
            for (shard, part) in parts.into_iter().enumerate().filter(|(_, part)| !part.places.is_empty()) {
                commands.push((shard, command.clone().with(key, part.statements)));
                places.push(part.places);
            }
            for (answer, places) in self.ask(commands)?.into_iter().zip(&places) {
                if !is_done(&answer) {
                    return Ok(answer);
                }
                let number = |key: &str| answer.get(key).and_then(Value::whole).unwrap_or(0);
                count = count.saturating_add(number("n"));
                modified = modified.saturating_add(number("nModified"));
                placed(answer.get("writeErrors"), places, &mut errors);
                placed(answer.get("upserted"), places, &mut upserted);
            }
            if is_ordered && !errors.is_empty() {
                break;
            }
        }
        let mut said = Document::default().with("n", count);
        if name(&command) == "update" {
            said = said.with("nModified", modified);
        }
        for (key, list) in [("upserted", upserted), ("writeErrors", errors)] {
            if !list.is_empty() {
                said = said.with(key, list);
            }
        }
        Ok(ok(said))
    }

    /// The next statements, by the stores that they belong to.
    fn parts(
        &self,
        owners: &[Option<usize>],
        statements: &mut impl Iterator<Item = (usize, Document)>,
    ) -> Vec<Part> {
        let mut parts = Vec::new();
        parts.resize_with(self.addresses.len(), Part::default);
        for (owner, (place, statement)) in owners.iter().zip(statements) {
            for (shard, part) in parts.iter_mut().enumerate() {
                if owner.is_none_or(|owner| owner == shard) {
                    part.places.push(place);
                    part.statements.push(Value::Document(statement.clone()));
                }
            }
        }
        parts
    }

    /// Asks all stores for documents, and gives as many as are wanted.
    fn find(&mut self, mut command: Document) -> Result<Document, Refusal> {
        let number = |key: &str| command.get(key).and_then(Value::whole).filter(|number| *number > 0);
        let (skip, limit) = (number("skip").unwrap_or(0), number("limit"));
        command.take("skip");
        if let Some(limit) = limit {
            command.set("limit", Value::Int64(limit.saturating_add(skip)));
        }
        let (mut rows, mut namespace) = (Vec::new(), String::new());
        for mut answer in self.all(command)? {
            let Some(Value::Document(mut cursor)) = answer.take("cursor") else { return Ok(answer) };
            if let Some(Value::Array(batch)) = cursor.take("firstBatch") {
                rows.extend(batch);
            }
            if let Some(Value::Text(name)) = cursor.take("ns") {
                namespace = name;
            }
        }
        let whole = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        let rows = rows.into_iter().skip(whole(skip)).take(limit.map_or(usize::MAX, whole)).collect();
        let answer = cursor(&namespace, rows);
        within_batch(bytes(&answer).len())?;
        Ok(ok(answer))
    }

    /// Asks all stores how many documents they have.
    fn count(&mut self, command: Document, is_plain: bool) -> Result<Document, Refusal> {
        let (mut sum, mut namespace) = (0i64, String::new());
        for answer in self.all(command)? {
            if !is_done(&answer) {
                return Ok(answer);
            }
            if let Some(Value::Document(cursor)) = answer.get("cursor") {
                if let Some(Value::Array(rows)) = cursor.get("firstBatch")
                    && let Some(Value::Document(row)) = rows.first()
                {
                    sum = sum.saturating_add(row.get("n").and_then(Value::whole).unwrap_or(0));
                }
                if let Some(Value::Text(name)) = cursor.get("ns") {
                    namespace.clone_from(name);
                }
            } else {
                sum = sum.saturating_add(answer.get("n").and_then(Value::whole).unwrap_or(0));
            }
        }
        if is_plain {
            return Ok(ok(Document::default().with("n", sum)));
        }
        let row = Document::default().with("_id", 1).with("n", sum);
        let rows = if sum == 0 { Vec::new() } else { vec![Value::Document(row)] };
        Ok(ok(cursor(&namespace, rows)))
    }

    fn one(&mut self, shard: usize, command: Document) -> Result<Document, Refusal> {
        let mut answers = self.ask(vec![(shard, command)])?;
        answers.pop().ok_or_else(|| Refusal::unreachable("there are no stores"))
    }

    fn all(&mut self, command: Document) -> Result<Vec<Document>, Refusal> {
        let answers = self.ask((0..self.addresses.len()).map(|shard| (shard, command.clone())).collect())?;
        if answers.is_empty() { Err(Refusal::unreachable("there are no stores")) } else { Ok(answers) }
    }

    /// Asks stores side by side: the last one has its command before the first one has answered.
    fn ask(&mut self, commands: Vec<(usize, Document)>) -> Result<Vec<Document>, Refusal> {
        let shards: Vec<usize> = commands.iter().map(|(shard, _)| *shard).collect();
        let mut answers = Vec::new();
        let sent: Vec<io::Result<()>> =
            commands.into_iter().map(|(shard, command)| self.client(shard)?.send(command)).collect();
        for (shard, sent) in shards.iter().zip(sent) {
            let answer = sent.and_then(|()| self.client(*shard)?.receive());
            answers.push(answer.map_err(|error| {
                // An answer that comes late must not be taken for that to the next command.
                shards.iter().for_each(|shard| self.forget(*shard));
                let at = self.addresses.get(*shard).map(ToString::to_string).unwrap_or_default();
                Refusal::unreachable(format!("the store at {at}: {error}"))
            })?);
        }
        Ok(answers)
    }

    /// The connection to a store, which is made where there is none.
    fn client(&mut self, shard: usize) -> io::Result<&mut Client> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let address = *self.addresses.get(shard).ok_or_else(missing)?;
        let client = self.clients.get_mut(shard).ok_or_else(missing)?;
        if client.is_none() {
            *client = Some(Client::connect(address)?);
        }
        client.as_mut().ok_or_else(missing)
    }

    fn forget(&mut self, shard: usize) {
        if let Some(client) = self.clients.get_mut(shard) {
            *client = None;
        }
    }
}

/// Statements of one store.
#[derive(Default)]
struct Part {
    /// Their places among all.
    places: Vec<usize>,
    statements: Vec<Value>,
}

fn is_done(answer: &Document) -> bool {
    answer.get("ok").is_some_and(Value::is_true)
}

/// Entries of an answer about statements of a part, with their places among all.
fn placed(entries: Option<&Value>, places: &[usize], out: &mut Vec<Value>) {
    let Some(Value::Array(entries)) = entries else { return };
    for entry in entries {
        let Value::Document(mut entry) = entry.clone() else { continue };
        let index = entry.get("index").and_then(Value::whole).and_then(|index| usize::try_from(index).ok());
        if let Some(place) = index.and_then(|index| places.get(index)) {
            entry.set("index", Value::Int32(i32::try_from(*place).unwrap_or(i32::MAX)));
        }
        out.push(Value::Document(entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::{DocumentTarget, Settings as StoreSettings, Work};
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Duration;

    /// Stores and a router before them, until it is dropped.
    struct Sharded {
        stop: Arc<AtomicBool>,
        router: SocketAddr,
        stores: Vec<SocketAddr>,
    }

    impl Drop for Sharded {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn sharded(count: usize) -> Sharded {
        let stop = Arc::new(AtomicBool::new(false));
        let none = Duration::ZERO;
        let store = || {
            let settings = StoreSettings { host: HOST, port: 0, read: none, write: none, work: Work::Wait };
            let target = DocumentTarget::bind(&settings).unwrap();
            let (address, stop) = (target.address().unwrap(), Arc::clone(&stop));
            thread::spawn(move || target.run(&stop));
            address
        };
        let stores: Vec<SocketAddr> = (0..count).map(|_| store()).collect();
        let target = RouterTarget::bind(&Settings { host: HOST, port: 0, shards: stores.clone() }).unwrap();
        let (router, of_thread) = (target.address().unwrap(), Arc::clone(&stop));
        thread::spawn(move || target.run(&of_thread));
        Sharded { stop, router, stores }
    }

    fn rows(answer: &Document) -> Vec<Document> {
        let Some(Value::Document(cursor)) = answer.get("cursor") else { panic!("{answer:?}") };
        let Some(Value::Array(rows)) = cursor.get("firstBatch") else { panic!("{cursor:?}") };
        let document = |row: &Value| match row {
            Value::Document(row) => row.clone(),
            other => panic!("{other:?}"),
        };
        rows.iter().map(document).collect()
    }

    fn find(filter: Document) -> Document {
        Document::default().with("find", "things").with("filter", filter).with("$db", "city")
    }

    #[test]
    fn documents_are_spread_evenly_and_found_again_wherever_they_are() {
        let sharded = sharded(2);
        let mut client = Client::connect(sharded.router).unwrap();
        let documents: Vec<Value> = (0..1000).map(|id| Document::default().with("_id", id).into()).collect();
        let insert =
            Document::default().with("insert", "things").with("documents", documents).with("$db", "city");
        assert_eq!(client.ask(insert.clone()).unwrap().get("n"), Some(&1000i64.into()));
        for id in [0, 1, 500, 999] {
            assert_eq!(
                rows(&client.ask(find(Document::default().with("_id", id))).unwrap()).len(),
                1,
                "{id}"
            );
        }
        assert_eq!(rows(&client.ask(find(Document::default())).unwrap()).len(), 1000);
        assert_eq!(rows(&client.ask(find(Document::default()).with("limit", 10)).unwrap()).len(), 10);
        let of =
            |store: &SocketAddr| Client::connect(*store).unwrap().ask(find(Document::default())).unwrap();
        let counts: Vec<usize> = sharded.stores.iter().map(|store| rows(&of(store)).len()).collect();
        // Half of 1,000 by chance, within four standard deviations.
        assert!(counts.iter().all(|count| (437..=563).contains(count)), "{counts:?}");
        // The same again: each statement has its error at its place.
        let again = client.ask(insert.with("ordered", false)).unwrap();
        let Some(Value::Array(errors)) = again.get("writeErrors") else { panic!("{again:?}") };
        assert_eq!((again.get("n"), errors.len()), (Some(&0i64.into()), 1000));
    }

    #[test]
    fn a_change_goes_to_the_store_of_its_document_and_one_without_an_id_to_all() {
        let sharded = sharded(3);
        let mut client = Client::connect(sharded.router).unwrap();
        let change = Document::default().with("$set", Document::default().with("speed", 1));
        let statement = |query: Document, key: &str| {
            Document::default().with("q", query).with("u", change.clone()).with(key, true)
        };
        let update = |statements: Vec<Document>| {
            let statements: Vec<Value> = statements.into_iter().map(Value::Document).collect();
            Document::default().with("update", "things").with("updates", statements).with("$db", "city")
        };
        let by_id = |id: i32| statement(Document::default().with("_id", id), "upsert");
        let answer = client.ask(update((0..30).map(by_id).collect())).unwrap();
        let Some(Value::Array(upserted)) = answer.get("upserted") else { panic!("{answer:?}") };
        assert_eq!((answer.get("n"), upserted.len()), (Some(&30i64.into()), 30));
        let all = statement(Document::default(), "multi");
        assert_eq!(client.ask(update(vec![all])).unwrap().get("n"), Some(&30i64.into()));
        let unclear = statement(Document::default().with("speed", 1), "upsert");
        for unclear in [unclear.clone(), unclear.with("multi", true)] {
            let answer = client.ask(update(vec![unclear])).unwrap();
            assert_eq!(answer.get("ok"), Some(&0.0.into()), "{answer:?}");
        }
    }

    #[test]
    fn where_order_counts_nothing_is_done_behind_an_error_in_any_store() {
        let sharded = sharded(2);
        let mut client = Client::connect(sharded.router).unwrap();
        let insert = |ids: Vec<i32>, is_ordered: bool| {
            let documents: Vec<Value> =
                ids.iter().map(|id| Document::default().with("_id", *id).into()).collect();
            let insert = Document::default().with("insert", "things").with("documents", documents);
            insert.with("ordered", is_ordered).with("$db", "city")
        };
        assert_eq!(client.ask(insert(vec![50], true)).unwrap().get("n"), Some(&1i64.into()));
        let answer = client.ask(insert((0..100).collect(), true)).unwrap();
        assert_eq!(answer.get("n"), Some(&50i64.into()), "{answer:?}");
        let Some(Value::Array(errors)) = answer.get("writeErrors") else { panic!("{answer:?}") };
        let Some(Value::Document(error)) = errors.first() else { panic!("{errors:?}") };
        assert_eq!((errors.len(), error.get("index")), (1, Some(&50.into())));
        let answer = client.ask(insert((51..100).collect(), false)).unwrap();
        assert_eq!(answer.get("n"), Some(&49i64.into()), "{answer:?}");
    }

    #[test]
    fn a_store_that_is_gone_is_an_error_and_not_an_end() {
        let settings = Settings { host: HOST, port: 0, shards: vec![SocketAddr::new(HOST, 1)] };
        let target = RouterTarget::bind(&settings).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (address, of_thread) = (target.address().unwrap(), Arc::clone(&stop));
        thread::spawn(move || target.run(&of_thread));
        let mut client = Client::connect(address).unwrap();
        for _ in 0..2 {
            let answer = client.ask(find(Document::default())).unwrap();
            assert_eq!(answer.get("codeName"), Some(&"HostUnreachable".into()), "{answer:?}");
        }
        assert_eq!(client.ask(Document::default().with("ping", 1)).unwrap().get("ok"), Some(&1.0.into()));
        stop.store(true, Ordering::Relaxed);
    }
}
