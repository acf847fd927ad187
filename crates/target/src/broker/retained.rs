//! Retained messages: the latest of each topic, for later subscribers.

use super::context::Context;
use super::memory::Held;
use super::message::Message;
use super::topics::{Tree, cost};
use plimsoll_model::Nanos;
use std::rc::Rc;

/// The retained messages.
#[derive(Default)]
pub struct Retained(Tree<(Rc<Message>, Held)>);

impl Retained {
    /// Keeps a message in place of an earlier one of its topic.
    pub fn keep(&mut self, message: Rc<Message>, context: &Context) {
        let held = context.memory.hold(cost(&message.topic));
        let topic = Rc::clone(&message.topic);
        self.0.insert(&topic, (message, held));
    }

    /// Forgets the message of a topic.
    pub fn forget(&mut self, topic: &str) {
        self.0.remove(topic);
    }

    /// The messages that a filter matches, without those that have expired.
    pub fn matching(&self, filter: &str, now: Nanos) -> Vec<Rc<Message>> {
        let found = self.0.names_matching(filter).into_iter();
        found.map(|(message, _)| message).filter(|message| !message.has_expired(now)).cloned().collect()
    }
}
