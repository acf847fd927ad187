//! A block of a body that is too large for one message (RFC 7959 section 2).

/// The largest exponent: blocks of 1,024 bytes.
const LARGEST_EXPONENT: u8 = 6;
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

    /// Of the value of an option; `None` for the exponent 7, which is reserved, and for values beyond 3 bytes.
    pub fn from_number(value: u32) -> Option<Block> {
        let exponent = (value & 7) as u8;
        (exponent <= LARGEST_EXPONENT && value >> 24 == 0).then_some(Block {
            number: value >> 4,
            more: value & 8 != 0,
            exponent,
        })
    }

    /// The value of its option.
    pub fn to_number(self) -> u32 {
        self.number << 4 | u32::from(self.more) << 3 | u32::from(self.exponent)
    }

    /// Bytes of a block that is not the last.
    pub fn size(self) -> u16 {
        16 << self.exponent
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
            if let Some(block) = Block::from_number(value) {
                prop_assert_eq!(block.to_number(), value);
                let _ = (block.begin(), block.size());
            }
        }
    }
}
