//! How many records of TLS go by (RFC 8446 section 5.1), told by their headers alone.

/// Bytes of a record's header, the last two of which say how long the rest is.
const HEADER: usize = 5;

/// Follows one direction of one connection.
#[derive(Debug, Default)]
pub struct RecordMeter {
    header: [u8; HEADER],
    /// Bytes of the header that are there.
    have: usize,
    /// Bytes of the record that are still to come.
    rest: usize,
}

impl RecordMeter {
    /// Takes in what goes by; how many records ended in it.
    pub fn passed(&mut self, mut bytes: &[u8]) -> u64 {
        let mut ended = 0;
        while let Some((&first, after)) = bytes.split_first() {
            if self.have < HEADER {
                if let Some(place) = self.header.get_mut(self.have) {
                    *place = first;
                }
                self.have += 1;
                bytes = after;
                if self.have < HEADER {
                    continue;
                }
                let [.., high, low] = self.header;
                self.rest = usize::from(u16::from_be_bytes([high, low]));
            }
            let taken = self.rest.min(bytes.len());
            self.rest -= taken;
            bytes = bytes.get(taken..).unwrap_or_default();
            if self.rest == 0 {
                self.have = 0;
                ended += 1;
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_however_they_are_cut() {
        let mut wire = Vec::new();
        for length in [0_u16, 1, 300] {
            wire.extend([23, 3, 3]);
            wire.extend(length.to_be_bytes());
            wire.extend(std::iter::repeat_n(7, usize::from(length)));
        }
        for piece in [1, 2, 5, 7, wire.len()] {
            let mut meter = RecordMeter::default();
            let ended: u64 = wire.chunks(piece).map(|piece| meter.passed(piece)).sum();
            assert_eq!((ended, meter.have), (3, 0), "pieces of {piece}");
        }
    }
}
