//! What the target knows: entities and subscriptions of each tenant, behind the operations of NGSIv2.

use super::attribute::Attributes;
use super::entities::{Change, Entities, Selection};
use super::operations::{self, Done, LIST, LONGEST_LIST, Operations};
use super::refusal::Refusal;
use super::request::{Answer, Request};
use super::senders::{Notification, Senders};
use super::subscriptions::Subscription;
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
/// Largest notification, in bytes.
const LARGEST_NOTIFICATION: usize = 8 * 1024 * 1024;

/// The texts of subscriptions by tenant and id.
pub type Subscribed = BTreeMap<(String, String), String>;

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
    /// None where they are in a store.
    entities: Entities,
    subscriptions: BTreeMap<String, Subscription>,
}

impl Broker {
    /// A broker that knows nothing yet. `tells_first`: whether a new subscription is told of what is there. `next`: the number of
    /// its first subscription, from which on no other broker before the same store numbers its own.
    pub fn new(senders: Senders, tells_first: bool, next: u64) -> Broker {
        Broker { tenants: HashMap::new(), next, senders, tells_first, requests: 0, oversize: 0 }
    }

    /// Does what a request asks for.
    pub fn answer(&mut self, request: &Request<'_>) -> Answer {
        self.count();
        let answer = match operations::is_of_entities(request) {
            true => self.of_entities(request),
            false => self.of_others(request, None),
        };
        answer.unwrap_or_else(Answer::from)
    }

    /// Counts a request.
    pub fn count(&mut self) {
        self.requests += 1;
    }

    fn of_entities(&mut self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let is_full = self.tenants.len() >= MOST_TENANTS && !self.tenants.contains_key(&request.tenant);
        let all: usize = self.tenants.values().map(|tenant| tenant.entities.bytes()).sum();
        let mut fresh = Tenant::default();
        let Tenant { entities, subscriptions } = self.tenants.get_mut(&request.tenant).unwrap_or(&mut fresh);
        let others = all - entities.bytes();
        let room = (!is_full).then_some(MOST_BYTES.saturating_sub(others));
        let (senders, oversize) = (&self.senders, &mut self.oversize);
        let mut observe = |done: Done<'_>| {
            if let Done::Written { change, attributes } = done {
                *oversize += send(senders, notifications(subscriptions, request, change, attributes));
            }
        };
        let answer = Operations { request, entities, room, observe: &mut observe }.perform();
        if fresh.entities.bytes() > 0 {
            self.tenants.insert(request.tenant.clone(), fresh);
        }
        answer
    }

    /// Does what a request about anything but entities asks for. `known`: the entities of its tenant, where they are in a store.
    ///
    /// # Errors
    /// It is refused.
    pub fn of_others(&mut self, request: &Request<'_>, known: Option<&Entities>) -> Result<Answer, Refusal> {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        match (path.as_slice(), request.method) {
            (["statistics"], "GET") => Ok(self.statistics()),
            (["v2"], "GET") => Ok(Answer::json(&json!({
                "entities_url": "/v2/entities",
                "subscriptions_url": "/v2/subscriptions",
            }))),
            (["v2", "subscriptions"], "GET") => self.list_subscriptions(request),
            (["v2", "subscriptions"], "POST") => self.subscribe(request, known),
            (["v2", "subscriptions", id], method) => self.subscription(request, id, method),
            (["v2", "subscriptions", ..], method) => Err(Refusal::method(method)),
            _ => Err(Refusal::not_found(format!("/{}", path.join("/")))),
        }
    }

    /// Whether a request makes a subscription that is told of what is there.
    pub fn tells_first(&self, request: &Request<'_>) -> bool {
        self.tells_first
            && request.method == "POST"
            && request.path == ["v2", "subscriptions"]
            && !request.has_option("skipInitialNotification")
    }

    /// Tells subscriptions of changes to entities that are in a store.
    pub fn notify(&mut self, request: &Request<'_>, written: &[(Change, Attributes)]) {
        let Some(tenant) = self.tenants.get_mut(&request.tenant) else { return };
        for (change, attributes) in written {
            let told = notifications(&mut tenant.subscriptions, request, change, attributes);
            self.oversize += send(&self.senders, told);
        }
    }

    /// All subscriptions.
    pub fn subscribed(&self) -> Subscribed {
        let of_tenant = |(name, tenant): (&String, &Tenant)| {
            let own = tenant.subscriptions.iter().map(|(id, own)| ((name.clone(), id.clone()), own.keep()));
            own.collect::<Vec<_>>()
        };
        self.tenants.iter().flat_map(of_tenant).collect()
    }

    /// Makes these all subscriptions that there are. What did not change goes on.
    ///
    /// # Errors
    /// One of them is no subscription.
    pub fn take_over(&mut self, wanted: &Subscribed) -> Result<(), Refusal> {
        for (name, tenant) in &mut self.tenants {
            tenant.subscriptions.retain(|id, _| wanted.contains_key(&(name.clone(), id.clone())));
        }
        for ((name, id), text) in wanted {
            let known = self.tenants.get(name).and_then(|tenant| tenant.subscriptions.get(id));
            if known.is_none_or(|known| known.keep() != *text) {
                let subscription = Subscription::restore(text)?;
                self.tenants.entry(name.clone()).or_default().subscriptions.insert(id.clone(), subscription);
            }
        }
        Ok(())
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

    fn list_subscriptions(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let limit = request.number("limit", LIST, LONGEST_LIST)?.max(1);
        let offset = request.number("offset", 0, usize::MAX)?;
        let known = self.tenant(request).into_iter().flat_map(|tenant| &tenant.subscriptions);
        let list = known.skip(offset).take(limit).map(|(id, subscription)| subscription.write(id));
        Ok(Answer::json(&Value::Array(list.collect())))
    }

    fn subscribe(&mut self, request: &Request<'_>, known: Option<&Entities>) -> Result<Answer, Refusal> {
        let written = request.json()?;
        if written.to_string().len() > LARGEST_SUBSCRIPTION {
            return Err(Refusal::too_large(LARGEST_SUBSCRIPTION));
        }
        let mut subscription = Subscription::read(written, request.scope())?;
        let all = self.tenants.values().flat_map(|tenant| tenant.subscriptions.values());
        let kept: usize = all.map(Subscription::selections).sum();
        if kept + subscription.selections() > MOST_SELECTIONS {
            return Err(Refusal::full("there is no room for more subscriptions"));
        }
        let id = format!("{:024x}", self.next);
        self.next += 1;
        let tells_first = self.tells_first(request);
        let tenant = self.tenant_mut(request)?;
        let all = Selection::default();
        let known = known.unwrap_or(&tenant.entities).select(&all, request.scope());
        let first = tells_first.then(|| subscription.tell_first(&id, known, Instant::now())).flatten();
        let told = first.map(|body| notification(&subscription, request, request.scope(), &body));
        tenant.subscriptions.insert(id.clone(), subscription);
        self.oversize += send(&self.senders, told.into_iter().collect());
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

/// The notifications of a change.
fn notifications(
    subscriptions: &mut BTreeMap<String, Subscription>,
    request: &Request<'_>,
    change: &Change,
    attributes: &Attributes,
) -> Vec<Notification> {
    let (now, forced) = (Instant::now(), request.has_option("forcedUpdate"));
    let told = subscriptions.iter_mut().filter_map(|(id, subscription)| {
        let body = subscription.tell(id, change, attributes, forced, now)?;
        Some(notification(subscription, request, &change.key.path, &body))
    });
    told.collect()
}

/// Sends notifications, and gives how many are beyond the largest.
fn send(senders: &Senders, notifications: Vec<Notification>) -> u64 {
    let mut oversize = 0;
    for notification in notifications {
        match notification.request.len() <= LARGEST_NOTIFICATION {
            true => senders.send(notification),
            false => oversize += 1,
        }
    }
    oversize
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
