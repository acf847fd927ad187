//! SUBSCRIBE and UNSUBSCRIBE.

use super::{Hub, Over, touch};
use crate::broker::deliveries::Terms;
use crate::broker::message::Arrival;
use crate::broker::reasons;
use crate::broker::subscriptions::Wish;
use plimsoll_codec::mqtt::{
    Packet, Properties, RetainHandling, Suback, Subscribe, Subscription, Unsuback, Unsubscribe, Version,
    topic,
};

impl Hub {
    /// A client subscribes. Retained messages follow the answer.
    pub(super) fn subscribe(&mut self, id: u64, session: u64, subscribe: &Subscribe<'_>) -> Result<(), Over> {
        let Some(version) = self.links.get(id).map(|link| link.version) else { return Err(Over::Silent) };
        let identifier = subscribe.properties.subscription_identifiers().next();
        let mut codes = Vec::with_capacity(subscribe.subscriptions.len());
        let mut granted = Vec::new();
        for subscription in &subscribe.subscriptions {
            if self.context.memory.is_full() {
                codes.push(if version == Version::V5 { reasons::QUOTA_EXCEEDED } else { reasons::FAILURE });
                continue;
            }
            codes.push(subscription.qos.level());
            if let Some(wish) = self.enter(session, subscription, identifier) {
                granted.push((subscription.filter, wish));
            }
        }
        let (packet_id, properties) = (subscribe.packet_id, Properties::default());
        self.reply(id, version, &Packet::Suback(Suback { packet_id, codes: &codes, properties }));
        for (filter, wish) in granted {
            self.send_retained(session, filter, wish);
        }
        Ok(())
    }

    /// Enters a subscription; how it wants retained messages, if it wants them now.
    fn enter(&mut self, session_id: u64, asked: &Subscription<'_>, identifier: Option<u32>) -> Option<Wish> {
        let wish = Wish {
            qos: asked.qos,
            no_local: asked.no_local,
            retain_as_published: asked.retain_as_published,
            identifier,
        };
        let session = self.sessions.get_mut(session_id)?;
        let memory = &self.context.memory;
        let new = self.subscriptions.subscribe(session_id, &mut session.filters, asked.filter, wish, memory);
        let wanted = match asked.retain_handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => new,
            RetainHandling::DoNotSend => false,
        };
        // A group gets no retained messages (MQTT 5 section 4.8.2).
        (wanted && topic::shared(asked.filter).is_none()).then_some(wish)
    }

    fn send_retained(&mut self, session: u64, filter: &str, wish: Wish) {
        for message in self.retained.matching(filter, self.context.now) {
            let terms = Terms {
                qos: wish.qos.min(message.qos),
                retain: true,
                identifiers: wish.identifier.map(|identifier| [identifier].into()),
                group: None,
                trace: None,
            };
            self.hand(session, &mut Arrival::of(&message), terms);
        }
    }

    /// A client no longer subscribes.
    pub(super) fn unsubscribe(
        &mut self,
        id: u64,
        session_id: u64,
        unsubscribe: &Unsubscribe<'_>,
    ) -> Result<(), Over> {
        let Some(version) = self.links.get(id).map(|link| link.version) else { return Err(Over::Silent) };
        let Some(session) = self.sessions.get_mut(session_id) else { return Err(Over::Silent) };
        let codes: Vec<u8> = unsubscribe
            .filters
            .iter()
            .map(|filter| self.subscriptions.unsubscribe(session_id, &mut session.filters, filter))
            .map(|known| if known { 0 } else { reasons::NO_SUBSCRIPTION_EXISTED })
            .collect();
        // MQTT 3.1.1 answers without codes (section 3.11).
        let codes = if version == Version::V311 { &[][..] } else { &codes };
        let (packet_id, properties) = (unsubscribe.packet_id, Properties::default());
        self.reply(id, version, &Packet::Unsuback(Unsuback { packet_id, codes, properties }));
        Ok(())
    }

    fn reply(&mut self, id: u64, version: Version, packet: &Packet<'_>) {
        let Some(link) = self.links.get_mut(id) else { return };
        // Ids are those that clients sent, codes those of the packet.
        let _ = packet.encode(version, link.out.bytes());
        touch(link, id, &mut self.dirty);
    }
}
