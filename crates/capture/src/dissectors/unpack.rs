//! Compressed contents, opened as far as a bound allows.

use flate2::read::{GzDecoder, ZlibDecoder};
use lz4_flex::frame::FrameDecoder;
use std::io::Read;

/// The most that is unpacked of one content, bytes: a small content may stand for a huge one.
pub(super) const UNPACKED: usize = 4 << 20;
/// The largest window that Zstandard may ask for, as a power of two.
const WINDOW: u32 = 23;
/// Scratch memory that is kept between contents, bytes.
const SCRATCH: usize = 1 << 18;

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

/// Unpacks contents, one after the other.
#[derive(Default)]
pub(super) struct Unpacker {
    scratch: Vec<u8>,
}

impl Unpacker {
    /// What is packed in those bytes, as far as it can be read and the bound allows.
    pub fn unpack(&mut self, packing: Packing, packed: &[u8]) -> &[u8] {
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH);
        let into = &mut self.scratch;
        match packing {
            Packing::None => into.extend_from_slice(&packed[..packed.len().min(UNPACKED)]),
            Packing::Gzip => drain(GzDecoder::new(packed), into),
            Packing::Zlib => drain(ZlibDecoder::new(packed), into),
            Packing::Lz4 => drain(FrameDecoder::new(packed), into),
            Packing::Zstd => {
                if let Ok(mut decoder) = zstd::stream::read::Decoder::with_buffer(packed)
                    && decoder.window_log_max(WINDOW).is_ok()
                {
                    drain(decoder, into);
                }
            }
            Packing::Snappy => snappy(packed, into),
        }
        &self.scratch
    }
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
        let mut unpacker = Unpacker::default();
        let content: Vec<u8> = (0..100_000_u32).flat_map(|number| (number % 1000).to_be_bytes()).collect();
        for packing in ALL {
            assert_eq!(unpacker.unpack(packing, &pack(packing, &content)), content, "{packing:?}");
        }
        let blocks = content.chunks(30_000).flat_map(|chunk| {
            let block = pack(Packing::Snappy, chunk);
            [(block.len() as u32).to_be_bytes().to_vec(), block].concat()
        });
        let xerial: Vec<u8> = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".iter().copied().chain(blocks).collect();
        assert_eq!(unpacker.unpack(Packing::Snappy, &xerial), content);
    }

    #[test]
    fn a_bomb_is_defused() {
        let mut unpacker = Unpacker::default();
        let content = vec![0; 64 << 20];
        for packing in ALL {
            let packed = pack(packing, &content);
            assert!(unpacker.unpack(packing, &packed).len() <= UNPACKED, "{packing:?}");
            assert!(unpacker.scratch.capacity() <= 2 * UNPACKED, "{packing:?}");
        }
        unpacker.unpack(Packing::None, b"small");
        assert!(unpacker.scratch.capacity() <= SCRATCH);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..300), which in 0_usize..6, at in 0_usize..300) {
            let packing = ALL[which];
            let mut spoilt = pack(packing, &bytes);
            if let Some(place) = spoilt.get_mut(at) {
                *place ^= 0x55;
            }
            let mut unpacker = Unpacker::default();
            prop_assert!(unpacker.unpack(packing, &spoilt).len() <= UNPACKED);
            prop_assert!(unpacker.unpack(packing, &bytes).len() <= UNPACKED);
        }
    }
}
