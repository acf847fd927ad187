//! Properties: QoS 2 over breaking connections, arbitrary bytes and damaged packets.

use super::*;

/// One side of an exchange at QoS 2 as the standard describes it (MQTT 5 section 4.3.3), over connections that break.
#[derive(Default)]
struct Sender {
    /// Packet id, and whether PUBREC has come.
    open: VecDeque<(u16, bool)>,
}

/// The other side.
#[derive(Default)]
struct Receiver {
    unreleased: BTreeSet<u16>,
    delivered: Vec<String>,
}

/// Answers whatever the hub has sent to the sender.
fn sender_answers(bench: &mut Bench, id: u64, sender: &mut Sender) -> bool {
    let got = bench.got(id);
    for packet in got.packets() {
        let Packet::Ack(ack) = packet else { continue };
        match ack.kind {
            AckKind::Pubrec => {
                for (packet_id, received) in &mut sender.open {
                    *received |= *packet_id == ack.packet_id;
                }
                bench.ack(id, AckKind::Pubrel, ack.packet_id);
            }
            _ => sender.open.retain(|(packet_id, _)| *packet_id != ack.packet_id),
        }
    }
    !got.1.is_empty()
}

fn receiver_answers(bench: &mut Bench, id: u64, receiver: &mut Receiver, most: usize) -> bool {
    let got = bench.got(id);
    for packet in got.packets().into_iter().take(most) {
        match packet {
            Packet::Publish(publish) => {
                let packet_id = publish.packet_id.unwrap();
                if receiver.unreleased.insert(packet_id) {
                    receiver.delivered.push(String::from_utf8(publish.payload.to_vec()).unwrap());
                }
                bench.ack(id, AckKind::Pubrec, packet_id);
            }
            Packet::Ack(ack) => {
                receiver.unreleased.remove(&ack.packet_id);
                bench.ack(id, AckKind::Pubcomp, ack.packet_id);
            }
            _ => {}
        }
    }
    !got.1.is_empty()
}

fn resume_sender(bench: &mut Bench, sender: &Sender) -> u64 {
    let id = bench.client(&lasting("s"));
    for &(packet_id, received) in &sender.open {
        if received {
            bench.ack(id, AckKind::Pubrel, packet_id);
        } else {
            let payload = packet_id.to_string();
            let again = Publish {
                dup: true,
                qos: QoS::ExactlyOnce,
                packet_id: Some(packet_id),
                ..publish("t", payload.as_bytes())
            };
            bench.send(id, Packet::Publish(again));
        }
    }
    id
}

proptest! {
    /// However often both connections break, and wherever, each message at QoS 2 is delivered once and in order.
    #[test]
    fn qos_2_is_exactly_once(steps in proptest::collection::vec(0u8..6, 1..120), window in 1u16..5) {
        let mut bench = Bench::new();
        let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
        let list = [Property::SessionExpiryInterval(60), Property::ReceiveMaximum(window)];
        let reading = Connect { properties: Properties::List(&list), ..lasting("r") };
        let (mut out, mut into) = (bench.client(&lasting("s")), bench.client(&reading));
        bench.subscribe(into, Subscription::new("t", QoS::ExactlyOnce), None);
        let mut published = 0;
        for step in steps {
            match step {
                0 | 1 => {
                    published += 1;
                    sender.open.push_back((published, false));
                    bench.publish_at(out, QoS::ExactlyOnce, published, published.to_string().as_bytes());
                }
                2 => drop(sender_answers(&mut bench, out, &mut sender)),
                3 => drop(receiver_answers(&mut bench, into, &mut receiver, usize::MAX)),
                4 => {
                    bench.hub.end(out, None);
                    out = resume_sender(&mut bench, &sender);
                }
                // The receiver reads some of what came, and the connection breaks.
                _ => {
                    receiver_answers(&mut bench, into, &mut receiver, usize::from(window) / 2);
                    bench.hub.end(into, None);
                    into = bench.hub.open();
                    let mut bytes = Vec::new();
                    encode_connect(&reading, &mut bytes).unwrap();
                    bench.hub.input(into, &bytes);
                }
            }
        }
        while sender_answers(&mut bench, out, &mut sender)
            | receiver_answers(&mut bench, into, &mut receiver, usize::MAX) {}
        let expected: Vec<String> = (1..=published).map(|number| number.to_string()).collect();
        prop_assert_eq!(receiver.delivered, expected);
        prop_assert!(sender.open.is_empty() && receiver.unreleased.is_empty());
    }

    /// Whatever bytes come, in whatever pieces and after whatever CONNECT, nothing panics and others are served.
    #[test]
    fn no_bytes_bring_the_hub_down(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..6),
        version_5: bool,
        connected: bool,
    ) {
        let mut bench = Bench::new();
        let version = if version_5 { Version::V5 } else { Version::V311 };
        let id = if connected { bench.client(&Connect { version, ..hello("x") }) } else { bench.hub.open() };
        for piece in pieces {
            bench.hub.input(id, &piece);
        }
        let reader = bench.subscriber("r", "t", QoS::AtMostOnce);
        let publisher = bench.client(&hello("p"));
        bench.publish(publisher, "t", b"on");
        prop_assert_eq!(bench.got(reader).payloads(), ["on"]);
    }

    /// The same with packets that are well formed at their beginning.
    #[test]
    fn no_damaged_packet_brings_the_hub_down(
        packets in proptest::collection::vec((1u8..16, 0u8..16, proptest::collection::vec(any::<u8>(), 0..40)), 1..8),
        version_5: bool,
    ) {
        let mut bench = Bench::new();
        let version = if version_5 { Version::V5 } else { Version::V311 };
        let id = bench.client(&Connect { version, ..hello("x") });
        for (kind, flags, body) in packets {
            let mut bytes = vec![kind << 4 | flags, body.len() as u8];
            bytes.extend_from_slice(&body);
            bench.hub.input(id, &bytes);
        }
        bench.client(&hello("p"));
    }
}
