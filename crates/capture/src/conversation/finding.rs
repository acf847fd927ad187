//! How it is found out what a conversation speaks, by the first bytes of either side.

use super::{Conversation, DissectionContext, Security, State, UNDECIDED};
use crate::dissect::Carrier;
use crate::dissectors;
use crate::tls::Unopened;
use plimsoll_model::Nanos;
use plimsoll_model::wire::WireProtocol;

/// Packets of a conversation whose beginning was not captured in which a message's beginning is looked for.
const TRIES: u32 = 64;

impl Conversation {
    /// Finds out what is spoken.
    pub(super) fn undecided(
        &mut self,
        direction: usize,
        at: Nanos,
        bytes: &[u8],
        context: &mut DissectionContext<'_>,
    ) {
        let whole = self.carrier == Carrier::Datagrams;
        let own = &mut self.directions[direction];
        if own.kept.is_empty() {
            own.kept_since = at;
        }
        let before = own.kept.len();
        own.kept.extend_from_slice(bytes);
        let speaker = self.sure.then(|| self.side(direction));
        let mut verdict =
            dissectors::find(&self.directions[direction].kept, self.carrier, self.ports, speaker);
        if before > 0
            && !self.begun
            && matches!(verdict, dissectors::Found::Perhaps | dissectors::Found::None)
        {
            let alone = dissectors::find(bytes, self.carrier, self.ports, speaker);
            if matches!(alone, dissectors::Found::One(..)) {
                // What was kept was the rest of another message.
                let own = &mut self.directions[direction];
                own.kept_since = at;
                let rest: Vec<u8> = own.kept.drain(..before).collect();
                self.seek(direction, at, &rest, context);
                verdict = alone;
            }
        }
        let own = &mut self.directions[direction];
        match verdict {
            dissectors::Found::One(entry, says) => {
                // Where the beginning was not captured, the other side may be in the middle of a message.
                self.directions[1 - direction].lost = !self.begun;
                if let Some(says) = says.filter(|_| !self.sure) {
                    self.client = direction ^ says.index();
                    self.sure = true;
                }
                self.state = State::Known(entry.protocol, (entry.make)(self.carrier));
                self.take_up(direction, context);
            }
            dissectors::Found::Opaque(protocol) => match (protocol, whole, &self.security) {
                (WireProtocol::Tls, false, Security::None) => self.secure_what_is_kept(context),
                (WireProtocol::Tls, true, _) => {
                    context.observations.secured.push(Err(Unopened::Datagrams));
                    self.give_up(protocol, at, context);
                }
                _ => self.give_up(protocol, at, context),
            },
            dissectors::Found::Perhaps if own.kept.len() < UNDECIDED => {}
            _ => {
                self.tries += 1;
                if !whole && self.tries >= if self.begun { 4 } else { TRIES } {
                    self.give_up(WireProtocol::Unknown, at, context);
                } else {
                    // Maybe a message begins with the next packet.
                    let unread = std::mem::take(&mut own.kept);
                    self.seek(direction, at, &unread, context);
                }
            }
        }
    }

    /// Hands what was kept of both directions to the dissector that has been found, in the order in which they began.
    fn take_up(&mut self, direction: usize, context: &mut DissectionContext<'_>) {
        let other = 1 - direction;
        let began = |direction: usize| self.directions[direction].kept_since;
        let other_first = !self.directions[other].kept.is_empty() && began(other) < began(direction);
        for direction in if other_first { [other, direction] } else { [direction, other] } {
            let own = &mut self.directions[direction];
            let since = own.kept_since;
            let bytes = std::mem::take(&mut own.kept);
            own.need = 0;
            if !bytes.is_empty() {
                // Their times lie close together, before there is anything to tell them apart.
                self.known(direction, since, &bytes, context);
            }
        }
    }

    fn give_up(&mut self, protocol: WireProtocol, at: Nanos, context: &mut DissectionContext<'_>) {
        self.state = State::Opaque(protocol);
        for direction in [0, 1] {
            let bytes = std::mem::take(&mut self.directions[direction].kept);
            self.seek(direction, at, &bytes, context);
        }
    }
}
