//! Many machines as one: what a coordinator and its workers say to each other, and the NATS server that carries it.
//!
//! A run's load threads are dealt out to workers. The engine at the coordinator gives its commands as orders, and gets the
//! replies, as if the threads were its own ([`plimsoll_load::engine::Engine::elsewhere`]). Each pair of processes has a
//! [`link::Link`], which repeats [`frame::Frame`]s until they were acknowledged. So a server that drops frames or starts
//! again loses nothing. A [`post::Post`] carries frames through NATS, outside the load threads.
//!
//! Deliberately absent: knowledge of platforms, stores and reports.

pub mod announcement;
mod bytes;
pub mod deployment;
pub mod frame;
pub mod gathered_parts;
pub mod link;
pub mod message;
pub mod placement;
pub mod post;
pub mod prepare;
pub mod receipts;
