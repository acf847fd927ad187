//! How connections begin and end: wills, groups, silence, refusals, the memory bound.

use super::*;

#[test]
fn wills_come_when_the_connection_breaks_and_not_after_a_goodbye() {
    let mut bench = Bench::new();
    let watcher = bench.subscriber("w", "will", QoS::AtMostOnce);
    let with_will = |payload| Connect { will: Some(will(payload, Properties::default())), ..hello("c") };
    let goodbye = |reason| Packet::Disconnect(Disconnect { reason, properties: Properties::default() });
    let client = bench.client(&with_will(b"broken"));
    bench.hub.end(client, None);
    assert_eq!(bench.got(watcher).payloads(), ["broken"]);
    let client = bench.client(&with_will(b"never"));
    bench.send(client, goodbye(0));
    assert!(bench.got(watcher).1.is_empty());
    let client = bench.client(&with_will(b"asked for"));
    bench.send(client, goodbye(0x04));
    assert_eq!(bench.got(watcher).payloads(), ["asked for"]);
    let first = bench.client(&with_will(b"taken over"));
    bench.client(&hello("c"));
    assert_eq!(bench.got(watcher).payloads(), ["taken over"]);
    assert_eq!(bench.got(first).reason(), reasons::TAKEN_OVER);
}

#[test]
fn a_delayed_will_waits_and_ends_with_the_return_or_the_session() {
    let mut bench = Bench::new();
    let watcher = bench.subscriber("w", "will", QoS::AtMostOnce);
    let delay = [Property::WillDelayInterval(10)];
    let with_will = Connect { will: Some(will(b"late", Properties::List(&delay))), ..lasting("c") };
    let client = bench.client(&with_will);
    bench.hub.end(client, None);
    bench.pass(Nanos::from_secs(9));
    assert!(bench.got(watcher).1.is_empty());
    bench.pass(Nanos::from_secs(1));
    assert_eq!(bench.got(watcher).payloads(), ["late"]);
    let client = bench.client(&with_will);
    bench.hub.end(client, None);
    bench.pass(Nanos::from_secs(5));
    let client = bench.client(&with_will);
    bench.pass(Nanos::from_secs(20));
    assert!(bench.got(watcher).1.is_empty(), "the client was back");
    bench.hub.end(client, None);
    bench.client(&hello("c"));
    assert_eq!(bench.got(watcher).payloads(), ["late"], "a clean start ended the session");
    let brief = [Property::SessionExpiryInterval(3)];
    let client = bench.client(&Connect { properties: Properties::List(&brief), ..with_will.clone() });
    bench.hub.end(client, None);
    bench.pass(Nanos::from_secs(3));
    assert_eq!(bench.got(watcher).payloads(), ["late"], "the session ended before the delay");
}

#[test]
fn a_group_shares_and_what_a_member_leaves_goes_to_another() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let members: Vec<u64> =
        ["a", "b"].iter().map(|name| bench.subscriber(name, "$share/g/t", QoS::ExactlyOnce)).collect();
    let alone = bench.subscriber("alone", "t", QoS::AtMostOnce);
    for number in 1..=6 {
        bench.publish_at(publisher, QoS::AtLeastOnce, number, number.to_string().as_bytes());
    }
    assert_eq!(bench.got(members[0]).payloads(), ["1", "3", "5"]);
    assert_eq!(bench.got(members[1]).payloads(), ["2", "4", "6"]);
    assert_eq!(bench.got(alone).payloads().len(), 6);
    bench.ack(members[0], AckKind::Puback, 1);
    bench.hub.end(members[0], None);
    assert_eq!(bench.got(members[1]).payloads(), ["3", "5"], "unacknowledged at QoS 1");
    bench.publish_at(publisher, QoS::ExactlyOnce, 7, b"7");
    assert_eq!(bench.got(members[1]).payloads(), ["7"]);
    bench.subscriber("c", "$share/g/t", QoS::AtMostOnce);
    bench.hub.end(members[1], None);
    assert_eq!(bench.hub.dropped_for_memory(), 0);
}

#[test]
fn silence_and_violations_end_a_connection_with_their_reason() {
    let mut bench = Bench::new();
    let client = bench.client(&Connect { keep_alive: 10, ..hello("c") });
    bench.pass(Nanos::from_secs(14));
    bench.send(client, Packet::Pingreq);
    assert_eq!(bench.got(client).packets(), [Packet::Pingresp]);
    bench.pass(Nanos::from_millis(14_900));
    assert!(bench.hub.take_ended().is_empty());
    bench.pass(Nanos::from_millis(100));
    assert_eq!(bench.got(client).reason(), reasons::KEEP_ALIVE_TIMEOUT);
    let silent = bench.hub.open();
    bench.pass(CONNECT_PATIENCE);
    assert!(bench.hub.take_ended().contains(&silent));
    let cases: [(&[u8], u8); 8] = [
        (b"\x10\x0d\0\x04MQTT\x05\x02\0\0\0\0\0", reasons::PROTOCOL_ERROR),
        (b"\x20\x03\0\0\0", reasons::PROTOCOL_ERROR),
        (b"\xf0\0", reasons::PROTOCOL_ERROR),
        (b"\x36\0", reasons::MALFORMED),
        (b"\x30\x05\0\x02a#\0", reasons::TOPIC_INVALID),
        (b"\x82\x08\0\x01\0\0\x02a#\0", reasons::FILTER_INVALID),
        (b"\x30\x07\0\x01a\x03\x23\0\0", reasons::ALIAS_INVALID),
        (b"\x30\x06\0\x01a\x02\x0b\x01", reasons::PROTOCOL_ERROR),
    ];
    for (bytes, reason) in cases {
        let client = bench.client(&hello("c"));
        bench.hub.input(client, bytes);
        assert_eq!(bench.got(client).reason(), reason, "{bytes:?}");
    }
}

#[test]
fn a_refused_connect_has_the_code_of_its_version() {
    let mut bench = Bench::with(Limits { connections: 1, ..LIMITS });
    bench.client(&hello("first"));
    let (_, got) = bench.connect(&hello("second"));
    assert_eq!(got.1[3], reasons::SERVER_BUSY);
    let (_, got) = bench.connect(&Connect { version: Version::V311, ..hello("second") });
    assert_eq!(got.1, [0x20, 2, 0, 3]);
    bench.client(&hello("first"));
    let cases: [(&[u8], &[u8]); 6] = [
        (b"\x10\x0e\0\x06MQIsdp\x03\x02\0\0\0\0", &[0x20, 2, 0, 1]),
        (b"\x10\x0c\0\x04MQTT\x03\x02\0\0\0\0", &[0x20, 2, 0, 1]),
        (b"\x10\x0d\0\x04MQTT\x06\x02\0\0\0\0\0", &[0x20, 3, 0, 0x84, 0]),
        (b"\x10\x0c\0\x04MQTT\x04\0\0\0\0\0", &[0x20, 2, 0, 2]),
        (b"\x10\x0d\0\x04MQTT\x05\x03\0\0\0\0\0", &[0x20, 3, 0, 0x81, 0]),
        (b"\xc0\0", b""),
    ];
    for (bytes, answer) in cases {
        let id = bench.hub.open();
        bench.hub.input(id, bytes);
        assert_eq!(bench.got(id).1, answer, "{bytes:?}");
        assert!(bench.hub.take_ended().contains(&id));
    }
    let (_, got) = bench.connect(&Connect {
        properties: Properties::List(&[Property::AuthenticationMethod("x")]),
        ..hello("first")
    });
    assert_eq!(got.1[3], reasons::BAD_AUTHENTICATION_METHOD);
}

#[test]
fn a_client_without_id_gets_one_of_its_own() {
    let mut bench = Bench::new();
    let ids: BTreeSet<String> = (0..3)
        .map(|_| {
            let (_, got) = bench.connect(&hello(""));
            let packets = got.packets();
            let Packet::Connack(connack) = &packets[0] else { panic!("{packets:?}") };
            connack.properties.assigned_client_identifier().unwrap().to_owned()
        })
        .collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn at_the_memory_bound_what_must_wait_is_dropped_and_counted_and_others_go_on() {
    let mut bench = Bench::with(Limits { memory: 1024 * 1024, ..LIMITS });
    let publisher = bench.client(&hello("p"));
    let stuck = bench.subscriber("stuck", "t", QoS::AtMostOnce);
    let well = bench.subscriber("well", "t", QoS::AtMostOnce);
    let payload = [b'x'; 1000];
    let mut read = 0;
    for _ in 0..4000 {
        bench.publish(publisher, "t", &payload);
        read += bench.got(well).payloads().len();
    }
    assert_eq!(read, 4000);
    let dropped = bench.hub.dropped_for_memory() as usize;
    let late = bench.got(stuck).payloads().len();
    assert!(dropped > 2000 && late > 500, "{dropped} {late}");
    assert_eq!(dropped + late, 4000, "nothing is lost uncounted");
    bench.publish(publisher, "t", b"again");
    assert_eq!(bench.got(stuck).payloads(), ["again"], "there is room again");
}

#[test]
fn all_memory_is_given_back() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let alias = Properties::List(&[Property::TopicAlias(1)]);
    let reader = bench.client(&lasting("r"));
    for filter in ["t", "a/+/c", "$share/g/t"] {
        bench.subscribe(reader, Subscription::new(filter, QoS::ExactlyOnce), None);
    }
    bench.send(publisher, Packet::Publish(Publish { properties: alias, retain: true, ..publish("t", b"1") }));
    for (number, qos) in [(1, QoS::AtLeastOnce), (2, QoS::ExactlyOnce), (3, QoS::ExactlyOnce)] {
        bench.publish_at(publisher, qos, number, b"x");
    }
    bench.ack(reader, AckKind::Pubrec, 2);
    bench.hub.end(reader, None);
    bench.publish_at(publisher, QoS::AtLeastOnce, 4, b"x");
    bench.send(publisher, Packet::Publish(Publish { retain: true, ..publish("t", b"") }));
    bench.hub.input(publisher, b"\x30\x10half");
    bench.hub.end(publisher, None);
    bench.pass(Nanos::from_secs(60));
    for id in bench.hub.take_ended() {
        bench.hub.remove(id).unwrap().close();
    }
    assert_eq!(bench.hub.context.memory.used(), 0);
    assert_eq!((bench.hub.sessions.iter_mut().count(), bench.hub.connected), (0, 0));
}
