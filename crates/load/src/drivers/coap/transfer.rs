//! A message as requests and their answers, in blocks where it must be, whatever carries them: which request is next, and
//! what an answer means.

use crate::driver::Event;
use crate::drivers::words;
use plimsoll_codec::coap::{Block, Kind, Message, OptionList, code, option};
use plimsoll_model::Nanos;

/// Blocks where nobody says otherwise, in bytes.
const BLOCK_SIZE: u16 = 1_024;
/// What a block can have (RFC 7959 section 2.2), the largest first.
const BLOCK_SIZES: [u16; 7] = [BLOCK_SIZE, 512, 256, 128, 64, 32, LEAST_BLOCK];
const LEAST_BLOCK: u16 = 16;
/// What the header, over a stream with its length, the longest token and the payload marker take at most, in bytes.
const OVERHEAD: usize = 6 + 8 + 1;
/// What the option of a block takes at most, in bytes.
const BLOCK_OPTION: usize = 5;
/// How often a platform that lost blocks is given all of them anew.
const MOST_RESTARTS: u8 = 2;
/// Blocks of an answer after which nobody waits for its end: of the largest ones, 16 MiB.
const MOST_BLOCKS: u32 = 1 << 14;

/// One message of a device, and how often it was sent before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    pub device: u32,
    pub sequence: u32,
    /// How often it was sent before after an answer that asks for it, that answer's status and when it came.
    pub tries: u32,
    pub after: u16,
    pub since: Nanos,
}

/// Which part of the request or of its answer is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// All of the body in one request.
    #[default]
    Whole,
    /// A part of the body, which begins with that block.
    Body(Block),
    /// A further block of the answer.
    Answer(Block),
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The platform took the message.
    Done,
    /// It did not, with its status and words.
    Refused(u16, String),
    /// The next request of the same message is to be sent.
    Next,
}

/// What one request may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of a request with all that it has; `None` where nothing bounds it.
    pub largest: Option<usize>,
    /// Bytes of a block, where the scenario says so.
    pub block_size: Option<u16>,
    /// Whether one request may carry many blocks: over a stream, to a peer that said so.
    pub takes_many: bool,
    /// Whether it goes over a stream, where an answer may have many blocks.
    pub over_stream: bool,
}

/// See the module. Its memory is used again.
#[derive(Debug, Default)]
pub struct Transfer {
    pub order: Order,
    pub options: OptionList,
    pub body: Vec<u8>,
    /// The generation of the access token in it.
    pub generation: u64,
    /// Whether its sending was told.
    pub told: bool,
    code: u8,
    /// The options as they are written.
    encoded: Vec<u8>,
    part: Part,
    /// Bytes of the body that a request carries which has a part of it.
    chunk: usize,
    /// Whether an answer may have many blocks.
    over_stream: bool,
    restarts: u8,
}

impl Transfer {
    /// Begins with the options and body that stand in it.
    pub fn begin(&mut self, order: Order, code: u8, room: Room) {
        (self.order, self.code, self.restarts, self.told) = (order, code, 0, false);
        self.over_stream = room.over_stream;
        self.encoded.clear();
        self.options.encode(&mut self.encoded);
        let whole = self.encoded.len() + OVERHEAD;
        let fits = room.largest.is_none_or(|largest| whole + self.body.len() <= largest);
        let beside = whole + BLOCK_OPTION;
        let left = room.largest.map_or(usize::MAX, |largest| largest.saturating_sub(beside));
        let fitting = BLOCK_SIZES.into_iter().find(|size| usize::from(*size) <= left).unwrap_or(LEAST_BLOCK);
        self.part = match room.block_size {
            Some(size) if self.body.len() > usize::from(size) => self.in_blocks_of(size.min(fitting)),
            _ if fits => Part::Whole,
            _ => {
                let many = room.largest.unwrap_or_default().saturating_sub(beside) / usize::from(BLOCK_SIZE);
                match room.takes_many && many > 1 {
                    true => {
                        self.chunk = many * usize::from(BLOCK_SIZE);
                        self.body_part(Block::many(0, false))
                    }
                    false => self.in_blocks_of(fitting),
                }
            }
        };
    }

    /// That the message was sent, in a first request of so many bytes; `None` where that was told before.
    pub fn tell_sent(&mut self, first_request: u32, at: Nanos) -> Option<Event> {
        if std::mem::replace(&mut self.told, true) {
            return None;
        }
        let Order { device, sequence, tries, after, since } = self.order;
        let (content, packet) = (self.body.len() as u32, self.packet(first_request));
        Some(match tries {
            0 => Event::Sent { device, sequence, at, content, packet },
            _ => Event::Repeated { status: after, after: (at - since).max(Nanos::ZERO) },
        })
    }

    /// Whether its next step waits for the platform although all of it could be sent.
    pub fn is_in_blocks(&self) -> bool {
        self.part != Part::Whole
    }

    /// The first block of the body, where each request carries one.
    fn in_blocks_of(&mut self, size: u16) -> Part {
        let first = Block::new(0, false, size);
        self.chunk = usize::from(first.size());
        self.body_part(first)
    }

    /// The part of the body that begins with a block, with what is true of its end.
    fn body_part(&self, block: Block) -> Part {
        let more = block.begin() + self.chunk < self.body.len();
        Part::Body(block.at(block.number, more))
    }

    /// The request that is next.
    pub fn request<'a>(&'a mut self, kind: Kind, id: u16, token: &'a [u8]) -> Message<'a> {
        // Of a message that goes whole, they were encoded when it began.
        if let Some(with_block) = self.options_of_part() {
            self.encoded.clear();
            with_block.encode(&mut self.encoded);
        }
        let payload = match self.part {
            Part::Whole => &self.body,
            Part::Body(block) => {
                let end = (block.begin() + self.chunk).min(self.body.len());
                self.body.get(block.begin()..end).unwrap_or_default()
            }
            Part::Answer(_) => &[][..],
        };
        Message { kind, code: self.code, id, token, options: &self.encoded, payload }
    }

    /// The options with those of the block; `None` without blocks.
    fn options_of_part(&self) -> Option<OptionList> {
        let (number, block) = match self.part {
            Part::Whole => return None,
            Part::Body(block) => (option::BLOCK1, block),
            Part::Answer(block) => (option::BLOCK2, block),
        };
        let mut options = self.options.clone();
        options.add_number(number, block.to_number());
        Some(options)
    }

    /// Bytes of all requests of the message, as they are planned, of which the first one has so many.
    pub fn packet(&self, first_request: u32) -> u32 {
        let Part::Body(first) = self.part else { return first_request };
        let (chunk, length) = (self.chunk as u32, self.body.len() as u32);
        let blocks = chunk / u32::from(first.size());
        // Requests differ in their payload and in the length of the block's number.
        let plain = first_request - chunk.min(length) - number_length(first.to_number());
        let rest = (1..length.div_ceil(chunk)).map(|part| {
            let begin = part * chunk;
            let block = first.at(part * blocks, begin + chunk < length);
            plain + number_length(block.to_number()) + chunk.min(length - begin)
        });
        first_request + rest.sum::<u32>()
    }

    /// What an answer means.
    pub fn answer(&mut self, answer: &Message<'_>, is_success: impl Fn(u16) -> bool) -> Step {
        let status = code::status(answer.code);
        match (self.part, answer.code) {
            (Part::Body(block), code::CONTINUE) => return self.go_on(block, answer),
            (Part::Body(block), code::INCOMPLETE) if self.restarts < MOST_RESTARTS => {
                self.restarts += 1;
                self.part = self.body_part(block.at(0, false));
                return Step::Next;
            }
            (Part::Whole | Part::Body(_), code::TOO_LARGE) => {
                let now = match self.part {
                    Part::Body(_) => self.chunk,
                    _ => self.body.len(),
                };
                let wished = answer.block(option::BLOCK1).map(Block::size);
                if let Some(size) = wished.filter(|size| usize::from(*size) < now) {
                    self.part = self.in_blocks_of(size);
                    return Step::Next;
                }
            }
            (_, code::CONTINUE) => {
                return Step::Refused(status, "the platform asks for more of a message that it has".into());
            }
            _ => {}
        }
        if !is_success(status) {
            return Step::Refused(status, said(answer));
        }
        if let Part::Body(block) = self.part
            && block.more
        {
            // A platform may act on each block by itself (RFC 7959 section 2.3). Otherwise it has a part of the message alone.
            let told = self.block_of(answer, option::BLOCK1);
            if told.is_some_and(|told| told.number == block.number) {
                return self.go_on(block, answer);
            }
            let reason = format!(
                "the platform answered {} to the first {} of {} bytes, which come in blocks (RFC 7959)",
                code::dotted(answer.code),
                block.begin() + self.chunk,
                self.body.len()
            );
            return Step::Refused(status, reason);
        }
        let expected = match self.part {
            Part::Answer(block) => block.number,
            _ => 0,
        };
        match self.block_of(answer, option::BLOCK2) {
            Some(block) if block.number != expected => {
                let reason = "the platform sent another block of its answer than the one that was asked for";
                Step::Refused(status, reason.into())
            }
            Some(block) if block.more && block.number >= MOST_BLOCKS => {
                let reason = format!("the answer of the platform goes on after {MOST_BLOCKS} blocks");
                Step::Refused(status, reason)
            }
            Some(block) if block.more => match block.following(answer.payload.len()) {
                Some(next) => {
                    self.part = Part::Answer(next);
                    Step::Next
                }
                None => {
                    let reason =
                        "the platform gave less than a block of its answer, and says that more follows";
                    Step::Refused(status, reason.into())
                }
            },
            _ => Step::Done,
        }
    }

    /// The block of an answer. Over datagrams, none says of itself that it is many.
    fn block_of(&self, answer: &Message<'_>, number: u16) -> Option<Block> {
        if self.over_stream { answer.block_of_stream(number) } else { answer.block(number) }
    }

    fn go_on(&mut self, block: Block, answer: &Message<'_>) -> Step {
        let status = code::status(answer.code);
        let told = self.block_of(answer, option::BLOCK1);
        if !block.more {
            return Step::Refused(
                status,
                "the platform asks for more after the last block of a message".into(),
            );
        }
        if told.is_some_and(|told| told.number != block.number) {
            let reason = "the platform acknowledges another block of a message than the one that it got";
            return Step::Refused(status, reason.into());
        }
        let end = block.begin() + self.chunk;
        // It may ask for smaller blocks from now on (RFC 7959 section 2.5).
        let next = match told.filter(|told| !told.is_many()) {
            Some(told) if block.is_many() || told.size() < block.size() => {
                self.chunk = usize::from(told.size());
                told
            }
            _ => block,
        };
        let number = (end / usize::from(next.size())) as u32;
        self.part = self.body_part(next.at(number, false));
        Step::Next
    }
}

/// Bytes of a whole number as an option's value.
fn number_length(number: u32) -> u32 {
    4 - number.leading_zeros() / 8
}

/// What the platform said, for people.
fn said(answer: &Message<'_>) -> String {
    format!("the platform answered {}{}", code::dotted(answer.code), words::own(answer.payload))
}
