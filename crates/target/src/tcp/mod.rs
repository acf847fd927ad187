//! What servers over TCP share: the listening socket, the sockets of clients, the bytes that wait for them, and the slots
//! that ids of epoll name.

mod door;
mod outgoing;
mod peer;
mod slots;

pub use door::Door;
pub use outgoing::Outgoing;
pub use peer::{Gone, Peer, reset};
pub use slots::Slots;
