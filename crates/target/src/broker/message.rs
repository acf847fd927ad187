//! Application messages: as they arrive, and as they are kept.

use super::memory::{Held, Memory};
use super::record::Trace;
use plimsoll_codec::mqtt::{Properties, Property, QoS, StoredProperties};
use plimsoll_model::Nanos;
use std::rc::Rc;

/// A message that somebody keeps: a delivery that waits or is in flight, the retained messages, a will.
pub struct Message {
    /// Where it was published.
    pub topic: Rc<str>,
    /// Its content.
    pub payload: Box<[u8]>,
    /// What is forwarded beside the content.
    pub properties: StoredProperties,
    /// The publisher's quality of service.
    pub qos: QoS,
    /// The publisher's retain flag.
    pub retain: bool,
    /// When it is no longer worth delivering.
    pub expires: Option<Nanos>,
    /// Its bytes.
    _held: Held,
}

/// What is written of a message in a PUBLISH, wherever it is kept.
#[derive(Clone, Copy)]
pub struct Content<'a> {
    /// Where it was published.
    pub topic: &'a str,
    /// Its content.
    pub payload: &'a [u8],
    /// Properties, among them those that are forwarded.
    pub properties: Properties<'a>,
    /// Whether any of them is forwarded.
    pub forwards: bool,
    /// When it is no longer worth delivering.
    pub expires: Option<Nanos>,
}

/// A message on its way to its subscribers. It is copied only if one of them must wait for it.
pub struct Arrival<'a> {
    /// Its topic, which kept copies share.
    pub topic: Rc<str>,
    /// What is written of it; its topic is the one above.
    pub payload: &'a [u8],
    /// Properties, among them those that are forwarded.
    pub properties: Properties<'a>,
    /// The publisher's quality of service.
    pub qos: QoS,
    /// The publisher's retain flag.
    pub retain: bool,
    /// When it is no longer worth delivering.
    pub expires: Option<Nanos>,
    /// Its line in the record.
    pub trace: Option<Rc<Trace>>,
    forwards: bool,
    kept: Option<Rc<Message>>,
}

/// Whether a property of a PUBLISH goes on to subscribers as it is.
pub fn is_forwarded(property: &Property<'_>) -> bool {
    matches!(
        property,
        Property::PayloadFormatIndicator(_)
            | Property::ContentType(_)
            | Property::ResponseTopic(_)
            | Property::CorrelationData(_)
            | Property::UserProperty(..)
    )
}

impl Message {
    /// Whether it is no longer worth delivering.
    pub fn has_expired(&self, now: Nanos) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// What is written of it.
    pub fn content(&self) -> Content<'_> {
        Content {
            topic: &self.topic,
            payload: &self.payload,
            properties: self.properties.as_properties(),
            forwards: self.properties.size() > 0,
            expires: self.expires,
        }
    }
}

impl<'a> Arrival<'a> {
    /// A message that came in.
    pub fn new(
        topic: Rc<str>,
        payload: &'a [u8],
        properties: Properties<'a>,
        qos: QoS,
        retain: bool,
        now: Nanos,
    ) -> Arrival<'a> {
        let interval = properties.message_expiry_interval();
        Arrival {
            topic,
            payload,
            properties,
            qos,
            retain,
            expires: interval.map(|seconds| now + Nanos::from_secs(seconds.into())),
            trace: None,
            forwards: properties.iter().any(|property| is_forwarded(&property)),
            kept: None,
        }
    }

    /// A message that is kept.
    pub fn of(message: &'a Rc<Message>) -> Arrival<'a> {
        let content = message.content();
        Arrival {
            topic: Rc::clone(&message.topic),
            payload: content.payload,
            properties: content.properties,
            qos: message.qos,
            retain: message.retain,
            expires: message.expires,
            trace: None,
            forwards: content.forwards,
            kept: Some(Rc::clone(message)),
        }
    }

    /// What is written of it.
    pub fn content(&self) -> Content<'_> {
        Content {
            topic: &self.topic,
            payload: self.payload,
            properties: self.properties,
            forwards: self.forwards,
            expires: self.expires,
        }
    }

    /// The copy that all who keep it share.
    pub fn keep(&mut self, memory: &Rc<Memory>) -> Rc<Message> {
        if let Some(kept) = &self.kept {
            return Rc::clone(kept);
        }
        let properties = if self.forwards {
            // What was read can be written.
            StoredProperties::new(self.properties.iter().filter(is_forwarded)).unwrap_or_default()
        } else {
            StoredProperties::default()
        };
        let bytes = self.topic.len() + self.payload.len() + properties.size() + size_of::<Message>();
        let message = Rc::new(Message {
            topic: Rc::clone(&self.topic),
            payload: self.payload.into(),
            properties,
            qos: self.qos,
            retain: self.retain,
            expires: self.expires,
            _held: memory.hold(bytes),
        });
        self.kept = Some(Rc::clone(&message));
        message
    }
}
