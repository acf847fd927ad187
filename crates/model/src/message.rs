//! The message log: what became of every single message.

use crate::LevelIndex;
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// One message as the ledger left it: when it was done with, or when its level was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRecord {
    /// The level in which it was due.
    pub level: LevelIndex,
    /// The sample, `None` for the warm-up.
    pub sample: Option<u16>,
    /// The device that sent it.
    pub device: u32,
    /// Its number within its device, from 0 over the whole run.
    pub sequence: u32,
    /// When it was due.
    pub due: Nanos,
    /// When the engine took it up.
    pub ready: Nanos,
    /// When its last byte was handed to the kernel; `None` where it was not sent.
    pub sent: Option<Nanos>,
    /// When its acknowledgement was read, or at a gateway whose log stands for that, when its work was done; `None` where none came,
    /// as at QoS 0.
    pub done: Option<Nanos>,
    /// When the first subscriber read it.
    pub first_received: Option<Nanos>,
    /// Of an event at a gateway: when it was there, and when its event handler had it. `None` for all others, and
    /// where the gateway's log does not say.
    pub retrieved: Option<Nanos>,
    /// See [`MessageRecord::retrieved`].
    pub dispatched: Option<Nanos>,
    /// How many subscribers it was for.
    pub receivers: u32,
    /// How many of them lacked it when its level was closed; what comes after that is late, not lost.
    pub missing: u32,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a message; where several hold, the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It was not sent before its level was closed.
    Unsent,
    /// The platform refused it with a reason code.
    Refused,
    /// Its connection broke before its acknowledgement.
    Abandoned,
    /// Its acknowledgement had not come when its level was closed.
    Unacknowledged,
    /// Some subscriber lacked it when its level was closed.
    Lost,
    /// It was acknowledged, where that can be, and every subscriber has it.
    Complete,
}

impl Fate {
    /// Every fate.
    pub const ALL: [Fate; 6] =
        [Fate::Unsent, Fate::Refused, Fate::Abandoned, Fate::Unacknowledged, Fate::Lost, Fate::Complete];

    /// Its name in the store and in exports.
    pub fn name(self) -> &'static str {
        match self {
            Fate::Unsent => "unsent",
            Fate::Refused => "refused",
            Fate::Abandoned => "abandoned",
            Fate::Unacknowledged => "unacknowledged",
            Fate::Lost => "lost",
            Fate::Complete => "complete",
        }
    }

    /// The fate of that name.
    pub fn from_name(name: &str) -> Option<Fate> {
        Fate::ALL.into_iter().find(|fate| fate.name() == name)
    }
}
