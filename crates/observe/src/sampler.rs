//! Further observers of the platform and its host, each kind in one entry of one table. A new observer is a file with its
//! entry, and a line of [`crate::samplers::SAMPLERS`]. Store, summary and report take what it reads by the names that it gives.

use std::net::SocketAddr;

/// Reads something again and again.
pub trait Sampler: Send {
    /// What is seen now, or since the last call; the first call may see nothing yet.
    fn read(&mut self, platform: &ObservedPlatform<'_>) -> Vec<Reading>;
}

/// The platform at the time of a reading: a component that was started again has another process.
#[derive(Clone, Copy, Debug)]
pub struct ObservedPlatform<'a> {
    /// Name and first process of each component on this host.
    pub processes: &'a [(String, i32)],
    /// Where devices reach it.
    pub address: SocketAddr,
}

/// A value that was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Of what: `host`, or a component.
    pub subject: String,
    /// Which quantity.
    pub quantity: &'static str,
    /// The value, in the unit of the sampler.
    pub value: f64,
}

/// A row of [`crate::samplers::SAMPLERS`].
#[derive(Clone, Copy)]
pub struct SamplerEntry {
    /// Its name in the store, the summary and the report.
    pub name: &'static str,
    /// The unit of its values: `share` (of one), `bytes`, `1/s`, `seconds`.
    pub unit: &'static str,
    /// Begins it; `None` where this host has nothing of that kind.
    pub begin: fn() -> Option<Box<dyn Sampler>>,
}
