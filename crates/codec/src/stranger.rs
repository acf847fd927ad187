//! Who answers at a port where something else was expected: protocols by the first bytes that their servers send.

/// A protocol, and how to reach it where that is what was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Its name.
    pub name: &'static str,
    /// What to do about it; empty where nothing is known.
    pub advice: &'static str,
}

const fn stranger(name: &'static str, advice: &'static str) -> Stranger {
    Stranger { name, advice }
}

const HTTP: Stranger = stranger("HTTP", "MQTT over WebSocket has addresses that begin with `ws://`");
const TLS: Stranger = stranger("TLS", "secured addresses begin with `mqtts://`, `https://` or `wss://`");
const AMQP: Stranger = stranger("AMQP", "brokers have another port for MQTT, 1883 by custom");

/// How servers begin, each with its protocol.
const BEGINNINGS: [(&[u8], Stranger); 19] = [
    (b"HTTP/", HTTP),
    (b"AMQP", AMQP),
    (b"SSH-", stranger("SSH", "")),
    (b"-ERR", stranger("Redis", "")),
    (b"-NOAUTH", stranger("Redis", "")),
    (b"-DENIED", stranger("Redis", "")),
    (b"INFO {", stranger("NATS", "its MQTT has a port of its own")),
    (b"RFB ", stranger("VNC", "")),
    (b"RTSP/", stranger("RTSP", "")),
    (b"220 ", stranger("SMTP or FTP", "")),
    (b"220-", stranger("SMTP or FTP", "")),
    (b"+OK ", stranger("POP3", "")),
    (b"* OK", stranger("IMAP", "")),
    (b"ERROR\n", stranger("STOMP", "brokers have another port for MQTT, 1883 by custom")),
    (b"ERROR\r\n", stranger("Memcached", "")),
    (b"<?xml", stranger("XML, perhaps XMPP", "")),
    (b"<stream:", stranger("XMPP", "")),
    (b"<html", HTTP),
    (b"<!DOCTYPE", HTTP),
];

impl Stranger {
    /// The protocol of a server that begins so; `None` where that is not known, or too little has come.
    pub fn of(bytes: &[u8]) -> Option<Stranger> {
        let begins = |(beginning, _): &&(&[u8], Stranger)| bytes.starts_with(beginning);
        if let Some((_, stranger)) = BEGINNINGS.iter().find(begins) {
            return Some(*stranger);
        }
        match *bytes {
            // An alert or a handshake record of TLS 1.0 to 1.3 (RFC 8446 section 5.1).
            [0x15 | 0x16, 3, 0..=4, ..] => Some(TLS),
            // The settings of HTTP/2 (RFC 9113 section 6.5), all of a few bytes.
            [0, 0, 0..=60, 4, 0 | 1, 0, 0, 0, 0, ..] => Some(HTTP),
            // The greeting of MySQL (protocol version 10) and its error packet, both shorter than 256 bytes.
            [_, 0, 0, 0, 10 | 0xff, ..] => Some(stranger("MySQL", "")),
            // An error of PostgreSQL, which begins with its severity.
            [b'E', 0, 0, _, _, b'S', ..] => Some(stranger("PostgreSQL", "")),
            // Telnet begins with commands.
            [0xff, 0xfb..=0xfe, ..] => Some(stranger("Telnet", "")),
            _ => None,
        }
    }

    /// Who it is and what to do, for people who expected MQTT there.
    pub fn told(self) -> String {
        let Stranger { name, advice } = self;
        let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
        format!("that port speaks {name}{advice}")
    }

    /// What was said where HTTP was expected, for people.
    pub fn in_place_of_http(bytes: &[u8]) -> String {
        match Stranger::of(bytes) {
            Some(TLS) => format!("no HTTP there: {}", TLS.told()),
            Some(Stranger { name, .. }) if name != HTTP.name => {
                format!("no HTTP there: that port speaks {name}")
            }
            _ => format!("no HTTP there: it begins with {}", shown(bytes)),
        }
    }
}

/// The beginning of what came, for people: as text where it is one, else in hexadecimal.
pub fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 16;
    let beginning = bytes.get(..SHOWN).unwrap_or(bytes);
    if !beginning.is_empty() && beginning.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\r' | b'\n')) {
        return format!("\"{}\"", beginning.escape_ascii());
    }
    beginning.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_their_first_bytes() {
        let cases: [(&[u8], &str); 12] = [
            (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
            (&[0x15, 3, 3, 0, 2, 2, 70], "TLS"),
            (b"AMQP\0\0\x09\x01", "AMQP"),
            (b"SSH-2.0-OpenSSH_9.2p1\r\n", "SSH"),
            (b"-ERR unknown command\r\n", "Redis"),
            (b"INFO {\"server_id\":\"N\"}", "NATS"),
            (b"220 mail.example ESMTP\r\n", "SMTP or FTP"),
            (b"\x4a\0\0\0\x0a8.0.36\0", "MySQL"),
            (b"E\0\0\0\x63SFATAL\0", "PostgreSQL"),
            (&[0xff, 0xfd, 1], "Telnet"),
            (&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4], "HTTP"),
            (b"RFB 003.008\n", "VNC"),
        ];
        for (bytes, name) in cases {
            assert_eq!(Stranger::of(bytes).map(|stranger| stranger.name), Some(name), "{}", shown(bytes));
        }
    }

    #[test]
    fn what_speaks_mqtt_is_no_stranger() {
        // The third has ten bytes of properties.
        let with_properties = [0x20, 13, 0, 0, 10, 17, 0, 0, 0, 60, 39, 0, 0, 1, 0];
        let answers: [&[u8]; 6] =
            [&[0x20, 2, 0, 0], &[0x20, 2, 0, 1], &with_properties, &[0xe0, 1, 0x87], b"HTT", b""];
        for bytes in answers {
            assert_eq!(Stranger::of(bytes), None);
        }
    }

    #[test]
    fn who_answers_in_place_of_http_is_named() {
        let told = Stranger::in_place_of_http;
        assert_eq!(told(b"-ERR unknown command\r\n"), "no HTTP there: that port speaks Redis");
        assert!(told(&[0x15, 3, 1, 0, 2]).contains("that port speaks TLS; secured addresses begin with"));
        assert_eq!(told(b"hello"), "no HTTP there: it begins with \"hello\"");
    }

    #[test]
    fn what_came_is_shown_as_text_or_in_hexadecimal() {
        assert_eq!(shown(b"hello\r\nyou"), "\"hello\\r\\nyou\"");
        assert_eq!(shown(&[0, 255]), "00 ff");
        assert_eq!(shown(b""), "");
    }
}
