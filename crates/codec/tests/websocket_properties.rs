//! Frames of WebSocket: what is written is read, however it is cut, and nothing panics.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used)]

use plimsoll_codec::websocket::{Event, Opcode, Reader, Violation, encode_frame};
use proptest::prelude::*;

/// Everything that came to its end, with the content of messages.
fn read_all(reader: &mut Reader, pieces: &[&[u8]]) -> Result<Vec<(String, Vec<u8>)>, Violation> {
    let (mut found, mut data) = (Vec::new(), Vec::new());
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let (taken, event) = reader.read(rest, &mut data)?;
            rest = &rest[taken..];
            match event {
                None => {}
                Some(Event::Message(kind) | Event::Compressed(kind)) => {
                    found.push((format!("{kind:?}"), std::mem::take(&mut data)))
                }
                Some(Event::Ping(content)) => found.push(("Ping".into(), content.to_vec())),
                Some(Event::Pong(content)) => found.push(("Pong".into(), content.to_vec())),
                Some(Event::Close(code, reason)) => {
                    found.push((format!("Close {code:?}"), reason.as_bytes().to_vec()));
                }
            }
        }
    }
    Ok(found)
}

/// RFC 6455, section 5.7.
#[test]
fn the_standards_own_examples_are_read_and_written() {
    let hello: &[u8] = &[0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f];
    let masked: &[u8] = &[0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    let cut: &[u8] = &[0x01, 0x03, 0x48, 0x65, 0x6c, 0x80, 0x02, 0x6c, 0x6f];
    let text = [("Text".to_owned(), b"Hello".to_vec())];
    assert_eq!(read_all(&mut Reader::of_server(), &[hello]).unwrap(), text);
    assert_eq!(read_all(&mut Reader::of_client(), &[masked]).unwrap(), text);
    assert_eq!(read_all(&mut Reader::of_server(), &[cut]).unwrap(), text);
    let mut out = Vec::new();
    encode_frame(Opcode::Text, true, Some([0x37, 0xfa, 0x21, 0x3d]), b"Hello", &mut out);
    assert_eq!(out, masked);
    let long: [(usize, &[u8]); 2] =
        [(256, &[0x82, 0x7e, 0x01, 0x00]), (65536, &[0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0])];
    for (length, head) in long {
        let mut out = Vec::new();
        encode_frame(Opcode::Binary, true, None, &vec![7; length], &mut out);
        assert!(out.starts_with(head) && out.len() == head.len() + length);
        let whole = [("Binary".to_owned(), vec![7; length])];
        assert_eq!(read_all(&mut Reader::of_server(), &[&out]).unwrap(), whole);
    }
}

#[test]
fn what_the_standard_forbids_is_refused() {
    let server: [(&[u8], Violation); 10] = [
        (&[0xc2, 0], Violation::Reserved),
        (&[0x83, 0], Violation::Opcode(3)),
        (&[0x82, 0x80], Violation::Mask),
        (&[0x82, 126, 0, 125], Violation::Length),
        (&[0x82, 127, 0, 0, 0, 0, 0, 0, 255, 255], Violation::Length),
        (&[0x82, 127, 255, 0, 0, 0, 0, 0, 0, 0], Violation::Length),
        (&[0x09, 0], Violation::Control),
        (&[0x89, 126, 0, 126], Violation::Control),
        (&[0x80, 0], Violation::Sequence),
        (&[0x02, 0, 0x82, 0], Violation::Sequence),
    ];
    for (bytes, violation) in server {
        assert_eq!(read_all(&mut Reader::of_server(), &[bytes]), Err(violation), "{bytes:?}");
    }
    assert_eq!(read_all(&mut Reader::of_client(), &[&[0x82, 0]]), Err(Violation::Mask));
    for close in [&[0x88, 1, 3][..], &[0x88, 3, 3, 232, 0xff]] {
        assert_eq!(read_all(&mut Reader::of_server(), &[close]), Err(Violation::Close));
    }
}

proptest! {
    #[test]
    fn messages_are_read_as_written_however_they_are_cut(
        messages in prop::collection::vec((prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..4), any::<bool>()), 1..6),
        key: Option<[u8; 4]>,
        cut in 1usize..50,
    ) {
        let (mut bytes, mut written) = (Vec::new(), Vec::new());
        for (frames, ping) in &messages {
            for (place, content) in frames.iter().enumerate() {
                let opcode = if place == 0 { Opcode::Binary } else { Opcode::Continuation };
                encode_frame(opcode, place + 1 == frames.len(), key, content, &mut bytes);
                if *ping && place + 1 < frames.len() {
                    encode_frame(Opcode::Ping, true, key, b"between", &mut bytes);
                    written.push(("Ping".to_owned(), b"between".to_vec()));
                }
            }
            written.push(("Binary".to_owned(), frames.concat()));
        }
        let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
        let mut reader = if key.is_some() { Reader::of_client() } else { Reader::of_server() };
        prop_assert_eq!(read_all(&mut reader, &pieces), Ok(written));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), client: bool, cut in 1usize..400) {
        let mut reader = if client { Reader::of_client() } else { Reader::of_server() };
        let _ = read_all(&mut reader, &bytes.chunks(cut).collect::<Vec<_>>());
    }
}
