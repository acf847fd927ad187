//! Targets: servers that Plimsoll brings along, to be loaded.

pub mod broker;
pub mod ngsi;
pub mod open_loop;
pub mod record;
pub mod station;
