//! TLS under a conversation: its records go to an opener, and what lies under them is read as the conversation.

use super::{Conversation, DissectionContext, Security, State};
use crate::dissect::Carrier;
use crate::dissectors;
use crate::tls::{Clear, Opener, Piece, Unopened, What};
use plimsoll_model::Nanos;
use plimsoll_model::wire::WireProtocol;

/// A hole under TLS: how much of what was said is missing is not known, so that no content can be passed over it.
const UNKNOWN: u64 = u64::MAX;

impl Conversation {
    /// What is kept of both directions is TLS. What a side said in clear before is searched, as what nobody reads.
    pub(super) fn secure_what_is_kept(&mut self, context: &mut DissectionContext<'_>) {
        let mut kept = [0, 1].map(|direction| {
            let own = &mut self.directions[direction];
            own.need = 0;
            (own.kept_since, direction, std::mem::take(&mut own.kept))
        });
        kept.sort_by_key(|(since, ..)| *since);
        self.security = Security::Tls(Box::default());
        for (since, direction, bytes) in kept {
            if dissectors::begins_tls(&bytes) {
                self.data(direction, since, &bytes, context);
            } else {
                self.seek(direction, since, &bytes, context);
            }
        }
    }

    /// Whether a handshake begins where a message should, as where the sides of a protocol agree on TLS: a ClientHello that is
    /// as long as its record.
    pub(super) fn turns_to_tls(&self, direction: usize, bytes: &[u8]) -> bool {
        let &[22, 3, _, high, low, 1, 0, long_high, long_low, ..] = bytes else { return false };
        let (record, message) = (u16::from_be_bytes([high, low]), u16::from_be_bytes([long_high, long_low]));
        let own = &self.directions[direction];
        record == message.saturating_add(4)
            && own.pass == 0
            && own.kept.is_empty()
            && own.begun.is_none()
            && self.carrier == Carrier::Stream
            && matches!(self.security, Security::None)
    }

    /// From those bytes of a direction on it is TLS. What a side has not said to its end, nobody reads.
    pub(super) fn secure(
        &mut self,
        direction: usize,
        at: Nanos,
        bytes: &[u8],
        context: &mut DissectionContext<'_>,
    ) {
        for direction in [0, 1] {
            let kept = std::mem::take(&mut self.directions[direction].kept);
            self.skip(direction, at, &kept, context);
        }
        self.become_other(WireProtocol::Tls);
        self.data(direction, at, bytes, context);
    }

    /// The next of a direction under TLS.
    pub(super) fn sealed(
        &mut self,
        direction: usize,
        at: Nanos,
        piece: Piece<'_>,
        context: &mut DissectionContext<'_>,
    ) {
        self.through(context, |opener, context, clear| {
            opener.take(direction, at, piece, context.keys, clear)
        });
    }

    /// The conversation is over: what became of its TLS is told.
    pub(super) fn unseal_last(&mut self, context: &mut DissectionContext<'_>) {
        let mut over = false;
        self.through(context, |opener, context, clear| {
            opener.close(context.keys, clear)?;
            over = true;
            Ok(())
        });
        if over {
            self.security = Security::Within;
            context.observations.secured.push(Ok(()));
        }
    }

    fn through(
        &mut self,
        context: &mut DissectionContext<'_>,
        open: impl FnOnce(&mut Opener, &DissectionContext<'_>, &mut Clear) -> Result<(), Unopened>,
    ) {
        if !matches!(self.security, Security::Tls(_)) {
            return;
        }
        let Security::Tls(mut opener) = std::mem::replace(&mut self.security, Security::Within) else {
            return;
        };
        let mut clear = Clear::default();
        let outcome = open(&mut opener, context, &mut clear);
        if let Some(client) = opener.client().filter(|_| !self.sure) {
            self.client = client;
            self.sure = true;
        }
        for part in clear.parts {
            let (direction, at) = (part.direction, part.at);
            match part.what {
                What::Data(place) => {
                    self.data(direction, at, clear.bytes.get(place).unwrap_or_default(), context);
                }
                What::Gap => self.gap(direction, at, UNKNOWN, context),
                What::End => self.finished(direction, at, context),
            }
        }
        match outcome {
            Ok(()) => self.security = Security::Tls(opener),
            Err(reason) => {
                context.observations.secured.push(Err(opener.blame(reason)));
                // What waits for an answer may yet have had one.
                self.leave(context);
                self.state = State::Opaque(WireProtocol::Tls);
            }
        }
    }
}

#[cfg(test)]
mod tests;
