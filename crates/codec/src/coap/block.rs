//! A block of a body that is too large for one message (RFC 7959 section 2), over streams also many at once (BERT, RFC 8323
//! section 6).

/// The largest exponent: blocks of 1,024 bytes.
const LARGEST_EXPONENT: u8 = 6;
/// What stands in the place of an exponent where a message carries many blocks of 1,024 bytes.
const MANY: u8 = 7;
/// Most blocks of a body: numbers have 20 bits (section 2.2).
pub const MOST_BLOCKS: u32 = 1 << 20;

/// Which part of a body a message carries or asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number, from zero.
    pub number: u32,
    /// Whether more follow.
    pub more: bool,
    /// Its size is 16 bytes times two to the power of this.
    exponent: u8,
}

impl Block {
    /// The block of that number in blocks of at most so many bytes: a power of two from 16 to 1,024, or what is next
    /// below.
    pub fn new(number: u32, more: bool, size: u16) -> Block {
        let exponent = (size.max(16).ilog2() as u8 - 4).min(LARGEST_EXPONENT);
        Block { number, more, exponent }
    }

    /// The blocks of 1,024 bytes from that number on which one message over a stream carries.
    pub fn many(number: u32, more: bool) -> Block {
        Block { number, more, exponent: MANY }
    }

    /// Of the value of an option; `None` for the exponent 7, which datagrams do not have, and for values beyond 3 bytes.
    pub fn from_number(value: u32) -> Option<Block> {
        Block::of_stream(value).filter(|block| !block.is_many())
    }

    /// The same of a message over a stream, which may carry many blocks.
    pub fn of_stream(value: u32) -> Option<Block> {
        let block = Block { number: value >> 4, more: value & 8 != 0, exponent: (value & 7) as u8 };
        (value >> 24 == 0).then_some(block)
    }

    /// The block of that number of the same size.
    pub fn at(self, number: u32, more: bool) -> Block {
        Block { number, more, ..self }
    }

    /// The block behind those of a message with so many bytes of them; `None` where these are less than one.
    pub fn following(self, bytes: usize) -> Option<Block> {
        let came = if self.is_many() { bytes / usize::from(self.size()) } else { 1 };
        (came > 0).then(|| self.at(self.number.saturating_add(came as u32), false))
    }

    /// Whether its message carries many blocks.
    pub fn is_many(self) -> bool {
        self.exponent == MANY
    }

    /// The value of its option.
    pub fn to_number(self) -> u32 {
        self.number << 4 | u32::from(self.more) << 3 | u32::from(self.exponent)
    }

    /// Bytes of a block that is not the last; of many, of each of them.
    pub fn size(self) -> u16 {
        16 << self.exponent.min(LARGEST_EXPONENT)
    }

    /// Where in the body it begins.
    pub fn begin(self) -> usize {
        self.number as usize * usize::from(self.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_powers_of_two() {
        assert_eq!(
            [16, 17, 512, 1024, 5000, 0].map(|size| Block::new(0, false, size).size()),
            [16, 16, 512, 1024, 1024, 16]
        );
        // RFC 7959 section 3.1: 2:1/1/128 is number 1 with more to follow in blocks of 128.
        assert_eq!(Block::new(1, true, 128).to_number(), 0x1b);
        assert_eq!(Block::new(3, false, 64).begin(), 192);
        assert_eq!(Block::from_number(7), None);
        let many = Block::many(5, true);
        assert_eq!((many.to_number(), many.begin(), Block::of_stream(0x5f)), (0x5f, 5_120, Some(many)));
        assert_eq!(many.following(3_000).map(|next| (next.number, next.is_many())), Some((7, true)));
        assert_eq!(many.following(1_023), None);
        assert_eq!(Block::new(5, true, 64).following(64), Some(Block::new(6, false, 64)));
        assert_eq!(Block::from_number(1 << 24), None);
    }

    proptest! {
        #[test]
        fn blocks_survive(number in 0..MOST_BLOCKS, more: bool, exponent in 0..=LARGEST_EXPONENT) {
            let block = Block { number, more, exponent };
            prop_assert_eq!(Block::from_number(block.to_number()), Some(block));
        }

        #[test]
        fn any_value_is_read_without_panic(value: u32) {
            if let Some(block) = Block::of_stream(value) {
                prop_assert_eq!(block.to_number(), value);
                prop_assert_eq!(Block::from_number(value), Some(block).filter(|own| !own.is_many()));
                let _ = (block.begin(), block.size());
            }
        }
    }
}
