//! What becomes of messages: versions, overlapping subscriptions, retained messages, sessions, windows.

use super::*;

#[test]
fn both_versions_talk_to_each_other_and_3_1_1_gets_no_properties() {
    let mut bench = Bench::new();
    let old = bench.client(&Connect { version: Version::V311, ..hello("old") });
    let new = bench.subscriber("new", "a/#", QoS::AtMostOnce);
    bench.subscribe(old, Subscription::new("a/b", QoS::AtMostOnce), None);
    let list = [
        Property::PayloadFormatIndicator(true),
        Property::MessageExpiryInterval(5),
        Property::TopicAlias(3),
        Property::ContentType("text"),
        Property::ResponseTopic("answers"),
        Property::CorrelationData(b"7"),
        Property::UserProperty("k", "v"),
    ];
    bench.send(new, Packet::Publish(Publish { properties: Properties::List(&list), ..publish("a/b", b"1") }));
    assert_eq!(bench.got(old).publish(), publish("a/b", b"1"));
    let got = bench.got(new);
    let forwarded: Vec<_> = got.publish().properties.iter().collect();
    let expected = [list[0], list[3], list[4], list[5], list[6], list[1]];
    assert_eq!(forwarded, expected, "all but the alias");
    bench.send(
        new,
        Packet::Publish(Publish { properties: Properties::List(&[list[2]]), ..publish("", b"2") }),
    );
    assert_eq!(bench.got(old).publish(), publish("a/b", b"2"));
    let unknown = Properties::List(&[Property::TopicAlias(4)]);
    bench.send(new, Packet::Publish(Publish { properties: unknown, ..publish("", b"3") }));
    assert_eq!(bench.got(new).packets().len(), 2, "the message, and the reason");
    assert_eq!(bench.hub.take_ended(), [new]);
}

#[test]
fn overlapping_subscriptions_no_local_and_identifiers() {
    let mut bench = Bench::new();
    let (a, b) = (bench.client(&hello("a")), bench.client(&hello("b")));
    bench.subscribe(a, Subscription::new("t/#", QoS::AtMostOnce), Some(1));
    bench.subscribe(
        a,
        Subscription { no_local: true, ..Subscription::new("t/+", QoS::ExactlyOnce) },
        Some(2),
    );
    bench.publish(b, "t/x", b"of b");
    let got = bench.got(a);
    let mut identifiers: Vec<_> = got.publish().properties.subscription_identifiers().collect();
    identifiers.sort_unstable();
    assert_eq!(identifiers, [1, 2], "one delivery");
    bench.publish(a, "t/x", b"of a");
    let got = bench.got(a);
    assert_eq!(got.publish().properties.subscription_identifiers().collect::<Vec<_>>(), [1]);
    let filters = vec!["t/#", "t/+", "none"];
    bench.send(
        a,
        Packet::Unsubscribe(Unsubscribe { packet_id: 2, filters, properties: Properties::default() }),
    );
    assert_eq!(bench.got(a).1, [0xb0, 6, 0, 2, 0, 0, 0, 0x11]);
    bench.publish(b, "t/x", b"again");
    assert!(bench.got(a).1.is_empty());
}

#[test]
fn retained_messages_are_kept_replaced_removed_and_expire() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let retain = |bench: &mut Bench, topic, payload, properties| {
        let publish = Publish { retain: true, properties, ..publish(topic, payload) };
        bench.send(publisher, Packet::Publish(publish));
    };
    for (topic, payload) in [("a", "old"), ("a", "new"), ("b/c", "gone"), ("b/c", ""), ("$s/d", "hidden")] {
        retain(&mut bench, topic, payload.as_bytes(), Properties::default());
    }
    retain(&mut bench, "e", b"short", Properties::List(&[Property::MessageExpiryInterval(10)]));
    bench.pass(Nanos::from_millis(2500));
    let reader = bench.client(&hello("r"));
    let wild = Subscription::new("#", QoS::AtMostOnce);
    let got = bench.subscribe(reader, wild, None);
    let mut payloads = got.payloads();
    payloads.sort();
    assert_eq!(payloads, ["new", "short"]);
    for packet in got.packets() {
        let Packet::Publish(publish) = packet else { panic!() };
        assert!(publish.retain);
        if publish.topic == "e" {
            assert_eq!(publish.properties.message_expiry_interval(), Some(8), "what is left");
        }
    }
    bench.pass(Nanos::from_secs(8));
    assert_eq!(bench.subscribe(reader, wild, None).payloads(), ["new"], "subscribed again");
    let if_new = Subscription { retain_handling: RetainHandling::SendIfNew, ..wild };
    assert!(bench.subscribe(reader, if_new, None).1.is_empty());
    let never = Subscription {
        retain_handling: RetainHandling::DoNotSend,
        ..Subscription::new("a", QoS::AtMostOnce)
    };
    assert!(bench.subscribe(reader, never, None).1.is_empty());
    assert!(bench.subscribe(reader, Subscription::new("$share/g/a", QoS::AtMostOnce), None).1.is_empty());
}

#[test]
fn retain_as_published_keeps_the_flag_and_others_lose_it() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let plain = bench.subscriber("plain", "t", QoS::AtMostOnce);
    let kept = bench.client(&hello("kept"));
    let subscription = Subscription { retain_as_published: true, ..Subscription::new("t", QoS::AtMostOnce) };
    bench.subscribe(kept, subscription, None);
    bench.send(publisher, Packet::Publish(Publish { retain: true, ..publish("t", b"1") }));
    assert!(!bench.got(plain).publish().retain);
    assert!(bench.got(kept).publish().retain);
}

#[test]
fn a_lasting_session_queues_repeats_and_keeps_order() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let reader = bench.client(&lasting("r"));
    bench.subscribe(reader, Subscription::new("t", QoS::ExactlyOnce), None);
    bench.publish_at(publisher, QoS::AtLeastOnce, 1, b"1");
    bench.publish_at(publisher, QoS::ExactlyOnce, 2, b"2");
    bench.publish_at(publisher, QoS::ExactlyOnce, 3, b"3");
    assert_eq!(bench.got(reader).payloads(), ["1", "2", "3"]);
    bench.ack(reader, AckKind::Pubrec, 2);
    assert_eq!(bench.got(reader).1, [0x62, 2, 0, 2]);
    bench.hub.end(reader, None);
    bench.publish_at(publisher, QoS::AtLeastOnce, 4, b"4");
    bench.publish(publisher, "t", b"not kept");
    bench.pass(Nanos::from_secs(59));
    let (reader, got) = bench.connect(&lasting("r"));
    let packets = got.packets();
    assert!(matches!(&packets[0], Packet::Connack(Connack { session_present: true, .. })));
    let Packet::Publish(first) = &packets[1] else { panic!("{packets:?}") };
    assert!(first.dup && first.packet_id == Some(1) && first.payload == b"1");
    assert!(matches!(&packets[2], Packet::Ack(Ack { kind: AckKind::Pubrel, packet_id: 2, .. })));
    let Packet::Publish(third) = &packets[3] else { panic!("{packets:?}") };
    assert!(third.dup && third.packet_id == Some(3));
    let Packet::Publish(fourth) = &packets[4] else { panic!("{packets:?}") };
    assert!(!fourth.dup && fourth.payload == b"4");
    bench.hub.end(reader, None);
    bench.pass(Nanos::from_secs(61));
    let (_, got) = bench.connect(&lasting("r"));
    assert_eq!(got.packets().len(), 1, "the session expired");
}

#[test]
fn the_clients_receive_maximum_is_the_only_window() {
    let mut bench = Bench::new();
    let publisher = bench.client(&hello("p"));
    let properties = Properties::List(&[Property::ReceiveMaximum(2)]);
    let narrow = bench.client(&Connect { properties, ..hello("narrow") });
    bench.subscribe(narrow, Subscription::new("t", QoS::AtLeastOnce), None);
    let wide = bench.subscriber("wide", "t", QoS::AtLeastOnce);
    for number in 1..=5000 {
        bench.publish_at(publisher, QoS::AtLeastOnce, number, number.to_string().as_bytes());
    }
    assert_eq!(bench.got(wide).payloads().len(), 5000);
    assert_eq!(bench.got(narrow).payloads(), ["1", "2"]);
    bench.ack(narrow, AckKind::Puback, 2);
    assert_eq!(bench.got(narrow).payloads(), ["3"]);
    bench.ack(narrow, AckKind::Puback, 2);
    assert!(bench.got(narrow).1.is_empty(), "acknowledged already");
}

#[test]
fn what_is_larger_than_a_client_takes_is_left_out() {
    let mut bench = Bench::new();
    let properties = Properties::List(&[Property::MaximumPacketSize(30)]);
    let small = bench.client(&Connect { properties, ..hello("small") });
    bench.subscribe(small, Subscription::new("t", QoS::AtLeastOnce), None);
    let publisher = bench.client(&hello("p"));
    bench.publish_at(publisher, QoS::AtLeastOnce, 1, &[b'x'; 40]);
    bench.publish_at(publisher, QoS::AtLeastOnce, 2, b"fits");
    assert_eq!(bench.got(small).payloads(), ["fits"]);
    bench.publish(publisher, "t", &vec![0; 2 * 1024 * 1024]);
    let mut got = bench.got(publisher);
    got.1.drain(..8);
    assert_eq!(got.reason(), reasons::PACKET_TOO_LARGE);
}
