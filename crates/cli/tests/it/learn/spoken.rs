//! What clients and servers of planted traffic say, byte by byte: no codec of the program has part in it.

use super::traffic::{Sent, Speaks};

/// What one side says, and what the other answers.
pub type Said = (Vec<u8>, Vec<u8>);

/// What a client says at the beginning of its connection, where its protocol has something to say then.
pub fn greeting(speaks: Speaks, sent: &Sent) -> Option<Said> {
    match speaks {
        Speaks::Mqtt => Some((connect(&format!("device-{}", sent.client)), b"\x20\x02\0\0".to_vec())),
        Speaks::Http2 => {
            let settings = frame2(4, 0, 0, b"");
            Some(([&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat(), settings))
        }
        Speaks::Nats => {
            Some((b"CONNECT {\"verbose\":false}\r\n".to_vec(), b"INFO {\"server_id\":\"A\"}\r\n".to_vec()))
        }
        Speaks::Amqp => {
            let greeting = b"AMQP\0\0\x09\x01".to_vec();
            Some(match sent.qos {
                0 => (greeting, Vec::new()),
                // Confirms are asked for, and granted.
                _ => ([greeting, method(85, 10, &[0])].concat(), method(85, 11, &[])),
            })
        }
        Speaks::Amqp1 => Some(opened(sent)),
        Speaks::Http | Speaks::Coap | Speaks::Kafka => None,
    }
}

/// A message, the so many-th of its connection, and what comes back.
pub fn message(speaks: Speaks, sent: &Sent, number: u32) -> Said {
    match speaks {
        Speaks::Mqtt => publish(sent),
        Speaks::Http => post(sent),
        Speaks::Http2 => post2(sent, number),
        Speaks::Nats => (
            [
                format!("PUB {} {}\r\n", sent.target.replace('/', "."), sent.bytes).as_bytes(),
                &vec![b'x'; sent.bytes],
                b"\r\n",
            ]
            .concat(),
            Vec::new(),
        ),
        Speaks::Amqp => routed(sent, number),
        Speaks::Amqp1 => transferred(sent, number),
        Speaks::Kafka => produced(sent, number),
        Speaks::Coap => unreachable!("datagrams are made where their numbers are known"),
    }
}

/// A subscription of MQTT.
pub fn subscription(filter: &str) -> Said {
    let mut body = vec![0, 1];
    text(&mut body, filter);
    body.push(1);
    (mqtt(0x82, &body), b"\x90\x03\0\x01\x01".to_vec())
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
}

/// A packet of MQTT.
fn mqtt(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    let mut left = body.len();
    loop {
        let more = if left > 127 { 128 } else { 0 };
        packet.push((left % 128) as u8 | more);
        left /= 128;
        if more == 0 {
            break;
        }
    }
    packet.extend(body);
    packet
}

/// A CONNECT of MQTT 3.1.1.
pub fn connect(client: &str) -> Vec<u8> {
    let mut body = Vec::new();
    text(&mut body, "MQTT");
    body.extend([4, 2, 0, 45]);
    text(&mut body, client);
    mqtt(0x10, &body)
}

fn publish(sent: &Sent) -> Said {
    let mut body = Vec::new();
    text(&mut body, &sent.target);
    if sent.qos > 0 {
        body.extend([0, 7]);
    }
    body.extend(vec![b'x'; sent.bytes]);
    let first = 0x30 | sent.qos << 1 | u8::from(sent.retained);
    let answers: &[u8] = if sent.qos > 0 { b"\x40\x02\0\x07" } else { b"" };
    (mqtt(first, &body), answers.to_vec())
}

fn post(sent: &Sent) -> Said {
    let Sent { target, bytes, .. } = sent;
    let mut asks =
        format!("POST {target} HTTP/1.1\r\nHost: platform\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
    asks.extend(vec![b'x'; *bytes]);
    (asks, b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame2(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// Method and scheme out of the static table, the path as it is; the answer is 204.
fn post2(sent: &Sent, number: u32) -> Said {
    let stream = 2 * number + 1;
    let fields = [&[0x83, 0x86, 0x04, sent.target.len() as u8][..], sent.target.as_bytes()].concat();
    let asks = [frame2(1, 4, stream, &fields), frame2(0, 1, stream, &vec![b'x'; sent.bytes])].concat();
    (asks, frame2(1, 5, stream, b"\x89"))
}

/// A frame of AMQP 0-9-1 on channel 1 (section 4.2.3).
fn frame1(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&[kind, 0, 1][..], &length, payload, &[0xce]].concat()
}

fn method(class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
    frame1(1, &[&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat())
}

fn short(text: &str) -> Vec<u8> {
    [&[text.len() as u8][..], text.as_bytes()].concat()
}

fn routed(sent: &Sent, number: u32) -> Said {
    let key = short(&sent.target.replace('/', "."));
    let arguments = [&[0, 0][..], &short("amq.topic"), &key, &[0]].concat();
    let size = (sent.bytes as u64).to_be_bytes();
    let header = [&[0, 60, 0, 0][..], &size, &[0, 0]].concat();
    let asks = [method(60, 40, &arguments), frame1(2, &header), frame1(3, &vec![b'x'; sent.bytes])].concat();
    let answers = match sent.qos {
        0 => Vec::new(),
        _ => method(60, 80, &[&u64::from(number + 1).to_be_bytes()[..], &[0]].concat()),
    };
    (asks, answers)
}

/// A frame of AMQP 1.0 on channel 0: a performative by its number, with its fields, and what lies behind it.
fn frame10(number: u8, fields: &[&[u8]], payload: &[u8]) -> Vec<u8> {
    let list = fields.concat();
    let body =
        [&[0, 0x53, number, 0xc0, list.len() as u8 + 1, fields.len() as u8][..], &list, payload].concat();
    [&(body.len() as u32 + 8).to_be_bytes()[..], &[2, 0, 0, 0], &body].concat()
}

/// A text as AMQP 1.0 has it.
fn string10(text: &str) -> Vec<u8> {
    [&[0xa1, text.len() as u8][..], text.as_bytes()].concat()
}

/// A connection, a session and a link to the one address of the client.
fn opened(sent: &Sent) -> Said {
    let address = string10(&format!("/topic/{}", sent.target.replace('/', ".")));
    let target = [&[0, 0x53, 0x29, 0xc0, address.len() as u8 + 1, 1][..], &address].concat();
    let (null, zero, window): (&[u8], &[u8], &[u8]) = (&[0x40], &[0x43], &[0x52, 99]);
    let name = string10("out");
    let begin = frame10(0x11, &[null, zero, window, window], b"");
    let attach = frame10(0x12, &[&name, zero, &[0x42], &[0x50, 0], &[0x50, 0], null, &target], b"");
    let header = b"AMQP\0\x01\0\0".as_slice();
    let asks = [header, &frame10(0x10, &[&string10("me")], b""), &begin, &attach].concat();
    let began = frame10(0x11, &[zero, zero, window, window], b"");
    let attached = frame10(0x12, &[&name, zero, &[0x41], &[0x50, 0], &[0x50, 0], null, &target], b"");
    (asks, [header, &frame10(0x10, &[&string10("broker")], b""), &began, &attached].concat())
}

fn transferred(sent: &Sent, number: u32) -> Said {
    let id = [&[0x70][..], &number.to_be_bytes()].concat();
    let settled: &[u8] = if sent.qos == 0 { &[0x41] } else { &[0x42] };
    let data =
        [&[0, 0x53, 0x75, 0xb0][..], &(sent.bytes as u32).to_be_bytes(), &vec![b'x'; sent.bytes]].concat();
    let asks = frame10(0x14, &[&[0x43], &id, &[0xa0, 1, 0], &[0x43], settled], &data);
    let answers = match sent.qos {
        0 => Vec::new(),
        _ => frame10(0x15, &[&[0x41], &id, &[0x40], &[0x41], &[0, 0x53, 0x24, 0x45]], b""),
    };
    (asks, answers)
}

/// A number of a record: signed, seven bits a byte.
fn varint(number: i64) -> Vec<u8> {
    let mut left = ((number << 1) ^ (number >> 63)) as u64;
    let mut bytes = Vec::new();
    while left > 127 {
        bytes.push(left as u8 | 128);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

fn sized(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_be_bytes()[..], content].concat()
}

/// Produce, version 3, of one record; version 3 of the answer.
fn produced(sent: &Sent, number: u32) -> Said {
    let key = sent.target.as_bytes();
    let record = [
        &[0, 0, 0][..],
        &varint(key.len() as i64),
        key,
        &varint(sent.bytes as i64),
        &vec![b'x'; sent.bytes],
        &[0],
    ]
    .concat();
    let records = [varint(record.len() as i64), record].concat();
    let mut batch = vec![0; 61];
    batch[8..12].copy_from_slice(&(records.len() as u32 + 49).to_be_bytes());
    (batch[16], batch[60]) = (2, 1);
    batch.extend(records);
    let acks: i16 = [0, 1, -1][usize::from(sent.qos)];
    let head = [&b"\0\0\0\x03"[..], &number.to_be_bytes(), b"\0\x02me\xff\xff", &acks.to_be_bytes()].concat();
    let topic = [&b"\0\0\0\x09\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0"[..], &sized(&batch)].concat();
    let asks = sized(&[head, topic].concat());
    let answers = match sent.qos {
        0 => Vec::new(),
        _ => sized(&[&number.to_be_bytes()[..], b"\0\0\0\x01\0\x01t\0\0\0\x01", &[0; 22], &[0; 4]].concat()),
    };
    (asks, answers)
}
