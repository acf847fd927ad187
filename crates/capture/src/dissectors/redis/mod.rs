//! Redis: RESP2, RESP3 and commands in a line, pipelines, publish and subscribe, transactions (the Redis serialization
//! protocol specification). Replies come in the order of the commands.

mod probe;
mod reader;
#[cfg(test)]
mod tests;

use crate::dissect::{Dissector, Entry, Output, Step};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use plimsoll_model::wire::{Label, WireProtocol};
use reader::{Progress, Reader};

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::Redis,
    ports: &[6379, 6380],
    streams: true,
    datagrams: false,
    asking,
    probe: probe::probe,
    make: |_| Box::<Redis>::default(),
};

/// Elements of lists, sets and streams are taken; values are read.
fn asking(verb: &str, _status: &str) -> Asking {
    match verb {
        "LPOP" | "RPOP" | "BLPOP" | "BRPOP" | "LMPOP" | "BLMPOP" | "RPOPLPUSH" | "BRPOPLPUSH" | "LMOVE"
        | "BLMOVE" | "SPOP" | "ZPOPMIN" | "ZPOPMAX" | "BZPOPMIN" | "BZPOPMAX" | "ZMPOP" | "BZMPOP"
        | "GETDEL" | "XREAD" | "XREADGROUP" | "XCLAIM" | "XAUTOCLAIM" => Asking::Next,
        "WAIT" | "WAITAOF" => Asking::News,
        _ => Asking::Now,
    }
}

#[derive(Default)]
struct Redis {
    client: Reader,
    server: Reader,
    replies: Replies,
    /// The client hears channels, so that messages may come between replies (RESP2).
    subscribed: bool,
    /// Channels of the oldest waiting command that were confirmed.
    confirmed: u64,
}

/// What `CLIENT REPLY` was set to.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Replies {
    #[default]
    On,
    Off,
    /// Not to the next command.
    Skip,
}

impl Dissector for Redis {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        let progress = match side {
            Side::Client => self.client.command(bytes),
            Side::Server => self.server.reply(bytes),
        };
        match progress {
            Progress::Whole(taken) if side == Side::Server => {
                self.reply(out);
                Step::Taken(taken)
            }
            Progress::Whole(taken) => self.command(taken, out),
            Progress::Part(taken) => Step::Taken(taken),
            Progress::Need(need) => Step::Need(need),
            Progress::Pass(content) => Step::Pass(content),
            Progress::Malformed(reason) => Step::Malformed(reason),
        }
    }

    fn lost(&mut self, side: Side) {
        match side {
            Side::Client => self.client.reset(),
            Side::Server => self.server.reset(),
        }
        self.confirmed = 0;
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        probe::resumes(side, bytes)
    }
}

impl Redis {
    /// A command has been read.
    fn command(&mut self, taken: usize, out: &mut Output<'_>) -> Step {
        let size = self.client.size.unwrap_or(0);
        if size == 0 {
            // The server says nothing to an empty line.
            out.nothing();
            return Step::Taken(taken);
        }
        let [verb, second, third] = self.client.words;
        let verb = verb.uppercase();
        let mut request = Request { verb, key: Key::Order, answered: self.replies == Replies::On, tag: 0 };
        match verb.as_str() {
            "CLIENT" if second.uppercase().as_str() == "REPLY" => {
                (self.replies, request.answered) = match third.uppercase().as_str() {
                    "ON" => (Replies::On, true),
                    "OFF" => (Replies::Off, false),
                    "SKIP" if self.replies == Replies::Off => (Replies::Off, false),
                    "SKIP" => (Replies::Skip, false),
                    _ => (self.replies, request.answered),
                };
                out.request(request);
                return Step::Taken(taken);
            }
            "RESET" => {
                (self.replies, self.subscribed) = (Replies::On, false);
                out.request(Request { answered: true, ..request });
                return Step::Taken(taken);
            }
            // Copies of the data follow, and then commands of the server.
            "PSYNC" | "SYNC" => {
                out.request(Request { answered: false, ..request });
                return Step::Becomes(WireProtocol::Unknown, taken);
            }
            _ if is_confirmation(&verb) => request.tag = size - 1,
            _ => {}
        }
        if self.replies == Replies::Skip {
            self.replies = Replies::On;
        }
        out.request(request);
        Step::Taken(taken)
    }

    /// A value of the server has been read.
    fn reply(&mut self, out: &mut Output<'_>) {
        let Reader { kind, size, words: [word, _, third], .. } = self.server;
        let asked = out.oldest();
        if matches!(kind, b'*' | b'>') && size == Some(3) && is_confirmation(&word.uppercase()) {
            let subscribed_before =
                std::mem::replace(&mut self.subscribed, kind == b'*' && third.as_str() != "0");
            if let Some(asked) = asked.filter(|asked| asked.verb == word.uppercase()) {
                self.confirmed += 1;
                // One confirmation for each channel: the last is the reply. Without channels, their number is not known.
                if self.confirmed < asked.tag {
                    return out.notice(word);
                }
                self.confirmed = 0;
                return out.response(Response { key: Key::Order, status: word, failed: false });
            }
            if kind == b'>' || subscribed_before || asked.is_none() {
                return out.notice(word);
            }
        }
        let between = self.subscribed || asked.is_none();
        let pushed = match kind {
            b'>' => true,
            b'*' => {
                between
                    && matches!(
                        (word.as_str(), size),
                        ("message" | "smessage", Some(3)) | ("pmessage", Some(4))
                    )
            }
            _ => false,
        };
        if pushed {
            return out.notice(word);
        }
        if kind == b'+' && asked.is_none() && word.as_str().starts_with(|first: char| first.is_ascii_digit())
        {
            // What a client of MONITOR is shown begins with the time.
            return out.notice("MONITOR");
        }
        let failed = matches!(kind, b'-' | b'!');
        let status = match (kind, size) {
            (b'+' | b'-' | b'!', _) => first_word(&word),
            (b'$' | b'*', None) | (b'_', _) => Label::new("nil"),
            (b'$' | b'=', _) => Label::new("string"),
            (b':' | b'(', _) => Label::new("integer"),
            (b'%', _) => Label::new("map"),
            (b'~', _) => Label::new("set"),
            (b',', _) => Label::new("double"),
            (b'#', _) => Label::new("boolean"),
            _ => Label::new("array"),
        };
        out.response(Response { key: Key::Order, status, failed });
    }
}

/// Whether that command is answered by one confirmation for each channel.
fn is_confirmation(verb: &Label) -> bool {
    matches!(
        verb.as_str(),
        "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" | "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE"
    )
}

fn first_word(text: &Label) -> Label {
    Label::new(text.as_str().split(' ').next().unwrap_or_default())
}
