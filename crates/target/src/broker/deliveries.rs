//! What a session still owes its client: messages that wait, and those at QoS 1 and 2 that are in flight (MQTT 5 sections
//! 4.3 and 4.4). Messages are handed out in the order in which they came.

use super::context::Context;
use super::link::{Form, Link};
use super::message::{Arrival, Content, Message};
use super::reasons;
use super::record::{Cause, Trace};
use super::subscriptions::Grant;
use plimsoll_codec::mqtt::{AckKind, QoS};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::rc::Rc;

/// About what a delivery takes that waits or is in flight, bytes.
const DELIVERY_SIZE: usize = size_of::<InFlight>() + 16;

/// How a message is delivered.
#[derive(Clone)]
pub struct Terms {
    /// The quality of service: the lower of the publisher's and the subscription's.
    pub qos: QoS,
    /// The retain flag.
    pub retain: bool,
    /// The identifiers of the subscriptions that it matches.
    pub identifiers: Option<Rc<[u32]>>,
    /// The group of the shared subscription that it matches.
    pub group: Option<u64>,
    /// Its line in the record.
    pub trace: Option<Rc<Trace>>,
}

impl Terms {
    /// The terms of a message that goes to a session by that grant, as a member of that group where it is shared.
    pub fn of(grant: &Grant, arrival: &Arrival<'_>, group: Option<u64>) -> Terms {
        Terms {
            qos: grant.qos.min(arrival.qos),
            retain: grant.retain_as_published && arrival.retain,
            identifiers: grant.identifiers.clone(),
            group,
            trace: arrival.trace.clone(),
        }
    }
}

/// A message on its way to one client.
struct Delivery {
    message: Rc<Message>,
    terms: Terms,
}

/// A message at QoS 1 or 2 that the client has not answered to the end.
struct InFlight {
    /// Its place in the order of sending.
    number: u64,
    /// Whether it was sent over the present connection.
    sent: bool,
    stage: Stage,
}

/// What is awaited of the client.
enum Stage {
    Puback(Delivery),
    Pubrec(Delivery),
    /// The client has the message: only the exchange is to be ended.
    Pubcomp,
}

/// What is owed to one client.
#[derive(Default)]
pub struct Deliveries {
    waiting: VecDeque<Delivery>,
    in_flight: FxHashMap<u16, InFlight>,
    /// Packet ids of what is to be sent again over a new connection, in the old order.
    again: VecDeque<u16>,
    /// How many of those in flight were sent over the present connection.
    open: usize,
    latest_id: u16,
    latest_number: u64,
}

/// A message of a group whose member is gone: another member gets it.
pub struct Orphan {
    /// The message.
    pub message: Rc<Message>,
    /// The group of the shared subscription.
    pub group: u64,
    /// Its line in the record.
    pub trace: Option<Rc<Trace>>,
}

impl Deliveries {
    /// Delivers a message now if the client takes it, else keeps it.
    pub fn offer(
        &mut self,
        link: Option<&mut Link>,
        arrival: &mut Arrival<'_>,
        terms: Terms,
        context: &mut Context,
    ) {
        match link {
            Some(link) if self.is_idle() && self.may_send(link, terms.qos, context) => {
                let packet_id = self.id_for(terms.qos);
                if write(link, arrival.content(), &terms, (packet_id, false), context) && packet_id != 0 {
                    self.track(
                        packet_id,
                        Delivery { message: arrival.keep(&context.memory), terms },
                        context,
                    );
                }
            }
            // A client that is not connected gets nothing at QoS 0 (MQTT 5 section 4.3.1).
            None if terms.qos == QoS::AtMostOnce => {
                context.drop_delivery(terms.trace.as_ref(), Cause::Offline);
            }
            _ if context.memory.is_full() => context.drop_delivery(terms.trace.as_ref(), Cause::Memory),
            _ => {
                context.memory.take(DELIVERY_SIZE);
                self.waiting.push_back(Delivery { message: arrival.keep(&context.memory), terms });
            }
        }
    }

    /// Sends what waits, as far as the client takes it.
    pub fn pump(&mut self, link: &mut Link, context: &mut Context) {
        while let Some(&packet_id) = self.again.front() {
            if !self.may_send(link, QoS::AtLeastOnce, context) {
                return;
            }
            self.again.pop_front();
            self.repeat(packet_id, link, context);
        }
        while let Some(Delivery { terms, .. }) = self.waiting.front() {
            if !self.may_send(link, terms.qos, context) {
                return;
            }
            let Some(delivery) = self.waiting.pop_front() else { return };
            context.memory.give(DELIVERY_SIZE);
            let Delivery { message, terms } = &delivery;
            if message.has_expired(context.now) {
                context.drop_delivery(terms.trace.as_ref(), Cause::Expired);
                continue;
            }
            let packet_id = self.id_for(terms.qos);
            if write(link, message.content(), terms, (packet_id, false), context) && packet_id != 0 {
                self.track(packet_id, delivery, context);
            }
        }
    }

    /// The client has a message at QoS 1, or refuses it.
    pub fn puback(&mut self, packet_id: u16, reason: u8, context: &mut Context) {
        let awaited = |entry: &InFlight| matches!(entry.stage, Stage::Puback(_));
        if self.in_flight.get(&packet_id).is_some_and(awaited)
            && let Some(Stage::Puback(delivery)) = self.forget(packet_id, context)
        {
            settle(&delivery, reason, context);
        }
    }

    /// The client has a message at QoS 2, or refuses it. Answers that where the exchange goes on.
    pub fn pubrec(&mut self, packet_id: u16, reason: u8, link: &mut Link, context: &mut Context) {
        match self.in_flight.get_mut(&packet_id) {
            Some(InFlight { stage, .. }) if !matches!(stage, Stage::Puback(_)) => {
                if let Stage::Pubrec(delivery) = std::mem::replace(stage, Stage::Pubcomp) {
                    settle(&delivery, reason, context);
                    if reason >= reasons::FAILURE {
                        self.forget(packet_id, context);
                        return;
                    }
                }
                link.acknowledge(AckKind::Pubrel, packet_id, 0);
            }
            _ => link.acknowledge(AckKind::Pubrel, packet_id, reasons::PACKET_ID_NOT_FOUND),
        }
    }

    /// The exchange of a message at QoS 2 is over.
    pub fn pubcomp(&mut self, packet_id: u16, context: &mut Context) {
        if self.in_flight.get(&packet_id).is_some_and(|entry| matches!(entry.stage, Stage::Pubcomp)) {
            self.forget(packet_id, context);
        }
    }

    /// The connection is over: what waits at QoS 0 is lost, what is in flight is sent again over the next one.
    pub fn disconnect(&mut self, context: &mut Context) {
        self.open = 0;
        self.waiting.retain(|Delivery { terms, .. }| {
            let kept = terms.qos != QoS::AtMostOnce;
            if !kept {
                context.memory.give(DELIVERY_SIZE);
                context.drop_delivery(terms.trace.as_ref(), Cause::ConnectionLost);
            }
            kept
        });
        let mut ids: Vec<(u64, u16)> = Vec::with_capacity(self.in_flight.len());
        for (&packet_id, entry) in &mut self.in_flight {
            entry.sent = false;
            ids.push((entry.number, packet_id));
        }
        ids.sort_unstable();
        self.again = ids.into_iter().map(|(_, packet_id)| packet_id).collect();
    }

    /// The session is over. Messages of groups that their members may not have got are returned; what was sent at QoS 2
    /// goes to nobody else (MQTT 5 section 4.8.2).
    pub fn end(self, context: &mut Context) -> Vec<Orphan> {
        let mut flying: Vec<(u64, Stage)> =
            self.in_flight.into_values().map(|entry| (entry.number, entry.stage)).collect();
        flying.sort_unstable_by_key(|(number, _)| *number);
        let flying = flying.into_iter().filter_map(|(_, stage)| match stage {
            Stage::Puback(delivery) => Some((delivery, true)),
            Stage::Pubrec(delivery) => Some((delivery, false)),
            Stage::Pubcomp => {
                context.memory.give(DELIVERY_SIZE);
                None
            }
        });
        let flying: Vec<_> = flying.collect();
        let waiting = self.waiting.into_iter().map(|delivery| (delivery, true));
        let mut orphans = Vec::new();
        for (Delivery { message, terms }, may_go_on) in flying.into_iter().chain(waiting) {
            context.memory.give(DELIVERY_SIZE);
            match terms.group.filter(|_| may_go_on) {
                Some(group) => orphans.push(Orphan { message, group, trace: terms.trace }),
                None => context.drop_delivery(terms.trace.as_ref(), Cause::SessionEnded),
            }
        }
        orphans
    }

    /// Whether nothing waits, so that a message passes no other.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.again.is_empty()
    }

    fn may_send(&self, link: &Link, qos: QoS, context: &Context) -> bool {
        (qos == QoS::AtMostOnce || self.open < link.window)
            && link.has_room(context.most_handed, context.memory.is_full())
    }

    /// A free packet id; 0 at QoS 0. The client's receive maximum is at most 65,535, so one is free unless some are kept
    /// from an earlier connection: those are sent again first.
    fn id_for(&mut self, qos: QoS) -> u16 {
        if qos == QoS::AtMostOnce {
            return 0;
        }
        for _ in 0..=u16::MAX {
            self.latest_id = self.latest_id.checked_add(1).unwrap_or(1);
            if !self.in_flight.contains_key(&self.latest_id) {
                break;
            }
        }
        self.latest_id
    }

    fn track(&mut self, packet_id: u16, delivery: Delivery, context: &Context) {
        self.latest_number += 1;
        self.open += 1;
        context.memory.take(DELIVERY_SIZE);
        let stage = match delivery.terms.qos {
            QoS::ExactlyOnce => Stage::Pubrec(delivery),
            _ => Stage::Puback(delivery),
        };
        self.in_flight.insert(packet_id, InFlight { number: self.latest_number, sent: true, stage });
    }

    fn forget(&mut self, packet_id: u16, context: &Context) -> Option<Stage> {
        let entry = self.in_flight.remove(&packet_id)?;
        context.memory.give(DELIVERY_SIZE);
        if entry.sent {
            self.open = self.open.saturating_sub(1);
        }
        Some(entry.stage)
    }

    /// Sends something again over a new connection.
    fn repeat(&mut self, packet_id: u16, link: &mut Link, context: &mut Context) {
        // The client may have answered meanwhile.
        let Some(entry) = self.in_flight.get_mut(&packet_id) else { return };
        let written = match &entry.stage {
            Stage::Puback(Delivery { message, terms }) | Stage::Pubrec(Delivery { message, terms }) => {
                write(link, message.content(), terms, (packet_id, true), context)
            }
            Stage::Pubcomp => {
                link.acknowledge(AckKind::Pubrel, packet_id, 0);
                true
            }
        };
        if written {
            entry.sent = true;
            self.open += 1;
        } else {
            self.forget(packet_id, context);
        }
    }
}

/// Appends a message with that packet id and DUP flag. Whether the client takes it.
fn write(
    link: &mut Link,
    content: Content<'_>,
    terms: &Terms,
    (packet_id, dup): (u16, bool),
    context: &mut Context,
) -> bool {
    let identifiers = terms.identifiers.as_deref().unwrap_or_default();
    let form = Form { dup, qos: terms.qos, retain: terms.retain, packet_id, identifiers };
    if link.publish(content, form, context.now).is_err() {
        context.drop_delivery(terms.trace.as_ref(), Cause::TooLarge);
        return false;
    }
    if terms.qos == QoS::AtMostOnce
        && let Some(trace) = &terms.trace
    {
        link.follow(Rc::clone(trace));
    }
    true
}

/// The client has answered a message.
fn settle(delivery: &Delivery, reason: u8, context: &mut Context) {
    let trace = delivery.terms.trace.as_ref();
    if reason >= reasons::FAILURE {
        context.drop_delivery(trace, Cause::Refused);
    } else if let Some(trace) = trace {
        trace.delivered();
    }
}
