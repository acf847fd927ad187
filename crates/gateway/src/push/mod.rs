//! What devices that send their events of their own accord say to the gateway, and how they are answered: three protocols, each
//! a session without I/O.

pub mod calls;
pub mod http;
pub mod mqtt;

use crate::configuration::PushProtocol;
use std::sync::Arc;
use std::time::Duration;

/// The longest body of an event, bytes.
pub const LONGEST: usize = 1 << 20;
/// How long a device may take for a message that it has begun, whatever comes of it meanwhile.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The longest name of an event, bytes.
pub(crate) const LONGEST_NAME: usize = 128;
/// What Plimsoll's markers begin with, and how many hexadecimal digits follow.
const MARKER: (&[u8], usize) = (b"plm", 20);

/// What a device has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// An event of that name, if it has one. Nothing more is taken of the device before [`Session::over`].
    Event(Option<Arc<str>>),
    /// Something that is answered at once.
    Call(Vec<u8>),
    /// Something that cannot be answered otherwise than so, and ends the connection: why.
    Refused(Vec<u8>, String),
    /// Its leave.
    Farewell,
}

/// How the end of an event is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// To be sent; it may be empty.
    pub bytes: Vec<u8>,
    /// The connection ends with that.
    pub is_last: bool,
}

/// A device's connection, without its socket.
pub trait Session: Send {
    /// More has come.
    fn add(&mut self, bytes: &[u8]);

    /// The next thing that the device has said as a whole.
    fn next(&mut self) -> Option<Said>;

    /// The event that was said last is done, or has failed.
    fn over(&mut self, is_done: bool) -> Reply;

    /// Bytes that are held: they were not looked at yet, or their message is not whole.
    fn waiting(&self) -> usize;

    /// Whether a message has begun that is not whole yet; asked when all that came was looked at.
    fn is_begun(&self) -> bool;

    /// How long the device may take for the message that it has begun, or be silent where it has begun none; `None` for ever.
    fn patience(&self) -> Option<Duration>;
}

/// A session in that protocol.
pub fn session(protocol: PushProtocol) -> Box<dyn Session> {
    match protocol {
        PushProtocol::Tcp => Box::new(calls::Calls::default()),
        PushProtocol::Http => Box::new(http::Http::default()),
        PushProtocol::Mqtt => Box::new(mqtt::Mqtt::default()),
    }
}

/// Whether an event may be called so: its name stands in lines of the log.
pub(crate) fn is_name(text: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_graphic() && *byte != b':';
    (1..=LONGEST_NAME).contains(&text.len()) && text.iter().all(fits)
}

/// The name of the event whose body that is: a marker of Plimsoll anywhere in it; else the first of its words that may be a
/// name, words standing between white space.
pub fn name_in(body: &[u8]) -> Option<Arc<str>> {
    let (prefix, digits) = MARKER;
    let marker = body.windows(prefix.len() + digits).find(|text| {
        text.strip_prefix(prefix).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    let name = marker.or_else(|| body.split(u8::is_ascii_whitespace).find(|word| is_name(word)))?;
    std::str::from_utf8(name).ok().map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_are_called_by_their_marker_or_their_first_word() {
        let name = |body: &[u8]| name_in(body).map(|name| name.to_string());
        assert_eq!(name(b"a-1"), Some("a-1".into()));
        assert_eq!(name(b"\r\n  a-1 b-2"), Some("a-1".into()));
        assert_eq!(name(b"key:value \xff\xfe second"), Some("second".into()));
        assert_eq!(
            name(b"first {\"v\":\"xplm00112233445566778899ff\"}"),
            Some("plm00112233445566778899".into())
        );
        assert_eq!(name(b"plm0011"), Some("plm0011".into()));
        assert_eq!(name(b""), None);
        assert_eq!(name(b"\xff\xfe \t a:b"), None);
        assert_eq!(name(&[b'x'; 200]), None);
    }

    proptest! {
        /// Whatever comes, and in whatever pieces, is said, refused or not whole yet; and it is the same in other pieces.
        #[test]
        fn any_bytes_in_any_pieces_are_understood_alike(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            opening in 0_usize..6,
            step in 1_usize..40,
        ) {
            let openings: [&[u8]; 6] = [
                b"",
                b"POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\n",
                b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a",
                b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a\x32",
                b"{\"name\":\"event\",\"args\":[",
            ];
            let bytes = [openings[opening], &bytes].concat();
            for protocol in PushProtocol::ALL {
                let said = |step: usize| {
                    let mut session = session(protocol);
                    let mut all = Vec::new();
                    for piece in bytes.chunks(step) {
                        session.add(piece);
                        while let Some(said) = session.next() {
                            let is_end = matches!(said, Said::Refused(..) | Said::Farewell);
                            let is_event = matches!(said, Said::Event(_));
                            all.push(match said {
                                // Of a number that stands where an object should, more may come.
                                Said::Refused(..) if protocol == PushProtocol::Tcp => return all,
                                // How it is worded may depend on the pieces.
                                Said::Refused(answer, _) => Said::Refused(answer, String::new()),
                                other => other,
                            });
                            if is_end || is_event && session.over(true).is_last {
                                return all;
                            }
                        }
                    }
                    all
                };
                prop_assert_eq!(said(bytes.len().max(1)), said(step));
            }
        }
    }
}
