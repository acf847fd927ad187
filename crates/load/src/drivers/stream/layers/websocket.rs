//! The client's side of one WebSocket (RFC 6455), without I/O: the handshake, messages both ways, pings answered, the end
//! told.

use plimsoll_codec::websocket::{
    Deflate, Event, Opcode, Reader, Refusal, Request, encode_compressed, encode_frame,
};
use plimsoll_scenario::plan::WebSocketPlan;
use plimsoll_stats::distribution::Random;
use std::sync::{Arc, Mutex, PoisonError};

/// Largest message that a platform may send us, twice the largest content of a scenario; a longer one is a lie or an
/// attack, and would have to be kept in memory until it is whole.
pub const LARGEST_MESSAGE: usize = 2 * 1024 * 1024;
/// The code of an orderly end (RFC 6455 section 7.4.1).
const NORMAL: u16 = 1000;

/// The client's side of one WebSocket.
pub struct WebSocket {
    key: [u8; 16],
    /// The answer to the request as far as it came; `None` once it was read.
    answer: Option<Vec<u8>>,
    reader: Reader,
    masks: Random,
    wish: Wish,
    /// Whether the request was refused for its credentials.
    is_unauthorized: bool,
}

/// What is asked for beside host and path.
#[derive(Clone, Default)]
pub struct Wish {
    /// What is spoken over it, where that has a name.
    pub subprotocol: Option<String>,
    /// Further header fields, each with the end of its line.
    pub headers: String,
    /// What compresses messages; `None` where they go as they are.
    pub compression: Option<Compression>,
}

/// What compresses and decompresses the messages of all connections of a thread.
#[derive(Clone, Default)]
pub struct Compression(Arc<Mutex<Deflate>>);

impl Compression {
    fn with<T>(&self, work: impl FnOnce(&mut Deflate) -> T) -> T {
        // Each message begins anew, whatever was left.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a whole message is given to: its kind, its content, which it may take, and the bytes that the content had on the way. An error
/// ends the connection.
pub type Taker<'a> = dyn FnMut(Opcode, &mut Vec<u8>, usize) -> Result<(), String> + 'a;

impl WebSocket {
    /// Before the request. Key and masks come from the generator.
    pub fn new(mut masks: Random, wish: Wish) -> WebSocket {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&masks.bits().to_be_bytes());
        key[8..].copy_from_slice(&masks.bits().to_be_bytes());
        let reader = Reader::of_server();
        WebSocket {
            key,
            answer: Some(Vec::new()),
            reader: if wish.compression.is_some() { reader.compressed() } else { reader },
            masks,
            wish,
            is_unauthorized: false,
        }
    }

    /// Whether the request was refused for its credentials.
    pub fn is_unauthorized(&self) -> bool {
        self.is_unauthorized
    }

    /// Bytes of the frame under way that are still to come.
    pub fn announced(&self) -> u64 {
        self.reader.announced()
    }

    /// Whether the request was answered.
    pub fn is_open(&self) -> bool {
        self.answer.is_none()
    }

    fn asked<'a>(&'a self, plan: &'a WebSocketPlan) -> Request<'a> {
        let Wish { subprotocol, headers, compression } = &self.wish;
        Request {
            host: &plan.host,
            path: &plan.path,
            subprotocol: subprotocol.as_deref(),
            headers,
            compression: compression.is_some(),
            key: self.key,
        }
    }

    /// Appends the request.
    pub fn request(&self, plan: &WebSocketPlan, out: &mut Vec<u8>) {
        self.asked(plan).encode(out);
    }

    /// Takes in bytes; appends content to `content`, which keeps that of a message until it is whole and taken, and what
    /// is to be answered to `out`.
    ///
    /// # Errors
    /// There is no WebSocket, or it has ended: why, for people.
    pub fn incoming(
        &mut self,
        plan: &WebSocketPlan,
        bytes: &[u8],
        content: &mut Vec<u8>,
        out: &mut Vec<u8>,
        taker: &mut Taker<'_>,
    ) -> Result<(), String> {
        let Some(mut answer) = self.answer.take() else { return self.frames(bytes, content, out, taker) };
        answer.extend_from_slice(bytes);
        let answered = self.asked(plan).answered(&answer);
        if let Ok(Some(end)) = answered {
            return self.frames(answer.get(end..).unwrap_or_default(), content, out, taker);
        }
        self.answer = Some(answer);
        match answered {
            Ok(_) => Ok(()),
            Err(refusal @ Refusal::Status(_)) => {
                self.is_unauthorized = refusal.is_unauthorized();
                Err(format!("{refusal}; is `{}` the path of its WebSocket?", plan.path))
            }
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    fn frames(
        &mut self,
        bytes: &[u8],
        content: &mut Vec<u8>,
        out: &mut Vec<u8>,
        taker: &mut Taker<'_>,
    ) -> Result<(), String> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, event) = self
                .reader
                .read(rest, content)
                .map_err(|violation| format!("malformed WebSocket: {violation}"))?;
            rest = rest.get(taken..).unwrap_or_default();
            match event {
                None | Some(Event::Pong(_)) => {}
                Some(Event::Message(opcode)) => {
                    let length = content.len();
                    text(opcode, content)?;
                    taker(opcode, content, length)?;
                }
                Some(Event::Compressed(opcode)) => {
                    let Some(compression) = &self.wish.compression else { continue };
                    let (length, mut clear) = (content.len(), Vec::new());
                    let read =
                        |deflate: &mut Deflate| deflate.decompress(content, LARGEST_MESSAGE, &mut clear);
                    compression.with(read).map_err(|error| error.to_string())?;
                    *content = clear;
                    text(opcode, content)?;
                    taker(opcode, content, length)?;
                }
                Some(Event::Ping(echoed)) => {
                    encode_frame(Opcode::Pong, true, Some(key(&mut self.masks)), echoed, out);
                }
                Some(Event::Close(code, reason)) => {
                    let told = code.map_or(String::new(), |code| format!(" with code {code}"));
                    let reason: String = reason.chars().filter(|letter| !letter.is_control()).collect();
                    let reason = if reason.is_empty() { reason } else { format!(" ({reason})") };
                    let code = code.unwrap_or(NORMAL).to_be_bytes();
                    encode_frame(Opcode::Close, true, Some(key(&mut self.masks)), &code, out);
                    return Err(format!("the platform closed the WebSocket{told}{reason}"));
                }
            }
        }
        Ok(())
    }

    /// Appends one message.
    pub fn message(&mut self, opcode: Opcode, bytes: &[u8], out: &mut Vec<u8>) {
        let key = Some(key(&mut self.masks));
        match &self.wish.compression {
            None => encode_frame(opcode, true, key, bytes, out),
            Some(compression) => {
                let mut compressed = Vec::new();
                compression.with(|deflate| deflate.compress(bytes, &mut compressed));
                encode_compressed(opcode, key, &compressed, out);
            }
        }
    }

    /// Appends a close.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        encode_frame(Opcode::Close, true, Some(key(&mut self.masks)), &NORMAL.to_be_bytes(), out);
    }
}

/// Text that is no UTF-8 ends the connection (RFC 6455 section 8.1).
fn text(opcode: Opcode, content: &[u8]) -> Result<(), String> {
    match opcode {
        Opcode::Text if std::str::from_utf8(content).is_err() => {
            Err("malformed WebSocket: a text message is no UTF-8".into())
        }
        _ => Ok(()),
    }
}

/// A mask, drawn.
fn key(masks: &mut Random) -> [u8; 4] {
    (masks.bits() as u32).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_codec::websocket::accept_of;
    use plimsoll_stats::distribution::random;

    fn plan() -> WebSocketPlan {
        WebSocketPlan { host: "broker:80".into(), path: "/mqtt".into() }
    }

    /// The answer of a server to a request.
    fn answer(request: &[u8]) -> Vec<u8> {
        let text = String::from_utf8(request.to_vec()).unwrap();
        let key = text.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
        let accept = accept_of(key.as_bytes());
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
        )
        .into_bytes()
    }

    fn any(_: Opcode, _: &mut Vec<u8>, _: usize) -> Result<(), String> {
        Ok(())
    }

    fn open() -> WebSocket {
        let wish = Wish { subprotocol: Some("mqtt".into()), ..Wish::default() };
        let mut socket = WebSocket::new(random(1, &[2]), wish);
        let (mut request, mut session, mut out) = (Vec::new(), Vec::new(), Vec::new());
        socket.request(&plan(), &mut request);
        // The first bytes of MQTT come together with the answer, which itself comes in two pieces.
        let mut answer = answer(&request);
        encode_frame(Opcode::Binary, true, None, b"\x20", &mut answer);
        socket.incoming(&plan(), &answer[..40], &mut session, &mut out, &mut any).unwrap();
        assert!(!socket.is_open());
        socket.incoming(&plan(), &answer[40..], &mut session, &mut out, &mut any).unwrap();
        assert!(socket.is_open() && session == b"\x20" && out.is_empty());
        socket
    }

    #[test]
    fn several_packets_in_a_message_and_one_over_several_are_the_same_to_the_session() {
        let (mut socket, mut bytes) = (open(), Vec::new());
        encode_frame(Opcode::Binary, false, None, b"\x40\x02\x00", &mut bytes);
        encode_frame(Opcode::Ping, true, None, b"there?", &mut bytes);
        encode_frame(Opcode::Continuation, true, None, b"\x01\x40\x02", &mut bytes);
        encode_frame(Opcode::Binary, true, None, b"\x00\x02", &mut bytes);
        let (mut session, mut out) = (Vec::new(), Vec::new());
        socket.incoming(&plan(), &bytes, &mut session, &mut out, &mut any).unwrap();
        assert_eq!(session, b"\x40\x02\x00\x01\x40\x02\x00\x02");
        let (mut reader, mut none) = (Reader::of_client(), Vec::new());
        assert_eq!(reader.read(&out, &mut none), Ok((out.len(), Some(Event::Pong(b"there?")))));
    }

    #[test]
    fn a_refusal_opens_nothing() {
        let mut socket = WebSocket::new(random(1, &[2]), Wish::default());
        let (mut content, mut out) = (Vec::new(), Vec::new());
        let refused = b"HTTP/1.1 404 Not Found\r\n\r\n";
        let told = socket.incoming(&plan(), refused, &mut content, &mut out, &mut any).unwrap_err();
        assert!(told.contains("404 Not Found; is `/mqtt` the path"), "{told}");
        assert!(!socket.is_open());
    }

    #[test]
    fn what_is_sent_is_one_masked_binary_message() {
        let (mut socket, mut out) = (open(), Vec::new());
        socket.message(Opcode::Binary, b"\xc0\x00", &mut out);
        socket.message(Opcode::Binary, b"\xc0\x00", &mut out);
        let (first, second) = out.split_at(out.len() / 2);
        assert_ne!(first, second, "each message has a mask of its own");
        let (mut reader, mut data) = (Reader::of_client(), Vec::new());
        assert_eq!(reader.read(first, &mut data), Ok((8, Some(Event::Message(Opcode::Binary)))));
        assert_eq!(data, b"\xc0\x00");
    }

    #[test]
    fn the_end_is_answered_and_told() {
        let (mut socket, mut bytes) = (open(), Vec::new());
        encode_frame(Opcode::Close, true, None, b"\x03\xe9going\x1b away", &mut bytes);
        let (mut session, mut out) = (Vec::new(), Vec::new());
        let told = socket.incoming(&plan(), &bytes, &mut session, &mut out, &mut any).unwrap_err();
        assert_eq!(told, "the platform closed the WebSocket with code 1001 (going away)");
        let (mut reader, mut none) = (Reader::of_client(), Vec::new());
        assert_eq!(reader.read(&out, &mut none), Ok((out.len(), Some(Event::Close(Some(1001), "")))));
    }
}
