//! The session against single answers: no socket, no clock.

use super::*;
use crate::drivers::messaging::{Session as _, hostile};
use plimsoll_codec::kafka::batch::{self, Entry, NOBODY};
use plimsoll_scenario::{Environment, SourceFile, load};
use std::net::Ipv4Addr;

fn settings(more: &str) -> Arc<Settings> {
    settings_for("{ count: 2, share: g }", more)
}

fn settings_for(subscribers: &str, more: &str) -> Arc<Settings> {
    let text = format!(
        "name: t\nplatform: {{ profile: existing, address: \"kafka://h:1\" }}\n\
         population: {{ devices: 4, subscribers: {subscribers} }}\nload: {{ levels: [1/s] }}\n{more}"
    );
    let profile = |_: &str| Err("none".to_owned());
    let environment = Environment { profile: &profile, variable: &|_| Some("hidden".to_owned()) };
    let plan =
        load(&SourceFile { name: "t".into(), text }, &[], &environment).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(Settings::new(&plan, RunId::from_bits(7), IpAddr::V4(Ipv4Addr::LOCALHOST)))
}

const EXISTING: &str = "kafka: { topic: t }\n";

fn session(client: Client, more: &str) -> Session {
    let mut session = Session::new(client, (b"foobar", &["a/#".to_owned()]), &settings(more));
    session.begin(&mut Vec::new());
    session
}

fn subscriber(grouped: bool) -> Session {
    let settings = settings_for(if grouped { "{ count: 2, share: g }" } else { "2" }, EXISTING);
    let mut session = Session::new(Client::Subscriber(0), (b"", &["a/#".to_owned()]), &settings);
    session.begin(&mut Vec::new());
    session
}

/// The kinds of the requests in some bytes, by their numbers.
fn kinds(mut bytes: &[u8]) -> Vec<i16> {
    let mut all = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (request, after) = rest.split_at(i32::from_be_bytes(*length) as usize);
        all.push(i16::from_be_bytes(*request.first_chunk().unwrap()));
        bytes = after;
    }
    all
}

fn framed(number: i32, body: &[u8]) -> Vec<u8> {
    [&(body.len() as i32 + 4).to_be_bytes()[..], &number.to_be_bytes(), body].concat()
}

/// What the answer to the oldest request means, and what is asked because of it.
fn answer(session: &mut Session, body: &[u8]) -> (Result<String, Failure>, Vec<i16>) {
    let number = session.asked.front().map_or(-1, |(number, _)| *number);
    let (bytes, mut out) = (framed(number, body), Vec::new());
    let (mut rest, mut told) = (&bytes[..], Vec::new());
    while let Some(length) = session.frame(rest).unwrap().filter(|_| !rest.is_empty()) {
        let (frame, after) = rest.split_at(length);
        rest = after;
        match session.receive(frame, &mut out) {
            Ok(Happened::Part(0)) => {}
            Ok(happened) => told.push(format!("{happened:?}")),
            Err(failure) => return (Err(failure), kinds(&out)),
        }
    }
    (Ok(told.join(" ")), kinds(&out))
}

fn went(outcome: &str, asked: &[i16]) -> (Result<String, Failure>, Vec<i16>) {
    (Ok(outcome.to_owned()), asked.to_vec())
}

/// What a broker says of two brokers and of two partitions that are led by these.
fn cluster(error: i16, nodes: &[(i32, &str)], leaders: &[i32]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend((nodes.len() as i32).to_be_bytes());
    for (number, host) in nodes {
        out.extend(number.to_be_bytes());
        out.extend((host.len() as i16).to_be_bytes());
        out.extend_from_slice(host.as_bytes());
        out.extend(9092_i32.to_be_bytes());
        out.extend([0xff, 0xff]);
    }
    out.extend([0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1]);
    out.extend(error.to_be_bytes());
    out.extend([0, 1, b't', 0]);
    out.extend((leaders.len() as i32).to_be_bytes());
    for (number, leader) in (0_i32..).zip(leaders) {
        out.extend([0, 0]);
        out.extend(number.to_be_bytes());
        out.extend(leader.to_be_bytes());
        out.extend([0; 8]);
    }
    out
}

const ONE: &[(i32, &str)] = &[(1, "127.0.0.1")];
const TWO: &[(i32, &str)] = &[(1, "127.0.0.1"), (2, "127.0.0.2")];

fn produced(error: i16, throttled: i32) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0];
    out.extend(error.to_be_bytes());
    out.extend([0; 16]);
    out.extend(throttled.to_be_bytes());
    out
}

fn publish(session: &mut Session, sequence: u32) -> Vec<i16> {
    let (mut topic, mut out) = (b"a/b".to_vec(), Vec::new());
    let message = Outgoing { sequence, topic: &mut topic, content: b"hello" };
    session.publish(message, &mut out).unwrap();
    kinds(&out)
}

#[test]
fn a_device_is_ready_once_it_knows_who_leads_its_partition() {
    let mut device = session(Client::Device(1), EXISTING);
    assert!(!device.may_publish());
    assert_eq!(answer(&mut device, &cluster(0, ONE, &[1, 1])), went("Ready", &[]));
    assert!(device.may_publish());
    assert_eq!(device.partition, kafka::partition_of(b"foobar", 2));
    assert_eq!((publish(&mut device, 4), publish(&mut device, 5)), (vec![0], vec![0]));
    assert_eq!(answer(&mut device, &produced(0, 0)), went("Acknowledged(4)", &[]));
    let (refused, asked) = answer(&mut device, &produced(10, 30));
    assert!(refused.unwrap().starts_with("Refused(5, \"the record is larger"), "{asked:?}");
    assert_eq!(device.take_complaint(), Some("it holds a client back (quota)".to_owned()));
    assert_eq!(
        answer(&mut device, &[]).0.unwrap_err(),
        Failure::passing("the platform sent an answer to nothing we asked")
    );
}

#[test]
fn a_topic_that_is_missing_is_made_or_told() {
    let mut own = session(Client::Device(1), "");
    assert_eq!(answer(&mut own, &cluster(3, ONE, &[])), went("Nothing", &[19]));
    let made = [&[0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0][..], &[0xff, 0xff]].concat();
    assert_eq!(answer(&mut own, &made), went("Nothing", &[3]));
    // Nobody leads it yet: it is asked again after a pause.
    assert_eq!(answer(&mut own, &cluster(5, ONE, &[])), went("Nothing", &[]));
    assert_eq!(own.wakes_after(), Some(PAUSE));
    let mut out = Vec::new();
    own.wake(&mut out);
    assert_eq!(kinds(&out), [3]);
    assert_eq!(answer(&mut own, &cluster(0, ONE, &[1])), went("Ready", &[]));
    let mut other = session(Client::Device(1), EXISTING);
    let told = answer(&mut other, &cluster(3, ONE, &[])).0.unwrap_err();
    assert!(
        told.lasting && told.reason.starts_with("the platform has no topic `t`; make it there"),
        "{told:?}"
    );
    // Who had it is told that it is gone, and makes it not again.
    own.begin(&mut Vec::new());
    let gone = answer(&mut own, &cluster(3, ONE, &[])).0.unwrap_err();
    assert_eq!(gone, Failure::passing("the platform does not have the topic any more"));
}

#[test]
fn a_device_goes_to_the_broker_that_leads_its_partition() {
    let mut device = session(Client::Device(1), EXISTING);
    let (outcome, _) = answer(&mut device, &cluster(0, TWO, &[2, 2]));
    assert_eq!(outcome.unwrap(), "Elsewhere(127.0.0.2:9092)");
    device.begin(&mut Vec::new());
    assert_eq!(answer(&mut device, &cluster(0, TWO, &[2, 2])), went("Ready", &[]));
    publish(&mut device, 0);
    // Another one has taken over: it is asked who, and nothing is sent meanwhile.
    let (outcome, asked) = answer(&mut device, &produced(error::NOT_LEADER, 0));
    assert!(outcome.unwrap().starts_with("Doubtful(0"), "it may have stored it before");
    assert_eq!((asked, device.may_publish()), (vec![], false));
    device.wake(&mut Vec::new());
    assert_eq!(device.held_back(), Some("no broker led a device's partition for a time"));
    let (outcome, _) = answer(&mut device, &cluster(0, TWO, &[1, 1]));
    assert_eq!(outcome.unwrap(), "Elsewhere(127.0.0.1:9092)");
    // The attempt to go there has failed: it begins where it began first, which is nobody that it knows.
    device.abandon();
    device.begin(&mut Vec::new());
    assert_eq!(device.node, None);
    let named = answer(&mut device, &cluster(0, &[(1, "kafka.example"), (2, "b")], &[1, 1])).0.unwrap_err();
    assert!(named.lasting && named.reason.contains("advertised.listeners"), "{named:?}");
}

/// Where the batch begins in [`records`].
const BATCH: usize = 45;

/// An answer with records of a partition.
fn records(error: i16, entries: &[(&'static str, &'static str)]) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0];
    out.extend(error.to_be_bytes());
    out.extend([0; 16]);
    out.extend((-1_i32).to_be_bytes());
    let mut batch = Vec::new();
    if !entries.is_empty() {
        let entry = |(key, value): &(&'static str, &'static str)| Entry {
            key: Some(key.as_bytes()),
            value: value.as_bytes(),
        };
        batch::write(entries.iter().map(entry), (NOBODY, -1), 1, &mut batch);
    }
    out.extend((batch.len() as i32).to_be_bytes());
    out.extend(batch);
    out
}

#[test]
fn a_message_that_was_stored_before_it_failed_is_not_refused() {
    for (acks, error, expected) in [
        ("all", 7, "Doubtful(0, \"a message may be stored or not: the brokers did not keep it in time"),
        ("all", 20, "Doubtful(0"),
        ("all", -1, "Doubtful(0"),
        ("all", 56, "Doubtful(0"),
        ("all", 6, "Doubtful(0"),
        ("leader", 6, "Refused(0"),
        ("all", 19, "Refused(0"),
        ("all", 3, "Refused(0"),
    ] {
        let mut device = session(Client::Device(1), &format!("kafka: {{ topic: t, acks: {acks} }}\n"));
        answer(&mut device, &cluster(0, ONE, &[1])).0.unwrap();
        publish(&mut device, 0);
        let outcome = answer(&mut device, &produced(error, 0)).0.unwrap();
        assert!(outcome.starts_with(expected), "{acks}, {error}: {outcome}");
        assert!(device.abandon().is_empty(), "it is not awaited any more");
    }
}

#[test]
fn a_subscriber_that_is_held_back_says_so() {
    let mut own = subscriber(false);
    answer(&mut own, &cluster(0, ONE, &[1])).0.unwrap();
    answer(&mut own, &ends(&[(0, 0)])).0.unwrap();
    assert_eq!(answer(&mut own, &records(0, &[])), went("", &[1]));
    assert_eq!(own.take_complaint(), None);
    // A broker that holds it back gives it no records, and it asks again.
    assert_eq!(answer(&mut own, &[0, 0, 1, 44, 0, 0, 0, 0]), went("", &[1]));
    assert_eq!(own.take_complaint().as_deref(), Some("it holds a subscriber back (quota)"));
}

fn ends(offsets: &[(i32, i64)]) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 1, 0, 1, b't'];
    out.extend((offsets.len() as i32).to_be_bytes());
    for (partition, offset) in offsets {
        out.extend(partition.to_be_bytes());
        out.extend([0; 10]);
        out.extend(offset.to_be_bytes());
    }
    out
}

#[test]
fn a_subscriber_reads_on_from_where_partitions_ended() {
    let mut own = subscriber(false);
    assert_eq!(answer(&mut own, &cluster(0, ONE, &[1, 1])), went("Accepted", &[2]));
    assert_eq!(answer(&mut own, &ends(&[(0, 0), (1, 9)])), went("Ready", &[1]));
    let came = records(0, &[("a/b", "one"), ("c", "two"), ("a", "three")]);
    let (outcome, asked) = answer(&mut own, &came);
    let expected = ["one", "three"].map(|text| format!("Delivered({:?})", text.as_bytes()));
    assert_eq!(
        (outcome.unwrap(), asked),
        (expected.join(" "), vec![1]),
        "that with the key `c` is not wanted"
    );
    // A new connection goes on there.
    own.abandon();
    own.begin(&mut Vec::new());
    assert_eq!(answer(&mut own, &cluster(0, ONE, &[1, 1])), went("Ready", &[1]));
    assert_eq!(own.reading.untold(), Some(vec![(0, 3), (1, 9)]));
    let (outcome, asked) = answer(&mut own, &records(error::OFFSET_OUT_OF_RANGE, &[]));
    assert!(outcome.unwrap().starts_with("Complaint") && asked.is_empty());
    let mut out = Vec::new();
    own.wake(&mut out);
    assert_eq!(kinds(&out), [2]);
    let oldest = (-2_i64).to_be_bytes();
    assert!(out.ends_with(&oldest), "what is still there comes next: {out:?}");
    assert_eq!(answer(&mut own, &ends(&[(0, 20)])), went("Nothing", &[1]));
    let gone = answer(&mut own, &records(error::UNKNOWN_TOPIC, &[])).0.unwrap_err();
    assert!(!gone.lasting && gone.reason.contains("no such topic"), "{gone:?}");
}

fn texts(texts: &[&str]) -> Vec<u8> {
    let text = |text: &&str| [&(text.len() as i16).to_be_bytes()[..], text.as_bytes()].concat();
    texts.iter().flat_map(text).collect()
}

/// That the group was joined by two members, of which this one leads.
fn joined(generation: i32) -> Vec<u8> {
    let mut out = vec![0; 6];
    out.extend(generation.to_be_bytes());
    out.extend(texts(&["roundrobin", "me", "me"]));
    out.extend(2_i32.to_be_bytes());
    for member in ["me", "other"] {
        out.extend(texts(&[member]));
        out.extend([0; 4]);
    }
    out
}

/// A share of partition 0.
fn share() -> Vec<u8> {
    let mut out = vec![0; 6];
    let share = [0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    out.extend((share.len() as i32).to_be_bytes());
    out.extend(share);
    out
}

fn read_up_to(offset: i64) -> Vec<u8> {
    let mut out = vec![0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0];
    out.extend(offset.to_be_bytes());
    out.extend([0xff, 0xff, 0, 0]);
    out
}

const COMMITTED: &[u8] = &[0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];

#[test]
fn a_member_joins_its_group_and_joins_again_when_it_is_shared_out_anew() {
    let mut own = subscriber(true);
    assert_eq!(answer(&mut own, &cluster(0, ONE, &[1, 1])), went("Accepted", &[10]));
    // Nobody looks after groups yet.
    let nobody = [&15_i16.to_be_bytes()[..], &[0xff; 4], &[0, 0], &[0; 4]].concat();
    assert_eq!(answer(&mut own, &nobody), went("Nothing", &[]));
    let mut out = Vec::new();
    own.wake(&mut out);
    assert_eq!(kinds(&out), [10]);
    let coordinator = [&[0, 0, 0, 0, 0, 1][..], &texts(&["h"]), &[0; 4]].concat();
    assert_eq!(answer(&mut own, &coordinator), went("Nothing", &[11]));
    assert_eq!(answer(&mut own, &joined(1)), went("Nothing", &[14]));
    assert_eq!(answer(&mut own, &share()), went("Nothing", &[9]));
    assert_eq!(answer(&mut own, &read_up_to(-1)), went("Nothing", &[2]));
    // Where it begins is told at once: whoever takes over begins there, too.
    assert_eq!(answer(&mut own, &ends(&[(0, 7)])), went("Ready", &[8, 1]));
    assert_eq!(own.wakes_after(), Some(HEARTBEAT));
    assert_eq!(answer(&mut own, COMMITTED), went("Nothing", &[]));
    out.clear();
    own.wake(&mut out);
    assert_eq!(kinds(&out), [12], "it says that it is there, and has nothing new to tell");
    let read = format!("Delivered({:?})", b"x");
    let mut came = records(0, &[("a", "x")]);
    // The batch begins at offset 7.
    came[BATCH..BATCH + 8].copy_from_slice(&7_i64.to_be_bytes());
    assert_eq!(answer(&mut own, &came), went(&read, &[1]));
    // What is asked for comes first; then it is told up to where was read, and the group is joined again.
    let shared_again = [0, 0, 0, 0, 0, 27];
    let (outcome, asked) = answer(&mut own, &shared_again);
    assert!(outcome.unwrap().contains("rebalance") && asked.is_empty());
    assert_eq!(answer(&mut own, &records(0, &[])), went("", &[8, 3]));
    assert_eq!(answer(&mut own, COMMITTED), went("Nothing", &[]));
    assert_eq!(answer(&mut own, &cluster(0, ONE, &[1, 1])), went("Accepted", &[10]));
    assert_eq!(answer(&mut own, &coordinator), went("Nothing", &[11]));
    assert_eq!(answer(&mut own, &joined(2)), went("Nothing", &[14]));
    assert_eq!(answer(&mut own, &share()), went("Nothing", &[9]));
    assert_eq!(answer(&mut own, &read_up_to(8)), went("Nothing", &[1]), "it was ready before");
    out.clear();
    own.goodbye(false, &mut out);
    assert_eq!(kinds(&out), [8, 13]);
}

#[test]
fn a_member_asks_for_the_coordinator_again_where_that_is_another_one() {
    let coordinator = [&[0, 0, 0, 0, 0, 1][..], &texts(&["h"]), &[0; 4]].concat();
    for refusal in [15, 16] {
        let refused = [&[0; 4][..], &[0, refusal], &joined(1)[6..]].concat();
        let mut own = subscriber(true);
        let mut out = Vec::new();
        answer(&mut own, &cluster(0, ONE, &[1])).0.unwrap();
        answer(&mut own, &coordinator).0.unwrap();
        assert_eq!(answer(&mut own, &refused), went("Nothing", &[]));
        own.wake(&mut out);
        assert_eq!(kinds(&out), [10], "and not the same broker without end");
        for body in [&coordinator, &joined(1), &share(), &read_up_to(-1)] {
            answer(&mut own, body).0.unwrap();
        }
        assert_eq!(answer(&mut own, &ends(&[(0, 7)])), went("Ready", &[8, 1]));
        // One that was ready reads nothing until it has found the new one: it begins from the start, which is an incident.
        own.phase = Phase::Joining;
        own.asked = VecDeque::from([(0, Asked::Phase)]);
        let gone = answer(&mut own, &refused).0.unwrap_err();
        assert!(!gone.lasting && gone.reason.starts_with("the group: "), "{gone:?}");
    }
}

/// The branches that a session wants, with where they go.
fn branches(session: &mut Session) -> Vec<(String, Session)> {
    let wanted = session.take_branches().unwrap_or_default();
    wanted.into_iter().map(|(address, branch)| (address.to_string(), branch)).collect()
}

#[test]
fn what_another_broker_leads_is_read_over_a_branch() {
    let mut own = subscriber(false);
    assert_eq!(answer(&mut own, &cluster(0, TWO, &[1, 2])), went("Elsewhere(127.0.0.1:9092)", &[]));
    own.begin(&mut Vec::new());
    assert_eq!(answer(&mut own, &cluster(0, TWO, &[1, 2])), went("Accepted", &[2]));
    let [(address, mut branch)] = <[_; 1]>::try_from(branches(&mut own)).ok().unwrap();
    assert_eq!(address, "127.0.0.2:9092");
    assert_eq!(answer(&mut own, &ends(&[(0, 5)])), went("Nothing", &[]), "it awaits the branch");
    branch.begin(&mut Vec::new());
    assert_eq!(answer(&mut branch, &cluster(0, TWO, &[1, 2])), went("Nothing", &[2]));
    assert_eq!(answer(&mut branch, &ends(&[(1, 9)])), went("Ready", &[1]));
    let mut out = Vec::new();
    assert_eq!((own.branches_ready(&mut out), kinds(&out)), (Happened::Ready, vec![1]));
    // What the one has read the other knows, and reads on there over another connection.
    let mut came = records(0, &[("a", "x")]);
    came[BATCH..BATCH + 8].copy_from_slice(&5_i64.to_be_bytes());
    assert_eq!(answer(&mut own, &came).1, [1]);
    assert_eq!(branch.reading.untold(), Some(vec![(0, 6), (1, 9)]));
    assert_eq!((branch.wakes_after(), branch.reading.partitions()), (None, &[1][..]));
    out.clear();
    branch.goodbye(true, &mut out);
    assert!(out.is_empty(), "the subscriber's own connection speaks for it");
    // Who leads has changed since, or its broker does not know that yet.
    branch.elsewhere = Some(2);
    branch.begin(&mut Vec::new());
    assert_eq!(answer(&mut branch, &cluster(0, TWO, &[1, 1])), went("Nothing", &[]));
    assert_eq!(branch.wakes_after(), Some(PAUSE));
    branch.wake(&mut out);
    assert_eq!(kinds(&out), [3]);
    assert_eq!(answer(&mut branch, &cluster(0, TWO, &[1, 2])), went("Ready", &[1]));
}

#[test]
fn a_member_speaks_to_the_broker_that_looks_after_its_group() {
    let mut own = subscriber(true);
    let coordinator = [&[0, 0, 0, 0, 0, 2][..], &texts(&["h"]), &[0; 4]].concat();
    assert_eq!(answer(&mut own, &cluster(0, TWO, &[1, 2])), went("Accepted", &[10]));
    assert_eq!(answer(&mut own, &coordinator), went("Elsewhere(127.0.0.2:9092)", &[]));
    own.begin(&mut Vec::new());
    assert_eq!(answer(&mut own, &cluster(0, TWO, &[1, 2])), went("Accepted", &[10]));
    assert_eq!(answer(&mut own, &coordinator), went("Nothing", &[11]));
    assert_eq!(answer(&mut own, &joined(1)), went("Nothing", &[14]));
    // Its share is partition 0, which the other one leads: it has nothing to read itself.
    assert_eq!(answer(&mut own, &share()), went("Nothing", &[9]));
    assert_eq!(answer(&mut own, &read_up_to(3)), went("Nothing", &[]));
    let [(address, mut branch)] = <[_; 1]>::try_from(branches(&mut own)).ok().unwrap();
    assert_eq!(address, "127.0.0.1:9092");
    branch.begin(&mut Vec::new());
    assert_eq!(answer(&mut branch, &cluster(0, TWO, &[1, 2])), went("Ready", &[1]));
    let mut out = Vec::new();
    assert_eq!((own.branches_ready(&mut out), kinds(&out)), (Happened::Ready, vec![8]));
    assert_eq!(answer(&mut own, COMMITTED), went("Nothing", &[]));
    // The group is shared out again: the branch is not to read any more, and what it has read is told.
    let mut came = records(0, &[("a", "x")]);
    came[BATCH..BATCH + 8].copy_from_slice(&3_i64.to_be_bytes());
    assert_eq!(answer(&mut branch, &came).1, [1]);
    out.clear();
    own.wake(&mut out);
    assert_eq!(kinds(&out), [8, 12]);
    assert_eq!(answer(&mut own, COMMITTED), went("Nothing", &[]));
    let (outcome, asked) = answer(&mut own, &[0, 0, 0, 0, 0, 27]);
    assert!(outcome.unwrap().contains("rebalance"));
    assert_eq!(asked, [3], "the group knows up to where was read");
    assert_eq!(own.take_branches().map(|branches| branches.len()), Some(0));
    assert_eq!(answer(&mut own, &cluster(0, TWO, &[2, 2])), went("Accepted", &[10]));
    assert_eq!(answer(&mut own, &coordinator), went("Nothing", &[11]));
    assert_eq!(answer(&mut own, &joined(2)), went("Nothing", &[14]));
    assert_eq!(answer(&mut own, &share()), went("Nothing", &[9]));
    assert_eq!(answer(&mut own, &read_up_to(4)), went("Nothing", &[1]), "now it leads that partition itself");
    assert!(own.take_branches().is_none());
}

#[test]
fn user_name_and_password_come_first() {
    let with = "kafka: { topic: t, username: me, password: { env: SECRET } }\n";
    let mut device = session(Client::Device(1), with);
    let known = [&[0, 0, 0, 0, 0, 1][..], &texts(&["PLAIN"])].concat();
    assert_eq!(answer(&mut device, &known), went("Nothing", &[36]));
    let wrong = [&58_i16.to_be_bytes()[..], &[0xff, 0xff], &[0; 4]].concat();
    let told = answer(&mut device, &wrong).0.unwrap_err();
    assert!(told.lasting && told.reason.contains("user name or password is wrong"), "{told:?}");
    let mut device = session(Client::Device(1), with);
    let other = [&[0, 33, 0, 0, 0, 1][..], &texts(&["GSSAPI"])].concat();
    let told = answer(&mut device, &other).0.unwrap_err();
    assert!(told.lasting && told.reason.ends_with("but GSSAPI"), "{told:?}");
}

#[test]
fn what_nobody_acknowledges_waits_for_nothing_and_the_run_takes_its_topic_along() {
    let mut device = session(Client::Device(1), "kafka: { acks: none }\nobjectives: { publish_p99: null }\n");
    answer(&mut device, &cluster(0, ONE, &[1])).0.unwrap();
    assert_eq!(publish(&mut device, 0), [0]);
    assert!(device.asked.is_empty() && device.abandon().is_empty());
    let mut out = Vec::new();
    device.goodbye(false, &mut out);
    assert!(out.is_empty());
    device.goodbye(true, &mut out);
    assert_eq!(kinds(&out), [20]);
}

#[test]
fn what_was_not_sent_is_not_awaited() {
    let mut device = session(Client::Device(1), "kafka: { topic: t, in_flight: 2 }\n");
    answer(&mut device, &cluster(0, ONE, &[1])).0.unwrap();
    for sequence in 0..2 {
        publish(&mut device, sequence);
    }
    assert!(!device.may_publish());
    device.withdraw(1);
    assert!(device.may_publish());
    publish(&mut device, 2);
    assert_eq!(answer(&mut device, &produced(0, 0)), went("Acknowledged(0)", &[]));
    assert_eq!(answer(&mut device, &produced(0, 0)), went("Acknowledged(2)", &[]));
    publish(&mut device, 3);
    assert_eq!(device.abandon(), [3]);
}

#[test]
fn whatever_a_broker_says_nothing_panics() {
    let coordinator = [&[0, 0, 0, 0, 0, 1][..], &texts(&["h"]), &[0; 4]].concat();
    let packed = {
        let mut packed = records(0, &[("a", "x"), ("a/b", "y")]);
        // It says that its records are compressed.
        packed[BATCH + 22] = 4;
        packed
    };
    let later = [
        cluster(0, TWO, &[1, 2]),
        cluster(3, ONE, &[]),
        produced(0, 9),
        produced(error::NOT_LEADER, 0),
        produced(error::REQUEST_TIMED_OUT, 0),
        records(0, &[("a", "one"), ("c", "two"), ("a", "three")]),
        records(0, &[]),
        records(error::OFFSET_OUT_OF_RANGE, &[]),
        packed,
        vec![0, 0, 1, 44, 0, 0, 0, 0],
        COMMITTED.to_vec(),
        vec![0, 0, 0, 0, 0, 0],
        vec![0, 0, 0, 0, 0, 27],
        ends(&[(0, i64::MAX), (1, i64::MIN)]),
    ];
    let alone = vec![cluster(0, ONE, &[1, 1]), ends(&[(0, 0), (1, 9)])];
    let grouped =
        vec![cluster(0, ONE, &[1, 1]), coordinator, joined(1), share(), read_up_to(-1), ends(&[(0, 7)])];
    for (client, subscribers, opening) in [
        (Client::Device(1), "2", &alone),
        (Client::Subscriber(0), "2", &alone),
        (Client::Subscriber(0), "{ count: 2, share: g }", &grouped),
    ] {
        let settings = settings_for(subscribers, "kafka: { topic: t, in_flight: 3 }\n");
        let said = [&opening[..], &later].concat();
        let say = |session: &Session, place: usize| {
            let number = session.asked.front().map_or(-1, |(number, _)| *number);
            framed(number, &said[place])
        };
        let make = || Session::new(client, (b"foobar", &["a/#".to_owned()]), &settings);
        hostile::endure(make, said.len(), say);
    }
}
