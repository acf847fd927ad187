//! The marker that every message carries: which run, device and message it is, with a check, in a form that its
//! payload survives.
//!
//! | form    | length        | run     | device  | sequence | check  | foreign bytes pass the check |
//! |---------|---------------|---------|---------|----------|--------|------------------------------|
//! | binary  | 10 bytes      | 16 bits | 24 bits | 32 bits  | 8 bits | 1 in 256                     |
//! | ASCII   | 23 characters | 16 bits | 24 bits | 32 bits  | 8 bits | 1 in 256 of `plm` and 20 hexadecimal digits; else never |
//! | integer | below 2^53    | 8 bits  | 17 bits | 24 bits  | 4 bits | 1 in 16                      |
//!
//! A run with more devices than 24 bits number divides the 56 bits of device and sequence otherwise ([`numbering`](crate::numbering)).
//!
//! A reader also compares the run, so that a random binary payload is mistaken for a marker of this run once in
//! 2^24 times, and a random integer below 2^53 once in 2^12 times. Integers in payloads are seldom random: all below
//! 2^45, thus milliseconds since 1970 too, have run 0, and microseconds since 1970 have run 50 or 51 from October
//! 2025 to December 2027. Beside such numbers, a run with that tag takes one in 16 of them for a marker; a run with
//! another tag takes none.

use memchr::memmem;

/// Length of the binary form, bytes.
pub const BINARY_LENGTH: usize = 10;
/// Length of the ASCII form, characters.
pub const ASCII_LENGTH: usize = ASCII_PREFIX.len() + 2 * BINARY_LENGTH;
/// Most decimal digits of the integer form.
pub const INTEGER_LENGTH: usize = 16;

const ASCII_PREFIX: &[u8] = b"plm";

const INTEGER_BITS: u32 = 53;
const RUN_BITS: u32 = 8;
const DEVICE_BITS: u32 = 17;
const SEQUENCE_BITS: u32 = 24;
const CHECK_BITS: u32 = 4;

/// Which message of which run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The run's tag; the integer form carries its low eight bits.
    pub run: u16,
    /// The number of the device, below 2^24 (integer form: below 2^17).
    pub device: u32,
    /// The number of the message within its device (integer form: below 2^24).
    pub sequence: u32,
}

impl Marker {
    /// The binary form, big endian: run in two bytes, device in three, sequence in four, CRC-8 in one. Of a device
    /// beyond 2^24 only the low 24 bits are written.
    pub fn to_binary(&self) -> [u8; BINARY_LENGTH] {
        let [r1, r0] = self.run.to_be_bytes();
        let [_, d2, d1, d0] = self.device.to_be_bytes();
        let [s3, s2, s1, s0] = self.sequence.to_be_bytes();
        let check = crc8(&[r1, r0, d2, d1, d0, s3, s2, s1, s0]);
        [r1, r0, d2, d1, d0, s3, s2, s1, s0, check]
    }

    /// The marker in binary form at the start of a payload, `None` where there is none.
    pub fn read_binary(payload: &[u8]) -> Option<Marker> {
        let bytes: &[u8; BINARY_LENGTH] = payload.first_chunk()?;
        let [fields @ .., check] = bytes;
        if crc8(fields) != *check {
            return None;
        }
        let [r1, r0, d2, d1, d0, s3, s2, s1, s0] = *fields;
        Some(Marker {
            run: u16::from_be_bytes([r1, r0]),
            device: u32::from_be_bytes([0, d2, d1, d0]),
            sequence: u32::from_be_bytes([s3, s2, s1, s0]),
        })
    }

    /// Appends the ASCII form: `plm` and the binary form in lower-case hexadecimal digits, always
    /// [`ASCII_LENGTH`] characters.
    pub fn write_ascii(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(ASCII_PREFIX);
        for byte in self.to_binary() {
            out.extend([hex_digit(byte >> 4), hex_digit(byte & 0x0f)]);
        }
    }

    /// The first marker in ASCII form anywhere in a payload, `None` where there is none.
    pub fn find_ascii(payload: &[u8]) -> Option<Marker> {
        Marker::all_ascii(payload).next()
    }

    /// Every marker in ASCII form in a payload, in order.
    pub fn all_ascii(payload: &[u8]) -> impl Iterator<Item = Marker> + '_ {
        memmem::find_iter(payload, ASCII_PREFIX).filter_map(|begin| Marker::read_ascii(payload.get(begin..)?))
    }

    /// The marker in ASCII form with which those bytes begin.
    pub fn read_ascii(bytes: &[u8]) -> Option<Marker> {
        read_hexadecimal(bytes.strip_prefix(ASCII_PREFIX)?)
    }

    /// The integer form: from the top, run in 8 bits, device in 17, sequence in 24, check in 4. `None` when one of
    /// them does not fit.
    pub fn to_integer(&self) -> Option<u64> {
        let fits = u32::from(self.run) >> RUN_BITS == 0
            && self.device >> DEVICE_BITS == 0
            && self.sequence >> SEQUENCE_BITS == 0;
        let fields = u64::from(self.run) << (DEVICE_BITS + SEQUENCE_BITS)
            | u64::from(self.device) << SEQUENCE_BITS
            | u64::from(self.sequence);
        fits.then(|| fields << CHECK_BITS | integer_check(fields))
    }

    /// Reads what [`to_integer`](Marker::to_integer) wrote; `None` where the check fails or the number is 2^53 or
    /// more.
    pub fn from_integer(number: u64) -> Option<Marker> {
        let fields = number >> CHECK_BITS;
        if number >> INTEGER_BITS != 0 || number & low_bits(CHECK_BITS) != integer_check(fields) {
            return None;
        }
        Some(Marker {
            run: (fields >> (DEVICE_BITS + SEQUENCE_BITS)) as u16,
            device: (fields >> SEQUENCE_BITS & low_bits(DEVICE_BITS)) as u32,
            sequence: (fields & low_bits(SEQUENCE_BITS)) as u32,
        })
    }

    /// The first marker of that run (its low eight bits) among the decimal integers in a text, `None` where there is
    /// none. Digits behind a decimal point are not looked at: measured values end in long rows of them.
    pub fn find_integer(payload: &[u8], run_tag: u16) -> Option<Marker> {
        Marker::all_integer(payload, run_tag).next()
    }

    /// Every marker of that run among the decimal integers in a text, in order.
    pub fn all_integer(payload: &[u8], run_tag: u16) -> impl Iterator<Item = Marker> + '_ {
        let run = run_tag & 0xff;
        integers(payload).filter_map(Marker::from_integer).filter(move |marker| marker.run == run)
    }
}

/// The runs of at most [`INTEGER_LENGTH`] digits in a text, as numbers.
fn integers(text: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let mut before = None;
    text.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit()).filter_map(move |chunk| {
        let behind_point = before == Some(&b'.');
        before = chunk.last();
        if behind_point || chunk.len() > INTEGER_LENGTH {
            return None;
        }
        str::from_utf8(chunk).ok()?.parse().ok()
    })
}

/// Reads the digits behind the prefix.
fn read_hexadecimal(digits: &[u8]) -> Option<Marker> {
    let (pairs, _) = digits.as_chunks::<2>();
    let mut bytes = [0; BINARY_LENGTH];
    let pairs = pairs.get(..BINARY_LENGTH)?;
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = hex_value(*high)? << 4 | hex_value(*low)?;
    }
    Marker::read_binary(&bytes)
}

fn hex_digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' + (value - 10) }
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn low_bits(count: u32) -> u64 {
    (1 << count) - 1
}

/// Four bits of the CRC-8 of the other 49.
fn integer_check(fields: u64) -> u64 {
    u64::from(crc8(&fields.to_be_bytes())) & low_bits(CHECK_BITS)
}

/// CRC-8/AUTOSAR: polynomial 0x2f, all bits set before and inverted after, so that a payload of zeros is no marker.
/// It notices every change of up to three bits in a marker.
fn crc8(bytes: &[u8]) -> u8 {
    !bytes.iter().fold(0xff, |crc, byte| CRC_TABLE.get(usize::from(crc ^ byte)).copied().unwrap_or_default())
}

const CRC_TABLE: [u8; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x80 != 0 { crc << 1 ^ 0x2f } else { crc << 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARKER: Marker = Marker { run: 0xbeef, device: 0x01_0203, sequence: 0x0405_0607 };

    fn ascii(marker: Marker) -> Vec<u8> {
        let mut out = Vec::new();
        marker.write_ascii(&mut out);
        out
    }

    #[test]
    fn the_check_is_the_catalogued_crc() {
        assert_eq!(crc8(b"123456789"), 0xdf);
    }

    #[test]
    fn the_binary_form_is_as_documented() {
        let binary = MARKER.to_binary();
        assert_eq!(binary[..9], [0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7]);
        let payload = [&binary[..], b"and more"].concat();
        assert_eq!(Marker::read_binary(&payload), Some(MARKER));
        assert_eq!(Marker::read_binary(&binary[..9]), None);
    }

    #[test]
    fn uniform_payloads_are_no_markers() {
        for byte in [0x00, 0xff, b' ', b'.', b'0', b'x'] {
            assert_eq!(Marker::read_binary(&[byte; 64]), None, "{byte:#x}");
        }
    }

    #[test]
    fn every_change_of_up_to_three_bits_is_noticed() {
        let bits = 8 * BINARY_LENGTH;
        let flipped = |positions: &[usize]| {
            let mut bytes = MARKER.to_binary();
            positions.iter().for_each(|position| bytes[position / 8] ^= 1 << (position % 8));
            Marker::read_binary(&bytes)
        };
        for one in 0..bits {
            assert_eq!(flipped(&[one]), None);
            for two in 0..one {
                assert_eq!(flipped(&[one, two]), None);
                for three in 0..two {
                    assert_eq!(flipped(&[one, two, three]), None);
                }
            }
        }
    }

    #[test]
    fn the_ascii_form_is_found_behind_false_prefixes() {
        let text = ascii(MARKER);
        assert_eq!(text.len(), ASCII_LENGTH);
        assert!(text.starts_with(b"plmbeef01020304050607"), "{text:?}");
        let mut damaged = ascii(MARKER);
        damaged[10] ^= 1;
        let payload = [b"{\"plm\":\"plmplm", &damaged[..], b"plm", &text, b"\"}"].concat();
        assert_eq!(Marker::find_ascii(&payload), Some(MARKER));
        assert_eq!(Marker::find_ascii(&payload[..payload.len() - 3]), None);
    }

    #[test]
    fn the_integer_form_refuses_what_does_not_fit() {
        let largest = Marker { run: 0xff, device: 0x1_ffff, sequence: 0xff_ffff };
        let number = largest.to_integer().unwrap();
        assert!(number < 1 << 53 && number.to_string().len() <= INTEGER_LENGTH);
        assert_eq!(Marker::from_integer(number), Some(largest));
        assert_eq!(Marker { run: 0x100, ..largest }.to_integer(), None);
        assert_eq!(Marker { device: 0x2_0000, ..largest }.to_integer(), None);
        assert_eq!(Marker { sequence: 0x100_0000, ..largest }.to_integer(), None);
        assert_eq!(Marker::from_integer(number | 1 << 53), None);
    }

    #[test]
    fn fifteen_of_sixteen_changed_checks_are_noticed() {
        let marker = Marker { run: 7, device: 8, sequence: 9 };
        let number = marker.to_integer().unwrap();
        let passing = (0..16).filter(|check| Marker::from_integer(number & !15 | check).is_some()).count();
        assert_eq!(passing, 1);
    }

    #[test]
    fn the_integer_form_is_found_among_other_numbers() {
        let marker = Marker { run: 0xef, device: 77, sequence: 1234 };
        let number = marker.to_integer().unwrap();
        let payload = format!("{{\"t\":1795174113187,\"v\":[0.25,-3,99999999999999999999],\"id\":{number}}}");
        assert_eq!(Marker::find_integer(payload.as_bytes(), 0xbeef), Some(marker));
        assert_eq!(Marker::find_integer(payload.as_bytes(), 0xbeee), None);
        assert_eq!(Marker::find_integer(format!("0.{number}").as_bytes(), 0xef), None);
        assert_eq!(Marker::find_integer(format!("{number}.0").as_bytes(), 0xef), Some(marker));
        assert_eq!(Marker::find_integer(format!("{number}1").as_bytes(), 0xef), None);
    }

    proptest! {
        #[test]
        fn every_marker_survives_its_forms(run: u16, device in 0..1u32 << 24, sequence: u32) {
            let marker = Marker { run, device, sequence };
            prop_assert_eq!(Marker::read_binary(&marker.to_binary()), Some(marker));
            let text = ascii(marker);
            prop_assert!(text.iter().all(|byte| byte.is_ascii_alphanumeric()));
            prop_assert_eq!(Marker::find_ascii(&text), Some(marker));
            let small = Marker { run: run & 0xff, device: device & 0x1_ffff, sequence: sequence & 0xff_ffff };
            let number = small.to_integer().unwrap();
            prop_assert_eq!(Marker::from_integer(number), Some(small));
            prop_assert_eq!(Marker::find_integer(number.to_string().as_bytes(), small.run), Some(small));
        }

        #[test]
        fn the_marker_is_found_wherever_it_stands(
            before in proptest::collection::vec(any::<u8>(), 0..64),
            after in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            // Random bytes hold no marker by themselves: that takes `plm` and twenty digits.
            let payload = [&before[..], &ascii(MARKER), &after].concat();
            prop_assert_eq!(Marker::find_ascii(&payload), Some(MARKER));
        }

        #[test]
        fn no_payload_makes_a_search_panic(payload in proptest::collection::vec(any::<u8>(), 0..256), run: u16) {
            let _ = Marker::read_binary(&payload);
            let _ = Marker::find_ascii(&payload);
            let _ = Marker::find_integer(&payload, run);
        }
    }
}
