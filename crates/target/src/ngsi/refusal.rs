//! Errors as NGSIv2 answers them: a status, a name and a description (NGSIv2 specification, "Error Responses").

use serde_json::json;
use std::fmt::Display;

/// A request that is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of HTTP.
    pub status: u16,
    /// The specification's name for it.
    pub error: &'static str,
    /// What is wrong, for people.
    pub description: String,
}

impl Refusal {
    fn new(status: u16, error: &'static str, description: impl Display) -> Refusal {
        Refusal { status, error, description: description.to_string() }
    }

    /// The body is no JSON.
    pub fn parse(description: impl Display) -> Refusal {
        Refusal::new(400, "ParseError", description)
    }

    /// The request is wrong in itself.
    pub fn bad(description: impl Display) -> Refusal {
        Refusal::new(400, "BadRequest", description)
    }

    /// No token, or another one.
    pub fn unauthorized() -> Refusal {
        Refusal::new(401, "Unauthorized", "the header field X-Auth-Token has not got the token")
    }

    /// What is asked for is not there.
    pub fn not_found(what: impl Display) -> Refusal {
        Refusal::new(404, "NotFound", format!("{what} does not exist"))
    }

    /// The resource knows no such method. The name is written as the specification writes it.
    pub fn method(method: &str) -> Refusal {
        Refusal::new(405, "MethodNotAlowed", format!("{method} is not allowed here"))
    }

    /// Several entities are meant where one must be.
    pub fn too_many(id: &str) -> Refusal {
        Refusal::new(409, "TooManyResults", format!("several entities have the id `{id}`; give a type"))
    }

    /// Neither a length nor chunks.
    pub fn no_length() -> Refusal {
        Refusal::new(411, "ContentLengthRequired", "a body needs Content-Length or chunks")
    }

    /// A body beyond the limit.
    pub fn too_large(limit: usize) -> Refusal {
        Refusal::new(413, "RequestEntityTooLarge", format!("a request has at most {limit} bytes"))
    }

    /// Everything that may be kept is kept already.
    pub fn full(what: impl Display) -> Refusal {
        Refusal::new(413, "NoResourcesAvailable", what)
    }

    /// A body that is not said to be JSON.
    pub fn media_type() -> Refusal {
        Refusal::new(415, "UnsupportedMediaType", "the Content-Type of a body is application/json")
    }

    /// Understood, but it does not fit to what is there.
    pub fn unprocessable(description: impl Display) -> Refusal {
        Refusal::new(422, "Unprocessable", description)
    }

    /// The store does not do what it must.
    pub fn store(description: impl Display) -> Refusal {
        Refusal::new(500, "InternalServerError", description)
    }

    /// A planted fault.
    pub fn planted() -> Refusal {
        Refusal::new(503, "ServiceUnavailable", "a planted fault")
    }

    /// More connections than are served.
    pub fn busy() -> Refusal {
        Refusal::new(503, "ServiceUnavailable", "no more connections are served")
    }

    /// The body of the answer.
    pub fn body(&self) -> Vec<u8> {
        json!({ "error": self.error, "description": self.description }).to_string().into_bytes()
    }
}
