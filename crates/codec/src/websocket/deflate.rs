//! Compressed messages (RFC 7692), each by itself: no context is kept from one to the next, so that all connections of a thread can share
//! what compresses, whose memory is larger than all else that a connection has.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// The extension as it is asked for (section 7.1). A server that keeps its context must decline it.
pub const OFFER: &str = "permessage-deflate; client_no_context_takeover; server_no_context_takeover";
/// What ends the compressed content of a message, and is left out (section 7.2.1).
const END: [u8; 4] = [0, 0, 0xff, 0xff];
/// Room that is made at once for content that becomes longer, in bytes.
const ROOM: usize = 4096;

/// Why a compressed message cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeflateError {
    /// The content was not compressed as the standard says.
    #[error("a compressed message cannot be decompressed")]
    Malformed,
    /// The content becomes longer than what is taken.
    #[error("a compressed message has more than {0} bytes")]
    TooLong(usize),
}

/// Compresses and decompresses messages, one after the other.
pub struct Deflate {
    compress: Compress,
    decompress: Decompress,
}

impl Default for Deflate {
    fn default() -> Deflate {
        Deflate { compress: Compress::new(Compression::default(), false), decompress: Decompress::new(false) }
    }
}

impl Deflate {
    /// Appends the content of a message, compressed.
    pub fn compress(&mut self, content: &[u8], out: &mut Vec<u8>) {
        self.compress.reset();
        // Room for all that it can become: what does not find room at once would stay within, without its end.
        out.reserve(content.len() + content.len() / 8 + ROOM);
        // It fails only for a state that `reset` has left.
        let _ = self.compress.compress_vec(content, out, FlushCompress::Sync);
        if out.ends_with(&END) {
            out.truncate(out.len() - END.len());
        }
    }

    /// Appends the content of a compressed message, of at most so many bytes.
    ///
    /// # Errors
    /// It cannot be decompressed, or is longer.
    pub fn decompress(
        &mut self,
        content: &[u8],
        largest: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DeflateError> {
        self.decompress.reset(false);
        let begin = out.len();
        for piece in [content, &END] {
            let mut rest = piece;
            loop {
                out.reserve(ROOM);
                let (before, length) = (self.decompress.total_in(), out.len());
                let status = self.decompress.decompress_vec(rest, out, FlushDecompress::Sync);
                let status = status.map_err(|_| DeflateError::Malformed)?;
                if out.len() - begin > largest {
                    return Err(DeflateError::TooLong(largest));
                }
                let taken = (self.decompress.total_in() - before) as usize;
                rest = rest.get(taken..).unwrap_or_default();
                let has_room = out.len() < out.capacity();
                // The last block of all may be said; what follows it would be another message.
                if status == Status::StreamEnd || rest.is_empty() && has_room {
                    break;
                }
                if taken == 0 && out.len() == length && has_room {
                    return Err(DeflateError::Malformed);
                }
            }
        }
        Ok(())
    }
}

/// Whether a server's `Sec-WebSocket-Extensions` agrees to what was asked for.
pub fn is_agreed(extensions: &str) -> bool {
    let mut words = extensions.split(';').map(str::trim);
    let is_deflate = words.next() == Some("permessage-deflate");
    let mut forgets = false;
    let is_known = |word: &str| match word.split_once('=') {
        None if word == "server_no_context_takeover" => {
            forgets = true;
            true
        }
        None => word == "client_no_context_takeover",
        // A smaller window than ours can be read.
        Some((name, bits)) => {
            name.trim() == "server_max_window_bits" && bits.trim().trim_matches('"').parse::<u8>().is_ok()
        }
    };
    let are_known = words.all(is_known);
    is_deflate && are_known && forgets
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 7692, section 7.2.3.1 and 7.2.3.3: "Hello" as one block with fixed codes, and as one without compression.
    #[test]
    fn the_standards_own_examples_are_read() {
        for compressed in [
            &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..],
            &[0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
        ] {
            let mut out = Vec::new();
            Deflate::default().decompress(compressed, 100, &mut out).unwrap();
            assert_eq!(out, b"Hello");
        }
        let mut out = Vec::new();
        Deflate::default().compress(b"Hello", &mut out);
        assert_eq!(out, [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]);
    }

    /// Where blocks end, nothing of a message stays within.
    #[test]
    fn messages_of_any_length_are_whole() {
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let content: Vec<u8> = (0..200_000).map(|_| random()).collect();
        let mut deflate = Deflate::default();
        for length in (31_700..32_100).chain((65_500..65_600).step_by(7)).chain([131_072, 200_000]) {
            let (mut compressed, mut out) = (Vec::new(), b"kept".to_vec());
            deflate.compress(&content[..length], &mut compressed);
            assert_eq!(deflate.decompress(&compressed, length, &mut out), Ok(()), "{length}");
            assert!(out.starts_with(b"kept") && out[4..] == content[..length], "{length}");
        }
    }

    #[test]
    fn a_bomb_is_stopped_and_garbage_is_an_error() {
        let (mut deflate, mut bomb, mut out) = (Deflate::default(), Vec::new(), Vec::new());
        deflate.compress(&vec![0; 10_000_000], &mut bomb);
        assert!(bomb.len() < 20_000);
        assert_eq!(deflate.decompress(&bomb, 100_000, &mut out), Err(DeflateError::TooLong(100_000)));
        assert!(out.len() < 200_000);
        out.clear();
        assert_eq!(deflate.decompress(&[0xff; 9], 100_000, &mut out), Err(DeflateError::Malformed));
        out.clear();
        // What went wrong does not reach the next message.
        let mut sound = Vec::new();
        deflate.compress(b"sound", &mut sound);
        deflate.decompress(&sound, 100, &mut out).unwrap();
        assert_eq!(out, b"sound");
    }

    #[test]
    fn only_an_agreement_without_contexts_is_one() {
        for agreed in [
            "permessage-deflate; server_no_context_takeover",
            "permessage-deflate; client_no_context_takeover;server_no_context_takeover; server_max_window_bits=10",
        ] {
            assert!(is_agreed(agreed), "{agreed}");
        }
        for not in [
            "",
            "permessage-deflate",
            "permessage-deflate; server_no_context_takeover; x",
            "permessage-deflate; server_no_context_takeover; client_max_window_bits=10",
            "permessage-deflate; server_no_context_takeover, x",
            "permessage-bzip2; server_no_context_takeover",
        ] {
            assert!(!is_agreed(not), "{not}");
        }
    }

    proptest! {
        #[test]
        fn what_was_compressed_is_read_again(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20_000), 1..4)) {
            let mut deflate = Deflate::default();
            for content in contents {
                let (mut compressed, mut out) = (Vec::new(), Vec::new());
                deflate.compress(&content, &mut compressed);
                prop_assert_eq!(deflate.decompress(&compressed, content.len(), &mut out), Ok(()));
                prop_assert_eq!(out, content);
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            let _ = Deflate::default().decompress(&bytes, 1000, &mut out);
            prop_assert!(out.len() <= 1000 + 2 * ROOM);
        }
    }
}
