//! The server's side of WebSocket (RFC 6455): MQTT where the client asks for that subprotocol, else each message comes
//! back after its service. No I/O.

use super::mqtt;
use super::session::{LARGEST_MESSAGE, Message, Refused, Served};
use plimsoll_codec::mqtt::QoS;
use plimsoll_codec::websocket::{Event, Opcode, Reader, accept_of, encode_frame};
use std::sync::Arc;

/// Largest request to open, in bytes.
const LARGEST_REQUEST: usize = 16 * 1024;
const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
const UPGRADE: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";

/// One connection.
pub struct Session {
    /// Whether the opening handshake is done.
    open: bool,
    reader: Reader,
    /// Content of frames that is no whole message or packet yet.
    data: Vec<u8>,
    /// What is spoken over it, where that is MQTT.
    mqtt: Option<mqtt::Session>,
    over: bool,
}

impl Default for Session {
    fn default() -> Session {
        Session { open: false, reader: Reader::of_client(), data: Vec::new(), mqtt: None, over: false }
    }
}

impl Session {
    /// See [`super::session::Session::input`].
    pub fn input(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        messages: &mut Vec<Message>,
    ) -> Result<usize, Refused> {
        let mut taken = 0;
        if !self.open && !self.over {
            let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
                return if bytes.len() > LARGEST_REQUEST { Err(Refused) } else { Ok(0) };
            };
            taken = end + 4;
            self.begin(bytes.get(..end).unwrap_or_default(), out);
        }
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty() && !self.over) {
            let (count, event) = self.reader.read(rest, &mut self.data).map_err(|_| Refused)?;
            taken += count;
            match event {
                Some(Event::Ping(content)) => encode_frame(Opcode::Pong, true, None, content, out),
                Some(Event::Close(..)) => {
                    encode_frame(Opcode::Close, true, None, &[], out);
                    self.over = true;
                }
                Some(Event::Message(opcode)) if self.mqtt.is_none() => messages.push(Message {
                    topic: String::new(),
                    payload: std::mem::take(&mut self.data),
                    qos: QoS::AtMostOnce,
                    id: u16::from(opcode.number()),
                }),
                // Compression was not agreed on, so that nothing comes compressed.
                Some(Event::Message(_) | Event::Compressed(_) | Event::Pong(_)) | None => {}
            }
            if let Some(mqtt) = &mut self.mqtt {
                let mut said = Vec::new();
                let used = mqtt.input(&self.data, &mut said, messages)?;
                self.data.drain(..used);
                wrap(&said, out);
            }
            if self.data.len() > LARGEST_MESSAGE {
                return Err(Refused);
            }
        }
        Ok(if self.over { bytes.len() } else { taken })
    }

    /// Tells an MQTT client that the service of its message is over.
    pub fn answer(&mut self, message: &Message, served: Served, out: &mut Vec<u8>) {
        if let Some(mqtt) = &mut self.mqtt {
            let mut said = Vec::new();
            mqtt.answer(message, served != Served::Refused, &mut said);
            wrap(&said, out);
        }
    }

    /// Delivers a message: to MQTT clients that subscribed, else back to where it came from.
    pub fn deliver(&mut self, message: &Arc<Message>, own: bool, out: &mut Vec<u8>) {
        if let Some(mqtt) = &mut self.mqtt {
            let mut said = Vec::new();
            mqtt.deliver(message, &mut said);
            wrap(&said, out);
        } else if own && self.open {
            let opcode = u8::try_from(message.id).ok().and_then(Opcode::from_number);
            encode_frame(opcode.unwrap_or(Opcode::Binary), true, None, &message.payload, out);
        }
    }

    /// Bytes of deliveries that wait for the client.
    pub fn waiting_bytes(&self) -> usize {
        self.mqtt.as_ref().map_or(0, mqtt::Session::waiting_bytes)
    }

    /// Whether the connection was closed in order.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Answers the opening handshake (section 4.2).
    fn begin(&mut self, head: &[u8], out: &mut Vec<u8>) {
        let head = String::from_utf8_lossy(head);
        let of = |name: &str| {
            let mut headers = head.split("\r\n").filter_map(|line| line.split_once(':'));
            headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
        };
        let upgrades = of("Upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"));
        let (Some(key), true, true) = (of("Sec-WebSocket-Key"), upgrades, head.starts_with("GET ")) else {
            self.over = true;
            return out.extend_from_slice(BAD_REQUEST);
        };
        self.open = true;
        out.extend_from_slice(UPGRADE.as_bytes());
        out.extend_from_slice(format!("Sec-WebSocket-Accept: {}\r\n", accept_of(key.as_bytes())).as_bytes());
        if of("Sec-WebSocket-Protocol").is_some_and(|all| all.split(',').any(|one| one.trim() == "mqtt")) {
            self.mqtt = Some(mqtt::Session::default());
            out.extend_from_slice(b"Sec-WebSocket-Protocol: mqtt\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn wrap(packets: &[u8], out: &mut Vec<u8>) {
    if !packets.is_empty() {
        encode_frame(Opcode::Binary, true, None, packets, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_codec::websocket::Request;
    use proptest::prelude::*;

    const KEY: [u8; 16] = *b"the sample nonce";

    fn opened(subprotocol: &str) -> Session {
        let request = Request {
            host: "h",
            path: "/",
            subprotocol: Some(subprotocol),
            headers: "",
            compression: false,
            key: KEY,
        };
        let (mut session, mut asked, mut out) = (Session::default(), Vec::new(), Vec::new());
        request.encode(&mut asked);
        assert_eq!(session.input(&asked, &mut out, &mut Vec::new()).unwrap(), asked.len());
        if subprotocol == "mqtt" {
            assert_eq!(request.answered(&out), Ok(Some(out.len())));
        }
        session
    }

    fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_frame(opcode, true, Some([1, 2, 3, 4]), payload, &mut out);
        out
    }

    #[test]
    fn a_message_comes_back_after_its_service_to_its_sender_alone() {
        let (mut session, mut messages) = (opened("chat"), Vec::new());
        let mut out = Vec::new();
        session.input(&frame(Opcode::Text, b"hi"), &mut out, &mut messages).unwrap();
        assert_eq!((messages.len(), messages[0].payload.as_slice()), (1, &b"hi"[..]));
        let message = Arc::new(messages.remove(0));
        session.deliver(&message, false, &mut out);
        assert!(out.is_empty());
        session.deliver(&message, true, &mut out);
        assert_eq!(out, [0x81, 2, b'h', b'i']);
    }

    #[test]
    fn mqtt_runs_over_it_however_packets_and_frames_are_cut() {
        // CONNECT of MQTT 3.1.1 with client id "a", cut in two frames.
        let connect = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a";
        let (mut session, mut out) = (opened("mqtt"), Vec::new());
        session.input(&frame(Opcode::Binary, &connect[..5]), &mut out, &mut Vec::new()).unwrap();
        assert!(out.is_empty());
        session.input(&frame(Opcode::Binary, &connect[5..]), &mut out, &mut Vec::new()).unwrap();
        assert_eq!(out, [0x82, 4, 0x20, 2, 0, 0], "CONNACK in a frame");
    }

    #[test]
    fn pings_are_answered_and_the_end_is_orderly() {
        let (mut session, mut out) = (opened("chat"), Vec::new());
        session.input(&frame(Opcode::Ping, b"x"), &mut out, &mut Vec::new()).unwrap();
        session.input(&frame(Opcode::Close, &[]), &mut out, &mut Vec::new()).unwrap();
        assert_eq!(out, [0x8a, 1, b'x', 0x88, 0]);
        assert!(session.is_over());
        let mut wrong = Session::default();
        let mut out = Vec::new();
        wrong.input(b"GET / HTTP/1.1\r\n\r\n", &mut out, &mut Vec::new()).unwrap();
        assert!(out.starts_with(b"HTTP/1.1 400") && wrong.is_over());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut session = opened("mqtt");
            let _ = session.input(&bytes, &mut Vec::new(), &mut Vec::new());
            let mut closed = Session::default();
            let _ = closed.input(&bytes, &mut Vec::new(), &mut Vec::new());
        }
    }
}
