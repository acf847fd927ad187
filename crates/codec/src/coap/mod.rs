//! CoAP messages (RFC 7252): header, token, options, payload; over streams (RFC 8323) in [`stream`].

pub mod block;
pub mod observe;
pub mod options;
pub mod stream;

pub use block::{Block, MOST_BLOCKS};
pub use options::{OptionList, Options, option};

/// The version that there is.
const VERSION: u8 = 1;
/// Largest payload of a UDP datagram over IPv4, in bytes.
pub const LARGEST_DATAGRAM: usize = 65_507;
/// Longest token, in bytes.
pub const LONGEST_TOKEN: usize = 8;
const PAYLOAD_MARKER: u8 = 0xff;

/// Codes of requests and answers, as `class << 5 | detail` (section 12.1).
pub mod code {
    /// No request and no answer: an empty message.
    pub const EMPTY: u8 = 0;
    /// GET.
    pub const GET: u8 = 0x01;
    /// POST.
    pub const POST: u8 = 0x02;
    /// PUT.
    pub const PUT: u8 = 0x03;
    /// DELETE.
    pub const DELETE: u8 = 0x04;
    /// FETCH (RFC 8132).
    pub const FETCH: u8 = 0x05;
    /// PATCH (RFC 8132).
    pub const PATCH: u8 = 0x06;
    /// iPATCH (RFC 8132).
    pub const IPATCH: u8 = 0x07;
    /// 2.01 Created.
    pub const CREATED: u8 = 0x41;
    /// 2.02 Deleted.
    pub const DELETED: u8 = 0x42;
    /// 2.04 Changed.
    pub const CHANGED: u8 = 0x44;
    /// 2.05 Content.
    pub const CONTENT: u8 = 0x45;
    /// 2.31 Continue (RFC 7959).
    pub const CONTINUE: u8 = 0x5f;
    /// 4.00 Bad Request.
    pub const BAD_REQUEST: u8 = 0x80;
    /// 4.01 Unauthorized.
    pub const UNAUTHORIZED: u8 = 0x81;
    /// 4.02 Bad Option.
    pub const BAD_OPTION: u8 = 0x82;
    /// 4.03 Forbidden.
    pub const FORBIDDEN: u8 = 0x83;
    /// 4.04 Not Found.
    pub const NOT_FOUND: u8 = 0x84;
    /// 4.05 Method Not Allowed.
    pub const METHOD_NOT_ALLOWED: u8 = 0x85;
    /// 4.06 Not Acceptable.
    pub const NOT_ACCEPTABLE: u8 = 0x86;
    /// 4.08 Request Entity Incomplete (RFC 7959).
    pub const INCOMPLETE: u8 = 0x88;
    /// 4.12 Precondition Failed.
    pub const PRECONDITION_FAILED: u8 = 0x8c;
    /// 4.13 Request Entity Too Large.
    pub const TOO_LARGE: u8 = 0x8d;
    /// 4.15 Unsupported Content-Format.
    pub const UNSUPPORTED_FORMAT: u8 = 0x8f;
    /// 5.03 Service Unavailable.
    pub const SERVICE_UNAVAILABLE: u8 = 0xa3;
    /// 5.04: whom the request was passed on to does not answer.
    pub const GATEWAY_TIMEOUT: u8 = 0xa4;

    /// The code of a method by its name; names are those of HTTP, and `IPATCH`.
    pub fn method(name: &str) -> Option<u8> {
        Some(match name {
            "GET" => GET,
            "POST" => POST,
            "PUT" => PUT,
            "DELETE" => DELETE,
            "FETCH" => FETCH,
            "PATCH" => PATCH,
            "IPATCH" => IPATCH,
            _ => return None,
        })
    }

    /// A code as one number, class and detail together: 2.04 is 204.
    pub fn status(code: u8) -> u16 {
        u16::from(code >> 5) * 100 + u16::from(code & 0x1f)
    }

    /// A code as the standard writes it, such as 4.04.
    pub fn dotted(code: u8) -> String {
        format!("{}.{:02}", code >> 5, code & 0x1f)
    }

    /// Such a number as the standard writes the code: 204 is 2.04.
    pub fn dotted_status(status: u16) -> String {
        format!("{}.{:02}", status / 100, status % 100)
    }

    /// The code of such a number; `None` where no code is that: classes end at 7, details at 31.
    pub fn of_status(status: u16) -> Option<u8> {
        let (class, detail) = (status / 100, status % 100);
        (class < 8 && detail < 32).then_some((class as u8) << 5 | detail as u8)
    }
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

/// A message that is kept beyond the bytes that it came in. Its type and its id are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMessage {
    code: u8,
    token: Vec<u8>,
    options: Vec<u8>,
    payload: Vec<u8>,
}

impl KeptMessage {
    /// The same message, as it came over a stream.
    pub fn message(&self) -> Message<'_> {
        let KeptMessage { code, token, options, payload } = self;
        Message { kind: Kind::NonConfirmable, code: *code, id: 0, token, options, payload }
    }
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
        let (options, rest) = rest.split_at_checked(options::length(rest)?).ok_or(Malformed)?;
        let payload = match rest.split_first() {
            None => &[][..],
            // A marker without a payload is a format error (section 3).
            Some((_, [])) => return Err(Malformed),
            Some((_, payload)) => payload,
        };
        Ok(Message { kind, code, id: u16::from_be_bytes([high, low]), token, options, payload })
    }

    /// A copy that outlives the bytes that it came in.
    pub fn keep(&self) -> KeptMessage {
        KeptMessage {
            code: self.code,
            token: self.token.to_vec(),
            options: self.options.to_vec(),
            payload: self.payload.to_vec(),
        }
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
        write_payload(self, out);
    }

    /// Bytes of the message before its payload, in bytes: header, token, options, and the marker of a payload.
    pub fn header_length(&self) -> usize {
        4 + self.token.len().min(LONGEST_TOKEN) + self.options.len() + usize::from(!self.payload.is_empty())
    }

    /// An empty message: an acknowledgement without an answer, a reset or a ping (section 4.1 to 4.3).
    pub fn empty(kind: Kind, id: u16) -> Message<'static> {
        Message { kind, code: code::EMPTY, id, token: &[], options: &[], payload: &[] }
    }

    /// The options, in the order of their numbers.
    pub fn options(&self) -> Options<'a> {
        Options::new(self.options)
    }

    /// The value of the first option with that number.
    pub fn option(&self, number: u16) -> Option<&'a [u8]> {
        self.options().find(|(found, _)| *found == number).map(|(_, value)| value)
    }

    /// The same as a whole number; `None` also where it has more than four bytes.
    pub fn number(&self, number: u16) -> Option<u32> {
        self.option(number).and_then(options::read_number)
    }

    /// Whether it is a request, rather than an answer or empty.
    pub fn is_request(&self) -> bool {
        self.code >> 5 == 0 && self.code != code::EMPTY
    }

    /// The format of the payload (section 5.10.3); `None` where it is not said.
    pub fn content_format(&self) -> Option<u16> {
        self.number(option::CONTENT_FORMAT).and_then(|number| u16::try_from(number).ok())
    }

    /// The block that an option tells of: [`option::BLOCK1`] or [`option::BLOCK2`].
    pub fn block(&self, number: u16) -> Option<Block> {
        self.number(number).and_then(Block::from_number)
    }

    /// The same of a message over a stream.
    pub fn block_of_stream(&self, number: u16) -> Option<Block> {
        self.number(number).and_then(Block::of_stream)
    }

    /// The path of a request, `/` before each part.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for (_, value) in self.options().filter(|(number, _)| *number == option::URI_PATH) {
            path.push('/');
            path.push_str(&String::from_utf8_lossy(value));
        }
        path
    }
}

/// Appends options and payload, which are the same over datagrams and streams.
fn write_payload(message: &Message<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(message.options);
    if !message.payload.is_empty() {
        out.push(PAYLOAD_MARKER);
        out.extend_from_slice(message.payload);
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
        assert_eq!((request.path().as_str(), request.is_request()), ("/temperature", true));
        let mut path = OptionList::new();
        path.add_target(b"temperature");
        let mut written = Vec::new();
        path.encode(&mut written);
        assert_eq!(written, request.options);
        let response = Message::decode(RFC_RESPONSE).unwrap();
        assert_eq!((response.kind, response.code), (Kind::Acknowledgement, code::CONTENT));
        assert_eq!((response.payload, response.is_request()), (&b"22.3 C"[..], false));
        assert!(!Message::empty(Kind::Confirmable, 1).is_request());
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

    #[test]
    fn codes_are_numbers_for_people() {
        assert_eq!(
            [code::CHANGED, code::SERVICE_UNAVAILABLE, code::CONTINUE].map(code::status),
            [204, 503, 231]
        );
        assert_eq!([204, 231, 432, 800].map(code::of_status), [Some(code::CHANGED), Some(0x5f), None, None]);
        assert_eq!(code::method("PUT"), Some(code::PUT));
        assert_eq!(code::method("BREW"), None);
    }

    #[test]
    fn an_empty_message_is_four_bytes() {
        let mut out = Vec::new();
        Message::empty(Kind::Reset, 0x1234).encode(&mut out);
        assert_eq!(out, [0x70, 0, 0x12, 0x34]);
        assert_eq!(Message::decode(&out), Ok(Message::empty(Kind::Reset, 0x1234)));
    }

    proptest! {
        #[test]
        fn any_datagram_is_read_without_panic_and_written_back(datagram in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(message) = Message::decode(&datagram) {
                let mut out = Vec::new();
                message.encode(&mut out);
                prop_assert_eq!(&out, &datagram);
                let _ = (message.path(), message.block(option::BLOCK1), message.number(option::OBSERVE));
                prop_assert!(message.options().map(|(number, _)| number).is_sorted());
            }
        }

        #[test]
        fn paths_survive(parts in prop::collection::vec("[a-z0-9]{1,300}", 0..5)) {
            let (mut list, mut options) = (OptionList::new(), Vec::new());
            list.add_target(parts.join("/").as_bytes());
            list.encode(&mut options);
            let message = Message { kind: Kind::Confirmable, code: code::POST, id: 1, token: &[1], options: &options, payload: b"x" };
            let mut out = Vec::new();
            message.encode(&mut out);
            let expected: String = parts.iter().map(|part| format!("/{part}")).collect();
            prop_assert_eq!(Message::decode(&out).unwrap().path(), expected);
        }
    }
}
