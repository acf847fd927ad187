//! How devices speak LwM2M, resolved.

use plimsoll_codec::lwm2m::{Kind, Path};
use plimsoll_model::Nanos;
use plimsoll_template::Template;

/// The name of the platform's port at which devices are bootstrapped.
pub const BOOTSTRAP_PORT: &str = "bootstrap";

/// What devices are to a server of LwM2M.
#[derive(Clone, Debug, PartialEq)]
pub struct Lwm2mPlan {
    /// How a device calls itself, with `{run}` and `{device}` as variables.
    pub endpoint: Template,
    /// The version that it registers with, as text.
    pub version: &'static str,
    /// For how long a registration holds.
    pub lifetime: Nanos,
    /// For how long it listens after it sent something (queue mode); `None` where it always does.
    pub awake: Option<Nanos>,
    /// Whether registrations are renewed before their lifetime ends.
    pub update: bool,
    /// Whether devices deregister at their end.
    pub deregister: bool,
    /// Whether devices learn of their server from another one first.
    pub bootstrap: bool,
    /// For how long a device installs new firmware; `None` where it takes none.
    pub firmware: Option<Nanos>,
    /// After how long a device comes from another port, as behind a NAT that forgets; `None` for never.
    pub nat_rebinding: Option<Nanos>,
    /// For how long a device that registered waits to be observed, before it counts as one that is not.
    pub observed_within: Nanos,
    /// Path of the interface for registrations, without a slash at its end.
    pub registration: String,
    /// The resource that holds a device's message: a notification of it is the message.
    pub message: Path,
    /// The kind of value that it holds.
    pub message_kind: Kind,
    /// Whether devices send their messages of themselves (1.1 core, section 6.4.6), and need not be observed.
    pub send: bool,
    /// The format of a value for a server that names none, and of messages that are sent.
    pub format: u16,
    /// What else a device has, in the order of the paths; no two of them are the same, and none is the message's.
    pub resources: Vec<ResourcePlan>,
}

/// A resource of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourcePlan {
    /// Where it is.
    pub path: Path,
    /// What it holds.
    pub value: ValuePlan,
    /// Whether a server may write it.
    pub is_writable: bool,
}

/// What a resource holds.
#[derive(Clone, Debug, PartialEq)]
pub enum ValuePlan {
    /// Always this text, with `{run}` and `{device}` as variables.
    Text(Template),
    /// Always this number.
    Float(f64),
    /// Always this whole number.
    Integer(i64),
    /// Always this.
    Boolean(bool),
    /// Another value after each such time.
    Changing {
        /// What its values are.
        change: Change,
        /// For how long one stays.
        every: Nanos,
    },
    /// Bytes that a server writes and nobody reads.
    Package,
    /// Nothing: it is executed.
    Action,
}

/// How a value changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// A number that goes up and down.
    Sine {
        /// The lowest and the highest value.
        range: (f64, f64),
        /// From one highest value to the next.
        period: Nanos,
    },
    /// A number by chance.
    Uniform {
        /// The lowest and the highest value.
        range: (f64, f64),
    },
    /// A number that goes a random step up or down each time, and turns back at its bounds.
    Walk {
        /// The lowest and the highest value.
        range: (f64, f64),
        /// Standard deviation of a step.
        step: f64,
    },
    /// A column of the scenario's feed, one row after the other.
    Column {
        /// Its position.
        column: usize,
        /// What stands in it.
        kind: Kind,
    },
}

impl ValuePlan {
    /// The kind of value that it is; `None` of what is executed.
    pub fn kind(&self) -> Option<Kind> {
        Some(match self {
            ValuePlan::Text(_) => Kind::String,
            ValuePlan::Integer(_) => Kind::Integer,
            ValuePlan::Changing { change: Change::Column { kind, .. }, .. } => *kind,
            ValuePlan::Float(_) | ValuePlan::Changing { .. } => Kind::Float,
            ValuePlan::Boolean(_) => Kind::Boolean,
            ValuePlan::Package => Kind::Opaque,
            ValuePlan::Action => return None,
        })
    }
}
