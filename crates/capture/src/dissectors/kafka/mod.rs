//! Kafka (Apache Kafka, "Protocol Guide"). Requests carry a number, and responses that of their request; what a response holds is
//! known from its request alone.

mod fields;
mod layout;
mod names;
mod records;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::dissect::{Dissector, Entry, Output, Probe, Step};
use crate::request::{Asking, Key, Request, Response};
use crate::side::Side;
use fields::Fields;
use layout::{Layout, Part};
use names::{is_known, verb};
use plimsoll_model::wire::{Label, WireProtocol};
use records::{Next, Reporter, Whose};

/// The longest message, bytes.
const MESSAGE: u32 = 1 << 30;
/// The same of requests by which the protocol is recognised: what servers take.
const LIKELY: u32 = 100 << 20;
/// The longest name of a client, bytes.
const NAME: i16 = 249;
/// Bytes within which the beginning of a part is found; a longer one is not looked into.
const PART: usize = 1 << 16;
/// The fewest bytes of a topic.
const TOPIC: u64 = 4;
/// In the tag of a request that waits, beside key and version: a broker fetches that follows another one.
const FOLLOWS: u64 = 1 << 32;
/// What a consumer gets, whatever the keys.
const EVERYTHING: &str = "#";
/// How far the number of a response may lie behind that of the last request.
const BEHIND: u32 = 1 << 10;

pub(super) static ENTRY: Entry = Entry {
    protocol: WireProtocol::Kafka,
    ports: &[9092, 9093],
    streams: true,
    datagrams: false,
    asking,
    probe,
    make: |_| Box::<Kafka>::default(),
};

/// Consumers fetch what comes next, and wait for each other when their group changes.
fn asking(verb: &str, _status: &str) -> Asking {
    match verb.split(' ').next().unwrap_or_default() {
        "Fetch" | "ShareFetch" => Asking::Next,
        "JoinGroup" | "SyncGroup" => Asking::News,
        _ => Asking::Now,
    }
}

#[derive(Default)]
struct Kafka {
    /// What each side is saying.
    saying: [Option<Message>; 2],
    /// The number of the last request.
    last: Option<u32>,
}

/// A message that is being read.
struct Message {
    key: u16,
    version: u16,
    correlation: u32,
    layout: Layout,
    place: Place,
    /// Bytes still to come, and how many of them need not be looked at before the next place.
    left: u64,
    skip: u64,
    topics: u64,
    partitions: u64,
    records: u64,
    answered: bool,
    /// A broker fetches that follows another one.
    follows: bool,
    /// Which copies acknowledge what is produced.
    acknowledged: u8,
    reporter: Reporter,
    /// The first error, 0 without one; `None` where none was found out.
    error: Option<i16>,
}

/// What comes next in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Beginning,
    Topic,
    Partition,
    Records,
    PartitionEnd,
    TopicEnd,
    /// Nothing that is looked at.
    Rest,
}

impl Dissector for Kafka {
    fn parse(&mut self, side: Side, bytes: &[u8], out: &mut Output<'_>) -> Step {
        let (mut message, mut at) = match self.saying[side.index()].take() {
            Some(message) => (message, 0),
            None => match begin(side, bytes, out) {
                Ok(begun) => begun,
                Err(step) => return step,
            },
        };
        let step = loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let here = rest.len().min(usize::try_from(message.left).unwrap_or(usize::MAX));
            let rest = &rest[..here];
            if message.skip > here as u64 {
                if at > 0 {
                    break Step::Taken(at);
                }
                let skip = std::mem::take(&mut message.skip);
                message.left -= skip;
                break Step::Pass(skip);
            }
            if message.skip > 0 {
                at += message.skip as usize;
                message.left -= std::mem::take(&mut message.skip);
                continue;
            }
            if message.left == 0 {
                self.say(side, &message, out);
                return Step::Taken(at);
            }
            // What is opened is a step of its own: markers are looked for in it and not in its packed form.
            if at > 0 && message.place == Place::Records {
                break Step::Taken(at);
            }
            match message.next(rest, out) {
                Next::Skip(length) => message.skip = length.min(message.left),
                Next::Need(_) if at > 0 => break Step::Taken(at),
                Next::Need(need) => break Step::Need(need),
            }
        };
        self.saying[side.index()] = Some(message);
        step
    }

    fn passed(&mut self, side: Side, out: &mut Output<'_>) {
        if let Some(message) = self.saying[side.index()].take_if(|message| message.left == 0) {
            self.say(side, &message, out);
        }
    }

    fn lost(&mut self, side: Side) {
        self.saying[side.index()] = None;
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        match (side, number(bytes, 0), number(bytes, 4), self.last) {
            (Side::Client, ..) => matches!(probe(bytes, Some(side), false), Probe::Yes(_)),
            (Side::Server, Some(4..=LIKELY), Some(correlation), Some(last)) => {
                last.wrapping_sub(correlation) < BEHIND
            }
            _ => false,
        }
    }
}

impl Kafka {
    /// A message is complete.
    fn say(&mut self, side: Side, message: &Message, out: &mut Output<'_>) {
        let key = Key::Id(u64::from(message.correlation));
        if side == Side::Client {
            self.last = Some(message.correlation);
            if message.layout == Layout::FetchRequest && !message.follows {
                out.act(Action::Subscribe { filter: EVERYTHING.to_owned(), qos: 1 });
            }
            let follows = if message.follows { FOLLOWS } else { 0 };
            return out.request(Request {
                verb: verb(message.key, message.version),
                key,
                answered: message.answered,
                tag: u64::from(message.key) << 16 | u64::from(message.version) | follows,
            });
        }
        let status = match message.error {
            Some(error @ 0..) => Label::number(error as u16),
            Some(_) => Label::new("-1"),
            None => Label::default(),
        };
        out.response(Response { key, status, failed: message.error.is_some_and(|error| error != 0) });
    }
}

/// Reads what all messages begin with. Also, how many bytes that is.
fn begin(side: Side, bytes: &[u8], out: &Output<'_>) -> Result<(Message, usize), Step> {
    let length = if side == Side::Client { 12 } else { 8 };
    let Some(size) = number(bytes, 0) else { return Err(Step::Need(4)) };
    if !(length as u32 - 4..=MESSAGE).contains(&size) {
        return Err(Step::Malformed("a size that no message has"));
    }
    let Some(second) = number(bytes, 4) else { return Err(Step::Need(length)) };
    let mut message = Message {
        key: (second >> 16) as u16,
        version: second as u16,
        correlation: second,
        layout: Layout::Other,
        place: Place::Beginning,
        left: u64::from(size),
        skip: 0,
        topics: 0,
        partitions: 0,
        records: 0,
        answered: true,
        follows: false,
        acknowledged: 0,
        reporter: Reporter::default(),
        error: None,
    };
    if side == Side::Client {
        let Some(correlation) = number(bytes, 8) else { return Err(Step::Need(length)) };
        if !is_known(message.key, message.version) {
            return Err(Step::Malformed("a request that is not known"));
        }
        message.correlation = correlation;
        message.layout = Layout::request(message.key);
        message.left -= 4;
        return Ok((message, 8));
    }
    if let Some(asked) = out.waiting(u64::from(second)) {
        (message.key, message.version) = ((asked.tag >> 16) as u16, asked.tag as u16);
        message.layout = Layout::response(message.key, message.version);
        if out.learns() && message.layout == Layout::FetchResponse && asked.tag & FOLLOWS == 0 {
            message.reporter.whose = Whose::Received;
        }
    }
    Ok((message, 4))
}

impl Message {
    /// Reads what comes next, `bytes` being as much of the message as is there.
    fn next(&mut self, bytes: &[u8], out: &mut Output<'_>) -> Next {
        let (layout, version) = (self.layout, self.version);
        let mut fields = Fields::new(bytes, layout.is_flexible(version));
        let part = match self.place {
            Place::Beginning => layout.beginning(version, &mut fields),
            Place::Topic => layout.topic(version, &mut fields),
            Place::Partition => layout.partition(version, &mut fields),
            Place::PartitionEnd | Place::TopicEnd => fields.tags().map(|()| Part::default()),
            Place::Records => {
                let next = records::batch(bytes, self.records, &mut self.reporter, out);
                if let Next::Skip(length) = next {
                    self.records -= length;
                }
                if self.records == 0 {
                    self.place = Place::PartitionEnd;
                }
                return next;
            }
            Place::Rest => return Next::Skip(self.left),
        };
        let Some(part) = part else {
            if bytes.len() as u64 == self.left || bytes.len() > PART {
                // It is built in another way: its size is known all the same.
                self.place = Place::Rest;
                return Next::Skip(0);
            }
            return Next::Need(bytes.len() + 1);
        };
        let length = fields.at() as u64;
        if self.place == Place::Topic && layout == Layout::ProduceRequest && out.learns() {
            let mut fields = Fields::new(bytes, layout.is_flexible(version));
            let topic = layout.topic_name(version, &mut fields).unwrap_or_default();
            self.reporter.whose = Whose::Sent(topic, self.acknowledged);
        }
        self.took(part, length);
        Next::Skip(length)
    }

    /// Goes on behind a part of that length.
    fn took(&mut self, part: Part, length: u64) {
        if self.layout != Layout::Other {
            let first = self.error.unwrap_or(0);
            self.error = Some(if first == 0 { part.error } else { first });
        }
        match self.place {
            Place::Beginning => {
                self.answered = part.acknowledgements != Some(0);
                self.acknowledged = match part.acknowledgements {
                    Some(0) => 0,
                    Some(1) => 1,
                    _ => 2,
                };
                self.follows = part.follows;
                self.topics = part.count;
                self.place =
                    if self.layout.has_topics() && self.topics > 0 { Place::Topic } else { Place::Rest };
            }
            Place::Topic => {
                self.partitions = part.count;
                self.place = if self.partitions > 0 { Place::Partition } else { Place::TopicEnd };
            }
            Place::Partition => {
                self.records = part.records.min(self.left.saturating_sub(length));
                self.place = if self.records > 0 { Place::Records } else { Place::PartitionEnd };
            }
            Place::PartitionEnd => {
                self.partitions -= 1;
                self.place = if self.partitions > 0 { Place::Partition } else { Place::TopicEnd };
            }
            Place::TopicEnd => {
                self.topics -= 1;
                self.place = if self.topics > 0 { Place::Topic } else { Place::Rest };
            }
            Place::Records | Place::Rest => {}
        }
    }
}

/// Judges the first request of a side: a response says nothing of itself.
fn probe(bytes: &[u8], speaker: Option<Side>, _whole: bool) -> Probe {
    if speaker == Some(Side::Server) {
        return Probe::No;
    }
    let Some(size) = number(bytes, 0) else {
        return if bytes.first().is_none_or(|&high| high < 7) { Probe::More } else { Probe::No };
    };
    if !(10..=LIKELY).contains(&size) {
        return Probe::No;
    }
    let Some(asked) = number(bytes, 4) else { return Probe::More };
    let (key, version) = ((asked >> 16) as u16, asked as u16);
    if !is_known(key, version) {
        return Probe::No;
    }
    let Some(name) = bytes.get(12..14).and_then(|length| length.first_chunk()) else { return Probe::More };
    let name = i16::from_be_bytes(*name);
    // Who names itself does so in printable characters.
    let length = name.max(0) as usize;
    if !(-1..=NAME).contains(&name) || length + 10 > size as usize {
        return Probe::No;
    }
    let text = &bytes[14..bytes.len().min(14 + length)];
    if !text.iter().all(u8::is_ascii_graphic) {
        return Probe::No;
    }
    if text.len() < length {
        return Probe::More;
    }
    if key == 0 {
        // So begin responses, too, since their small number stands where the key does.
        let layout = Layout::request(key);
        let content = &bytes[8..bytes.len().min(size as usize + 4)];
        let mut fields = Fields::new(content, layout.is_flexible(version));
        match layout.beginning(version, &mut fields) {
            Some(part) if part.count > 0 && part.count <= u64::from(size) / TOPIC => {}
            None if bytes.len() < size as usize + 4 && bytes.len() < PART => return Probe::More,
            _ => return Probe::No,
        }
    }
    // Without a name, there is nothing to tell it from chance, nor from a response, but who speaks and its size.
    let named = length > 0;
    let likely = speaker == Some(Side::Client) && bytes.len() as u64 == u64::from(size) + 4;
    if named || likely { Probe::Yes(Some(Side::Client)) } else { Probe::No }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|number| u32::from_be_bytes(*number))
}
