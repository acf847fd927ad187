//! Captures that are damaged, and blocks that are not packets: what can be read is, and where it ends is told.

use crate::dissected;
use plimsoll_capture::pipeline::Dissected;
use plimsoll_capture::source::{Ending, Garbage, PacketSource};
use std::io::{self, Cursor, Read, Write};
use std::path::Path;

fn plain(name: &str) -> Vec<u8> {
    let packed = std::fs::read(crate::folder().join(format!("{name}.zst"))).unwrap();
    zstd::decode_all(packed.as_slice()).unwrap()
}

fn read(input: impl Read + Send + 'static) -> Dissected {
    let source = PacketSource::read(Path::new("damaged"), Box::new(input)).unwrap();
    dissected(vec![source], 1).dissected
}

fn ending(dissected: &Dissected) -> &Ending {
    &dissected.endings[0]
}

/// A block of pcapng of that type, with that many bytes of content.
fn block(kind: u32, content: usize) -> Vec<u8> {
    let length = (content as u32 + 12).to_le_bytes();
    let mut block = kind.to_le_bytes().to_vec();
    block.extend_from_slice(&length);
    block.resize(8 + content, 0xa5);
    block.extend_from_slice(&length);
    block
}

/// Where the first packet of a pcapng file begins.
fn first_packet(bytes: &[u8]) -> usize {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut at = 0;
    while word(at) != 6 {
        at += word(at + 4) as usize;
    }
    at
}

#[test]
fn blocks_that_are_no_packets_are_skipped_whatever_their_length() {
    let bytes = plain("http_two_if.pcapng");
    let whole = read(Cursor::new(bytes.clone()));
    let (head, packets) = bytes.split_at(first_packet(&bytes));
    // Decryption secrets, and a block of which nobody knows anything; less and more than is read at once.
    for (kind, content) in [(10, 600 << 10), (10, (512 << 10) - 12), (0xbad, 5 << 20)] {
        let with = [head, &block(kind, content), packets].concat();
        let read = read(Cursor::new(with));
        assert_eq!((read.counts, ending(&read)), (whole.counts, &Ending::default()), "{content}");
    }
}

#[test]
fn a_block_that_claims_more_than_there_is_ends_the_reading_and_is_told() {
    let bytes = plain("http_two_if.pcapng");
    let begin = first_packet(&bytes);
    let (head, packets) = bytes.split_at(begin);
    let mut hostile = block(10, 600 << 10);
    hostile[4..8].copy_from_slice(&0xffff_fffc_u32.to_le_bytes());
    let read_to = read(Cursor::new([head, &hostile, packets].concat()));
    assert_eq!(read_to.counts.packets, 0);
    assert_eq!(ending(&read_to).garbage, Some((begin as u64, Garbage::Block(0xffff_fffc))));
    // A packet is never so long.
    let read_to = read(Cursor::new([head, &block(6, 600 << 10), packets].concat()));
    assert_eq!(ending(&read_to).garbage, Some((begin as u64, Garbage::Length((600 << 10) + 12))));
}

/// Gives some bytes, then fails.
struct Broken(Cursor<Vec<u8>>);

impl Read for Broken {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(io::Error::other("the disk is gone")),
            read => Ok(read),
        }
    }
}

#[test]
fn what_was_read_before_an_error_counts_and_the_error_is_told_with_its_place() {
    let bytes = plain("chain.pcap");
    let whole = read(Cursor::new(bytes.clone()));
    let read_to = read(Broken(Cursor::new(bytes.clone())));
    assert_eq!(read_to.counts, whole.counts);
    assert_eq!(ending(&read_to).error, Some((bytes.len() as u64, "the disk is gone".into())));
    // One of several files: the others are read to their ends.
    let source = |input: Box<dyn Read + Send>| PacketSource::read(Path::new("x"), input).unwrap();
    let both = vec![
        source(Box::new(Broken(Cursor::new(bytes[..bytes.len() / 2].to_vec())))),
        source(Box::new(Cursor::new(bytes))),
    ];
    let both = dissected(both, 1).dissected;
    assert!(both.counts.packets > whole.counts.packets);
    assert!(both.endings[0].error.is_some() && both.endings[1] == Ending::default());
}

#[test]
fn packed_files_that_are_cut_or_corrupt_tell_what_they_hold() {
    let bytes = plain("chain.pcap");
    let whole = read(Cursor::new(bytes.clone())).counts.packets;
    let gzip = |bytes: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    };
    let (one, other) = bytes.split_at(bytes.len() / 2);
    let members = [gzip(one), gzip(other)];
    assert_eq!(ending(&read(Cursor::new(members.concat()))), &Ending::default());
    let mut corrupt = members.concat();
    let at = members[0].len() + 5000;
    corrupt[at..at + 16].fill(0xff);
    let zstd = zstd::encode_all(bytes.as_slice(), 1).unwrap();
    let read_some = |damaged: Vec<u8>| {
        let read_to = read(Cursor::new(damaged));
        assert!((1..whole).contains(&read_to.counts.packets), "{} of {whole}", read_to.counts.packets);
        ending(&read_to).clone()
    };
    for cut in [gzip(&bytes)[..30_000].to_vec(), zstd[..zstd.len() / 2].to_vec()] {
        let (at, error) = read_some(cut).error.unwrap();
        assert!(at > 0 && at < bytes.len() as u64 && !error.is_empty());
    }
    // What comes out of a corrupt member may look wrong before its check does.
    let corrupt = read_some(corrupt);
    assert!(corrupt.error.is_some() || corrupt.garbage.is_some());
}

#[test]
fn following_ends_where_the_file_is_cut_replaced_or_removed() {
    let bytes = plain("coap_udp.pcap");
    let whole = read(Cursor::new(bytes.clone()));
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("followed.pcap");
    let events: [(&str, &dyn Fn()); 3] = [
        ("cut", &|| std::fs::write(&path, &bytes[..20]).unwrap()),
        ("replaced", &|| std::fs::rename(folder.path().join("next.pcap"), &path).unwrap()),
        ("removed", &|| std::fs::remove_file(&path).unwrap()),
    ];
    for (word, event) in events {
        for name in ["followed.pcap", "next.pcap"] {
            std::fs::write(folder.path().join(name), &bytes).unwrap();
        }
        // Reading goes on for as long as nothing tells it that it is over.
        let source = PacketSource::open(&path).unwrap().follow(|| true);
        event();
        let read = dissected(vec![source], 1).dissected;
        let (_, error) = ending(&read).error.clone().unwrap();
        assert!(error.contains(word), "{word}: {error}");
        let expected =
            if word == "cut" { 0..whole.counts.packets + 1 } else { whole.counts.packets..u64::MAX };
        assert!(expected.contains(&read.counts.packets), "{word}: {}", read.counts.packets);
    }
}

#[test]
fn many_small_files_are_one_capture() {
    let bytes = plain("coap_udp.pcap");
    let (head, mut rest) = bytes.split_at(24);
    let mut sources = Vec::new();
    while let Some(length) = rest.get(8..12) {
        let length = 16 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (record, after) = rest.split_at(length);
        let input = Cursor::new([head, record].concat());
        sources.push(PacketSource::read(Path::new("one.pcap"), Box::new(input)).unwrap());
        rest = after;
    }
    assert!(sources.len() > 200);
    let many = dissected(sources, 1).dissected;
    let whole = read(Cursor::new(bytes));
    assert_eq!((many.counts, many.first, many.last), (whole.counts, whole.first, whole.last));
}
