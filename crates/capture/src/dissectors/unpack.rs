//! Compressed contents, opened as far as a bound allows.

use flate2::read::{GzDecoder, ZlibDecoder};
use lz4_flex::frame::FrameDecoder;
use std::cell::Cell;
use std::io::Read;
use zstd::stream::read::Decoder;
use zstd::zstd_safe::DCtx;

/// The most that is unpacked of one content, bytes: a small content may stand for a huge one.
pub(super) const UNPACKED: usize = 4 << 20;
/// The largest window that Zstandard may ask for, as a power of two.
const WINDOW: u32 = 23;
/// How a content is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Gzip,
    Zlib,
    /// Raw, or in the blocks of the Java library xerial-snappy.
    Snappy,
    /// In frames.
    Lz4,
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

/// Shows what is packed in those bytes, as far as it can be read and the bound allows.
pub(super) fn unpack<R>(packing: Packing, packed: &[u8], show: impl FnOnce(&[u8]) -> R) -> R {
    let mut scratch = SCRATCH.take().unwrap_or_default();
    let Scratch { content, zstd } = &mut *scratch;
    content.clear();
    match packing {
        Packing::None => content.extend_from_slice(&packed[..packed.len().min(UNPACKED)]),
        Packing::Gzip => drain(GzDecoder::new(packed), content),
        Packing::Zlib => drain(ZlibDecoder::new(packed), content),
        Packing::Lz4 => drain(FrameDecoder::new(packed), content),
        Packing::Zstd => {
            let mut decoder = Decoder::with_context(packed, zstd.get_or_insert_with(DCtx::create));
            if decoder.window_log_max(WINDOW).is_ok() {
                drain(decoder, content);
            }
        }
        Packing::Snappy => snappy(packed, content),
    }
    let shown = show(content);
    SCRATCH.set(Some(scratch));
    shown
}

/// Takes what a decoder gives up to the bound. What it gave before an error stays.
fn drain(decoder: impl Read, into: &mut Vec<u8>) {
    // An error ends it as the end does: there is no more to be read.
    let _ = decoder.take(UNPACKED as u64).read_to_end(into);
}

/// The blocks of xerial-snappy begin with a name and two versions, each block with its size.
fn snappy(packed: &[u8], into: &mut Vec<u8>) {
    let Some(mut blocks) = packed.strip_prefix(b"\x82SNAPPY\0").and_then(|rest| rest.get(8..)) else {
        snappy_block(packed, into);
        return;
    };
    while let Some((size, rest)) = blocks.split_first_chunk() {
        let Some(block) = rest.get(..u32::from_be_bytes(*size) as usize) else { break };
        if !snappy_block(block, into) {
            break;
        }
        blocks = &rest[block.len()..];
    }
}

/// Whether the block could be read and fitted.
fn snappy_block(block: &[u8], into: &mut Vec<u8>) -> bool {
    let Ok(size) = snap::raw::decompress_len(block) else { return false };
    let begin = into.len();
    if size > UNPACKED - begin {
        return false;
    }
    into.resize(begin + size, 0);
    let whole = snap::raw::Decoder::new().decompress(block, &mut into[begin..]).is_ok();
    if !whole {
        into.truncate(begin);
    }
    whole
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    const ALL: [Packing; 6] =
        [Packing::None, Packing::Gzip, Packing::Zlib, Packing::Snappy, Packing::Lz4, Packing::Zstd];

    /// Packs a content.
    pub fn pack(packing: Packing, content: &[u8]) -> Vec<u8> {
        match packing {
            Packing::None => content.to_vec(),
            Packing::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
            Packing::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
            Packing::Snappy => snap::raw::Encoder::new().compress_vec(content).unwrap(),
            Packing::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
            Packing::Zstd => zstd::encode_all(content, 1).unwrap(),
        }
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        let content: Vec<u8> = (0..100_000_u32).flat_map(|number| (number % 1000).to_be_bytes()).collect();
        for packing in ALL {
            unpack(packing, &pack(packing, &content), |seen| assert_eq!(seen, content, "{packing:?}"));
        }
        let blocks = content.chunks(30_000).flat_map(|chunk| {
            let block = pack(Packing::Snappy, chunk);
            [(block.len() as u32).to_be_bytes().to_vec(), block].concat()
        });
        let xerial: Vec<u8> = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".iter().copied().chain(blocks).collect();
        unpack(Packing::Snappy, &xerial, |seen| assert_eq!(seen, content));
    }

    #[test]
    fn a_bomb_is_defused() {
        let content = vec![0; 64 << 20];
        for packing in ALL {
            let packed = pack(packing, &content);
            unpack(packing, &packed, |seen| assert!(seen.len() <= UNPACKED, "{packing:?}"));
        }
        let scratch = SCRATCH.take().unwrap();
        assert!(scratch.content.capacity() <= 2 * UNPACKED);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..300), which in 0_usize..6, at in 0_usize..300) {
            let packing = ALL[which];
            let mut spoilt = pack(packing, &bytes);
            if let Some(place) = spoilt.get_mut(at) {
                *place ^= 0x55;
            }
                prop_assert!(unpack(packing, &spoilt, <[u8]>::len) <= UNPACKED);
            prop_assert!(unpack(packing, &bytes, <[u8]>::len) <= UNPACKED);
        }
    }
}
