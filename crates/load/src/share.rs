//! Which devices, subscribers and connections a load thread owns.
//!
//! Numbers are dealt by what they leave when divided by [`BLOCKS`], so a thread owns whole blocks of a population whatever
//! the number of threads, and an arrival process that is made of such blocks can be divided without being walked twice.

use std::ops::Range;

/// Blocks that a population is dealt in; a power of two. Load threads beyond so many would have nothing of it, and the parts
/// of a tenth as many differ by a tenth at most.
pub const BLOCKS: u32 = 16_384;

/// What a load thread owns of a population: the numbers whose block leaves `index` when divided by `of`. Blocks are counted from the
/// population's first number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// This thread.
    pub index: u32,
    /// All threads.
    pub of: u32,
    /// The population's first number.
    pub first: u32,
}

impl Share {
    /// A whole population whose first number is zero.
    pub const WHOLE: Share = Share { index: 0, of: 1, first: 0 };
    /// Nothing of a population.
    pub const NOTHING: Share = Share { index: BLOCKS, of: 1, first: 0 };

    /// The same part of a population with that first number.
    #[must_use]
    pub fn from(self, first: u32) -> Share {
        Share { first, ..self }
    }

    /// Whether it has anything of a population that is large enough.
    pub fn has_any(self) -> bool {
        self.index < BLOCKS
    }

    /// Which of `of` threads owns a number of a population that begins at zero.
    #[inline]
    pub fn owner(number: u32, of: u32) -> u32 {
        if of <= 1 { 0 } else { (number % BLOCKS) % of }
    }

    /// Whether a number belongs to this share.
    #[inline]
    pub fn owns(self, number: u32) -> bool {
        number.checked_sub(self.first).is_some_and(|number| Share::owner(number, self.of) == self.index)
    }

    /// The place of an owned number among those that this share owns, from zero.
    #[inline]
    pub fn slot(self, number: u32) -> u32 {
        let number = number.wrapping_sub(self.first);
        if self.of <= 1 {
            // Asked for several times a message: without a division.
            return number;
        }
        number / BLOCKS * self.blocks() + (number % BLOCKS) / self.of.max(1)
    }

    /// The owned number at a place: the inverse of [`Share::slot`].
    #[inline]
    pub fn number(self, slot: u32) -> u32 {
        if self.of <= 1 {
            return self.first + slot;
        }
        let blocks = self.blocks().max(1);
        self.first + slot / blocks * BLOCKS + self.index + slot % blocks * self.of
    }

    /// How many of the population's first `total` numbers belong to this share.
    pub fn count(self, total: u32) -> u32 {
        total / BLOCKS * self.blocks() + self.below(total % BLOCKS)
    }

    /// What this share has of so many messages that the population's `total` numbers send in turn.
    pub fn part(self, messages: u64, total: u32) -> u64 {
        let (rounds, rest) = (messages / u64::from(total.max(1)), messages % u64::from(total.max(1)));
        rounds * u64::from(self.count(total)) + u64::from(self.count(rest as u32))
    }

    /// The numbers of them, in rising order.
    pub fn numbers(self, total: u32) -> impl Iterator<Item = u32> {
        (0..self.count(total)).map(move |slot| self.number(slot))
    }

    /// The places of the owned numbers in a range of the population's numbers; the place after the last one, where there are none.
    pub fn slots(self, numbers: Range<u32>) -> Range<u32> {
        let below = |number: u32| self.count(number.saturating_sub(self.first));
        below(numbers.start)..below(numbers.end)
    }

    /// Numbers of this share's part of so many queriers in all, which is one at least.
    pub fn queriers(self, all: u32) -> impl Iterator<Item = u32> {
        (0..all.div_ceil(self.of.max(1)).max(1)).map(move |slot| self.number(slot))
    }

    /// Blocks of this share.
    #[inline]
    fn blocks(self) -> u32 {
        self.below(BLOCKS)
    }

    /// Blocks of this share below that one.
    #[inline]
    fn below(self, block: u32) -> u32 {
        block.saturating_sub(self.index).div_ceil(self.of.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_owner_and_a_place_of_its_own() {
        for of in [1, 2, 3, 7, 64, 2000] {
            for total in [0, 1, 5, BLOCKS - 1, BLOCKS, BLOCKS + 1, 2 * BLOCKS + 5000] {
                let mut owned = vec![0; total as usize];
                for index in 0..of {
                    let share = Share { index, of, first: 0 };
                    let moved = share.from(77);
                    assert!(moved.numbers(total).eq(share.numbers(total).map(|number| number + 77)));
                    assert!(moved.numbers(total).all(|number| moved.owns(number) && !moved.owns(5)));
                    assert!(
                        moved
                            .numbers(total)
                            .enumerate()
                            .all(|(slot, number)| moved.slot(number) == slot as u32)
                    );
                    for (slot, number) in share.numbers(total).enumerate() {
                        assert!(share.owns(number), "{number} of {share:?}");
                        assert_eq!(share.slot(number), slot as u32, "{number} of {share:?}");
                        owned[number as usize] += 1;
                    }
                }
                assert!(owned.iter().all(|&owners| owners == 1), "{total} over {of}");
            }
        }
    }

    #[test]
    fn the_owned_numbers_of_a_range_are_consecutive_places() {
        for of in [1, 2, 7, 1000, BLOCKS, 20_000] {
            let ranges =
                [(0, 0), (0, 5000), (3, 4), (7, 5), (BLOCKS - 9, 2 * BLOCKS + 9), (BLOCKS, BLOCKS + 1)];
            for (from, to) in ranges {
                for index in [0, 1, of - 1].into_iter().filter(|index| *index < of) {
                    let share = Share { index, of, first: 20 };
                    let slots = share.slots(from + 20..to + 20);
                    let numbers: Vec<u32> = slots.map(|slot| share.number(slot)).collect();
                    let owned: Vec<u32> = (from + 20..to + 20).filter(|&number| share.owns(number)).collect();
                    assert!(numbers == owned, "{share:?}, {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn parts_of_messages_add_up_and_each_number_has_its_turns() {
        for of in [1, 2, 3, 64] {
            for (messages, total) in [(0, 5), (7, 5), (5_000, 1), (30_001, 3_000), (1, 3_000)] {
                let shares = (0..of).map(|index| Share { index, of, first: 9 });
                let parts: Vec<u64> = shares.clone().map(|share| share.part(messages, total)).collect();
                assert_eq!(parts.iter().sum::<u64>(), messages, "{messages} of {total} over {of}");
                let turns = |share: Share| share.numbers(total).map(|number| u64::from(number - 9));
                let turns = |share| {
                    turns(share).map(|own| (messages + u64::from(total) - 1 - own) / u64::from(total))
                };
                let sums: Vec<u64> = shares.map(|share| turns(share).sum()).collect();
                assert_eq!(sums, parts);
            }
        }
    }

    #[test]
    fn shares_differ_by_a_block_at_most() {
        for of in [2, 3, 24, 64, 1000] {
            let counts: Vec<u32> =
                (0..of).map(|index| Share { index, of, first: 0 }.count(100 * BLOCKS)).collect();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 100, "{least} to {most} over {of}");
        }
    }
}
