//! What is looked at beside what the platform's processes and connections use, each kind in one entry of one table. A new observer is
//! a file with its entry, and a line of [`crate::samplers::SAMPLERS`]; store, summary and report know what it reads by the names that it gives.

/// A look at something, again and again.
pub trait Sampler: Send {
    /// What is seen now, or since the last call; the first call may see nothing yet.
    fn read(&mut self) -> Vec<Look>;
}

/// A value that was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
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
