//! The performatives of a client with one session and one link (parts 2, 3 and 5).

use super::types::{
    Fields, Value, put_bool, put_bytes, put_descriptor, put_list, put_null, put_symbol, put_text, put_ubyte,
    put_uint,
};
use super::{LARGEST_FRAME, Malformed, put_frame};

const OPEN: u8 = 0x10;
const BEGIN: u8 = 0x11;
const ATTACH: u8 = 0x12;
const FLOW: u8 = 0x13;
const TRANSFER: u8 = 0x14;
const DISPOSITION: u8 = 0x15;
const DETACH: u8 = 0x16;
const END: u8 = 0x17;
const CLOSE: u8 = 0x18;
const ERROR: u64 = 0x1d;
const ACCEPTED: u8 = 0x24;
const REJECTED: u8 = 0x25;
const RELEASED: u8 = 0x26;
const MODIFIED: u8 = 0x27;
const SOURCE: u8 = 0x28;
const TARGET: u8 = 0x29;
const MECHANISMS: u8 = 0x40;
const SASL_INIT: u8 = 0x41;
const OUTCOME: u8 = 0x44;
/// The number of our link, and of one that is there for the platform's answer alone.
const HANDLE: u32 = 0;
const PING_HANDLE: u32 = 1;
/// After so many milliseconds of the platform's silence we give the connection up: it sends something before.
const IDLE: u32 = 60_000;

/// What a platform says.
#[derive(Debug)]
pub enum Performative<'a> {
    /// How one may say who one is: the words for it.
    Mechanisms(Vec<&'a str>),
    /// Whether the client is let in: 0, or why not (section 5.3.3.6).
    Outcome(u32),
    /// The connection is open.
    Open(Open),
    /// The session is open: how many frames the platform takes, by the number of the next and how many more.
    Begin {
        /// How many transfers the platform takes.
        window: u32,
        /// The number of its next transfer.
        next_outgoing: u32,
    },
    /// A link is there.
    Attach(Attach<'a>),
    /// How much may be sent.
    Flow(Flow),
    /// A message, or a part of one.
    Transfer(Transfer<'a>),
    /// What became of messages.
    Disposition(Disposition<'a>),
    /// The link of that number of the platform's is gone: why, if that is said.
    Detach(u32, Option<Error<'a>>),
    /// The session is gone: why, if that is said.
    End(Option<Error<'a>>),
    /// The connection is gone: why, if that is said.
    Close(Option<Error<'a>>),
    /// Something else.
    Other,
}

/// What a platform says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The largest frame that it takes, bytes.
    pub largest_frame: u32,
    /// After so many milliseconds of our silence it ends the connection.
    pub idle: Option<u32>,
}

/// A link, as the platform has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach<'a> {
    /// Its name.
    pub name: &'a str,
    /// The number by which the platform knows it.
    pub handle: u32,
    /// Whether the platform has the source or target that was asked for; without one, the link is refused.
    pub has_end: bool,
    /// From where the platform counts the deliveries that it sends over it.
    pub counted: u32,
}

/// How much may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The number of the transfer that the platform expects next.
    pub next_incoming: Option<u32>,
    /// How many transfers it takes from there on.
    pub window: u32,
    /// Of a link: the platform's number of it, how many deliveries it has counted, and how many more it wants.
    pub credit: Option<(u32, u32, u32)>,
    /// Whether it wants what it has given credit for now or not at all (section 2.6.7).
    pub drain: bool,
    /// Whether it wants to know how things stand with us.
    pub echo: bool,
}

/// A message, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// Its number; later parts may leave it out.
    pub delivery: Option<u32>,
    /// Whether nobody wants to know what becomes of it.
    pub settled: bool,
    /// Whether more parts follow.
    pub more: bool,
    /// Whether it is to be forgotten.
    pub aborted: bool,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// What became of messages.
#[derive(Clone, Copy, Debug)]
pub struct Disposition<'a> {
    /// Whether it is about messages that the platform received.
    pub of_receiver: bool,
    /// The numbers of the first and the last of them.
    pub first: u32,
    /// See `first`.
    pub last: u32,
    /// Whether the platform has forgotten them.
    pub settled: bool,
    /// What became of them; `None` while that is open.
    pub outcome: Option<Outcome<'a>>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The platform has it.
    Accepted,
    /// It does not want it: why, if that is said.
    Rejected(Option<Error<'a>>),
    /// It was not and will not be dealt with.
    Released,
}

/// Why something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// A word for it.
    pub condition: &'a str,
    /// A text about it.
    pub description: &'a str,
}

/// Reads a performative by its number; `payload` lies behind it.
///
/// # Errors
/// It is malformed.
pub fn read<'a>(
    number: u64,
    mut fields: Fields<'a>,
    payload: &'a [u8],
) -> Result<Performative<'a>, Malformed> {
    let Ok(number) = u8::try_from(number) else { return Ok(Performative::Other) };
    Ok(match number {
        MECHANISMS => Performative::Mechanisms(match fields.field()? {
            Value::Texts(texts) => texts.collect(),
            Value::Text(one) => vec![one],
            _ => Vec::new(),
        }),
        OUTCOME => Performative::Outcome(fields.number()?.ok_or(Malformed::Short)?),
        OPEN => {
            fields.skip(2)?;
            let largest_frame = fields.number()?.unwrap_or(u32::MAX);
            fields.skip(1)?;
            Performative::Open(Open { largest_frame, idle: fields.number()? })
        }
        BEGIN => {
            fields.skip(1)?;
            let next_outgoing = fields.number()?.unwrap_or_default();
            Performative::Begin { window: fields.number()?.unwrap_or_default(), next_outgoing }
        }
        ATTACH => {
            let name = fields.field()?.text().unwrap_or_default();
            let handle = fields.number()?.ok_or(Malformed::Short)?;
            let is_receiver = fields.field()?.is_true();
            fields.skip(2)?;
            let (source, target) = (fields.field()?, fields.field()?);
            let end = if is_receiver { target } else { source };
            fields.skip(2)?;
            let counted = fields.number()?.unwrap_or_default();
            Performative::Attach(Attach { name, handle, has_end: !matches!(end, Value::Null), counted })
        }
        FLOW => {
            let next_incoming = fields.number()?;
            let window = fields.number()?.unwrap_or_default();
            fields.skip(2)?;
            let handle = fields.number()?;
            let (counted, credit) = (fields.number()?.unwrap_or_default(), fields.number()?);
            fields.skip(1)?;
            let (drain, echo) = (fields.field()?.is_true(), fields.field()?.is_true());
            let credit = handle.zip(credit).map(|(handle, credit)| (handle, counted, credit));
            Performative::Flow(Flow { next_incoming, window, credit, drain, echo })
        }
        TRANSFER => {
            fields.skip(1)?;
            let delivery = fields.number()?;
            fields.skip(2)?;
            let (settled, more) = (fields.field()?.is_true(), fields.field()?.is_true());
            fields.skip(3)?;
            let aborted = fields.field()?.is_true();
            Performative::Transfer(Transfer { delivery, settled, more, aborted, payload })
        }
        DISPOSITION => {
            let of_receiver = fields.field()?.is_true();
            let first = fields.number()?.ok_or(Malformed::Short)?;
            let last = fields.number()?.unwrap_or(first);
            let settled = fields.field()?.is_true();
            let outcome = outcome(fields.field()?)?;
            Performative::Disposition(Disposition { of_receiver, first, last, settled, outcome })
        }
        DETACH => {
            let handle = fields.number()?.ok_or(Malformed::Short)?;
            fields.skip(1)?;
            Performative::Detach(handle, error(fields.field()?)?)
        }
        END => Performative::End(error(fields.field()?)?),
        CLOSE => Performative::Close(error(fields.field()?)?),
        _ => Performative::Other,
    })
}

fn outcome(value: Value<'_>) -> Result<Option<Outcome<'_>>, Malformed> {
    let Value::Described(Some(number), mut fields) = value else { return Ok(None) };
    Ok(match u8::try_from(number) {
        Ok(ACCEPTED) => Some(Outcome::Accepted),
        Ok(REJECTED) => Some(Outcome::Rejected(error(fields.field()?)?)),
        Ok(RELEASED | MODIFIED) => Some(Outcome::Released),
        _ => None,
    })
}

fn error(value: Value<'_>) -> Result<Option<Error<'_>>, Malformed> {
    let Value::Described(Some(ERROR), mut fields) = value else { return Ok(None) };
    let (condition, description) = (fields.field()?, fields.field()?);
    Ok(Some(Error {
        condition: condition.text().unwrap_or_default(),
        description: description.text().unwrap_or_default(),
    }))
}

/// Appends who the client is: its user name and password, or nobody in particular.
pub fn put_sasl_init(user: Option<(&str, &str)>, host: &str, out: &mut Vec<u8>) {
    put_frame(true, out, |out| {
        put_list(SASL_INIT, 3, out, |out| {
            match user {
                Some((username, password)) => {
                    put_symbol("PLAIN", out);
                    put_bytes(format!("\0{username}\0{password}").as_bytes(), out);
                }
                None => {
                    put_symbol("ANONYMOUS", out);
                    put_bytes(b"", out);
                }
            }
            put_text(host, out);
        });
    });
}

/// Appends the opening of a connection to that host.
pub fn put_open(container: &str, host: &str, out: &mut Vec<u8>) {
    put_frame(false, out, |out| {
        put_list(OPEN, 5, out, |out| {
            put_text(container, out);
            put_text(host, out);
            put_uint(LARGEST_FRAME, out);
            put_null(out);
            put_uint(IDLE, out);
        });
    });
}

/// Appends the opening of a session that takes so many transfers.
pub fn put_begin(window: u32, out: &mut Vec<u8>) {
    put_frame(false, out, |out| {
        put_list(BEGIN, 5, out, |out| {
            put_null(out);
            put_uint(0, out);
            put_uint(window, out);
            put_uint(window, out);
            put_uint(PING_HANDLE, out);
        });
    });
}

/// One end of a link at the platform.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// The name of the link.
    pub name: &'a str,
    /// Where messages go to or come from.
    pub address: &'a str,
    /// What the end shall be able to do: a word that platforms know, as `topic` or `shared`.
    pub capabilities: &'a [String],
}

/// Appends a link over which we send; whether the platform says what became of messages.
pub fn put_sender(end: End<'_>, is_acknowledged: bool, out: &mut Vec<u8>) {
    put_sending(HANDLE, end, is_acknowledged, out);
}

/// Appends a link over which nothing goes. The platform answers it after all that was said before.
pub fn put_ping(end: End<'_>, out: &mut Vec<u8>) {
    put_sending(PING_HANDLE, end, false, out);
}

/// Appends the end of that link.
pub fn put_ping_end(out: &mut Vec<u8>) {
    put_frame(false, out, |out| {
        put_list(DETACH, 2, out, |out| {
            put_uint(PING_HANDLE, out);
            put_bool(true, out);
        });
    });
}

fn put_sending(handle: u32, end: End<'_>, is_acknowledged: bool, out: &mut Vec<u8>) {
    put_frame(false, out, |out| {
        put_list(ATTACH, 10, out, |out| {
            put_text(end.name, out);
            put_uint(handle, out);
            put_bool(false, out);
            put_ubyte(if is_acknowledged { 0 } else { 1 }, out);
            put_ubyte(0, out);
            put_list(SOURCE, 1, out, |out| put_text(end.name, out));
            put_list(TARGET, 7, out, |out| {
                put_text(end.address, out);
                (0..5).for_each(|_| put_null(out));
                put_capabilities(end.capabilities, out);
            });
            put_null(out);
            put_null(out);
            put_uint(0, out);
        });
    });
}

/// Appends a link over which we receive.
pub fn put_receiver(end: End<'_>, out: &mut Vec<u8>) {
    put_frame(false, out, |out| {
        put_list(ATTACH, 7, out, |out| {
            put_text(end.name, out);
            put_uint(HANDLE, out);
            put_bool(true, out);
            put_ubyte(0, out);
            put_ubyte(0, out);
            put_list(SOURCE, 11, out, |out| {
                put_text(end.address, out);
                (0..9).for_each(|_| put_null(out));
                put_capabilities(end.capabilities, out);
            });
            put_list(TARGET, 1, out, |out| put_text(end.name, out));
        });
    });
}

fn put_capabilities(capabilities: &[String], out: &mut Vec<u8>) {
    if capabilities.is_empty() {
        return put_null(out);
    }
    let mut items = vec![0xb3];
    for capability in capabilities {
        items.extend((capability.len() as u32).to_be_bytes());
        items.extend_from_slice(capability.as_bytes());
    }
    out.push(0xf0);
    out.extend((items.len() as u32 + 4).to_be_bytes());
    out.extend((capabilities.len() as u32).to_be_bytes());
    out.extend(items);
}

/// How things stand with us.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// The number of the transfer that we expect next, and how many we take.
    pub next_incoming: u32,
    /// See `next_incoming`.
    pub window: u32,
    /// The number of our next transfer.
    pub next_outgoing: u32,
    /// Of our link: how many deliveries went over it, and how many more may go; `None` to say nothing of it.
    pub credit: Option<(u32, u32)>,
    /// Whether a platform that wanted our messages now or not at all has had all that there were (section 2.6.7).
    pub drained: bool,
}

/// Appends how things stand with us.
pub fn put_flow(standing: Standing, out: &mut Vec<u8>) {
    put_frame(false, out, |out| {
        put_list(FLOW, if standing.drained { 9 } else { 7 }, out, |out| {
            put_uint(standing.next_incoming, out);
            put_uint(standing.window, out);
            put_uint(standing.next_outgoing, out);
            put_uint(standing.window, out);
            match standing.credit {
                Some((counted, credit)) => {
                    put_uint(HANDLE, out);
                    put_uint(counted, out);
                    put_uint(credit, out);
                }
                None => (0..3).for_each(|_| put_null(out)),
            }
            if standing.drained {
                put_uint(0, out);
                put_bool(true, out);
            }
        });
    });
}

/// Appends a frame with a message, or with a part of one.
pub fn put_transfer((delivery, settled, more): (u32, bool, bool), payload: &[u8], out: &mut Vec<u8>) {
    put_frame(false, out, |out| {
        put_list(TRANSFER, 6, out, |out| {
            put_uint(HANDLE, out);
            put_uint(delivery, out);
            put_bytes(&delivery.to_be_bytes(), out);
            put_uint(0, out);
            put_bool(settled, out);
            put_bool(more, out);
        });
        out.extend_from_slice(payload);
    });
}

/// Bytes that a transfer has beside its payload at most.
pub const TRANSFER_OVERHEAD: usize = 48;

/// Appends that we accept a message, and forget it.
pub fn put_accepted(delivery: u32, out: &mut Vec<u8>) {
    put_frame(false, out, |out| {
        put_list(DISPOSITION, 5, out, |out| {
            put_bool(true, out);
            put_uint(delivery, out);
            put_null(out);
            put_bool(true, out);
            put_descriptor(ACCEPTED, out);
            out.push(0x45);
        });
    });
}

/// Appends that we forget messages of ours, of which the platform has said what became of them.
pub fn put_settled(first: u32, last: u32, out: &mut Vec<u8>) {
    put_frame(false, out, |out| {
        put_list(DISPOSITION, 4, out, |out| {
            put_bool(false, out);
            put_uint(first, out);
            put_uint(last, out);
            put_bool(true, out);
        });
    });
}

/// Appends the end of the connection, and with it of all in it.
pub fn put_close(out: &mut Vec<u8>) {
    put_frame(false, out, |out| put_list(CLOSE, 0, out, |_| {}));
}

#[cfg(test)]
mod tests {
    use super::super::{Frame, decode, length};
    use super::*;

    fn read_back(bytes: &[u8]) -> Performative<'_> {
        assert_eq!(length(bytes), Ok(Some(bytes.len())));
        let Frame::Performative(number, fields, payload) = decode(bytes).unwrap() else {
            panic!("{bytes:?}")
        };
        read(number, fields, payload).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        put_open("c", "h", &mut out);
        let Performative::Open(open) = read_back(&out) else { panic!("{out:?}") };
        assert_eq!(open, Open { largest_frame: LARGEST_FRAME, idle: Some(IDLE) });
        out.clear();
        put_begin(70_000, &mut out);
        assert!(matches!(read_back(&out), Performative::Begin { window: 70_000, next_outgoing: 0 }));
        out.clear();
        let end = End { name: "n", address: "a.b", capabilities: &["topic".to_owned()] };
        for (handle, put) in [
            (0, (|end, out| put_sender(end, true, out)) as fn(End<'_>, &mut Vec<u8>)),
            (0, put_receiver),
            (1, put_ping),
        ] {
            out.clear();
            put(end, &mut out);
            let Performative::Attach(attach) = read_back(&out) else { panic!("{out:?}") };
            assert_eq!(attach, Attach { name: "n", handle, has_end: true, counted: 0 });
        }
        out.clear();
        put_ping_end(&mut out);
        assert!(matches!(read_back(&out), Performative::Detach(1, None)));
        out.clear();
        let credit = Some((3, 100));
        for drain in [false, true] {
            out.clear();
            let standing = Standing { next_incoming: 1, window: 9, next_outgoing: 2, credit, drained: drain };
            put_flow(standing, &mut out);
            let Performative::Flow(flow) = read_back(&out) else { panic!("{out:?}") };
            let credit = Some((0, 3, 100));
            assert_eq!(flow, Flow { next_incoming: Some(1), window: 9, credit, drain, echo: false });
        }
        out.clear();
        put_transfer((7, false, true), b"part", &mut out);
        assert!(out.len() <= TRANSFER_OVERHEAD + 4);
        let Performative::Transfer(transfer) = read_back(&out) else { panic!("{out:?}") };
        let expected =
            Transfer { delivery: Some(7), settled: false, more: true, aborted: false, payload: b"part" };
        assert_eq!(transfer, expected);
        out.clear();
        put_accepted(7, &mut out);
        let Performative::Disposition(own) = read_back(&out) else { panic!("{out:?}") };
        assert_eq!((own.of_receiver, own.first, own.last, own.settled), (true, 7, 7, true));
        assert_eq!(own.outcome, Some(Outcome::Accepted));
        out.clear();
        put_settled(7, 9, &mut out);
        let Performative::Disposition(own) = read_back(&out) else { panic!("{out:?}") };
        assert_eq!((own.of_receiver, own.first, own.last, own.outcome), (false, 7, 9, None));
        out.clear();
        put_close(&mut out);
        assert!(matches!(read_back(&out), Performative::Close(None)));
    }

    #[test]
    fn why_something_ended_is_read() {
        let mut out = Vec::new();
        put_frame(false, &mut out, |out| {
            put_list(DETACH, 3, out, |out| {
                put_uint(0, out);
                put_bool(true, out);
                put_list(0x1d, 2, out, |out| {
                    put_symbol("amqp:not-found", out);
                    put_text("no queue", out);
                });
            });
        });
        let Performative::Detach(0, Some(error)) = read_back(&out) else { panic!("{out:?}") };
        assert_eq!(error, Error { condition: "amqp:not-found", description: "no queue" });
    }
}
