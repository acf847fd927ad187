//! A request as the broker understands it, and its answer.

use super::refusal::Refusal;
use plimsoll_codec::http::{Message, Start, reason};
use serde_json::Value;
use std::io::Write;

/// What the last part of a tenant's paths may be: everything below.
const BELOW: &str = "/#";

/// A request, read.
pub struct Request<'a> {
    /// Such as `PATCH`.
    pub method: &'a str,
    /// The parts of the path, percent-decoded.
    pub path: Vec<String>,
    /// The query, percent-decoded.
    query: Vec<(String, String)>,
    /// Fiware-Service: whose data are meant; empty for nobody's in particular.
    pub tenant: String,
    /// Fiware-ServicePath as written.
    scope: Option<String>,
    body: Option<Result<&'a [u8], Refusal>>,
    token: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Reads what a client sent.
    ///
    /// # Errors
    /// The target is no path, or a tenant header is none.
    pub fn read(message: &Message<'a>) -> Result<Request<'a>, Refusal> {
        let Start::Request { method, target } = message.head.start else {
            return Err(Refusal::bad("an answer is no request"));
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = path.strip_prefix('/').ok_or_else(|| Refusal::bad("a path begins with a slash"))?;
        let path = path.trim_end_matches('/').split('/').map(decode).collect::<Result<_, _>>()?;
        let mut pairs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(name)?, decode(value)?));
        }
        let text = |name: &str| match message.head.field(name).map(str::from_utf8) {
            Some(Ok(text)) => Ok(Some(text.to_owned())),
            Some(Err(_)) => Err(Refusal::bad(format!("{name} is no text"))),
            None => Ok(None),
        };
        let tenant = text("fiware-service")?.unwrap_or_default().to_ascii_lowercase();
        if tenant.len() > 50 || !tenant.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(Refusal::bad("Fiware-Service has up to 50 letters, digits and _"));
        }
        let scope = text("fiware-servicepath")?.filter(|scope| !scope.is_empty());
        if let Some(scope) = &scope {
            check_scope(scope)?;
        }
        let token = message.head.field("x-auth-token");
        Ok(Request { method, path, query: pairs, tenant, scope, body: body(message), token })
    }

    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether `options` has that word.
    pub fn has_option(&self, word: &str) -> bool {
        self.parameter("options").is_some_and(|options| options.split(',').any(|option| option == word))
    }

    /// A parameter that is a whole number.
    ///
    /// # Errors
    /// It is none within the bounds.
    pub fn number(&self, name: &str, default: usize, most: usize) -> Result<usize, Refusal> {
        let Some(text) = self.parameter(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| *number <= most);
        number.ok_or_else(|| Refusal::bad(format!("{name} is a whole number up to {most}")))
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// There is none, it is not said to be JSON, or it is none.
    pub fn json(&self) -> Result<Value, Refusal> {
        let bytes = self.body.clone().unwrap_or_else(|| Err(Refusal::no_length()))?;
        if bytes.is_empty() {
            return Err(Refusal::parse("the body is empty"));
        }
        serde_json::from_slice(bytes).map_err(|error| Refusal::parse(format!("the body is no JSON: {error}")))
    }

    /// The path under which entities are made: `/` where none is written.
    ///
    /// # Errors
    /// It stands for several.
    pub fn one_scope(&self) -> Result<&str, Refusal> {
        let scope = self.scope.as_deref().unwrap_or("/");
        match scope.ends_with('#') {
            true => Err(Refusal::bad("Fiware-ServicePath must be one path here, without #")),
            false => Ok(scope),
        }
    }

    /// The paths that are searched: all where none is written.
    pub fn scope(&self) -> &str {
        self.scope.as_deref().unwrap_or(BELOW)
    }

    /// Whether the request bears that token.
    pub fn bears(&self, token: &str) -> bool {
        self.token == Some(token.as_bytes())
    }
}

/// Whether a path lies in a scope such as `/a/b` or `/a/#`.
pub fn is_in_scope(scope: &str, path: &str) -> bool {
    match scope.strip_suffix(BELOW) {
        Some(above) => path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        None => scope == path,
    }
}

fn check_scope(scope: &str) -> Result<(), Refusal> {
    let wrong = || Refusal::bad("Fiware-ServicePath is a path such as /a/b, of letters, digits and _");
    let parts = scope.strip_prefix('/').ok_or_else(wrong)?;
    if scope == "/" || parts == "#" {
        return Ok(());
    }
    let is_part = |part: &str| {
        let is_of = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        (1..=50).contains(&part.len()) && part.bytes().all(is_of)
    };
    let parts = parts.strip_suffix(BELOW).unwrap_or(parts);
    let sound = parts.split('/').count() <= 10 && parts.split('/').all(is_part);
    sound.then_some(()).ok_or_else(wrong)
}

/// The body where the method has one.
fn body<'a>(message: &Message<'a>) -> Option<Result<&'a [u8], Refusal>> {
    let told = message.head.field("content-length").is_some();
    if !told && message.head.field("transfer-encoding").is_none() {
        return None;
    }
    let kind = message.head.field("content-type").unwrap_or_default();
    let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    match kind.eq_ignore_ascii_case(b"application/json") {
        true => Some(Ok(message.body)),
        false => Some(Err(Refusal::media_type())),
    }
}

/// Percent-decodes a part of a path or query (RFC 3986 section 2.1).
fn decode(text: &str) -> Result<String, Refusal> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or_else(|| Refusal::bad(format!("`{text}` is not percent-encoded rightly")))?);
        rest = rest.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| Refusal::bad(format!("`{text}` is not UTF-8")))
}

/// What is answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
}

impl Answer {
    /// Done, nothing to say.
    pub fn no_content() -> Answer {
        Answer { status: 204, headers: Vec::new(), body: None }
    }

    /// Made, there.
    pub fn created(location: String) -> Answer {
        Answer { status: 201, headers: vec![("Location", location)], body: None }
    }

    /// Found.
    pub fn json(body: &Value) -> Answer {
        Answer { status: 200, headers: Vec::new(), body: Some(body.to_string().into_bytes()) }
    }

    /// The same with a header field.
    pub fn with(mut self, name: &'static str, value: String) -> Answer {
        self.headers.push((name, value));
        self
    }

    /// Appends the answer as it goes out; `stays`: whether the connection stays open.
    pub fn write(&self, stays: bool, out: &mut Vec<u8>) {
        // Writing to a Vec cannot fail.
        let _ = write!(out, "HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            let value: String = value.chars().filter(|c| !c.is_control()).collect();
            let _ = write!(out, "{name}: {value}\r\n");
        }
        if !stays {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        if self.status != 204 {
            let length = self.body.as_ref().map_or(0, Vec::len);
            let _ = write!(out, "Content-Length: {length}\r\n");
        }
        if self.body.is_some() {
            out.extend_from_slice(b"Content-Type: application/json\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.body.as_deref().unwrap_or_default());
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        Answer { status: refusal.status, headers: Vec::new(), body: Some(refusal.body()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_scopes_are_read() {
        assert_eq!(decode("a%2Fb%20c").as_deref(), Ok("a/b c"));
        for wrong in ["%", "%2", "%zz", "%+1", "%ff"] {
            assert!(decode(wrong).is_err(), "{wrong}");
        }
        for (scope, path, expected) in [
            ("/#", "/a", true),
            ("/#", "/", true),
            ("/a/#", "/a", true),
            ("/a/#", "/a/b", true),
            ("/a/#", "/ab", false),
            ("/a", "/a/b", false),
        ] {
            assert_eq!(is_in_scope(scope, path), expected, "{scope} {path}");
        }
        assert!(check_scope("a").is_err() && check_scope("/a//b").is_err() && check_scope("/a/b/#").is_ok());
    }
}
