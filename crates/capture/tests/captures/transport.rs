//! Packets and TCP: what the kernel counted, and what was done to the edited captures.

use crate::{Reading, count, read, truth};
use plimsoll_capture::source::PacketSource;
use plimsoll_capture::tally::Counted;
use serde_json::Value;
use std::io::Cursor;
use std::path::Path;

fn whole(reading: &Reading) -> Counted {
    let mut sum = Counted::default();
    reading.dissected.tally.services().iter().for_each(|(_, counted)| sum.merge(counted));
    sum
}

/// Segments that the kernels of both ends have sent again.
fn kernels(truth: &Value) -> u64 {
    truth["capture_info"]["kernel_RetransSegs"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum()
}

#[test]
fn every_packet_is_counted() {
    for name in
        ["chain.pcap", "http_any_sll1.pcap", "http_any_sll2.pcap", "http_two_if.pcapng", "redis_ns.pcap"]
    {
        let reading = read(name);
        let (stem, _) = name.rsplit_once('.').unwrap();
        assert_eq!(reading.dissected.counts.packets, truth(stem)["capture_info"]["captured"], "{name}");
        assert_eq!((reading.dissected.counts.cut, reading.dissected.counts.others), (0, 0), "{name}");
    }
}

#[test]
fn retransmissions_are_those_of_the_kernels() {
    for name in ["loss_rx", "wan_real", "chain", "coap_tcp", "postgres", "http_ipv6", "any_bridge_dups"] {
        let sum = whole(&read(&format!("{name}.pcap")));
        assert_eq!(sum.retransmissions.iter().sum::<u64>(), kernels(&truth(name)), "{name}");
        assert_eq!(sum.missing, 0, "{name}");
    }
}

/// Where packets are lost before they are captured, the first SYN of a connection leaves no trace, nor does its repetition.
#[test]
fn what_was_lost_before_the_capture_shows_in_its_repetition() {
    let truth = truth("loss_tx");
    let syns =
        ["client_ns", "server_ns"].map(|side| truth["tcp_loss"][side]["TCPSynRetrans"].as_u64().unwrap());
    let sum = whole(&read("loss_tx.pcap"));
    assert_eq!(
        sum.retransmissions.iter().sum::<u64>(),
        count(&truth, "tcp_retransmitted_segments") - syns.iter().sum::<u64>()
    );
    assert!(sum.retransmission_delays.count() > 0);
}

#[test]
fn packets_of_two_interfaces_count_once() {
    let reading = read("any_bridge_dups.pcap");
    assert_eq!(reading.dissected.tally.duplicate_packets * 2, reading.dissected.counts.packets);
    let content: u64 = whole(&reading).bytes.iter().sum();
    assert!(2 * content < reading.dissected.counts.bytes, "{content} bytes, each once");
}

/// A defect of the capture is none of the network.
#[test]
fn missing_doubled_and_late_packets_are_told_apart() {
    let reading = read("synth_drop_dup_reorder.pcap");
    let truth = truth("synth_drop_dup_reorder");
    let sum = whole(&reading);
    assert_eq!(sum.retransmissions, [0, 0]);
    assert_eq!(reading.dissected.tally.duplicate_packets, truth["duplicates"]);
    let missing: Vec<u64> = truth["actions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|action| action[0] == "missing")
        .map(|action| action[2].as_u64().unwrap())
        .collect();
    // A FIN that is missing has a number like a byte.
    let (bytes, empty) =
        (missing.iter().sum::<u64>(), missing.iter().filter(|&&bytes| bytes == 0).count() as u64);
    assert!((bytes..=bytes + empty).contains(&sum.missing), "{} for {bytes}", sum.missing);
}

#[test]
fn edited_captures_of_the_same_traffic_hold_the_same() {
    let original = whole(&read("http_veth_nooffload.pcap"));
    for name in ["synth_vlan.pcap", "synth_clock_back.pcap", "synth_snap96.pcap"] {
        assert_eq!(whole(&read(name)).bytes, original.bytes, "{name}");
    }
    let reading = read("synth_clock_back.pcap");
    assert_eq!(reading.dissected.counts.clock_steps, 1);
    let original = whole(&read("coap_udp.pcap"));
    for name in ["synth_bigendian.pcap", "synth_ipfrag.pcap"] {
        assert_eq!(whole(&read(name)).bytes, original.bytes, "{name}");
    }
    assert_eq!(
        read("synth_ipfrag.pcap").dissected.counts.fragments,
        2 * truth("synth_ipfrag")["fragmented_datagrams"].as_u64().unwrap()
    );
}

#[test]
fn a_file_that_is_cut_short_tells_what_it_holds() {
    let reading = read("synth_cut_mid_record.pcap");
    assert_eq!(reading.dissected.counts.packets, truth("synth_cut_mid_record")["complete_frames"]);
    assert!(reading.dissected.endings[0].cut);
    let whole = read("synth_vlan.pcap");
    assert!(!whole.dissected.endings[0].cut && whole.dissected.endings[0].garbage.is_none());
}

#[test]
fn frames_of_more_than_64_kilobytes_are_read() {
    let sum = whole(&read("lo_ipv6_bigtcp.pcap"));
    let bodies: u64 = truth("lo_ipv6_bigtcp")["exchanges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|exchange| exchange["body_bytes"].as_u64().unwrap())
        .sum();
    assert!(sum.bytes[1] > bodies && sum.bytes[1] < bodies + 1000, "{:?}", sum.bytes);
}

/// The same packets in two files, as of two interfaces, are the same capture.
#[test]
fn files_are_put_together_by_time() {
    let whole = read("chain.pcap");
    let packed = std::fs::read(crate::folder().join("chain.pcap.zst")).unwrap();
    let bytes = zstd::decode_all(packed.as_slice()).unwrap();
    let (head, mut rest) = bytes.split_at(24);
    let mut halves = [head.to_vec(), head.to_vec()];
    let mut number = 0;
    while let Some(length) = rest.get(8..12) {
        let length = 16 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (record, after) = rest.split_at(length);
        halves[number % 7 % 2].extend_from_slice(record);
        (number, rest) = (number + 1, after);
    }
    let named =
        |bytes: Vec<u8>| PacketSource::read(Path::new("half.pcap"), Box::new(Cursor::new(bytes))).unwrap();
    let reading = crate::dissected(halves.map(named).into(), 2);
    assert_eq!(reading.dissected.counts.packets, whole.dissected.counts.packets);
    assert_eq!(reading.exchanges.len(), whole.exchanges.len());
    assert_eq!(reading.dissected.tally.reordered, 0);
}

/// Datagrams that are captured twice count once, and are no repetitions.
#[test]
fn duplicates_of_datagrams_count_once() {
    let packed = std::fs::read(crate::folder().join("coap_udp.pcap.zst")).unwrap();
    let bytes = zstd::decode_all(packed.as_slice()).unwrap();
    let (head, mut rest) = bytes.split_at(24);
    let mut doubled = head.to_vec();
    while let Some(length) = rest.get(8..12) {
        let length = 16 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let (record, after) = rest.split_at(length);
        doubled.extend_from_slice(record);
        doubled.extend_from_slice(record);
        rest = after;
    }
    let source = PacketSource::read(Path::new("doubled.pcap"), Box::new(Cursor::new(doubled))).unwrap();
    let (doubled, original) = (crate::dissected(vec![source], 2), read("coap_udp.pcap"));
    assert_eq!(whole(&doubled).bytes, whole(&original).bytes);
    assert_eq!(
        doubled.dissected.tally.duplicate_packets,
        original.dissected.counts.packets + 2 * original.dissected.tally.duplicate_packets
    );
    assert_eq!(doubled.exchanges.len(), original.exchanges.len());
}
