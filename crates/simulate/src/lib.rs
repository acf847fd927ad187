//! A platform, its host and its network in simulated time: a discrete-event model whose truth is known, for tests of
//! everything that is built over a measurement.
//!
//! [`world`] is the whole: messages go from devices over a [`network`] through [`station`]s in a row, are acknowledged by
//! one of them and delivered by the last. A [`calendar`] says when something can work and how fast. Stations may share
//! [`processors`] and locks, and orders of experiments slow them. The [`spec`] says what is simulated, faults included.
//! Time passes only when the generator waits; nothing here reads a clock.
//!
//! Deliberately left out: bytes on a wire. [`memory`] follows a law of its own, whatever the load is.

pub mod calendar;
mod memory;
pub mod network;
pub mod processors;
pub mod spec;
pub mod station;
pub mod world;

pub use spec::{Fault, FaultKind, GeneratorSpec, NetworkSpec, Spec, StationSpec};
pub use world::{Client, Happening, Host, Simulation, Used};
