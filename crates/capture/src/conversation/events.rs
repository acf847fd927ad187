//! What a dissector has told in a step takes effect: messages are stamped, requests wait for their responses, and what was
//! observed is given on.

use super::{Conversation, DissectionContext, Security, State, UNDECIDED};
use crate::action::{ActionCarrier, ClientAction};
use crate::direction::Direction;
use crate::dissect::{Carrier, Event};
use crate::dissectors;
use crate::marker::MessageId;
use crate::observations::{Exchange, Manner, Notice, Sighting};
use crate::pairing::{Content, Waiting};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Label, Outcome, Span, WireProtocol};

/// The message that a step has brought to its end.
#[derive(Clone, Copy)]
struct Message {
    direction: usize,
    side: Side,
    /// What was spoken when it was told.
    protocol: WireProtocol,
    span: Span,
    content: Content,
}

/// What the events of a message say of its markers.
struct Saying {
    /// Of the message, or the status of a response.
    verb: Label,
    /// The marker of the request that it answers.
    asked_with: Option<MessageId>,
    manner: Manner,
}

impl Conversation {
    /// Makes the events of a step effective.
    pub(super) fn tell(&mut self, direction: usize, at: Nanos, context: &mut DissectionContext<'_>) {
        self.search_opened(direction, context);
        if self.events.is_empty() {
            return;
        }
        let (side, protocol) = (self.side(direction), self.protocol());
        let own = &mut self.directions[direction];
        if let &[Event::Aside(verb, bytes)] = self.events.as_slice() {
            self.events.clear();
            let bytes = bytes as u64;
            own.bytes -= bytes.min(own.bytes);
            return self.notice(side, protocol, verb, false, Span { first: at, last: at, bytes }, context);
        }
        if let Some(&Event::Part(id, last)) = self.events.first() {
            own.join(id);
            if !last {
                own.set_aside(id);
            }
        }
        let span = complete(own, at);
        own.tail.clear();
        let markers = std::mem::take(&mut own.markers);
        self.act(protocol, span.first, context);
        let message = Message { direction, side, protocol, span, content: Content::of(&markers) };
        let mut events = std::mem::take(&mut self.events);
        let mut saying = Saying { verb: Label::default(), asked_with: None, manner: Manner::Handed };
        for event in events.drain(..) {
            self.take_effect(event, message, &mut saying, context);
        }
        self.events = events;
        self.sight(&markers, message, &saying, context);
        let own = &mut self.directions[direction];
        own.markers = markers;
        own.markers.clear();
    }

    /// Gives on what the message says that a client does.
    fn act(&mut self, protocol: WireProtocol, at: Nanos, context: &mut DissectionContext<'_>) {
        let (conversation, secured) = (self.id, !matches!(self.security, Security::None));
        let carrier = match (&self.state, self.carrier) {
            (State::Known(WireProtocol::WebSocket, _), _) => ActionCarrier::WebSocket,
            (_, Carrier::Stream) => ActionCarrier::Stream,
            (_, Carrier::Datagrams) => ActionCarrier::Datagrams,
        };
        if let Some(actions) = &mut context.observations.actions {
            actions.extend(self.actions.list.drain(..).map(|action| ClientAction {
                at,
                conversation,
                protocol,
                carrier,
                secured,
                action,
            }));
        }
    }

    /// Looks for markers in what a step has opened.
    fn search_opened(&mut self, direction: usize, context: &DissectionContext<'_>) {
        if self.opened.bytes.is_empty() {
            return;
        }
        self.directions[direction].search_alone(&self.opened.bytes, context.search);
        self.opened.bytes.clear();
        self.opened.bytes.shrink_to(UNDECIDED);
    }

    fn take_effect(
        &mut self,
        event: Event,
        message: Message,
        saying: &mut Saying,
        context: &mut DissectionContext<'_>,
    ) {
        let Message { direction, side, protocol, span, content } = message;
        match event {
            Event::Request(request) => {
                saying.verb = request.verb;
                let prepared = self.directions[direction].prepared.take();
                let content = Content { marker: content.marker.or(prepared), ..content };
                self.ask(side, request, span, content, context);
            }
            Event::Early(request) => self.ask_early(1 - direction, request, span.last, context),
            Event::Response(response) => self.answer(response, message, saying, context),
            Event::Interim(key) => self.pairing.alive(side.other(), key, span.last),
            Event::Withdrawn(key) => {
                if let Some(waiting) = self.pairing.answer(side.other(), key, Content::default()) {
                    self.close(side.other(), &waiting, Outcome::OneWay, context);
                }
            }
            Event::Notice(verb) | Event::Aside(verb, _) => {
                saying.verb = verb;
                self.notice(side, protocol, verb, false, span, context);
            }
            Event::Prepares => self.directions[direction].prepared = content.marker,
            Event::Part(..) | Event::Other => {}
        }
    }

    /// A request has been made: it waits, where it will be answered.
    fn ask(
        &mut self,
        side: Side,
        request: Request,
        span: Span,
        content: Content,
        context: &mut DissectionContext<'_>,
    ) {
        let waiting = Waiting::new(&request, span, content);
        if !request.answered {
            return self.close(side, &waiting, Outcome::OneWay, context);
        }
        if self.pairing.is_astray(side, request.key) {
            return self.close(side, &waiting, Outcome::Unknown, context);
        }
        if let Some(pushed) = self.pairing.ask(side, request.key, waiting) {
            self.close(side, &pushed, pushed.without_answer(), context);
        }
    }

    /// A request is answered before its end: what there is of it in that direction.
    fn ask_early(
        &mut self,
        direction: usize,
        request: Request,
        at: Nanos,
        context: &mut DissectionContext<'_>,
    ) {
        let side = self.side(direction);
        let asking = &mut self.directions[direction];
        if let Key::Id(id) = request.key {
            asking.join(id);
        }
        let span = complete(asking, at);
        let content = Content::of(&asking.markers);
        self.ask(side, request, span, content, context);
    }

    /// A response finds its request, or is a notice.
    fn answer(
        &mut self,
        response: Response,
        message: Message,
        saying: &mut Saying,
        context: &mut DissectionContext<'_>,
    ) {
        let Message { side, protocol, span, content, .. } = message;
        let requester = side.other();
        let Some(waiting) = self.pairing.answer(requester, response.key, content) else {
            saying.verb = response.status;
            // What is known by its content, and answers nothing, is a push.
            if response.key != Key::Content {
                saying.manner = Manner::Answered(None);
            }
            let expected = self.pairing.is_astray(requester, response.key);
            return self.notice(side, protocol, response.status, !expected, span, context);
        };
        let asking = dissectors::asking(protocol, &waiting.verb, &response.status);
        *saying = Saying {
            verb: waiting.verb,
            asked_with: waiting.marker,
            manner: match asking {
                Asking::Next => Manner::Taken,
                Asking::Now | Asking::News => Manner::Answered(Some(waiting.span.last)),
            },
        };
        context.observations.exchanges.push(Exchange {
            conversation: self.id,
            protocol,
            requester,
            verb: waiting.verb,
            outcome: if response.failed { Outcome::Failed } else { Outcome::Answered },
            status: response.status,
            request: waiting.span,
            interim: waiting.interim,
            response: Some(span),
            marker: waiting.marker.or(content.marker),
            carried: waiting.marker.is_some(),
            asking,
        });
    }

    fn notice(
        &self,
        from: Side,
        protocol: WireProtocol,
        verb: Label,
        unexpected: bool,
        span: Span,
        context: &mut DissectionContext<'_>,
    ) {
        let conversation = self.id;
        context.observations.notices.push(Notice { conversation, protocol, from, verb, unexpected, span });
    }

    /// Markers were seen in a message.
    fn sight(
        &self,
        markers: &[MessageId],
        message: Message,
        saying: &Saying,
        context: &mut DissectionContext<'_>,
    ) {
        let own = markers.iter().filter(|id| !id.is_shared());
        context.observations.sightings.extend(own.map(|&marker| Sighting {
            at: message.span.last,
            conversation: self.id,
            from: message.side,
            message: marker,
            verb: saying.verb,
            manner: if saying.asked_with == Some(marker) { Manner::Echoed } else { saying.manner },
        }));
    }
}

/// The message that was being read has come to its end: when it began and ended, and its bytes.
fn complete(direction: &mut Direction, at: Nanos) -> Span {
    let first = direction.begun.take().unwrap_or(at);
    Span { first, last: at, bytes: std::mem::take(&mut direction.bytes) }
}
