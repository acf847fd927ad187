//! Documents in memory, by database and collection.

use super::commands::LARGEST_DOCUMENT;
use super::filter::Filter;
use super::{Refusal, bytes, key};
use plimsoll_codec::mongodb::bson::{Document, Value};
use std::collections::{BTreeMap, HashMap};

/// Most bytes of documents, of all collections together.
const MOST_BYTES: usize = 1 << 30;
/// Deepest nesting of a document, as servers have it.
const DEEPEST: usize = 100;

/// All documents.
#[derive(Default)]
pub struct Collections {
    collections: HashMap<String, BTreeMap<Vec<u8>, Document>>,
    bytes: usize,
}

fn size(document: &Document) -> usize {
    bytes(document).len()
}

impl Collections {
    /// Adds a document that has an `_id`. Whether there was none like it.
    ///
    /// # Errors
    /// There is no room, or it is too large.
    pub fn insert(&mut self, collection: &str, document: Document) -> Result<bool, Refusal> {
        let id = key(document.get("_id").unwrap_or(&Value::Null));
        let known = self.collections.get(collection).is_some_and(|known| known.contains_key(&id));
        if !known {
            self.put(collection, id, document)?;
        }
        Ok(!known)
    }

    /// Puts a document in the place of the one with that key, or adds it.
    ///
    /// # Errors
    /// There is no room, or it is too large.
    pub fn put(&mut self, collection: &str, id: Vec<u8>, document: Document) -> Result<(), Refusal> {
        let own = size(&document);
        if own > LARGEST_DOCUMENT || document.depth() > DEEPEST {
            let most = format!("a document has at most {LARGEST_DOCUMENT} bytes and {DEEPEST} levels");
            return Err(Refusal::bad(most));
        }
        let size_after = self.bytes + own;
        if size_after > MOST_BYTES {
            return Err(Refusal::full());
        }
        let before = self.collections.entry(collection.to_owned()).or_default().insert(id, document);
        self.bytes = size_after - before.as_ref().map_or(0, size);
        Ok(())
    }

    /// Takes a document away.
    pub fn remove(&mut self, collection: &str, id: &[u8]) {
        let gone = self.collections.get_mut(collection).and_then(|documents| documents.remove(id));
        self.bytes -= gone.as_ref().map_or(0, size);
    }

    /// Takes a collection away. Whether it was there.
    pub fn drop_collection(&mut self, collection: &str) -> bool {
        let gone = self.collections.remove(collection);
        self.bytes -= gone.iter().flat_map(BTreeMap::values).map(size).sum::<usize>();
        gone.is_some()
    }

    /// The names of the collections of a database, without its own.
    pub fn names(&self, database: &str) -> Vec<String> {
        let own = |name: &String| Some(name.strip_prefix(database)?.strip_prefix('.')?.to_owned());
        let mut names: Vec<String> = self.collections.keys().filter_map(own).collect();
        names.sort();
        names
    }

    /// The document with a key.
    pub fn get(&self, collection: &str, id: &[u8]) -> Option<&Document> {
        self.collections.get(collection)?.get(id)
    }

    /// The documents that a filter takes, with their keys.
    pub fn find<'a>(
        &'a self,
        collection: &str,
        filter: &'a Filter,
    ) -> Box<dyn Iterator<Item = (&'a Vec<u8>, &'a Document)> + 'a> {
        let Some(documents) = self.collections.get(collection) else { return Box::new(std::iter::empty()) };
        match filter.ids() {
            Some(ids) => {
                let known = ids.iter().filter_map(move |id| documents.get_key_value(id));
                Box::new(known.filter(move |(_, document)| filter.takes(document)))
            }
            None => Box::new(documents.iter().filter(move |(_, document)| filter.takes(document))),
        }
    }
}
