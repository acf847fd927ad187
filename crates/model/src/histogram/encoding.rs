//! HdrHistogram's V2 encoding, compressed (hdrhistogram.org): a header, and for each bucket in rising order its count, or a negative number
//! for so many empty ones, as variable-length integers in zigzag form.

use super::HIGHEST;
use super::layout::{highest, index_of};
use flate2::Compression;
use flate2::read::{ZlibDecoder, ZlibEncoder};
use std::io::Read;

const COOKIE: u32 = 0x1c84_9313;
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;
/// Bytes before the counts: cookie, length of the counts, offset, digits, lowest and highest value, ratio.
const HEADER: usize = 40;
const DIGITS: u32 = 3;
/// The longest variable-length integer: eight bytes of seven bits, and one of eight.
const LONGEST: u32 = 9;
/// So few bytes are stored as they are: compressing takes longer than all else, and saves a few bytes.
const FEW: usize = 600;
/// A stream of one stored block: its header (RFC 1950), and that of the block (RFC 1951).
const STORED: [u8; 3] = [0x78, 0x01, 0x01];
/// No histogram is longer: each bucket up to an hour, with the longest count.
const MOST: u64 = HEADER as u64 + 40 * 1024 * LONGEST as u64;

/// Encodes buckets that come in rising order: any value of each, and its count.
pub fn encode(buckets: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
    let (mut counts, mut next, mut highest_value) = (Vec::new(), 0, 2);
    for (value, count) in buckets {
        let index = index_of(value);
        match index - next {
            0 => {}
            1 => write(&mut counts, 0),
            empty => write(&mut counts, -(empty as i64)),
        }
        write(&mut counts, i64::try_from(count).unwrap_or(i64::MAX));
        (next, highest_value) = (index + 1, highest(index).max(2));
    }
    if next == 0 {
        write(&mut counts, 0);
    }
    let mut plain = Vec::with_capacity(HEADER + counts.len());
    for part in [COOKIE, counts.len() as u32, 0, DIGITS] {
        plain.extend(part.to_be_bytes());
    }
    plain.extend(1u64.to_be_bytes());
    plain.extend(highest_value.to_be_bytes());
    plain.extend(1f64.to_be_bytes());
    plain.extend(counts);
    let stream = if plain.len() <= FEW { stored(&plain) } else { compressed(&plain) };
    let mut bytes = Vec::with_capacity(8 + stream.len());
    bytes.extend(COMPRESSED_COOKIE.to_be_bytes());
    bytes.extend((stream.len() as u32).to_be_bytes());
    bytes.extend(stream);
    bytes
}

/// The buckets of an encoding, in rising order: the highest value of each, and its count. The error says what is wrong, for people.
pub fn decode(bytes: &[u8]) -> Result<Vec<(u64, u64)>, String> {
    let mut rest = bytes;
    if number(&mut rest)? != COMPRESSED_COOKIE {
        return Err("it begins with other bytes".into());
    }
    let length = number(&mut rest)? as usize;
    let stream = rest.get(..length).ok_or("it is cut off")?;
    let plain = match of_stored(stream) {
        Some(plain) => plain.to_vec(),
        None => {
            let mut plain = Vec::new();
            ZlibDecoder::new(stream).take(MOST).read_to_end(&mut plain).map_err(|error| error.to_string())?;
            plain
        }
    };
    let mut rest = &plain[..];
    if number(&mut rest)? != COOKIE {
        return Err("what is compressed begins with other bytes".into());
    }
    let length = number(&mut rest)? as usize;
    let (offset, digits) = (number(&mut rest)?, number(&mut rest)?);
    let lowest = [number(&mut rest)?, number(&mut rest)?];
    // The highest value and the ratio say nothing of the buckets.
    let counts = rest.get(16..).and_then(|rest| rest.get(..length)).ok_or("it is cut off")?;
    if (offset, digits, lowest) != (0, DIGITS, [0, 1]) {
        return Err("its buckets are others".into());
    }
    of_counts(counts)
}

fn of_counts(mut counts: &[u8]) -> Result<Vec<(u64, u64)>, String> {
    let (mut buckets, mut index, behind) = (Vec::new(), 0u64, index_of(HIGHEST) + 1);
    while !counts.is_empty() {
        let number = read(&mut counts).ok_or("it is cut off")?;
        let step = if number < 0 { number.unsigned_abs() } else { 1 };
        if step > behind - index {
            return Err("it has buckets beyond an hour".into());
        }
        if number > 0 {
            buckets.push((highest(index), number as u64));
        }
        index += step;
    }
    Ok(buckets)
}

/// The next four bytes as a number.
fn number(bytes: &mut &[u8]) -> Result<u32, String> {
    let (first, rest) = bytes.split_first_chunk().ok_or("it is cut off")?;
    *bytes = rest;
    Ok(u32::from_be_bytes(*first))
}

fn write(bytes: &mut Vec<u8>, number: i64) {
    let mut zigzag = ((number << 1) ^ (number >> 63)) as u64;
    for _ in 1..LONGEST {
        if zigzag < 0x80 {
            break;
        }
        bytes.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    bytes.push(zigzag as u8);
}

/// `None` where the bytes end too early.
fn read(bytes: &mut &[u8]) -> Option<i64> {
    let mut zigzag = 0;
    for place in 0..LONGEST {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let is_last = place == LONGEST - 1;
        zigzag |= u64::from(if is_last { byte } else { byte & 0x7f }) << (7 * place);
        if byte & 0x80 == 0 || is_last {
            break;
        }
    }
    Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
}

fn compressed(plain: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    // Reading from and writing to memory cannot fail.
    let _ = ZlibEncoder::new(plain, Compression::default()).read_to_end(&mut stream);
    stream
}

/// A stream of one block that is not compressed.
fn stored(plain: &[u8]) -> Vec<u8> {
    let length = plain.len() as u16;
    let mut stream = STORED.to_vec();
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend(plain);
    stream.extend(adler32(plain).to_be_bytes());
    stream
}

/// What such a stream has; `None` of any other stream, and of a damaged one.
fn of_stored(stream: &[u8]) -> Option<&[u8]> {
    let (length, rest) = stream.strip_prefix(&STORED)?.split_first_chunk()?;
    let length = u16::from_le_bytes(*length);
    let (complement, rest) = rest.split_first_chunk()?;
    let (plain, sum) = rest.split_at_checked(usize::from(length))?;
    (u16::from_le_bytes(*complement) == !length && sum == adler32(plain).to_be_bytes()).then_some(plain)
}

/// The checksum of a stream (RFC 1950).
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    let add = |(low, high): (u32, u32), byte: &u8| {
        let low = (low + u32::from(*byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    };
    let (low, high) = bytes.iter().fold((1, 0), add);
    high << 16 | low
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
    use proptest::prelude::*;

    /// What the hdrhistogram crate sees in a histogram.
    fn seen(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
        let buckets = histogram.iter_recorded();
        buckets.map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value())).collect()
    }

    fn recorded(values: &[(u64, u64)]) -> Histogram<u64> {
        let mut histogram = Histogram::new(DIGITS as u8).unwrap();
        histogram.auto(true);
        values.iter().for_each(|&(value, count)| histogram.record_n(value, count).unwrap());
        histogram
    }

    proptest! {
        /// The hdrhistogram crate shares nothing with this code.
        #[test]
        fn another_implementation_reads_what_is_written_and_writes_what_is_read(
            values in prop::collection::vec((0..HIGHEST, 1..1u64 << 50), 0..500),
            powers in prop::collection::vec((0..41u32, 0..3u64), 0..9),
        ) {
            let edges = powers.into_iter().map(|(power, count)| ((1u64 << power) - count % 2, count + 1));
            let theirs = recorded(&values.into_iter().chain(edges).collect::<Vec<_>>());
            let mut bytes = Vec::new();
            V2DeflateSerializer::new().serialize(&theirs, &mut bytes).unwrap();
            prop_assert_eq!(decode(&bytes).unwrap(), seen(&theirs));
            let ours = encode(seen(&theirs).into_iter());
            let read: Histogram<u64> = Deserializer::new().deserialize(&mut &ours[..]).unwrap();
            prop_assert_eq!(seen(&read), seen(&theirs));
            prop_assert_eq!(decode(&ours).unwrap(), seen(&theirs));
        }

        #[test]
        fn damage_is_an_error_or_another_histogram(at in 0..400usize, to: u8, cut in 0..400usize, many: bool) {
            let last = if many { 900 } else { 30 };
            let mut bytes = encode((1..last).map(|value| (value * value * value * 37, value)));
            let length = bytes.len();
            bytes[at % length] = to;
            let _ = decode(&bytes);
            prop_assert!(decode(&bytes[..cut % length]).is_err());
        }

        #[test]
        fn no_counts_are_a_surprise(counts: Vec<u8>) {
            let _ = of_counts(&counts);
        }

        #[test]
        fn integers_of_any_size_are_read_as_they_were_written(number: i64) {
            let mut bytes = Vec::new();
            write(&mut bytes, number);
            let mut rest = &bytes[..];
            prop_assert_eq!((read(&mut rest), rest.len()), (Some(number), 0));
        }
    }

    #[test]
    fn an_hour_is_the_last_bucket() {
        assert!(decode(&encode([(HIGHEST, 7)].into_iter())).is_ok());
        let error = decode(&encode([(HIGHEST * 2, 7)].into_iter())).unwrap_err();
        assert_eq!(error, "it has buckets beyond an hour");
    }
}
