//! The message queue: topics, those that observe them, and what is published.

use super::desk::{Desk, map_of, observe};
use super::kafka::{Event, Kafka, LARGEST_RECORD};
use super::links::Links;
use super::{OcfError, Queue, Server};
use plimsoll_codec::cbor;
use plimsoll_codec::coap::{KeptMessage, Message, OptionList, code, option};
use plimsoll_model::Nanos;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Where topics are.
const TOPICS: &str = "/oic/ps";
/// Numbers of notifications begin anew after as many as three bytes hold (RFC 7641 section 4.4).
const NUMBERS: u32 = 1 << 24;

/// See the module.
pub struct MessageQueue {
    topics: BTreeMap<String, Topic>,
    kafka: Option<Kafka>,
    starts_late: Nanos,
    /// Requests that wait for Kafka, by the numbers that it was given, without their payloads, and their connections.
    waiting: HashMap<u64, (u64, KeptMessage)>,
    next: u64,
}

#[derive(Default)]
struct Topic {
    latest: Vec<u8>,
    observers: Vec<Observer>,
    /// When somebody first asked to be notified.
    followed: Option<Nanos>,
}

struct Observer {
    link: u64,
    token: Vec<u8>,
    number: u32,
}

impl MessageQueue {
    pub fn new(queue: &Queue, links: &mut Links) -> Result<MessageQueue, OcfError> {
        let kafka = match queue.kafka {
            Some(address) => {
                let kafka = Kafka::start(address, links.alarm()?);
                Some(kafka.map_err(|cause| OcfError::Upstream { what: "Kafka", address, cause })?)
            }
            None => None,
        };
        Ok(MessageQueue {
            topics: BTreeMap::new(),
            kafka,
            starts_late: queue.starts_late,
            waiting: HashMap::new(),
            next: 0,
        })
    }

    /// Where Kafka keeps topics, keeps a request until it has answered, and orders what is asked for by the number of the request; whether
    /// that is so.
    fn wait(&mut self, link: u64, request: &Message<'_>, order: impl FnOnce(&Kafka, u64)) -> bool {
        let Some(kafka) = &self.kafka else { return false };
        self.next += 1;
        self.waiting.insert(self.next, (link, Message { payload: &[], ..*request }.keep()));
        order(kafka, self.next);
        true
    }

    fn create(&mut self, link: u64, request: &Message<'_>, path: String, desk: &mut Desk) {
        if self.topics.contains_key(&path) {
            return desk.refuse(link, request, code::FORBIDDEN);
        }
        if self.wait(link, request, |kafka, number| kafka.create(number, path.clone())) {
            return;
        }
        desk.note("created", link, &path, &[]);
        self.topics.insert(path, Topic::default());
        desk.answer(link, request, code::CREATED, None);
    }

    fn publish(&mut self, link: u64, request: &Message<'_>, path: String, desk: &mut Desk) {
        if !self.topics.contains_key(&path) {
            return desk.refuse(link, request, code::NOT_FOUND);
        }
        if map_of(request).and_then(|map| map.as_object().map(|map| map.is_empty())).unwrap_or(true) {
            return desk.refuse(link, request, code::PRECONDITION_FAILED);
        }
        if self.kafka.is_some() && request.payload.len() > LARGEST_RECORD {
            return desk.refuse(link, request, code::TOO_LARGE);
        }
        desk.note("published", link, &path, request.payload);
        if self.wait(link, request, |kafka, number| {
            kafka.publish(number, path.clone(), request.payload.to_vec())
        }) {
            return;
        }
        desk.seen.published += 1;
        desk.answer(link, request, code::CHANGED, None);
        self.notify(&path, request.payload, desk);
    }

    fn follow(&mut self, link: u64, request: &Message<'_>, path: String, desk: &mut Desk) {
        if !self.topics.contains_key(&path) {
            return desk.refuse(link, request, code::NOT_FOUND);
        }
        if self.wait(link, request, |kafka, number| kafka.follow(number, path.clone())) {
            return;
        }
        self.followed(link, request, &path, desk);
    }

    /// Somebody is notified of a topic from now on, and learns what it holds.
    fn followed(&mut self, link: u64, request: &Message<'_>, path: &str, desk: &mut Desk) {
        let Some(topic) = self.topics.get_mut(path) else {
            return desk.refuse(link, request, code::NOT_FOUND);
        };
        topic.followed.get_or_insert(desk.at);
        topic.observers.retain(|observer| observer.link != link || observer.token != request.token);
        topic.observers.push(Observer { link, token: request.token.to_vec(), number: 0 });
        desk.note("observed", link, path, &[]);
        desk.seen.answered += 1;
        say(link, request.token, (path, 0), &topic.latest, desk);
    }

    /// Notifies those that observe a topic of a message.
    fn notify(&mut self, path: &str, payload: &[u8], desk: &mut Desk) {
        let Some(topic) = self.topics.get_mut(path) else { return };
        topic.latest = payload.to_vec();
        if topic.followed.is_some_and(|at| desk.at - at < self.starts_late) {
            return;
        }
        for observer in &mut topic.observers {
            observer.number = (observer.number + 1) % NUMBERS;
            desk.seen.notified += 1;
            desk.note("notified", observer.link, path, payload);
            say(observer.link, &observer.token, (path, observer.number), payload, desk);
        }
    }

    fn remove(&mut self, link: u64, request: &Message<'_>, path: &str, desk: &mut Desk) {
        let Some(topic) = self.topics.remove(path) else {
            return desk.refuse(link, request, code::NOT_FOUND);
        };
        for Observer { link, token, .. } in topic.observers {
            desk.links.say(link, code::NOT_FOUND, &token, &OptionList::new(), &[]);
        }
        desk.note("removed", link, path, &[]);
        desk.answer(link, request, code::DELETED, None);
    }

    fn take(&mut self, event: Event, desk: &mut Desk) -> Result<(), OcfError> {
        match event {
            Event::Created { number, path, is_new } => {
                let Some((link, asked)) = self.waiting.remove(&number) else { return Ok(()) };
                let code = if is_new { code::CREATED } else { code::FORBIDDEN };
                if is_new {
                    desk.note("created", link, &path, &[]);
                }
                self.topics.entry(path).or_default();
                desk.answer(link, &asked.message(), code, None);
            }
            Event::Stored { number } => {
                // It is stored whether or not somebody waits for the answer.
                desk.seen.published += 1;
                let Some((link, asked)) = self.waiting.remove(&number) else { return Ok(()) };
                desk.answer(link, &asked.message(), code::CHANGED, None);
            }
            Event::Following { number, path } => {
                let Some((link, asked)) = self.waiting.remove(&number) else { return Ok(()) };
                self.followed(link, &asked.message(), &path, desk);
            }
            Event::Came { path, value } => self.notify(&path, &value, desk),
            Event::Refused { number, error } => {
                let Some((link, asked)) = self.waiting.remove(&number) else { return Ok(()) };
                eprintln!("plimsoll target: Kafka refused with error {error}");
                desk.note("refused", link, &asked.message().path(), &[]);
                desk.refuse(link, &asked.message(), code::SERVICE_UNAVAILABLE);
            }
            Event::Ended(cause) => return Err(OcfError::System(cause)),
        }
        Ok(())
    }
}

/// Sends what a topic holds to somebody that observes it.
fn say(link: u64, token: &[u8], (path, number): (&str, u32), payload: &[u8], desk: &mut Desk) {
    let mut list = OptionList::new();
    list.add_target(path.as_bytes());
    list.add_number(option::OBSERVE, number);
    if !payload.is_empty() {
        list.add_number(option::CONTENT_FORMAT, cbor::CONTENT_FORMAT);
    }
    desk.links.say(link, code::CONTENT, token, &list, payload);
}

impl Server for MessageQueue {
    fn request(&mut self, link: u64, request: &Message<'_>, desk: &mut Desk) {
        let path = request.path();
        let is_topic = path.strip_prefix(TOPICS).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'));
        match (request.code, is_topic, observe(request)) {
            (code::GET, false, _) if path == TOPICS => {
                let all: Vec<Value> = self.topics.keys().map(|path| json!(path)).collect();
                desk.answer(link, request, code::CONTENT, Some(&json!({ "topiclist": all })));
            }
            (code::PUT, true, _) => self.create(link, request, path, desk),
            (code::POST, true, _) => self.publish(link, request, path, desk),
            (code::DELETE, true, _) => self.remove(link, request, &path, desk),
            (code::GET, true, Some(0)) => self.follow(link, request, path, desk),
            (code::GET, true, Some(_)) => {
                if let Some(topic) = self.topics.get_mut(&path) {
                    topic.observers.retain(|own| own.link != link || own.token != request.token);
                }
                desk.answer(link, request, code::CONTENT, None);
            }
            (code::GET, true, None) => match self.topics.get(&path) {
                Some(topic) => {
                    let latest = cbor::to_json(&topic.latest).unwrap_or(json!({}));
                    desk.answer(link, request, code::CONTENT, Some(&latest));
                }
                None => desk.refuse(link, request, code::NOT_FOUND),
            },
            _ => desk.refuse(link, request, code::NOT_FOUND),
        }
    }

    fn closed(&mut self, link: u64, _desk: &mut Desk) {
        for topic in self.topics.values_mut() {
            topic.observers.retain(|observer| observer.link != link);
        }
        self.waiting.retain(|_, (waiting, _)| *waiting != link);
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<(), OcfError> {
        while let Some(event) = self.kafka.as_ref().and_then(Kafka::next) {
            self.take(event, desk)?;
        }
        Ok(())
    }
}
