//! Targets: servers that Plimsoll brings along, to be loaded.

pub mod broker;
pub mod station;
