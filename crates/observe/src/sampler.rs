//! Further observers of the platform and its host, each kind in one entry of one table. A new observer is a file with its
//! entry, and a line of [`crate::samplers::SAMPLERS`]. Store, summary and report take what it reads by the names that it gives.

use crate::family::Family;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

/// From one reading to the next, where an observer has no reason for another interval.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Reads something again and again.
pub trait Sampler: Send {
    /// What is seen now, or since the last call; the first call may see nothing yet. What cannot be read is left out: a
    /// gap, never a zero.
    fn read(&mut self, platform: &ObservedPlatform<'_>) -> Vec<Reading>;
}

/// The platform at the time of a reading: a component that was started again has another process.
#[derive(Clone, Copy, Debug)]
pub struct ObservedPlatform<'a> {
    /// The processes of each component on this host, as they were found just before.
    pub families: &'a [Family],
    /// Where devices reach it.
    pub address: SocketAddr,
}

/// What is counted or measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Of one: 0.25 is a quarter.
    Share,
    /// Of one processor: 1.5 is one and a half processors.
    Processors,
    /// How many there are.
    Count,
    /// Bytes that there are.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Events per second.
    PerSecond,
    /// A time.
    Seconds,
    /// Power.
    Watts,
}

impl Unit {
    /// Its name in the store, the summary and the report.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Share => "share",
            Unit::Processors => "processors",
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes/s",
            Unit::PerSecond => "1/s",
            Unit::Seconds => "seconds",
            Unit::Watts => "W",
        }
    }
}

/// A value that was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Of what: `host`, or a component.
    pub subject: String,
    /// Which quantity.
    pub quantity: Cow<'static, str>,
    /// The unit of the value.
    pub unit: Unit,
    /// The value.
    pub value: f64,
}

impl Reading {
    /// Of the host.
    pub fn host(quantity: impl Into<Cow<'static, str>>, unit: Unit, value: f64) -> Reading {
        Reading { subject: "host".to_owned(), quantity: quantity.into(), unit, value }
    }

    /// Of a component.
    pub fn of(component: &str, quantity: impl Into<Cow<'static, str>>, unit: Unit, value: f64) -> Reading {
        Reading { subject: component.to_owned(), quantity: quantity.into(), unit, value }
    }
}

/// A row of [`crate::samplers::SAMPLERS`].
#[derive(Clone, Copy)]
pub struct SamplerEntry {
    /// Its name in the store, the summary and the report.
    pub name: &'static str,
    /// From one reading to the next, as long as a reading is cheap.
    pub interval: Duration,
    /// Begins it, or says what this host lacks for it.
    pub begin: fn() -> Result<Box<dyn Sampler>, &'static str>,
}
