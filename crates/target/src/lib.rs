//! Targets: servers that Plimsoll brings along, to be loaded.

pub mod broker;
mod clock;
pub mod documents;
pub mod lwm2m;
pub mod ngsi;
pub mod ocf;
pub mod open_loop;
pub mod record;
mod record_file;
pub mod relay;
#[cfg(feature = "rumqttd")]
pub mod rumqttd;
pub mod station;
mod tcp;
mod threads;
mod workers;
