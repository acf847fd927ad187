//! What the target knows and does: entities and subscriptions of each tenant, behind the operations of NGSIv2.

use super::attribute::{self, Attribute, Attributes, Format};
use super::entities::{self, Change, Entities, EntityPayload, Key, Selection};
use super::filter::Filter;
use super::refusal::Refusal;
use super::request::{Answer, Request};
use super::senders::{Notification, Senders};
use super::subscriptions::{self, Subscription};
use plimsoll_codec::http::escape_path;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Most bytes of entities, of all tenants together, roughly.
const MOST_BYTES: usize = 1024 * 1024 * 1024;
/// Most tenants.
const MOST_TENANTS: usize = 1000;
/// Most kinds of entities that subscriptions name, of all tenants together: each has compiled patterns.
const MOST_SELECTIONS: usize = 10_000;
/// Largest subscription, in bytes.
const LARGEST_SUBSCRIPTION: usize = 64 * 1024;
/// Most entities of one list, and how many are given where nothing is said.
const LONGEST_LIST: usize = 1000;
const LIST: usize = 20;
/// Largest notification, in bytes.
const LARGEST_NOTIFICATION: usize = 8 * 1024 * 1024;

/// See the module.
pub struct Broker {
    tenants: HashMap<String, Tenant>,
    /// Number of the next subscription.
    next: u64,
    senders: Senders,
    tells_first: bool,
    requests: u64,
    /// Notifications beyond the largest.
    oversize: u64,
}

#[derive(Default)]
struct Tenant {
    entities: Entities,
    subscriptions: BTreeMap<String, Subscription>,
}

impl Broker {
    /// A broker that knows nothing yet. `tells_first`: whether a new subscription is told of what is there.
    pub fn new(senders: Senders, tells_first: bool) -> Broker {
        Broker { tenants: HashMap::new(), next: 1, senders, tells_first, requests: 0, oversize: 0 }
    }

    /// Does what a request asks for.
    pub fn answer(&mut self, request: &Request<'_>) -> Answer {
        self.requests += 1;
        self.perform(request).unwrap_or_else(Answer::from)
    }

    fn perform(&mut self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        match (path.as_slice(), request.method) {
            (["statistics"], "GET") => Ok(self.statistics()),
            (["v2"], "GET") => Ok(Answer::json(&json!({
                "entities_url": "/v2/entities",
                "subscriptions_url": "/v2/subscriptions",
            }))),
            (["v2", "entities"], "GET") => self.list(request),
            (["v2", "entities"], "POST") => self.create(request),
            (["v2", "entities", id], "GET") => self.retrieve(request, id),
            (["v2", "entities", id], "DELETE") => self.delete(request, id),
            (["v2", "entities", id, "attrs"], "GET") => self.retrieve_attributes(request, id),
            (["v2", "entities", id, "attrs"], method @ ("POST" | "PATCH" | "PUT")) => {
                let action = match method {
                    "POST" if request.has_option("append") => Action::AppendStrict,
                    "POST" => Action::Append,
                    "PATCH" => Action::Update,
                    _ => Action::Replace,
                };
                self.write_attributes(request, id, action)
            }
            (["v2", "entities", id, "attrs", name], method) => self.attribute(request, id, name, method),
            (["v2", "entities", id, "attrs", name, "value"], method) => self.value(request, id, name, method),
            (["v2", "op", "update"], "POST") => self.update(request),
            (["v2", "op", "query"], "POST") => self.query(request),
            (["v2", "subscriptions"], "GET") => self.list_subscriptions(request),
            (["v2", "subscriptions"], "POST") => self.subscribe(request),
            (["v2", "subscriptions", id], method) => self.subscription(request, id, method),
            (["v2", "entities" | "op" | "subscriptions", ..], method) => Err(Refusal::method(method)),
            _ => Err(Refusal::not_found(format!("/{}", path.join("/")))),
        }
    }

    fn tenant(&self, request: &Request<'_>) -> Option<&Tenant> {
        self.tenants.get(&request.tenant)
    }

    fn tenant_mut(&mut self, request: &Request<'_>) -> Result<&mut Tenant, Refusal> {
        if self.tenants.len() >= MOST_TENANTS && !self.tenants.contains_key(&request.tenant) {
            return Err(Refusal::full(format!("there are {MOST_TENANTS} tenants already")));
        }
        Ok(self.tenants.entry(request.tenant.clone()).or_default())
    }

    /// The entity that a path names.
    fn find(&self, request: &Request<'_>, id: &str) -> Result<(&Key, &Attributes), Refusal> {
        let missing = || Refusal::not_found(format!("the entity `{id}`"));
        let tenant = self.tenant(request).ok_or_else(missing)?;
        tenant.entities.find(id, request.parameter("type"), request.scope())
    }

    fn list(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
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
        self.found(request, &[selection], &several("attrs"))
    }

    fn query(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let Value::Object(written) = request.json()? else {
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
        self.found(request, &selections, &subscriptions::texts(written.get("attrs"), "attrs")?)
    }

    /// Those of the entities that selections take which lie within offset and limit.
    fn found(
        &self,
        request: &Request<'_>,
        selections: &[Selection],
        only: &[String],
    ) -> Result<Answer, Refusal> {
        let limit = request.number("limit", LIST, LONGEST_LIST)?.max(1);
        let offset = request.number("offset", 0, usize::MAX)?;
        let (only, format) = ((!only.is_empty()).then_some(only), format(request));
        let all = Selection::default();
        let known = self.tenant(request).map(|tenant| tenant.entities.select(&all, request.scope()));
        let taken = known
            .into_iter()
            .flatten()
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

    fn create(&mut self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let written = EntityPayload::read(request.json()?, format(request))?;
        let scope = request.one_scope()?;
        let found = self.tenant(request).map(|tenant| {
            tenant.entities.find(&written.id, written.kind.as_deref(), scope).map(|(key, _)| key.clone())
        });
        if let (true, Some(Ok(key))) = (request.has_option("upsert"), found) {
            self.put(request, &key, written.attributes)?;
            return Ok(Answer::no_content());
        }
        let location = location(&written);
        self.add(request, written)?;
        Ok(match request.has_option("upsert") {
            true => Answer::no_content(),
            false => Answer::created(location),
        })
    }

    fn retrieve(&self, request: &Request<'_>, id: &str) -> Result<Answer, Refusal> {
        let (key, attributes) = self.find(request, id)?;
        let only = only(request);
        Ok(Answer::json(&entities::write(key, attributes, only.as_deref(), format(request))))
    }

    fn retrieve_attributes(&self, request: &Request<'_>, id: &str) -> Result<Answer, Refusal> {
        let (_, attributes) = self.find(request, id)?;
        let written = entities::write_attributes(attributes, only(request).as_deref(), format(request));
        Ok(Answer::json(&Value::Object(written)))
    }

    fn delete(&mut self, request: &Request<'_>, id: &str) -> Result<Answer, Refusal> {
        let key = self.find(request, id)?.0.clone();
        self.remove(request, &key)?;
        Ok(Answer::no_content())
    }

    fn write_attributes(
        &mut self,
        request: &Request<'_>,
        id: &str,
        action: Action,
    ) -> Result<Answer, Refusal> {
        let Value::Object(written) = request.json()? else {
            return Err(Refusal::bad("attributes are a JSON object"));
        };
        let attributes = attribute::read_all(written, format(request))?;
        let (key, known) = self.find(request, id)?;
        action.check(known, &attributes)?;
        let key = key.clone();
        match action {
            Action::Replace => self.replace(request, &key, attributes)?,
            _ => self.put(request, &key, attributes)?,
        }
        Ok(Answer::no_content())
    }

    fn attribute(
        &mut self,
        request: &Request<'_>,
        id: &str,
        name: &str,
        method: &str,
    ) -> Result<Answer, Refusal> {
        let (key, attributes) = self.find(request, id)?;
        let known = attribute_of(attributes, name)?;
        match method {
            "GET" => Ok(Answer::json(&known.write(Format::Normalized))),
            "PUT" => {
                let (key, written) = (key.clone(), Attribute::read(request.json()?)?);
                self.put(request, &key, [(name.to_owned(), written)].into())?;
                Ok(Answer::no_content())
            }
            "DELETE" => {
                let key = key.clone();
                let tenant = self.tenant_mut(request)?;
                tenant.entities.remove_attributes(&key, &[name.to_owned()]);
                Ok(Answer::no_content())
            }
            _ => Err(Refusal::method(method)),
        }
    }

    fn value(
        &mut self,
        request: &Request<'_>,
        id: &str,
        name: &str,
        method: &str,
    ) -> Result<Answer, Refusal> {
        let (key, attributes) = self.find(request, id)?;
        let known = attribute_of(attributes, name)?;
        match method {
            "GET" => Ok(Answer::json(&known.value)),
            "PUT" => {
                let Attribute { kind, metadata, .. } = known.clone();
                // Read like an attribute, so that its characters are checked by its type.
                let written = json!({ "type": kind, "value": request.json()?, "metadata": metadata });
                let (key, written) = (key.clone(), Attribute::read(written)?);
                self.put(request, &key, [(name.to_owned(), written)].into())?;
                Ok(Answer::no_content())
            }
            _ => Err(Refusal::method(method)),
        }
    }

    /// Several entities at once. Those before one that is refused stay written, as in the real thing.
    fn update(&mut self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let Value::Object(mut written) = request.json()? else {
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
            let entity = EntityPayload::read(entity, format(request))?;
            self.update_one(request, entity, action)?;
        }
        Ok(Answer::no_content())
    }

    fn update_one(
        &mut self,
        request: &Request<'_>,
        entity: EntityPayload,
        action: Action,
    ) -> Result<(), Refusal> {
        let missing = Refusal::not_found(format!("the entity `{}`", entity.id));
        let found = self.tenant(request).map_or(Err(missing), |tenant| {
            tenant.entities.find(&entity.id, entity.kind.as_deref(), request.scope())
        });
        let (key, known) = match found {
            Ok((key, known)) => (key.clone(), known),
            Err(refusal) if refusal.status == 404 && action.creates() => {
                return self.add(request, entity);
            }
            Err(refusal) => return Err(refusal),
        };
        action.check(known, &entity.attributes)?;
        match action {
            Action::Delete if entity.attributes.is_empty() => self.remove(request, &key),
            Action::Delete => {
                let meant = names(&entity.attributes);
                self.tenant_mut(request)?.entities.remove_attributes(&key, &meant);
                Ok(())
            }
            Action::Replace => self.replace(request, &key, entity.attributes),
            Action::Append | Action::AppendStrict | Action::Update => {
                self.put(request, &key, entity.attributes)
            }
        }
    }

    fn list_subscriptions(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let limit = request.number("limit", LIST, LONGEST_LIST)?.max(1);
        let offset = request.number("offset", 0, usize::MAX)?;
        let known = self.tenant(request).into_iter().flat_map(|tenant| &tenant.subscriptions);
        let list = known.skip(offset).take(limit).map(|(id, subscription)| subscription.write(id));
        Ok(Answer::json(&Value::Array(list.collect())))
    }

    fn subscribe(&mut self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let written = request.json()?;
        if written.to_string().len() > LARGEST_SUBSCRIPTION {
            return Err(Refusal::too_large(LARGEST_SUBSCRIPTION));
        }
        let mut subscription = Subscription::read(written, request.scope())?;
        let known = self.tenants.values().flat_map(|tenant| tenant.subscriptions.values());
        let kept: usize = known.map(Subscription::selections).sum();
        if kept + subscription.selections() > MOST_SELECTIONS {
            return Err(Refusal::full("there is no room for more subscriptions"));
        }
        let id = format!("{:024x}", self.next);
        self.next += 1;
        let tells_first = self.tells_first && !request.has_option("skipInitialNotification");
        let tenant = self.tenant_mut(request)?;
        let all = Selection::default();
        let known = tenant.entities.select(&all, request.scope());
        let first = tells_first.then(|| subscription.tell_first(&id, known, Instant::now())).flatten();
        let told = first.map(|body| notification(&subscription, request, request.scope(), &body));
        tenant.subscriptions.insert(id.clone(), subscription);
        self.tell(told.into_iter().collect());
        Ok(Answer::created(format!("/v2/subscriptions/{id}")))
    }

    fn subscription(&mut self, request: &Request<'_>, id: &str, method: &str) -> Result<Answer, Refusal> {
        let missing = || Refusal::not_found(format!("the subscription `{id}`"));
        let tenant = self.tenants.get_mut(&request.tenant).ok_or_else(missing)?;
        let subscription = tenant.subscriptions.get_mut(id).ok_or_else(missing)?;
        match method {
            "GET" => Ok(Answer::json(&subscription.write(id))),
            "PATCH" => {
                subscription.patch(&request.json()?)?;
                Ok(Answer::no_content())
            }
            "DELETE" => {
                tenant.subscriptions.remove(id);
                Ok(Answer::no_content())
            }
            _ => Err(Refusal::method(method)),
        }
    }

    fn add(&mut self, request: &Request<'_>, written: EntityPayload) -> Result<(), Refusal> {
        self.check_room()?;
        let scope = request.one_scope()?;
        let tenant = self.tenant_mut(request)?;
        let change = tenant.entities.create(written, scope)?;
        self.notify(request, &change);
        Ok(())
    }

    fn put(&mut self, request: &Request<'_>, key: &Key, attributes: Attributes) -> Result<(), Refusal> {
        self.check_room()?;
        let tenant = self.tenant_mut(request)?;
        let change = tenant.entities.put(key, attributes);
        self.notify(request, &change);
        Ok(())
    }

    /// Writes attributes and takes the others of the entity away.
    fn replace(&mut self, request: &Request<'_>, key: &Key, attributes: Attributes) -> Result<(), Refusal> {
        let entities = &mut self.tenant_mut(request)?.entities;
        let before = entities.attributes(key).map(names).unwrap_or_default();
        let gone: Vec<String> = before.into_iter().filter(|name| !attributes.contains_key(name)).collect();
        entities.remove_attributes(key, &gone);
        self.put(request, key, attributes)
    }

    fn remove(&mut self, request: &Request<'_>, key: &Key) -> Result<(), Refusal> {
        self.tenant_mut(request)?.entities.delete(key);
        Ok(())
    }

    fn check_room(&self) -> Result<(), Refusal> {
        let bytes: usize = self.tenants.values().map(|tenant| tenant.entities.bytes()).sum();
        match bytes < MOST_BYTES {
            true => Ok(()),
            false => Err(Refusal::full("there is no room for more entities")),
        }
    }

    /// Tells subscriptions of a change.
    fn notify(&mut self, request: &Request<'_>, change: &Change) {
        let (now, forced) = (Instant::now(), request.has_option("forcedUpdate"));
        let Some(tenant) = self.tenants.get_mut(&request.tenant) else { return };
        let Some(attributes) = tenant.entities.attributes(&change.key) else { return };
        let told = tenant.subscriptions.iter_mut().filter_map(|(id, subscription)| {
            let body = subscription.tell(id, change, attributes, forced, now)?;
            Some(notification(subscription, request, &change.key.path, &body))
        });
        let told = told.collect();
        self.tell(told);
    }

    fn tell(&mut self, notifications: Vec<Notification>) {
        for notification in notifications {
            match notification.request.len() <= LARGEST_NOTIFICATION {
                true => self.senders.send(notification),
                false => self.oversize += 1,
            }
        }
    }

    /// What the target did so far.
    fn statistics(&self) -> Answer {
        let told = self.senders.told();
        Answer::json(&json!({
            "requests": self.requests,
            "notifications": {
                "delivered": told.delivered.load(Ordering::Relaxed),
                "failed": told.failed.load(Ordering::Relaxed),
                "dropped": told.dropped.load(Ordering::Relaxed),
                "oversize": self.oversize,
            },
        }))
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

/// A notification as it goes out.
fn notification(subscription: &Subscription, request: &Request<'_>, path: &str, body: &[u8]) -> Notification {
    let (target, authority) = (&subscription.target, &subscription.authority);
    let mut head = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        head,
        "POST {target} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json; charset=utf-8\r\n\
         Ngsiv2-AttrsFormat: {}\r\nFiware-ServicePath: {path}\r\n",
        subscription.format()
    );
    if !request.tenant.is_empty() {
        let _ = write!(head, "Fiware-Service: {}\r\n", request.tenant);
    }
    let _ = write!(head, "Content-Length: {}\r\n\r\n", body.len());
    let mut request = head.into_bytes();
    request.extend_from_slice(body);
    Notification { authority: authority.clone(), target: target.clone(), request }
}
