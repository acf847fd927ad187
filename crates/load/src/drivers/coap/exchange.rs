//! A message under way, without I/O: its request, in blocks where it must be, what an answer means for it, when it is
//! sent again.

use crate::drivers::words;
use plimsoll_codec::coap::{Block, Kind, LARGEST_DATAGRAM, Message, OptionList, code, option};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::CoapPlan;

/// Largest content of a record of DTLS (RFC 6347 section 4.1), in bytes.
const LARGEST_RECORD: usize = 1 << 14;
/// Blocks where the scenario does not say, in bytes.
const BLOCK_SIZE: u16 = 1_024;
/// What the header, the longest token, the options of blocks and the payload marker take, in bytes.
const OVERHEAD: usize = 32;
/// How often a platform that lost blocks is given all of them anew.
const MOST_RESTARTS: u8 = 2;

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
    /// A block of the body.
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

/// See the module. Its memory is used again.
#[derive(Debug, Default)]
pub struct Exchange {
    pub order: Order,
    pub options: OptionList,
    pub body: Vec<u8>,
    /// What was written last.
    pub datagram: Vec<u8>,
    /// Message id of that.
    pub id: u16,
    /// The generation of the access token in it.
    pub generation: u64,
    code: u8,
    /// The options as they are written.
    encoded: Vec<u8>,
    part: Part,
    restarts: u8,
    /// When the datagram was first handed to the kernel.
    pub sent_at: Nanos,
    /// When it was handed to the kernel last.
    pub last_at: Nanos,
    /// How often the datagram was handed to the kernel.
    pub sendings: u32,
    /// Whether it was acknowledged and the answer is to come by itself.
    pub acknowledged: bool,
    /// Whether its sending was told.
    pub told: bool,
    /// The wait until it is sent again; doubles.
    timeout: Nanos,
    /// When it is looked at again.
    pub next_at: Nanos,
    give_up_at: Nanos,
}

impl Exchange {
    /// Begins with the options and body that stand in it.
    pub fn begin(&mut self, order: Order, code: u8, now: Nanos, plan: &CoapPlan) {
        self.order = order;
        self.code = code;
        self.restarts = 0;
        self.told = false;
        self.give_up_at = now + plan.timeout;
        let options: usize = self.options.iter().map(|(_, value)| value.len() + 5).sum();
        let largest = if plan.dtls.is_some() { LARGEST_RECORD } else { LARGEST_DATAGRAM };
        let fits = options + self.body.len() + OVERHEAD <= largest;
        self.part = match plan.block_size {
            Some(size) if self.body.len() > usize::from(size) => self.body_block(0, size),
            _ if !fits => self.body_block(0, BLOCK_SIZE),
            _ => Part::Whole,
        };
    }

    /// Whether its next step waits for the platform although all of it could be sent.
    pub fn is_in_blocks(&self) -> bool {
        self.part != Part::Whole
    }

    fn body_block(&self, number: u32, size: u16) -> Part {
        let block = Block::new(number, false, size);
        let more = block.begin() + usize::from(block.size()) < self.body.len();
        Part::Body(Block::new(number, more, size))
    }

    /// Writes the request that is next, to be repeated for the first time after so long.
    pub fn write(&mut self, id: u16, token: &[u8], confirmable: bool, timeout: Nanos) {
        let kind = if confirmable { Kind::Confirmable } else { Kind::NonConfirmable };
        (self.id, self.sendings, self.acknowledged, self.timeout) = (id, 0, !confirmable, timeout);
        self.encoded.clear();
        match self.options_of_part() {
            Some(with_block) => with_block.encode(&mut self.encoded),
            None => self.options.encode(&mut self.encoded),
        }
        let payload = match self.part {
            Part::Whole => &self.body,
            Part::Body(block) => {
                let end = (block.begin() + usize::from(block.size())).min(self.body.len());
                self.body.get(block.begin()..end).unwrap_or_default()
            }
            Part::Answer(_) => &[][..],
        };
        self.datagram.clear();
        Message { kind, code: self.code, id, token, options: &self.encoded, payload }
            .encode(&mut self.datagram);
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

    /// Bytes of all requests of the message, as they are planned.
    pub fn packet(&self) -> u32 {
        let Part::Body(first) = self.part else { return self.datagram.len() as u32 };
        let size = u32::from(first.size());
        let (length, mut total) = (self.body.len() as u32, self.datagram.len() as u32);
        // Blocks differ in their payload and in the length of their number.
        let plain = self.datagram.len() as u32 - size.min(length) - number_length(first.to_number());
        for number in 1..length.div_ceil(size) {
            let begin = number * size;
            let block = Block::new(number, begin + size < length, first.size());
            total += plain + number_length(block.to_number()) + size.min(length - begin);
        }
        total
    }

    /// Notes that the datagram was handed to the kernel, and when it is looked at again; how long after the last time.
    pub fn was_sent(&mut self, at: Nanos) -> Nanos {
        let after = at - std::mem::replace(&mut self.last_at, at);
        if self.sendings == 0 {
            self.sent_at = at;
        } else {
            self.timeout = self.timeout * 2;
        }
        self.sendings += 1;
        self.next_at = match self.acknowledged {
            true => self.give_up_at,
            false => (at + self.timeout).min(self.give_up_at),
        };
        after
    }

    /// Whether nobody waits for its answer any more.
    pub fn is_over(&self, now: Nanos, plan: &CoapPlan) -> bool {
        now >= self.give_up_at || (!self.acknowledged && self.sendings > plan.max_retransmit)
    }

    /// The platform has the request, and its answer comes by itself. Returns the round trip where it is known: not of
    /// what was sent more than once, for nobody knows which one was answered (Karn).
    pub fn acknowledge(&mut self, at: Nanos) -> Option<Nanos> {
        let first = !std::mem::replace(&mut self.acknowledged, true);
        self.next_at = self.give_up_at;
        (first && self.sendings == 1).then(|| (at - self.sent_at).max(Nanos::ZERO))
    }

    /// What an answer means.
    pub fn answer(&mut self, answer: &Message<'_>, is_success: impl Fn(u16) -> bool) -> Step {
        let status = code::status(answer.code);
        match (self.part, answer.code) {
            (Part::Body(block), code::CONTINUE) => return self.go_on(block, answer),
            (Part::Body(block), code::INCOMPLETE) if self.restarts < MOST_RESTARTS => {
                self.restarts += 1;
                self.part = self.body_block(0, block.size());
                return Step::Next;
            }
            (Part::Whole | Part::Body(_), code::TOO_LARGE) => {
                let now = match self.part {
                    Part::Body(block) => usize::from(block.size()),
                    _ => self.body.len(),
                };
                let wished = answer.block(option::BLOCK1).map(Block::size);
                if let Some(size) = wished.filter(|size| usize::from(*size) < now) {
                    self.part = self.body_block(0, size);
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
        let expected = match self.part {
            Part::Answer(block) => block.number,
            _ => 0,
        };
        match answer.block(option::BLOCK2) {
            Some(block) if block.number != expected => {
                let reason = format!("the platform gave block {} of its answer for {expected}", block.number);
                Step::Refused(status, reason)
            }
            Some(block) if block.more => {
                self.part = Part::Answer(Block::new(block.number + 1, false, block.size()));
                Step::Next
            }
            _ => Step::Done,
        }
    }

    fn go_on(&mut self, block: Block, answer: &Message<'_>) -> Step {
        let status = code::status(answer.code);
        let told = answer.block(option::BLOCK1);
        if !block.more || told.is_some_and(|told| told.number != block.number) {
            let reason = format!("the platform goes on after a block that is not number {}", block.number);
            return Step::Refused(status, reason);
        }
        // It may ask for smaller blocks from now on (RFC 7959 section 2.5).
        let size = told.map_or(block.size(), |told| told.size().min(block.size()));
        let end = block.begin() + usize::from(block.size());
        self.part = self.body_block((end / usize::from(size)) as u32, size);
        Step::Next
    }
}

/// Bytes of a whole number as an option's value.
fn number_length(number: u32) -> u32 {
    4 - number.leading_zeros() / 8
}

/// What the platform said, for people.
fn said(answer: &Message<'_>) -> String {
    let (class, detail) = (answer.code >> 5, answer.code & 0x1f);
    format!("the platform answered {class}.{detail:02}{}", words::own(answer.payload))
}
