//! PostgreSQL, version 3 of its protocol (PostgreSQL documentation, "Frontend/Backend Protocol"). Queries are answered in
//! order, in batches: each ends with a ReadyForQuery, and after an error the rest of it is skipped.

mod probe;
#[cfg(test)]
mod tests;

use crate::dissect::{Dissector, Entry, KEPT, Output, Step};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use memchr::memchr;
use plimsoll_model::wire::{Label, WireProtocol};
use std::collections::VecDeque;

/// The longest message, bytes: what a server can build in its memory.
const MESSAGE: usize = 1 << 30;
/// The longest packet before a session, bytes.
const STARTUP: usize = 10_000;
/// Batches under way that are told apart.
const BATCHES: usize = 1 << 14;
/// Codes of packets before a session.
const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::Postgres,
    ports: &[5432],
    streams: true,
    datagrams: false,
    asking,
    probe: probe::probe,
    make: |_| Box::new(Postgres::new()),
};

/// Rows that are deleted and returned are taken, as tables that serve as queues do it.
fn asking(_verb: &str, status: &str) -> Asking {
    if status.starts_with("DELETE") { Asking::Next } else { Asking::Now }
}

struct Postgres {
    /// From the one that the server is at to the one that the client is still asking. Never empty.
    batches: VecDeque<Batch>,
    /// Encryption was asked for: the next byte of the server answers.
    asked: Option<WireProtocol>,
    /// The last message of each side that is passed.
    passing: [u8; 2],
    /// What the simple query that is being answered has come to.
    status: Label,
    /// Both sides send data (replication).
    copying_both: bool,
}

/// What lies between two ReadyForQuery.
#[derive(Clone, Copy, Default)]
struct Batch {
    /// Requests that were not answered.
    waiting: u32,
    /// It is a Query, answered as a whole by the ReadyForQuery.
    simple: bool,
}

impl Postgres {
    fn new() -> Postgres {
        Postgres {
            batches: VecDeque::from([Batch::default()]),
            asked: None,
            passing: [0; 2],
            status: Label::default(),
            copying_both: false,
        }
    }

    /// What precedes a session.
    fn startup(&mut self, bytes: &[u8], out: &mut Output<'_>) -> Step {
        let (Some(length), Some(code)) = (number(bytes, 0), number(bytes, 4)) else { return Step::Need(8) };
        let length = length as usize;
        if !(8..=STARTUP).contains(&length) {
            return Step::Malformed("a length that no startup packet has");
        }
        if bytes.len() < length {
            return Step::Need(length);
        }
        out.notice(match code {
            CANCEL => "CancelRequest",
            SSL => {
                self.asked = Some(WireProtocol::Tls);
                "SSLRequest"
            }
            GSS => {
                self.asked = Some(WireProtocol::Unknown);
                "GSSENCRequest"
            }
            _ if code >> 16 == 3 => {
                self.close(false);
                "StartupMessage"
            }
            _ => return Step::Malformed("a version of the protocol that is not known"),
        });
        Step::Taken(length)
    }

    /// The client ends a batch.
    fn close(&mut self, simple: bool) {
        if let Some(last) = self.batches.back_mut() {
            last.simple |= simple;
        }
        self.batches.push_back(Batch::default());
        if self.batches.len() > BATCHES {
            self.batches.pop_front();
        }
    }

    fn front(&mut self) -> Option<&mut Batch> {
        self.batches.front_mut()
    }

    /// A message of the client is complete.
    fn asks(&mut self, kind: u8, out: &mut Output<'_>) {
        let verb = match kind {
            b'Q' => "Query",
            b'F' => "FunctionCall",
            b'E' => "Execute",
            _ => {
                if kind == b'S' {
                    self.close(false);
                }
                if kind == b'B' {
                    out.prepares();
                }
                return out.notice(client_name(kind).unwrap_or_default());
            }
        };
        out.request(Request { verb: Label::new(verb), key: Key::Order, answered: true, tag: 0 });
        if let Some(last) = self.batches.back_mut() {
            last.waiting += 1;
        }
        if kind != b'E' {
            self.close(true);
        }
    }

    /// A message of the server is complete; of a long one, the content is empty.
    fn tells(&mut self, kind: u8, content: &[u8], out: &mut Output<'_>) {
        let waits = out.oldest().is_some();
        let copying_both = self.copying_both;
        let Some(batch) = self.front() else { return };
        let (simple, owed) = (batch.simple, batch.waiting > 0);
        match kind {
            // A part of what is answered: the answer's time and size include it.
            b'D' => {}
            b'd' | b'c' if !copying_both => {}
            b'T' | b'H' | b'V' if simple && owed => {}
            b'C' | b'I' | b's' => {
                let status = match kind {
                    b'C' => tag(content),
                    b'I' => Label::new("empty"),
                    _ => Label::new("suspended"),
                };
                if simple && owed {
                    self.status = status;
                } else if owed || !waits {
                    batch.waiting = batch.waiting.saturating_sub(1);
                    out.response(Response { key: Key::Order, status, failed: false });
                } else {
                    out.notice("CommandComplete");
                }
            }
            b'E' if owed => {
                batch.waiting -= 1;
                out.response(Response { key: Key::Order, status: sqlstate(content), failed: true });
            }
            b'Z' => self.ready(out),
            b'G' | b'W' if owed => {
                out.interim(Key::Order);
                self.copying_both = kind == b'W';
                out.notice(server_name(kind).unwrap_or_default());
            }
            _ => out.notice(server_name(kind).unwrap_or_default()),
        }
    }

    /// The server is done with a batch.
    fn ready(&mut self, out: &mut Output<'_>) {
        self.copying_both = false;
        let status = std::mem::take(&mut self.status);
        let done = if self.batches.len() > 1 { self.batches.pop_front() } else { None };
        match done {
            Some(Batch { waiting: waiting @ 1.., simple: true }) => {
                (1..waiting).for_each(|_| out.withdrawn(Key::Order));
                out.response(Response { key: Key::Order, status, failed: false });
            }
            Some(Batch { waiting, .. }) => {
                (0..waiting).for_each(|_| out.withdrawn(Key::Order));
                out.notice("ReadyForQuery");
            }
            None => out.notice("ReadyForQuery"),
        }
    }
}

impl Dissector for Postgres {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        if side == Side::Client && bytes[0] == 0 {
            return self.startup(bytes, out);
        }
        if side == Side::Server
            && let Some(protocol) = self.asked.take()
        {
            match (bytes[0], protocol) {
                (b'S', WireProtocol::Tls) | (b'G', WireProtocol::Unknown) => {
                    out.notice("EncryptionAccepted");
                    return Step::Becomes(protocol, 1);
                }
                (b'N', _) => {
                    out.notice("EncryptionRefused");
                    return Step::Taken(1);
                }
                _ => {}
            }
        }
        let mut at = 0;
        // Rows come in thousands and say nothing each.
        loop {
            let rest = &bytes[at..];
            let Some(&kind) = rest.first() else { return Step::Taken(at) };
            let named = if side == Side::Client { client_name(kind) } else { server_name(kind) };
            if named.is_none() {
                return if at > 0 { Step::Taken(at) } else { Step::Malformed("a message of no known type") };
            }
            let Some(length) = number(rest, 1) else {
                return if at > 0 { Step::Taken(at) } else { Step::Need(5) };
            };
            let whole = (length as usize).saturating_add(1);
            if length < 4 || whole > MESSAGE {
                return if at > 0 {
                    Step::Taken(at)
                } else {
                    Step::Malformed("a length that no message has")
                };
            }
            match rest.get(5..whole) {
                Some(_) if side == Side::Server && kind == b'D' => at += whole,
                _ if at > 0 => return Step::Taken(at),
                Some(content) if side == Side::Server => {
                    self.tells(kind, content, out);
                    return Step::Taken(whole);
                }
                Some(_) => {
                    self.asks(kind, out);
                    return Step::Taken(whole);
                }
                None if side == Side::Server && matches!(kind, b'C' | b'E') && whole <= KEPT => {
                    return Step::Need(whole);
                }
                None => {
                    self.passing[side.index()] = kind;
                    return Step::Pass(whole as u64);
                }
            }
        }
    }

    fn passed(&mut self, side: Side, out: &mut Output<'_>) {
        match side {
            Side::Client => self.asks(self.passing[0], out),
            Side::Server => self.tells(self.passing[1], &[], out),
        }
    }

    fn lost(&mut self, side: Side) {
        // Nothing waits in order any more; what the other side is sending goes on.
        let mut passing = self.passing;
        passing[side.index()] = 0;
        *self = Postgres { passing, ..Postgres::new() };
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        probe::begins(side, bytes) == probe::Begins::Yes
    }
}

/// The first words of a command's tag, without its numbers: `INSERT` of `INSERT 0 1`.
fn tag(content: &[u8]) -> Label {
    let end = content.iter().position(|byte| byte.is_ascii_digit() || *byte == 0).unwrap_or(content.len());
    Label::from_bytes(content[..end].trim_ascii_end())
}

/// The code among the fields of an error.
fn sqlstate(mut fields: &[u8]) -> Label {
    while let [code @ 1..=u8::MAX, rest @ ..] = fields {
        let Some(end) = memchr(0, rest) else { break };
        if *code == b'C' {
            return Label::from_bytes(&rest[..end]);
        }
        fields = &rest[end + 1..];
    }
    Label::new("error")
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|number| u32::from_be_bytes(*number))
}

fn client_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        b'B' => "Bind",
        b'C' => "Close",
        b'D' => "Describe",
        b'E' => "Execute",
        b'F' => "FunctionCall",
        b'H' => "Flush",
        b'P' => "Parse",
        b'Q' => "Query",
        b'S' => "Sync",
        b'X' => "Terminate",
        b'c' => "CopyDone",
        b'd' => "CopyData",
        b'f' => "CopyFail",
        b'p' => "PasswordMessage",
        _ => return None,
    })
}

fn server_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        b'1' => "ParseComplete",
        b'2' => "BindComplete",
        b'3' => "CloseComplete",
        b'A' => "NotificationResponse",
        b'C' => "CommandComplete",
        b'D' => "DataRow",
        b'E' => "ErrorResponse",
        b'G' => "CopyInResponse",
        b'H' => "CopyOutResponse",
        b'I' => "EmptyQueryResponse",
        b'K' => "BackendKeyData",
        b'N' => "NoticeResponse",
        b'R' => "Authentication",
        b'S' => "ParameterStatus",
        b'T' => "RowDescription",
        b'V' => "FunctionCallResponse",
        b'W' => "CopyBothResponse",
        b'Z' => "ReadyForQuery",
        b'c' => "CopyDone",
        b'd' => "CopyData",
        b'n' => "NoData",
        b's' => "PortalSuspended",
        b't' => "ParameterDescription",
        b'v' => "NegotiateVersion",
        _ => return None,
    })
}
