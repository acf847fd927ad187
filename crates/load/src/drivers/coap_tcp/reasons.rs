//! Why a connection of CoAP over TCP is of no use, for people. Devices, subscribers, queriers and the controller say the
//! same.

use crate::drivers::words;
use plimsoll_codec::coap::stream::{self, Frame};
use plimsoll_codec::stranger::{Stranger, shown};
use plimsoll_model::Nanos;

/// No CSM came in time.
pub fn no_csm(timeout: Nanos) -> String {
    format!(
        "the TCP connection was accepted but no CSM came within {timeout} (RFC 8323 section 5.3); `coap.csm: false` is \
         for a platform that sends none"
    )
}

/// The platform aborted it, with a payload.
pub fn aborted(payload: &[u8]) -> String {
    format!("the platform aborted the connection{}", words::own(payload))
}

/// The platform closed it, where so many bytes of a message had come.
pub fn closed(of_message: usize) -> String {
    let when = if of_message == 0 { "" } else { " in the middle of a message" };
    format!("the platform closed the connection{when}")
}

/// The platform closed it before its CSM; these bytes came.
pub fn closed_at_once(bytes: &[u8]) -> String {
    match Stranger::of(bytes) {
        Some(stranger) => format!("{} answers at this port, not CoAP over TCP", stranger.name),
        None => "the platform closed the connection before it sent a CSM (RFC 8323 section 5.3)".to_owned(),
    }
}

/// What came is no message, or one of more bytes than are taken.
pub fn no_message(bytes: &[u8], most: usize) -> String {
    let begins = shown(bytes);
    match (Stranger::of(bytes), stream::decode(bytes, usize::MAX)) {
        (Some(stranger), _) => format!("{} answers at this port, not CoAP over TCP", stranger.name),
        (None, Ok(Frame::Part(length) | Frame::Message(_, length))) => format!(
            "the platform announced a message of {length} bytes, more than the {most} that Plimsoll takes, or does not \
             speak CoAP over TCP: it begins with {begins}"
        ),
        (None, Err(_)) => {
            format!("the platform sent what is no CoAP message over TCP: it begins with {begins}")
        }
    }
}
