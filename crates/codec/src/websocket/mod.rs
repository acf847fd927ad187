//! WebSocket (RFC 6455): the handshake of a client, and frames in both directions.
//!
//! [`Request`] asks for the protocol and [`Request::answered`] reads the answer; from then on [`encode_frame`] writes
//! frames, and a [`Reader`] makes messages of those that come, however they are cut. [`Deflate`] compresses what stands in
//! them.

mod deflate;
mod frame;
mod handshake;
mod reader;

pub use deflate::{Deflate, DeflateError};
pub use frame::{LARGEST_CONTROL, Opcode, encode_compressed, encode_frame, header_length, mask};
pub use handshake::{LARGEST_ANSWER, Refusal, Request, accept_of};
pub use reader::{Event, Reader, Violation};
