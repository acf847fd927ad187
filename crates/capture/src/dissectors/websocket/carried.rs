//! MQTT in the frames of WebSocket: the bytes of one side without frames and masks, read by the dissector of MQTT. A packet
//! may lie in several frames, and a frame may hold several packets.

use super::frame;
use crate::dissect::{Dissector, KEPT, Output, Step};
use crate::side::Side;

/// The bytes of one side.
#[derive(Default)]
pub(super) struct Carried {
    /// Without mask: what is held from before, and behind it what lies before us.
    plain: Vec<u8>,
    /// Where that begins.
    begin: usize,
    /// How many of them have been taken off the wire and wait for the rest of their packet.
    held: usize,
    /// Content that is still to be passed.
    pass: Option<u64>,
}

impl Carried {
    /// Reads a packet, or a part of one, from the content of a frame; so many bytes of it, or why not.
    pub fn read(
        &mut self,
        reader: &mut dyn Dissector,
        side: Side,
        (content, mask, used): (&[u8], Option<[u8; 4]>, usize),
        out: &mut Output<'_>,
    ) -> Result<usize, &'static str> {
        let known = (self.plain.len() - self.begin - self.held).min(content.len());
        frame::unmask(&content[known..], mask, used + known, &mut self.plain);
        // What is masked is searched here, the rest on the wire.
        let open = |bytes: &[u8], out: &mut Output<'_>| {
            if mask.is_some() {
                out.opened(bytes);
            }
        };
        loop {
            let plain = &self.plain[self.begin..];
            let taken = match self.pass {
                Some(left) if left <= plain.len() as u64 => {
                    let left = left as usize;
                    open(&plain[..left], out);
                    self.pass = None;
                    reader.passed(side, out);
                    left
                }
                Some(left) if plain.len() >= KEPT => {
                    open(plain, out);
                    self.pass = Some(left - plain.len() as u64);
                    plain.len()
                }
                Some(_) => return Ok(self.hold()),
                None if plain.is_empty() => return Ok(self.hold()),
                None => match reader.parse(side, plain, out) {
                    Step::Taken(taken) => {
                        let taken = taken.clamp(1, plain.len());
                        open(&plain[..taken], out);
                        taken
                    }
                    Step::Need(need) if need <= KEPT => return Ok(self.hold()),
                    Step::Pass(content) => {
                        self.pass = Some(content);
                        continue;
                    }
                    Step::Malformed(reason) => return Err(reason),
                    Step::Need(_) | Step::Becomes(..) => return Err("a message that is too long to be kept"),
                },
            };
            self.begin += taken;
            if self.begin == self.plain.len() {
                self.plain.clear();
                self.begin = 0;
            }
            if taken > self.held {
                return Ok(taken - std::mem::take(&mut self.held));
            }
            self.held -= taken;
        }
    }

    /// Takes all that lies before us, to be read together with what follows.
    fn hold(&mut self) -> usize {
        self.plain.drain(..self.begin);
        self.begin = 0;
        let taken = self.plain.len() - self.held;
        self.held = self.plain.len();
        taken
    }
}
