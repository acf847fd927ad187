//! Requests that wait for their responses.

use crate::marker::MessageId;
use crate::request::{Key, Request};
use crate::side::Side;
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Label, Outcome, Span};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The most requests of one side that wait; of an older one it is not known whether it is answered.
const MOST: usize = 1 << 14;

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// What it asked for.
    pub verb: Label,
    /// What the dissector said of it.
    pub tag: u64,
    pub(crate) span: Span,
    pub(crate) marker: Option<MessageId>,
    /// When there was a first sign of life.
    pub(crate) interim: Option<Nanos>,
    /// The capture may have lost its answer.
    pub(crate) uncertain: bool,
    /// What its response may carry too.
    content: Content,
    /// Whether a response is recognised by that.
    by_content: bool,
}

impl Waiting {
    /// A request as it was made.
    pub(crate) fn new(request: &Request, span: Span, content: Content) -> Waiting {
        Waiting {
            verb: request.verb,
            tag: request.tag,
            span,
            marker: content.marker,
            interim: None,
            uncertain: false,
            content,
            by_content: request.key == Key::Content,
        }
    }

    /// What became of it where no answer was seen.
    pub(crate) fn without_answer(&self) -> Outcome {
        if self.uncertain { Outcome::Unknown } else { Outcome::Unanswered }
    }
}

/// What was recognised in a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Content {
    /// The first marker.
    pub marker: Option<MessageId>,
    /// The first id that request and response share.
    pub shared: Option<MessageId>,
}

impl Content {
    /// What was found in a message.
    pub fn of(found: &[MessageId]) -> Content {
        let first = |shared: bool| found.iter().find(|id| id.is_shared() == shared).copied();
        Content { marker: first(false), shared: first(true) }
    }

    /// Whether there is anything by which request and response can be matched.
    fn tells(&self) -> bool {
        self.shared.or(self.marker).is_some()
    }

    /// Whether a request and a response carry the same: the id, where both have one, else the marker.
    fn is_of(&self, other: &Content) -> bool {
        match (self.shared, other.shared) {
            (Some(one), Some(other)) => one == other,
            _ => self.marker.is_some() && self.marker == other.marker,
        }
    }
}

/// What waits in one conversation.
#[derive(Debug, Default)]
pub struct Pairing {
    sides: [Queues; 2],
}

#[derive(Debug, Default)]
struct Queues {
    in_order: VecDeque<Waiting>,
    by_id: FxHashMap<u64, Waiting>,
    /// The numbers in the order of asking, with the times that tell whether they are still those; some are answered.
    asked: VecDeque<(u64, Nanos)>,
    /// Several requests waited in order when the thread was lost: how many responses are still to come for them is not known.
    astray: bool,
    /// A response has carried what its request did. Before that, those without one come in order.
    echoed: bool,
}

impl Pairing {
    /// The oldest request of a side that is answered in order.
    pub fn oldest(&self, side: Side) -> Option<&Waiting> {
        self.sides[side.index()].in_order.front()
    }

    /// The request of a side with that number.
    pub fn waiting(&self, side: Side, id: u64) -> Option<&Waiting> {
        self.sides[side.index()].by_id.get(&id)
    }

    /// A request has been made; the one that it pushes out is returned: one with the same number, or the oldest of too
    /// many.
    pub(crate) fn ask(&mut self, side: Side, key: Key, waiting: Waiting) -> Option<Waiting> {
        let queues = &mut self.sides[side.index()];
        match key {
            Key::Id(id) => {
                let replaced = queues.by_id.insert(id, waiting);
                queues.asked.push_back((id, waiting.span.first));
                let is_waiting = |by_id: &FxHashMap<u64, Waiting>, (id, first): &(u64, Nanos)| {
                    by_id.get(id).is_some_and(|waiting| waiting.span.first == *first)
                };
                if queues.asked.len() > 2 * MOST {
                    let Queues { asked, by_id, .. } = queues;
                    asked.retain(|asked| is_waiting(by_id, asked));
                }
                if replaced.is_some() {
                    return replaced;
                }
                while queues.by_id.len() > MOST {
                    let oldest = queues.asked.pop_front()?;
                    if is_waiting(&queues.by_id, &oldest) {
                        let pushed = queues.by_id.remove(&oldest.0);
                        return pushed.map(|pushed| Waiting { uncertain: true, ..pushed });
                    }
                }
                None
            }
            Key::Order | Key::Content => {
                queues.in_order.push_back(waiting);
                let pushed = if queues.in_order.len() > MOST { queues.in_order.pop_front() } else { None };
                pushed.map(|pushed| Waiting { uncertain: true, ..pushed })
            }
        }
    }

    /// The request of that side which a response with that key and content answers.
    pub(crate) fn answer(&mut self, asked: Side, key: Key, content: Content) -> Option<Waiting> {
        let queues = &mut self.sides[asked.index()];
        match key {
            Key::Id(id) => queues.by_id.remove(&id),
            Key::Order => queues.in_order.pop_front(),
            Key::Content => {
                let at = queues.in_order.iter().position(|waiting| match content.tells() {
                    true => waiting.by_content && waiting.content.is_of(&content),
                    false => !waiting.content.tells() || !queues.echoed,
                })?;
                queues.echoed |= content.tells();
                queues.in_order.remove(at)
            }
        }
    }

    /// Marks the request that a sign of life is for.
    pub(crate) fn alive(&mut self, asked: Side, key: Key, at: Nanos) {
        let queues = &mut self.sides[asked.index()];
        let waiting = match key {
            Key::Id(id) => queues.by_id.get_mut(&id),
            Key::Order | Key::Content => queues.in_order.front_mut(),
        };
        if let Some(waiting) = waiting {
            waiting.interim.get_or_insert(at);
        }
    }

    /// Takes out what waits in the order of a side: its order is lost. What waits with a number may yet be answered.
    pub(crate) fn drop_in_order(&mut self, side: Side) -> VecDeque<Waiting> {
        let queues = &mut self.sides[side.index()];
        queues.by_id.values_mut().for_each(|waiting| waiting.uncertain = true);
        queues.astray |= queues.in_order.len() > 1;
        std::mem::take(&mut queues.in_order)
    }

    /// Whether a response that comes in order may belong to a request from before the thread was lost.
    pub(crate) fn is_astray(&self, asked: Side, key: Key) -> bool {
        !matches!(key, Key::Id(_)) && self.sides[asked.index()].astray
    }

    /// Answers to what waits may not be seen.
    pub(crate) fn doubt(&mut self) {
        for queues in &mut self.sides {
            let all = queues.in_order.iter_mut().chain(queues.by_id.values_mut());
            all.for_each(|waiting| waiting.uncertain = true);
        }
    }

    /// Nothing is owed from before the thread was lost.
    pub(crate) fn set_right(&mut self) {
        self.sides.iter_mut().for_each(|queues| queues.astray = false);
    }

    /// All that waits on a side, oldest first, taken out.
    pub(crate) fn drain(&mut self, side: Side) -> impl Iterator<Item = Waiting> + use<> {
        let queues = std::mem::take(&mut self.sides[side.index()]);
        let mut all: Vec<Waiting> = queues.in_order.into_iter().chain(queues.by_id.into_values()).collect();
        all.sort_by_key(|waiting| waiting.span.first);
        all.into_iter()
    }
}
