//! What is too large for one message (RFC 7959): an answer goes out block by block, and what a server writes comes in so.

use super::conditions::fingerprint;
use super::firmware;
use super::operations::Reply;
use crate::drivers::coap::message_ids::EXCHANGE_LIFETIME;
use plimsoll_codec::coap::{Block, Message, code};
use plimsoll_codec::lwm2m::{Path, format};
use plimsoll_model::Nanos;

/// Bytes that a server may write in blocks.
const LARGEST_BODY: usize = 4 << 20;

/// Leaves of a body the block that was asked for; what fits into a block of that size and was not asked for in blocks stays whole.
/// The tag tells the server if the next block is one of another body: what a device has changes between two requests.
pub fn cut(reply: &mut Reply, asked: Option<Block>, size: u16, body: &mut Vec<u8>) {
    if asked.is_none() && body.len() <= usize::from(size) {
        return;
    }
    let size = asked.map_or(size, |asked| asked.size().min(size));
    // A block that was asked for in a larger size begins where it does in that one.
    let begin = asked.map_or(0, |asked| asked.begin());
    let number = (begin / usize::from(size)) as u32;
    if number > 0 && begin >= body.len() {
        (*reply, *body) = (Reply::of(code::BAD_REQUEST), Vec::new());
        return;
    }
    let end = (begin + usize::from(size)).min(body.len());
    reply.tag = Some((fingerprint(body) as u32).to_be_bytes());
    reply.block2 = Some(Block::new(number, end < body.len(), size));
    body.truncate(end);
    body.drain(..begin);
}

/// A body that comes in blocks: what it is for, and what came of it.
#[derive(Debug)]
pub struct Upload {
    code: u8,
    path: String,
    body: Vec<u8>,
    /// Its bytes so far. Of an image, whose bytes nobody reads, only the beginning is kept.
    length: usize,
    is_image: bool,
    /// When its newest block came.
    at: Nanos,
}

impl Upload {
    /// Whether nobody goes on with it: its request would have been forgotten by now (RFC 7252 section 4.8.2).
    pub fn is_given_up(&self, now: Nanos) -> bool {
        now - self.at > EXCHANGE_LIFETIME
    }

    /// Bytes of memory that it takes.
    pub fn kept(&self) -> usize {
        self.body.len()
    }
}

/// What became of a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// More are to come.
    Continue,
    /// It was the last one.
    Whole {
        /// The body; of an image only its beginning.
        body: Vec<u8>,
        /// Its bytes.
        length: usize,
    },
    /// It is refused with that code.
    Refused(u8),
}

/// Takes a block of a request. One that does not go on where the last one ended is refused (section 2.9.2).
pub fn take(upload: &mut Option<Upload>, block: Block, request: &Message<'_>, now: Nanos) -> Taken {
    let path = request.path();
    if block.number == 0 {
        let is_image =
            Path::parse(&path) == Some(firmware::PACKAGE) && request.content_format() == Some(format::OPAQUE);
        let (code, path) = (request.code, path.clone());
        *upload = Some(Upload { code, path, body: Vec::new(), length: 0, is_image, at: now });
    }
    let goes_on =
        |own: &&mut Upload| own.code == request.code && own.path == path && own.length == block.begin();
    let Some(own) = upload.as_mut().filter(goes_on) else {
        *upload = None;
        return Taken::Refused(code::INCOMPLETE);
    };
    // Only the last block may be shorter than the others.
    let is_cut = block.more && request.payload.len() != usize::from(block.size());
    if is_cut || own.length + request.payload.len() > LARGEST_BODY {
        *upload = None;
        return Taken::Refused(if is_cut { code::BAD_REQUEST } else { code::TOO_LARGE });
    }
    (own.length, own.at) = (own.length + request.payload.len(), now);
    if !own.is_image || own.body.is_empty() {
        own.body.extend_from_slice(request.payload);
    }
    if block.more {
        return Taken::Continue;
    }
    upload.take().map_or(Taken::Continue, |Upload { body, length, .. }| Taken::Whole { body, length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_codec::coap::{Kind, OptionList};
    use proptest::prelude::*;

    fn options(path: &str) -> Vec<u8> {
        let (mut list, mut options) = (OptionList::new(), Vec::new());
        list.add_target(path.as_bytes());
        list.encode(&mut options);
        options
    }

    fn put<'a>(options: &'a [u8], payload: &'a [u8]) -> Message<'a> {
        Message { code: code::PUT, options, payload, ..Message::empty(Kind::Confirmable, 1) }
    }

    fn take(upload: &mut Option<Upload>, block: Block, request: &Message<'_>) -> Taken {
        super::take(upload, block, request, Nanos::ZERO)
    }

    #[test]
    fn a_small_body_stays_whole_unless_blocks_are_asked_for() {
        let (mut reply, mut body) = (Reply::of(code::CONTENT), vec![7; 64]);
        cut(&mut reply, None, 64, &mut body);
        assert_eq!((reply, body.len()), (Reply::of(code::CONTENT), 64));
        cut(&mut reply, Some(Block::new(1, false, 32)), 64, &mut body);
        assert_eq!((reply.block2, body.len()), (Some(Block::new(1, false, 32)), 32));
        let (mut larger, mut long) = (Reply::of(code::CONTENT), vec![7; 300]);
        cut(&mut larger, Some(Block::new(1, false, 128)), 64, &mut long);
        assert_eq!(larger.block2, Some(Block::new(2, true, 64)), "it begins at byte 128 in both sizes");
        cut(&mut reply, Some(Block::new(9, false, 32)), 64, &mut body);
        assert_eq!((reply.code, body.len()), (code::BAD_REQUEST, 0));
    }

    #[test]
    fn the_tag_changes_with_the_body() {
        let tag = |byte: u8| {
            let (mut reply, mut body) = (Reply::of(code::CONTENT), vec![byte; 100]);
            cut(&mut reply, None, 64, &mut body);
            reply.tag
        };
        assert!(tag(1) == tag(1) && tag(1) != tag(2) && tag(1).is_some());
    }

    #[test]
    fn an_image_is_counted_and_not_kept() {
        let (mut list, mut options) = (OptionList::new(), Vec::new());
        list.add_target(b"/5/0/0");
        list.add_number(plimsoll_codec::coap::option::CONTENT_FORMAT, u32::from(format::OPAQUE));
        list.encode(&mut options);
        let mut upload = None;
        for number in 0..100 {
            let taken = take(&mut upload, Block::new(number, true, 1024), &put(&options, &[7; 1024]));
            assert_eq!((taken, upload.as_ref().map(Upload::kept)), (Taken::Continue, Some(1024)));
        }
        let taken = take(&mut upload, Block::new(100, false, 1024), &put(&options, b"end"));
        assert_eq!(taken, Taken::Whole { body: vec![7; 1024], length: 100 * 1024 + 3 });
    }

    #[test]
    fn a_block_that_does_not_go_on_is_refused() {
        let (one, other) = (options("/5/0/0"), options("/5/0/1"));
        let (mut upload, block) = (None, |number, more| Block::new(number, more, 16));
        assert_eq!(take(&mut upload, block(1, true), &put(&one, &[0; 16])), Taken::Refused(code::INCOMPLETE));
        assert_eq!(take(&mut upload, block(0, true), &put(&one, &[0; 16])), Taken::Continue);
        assert_eq!(take(&mut upload, block(1, false), &put(&other, b"x")), Taken::Refused(code::INCOMPLETE));
        assert_eq!(take(&mut upload, block(1, false), &put(&one, b"x")), Taken::Refused(code::INCOMPLETE));
        assert_eq!(
            take(&mut upload, block(0, true), &put(&one, b"short")),
            Taken::Refused(code::BAD_REQUEST)
        );
        assert_eq!(take(&mut upload, block(0, true), &put(&one, &[1; 16])), Taken::Continue);
        let whole = Taken::Whole { body: [&[1; 16][..], b"end"].concat(), length: 19 };
        assert_eq!(take(&mut upload, block(1, false), &put(&one, b"end")), whole);
    }

    proptest! {
        #[test]
        fn blocks_that_were_cut_make_the_body_again(length in 0..3000_usize, exponent in 4..11_u32) {
            let whole: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (options, size) = (options("/19/0/0"), 1 << exponent);
            let (mut upload, mut number) = (None, 0);
            loop {
                let (mut reply, mut body) = (Reply::of(code::CONTENT), whole.clone());
                cut(&mut reply, Some(Block::new(number, false, size)), 1024, &mut body);
                match take(&mut upload, reply.block2.unwrap(), &put(&options, &body)) {
                    Taken::Continue => number += 1,
                    taken => {
                        prop_assert_eq!(taken, Taken::Whole { length: whole.len(), body: whole });
                        break;
                    }
                }
            }
        }
    }
}
