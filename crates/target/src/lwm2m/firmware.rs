//! New firmware for devices: an image of some size, which they download block by block.

use plimsoll_codec::coap::{Block, Message, OptionList, code, option};

/// Where it is.
pub const PATH: &str = "/firmware";
/// What tells it from another image.
const TAG: &[u8] = b"plimsoll";

/// An image of so many bytes, none of them random.
pub fn image(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

/// The answer to a request for a block: its code, its options, its payload, and whether that was the last one.
pub fn serve<'a>(
    image: Option<&'a [u8]>,
    request: &Message<'_>,
    options: &mut OptionList,
) -> (u8, &'a [u8], bool) {
    let Some(image) = image else { return (code::NOT_FOUND, &[], false) };
    let wanted = request.block(option::BLOCK2).unwrap_or(Block::new(0, false, 1024));
    let end = (wanted.begin() + usize::from(wanted.size())).min(image.len());
    let Some(payload) = image.get(wanted.begin()..end).filter(|part| !part.is_empty()) else {
        return (code::BAD_REQUEST, &[], false);
    };
    let is_last = end == image.len();
    options.add(option::ETAG, TAG);
    options.add_number(option::BLOCK2, Block::new(wanted.number, !is_last, wanted.size()).to_number());
    (code::CONTENT, payload, is_last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_codec::coap::Kind;

    #[test]
    fn blocks_make_the_image() {
        let image = image(2500);
        let mut all = Vec::new();
        for number in 0.. {
            let (mut list, mut options) = (OptionList::new(), Vec::new());
            list.add_number(option::BLOCK2, Block::new(number, false, 1024).to_number());
            list.encode(&mut options);
            let request = Message { options: &options, ..Message::empty(Kind::Confirmable, 1) };
            let (code, payload, is_last) = serve(Some(&image), &request, &mut OptionList::new());
            assert_eq!(code, code::CONTENT);
            all.extend_from_slice(payload);
            if is_last {
                break;
            }
        }
        assert_eq!(all, image);
        let request = Message::empty(Kind::Confirmable, 1);
        assert_eq!(serve(None, &request, &mut OptionList::new()).0, code::NOT_FOUND);
    }
}
