//! Compressed contents, opened as far as a bound allows, and made.

use flate2::read::{GzDecoder, ZlibDecoder};
use lz4_flex::frame::FrameDecoder;
use std::cell::Cell;
use std::io::{Read, Result, Write};
use zstd::stream::read::Decoder;
use zstd::zstd_safe::DCtx;

/// The largest window that Zstandard may ask for, as a power of two.
const WINDOW: u32 = 23;

/// How a content is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    None,
    /// With gzip (RFC 1952).
    Gzip,
    /// With zlib (RFC 1950).
    Zlib,
    /// Raw, or in the blocks of the Java library xerial-snappy.
    Snappy,
    /// With LZ4, in frames.
    Lz4,
    /// With Zstandard (RFC 8878).
    Zstd,
}

/// What a thread needs for it, kept from one content to the next.
#[derive(Default)]
struct Scratch {
    content: Vec<u8>,
    zstd: Option<DCtx<'static>>,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Shows what is packed in those bytes, as far as it can be read, and no more of it than `bound` bytes: a small content may stand for a
/// huge one.
pub fn unpack<R>(packing: Packing, packed: &[u8], bound: usize, show: impl FnOnce(&[u8]) -> R) -> R {
    let mut scratch = SCRATCH.take().unwrap_or_default();
    let Scratch { content, zstd } = &mut *scratch;
    content.clear();
    match packing {
        Packing::None => content.extend_from_slice(packed.get(..bound).unwrap_or(packed)),
        Packing::Gzip => drain(GzDecoder::new(packed), bound, content),
        Packing::Zlib => drain(ZlibDecoder::new(packed), bound, content),
        Packing::Lz4 => drain(FrameDecoder::new(packed), bound, content),
        Packing::Zstd => {
            let mut decoder = Decoder::with_context(packed, zstd.get_or_insert_with(DCtx::create));
            if decoder.window_log_max(WINDOW).is_ok() {
                drain(decoder, bound, content);
            }
        }
        Packing::Snappy => snappy(packed, bound, content),
    }
    let shown = show(content);
    SCRATCH.set(Some(scratch));
    shown
}

/// Takes what a decoder gives up to the bound. What it gave before an error stays.
fn drain(decoder: impl Read, bound: usize, into: &mut Vec<u8>) {
    // An error ends it as the end does: there is no more to be read.
    let _ = decoder.take(bound as u64).read_to_end(into);
}

/// The blocks of xerial-snappy begin with a name and two versions, each block with its size.
fn snappy(packed: &[u8], bound: usize, into: &mut Vec<u8>) {
    let Some(mut blocks) = packed.strip_prefix(b"\x82SNAPPY\0").and_then(|rest| rest.get(8..)) else {
        snappy_block(packed, bound, into);
        return;
    };
    while let Some((size, rest)) = blocks.split_first_chunk() {
        let Some((block, after)) = rest.split_at_checked(u32::from_be_bytes(*size) as usize) else { break };
        if !snappy_block(block, bound, into) {
            break;
        }
        blocks = after;
    }
}

/// Whether the block could be read and fitted.
fn snappy_block(block: &[u8], bound: usize, into: &mut Vec<u8>) -> bool {
    let Ok(size) = snap::raw::decompress_len(block) else { return false };
    let begin = into.len();
    if size > bound.saturating_sub(begin) {
        return false;
    }
    into.resize(begin + size, 0);
    let room = into.get_mut(begin..).unwrap_or_default();
    let whole = snap::raw::Decoder::new().decompress(block, room).is_ok();
    if !whole {
        into.truncate(begin);
    }
    whole
}

/// Packs a content, for those who try what unpacks it.
///
/// # Errors
/// The encoder refuses it.
pub fn pack(packing: Packing, content: &[u8]) -> Result<Vec<u8>> {
    match packing {
        Packing::None => Ok(content.to_vec()),
        Packing::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(content)?;
            encoder.finish()
        }
        Packing::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(content)?;
            encoder.finish()
        }
        Packing::Snappy => snap::raw::Encoder::new().compress_vec(content).map_err(std::io::Error::other),
        Packing::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(content)?;
            encoder.finish().map_err(std::io::Error::other)
        }
        Packing::Zstd => zstd::encode_all(content, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUND: usize = 4 << 20;

    const ALL: [Packing; 6] =
        [Packing::None, Packing::Gzip, Packing::Zlib, Packing::Snappy, Packing::Lz4, Packing::Zstd];

    #[test]
    fn what_was_packed_is_unpacked() {
        let content: Vec<u8> = (0..100_000_u32).flat_map(|number| (number % 1000).to_be_bytes()).collect();
        for packing in ALL {
            unpack(packing, &pack(packing, &content).unwrap(), BOUND, |seen| {
                assert_eq!(seen, content, "{packing:?}")
            });
        }
        let blocks = content.chunks(30_000).flat_map(|chunk| {
            let block = pack(Packing::Snappy, chunk).unwrap();
            [(block.len() as u32).to_be_bytes().to_vec(), block].concat()
        });
        let xerial: Vec<u8> = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".iter().copied().chain(blocks).collect();
        unpack(Packing::Snappy, &xerial, BOUND, |seen| assert_eq!(seen, content));
    }

    #[test]
    fn a_bomb_is_defused() {
        let content = vec![0; 64 << 20];
        for packing in ALL {
            let packed = pack(packing, &content).unwrap();
            unpack(packing, &packed, BOUND, |seen| assert!(seen.len() <= BOUND, "{packing:?}"));
        }
        let scratch = SCRATCH.take().unwrap();
        assert!(scratch.content.capacity() <= 2 * BOUND);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..300), which in 0_usize..6, at in 0_usize..300) {
            let packing = ALL[which];
            let mut spoilt = pack(packing, &bytes).unwrap();
            if let Some(place) = spoilt.get_mut(at) {
                *place ^= 0x55;
            }
            prop_assert!(unpack(packing, &spoilt, BOUND, <[u8]>::len) <= BOUND);
            prop_assert!(unpack(packing, &bytes, BOUND, <[u8]>::len) <= BOUND);
        }
    }
}
