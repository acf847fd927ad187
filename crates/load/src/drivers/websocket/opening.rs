//! The messages with which a WebSocket begins, before any other: a client says who it is, and a subscriber what it wants.

use super::connection::Connection;
use crate::drivers::DriverContext;
use crate::drivers::answers::{verdict, word};
use crate::drivers::whom::{Whom, variables};
use crate::run_context::View;
use plimsoll_codec::websocket::Opcode;
use plimsoll_scenario::plan::{AnswerPlan, OpeningPlan, Piece};
use plimsoll_stats::distribution::{Random, random};
use serde_json::Value;

/// Names the stream of random numbers in these messages.
const STREAM: u64 = 0x6f70_656e_696e_6700;

/// What the clients of a shard say at first.
pub struct Opening {
    messages: Vec<OpeningPlan>,
    run: String,
    view: View,
    random: Random,
    content: Vec<u8>,
}

/// Who says the messages.
#[derive(Clone, Copy)]
pub struct Speaker<'a> {
    /// How many devices it says those for that are about one.
    pub devices: u32,
    /// Whose message it is that is about the device at a position.
    pub whom: &'a dyn Fn(u32) -> Whom,
}

impl Opening {
    /// By these messages, in order; none where everybody is let in.
    pub fn new(context: &DriverContext, messages: &[OpeningPlan]) -> Opening {
        let DriverContext { plan, run, share, run_context, .. } = context;
        Opening {
            messages: messages.to_vec(),
            run: run.to_string(),
            view: View::of(run_context),
            random: random(plan.seed, &[STREAM, u64::from(share.index)]),
            content: Vec::new(),
        }
    }

    /// Whose message is in a place; behind the last one, that of the first device.
    pub fn whom(&self, place: u32, speaker: Speaker<'_>) -> Whom {
        said(&self.messages, place, speaker).map_or_else(|| (speaker.whom)(0), |(_, whom)| whom)
    }

    /// Says what is next from a place on, up to a message whose answer is awaited; whether nothing is left to be said.
    pub fn say(&mut self, place: &mut u32, speaker: Speaker<'_>, connection: &mut Connection) -> bool {
        self.view.refresh();
        while let Some((message, whom)) = said(&self.messages, *place, speaker) {
            let (variables, numbers) = (variables((&self.run, &self.view), whom), &mut self.random);
            self.content.clear();
            message.message.render(&variables, &mut || numbers.bits(), &mut self.content);
            connection.message(Opcode::Text, &self.content, None, None);
            if message.message.has(&|piece| *piece == Piece::Token) {
                connection.token = Some(self.view.generation());
            }
            if message.answer.is_some() {
                return false;
            }
            *place += 1;
        }
        true
    }

    /// Whether the answer to each of these messages is awaited.
    pub fn awaits_all(&self) -> bool {
        self.messages.iter().all(|message| message.answer.is_some())
    }

    /// How the platform answers these messages, where it does.
    pub fn answers(&self) -> impl Iterator<Item = &AnswerPlan> {
        self.messages.iter().filter_map(|message| message.answer.as_ref())
    }

    /// What came while the answer to a message is awaited, with the generation of the access token that was said last: whether the
    /// platform takes the message, or why it does not, for people. `None` where this is no answer to it.
    pub fn read(
        &self,
        place: u32,
        speaker: Speaker<'_>,
        token: Option<u64>,
        content: &[u8],
    ) -> Option<Result<(), String>> {
        let (message, whom) = said(&self.messages, place, speaker)?;
        let answer = message.answer.as_ref()?;
        let json: Value = serde_json::from_slice(content).ok()?;
        if let Some(name) = &answer.name {
            let mut own = Vec::new();
            name.prefix.render(&variables((&self.run, &self.view), whom), &mut || 0, &mut own);
            if word(json.pointer(&name.pointer)?).as_bytes() != own {
                return None;
            }
        }
        let refused = verdict(answer, &json)?;
        Some(refused.map_or(Ok(()), |reason| {
            if let Some(token) = token.filter(|_| message.message.has(&|piece| *piece == Piece::Token)) {
                // It may have come to its end.
                self.view.refuse(token);
            }
            Err(self.hide(format!("the client was not let in: {reason}"), whom))
        }))
    }

    /// A text of the platform's without what was captured in secret for a client, which it may have repeated.
    pub fn hide(&self, text: String, whom: Whom) -> String {
        self.view.hide_captured(text, (whom.device, whom.subscriber))
    }
}

/// Which message is in a place, and whose it is; `None` behind the last one.
fn said<'a>(
    messages: &'a [OpeningPlan],
    mut place: u32,
    speaker: Speaker<'_>,
) -> Option<(&'a OpeningPlan, Whom)> {
    for message in messages {
        let times = if message.of_each_device { speaker.devices } else { 1 };
        if place < times {
            return Some((message, (speaker.whom)(place)));
        }
        place -= times;
    }
    None
}
