//! What outlives a connection, and what MQTT 5 puts beside a message.

pub(crate) mod plan;
pub(crate) mod resolve;
pub(crate) mod written;
