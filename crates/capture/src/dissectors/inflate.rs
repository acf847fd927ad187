//! Compressed content, opened for the markers in it. A message is given up after [`KEPT`] bytes, so that a small
//! message cannot ask for much memory or time.

use crate::dissect::KEPT;
use flate2::{Decompress, FlushDecompress, Status};

/// Bytes that are decompressed at a time.
const PIECE: usize = 1 << 14;

/// How content is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrap {
    /// RFC 1951.
    Raw,
    /// RFC 1950.
    Zlib,
    /// RFC 1952.
    Gzip,
}

/// The content of a message, decompressed as it comes.
pub(super) struct Inflate {
    wrap: Wrap,
    decoder: Decompress,
    content: Vec<u8>,
    /// Of gzip's header, kept until it is whole.
    header: Option<Vec<u8>>,
    /// Something was wrong or too long: nothing more is opened.
    broken: bool,
}

impl Inflate {
    pub fn new(wrap: Wrap) -> Inflate {
        Inflate {
            wrap,
            decoder: Decompress::new(wrap == Wrap::Zlib),
            content: Vec::new(),
            header: (wrap == Wrap::Gzip).then(Vec::new),
            broken: false,
        }
    }

    /// The next compressed bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        match self.header.take() {
            None => self.inflate(bytes),
            Some(mut header) => {
                header.extend_from_slice(bytes);
                match gzip_header(&header) {
                    Some(length) => self.inflate(&header[length..]),
                    None if header.len() < PIECE => self.header = Some(header),
                    None => self.broken = true,
                }
            }
        }
    }

    fn inflate(&mut self, mut bytes: &[u8]) {
        while !self.broken {
            let (taken, given) = (self.decoder.total_in(), self.decoder.total_out());
            self.content.reserve(PIECE);
            let status = self.decoder.decompress_vec(bytes, &mut self.content, FlushDecompress::Sync);
            let taken = (self.decoder.total_in() - taken) as usize;
            bytes = bytes.get(taken..).unwrap_or_default();
            match status {
                Err(_) => self.broken = true,
                Ok(Status::StreamEnd) if self.wrap == Wrap::Raw => {
                    // The next message begins anew (RFC 7692, section 7.2.3.4).
                    self.decoder.reset(false);
                    return;
                }
                Ok(Status::StreamEnd) => return,
                Ok(_) if taken == 0 && self.decoder.total_out() == given => return,
                Ok(_) => {}
            }
            self.broken |= self.content.len() > KEPT;
        }
    }

    /// What has come out since the last [`Inflate::clear`].
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Forgets what has come out; the window stays, as it does from message to message.
    pub fn clear(&mut self) {
        self.content.clear();
        self.content.shrink_to(PIECE * 2);
        if self.broken {
            // What comes next may do without what was before.
            self.decoder.reset(self.wrap == Wrap::Zlib);
            self.broken = false;
        }
    }
}

/// The length of a gzip header (RFC 1952, section 2.3), where it is whole.
fn gzip_header(bytes: &[u8]) -> Option<usize> {
    let &[0x1f, 0x8b, 8, flags, _, _, _, _, _, _, ..] = bytes else { return None };
    let mut at = 10;
    if flags & 4 != 0 {
        let &[low, high] = bytes.get(at..at + 2)? else { return None };
        at += 2 + usize::from(u16::from_le_bytes([low, high]));
    }
    // Name and comment, each up to a zero byte.
    for flag in [8, 16] {
        if flags & flag != 0 {
            at += memchr::memchr(0, bytes.get(at..)?)? + 1;
        }
    }
    if flags & 2 != 0 {
        at += 2;
    }
    (at <= bytes.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn content_is_opened_in_pieces_of_any_size() {
        let text = b"plm1:d1:7; and again plm1:d1:8;".repeat(100);
        let mut gzip = flate2::GzBuilder::new()
            .filename("name")
            .comment("why")
            .extra("more")
            .write(Vec::new(), Default::default());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
        zlib.write_all(&text).unwrap();
        let zlib = zlib.finish().unwrap();
        for (wrap, packed) in [(Wrap::Gzip, gzip), (Wrap::Zlib, zlib)] {
            for size in [1, 7, packed.len()] {
                let mut inflate = Inflate::new(wrap);
                packed.chunks(size).for_each(|piece| inflate.push(piece));
                assert_eq!(inflate.content(), text);
            }
        }
    }

    #[test]
    fn what_grows_without_end_is_given_up() {
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&vec![0; 64 * KEPT]).unwrap();
        let packed = packed.finish().unwrap();
        let mut inflate = Inflate::new(Wrap::Zlib);
        inflate.push(&packed);
        assert!(inflate.content().len() <= 2 * KEPT, "{}", inflate.content().len());
    }

    #[test]
    fn garbage_gives_nothing() {
        for wrap in [Wrap::Raw, Wrap::Zlib, Wrap::Gzip] {
            let mut inflate = Inflate::new(wrap);
            inflate.push(&[0xff; 40_000]);
            inflate.push(&[0xff; 40_000]);
            assert_eq!(inflate.content(), b"");
        }
    }
}
