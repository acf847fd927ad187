//! The session against single packets: no socket, no clock.

use super::*;
use plimsoll_codec::mqtt::{Ack, Publish, Subscribe};

const CONTENT: u32 = 64;

fn plan(version: Version, qos: QoS) -> MqttPlan {
    MqttPlan {
        version,
        qos,
        keep_alive: Nanos::from_secs(60),
        username: None,
        password: None,
        retain: false,
        receive_maximum: None,
        in_flight: 10,
        session: Default::default(),
    }
}

fn settings(version: Version, qos: QoS) -> Arc<Settings> {
    Arc::new(Settings::new(&plan(version, qos), qos, CONTENT))
}

/// A device whose CONNACK is still awaited.
fn connecting(version: Version, qos: QoS) -> Session {
    Session::new(Client::Device(3), Vec::new(), &settings(version, qos))
}

fn device(version: Version, qos: QoS) -> Session {
    let mut session = connecting(version, qos);
    receive(&mut session, version, &connack(0, &[])).0.unwrap();
    session
}

fn bytes(version: Version, packet: &Packet) -> Vec<u8> {
    let mut out = Vec::new();
    packet.encode(version, &mut out).unwrap();
    out
}

fn ack(kind: AckKind, packet_id: u16, reason: u8) -> Packet<'static> {
    Packet::Ack(Ack { kind, packet_id, reason, properties: Properties::default() })
}

fn connack<'a>(code: u8, properties: &'a [Property<'a>]) -> Packet<'a> {
    Packet::Connack(Connack { session_present: false, code, properties: Properties::List(properties) })
}

/// What one packet from the platform means, and what is answered.
fn receive(session: &mut Session, version: Version, packet: &Packet) -> (Result<String, String>, Vec<u8>) {
    let mut out = Vec::new();
    let bytes = bytes(version, packet);
    let happened = session.receive(&bytes, &mut out).map(|happened| format!("{happened:?}"));
    (happened, out)
}

/// A device with a persistent session, connected for the first time.
fn persistent(version: Version, qos: QoS) -> Session {
    let mut plan = plan(version, qos);
    plan.session.expiry = Some(60);
    let mut session =
        Session::new(Client::Device(3), Vec::new(), &Arc::new(Settings::new(&plan, qos, CONTENT)));
    receive(&mut session, version, &connack(0, &[])).0.unwrap();
    session
}

fn reconnected(session: &mut Session, version: Version, session_present: bool) {
    session.suspend();
    let answer = Packet::Connack(Connack { session_present, code: 0, properties: Properties::default() });
    assert_eq!(receive(session, version, &answer).0.unwrap(), "Ready");
}

#[test]
fn a_persistent_session_goes_on_where_it_was() {
    let mut session = persistent(Version::V5, QoS::ExactlyOnce);
    for sequence in 5..8 {
        session.publish(sequence, b"t", b"x", &[], &mut Vec::new()).unwrap();
    }
    receive(&mut session, Version::V5, &ack(AckKind::Pubrec, 2, 0)).0.unwrap();
    reconnected(&mut session, Version::V5, true);
    let left: Vec<(u16, u32, bool)> =
        session.unanswered().iter().map(|(id, message)| (*id, message.sequence, message.released)).collect();
    assert_eq!(left, [(1, 5, false), (2, 6, true), (3, 7, false)]);
    let mut out = Vec::new();
    session.repeat((1, 5), b"t", b"x", &[], &mut out).unwrap();
    match Packet::decode(Version::V5, &out).unwrap() {
        Packet::Publish(publish) => assert_eq!((publish.dup, publish.packet_id), (true, Some(1))),
        other => panic!("{other:?}"),
    }
    let (happened, _) = receive(&mut session, Version::V5, &ack(AckKind::Pubcomp, 2, 0));
    assert_eq!(happened.unwrap(), "Acknowledged(6)");
}

#[test]
fn a_session_that_the_platform_has_lost_gives_up_what_was_in_flight() {
    let mut session = persistent(Version::V311, QoS::AtLeastOnce);
    session.publish(5, b"t", b"x", &[], &mut Vec::new()).unwrap();
    reconnected(&mut session, Version::V311, false);
    assert!(session.begins() && session.unanswered().is_empty());
    assert_eq!(session.abandon().collect::<Vec<_>>(), [5]);
}

#[test]
fn a_session_asks_to_be_kept_and_says_when_it_is_not_needed_any_more() {
    let mut session = persistent(Version::V5, QoS::AtLeastOnce);
    let mut out = Vec::new();
    session.connect(RunId::from_bits(7), None, &mut out).unwrap();
    match Packet::decode(Version::V5, &out).unwrap() {
        Packet::Connect(connect) => {
            assert!(!connect.clean_start, "it was connected before");
            assert_eq!(connect.properties.session_expiry_interval(), Some(60));
        }
        other => panic!("{other:?}"),
    }
    out.clear();
    session.disconnect(&mut out);
    match Packet::decode(Version::V5, &out).unwrap() {
        Packet::Disconnect(goodbye) => assert_eq!(goodbye.properties.session_expiry_interval(), Some(0)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_topic_is_sent_once_and_then_stands_under_its_alias() {
    let mut plan = plan(Version::V5, QoS::AtMostOnce);
    plan.session.topic_alias = true;
    let settings = Arc::new(Settings::new(&plan, QoS::AtMostOnce, CONTENT));
    let mut session = Session::new(Client::Device(3), Vec::new(), &settings);
    let topic_of = |session: &mut Session, sequence: u32| {
        let mut out = Vec::new();
        let user = [("unit", "C".to_owned())];
        session.publish(sequence, b"a/b", b"x", &user, &mut out).unwrap();
        match Packet::decode(Version::V5, &out).unwrap() {
            Packet::Publish(publish) => {
                assert_eq!(publish.properties.user_properties().collect::<Vec<_>>(), [("unit", "C")]);
                (publish.topic.to_owned(), publish.properties.topic_alias())
            }
            other => panic!("{other:?}"),
        }
    };
    receive(&mut session, Version::V5, &connack(0, &[Property::TopicAliasMaximum(10)])).0.unwrap();
    assert_eq!(topic_of(&mut session, 0), ("a/b".into(), Some(1)));
    assert_eq!(topic_of(&mut session, 1), (String::new(), Some(1)));
    session.withdraw(1);
    session.withdraw(0);
    assert_eq!(topic_of(&mut session, 2), ("a/b".into(), Some(1)), "the platform never learnt the alias");
    session.reset();
    receive(&mut session, Version::V5, &connack(0, &[])).0.unwrap();
    assert_eq!(topic_of(&mut session, 3), ("a/b".into(), None), "this platform takes none");
}

#[test]
fn a_message_at_qos_2_is_acknowledged_by_pubcomp_only() {
    let mut session = device(Version::V311, QoS::ExactlyOnce);
    session.publish(7, b"t", b"x", &[], &mut Vec::new()).unwrap();
    let (early, _) = receive(&mut session, Version::V311, &ack(AckKind::Pubcomp, 1, 0));
    assert_eq!(early.unwrap(), "UnknownAck(Pubcomp, 1)", "PUBCOMP without PUBREC acknowledges nothing");
    let (happened, answer) = receive(&mut session, Version::V311, &ack(AckKind::Pubrec, 1, 0));
    assert_eq!((happened.unwrap(), answer), ("Nothing".into(), vec![0x62, 2, 0, 1]));
    let (happened, _) = receive(&mut session, Version::V311, &ack(AckKind::Pubcomp, 1, 0));
    assert_eq!(happened.unwrap(), "Acknowledged(7)");
}

#[test]
fn the_window_is_the_smaller_of_ours_and_the_platforms() {
    let mut session = connecting(Version::V5, QoS::AtLeastOnce);
    let (happened, _) = receive(&mut session, Version::V5, &connack(0, &[Property::ReceiveMaximum(2)]));
    assert_eq!(happened.unwrap(), "Ready");
    for sequence in 0..2 {
        assert!(session.may_publish());
        session.publish(sequence, b"t", b"x", &[], &mut Vec::new()).unwrap();
    }
    assert!(!session.may_publish());
    receive(&mut session, Version::V5, &ack(AckKind::Puback, 2, 0)).0.unwrap();
    assert!(session.may_publish());
}

#[test]
fn a_refusal_tells_the_platforms_reason() {
    let mut session = device(Version::V5, QoS::AtLeastOnce);
    session.publish(7, b"t", b"x", &[], &mut Vec::new()).unwrap();
    let (happened, _) = receive(&mut session, Version::V5, &ack(AckKind::Puback, 1, 0x97));
    assert!(
        happened.as_ref().is_ok_and(|text| text.contains("Refused(7") && text.contains("0x97")),
        "{happened:?}"
    );
    let (refused, _) =
        receive(&mut connecting(Version::V311, QoS::AtMostOnce), Version::V311, &connack(4, &[]));
    assert!(refused.as_ref().is_err_and(|text| text.contains("code 4")), "{refused:?}");
}

#[test]
fn what_the_plan_needs_and_the_platform_lacks_is_said_at_connecting() {
    for (property, word) in
        [(Property::MaximumQoS(0), "QoS 0"), (Property::MaximumPacketSize(32), "32 bytes")]
    {
        let mut session = connecting(Version::V5, QoS::AtLeastOnce);
        let (happened, _) = receive(&mut session, Version::V5, &connack(0, &[property]));
        assert!(happened.as_ref().is_err_and(|text| text.contains(word)), "{happened:?}");
    }
}

#[test]
fn a_subscriber_is_ready_when_its_subscription_is_granted() {
    let settings = settings(Version::V311, QoS::AtLeastOnce);
    let mut session = Session::new(Client::Subscriber(0), vec!["a/+".into()], &settings);
    let (happened, subscribe) = receive(&mut session, Version::V311, &connack(0, &[]));
    assert_eq!(happened.unwrap(), "Subscribing");
    let asked = Packet::decode(Version::V311, &subscribe).unwrap();
    assert!(matches!(asked, Packet::Subscribe(Subscribe { packet_id: 1, .. })));
    let suback = |codes| Packet::Suback(Suback { packet_id: 1, codes, properties: Properties::default() });
    assert!(receive(&mut session, Version::V311, &suback(&[0x80])).0.is_err());
    assert!(receive(&mut session, Version::V311, &suback(&[0])).0.is_err(), "less than asked for");
    let other = Packet::Suback(Suback { packet_id: 2, codes: &[1], properties: Properties::default() });
    assert!(receive(&mut session, Version::V311, &other).0.is_err(), "for a SUBSCRIBE that we never sent");
    assert!(receive(&mut session, Version::V311, &suback(&[1, 1])).0.is_err(), "more than asked for");
    assert_eq!(receive(&mut session, Version::V311, &suback(&[1])).0.unwrap(), "Ready");
}

#[test]
fn a_repeated_qos_2_message_is_delivered_once_until_it_is_released() {
    let mut session = device(Version::V311, QoS::ExactlyOnce);
    let publish = Packet::Publish(Publish {
        dup: false,
        qos: QoS::ExactlyOnce,
        retain: false,
        topic: "t",
        packet_id: Some(9),
        properties: Properties::default(),
        payload: b"x",
    });
    let delivered = |session: &mut Session| receive(session, Version::V311, &publish).0.unwrap();
    assert!(delivered(&mut session).starts_with("Delivered"));
    assert_eq!(delivered(&mut session), "Nothing");
    receive(&mut session, Version::V311, &ack(AckKind::Pubrel, 9, 0)).0.unwrap();
    assert!(delivered(&mut session).starts_with("Delivered"));
}

#[test]
fn an_acknowledgement_that_nothing_awaits_is_told_and_completes_nothing() {
    use AckKind::{Puback, Pubcomp, Pubrec, Pubrel};
    let once = (QoS::AtLeastOnce, &[(Puback, "Acknowledged(7)"), (Puback, "UnknownAck(Puback, 1)")][..]);
    let wrong = (QoS::AtLeastOnce, &[(Pubrec, "UnknownAck(Pubrec, 1)"), (Puback, "Acknowledged(7)")][..]);
    let twice = &[
        (Puback, "UnknownAck(Puback, 1)"),
        (Pubrec, "Nothing"),
        (Pubrec, "UnknownAck(Pubrec, 1)"),
        (Pubcomp, "Acknowledged(7)"),
        (Pubcomp, "UnknownAck(Pubcomp, 1)"),
        (Pubrec, "UnknownAck(Pubrec, 1)"),
        (Pubrel, "UnknownAck(Pubrel, 1)"),
    ][..];
    for (qos, acks) in [once, wrong, (QoS::ExactlyOnce, twice)] {
        let mut session = device(Version::V5, qos);
        session.publish(7, b"t", b"x", &[], &mut Vec::new()).unwrap();
        for (kind, expected) in acks {
            let (happened, _) = receive(&mut session, Version::V5, &ack(*kind, 1, 0));
            assert_eq!(happened.unwrap(), *expected);
        }
        let (never_used, _) = receive(&mut session, Version::V5, &ack(Puback, 9, 0));
        assert_eq!(never_used.unwrap(), "UnknownAck(Puback, 9)");
    }
}

#[test]
fn what_a_session_that_goes_on_says_again_is_awaited() {
    let mut session = persistent(Version::V5, QoS::ExactlyOnce);
    session.publish(5, b"t", b"x", &[], &mut Vec::new()).unwrap();
    receive(&mut session, Version::V5, &ack(AckKind::Pubrec, 1, 0)).0.unwrap();
    reconnected(&mut session, Version::V5, true);
    session.release_again(1, &mut Vec::new());
    // PUBCOMP was lost with the connection, so that the platform knows the packet id no more.
    let (happened, _) = receive(&mut session, Version::V5, &ack(AckKind::Pubcomp, 1, PACKET_ID_NOT_FOUND));
    assert_eq!(happened.unwrap(), "Acknowledged(5)");
    let (again, _) = receive(&mut session, Version::V5, &ack(AckKind::Pubrel, 3, 0));
    assert_eq!(again.unwrap(), "Nothing", "our PUBCOMP may have been lost, too");
    reconnected(&mut session, Version::V5, false);
    let (unknown, _) = receive(&mut session, Version::V5, &ack(AckKind::Pubrel, 3, 0));
    assert_eq!(unknown.unwrap(), "UnknownAck(Pubrel, 3)", "this session is new");
}

#[test]
fn a_packet_that_only_clients_send_ends_the_connection() {
    let mut session = device(Version::V311, QoS::AtMostOnce);
    assert!(receive(&mut session, Version::V311, &Packet::Pingreq).0.is_err());
    assert!(session.receive(&[0x30, 0], &mut Vec::new()).is_err());
}

#[test]
fn a_platform_that_answers_out_of_turn_is_a_liar() {
    let mut session = device(Version::V311, QoS::AtMostOnce);
    assert!(receive(&mut session, Version::V311, &connack(0, &[])).0.is_err(), "a second CONNACK");
    let suback = Packet::Suback(Suback { packet_id: 1, codes: &[0], properties: Properties::default() });
    assert!(receive(&mut session, Version::V311, &suback).0.is_err(), "SUBACK without SUBSCRIBE");
    let mut session = connecting(Version::V311, QoS::AtMostOnce);
    assert!(receive(&mut session, Version::V311, &Packet::Pingresp).0.is_err(), "before CONNACK");
}

#[test]
fn a_slip_that_touches_nothing_is_tolerated_and_told() {
    let mut session = device(Version::V5, QoS::AtLeastOnce);
    session.publish(7, b"t", b"x", &[], &mut Vec::new()).unwrap();
    assert_eq!(session.receive(&[0x40, 3, 0, 1, 1], &mut Vec::new()), Ok(Happened::Acknowledged(7)));
    let slip = session.take_slip().unwrap().to_string();
    assert!(slip.contains("PUBACK cannot have the code 0x01"), "{slip}");
    assert_eq!(session.receive(&[0xd0, 0], &mut Vec::new()), Ok(Happened::Pong));
    assert_eq!(session.take_slip(), None);
}

#[test]
fn another_version_and_a_missing_password_are_told_with_what_to_do_and_not_tried_again() {
    for (version, bytes, words) in [
        (Version::V5, &[0x20, 2, 0, 1][..], ["speaks no MQTT 5", "--mqtt 3.1.1"]),
        (Version::V5, &[0x20, 3, 0, 0x87, 0], ["--username", "password: { env: NAME }"]),
        (Version::V311, &[0x20, 2, 0, 5], ["--username", "PLIMSOLL_PASSWORD"]),
    ] {
        let mut session = connecting(version, QoS::AtLeastOnce);
        let told = session.receive(bytes, &mut Vec::new()).unwrap_err();
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
        assert!(session.take_refused() && !session.take_refused());
    }
    let mut busy = connecting(Version::V311, QoS::AtLeastOnce);
    assert!(busy.receive(&[0x20, 2, 0, 3], &mut Vec::new()).is_err() && !busy.take_refused());
}
