//! The record says what happened to each message.

use crate::running::{Folder, Running, publish, read_packet, settings};
use plimsoll_codec::marker::Marker;
use plimsoll_codec::mqtt::{QoS, Version};
use plimsoll_target::broker::Settings;
use std::io::Write;
use std::path::Path;

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// A line without its stamp.
fn unstamped(line: &str) -> String {
    let mut cells: Vec<&str> = line.split(',').collect();
    assert!(cells[3].parse::<u64>().unwrap() > 0, "{line}");
    cells[3] = "";
    cells.join(",")
}

#[test]
fn each_message_has_a_line_and_the_end_has_totals() {
    let folder = Folder::new("record");
    let path = folder.file("record.csv");
    let mut broker = Running::with(&Settings { record: Some(path.clone()), ..settings() });
    let mut first = broker.subscriber("first", "t", QoS::AtMostOnce);
    let mut second = broker.subscriber("second", "#", QoS::AtLeastOnce);
    let mut publisher = broker.client(Version::V311, "publisher");
    let payload = |sequence| Marker { run: 5, device: 6, sequence }.to_binary();
    publisher.write_all(&publish(Version::V311, "t", &payload(1), 1)).unwrap();
    publisher.write_all(&publish(Version::V311, "nobody/but/second", &payload(2), 0)).unwrap();
    publisher.write_all(&publish(Version::V311, "t", &payload(3), 3)).unwrap();
    assert_eq!(read_packet(&mut publisher), Some(vec![0x40, 2, 0, 1]));
    assert_eq!(read_packet(&mut publisher), Some(vec![0x40, 2, 0, 3]));
    for _ in 0..2 {
        read_packet(&mut first).unwrap();
    }
    for _ in 0..3 {
        read_packet(&mut second).unwrap();
    }
    // The first at QoS 1 is acknowledged, the last is not.
    second.write_all(&[0x40, 2, 0, 1, 0xc0, 0]).unwrap();
    assert_eq!(read_packet(&mut second), Some(vec![0xd0, 0]));
    broker.end();
    let lines = lines(&path);
    assert_eq!(lines[0], "run,device,sequence,arrival,qos,subscribers,delivered,dropped,open,causes");
    let mut messages: Vec<String> = lines[1..4].iter().map(|line| unstamped(line)).collect();
    messages.sort();
    assert_eq!(messages[..2], ["5,6,1,,1,2,2,0,0,", "5,6,2,,0,1,1,0,0,"]);
    // Clean sessions end with the broker's goodbye.
    assert_eq!(messages[2], "5,6,3,,1,2,1,1,0,session_ended:1");
    let totals: Vec<&str> = lines[4..].iter().map(String::as_str).collect();
    let expected = ["# messages 3", "# subscribers 5", "# delivered 4", "# dropped 1", "# open 0"];
    assert_eq!(totals[..5], expected);
}

#[test]
fn what_the_memory_bound_dropped_is_in_the_record() {
    let folder = Folder::new("memory");
    let path = folder.file("record.csv");
    let memory = 4 * 1024 * 1024;
    let mut broker = Running::with(&Settings { memory, record: Some(path.clone()), ..settings() });
    let slow = broker.subscriber("slow", "t", QoS::AtMostOnce);
    let mut publisher = broker.client(Version::V311, "publisher");
    for id in 1..=40 {
        publisher.write_all(&publish(Version::V311, "t", &vec![0; 1024 * 1024], id)).unwrap();
        read_packet(&mut publisher).unwrap();
    }
    drop(slow);
    broker.end();
    let total = |name: &str| -> u64 {
        let lines = lines(&path);
        let found = lines.iter().find_map(|line| line.strip_prefix(&format!("# {name} ")));
        found.unwrap().parse().unwrap()
    };
    assert!(total("dropped memory") > 10, "{}", total("dropped memory"));
    assert_eq!((total("messages"), total("subscribers"), total("open")), (40, 40, 0));
    assert_eq!(total("delivered") + total("dropped memory") + total("dropped connection_lost"), 40);
}
