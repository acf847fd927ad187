//! Answers, and what they are made of.

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::io;

/// An answer. An error in its body ends the connection, so that nobody takes a part for the whole.
pub type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// The type of a page.
pub const HTML: &str = "text/html; charset=utf-8";

/// A text of that type.
pub fn text(kind: &'static str, text: impl Into<Bytes>) -> Answer {
    let body = Full::new(text.into()).map_err(|never: Infallible| -> io::Error { match never {} });
    with_type(kind, Response::new(body.boxed_unsync()))
}

/// Pieces of that type, as they come.
pub fn stream(kind: &'static str, pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Answer {
    with_type(kind, Response::new(StreamBody::new(pieces.map_ok(Frame::data)).boxed_unsync()))
}

/// Sends a browser to another page, which it gets by itself.
pub fn redirect(to: &str) -> Answer {
    let mut answer = text(HTML, "");
    *answer.status_mut() = StatusCode::SEE_OTHER;
    with(answer, LOCATION, to)
}

/// The same answer with a header. A value that no header can have is left out.
pub fn with(mut answer: Answer, name: HeaderName, value: &str) -> Answer {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
    answer
}

fn with_type(kind: &'static str, mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
