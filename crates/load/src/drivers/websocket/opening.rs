//! The messages with which a WebSocket begins, before any other: a client says who it is, and a subscriber what it wants.

use crate::drivers::DriverContext;
use crate::drivers::answers::verdict;
use crate::run_context::View;
use plimsoll_scenario::plan::{OpeningPlan, Piece, Variables};
use plimsoll_stats::distribution::{Random, random};
use serde_json::Value;

/// Names the stream of random numbers in these messages.
const STREAM: u64 = 0x6f70_656e_696e_6700;

/// What the clients of a shard say at first.
pub struct Opening {
    messages: Vec<OpeningPlan>,
    run: String,
    view: View,
    /// The generation of the access token in the message that was written last.
    generation: u64,
    random: Random,
}

/// Whose connection it is, and of what a message to open it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whom {
    pub device: u32,
    pub subscriber: u32,
}

impl Opening {
    /// By these messages, in order; none where everybody is let in.
    pub fn new(context: &DriverContext, messages: &[OpeningPlan]) -> Opening {
        let DriverContext { plan, run, share, run_context, .. } = context;
        Opening {
            messages: messages.to_vec(),
            run: run.to_string(),
            view: View::of(run_context),
            generation: 0,
            random: random(plan.seed, &[STREAM, u64::from(share.index)]),
        }
    }

    /// Of a subscriber of so many devices: which message is in that place, and the position of the device that it is about.
    pub fn place(&self, mut place: u32, devices: u32) -> Option<(usize, u32)> {
        for (index, message) in self.messages.iter().enumerate() {
            let times = if message.of_each_device { devices } else { 1 };
            if place < times {
                return Some((index, place));
            }
            place -= times;
        }
        None
    }

    /// Renders a message; whether an answer to it is awaited. `None` where there is no such message.
    pub fn write(&mut self, index: usize, whom: Whom, content: &mut Vec<u8>) -> Option<bool> {
        let message = self.messages.get(index)?;
        self.view.refresh();
        self.generation = self.view.generation();
        let variables = variables((&self.run, &self.view), whom);
        let numbers = &mut self.random;
        content.clear();
        message.message.render(&variables, &mut || numbers.bits(), content);
        Some(message.answer.is_some())
    }

    /// What came while the answer to a message is awaited: whether the platform takes it, or why it does not, for people. `None` where
    /// this is no answer to it.
    pub fn read(&self, index: usize, whom: Whom, content: &[u8]) -> Option<Result<(), String>> {
        let message = self.messages.get(index)?;
        let answer = message.answer.as_ref()?;
        let json: Value = serde_json::from_slice(content).ok()?;
        if let Some(name) = &answer.name {
            let mut own = Vec::new();
            name.prefix.render(&variables((&self.run, &self.view), whom), &mut || 0, &mut own);
            if json.pointer(&name.pointer)?.as_str()?.as_bytes() != own {
                return None;
            }
        }
        let refused = verdict(answer, &json)?;
        Some(refused.map_or(Ok(()), |reason| {
            if message.message.has(&|piece| *piece == Piece::Token) {
                // It may have come to its end.
                self.view.refuse(self.generation);
            }
            Err(self.hide(format!("the client was not let in: {reason}"), whom))
        }))
    }

    /// A text of the platform's without what was captured in secret for a client, which it may have repeated.
    pub fn hide(&self, text: String, whom: Whom) -> String {
        self.view.hide_captured(text, (whom.device, whom.subscriber))
    }
}

/// What may stand in the words of a client.
pub fn variables<'a>((run, view): (&'a str, &'a View), whom: Whom) -> Variables<'a> {
    Variables {
        run,
        device: whom.device,
        subscriber: whom.subscriber,
        time_ms: (crate::clock::wall_nanos() / 1_000_000) as u64,
        token: view.token(),
        captures: view.captures(),
        ..Variables::default()
    }
}
