//! What outlives a connection, and what MQTT 5 puts beside a message.

pub(crate) mod config;
pub(crate) mod plan;
pub(crate) mod resolve;
