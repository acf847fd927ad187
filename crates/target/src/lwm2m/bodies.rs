//! Registrations and updates that come block by block (RFC 7959 section 2.5). What they list is counted and not kept.

use plimsoll_codec::coap::{Block, Message, code, option};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Bytes of a body that are taken.
const LARGEST: usize = 1 << 20;
/// Addresses whose bodies are remembered: a device that moves leaves its old address behind.
const MOST: usize = 100_000;

/// See the module.
#[derive(Default)]
pub struct Bodies {
    /// Bytes of a block that are taken at most; `None` for all.
    largest_block: Option<u16>,
    /// What has come from each address: bytes, and the message that the last of them came in.
    coming: HashMap<SocketAddr, (usize, u16)>,
    /// The same addresses, those first that were first.
    order: VecDeque<SocketAddr>,
}

/// What is to be done about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// All of it has come. Where it came in blocks, its answer says so.
    Whole(Option<Block>),
    /// It is answered with that code and block.
    Answer(u8, Option<Block>),
}

impl Bodies {
    /// Nothing has come; blocks may have so many bytes.
    pub fn of_blocks(largest_block: Option<u16>) -> Bodies {
        Bodies { largest_block, ..Bodies::default() }
    }

    /// Takes a request of a device. A block that comes again is answered as it was.
    pub fn take(&mut self, request: &Message<'_>, from: SocketAddr) -> Taken {
        let largest = self.largest_block.unwrap_or(u16::MAX);
        let Some(block) = request.block(option::BLOCK1) else {
            let fits = request.payload.len() <= usize::from(largest);
            let wished = Block::new(0, false, largest);
            return if fits { Taken::Whole(None) } else { Taken::Answer(code::TOO_LARGE, Some(wished)) };
        };
        // From the first answer on, a device takes blocks of that size.
        let own = Block::new(block.number, block.more, block.size().min(largest));
        let come = self.coming.get(&from).copied();
        let is_again = come.is_some_and(|(_, id)| id == request.id);
        let length = if block.number == 0 { 0 } else { come.map_or(0, |(length, _)| length) };
        if !is_again {
            if length != block.begin() {
                return Taken::Answer(code::INCOMPLETE, None);
            }
            let come = length + request.payload.len();
            if come > LARGEST {
                return Taken::Answer(code::TOO_LARGE, None);
            }
            self.remember(from, (come, request.id));
        }
        if block.more { Taken::Answer(code::CONTINUE, Some(own)) } else { Taken::Whole(Some(own)) }
    }

    /// Notes what has come from an address, and forgets the oldest address where there are too many.
    fn remember(&mut self, from: SocketAddr, come: (usize, u16)) {
        if self.coming.insert(from, come).is_some() {
            return;
        }
        self.order.push_back(from);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.coming.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_codec::coap::{Kind, OptionList};

    fn take(bodies: &mut Bodies, id: u16, block: Option<Block>, bytes: usize) -> Taken {
        take_from(SocketAddr::from(([127, 0, 0, 1], 5000)), bodies, id, block, bytes)
    }

    fn take_from(
        from: SocketAddr,
        bodies: &mut Bodies,
        id: u16,
        block: Option<Block>,
        bytes: usize,
    ) -> Taken {
        let (mut list, mut options, payload) = (OptionList::new(), Vec::new(), vec![7; bytes]);
        let _ = block.map(|block| list.add_number(option::BLOCK1, block.to_number()));
        list.encode(&mut options);
        let message = Message {
            code: code::POST,
            options: &options,
            payload: &payload,
            ..Message::empty(Kind::Confirmable, id)
        };
        bodies.take(&message, from)
    }

    #[test]
    fn old_addresses_are_forgotten_and_new_ones_remembered() {
        let mut bodies = Bodies::default();
        let block = |number, more| Some(Block::new(number, more, 16));
        let address = |number: usize| {
            let [_, _, _, _, _, a, b, c] = (number as u64).to_be_bytes();
            SocketAddr::from(([10, a, b, c], 5000))
        };
        for number in 0..=MOST {
            take_from(address(number), &mut bodies, 1, block(0, true), 16);
        }
        assert_eq!((bodies.coming.len(), bodies.order.len()), (MOST, MOST));
        let second = |bodies: &mut Bodies, number| take_from(address(number), bodies, 2, block(1, false), 4);
        assert_eq!(second(&mut bodies, 0), Taken::Answer(code::INCOMPLETE, None));
        assert_eq!(second(&mut bodies, MOST), Taken::Whole(block(1, false)));
    }

    #[test]
    fn blocks_are_taken_in_their_order_and_as_small_as_is_wanted() {
        let mut bodies = Bodies::of_blocks(Some(256));
        let block = |number, more, size| Some(Block::new(number, more, size));
        assert_eq!(take(&mut bodies, 1, None, 256), Taken::Whole(None));
        assert_eq!(take(&mut bodies, 2, None, 257), Taken::Answer(code::TOO_LARGE, block(0, false, 256)));
        for _ in 0..2 {
            let taken = take(&mut bodies, 3, block(0, true, 1024), 1024);
            assert_eq!(
                taken,
                Taken::Answer(code::CONTINUE, block(0, true, 256)),
                "also where it comes again"
            );
        }
        assert_eq!(take(&mut bodies, 4, block(5, true, 256), 256), Taken::Answer(code::INCOMPLETE, None));
        let taken = take(&mut bodies, 5, block(4, true, 256), 256);
        assert_eq!(taken, Taken::Answer(code::CONTINUE, block(4, true, 256)));
        for _ in 0..2 {
            let last = block(5, false, 256);
            assert_eq!(take(&mut bodies, 6, last, 10), Taken::Whole(last));
        }
        let (first, mut id) = (take(&mut bodies, 7, block(0, true, 1024), 1024), 8);
        assert_eq!(first, Taken::Answer(code::CONTINUE, block(0, true, 256)));
        let refused = (4..5000).find_map(|number| {
            id += 1;
            match take(&mut bodies, id, block(number, true, 256), 256) {
                Taken::Answer(code::CONTINUE, _) => None,
                taken => Some((number, taken)),
            }
        });
        assert_eq!(refused, Some((4096, Taken::Answer(code::TOO_LARGE, None))), "not more than a mebibyte");
    }
}
