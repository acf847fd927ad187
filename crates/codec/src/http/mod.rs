//! HTTP/1.1 messages (RFC 9112): heads of requests and answers, bodies of known length, in chunks, or up to the end of
//! the connection; and what is in a body that does not end.

mod chunks;
mod head;
mod messages;
mod reader;
mod stream;

pub use head::{Framing, Head, Start};
pub use messages::Messages;
pub use reader::{Message, Reader, Side};
pub use stream::{Begun, StreamReader};

use std::io::Write;

/// Bytes that are no HTTP/1.1 message, or more of one than is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// An answer that does not begin as one.
    #[error("it is no HTTP")]
    NoHttp,
    /// The first line is neither a request nor a status line of HTTP/1.
    #[error("it is no HTTP/1: `{0}`")]
    Start(String),
    /// A head that does not end.
    #[error("its head is longer than {0} bytes")]
    HeadTooLong(usize),
    /// A line of the head that is no field.
    #[error("`{0}` is no header field")]
    Field(String),
    /// A length that is no number.
    #[error("Content-Length `{0}` is no length")]
    Length(String),
    /// Two lengths that contradict each other.
    #[error("it has two Content-Lengths, {0} and {1}")]
    Lengths(usize, usize),
    /// A transfer coding other than `chunked`.
    #[error("transfer coding `{0}` is not known")]
    Coding(String),
    /// A chunk without a size, or that does not end where its size says.
    #[error("a chunk of its body is broken")]
    Chunk,
    /// A body that is longer than what is taken.
    #[error("its body has more than {0} bytes")]
    BodyTooLong(usize),
    /// A message in a body that does not end is longer than what is taken.
    #[error("a message in its body has more than {0} bytes")]
    MessageTooLong(usize),
    /// The connection ended within a message.
    #[error("the connection ended within it")]
    Cut,
}

/// Appends the part of a path or query that stands for any bytes: what is neither unreserved (RFC 3986 section 2.3) nor
/// a slash is escaped.
pub fn escape_path(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(byte);
        } else {
            // Writing to a Vec cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// The words of a status code (RFC 9110 section 15), empty for one that is seldom seen.
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}
