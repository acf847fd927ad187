//! What a published message does.

use super::{Hub, Over, touch};
use crate::broker::deliveries::{Orphan, Terms};
use crate::broker::link::Will;
use crate::broker::message::Arrival;
use crate::broker::reasons;
use crate::broker::record::Cause;
use crate::broker::subscriptions::{Grant, Route};
use plimsoll_codec::mqtt::{AckKind, Publish, QoS};
use std::rc::Rc;

impl Hub {
    /// A client publishes.
    pub(super) fn publish(&mut self, id: u64, session_id: u64, publish: &Publish<'_>) -> Result<(), Over> {
        if publish.properties.subscription_identifiers().next().is_some() {
            return Err(Over::Refused(reasons::PROTOCOL_ERROR));
        }
        let route = self.route_of(id, publish)?;
        let Some(session) = self.sessions.get_mut(session_id) else { return Err(Over::Silent) };
        let packet_id = publish.packet_id.unwrap_or(0);
        // A repetition before PUBREL (MQTT 5 section 4.3.3) was delivered already.
        if publish.qos != QoS::ExactlyOnce || session.incoming.insert(packet_id) {
            let now = self.context.now;
            let topic = Rc::clone(&route.topic);
            let mut arrival =
                Arrival::new(topic, publish.payload, publish.properties, publish.qos, publish.retain, now);
            arrival.trace = self.context.trace(publish.payload, publish.qos);
            self.spread(&route, arrival, Some(session_id));
        }
        let kind = match publish.qos {
            QoS::AtMostOnce => return Ok(()),
            QoS::AtLeastOnce => AckKind::Puback,
            QoS::ExactlyOnce => AckKind::Pubrec,
        };
        if let Some(link) = self.links.get_mut(id) {
            link.acknowledge(kind, packet_id, 0);
            touch(link, id, &mut self.dirty);
        }
        Ok(())
    }

    /// Where a message goes whose topic stands in it, or behind an alias.
    fn route_of(&mut self, id: u64, publish: &Publish<'_>) -> Result<Rc<Route>, Over> {
        let Some(link) = self.links.get_mut(id) else { return Err(Over::Silent) };
        let alias = publish.properties.topic_alias();
        let aliased = match alias {
            Some(alias) if publish.topic.is_empty() => match link.aliases.get(&alias) {
                Some((topic, _)) => Some(Rc::clone(topic)),
                None => return Err(Over::Refused(reasons::ALIAS_INVALID)),
            },
            _ => None,
        };
        let topic = aliased.as_deref().unwrap_or(publish.topic);
        let latest =
            link.route.as_ref().filter(|route| *route.topic == *topic && self.subscriptions.holds(route));
        let route = match latest {
            Some(route) => Rc::clone(route),
            None => {
                let route = self.subscriptions.route(topic);
                link.route = Some(Rc::clone(&route));
                route
            }
        };
        if let (Some(alias), None) = (alias, &aliased) {
            if self.context.memory.is_full() {
                return Err(Over::Refused(reasons::QUOTA_EXCEEDED));
            }
            let held = self.context.memory.hold(topic.len() + 64);
            link.aliases.insert(alias, (Rc::clone(&route.topic), held));
        }
        Ok(route)
    }

    /// Publishes a will. `publisher` is its session, if it goes on.
    pub(super) fn publish_will(&mut self, will: &Will, publisher: Option<u64>) {
        let message = &will.message;
        let route = self.subscriptions.route(&message.topic);
        let mut arrival = Arrival::of(message);
        arrival.trace = self.context.trace(&message.payload, message.qos);
        self.spread(&route, arrival, publisher);
    }

    /// Gives a message to all whom it goes to, and keeps it if it is to be retained.
    fn spread(&mut self, route: &Route, mut arrival: Arrival<'_>, publisher: Option<u64>) {
        if arrival.retain {
            self.retain(&mut arrival);
        }
        for target in &route.targets {
            let grant =
                if Some(target.session) == publisher { target.own.as_ref() } else { Some(&target.grant) };
            if let Some(grant) = grant {
                self.offer(target.session, &mut arrival, grant, None);
            }
        }
        for &group in &route.groups {
            if let Some((session, grant)) = self.member(group) {
                self.offer(session, &mut arrival, &grant, Some(group));
            }
        }
    }

    fn retain(&mut self, arrival: &mut Arrival<'_>) {
        if arrival.payload.is_empty() {
            return self.retained.forget(&arrival.topic);
        }
        if self.context.memory.is_full() {
            // An older message in its place would be false.
            self.retained.forget(&arrival.topic);
            return self.context.drop_delivery(None, Cause::Memory);
        }
        self.retained.keep(arrival.keep(&self.context.memory), &self.context);
    }

    /// The member of a group that gets the next message.
    fn member(&mut self, group: u64) -> Option<(u64, Grant)> {
        let sessions = &self.sessions;
        self.subscriptions
            .member(group, |session| sessions.get(session).is_some_and(|session| session.link.is_some()))
    }

    /// Gives a message to a session.
    fn offer(&mut self, session: u64, arrival: &mut Arrival<'_>, grant: &Grant, group: Option<u64>) {
        let terms = Terms::of(grant, arrival, group);
        if let Some(trace) = &terms.trace {
            trace.matched();
        }
        self.hand(session, arrival, terms);
    }

    /// Gives a message to a session, on these terms.
    pub(super) fn hand(&mut self, session: u64, arrival: &mut Arrival<'_>, terms: Terms) {
        let Some(session) = self.sessions.get_mut(session) else { return };
        match session.link.and_then(|id| Some((id, self.links.get_mut(id)?))) {
            Some((id, link)) => {
                session.deliveries.offer(Some(&mut *link), arrival, terms, &mut self.context);
                touch(link, id, &mut self.dirty);
            }
            None => session.deliveries.offer(None, arrival, terms, &mut self.context),
        }
    }

    /// Gives a message whose member of a group is gone to another.
    pub(super) fn adopt(&mut self, orphan: &Orphan) {
        let Some((session, grant)) = self.member(orphan.group) else {
            return self.context.drop_delivery(orphan.trace.as_ref(), Cause::SessionEnded);
        };
        let mut arrival = Arrival::of(&orphan.message);
        arrival.trace = orphan.trace.clone();
        let terms = Terms::of(&grant, &arrival, Some(orphan.group));
        self.hand(session, &mut arrival, terms);
    }
}
