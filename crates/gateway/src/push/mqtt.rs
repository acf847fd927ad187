//! Events as messages of MQTT 3.1.1 (OASIS, 2014): PUBLISH with QoS 0 or 1, acknowledged when the event is done. Who wants to
//! subscribe is refused: a gateway takes and gives nothing.

use super::{LONGEST, PATIENCE, Reply, Said, Session, name_in};
use crate::received::Received;
use std::time::Duration;

/// Beside the payload: the longest topic, its length and a packet identifier.
const LONGEST_PACKET: usize = LONGEST + u16::MAX as usize + 4;
/// Types of packets (section 2.2.1).
const CONNECT: u8 = 1;
const PUBLISH: u8 = 3;
const SUBSCRIBE: u8 = 8;
const UNSUBSCRIBE: u8 = 10;
const PINGREQ: u8 = 12;
const DISCONNECT: u8 = 14;

/// A session of packets.
#[derive(Debug, Default)]
pub struct Mqtt {
    bytes: Received,
    is_connected: bool,
    /// What the client promised, seconds; 0 for nothing.
    keep_alive: u16,
    /// The packet identifier of the event that is being handled, at QoS 1.
    pending: Option<u16>,
}

/// What is wrong with a packet, and the CONNACK that says so, if any does.
type Refusal = (Vec<u8>, String);

fn malformed(reason: &str) -> Refusal {
    (Vec::new(), reason.to_owned())
}

impl Session for Mqtt {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.add(bytes);
    }

    fn next(&mut self) -> Option<Said> {
        let said = match self.packet() {
            Ok(packet) => packet.map(|(first, packet)| self.take(first, &packet))?,
            Err(refusal) => Err(refusal),
        };
        Some(said.unwrap_or_else(|(answer, reason)| Said::Refused(answer, reason)))
    }

    fn over(&mut self, is_done: bool) -> Reply {
        // There is no way to say that the work failed: the client does not hear of its message.
        let bytes = match self.pending.take().filter(|_| is_done) {
            Some(id) => [&[0x40, 2][..], &id.to_be_bytes()].concat(),
            None => Vec::new(),
        };
        Reply { bytes, is_last: false }
    }

    fn waiting(&self) -> usize {
        self.bytes.rest().len()
    }

    fn is_begun(&self) -> bool {
        !self.bytes.rest().is_empty()
    }

    fn patience(&self) -> Option<Duration> {
        if !self.is_connected || self.is_begun() {
            return Some(PATIENCE);
        }
        // One and a half times what was promised (section 3.1.2.10).
        (self.keep_alive > 0).then(|| Duration::from_millis(1500) * u32::from(self.keep_alive))
    }
}

impl Mqtt {
    /// Takes the first packet off, once it is whole: its first byte, and what follows its fixed header.
    fn packet(&mut self) -> Result<Option<(u8, Vec<u8>)>, Refusal> {
        let rest = self.bytes.rest();
        let Some((head, length)) = lengths(rest)? else { return Ok(None) };
        let Some(packet) = rest.get(head..head + length) else { return Ok(None) };
        let packet = (rest[0], packet.to_vec());
        self.bytes.take(head + length);
        Ok(Some(packet))
    }

    fn take(&mut self, first: u8, packet: &[u8]) -> Result<Said, Refusal> {
        let (kind, flags) = (first >> 4, first & 0x0f);
        if kind != CONNECT && !self.is_connected {
            return Err(malformed("the first packet is not CONNECT"));
        }
        match (kind, flags) {
            (CONNECT, 0) if self.is_connected => Err(malformed("CONNECT came twice")),
            (CONNECT, 0) => {
                self.keep_alive = connect(packet)?;
                self.is_connected = true;
                Ok(Said::Call(vec![0x20, 2, 0, 0]))
            }
            (PUBLISH, _) => self.publish(flags, packet),
            (SUBSCRIBE, 2) => {
                let (id, mut fields) = identified(packet)?;
                let mut answer = id.to_vec();
                while !fields.0.is_empty() {
                    fields.text()?;
                    if fields.byte()? > 2 {
                        return Err(malformed("a QoS is none"));
                    }
                    answer.push(0x80);
                }
                Ok(Said::Call(framed(0x90, &answer)))
            }
            (UNSUBSCRIBE, 2) => {
                let (id, mut fields) = identified(packet)?;
                while !fields.0.is_empty() {
                    fields.text()?;
                }
                Ok(Said::Call(framed(0xb0, &id)))
            }
            (PINGREQ, 0) if packet.is_empty() => Ok(Said::Call(vec![0xd0, 0])),
            (DISCONNECT, 0) if packet.is_empty() => Ok(Said::Farewell),
            _ => {
                Err(malformed(&format!("a packet that begins with {first:#04x} is none that is taken here")))
            }
        }
    }

    fn publish(&mut self, flags: u8, packet: &[u8]) -> Result<Said, Refusal> {
        let mut fields = Fields(packet);
        let topic = fields.text()?;
        if topic.is_empty() || topic.contains(['+', '#']) {
            return Err(malformed("the topic is none"));
        }
        self.pending = match (flags >> 1) & 3 {
            0 => None,
            1 => match fields.number()? {
                0 => return Err(malformed("the packet identifier is 0")),
                id => Some(id),
            },
            2 => return Err(malformed("messages of QoS 2 are not taken")),
            _ => return Err(malformed("the QoS is none")),
        };
        if fields.0.len() > LONGEST {
            return Err(malformed(&format!("the payload is longer than {LONGEST} bytes")));
        }
        Ok(Said::Event(name_in(fields.0)))
    }
}

/// The lengths of the fixed header and of the rest of the first packet; `None` where the header is not whole yet.
fn lengths(bytes: &[u8]) -> Result<Option<(usize, usize)>, Refusal> {
    let mut length = 0;
    for (place, byte) in bytes.iter().skip(1).enumerate() {
        if place == 4 {
            break;
        }
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            if length > LONGEST_PACKET {
                return Err(malformed(&format!("a packet is longer than {LONGEST_PACKET} bytes")));
            }
            return Ok(Some((place + 2, length)));
        }
    }
    if bytes.len() > 4 { Err(malformed("the length of a packet is none")) } else { Ok(None) }
}

/// A packet of that first byte; the rest has less than 128 bytes, or as many filters as fit.
fn framed(first: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    let mut left = rest.len();
    loop {
        let more = if left > 0x7f { 0x80 } else { 0 };
        bytes.push((left & 0x7f) as u8 | more);
        left >>= 7;
        if left == 0 {
            break;
        }
    }
    bytes.extend_from_slice(rest);
    bytes
}

/// The packet identifier of a packet that has one, and filters after it.
fn identified(packet: &[u8]) -> Result<([u8; 2], Fields<'_>), Refusal> {
    let mut fields = Fields(packet);
    let id = fields.number()?;
    if id == 0 || fields.0.is_empty() {
        return Err(malformed("a packet identifier and a filter are wanted"));
    }
    Ok((id.to_be_bytes(), fields))
}

/// Reads a CONNECT (section 3.1); its keep alive, seconds.
fn connect(packet: &[u8]) -> Result<u16, Refusal> {
    let mut fields = Fields(packet);
    let protocol = fields.text()?;
    match (protocol, fields.byte()?) {
        ("MQTT", 4) => {}
        // A client of MQTT 5 is told in its own words (MQTT 5.0, section 3.2): unsupported protocol version, no properties.
        ("MQTT", 5) => return Err((vec![0x20, 3, 0, 0x84, 0], "the client speaks MQTT 5".to_owned())),
        ("MQTT" | "MQIsdp", level) => {
            return Err((vec![0x20, 2, 0, 1], format!("the client speaks level {level} of MQTT")));
        }
        _ => return Err(malformed("it is not MQTT")),
    }
    let flags = fields.byte()?;
    let has = |bit: u8| flags & bit != 0;
    let (clean, will, password, user) = (has(2), has(4), has(0x40), has(0x80));
    let will_is_odd = if will { flags & 0x18 == 0x18 } else { flags & 0x38 != 0 };
    if has(1) || will_is_odd || password && !user {
        return Err(malformed("the flags of CONNECT contradict each other"));
    }
    let keep_alive = fields.number()?;
    if fields.text()?.is_empty() && !clean {
        return Err((vec![0x20, 2, 0, 2], "a client without a name wants its session kept".to_owned()));
    }
    if will {
        fields.text()?;
        fields.data()?;
    }
    if user {
        fields.text()?;
    }
    if password {
        fields.data()?;
    }
    if !fields.0.is_empty() {
        return Err(malformed("CONNECT is longer than its fields"));
    }
    Ok(keep_alive)
}

/// What is left of a packet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Refusal> {
        let (field, rest) =
            self.0.split_at_checked(length).ok_or_else(|| malformed("a packet ends within a field"))?;
        self.0 = rest;
        Ok(field)
    }

    fn byte(&mut self) -> Result<u8, Refusal> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<u16, Refusal> {
        let field = self.take(2)?;
        Ok(u16::from_be_bytes([field[0], field[1]]))
    }

    fn data(&mut self) -> Result<&'a [u8], Refusal> {
        let length = self.number()?;
        self.take(usize::from(length))
    }

    fn text(&mut self) -> Result<&'a str, Refusal> {
        std::str::from_utf8(self.data()?).map_err(|_| malformed("a text is none"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x0a\x00\x01a";

    fn connected() -> Mqtt {
        let mut mqtt = Mqtt::default();
        assert_eq!(mqtt.patience(), Some(PATIENCE));
        mqtt.add(HELLO);
        assert_eq!(mqtt.next(), Some(Said::Call(vec![0x20, 2, 0, 0])));
        assert_eq!(mqtt.patience(), Some(Duration::from_secs(15)));
        mqtt
    }

    #[test]
    fn messages_are_events_and_are_acknowledged_when_those_are_done() {
        let mut mqtt = connected();
        mqtt.add(b"\x32\x0a\x00\x01t\x01\x02 ev-1\x30\x06\x00\x01tabc\xc0\x00\x32\x06\x00\x01t\x00\x07x");
        assert_eq!(mqtt.next(), Some(Said::Event(Some("ev-1".into()))));
        assert_eq!(mqtt.over(true).bytes, [0x40, 2, 1, 2]);
        assert_eq!(mqtt.next(), Some(Said::Event(Some("abc".into()))));
        assert_eq!(mqtt.over(true).bytes, b"");
        assert_eq!(mqtt.next(), Some(Said::Call(vec![0xd0, 0])));
        assert_eq!(mqtt.next(), Some(Said::Event(Some("x".into()))));
        assert_eq!(mqtt.over(false).bytes, b"");
        mqtt.add(b"\x82\x0c\x00\x09\x00\x01a\x00\x00\x03b/#\x01");
        assert_eq!(mqtt.next(), Some(Said::Call(vec![0x90, 4, 0, 9, 0x80, 0x80])));
        mqtt.add(b"\xa2\x05\x00\x0a\x00\x01a\xe0\x00");
        assert_eq!(mqtt.next(), Some(Said::Call(vec![0xb0, 2, 0, 10])));
        assert_eq!(mqtt.next(), Some(Said::Farewell));
    }

    #[test]
    fn who_cannot_be_served_is_told_in_the_words_of_their_version() {
        let refused = |bytes: &[u8]| {
            let mut mqtt = Mqtt::default();
            mqtt.add(bytes);
            match mqtt.next() {
                Some(Said::Refused(answer, _)) => answer,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x0a\x00\x00\x01a"), [0x20, 3, 0, 0x84, 0]);
        assert_eq!(refused(b"\x10\x0f\x00\x06MQIsdp\x03\x02\x00\x0a\x00\x01a"), [0x20, 2, 0, 1]);
        assert_eq!(refused(b"\x10\x0c\x00\x04MQTT\x04\x00\x00\x0a\x00\x00"), [0x20, 2, 0, 2]);
        assert_eq!(refused(b"\x30\x04\x00\x01ta"), b"");
        assert_eq!(
            refused(b"GET / HTTP/1.1\r\n\r\n and so on for long enough: a packet of 69 bytes at least."),
            b""
        );
        assert_eq!(refused(b"\x10\xff\xff\xff\xff\x01"), b"");
        assert_eq!(refused(b"\x10\xff\xff\xff\x7f"), b"");
    }

    #[test]
    fn what_breaks_the_rules_ends_the_connection() {
        for wrong in [
            &b"\x36\x04\x00\x01ta"[..],
            b"\x34\x06\x00\x01t\x00\x01a",
            b"\x32\x05\x00\x01t\x00\x00",
            b"\x30\x03\x00\x01#",
            b"\x30\x02\x00\x00",
            b"\x30\x03\x00\x05a",
            b"\x80\x06\x00\x01\x00\x01a\x00",
            b"\x82\x02\x00\x01",
            b"\x82\x06\x00\x01\x00\x01a\x03",
            b"\xc0\x01\x00",
            b"\x40\x02\x00\x01",
            HELLO,
        ] {
            let mut mqtt = connected();
            mqtt.add(wrong);
            assert!(matches!(mqtt.next(), Some(Said::Refused(answer, _)) if answer.is_empty()), "{wrong:?}");
        }
    }
}
