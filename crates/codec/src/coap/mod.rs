//! CoAP messages over UDP (RFC 7252): header, token, options, payload.

/// The version that there is.
const VERSION: u8 = 1;
/// Longest token, in bytes.
pub const LONGEST_TOKEN: usize = 8;
/// Option number of Uri-Path.
const URI_PATH: u16 = 11;
const PAYLOAD_MARKER: u8 = 0xff;

/// Codes of requests and answers, as `class << 5 | detail` (section 12.1).
pub mod code {
    /// No request and no answer: an empty message.
    pub const EMPTY: u8 = 0;
    /// GET.
    pub const GET: u8 = 0x01;
    /// POST.
    pub const POST: u8 = 0x02;
    /// 2.04 Changed.
    pub const CHANGED: u8 = 0x44;
    /// 2.05 Content.
    pub const CONTENT: u8 = 0x45;
    /// 5.03 Service Unavailable.
    pub const SERVICE_UNAVAILABLE: u8 = 0xa3;
}

/// The type of a message (section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Repeated until it is acknowledged.
    Confirmable,
    /// Sent once.
    NonConfirmable,
    /// Acknowledges a confirmable message, often with the answer.
    Acknowledgement,
    /// Rejects a message.
    Reset,
}

/// A message, its variable parts borrowed from the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type.
    pub kind: Kind,
    /// Request method or response code.
    pub code: u8,
    /// Matches acknowledgements and detects duplicates.
    pub id: u16,
    /// Matches answers with requests, 8 bytes at most.
    pub token: &'a [u8],
    /// The options as they stand on the wire.
    pub options: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
}

/// A datagram that is no CoAP message (RFC 7252 section 3 calls it a message format error).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no CoAP message")]
pub struct Malformed;

impl<'a> Message<'a> {
    /// Reads a datagram.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(datagram: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let (&[first, code, high, low], rest) = datagram.split_first_chunk().ok_or(Malformed)?;
        if first >> 6 != VERSION {
            return Err(Malformed);
        }
        let kind = match first >> 4 & 3 {
            0 => Kind::Confirmable,
            1 => Kind::NonConfirmable,
            2 => Kind::Acknowledgement,
            _ => Kind::Reset,
        };
        let length = usize::from(first & 0x0f);
        let (token, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        if length > LONGEST_TOKEN || (code == code::EMPTY && !(token.is_empty() && rest.is_empty())) {
            return Err(Malformed);
        }
        let mut options = Options { rest, number: 0 };
        while options.next_option()?.is_some() {}
        let taken = rest.len() - options.rest.len();
        let (options, rest) = rest.split_at_checked(taken).ok_or(Malformed)?;
        let payload = match rest.split_first() {
            None => &[][..],
            // A marker without a payload is a format error (section 3).
            Some((_, [])) => return Err(Malformed),
            Some((_, payload)) => payload,
        };
        Ok(Message { kind, code, id: u16::from_be_bytes([high, low]), token, options, payload })
    }

    /// Appends the message. A token beyond 8 bytes is cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self.kind {
            Kind::Confirmable => 0,
            Kind::NonConfirmable => 1,
            Kind::Acknowledgement => 2,
            Kind::Reset => 3,
        };
        let token = self.token.get(..LONGEST_TOKEN).unwrap_or(self.token);
        out.extend([VERSION << 6 | kind << 4 | token.len() as u8, self.code]);
        out.extend(self.id.to_be_bytes());
        out.extend_from_slice(token);
        out.extend_from_slice(self.options);
        if !self.payload.is_empty() {
            out.push(PAYLOAD_MARKER);
            out.extend_from_slice(self.payload);
        }
    }

    /// The path of a request, `/` before each part.
    pub fn path(&self) -> String {
        let mut options = Options { rest: self.options, number: 0 };
        let mut path = String::new();
        while let Ok(Some((number, value))) = options.next_option() {
            if number == URI_PATH {
                path.push('/');
                path.push_str(&String::from_utf8_lossy(value));
            }
        }
        path
    }
}

/// Appends the options of a path (section 5.10.1), each part of at most 255 bytes.
pub fn encode_path(path: &str, out: &mut Vec<u8>) {
    let mut delta = URI_PATH as u8;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let bytes = part.as_bytes();
        let bytes = bytes.get(..255).unwrap_or(bytes);
        match bytes.len() {
            length @ 0..=12 => out.push(delta << 4 | length as u8),
            length => out.extend([delta << 4 | 13, (length - 13) as u8]),
        }
        out.extend_from_slice(bytes);
        delta = 0;
    }
}

struct Options<'a> {
    rest: &'a [u8],
    number: u16,
}

impl<'a> Options<'a> {
    /// The next option's number and value; `None` at the payload or the end (section 3.1).
    fn next_option(&mut self) -> Result<Option<(u16, &'a [u8])>, Malformed> {
        let (first, rest) = match self.rest.split_first() {
            None | Some((&PAYLOAD_MARKER, _)) => return Ok(None),
            Some((&first, rest)) => (first, rest),
        };
        let (delta, rest) = extended(first >> 4, rest)?;
        let (length, rest) = extended(first & 0x0f, rest)?;
        let (value, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        self.number = u16::try_from(usize::from(self.number) + delta).map_err(|_| Malformed)?;
        self.rest = rest;
        Ok(Some((self.number, value)))
    }
}

fn extended(nibble: u8, bytes: &[u8]) -> Result<(usize, &[u8]), Malformed> {
    match nibble {
        13 => bytes.split_first().map(|(&byte, rest)| (usize::from(byte) + 13, rest)).ok_or(Malformed),
        14 => {
            let (&pair, rest) = bytes.split_first_chunk().ok_or(Malformed)?;
            Ok((usize::from(u16::from_be_bytes(pair)) + 269, rest))
        }
        15 => Err(Malformed),
        value => Ok((usize::from(value), bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The request of RFC 7252, figure 16: GET coap://server/temperature with message id 0x7d34, no token.
    const RFC_REQUEST: &[u8] =
        &[0x40, 0x01, 0x7d, 0x34, 0xbb, b't', b'e', b'm', b'p', b'e', b'r', b'a', b't', b'u', b'r', b'e'];
    /// Its piggybacked response, 2.05 with "22.3 C".
    const RFC_RESPONSE: &[u8] = &[0x60, 0x45, 0x7d, 0x34, 0xff, b'2', b'2', b'.', b'3', b' ', b'C'];

    #[test]
    fn the_example_of_the_standard_is_read_and_written() {
        let request = Message::decode(RFC_REQUEST).unwrap();
        assert_eq!((request.kind, request.code, request.id), (Kind::Confirmable, code::GET, 0x7d34));
        assert_eq!(request.path(), "/temperature");
        let mut path = Vec::new();
        encode_path("temperature", &mut path);
        assert_eq!(path, request.options);
        let response = Message::decode(RFC_RESPONSE).unwrap();
        assert_eq!((response.kind, response.code), (Kind::Acknowledgement, code::CONTENT));
        assert_eq!(response.payload, b"22.3 C");
        let mut out = Vec::new();
        response.encode(&mut out);
        assert_eq!(out, RFC_RESPONSE);
    }

    #[test]
    fn what_the_standard_forbids_is_malformed() {
        for datagram in [
            &[][..],
            &[0x40, 1, 0],
            &[0x80, 1, 0, 0],
            &[0x49, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
            &[0x41, 1, 0, 0],
            &[0x40, 0, 0, 0, 0xff, 1],
            &[0x40, 1, 0, 0, 0xff],
            &[0x40, 1, 0, 0, 0xf0],
            &[0x40, 1, 0, 0, 0xb5, b'a'],
        ] {
            assert_eq!(Message::decode(datagram), Err(Malformed), "{datagram:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_datagram_is_read_without_panic_and_written_back(datagram in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(message) = Message::decode(&datagram) {
                let mut out = Vec::new();
                message.encode(&mut out);
                prop_assert_eq!(&out, &datagram);
                let _ = message.path();
            }
        }

        #[test]
        fn paths_survive(parts in prop::collection::vec("[a-z0-9]{1,300}", 0..5)) {
            let mut options = Vec::new();
            encode_path(&parts.join("/"), &mut options);
            let message = Message { kind: Kind::Confirmable, code: code::POST, id: 1, token: &[1], options: &options, payload: b"x" };
            let mut out = Vec::new();
            message.encode(&mut out);
            let expected: String = parts.iter().map(|part| format!("/{}", &part[..part.len().min(255)])).collect();
            prop_assert_eq!(Message::decode(&out).unwrap().path(), expected);
        }
    }
}
