//! How a client says who it is: SASL with user name and password (RFC 4616).

use super::fields::{self, Malformed, Reader};
use super::requests::request;

/// Kinds of requests, and the versions that are spoken here.
const SASL_HANDSHAKE: (i16, i16) = (17, 1);
const SASL_AUTHENTICATE: (i16, i16) = (36, 0);
/// User name and password as they are.
const PLAIN: &str = "PLAIN";

/// Appends which way the client would say who it is.
pub fn sasl_handshake(correlation: i32, out: &mut Vec<u8>) {
    request(SASL_HANDSHAKE, correlation, out, |out| fields::text(PLAIN, out));
}

/// Reads the answer to [`sasl_handshake`]: the error, and the ways that the broker knows.
///
/// # Errors
/// [`Malformed`].
pub fn mechanisms(body: &[u8]) -> Result<(i16, Vec<&str>), Malformed> {
    let mut reader = Reader::new(body);
    let error = reader.i16()?;
    let count = reader.count()?;
    let all: Result<_, _> = (0..count).map(|_| reader.text().map(Option::unwrap_or_default)).collect();
    Ok((error, all?))
}

/// Appends user name and password.
pub fn sasl_plain(username: &str, password: &str, correlation: i32, out: &mut Vec<u8>) {
    request(SASL_AUTHENTICATE, correlation, out, |out| {
        fields::sized(out, |out| {
            for text in [username, password] {
                out.push(0);
                out.extend_from_slice(text.as_bytes());
            }
        });
    });
}

/// Reads the answer to [`sasl_plain`]: the error, and what the broker says of it.
///
/// # Errors
/// [`Malformed`].
pub fn authenticated(body: &[u8]) -> Result<(i16, &str), Malformed> {
    let mut reader = Reader::new(body);
    Ok((reader.i16()?, reader.text()?.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn user_name_and_password_lie_behind_zeros() {
        let mut out = Vec::new();
        sasl_plain("me", "secret", 9, &mut out);
        assert!(out.ends_with(b"\0\0\0\x0a\0me\0secret"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_malformed(body in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = (mechanisms(&body), authenticated(&body));
        }
    }
}
