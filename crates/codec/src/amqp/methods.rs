//! Methods: those that a server sends to publishers and consumers, read, and those of a client, written.

use super::encode_frame;
use super::fields::{Fields, Malformed, Value, append_long, append_short, append_table};

/// What a server says, as far as publishers and consumers need it.
#[derive(Debug, PartialEq, Eq)]
pub enum Method<'a> {
    /// `connection.start`: the ways to log in, separated by spaces.
    Start(&'a [u8]),
    /// `connection.tune`: the server's limits.
    Tune(Tuning),
    /// `connection.open-ok`.
    Opened,
    /// `connection.close`, and `channel.close` where that is `true`: the code and the reason.
    Close(bool, u16, &'a str),
    /// `connection.blocked`: the server reads no more for a while, and why.
    Blocked(&'a str),
    /// `connection.unblocked`.
    Unblocked,
    /// `channel.open-ok`.
    ChannelOpened,
    /// `channel.flow`: whether messages may be sent.
    Flow(bool),
    /// `queue.declare-ok` and `queue.bind-ok`.
    Declared,
    /// `confirm.select-ok`.
    Confirming,
    /// `basic.qos-ok`.
    QosSet,
    /// `basic.consume-ok`.
    Consuming,
    /// `basic.cancel`: the server has ended a subscription, as when its queue was deleted.
    Cancelled,
    /// `basic.deliver`: a content follows, which is acknowledged under that tag.
    Deliver(u64, bool),
    /// `basic.return`: a content follows that came back.
    Return(u16, &'a str),
    /// `basic.ack`: the message of that tag, or all up to it.
    Ack(u64, bool),
    /// `basic.nack`: the same, refused.
    Nack(u64, bool),
    /// Anything else, by class and method.
    Other(u16, u16),
}

/// Limits of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Most channels; zero for no limit.
    pub channels: u16,
    /// Largest frame, bytes; zero for no limit.
    pub frame: u32,
    /// Longest silence between signs of life, seconds; zero for none.
    pub heartbeat: u16,
}

/// What the payload of a method's frame says.
pub(super) fn decode<'a>(fields: &mut Fields<'a>) -> Result<Method<'a>, Malformed> {
    let (class, method) = (fields.u16()?, fields.u16()?);
    Ok(match (class, method) {
        (10, 10) => {
            // The version and what the server says of itself.
            fields.u16()?;
            fields.long()?;
            Method::Start(fields.long()?)
        }
        (10, 30) => {
            let tuning = Tuning { channels: fields.u16()?, frame: fields.u32()?, heartbeat: fields.u16()? };
            Method::Tune(tuning)
        }
        (10, 41) => Method::Opened,
        (10, 50) => Method::Close(false, fields.u16()?, fields.short_text()?),
        (20, 40) => Method::Close(true, fields.u16()?, fields.short_text()?),
        (10, 60) => Method::Blocked(fields.short_text()?),
        (10, 61) => Method::Unblocked,
        (20, 11) => Method::ChannelOpened,
        (20, 20) => Method::Flow(fields.u8()? & 1 == 1),
        (50, 11 | 21) => Method::Declared,
        (85, 11) => Method::Confirming,
        (60, 11) => Method::QosSet,
        (60, 21) => Method::Consuming,
        (60, 30) => Method::Cancelled,
        (60, 60) => {
            fields.short_text()?;
            Method::Deliver(fields.u64()?, fields.u8()? & 1 == 1)
        }
        (60, 50) => Method::Return(fields.u16()?, fields.short_text()?),
        (60, 80) => Method::Ack(fields.u64()?, fields.u8()? & 1 == 1),
        (60, 120) => Method::Nack(fields.u64()?, fields.u8()? & 1 == 1),
        (class, method) => Method::Other(class, method),
    })
}

fn encode(channel: u16, (class, method): (u16, u16), out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    encode_frame(1, channel, out, |out| {
        out.extend_from_slice(&class.to_be_bytes());
        out.extend_from_slice(&method.to_be_bytes());
        write(out);
    });
}

/// Appends `connection.start-ok`: logs in with user name and password (SASL PLAIN, RFC 4616).
pub fn encode_start_ok(version: &str, username: &str, password: &str, out: &mut Vec<u8>) {
    let capabilities = [
        ("authentication_failure_close", Value::Bool(true)),
        ("basic.nack", Value::Bool(true)),
        ("connection.blocked", Value::Bool(true)),
        ("consumer_cancel_notify", Value::Bool(true)),
        ("publisher_confirms", Value::Bool(true)),
    ];
    let own = [
        ("product", Value::Text("plimsoll")),
        ("version", Value::Text(version)),
        ("capabilities", Value::Table(&capabilities)),
    ];
    encode(0, (10, 11), out, |out| {
        append_table(&own, out);
        append_short(b"PLAIN", out);
        append_long(format!("\0{username}\0{password}").as_bytes(), out);
        append_short(b"en_US", out);
    });
}

/// Appends `connection.tune-ok`.
pub fn encode_tune_ok(tuning: Tuning, out: &mut Vec<u8>) {
    encode(0, (10, 31), out, |out| {
        out.extend_from_slice(&tuning.channels.to_be_bytes());
        out.extend_from_slice(&tuning.frame.to_be_bytes());
        out.extend_from_slice(&tuning.heartbeat.to_be_bytes());
    });
}

/// Appends `connection.open`.
pub fn encode_open(virtual_host: &str, out: &mut Vec<u8>) {
    encode(0, (10, 40), out, |out| {
        append_short(virtual_host.as_bytes(), out);
        out.extend_from_slice(&[0, 0]);
    });
}

/// Appends `connection.close`, in good order.
pub fn encode_close(out: &mut Vec<u8>) {
    encode(0, (10, 50), out, |out| {
        out.extend_from_slice(&200_u16.to_be_bytes());
        append_short(b"", out);
        out.extend_from_slice(&[0; 4]);
    });
}

/// Appends the answer to a `connection.close`, or to a `channel.close` where there is a channel.
pub fn encode_close_ok(channel: Option<u16>, out: &mut Vec<u8>) {
    match channel {
        Some(channel) => encode(channel, (20, 41), out, |_| {}),
        None => encode(0, (10, 51), out, |_| {}),
    }
}

/// Appends `channel.open`.
pub fn encode_channel_open(channel: u16, out: &mut Vec<u8>) {
    encode(channel, (20, 10), out, |out| append_short(b"", out));
}

/// Appends `channel.flow-ok`.
pub fn encode_flow_ok(channel: u16, active: bool, out: &mut Vec<u8>) {
    encode(channel, (20, 21), out, |out| out.push(u8::from(active)));
}

/// Appends `confirm.select`: from now on the server acknowledges messages.
pub fn encode_confirm_select(channel: u16, out: &mut Vec<u8>) {
    encode(channel, (85, 10), out, |out| out.push(0));
}

/// How a queue is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// It exists.
    Existing,
    /// For this connection alone, with which it goes.
    Exclusive,
    /// For all who ask for it; it goes with the last of them, or after so many milliseconds without any.
    Shared(i32),
}

/// Appends `queue.declare`.
pub fn encode_queue_declare(channel: u16, queue: &str, kind: QueueKind, out: &mut Vec<u8>) {
    const PASSIVE: u8 = 1;
    const DURABLE: u8 = 2;
    const EXCLUSIVE: u8 = 4;
    const AUTO_DELETE: u8 = 8;
    encode(channel, (50, 10), out, |out| {
        out.extend_from_slice(&[0, 0]);
        append_short(queue.as_bytes(), out);
        match kind {
            QueueKind::Existing => {
                out.push(PASSIVE);
                append_table(&[], out);
            }
            QueueKind::Exclusive => {
                out.push(EXCLUSIVE | AUTO_DELETE);
                append_table(&[], out);
            }
            QueueKind::Shared(expires) => {
                out.push(DURABLE | AUTO_DELETE);
                append_table(&[("x-expires", Value::Int(expires))], out);
            }
        }
    });
}

/// Appends `queue.bind`.
pub fn encode_queue_bind(channel: u16, queue: &str, exchange: &str, routing_key: &str, out: &mut Vec<u8>) {
    encode(channel, (50, 20), out, |out| {
        out.extend_from_slice(&[0, 0]);
        append_short(queue.as_bytes(), out);
        append_short(exchange.as_bytes(), out);
        append_short(routing_key.as_bytes(), out);
        out.push(0);
        append_table(&[], out);
    });
}

/// Appends `basic.qos` without a limit: what it changes is nothing, and its answer shows that all before it was read.
pub fn encode_basic_qos(channel: u16, out: &mut Vec<u8>) {
    encode(channel, (60, 10), out, |out| out.extend_from_slice(&[0; 7]));
}

/// Appends `basic.consume`, with acknowledgements.
pub fn encode_basic_consume(channel: u16, queue: &str, out: &mut Vec<u8>) {
    encode(channel, (60, 20), out, |out| {
        out.extend_from_slice(&[0, 0]);
        append_short(queue.as_bytes(), out);
        append_short(b"", out);
        out.push(0);
        append_table(&[], out);
    });
}

/// Appends `basic.ack` of one message.
pub fn encode_basic_ack(channel: u16, tag: u64, out: &mut Vec<u8>) {
    encode(channel, (60, 80), out, |out| {
        out.extend_from_slice(&tag.to_be_bytes());
        out.push(0);
    });
}

/// Appends `basic.publish`, whose content follows.
pub(super) fn encode_basic_publish(channel: u16, exchange: &[u8], routing_key: &[u8], out: &mut Vec<u8>) {
    encode(channel, (60, 40), out, |out| {
        out.extend_from_slice(&[0, 0]);
        append_short(exchange, out);
        append_short(routing_key, out);
        out.push(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::{Frame, decode, length};
    use super::*;

    /// A method of a server on channel 1.
    fn method(class: u16, number: u16, arguments: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(1, (class, number), &mut out, |out| out.extend_from_slice(arguments));
        out
    }

    fn read(frame: &[u8]) -> Method<'_> {
        assert_eq!(length(frame), Ok(Some(frame.len())));
        match decode(frame) {
            Ok(Frame::Method(1, method)) => method,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_server_says_is_read() {
        let tuned = read(&method(10, 30, &[7, 255, 0, 2, 0, 0, 0, 60]))
            == Method::Tune(Tuning { channels: 2047, frame: 131_072, heartbeat: 60 });
        assert!(tuned);
        let closed = method(20, 40, &[&[1, 0x94, 9][..], b"NOT_FOUND", &[0; 4]].concat());
        assert_eq!(read(&closed), Method::Close(true, 404, "NOT_FOUND"));
        let started = [&[0, 9][..], &[0, 0, 0, 0], &[0, 0, 0, 5], b"PLAIN", &[0, 0, 0, 0]].concat();
        assert_eq!(read(&method(10, 10, &started)), Method::Start(b"PLAIN"));
        let delivered = [&[2][..], b"ct", &[0, 0, 0, 0, 0, 0, 0, 9], &[1], &[0], &[0]].concat();
        assert_eq!(read(&method(60, 60, &delivered)), Method::Deliver(9, true));
        assert_eq!(read(&method(60, 80, &[0, 0, 0, 0, 0, 0, 1, 0, 1])), Method::Ack(256, true));
        assert_eq!(read(&method(60, 120, &[0, 0, 0, 0, 0, 0, 0, 1, 0])), Method::Nack(1, false));
        assert_eq!(read(&method(90, 1, &[])), Method::Other(90, 1));
        assert_eq!(decode(&method(60, 80, &[0])), Err(Malformed::Short));
    }

    #[test]
    fn a_queue_is_asked_for_as_it_is_needed() {
        let asked = |kind| {
            let mut out = Vec::new();
            encode_queue_declare(1, "q", kind, &mut out);
            out
        };
        // Frame head, class, method, reserved, name, flags.
        let flags = |frame: &[u8]| frame[7 + 4 + 2 + 2];
        assert_eq!(flags(&asked(QueueKind::Existing)), 1);
        assert_eq!(flags(&asked(QueueKind::Exclusive)), 12);
        let shared = asked(QueueKind::Shared(300_000));
        assert_eq!(flags(&shared), 10);
        let table = [&[0, 0, 0, 15, 9][..], b"x-expires", b"I", &300_000_i32.to_be_bytes()].concat();
        assert!(shared[16..].starts_with(&table), "{shared:?}");
    }
}
