//! Subscriptions that all brokers before one store share. A broker writes its own there at once, and looks for those of others
//! once a second while entities are written. So what is written at any of them is told to all subscribers, as soon as a second
//! after they subscribed.
//!
//! A subscription is a document of the collection `subscriptions` in one database for all tenants.

use super::{Named, Store, command};
use crate::ngsi::broker::{Broker, Subscribed};
use crate::ngsi::refusal::Refusal;
use crate::ngsi::request::{Answer, Request};
use crate::threads::lock;
use plimsoll_codec::mongodb::bson::{Document, Value};
use serde_json::json;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long what others subscribed may stay unseen.
const AGE: Duration = Duration::from_secs(1);
const COLLECTION: &str = "subscriptions";
const DATABASE: &str = "ngsi";

impl Store {
    /// Does what a request about anything but entities asks for.
    pub(super) fn of_others(&self, request: &Request<'_>, broker: &Mutex<Broker>) -> Result<Answer, Refusal> {
        if !request.path.iter().map(String::as_str).take(2).eq(["v2", "subscriptions"]) {
            return lock(broker).of_others(request, None);
        }
        // Held until it is written, so that nobody takes it for one that was deleted elsewhere.
        let mut looked = lock(&self.looked);
        let seen = self.take_over(broker);
        *looked = Some(Instant::now());
        if request.method == "GET" {
            return lock(broker).of_others(request, None);
        }
        seen?;
        let tells_first = lock(broker).tells_first(request);
        let known = if tells_first { Some(self.read(&request.tenant, &Named::Any)?) } else { None };
        let before = lock(broker).subscribed();
        let answer = lock(broker).of_others(request, Some(&known.unwrap_or_default()))?;
        let after = lock(broker).subscribed();
        self.share(&before, &after)?;
        Ok(answer)
    }

    /// Looks for what others subscribed, unless that was done a short time ago. Whether the store answers shows in what was
    /// asked of it.
    pub(super) fn look_for_subscriptions(&self, broker: &Mutex<Broker>) {
        let Ok(mut looked) = self.looked.try_lock() else { return };
        if looked.is_none_or(|at| at.elapsed() >= AGE) {
            *looked = Some(Instant::now());
            let _ = self.take_over(broker);
        }
    }

    fn take_over(&self, broker: &Mutex<Broker>) -> Result<(), Refusal> {
        let find = command("find", COLLECTION, DATABASE).with("filter", Document::default());
        let mut found = Subscribed::new();
        for row in self.rows(find)? {
            let text = |name: &str| match row.get(name) {
                Some(Value::Text(text)) => Ok(text.clone()),
                _ => Err(self.failed("it has a document that is no subscription")),
            };
            found.insert((text("tenant")?, text("id")?), text("text")?);
        }
        lock(broker).take_over(&found)
    }

    /// Writes what changed.
    fn share(&self, before: &Subscribed, after: &Subscribed) -> Result<(), Refusal> {
        let query = |(tenant, id): &(String, String)| {
            Document::default().with("q", Document::default().with("_id", json!([tenant, id]).to_string()))
        };
        let gone = before.keys().filter(|key| !after.contains_key(*key));
        let deletes: Vec<Value> = gone.map(|key| query(key).with("limit", 1).into()).collect();
        let changed = after.iter().filter(|(key, text)| before.get(*key) != Some(text));
        let updates: Vec<Value> = changed
            .map(|(key, text)| {
                let own = Document::default().with("tenant", key.0.as_str()).with("id", key.1.as_str());
                let set = Document::default().with("$set", own.with("text", text.as_str()));
                query(key).with("u", set).with("upsert", true).into()
            })
            .collect();
        self.change(COLLECTION, DATABASE, deletes, updates)
    }
}
