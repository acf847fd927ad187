//! The resource directory: which resources each device has.

use super::Server;
use super::desk::{Desk, map_of, query, text};
use plimsoll_codec::coap::{Message, code};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const RESOURCES: &str = "/oic/rd";
const FIND: &str = "/oic/res";
const PRESENCE: &str = "/oic/prs";

/// See the module.
#[derive(Default)]
pub struct Directory {
    /// What each device has published.
    devices: BTreeMap<String, Value>,
    links: u64,
}

impl Directory {
    fn publish(&mut self, mut map: Value) -> Option<Value> {
        let di = text(&map, "di")?.to_owned();
        let links = map.get_mut("links")?.as_array_mut()?;
        for link in links {
            // A link has no number before the directory gives it one.
            if text(link, "href").is_none() || link.get("ins") != Some(&json!(0)) {
                return None;
            }
            self.links += 1;
            link.as_object_mut()?.insert("ins".to_owned(), json!(self.links));
        }
        self.devices.insert(di, map.clone());
        Some(map)
    }

    /// The devices with the resources of a type; without one, with all.
    fn find(&self, kind: Option<&str>) -> Value {
        let is_wanted = |link: &Value| {
            let has = |kinds: &Value, kind: &str| match kinds {
                Value::Array(all) => all.iter().any(|own| own == kind),
                own => own == kind,
            };
            kind.is_none_or(|kind| link.get("rt").is_some_and(|kinds| has(kinds, kind)))
        };
        let of = |(di, map): (&String, &Value)| {
            let links: Vec<Value> =
                map.get("links")?.as_array()?.iter().filter(|link| is_wanted(link)).cloned().collect();
            (!links.is_empty()).then(|| json!({ "di": di, "links": links }))
        };
        Value::Array(self.devices.iter().filter_map(of).collect())
    }
}

impl Server for Directory {
    fn request(&mut self, link: u64, request: &Message<'_>, desk: &mut Desk) {
        let path = request.path();
        let map = map_of(request);
        let (code, answer, what) = match (request.code, path.as_str(), map) {
            (code::POST, RESOURCES, Some(map)) => match self.publish(map) {
                Some(answer) => (code::CHANGED, Some(answer), "published"),
                None => (code::BAD_REQUEST, None, "refused"),
            },
            (code::POST, RESOURCES, None) => (code::BAD_REQUEST, None, "refused"),
            (code::DELETE, RESOURCES, _) => {
                let gone = query(request, "di").and_then(|di| self.devices.remove(&di));
                (if gone.is_some() { code::DELETED } else { code::NOT_FOUND }, None, "deleted")
            }
            (code::GET, FIND, _) => {
                (code::CONTENT, Some(self.find(query(request, "rt").as_deref())), "found")
            }
            (code::POST, PRESENCE, Some(_)) => (code::CHANGED, None, "presence"),
            _ => (code::NOT_FOUND, None, "refused"),
        };
        desk.note(what, link, &path, request.payload);
        desk.answer(link, request, code, answer.as_ref());
    }
}
