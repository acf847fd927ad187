//! Identifiers of runs and devices.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A simulated publisher, numbered from 0 within the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceId(pub u32);

/// A level's number within the run, from 0.
pub type LevelIndex = u16;

const RUN_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Names one run: it stands in client ids, default topics, markers and the run store, so that what an earlier
/// run left behind is known as foreign. Forty random bits, written as eight characters of Crockford's base 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunId(u64);

impl RunId {
    /// Takes the low forty bits of a random number.
    pub fn from_bits(bits: u64) -> RunId {
        RunId(bits & ((1 << 40) - 1))
    }

    /// Its forty bits.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The sixteen bits that a marker carries.
    pub fn tag(self) -> u16 {
        (self.0 & 0xffff) as u16
    }

    /// Reads what `Display` wrote.
    pub fn parse(text: &str) -> Option<RunId> {
        if text.len() != 8 {
            return None;
        }
        let mut bits = 0;
        for character in text.bytes() {
            let digit = RUN_ALPHABET.iter().position(|&c| c == character)?;
            bits = bits << 5 | digit as u64;
        }
        Some(RunId(bits))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for position in (0..8).rev() {
            let digit = (self.0 >> (5 * position)) & 31;
            write!(f, "{}", char::from(RUN_ALPHABET[digit as usize]))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_survives_its_text_form() {
        for bits in [0, 1, 0xff_ffff_ffff, 0x12_3456_789a] {
            let id = RunId::from_bits(bits);
            assert_eq!(RunId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(RunId::parse("short"), None);
        assert_eq!(RunId::parse("uuuuuuuu"), None);
    }
}
