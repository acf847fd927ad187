//! One driver a folder or file, and what they have in common: sockets and when they are ready, what lies between a
//! session and its socket, what is on its way to the kernel.

mod layers;
mod link;
pub mod mqtt;
pub mod null;
mod outgoing;
mod readiness;
pub mod request;
mod socket;
mod timers;
pub mod websocket;
