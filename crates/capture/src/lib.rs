//! Packets into exchanges and traces: capture files, reassembly, dissectors, matching of requests and responses.
//! Streaming, with memory bounded by what is open; no input makes this crate panic.

pub mod action;
mod calls;
pub mod component;
pub mod conversation;
mod direction;
pub mod dissect;
pub mod dissectors;
mod duplicate_packets;
pub mod errors;
mod ip;
pub mod link;
pub mod marker;
mod merged;
pub mod observations;
pub mod packet;
pub mod pairing;
pub mod phases;
pub mod pipeline;
pub mod pulse;
pub mod request;
#[cfg(test)]
mod script;
pub mod side;
pub mod source;
pub mod table;
pub mod tally;
pub mod tcp;
pub mod times;
pub mod tls;
pub mod traces;
