//! The session against single operations: no socket, no clock.

use super::*;
use crate::drivers::messaging::{Session as _, hostile};
use plimsoll_scenario::{Environment, SourceFile, load};

fn settings(more: &str) -> Arc<Settings> {
    settings_for("{ count: 2, share: g, work: 2s }", more)
}

fn settings_for(subscribers: &str, more: &str) -> Arc<Settings> {
    let text = format!(
        "name: t\nplatform: {{ profile: existing, address: \"nats://h:1\" }}\n\
         population: {{ devices: 4, subscribers: {subscribers} }}\n\
         message: {{ target: \"city.{{run}}.{{device}}\" }}\nload: {{ levels: [1/s] }}\n{more}"
    );
    let profile = |_: &str| Err("none".to_owned());
    let environment = Environment { profile: &profile, variable: &|_| Some("hidden".to_owned()) };
    let plan =
        load(&SourceFile { name: "t".into(), text }, &[], &environment).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(Settings::new(&plan, RunId::from_bits(7)))
}

const CORE: &str = "";
const STREAM: &str = "nats: { stream: S }\n";
const CREATED: &str = "nats: { create_stream: memory, in_flight: 2 }\n";
const INFO: &str = "INFO {\"max_payload\":1048576,\"jetstream\":true}\r\n";

fn session(client: Client, filters: &[&str], more: &str) -> Session {
    let filters: Vec<String> = filters.iter().map(|filter| (*filter).to_owned()).collect();
    let mut session = Session::new(client, &filters, &settings(more));
    session.begin(&mut Vec::new());
    session
}

/// What one operation of the server means, and what is answered.
fn receive(session: &mut Session, operation: &str) -> (Result<String, Failure>, String) {
    let mut out = Vec::new();
    let frame = operation.as_bytes();
    assert_eq!(session.frame(frame), Ok(Some(frame.len())), "{operation}");
    let happened = session.receive(frame, &mut out).map(|happened| format!("{happened:?}"));
    (happened, String::from_utf8(out).unwrap())
}

/// One operation of the server that ends no connection.
fn went_on(session: &mut Session, operation: &str) {
    receive(session, operation).0.unwrap();
}

/// What JetStream answers to a session at the end of its inbox.
fn answer(session: &mut Session, to: &str, text: &str) -> (Result<String, Failure>, String) {
    let operation = format!("MSG {}{to} 1 {}\r\n{text}\r\n", session.inbox, text.len());
    receive(session, &operation)
}

fn happened(outcome: &str) -> (Result<String, Failure>, String) {
    (Ok(outcome.to_owned()), String::new())
}

fn publish(session: &mut Session, sequence: u32) -> String {
    let (mut topic, mut out) = (b"a/b".to_vec(), Vec::new());
    let message = Outgoing { sequence, topic: &mut topic, content: b"hello" };
    session.publish(message, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_core_client_is_ready_with_the_answer_to_its_ping() {
    let mut device = session(Client::Device(1), &[], CORE);
    let (outcome, said) = receive(&mut device, INFO);
    assert_eq!(outcome.unwrap(), "Nothing");
    assert!(said.starts_with("CONNECT {") && said.ends_with("}\r\nPING\r\n"), "{said}");
    assert_eq!(receive(&mut device, "PONG\r\n"), happened("Ready"));
    assert_eq!(publish(&mut device, 0), "PUB a.b 5\r\nhello\r\n");
    assert!(device.may_publish() && device.abandon().is_empty());
    assert_eq!(receive(&mut device, "PONG\r\n"), happened("Pong"));
    assert_eq!(receive(&mut device, "PING\r\n"), (Ok("Nothing".into()), "PONG\r\n".into()));
}

#[test]
fn a_core_subscriber_shares_its_filters_with_its_group() {
    let mut subscriber = session(Client::Subscriber(0), &["a/+/#", "b"], CORE);
    let (_, said) = receive(&mut subscriber, INFO);
    // Other runs, other populations and other people may have a group of that name.
    let group = format!("plimsoll-{}-0-g", RunId::from_bits(7));
    assert!(said.ends_with(&format!("SUB a.*.> {group} 2\r\nSUB b {group} 3\r\nPING\r\n")), "{said}");
    assert_eq!(receive(&mut subscriber, "PONG\r\n"), happened("Ready"));
    let delivered = happened("Delivered([104, 105])");
    assert_eq!(receive(&mut subscriber, "MSG a.1.2 2 2\r\nhi\r\n"), delivered);
}

#[test]
fn the_first_device_makes_the_stream_and_a_message_is_acknowledged_by_its_number() {
    let mut other = session(Client::Device(1), &[], CREATED);
    went_on(&mut other, INFO);
    assert_eq!(receive(&mut other, "PONG\r\n"), happened("Ready"), "only the first device does it");
    let mut device = session(Client::Device(0), &[], CREATED);
    let (_, said) = receive(&mut device, INFO);
    assert!(said.contains(&format!("SUB {}* 1\r\nPING", device.inbox)), "{said}");
    let (outcome, said) = receive(&mut device, "PONG\r\n");
    assert_eq!(outcome.unwrap(), "Accepted");
    let run = RunId::from_bits(7);
    assert!(said.starts_with(&format!("PUB $JS.API.STREAM.CREATE.plimsoll-{run} ")), "{said}");
    assert!(said.contains(&format!("\"subjects\":[\"city.{run}.*\"]")), "{said}");
    assert_eq!(answer(&mut device, "r", "{\"config\":{}}"), happened("Ready"));
    assert_eq!(publish(&mut device, 7), format!("PUB a.b {}7 5\r\nhello\r\n", device.inbox));
    publish(&mut device, 8);
    assert!(!device.may_publish(), "two are in flight");
    assert_eq!(answer(&mut device, "7", "{\"stream\":\"S\",\"seq\":1}"), happened("Acknowledged(7)"));
    assert_eq!(answer(&mut device, "7", "{\"stream\":\"S\",\"seq\":1}"), happened("UnknownAck"));
    let full = "{\"error\":{\"code\":503,\"err_code\":10077,\"description\":\"maximum messages exceeded\"}}";
    let refused = happened("Refused(8, \"maximum messages exceeded (code 10077)\")");
    assert_eq!(answer(&mut device, "8", full), refused);
    publish(&mut device, 9);
    assert_eq!(device.abandon(), [9]);
    let mut out = Vec::new();
    device.goodbye(false, &mut out);
    assert!(out.is_empty(), "the run goes on");
    device.goodbye(true, &mut out);
    assert!(out.starts_with(format!("PUB $JS.API.STREAM.DELETE.plimsoll-{run} ").as_bytes()));
}

#[test]
fn a_stream_that_another_client_makes_at_the_same_moment_is_found() {
    let overlap = "{\"error\":{\"err_code\":10065,\"description\":\"subjects overlap\"}}";
    let refused = || {
        let mut device = session(Client::Device(0), &[], CREATED);
        went_on(&mut device, INFO);
        went_on(&mut device, "PONG\r\n");
        let (outcome, said) = answer(&mut device, "r", overlap);
        assert_eq!(outcome.unwrap(), "Nothing");
        assert!(said.starts_with("PUB $JS.API.STREAM.INFO.plimsoll-"), "{said}");
        device
    };
    assert_eq!(answer(&mut refused(), "r", "{\"config\":{}}"), happened("Ready"));
    let missing = "{\"error\":{\"err_code\":10059,\"description\":\"stream not found\"}}";
    let failure = answer(&mut refused(), "r", missing).0.unwrap_err();
    assert!(failure.lasting && failure.reason.contains("subjects overlap (code 10065); write the name"));
}

#[test]
fn tls_begins_behind_the_greeting() {
    let mut settings = Arc::into_inner(settings(CORE)).unwrap();
    settings.is_secured = true;
    let mut device = Session::new(Client::Device(1), &[], &Arc::new(settings));
    device.begin(&mut Vec::new());
    let without = receive(&mut device, INFO).0.unwrap_err();
    assert_eq!(without, Failure::lasting("the platform has no TLS: write its address as `nats://`"));
    assert_eq!(receive(&mut device, "INFO {\"tls_available\":true}\r\n"), happened("Secured"));
    let mut out = Vec::new();
    device.begin(&mut out);
    assert!(out.starts_with(b"CONNECT {"), "{}", String::from_utf8_lossy(&out));
    assert_eq!(receive(&mut device, "PONG\r\n"), happened("Ready"));
    // The handshake of the next connection fails: the one after it begins with the greeting.
    device.abandon();
    device.begin(&mut Vec::new());
    assert_eq!(receive(&mut device, "INFO {\"tls_required\":true}\r\n"), happened("Secured"));
    device.abandon();
    out.clear();
    device.begin(&mut out);
    assert!(out.is_empty() && device.phase == Phase::Greeting);
}

#[test]
fn a_message_that_no_stream_takes_is_refused() {
    let mut device = session(Client::Device(1), &[], STREAM);
    went_on(&mut device, INFO);
    went_on(&mut device, "PONG\r\n");
    publish(&mut device, 3);
    let unheard = format!("HMSG {}3 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", device.inbox);
    let refused = happened("Refused(3, \"no stream of the platform takes messages at that subject\")");
    assert_eq!(receive(&mut device, &unheard), refused);
}

#[test]
fn a_subscriber_is_a_consumer_of_the_stream_and_acknowledges() {
    let mut subscriber = session(Client::Subscriber(1), &["a/#", "b"], STREAM);
    let (_, said) = receive(&mut subscriber, INFO);
    let deliver = subscriber.deliver_subject(2);
    let group = format!("plimsoll-{}-0-g-2", RunId::from_bits(7));
    assert!(said.contains(&format!("SUB {deliver} {group} 2\r\n")), "{said}");
    let (outcome, said) = receive(&mut subscriber, "PONG\r\n");
    assert_eq!(outcome.unwrap(), "Accepted");
    assert!(said.starts_with("PUB $JS.API.STREAM.INFO.S "), "{said}");
    let (outcome, said) = answer(&mut subscriber, "r", "{}");
    assert_eq!(outcome.unwrap(), "Nothing");
    assert!(
        said.contains(&format!("\"deliver_group\":\"{group}\"")),
        "the same group takes its messages: {said}"
    );
    assert!(said.starts_with(&format!("PUB $JS.API.CONSUMER.DURABLE.CREATE.S.{group} ")), "{said}");
    assert!(said.contains("\"ack_wait\":32000000000"), "what a dead member had comes to another one: {said}");
    assert!(said.contains("\"filter_subject\":\"a.>\""), "{said}");
    assert_eq!(answer(&mut subscriber, "r", "{}").0.unwrap(), "Nothing");
    assert_eq!(answer(&mut subscriber, "r", "{}"), happened("Ready"));
    let pushed = receive(&mut subscriber, "MSG a.1 2 $JS.ACK.S.1 2\r\nhi\r\n");
    assert_eq!(pushed, (Ok("Delivered([104, 105])".into()), "PUB $JS.ACK.S.1 4\r\n+ACK\r\n".into()));
}

#[test]
fn a_consumer_that_was_removed_ends_the_connection() {
    let mut subscriber = session(Client::Subscriber(1), &["a/#"], STREAM);
    went_on(&mut subscriber, INFO);
    went_on(&mut subscriber, "PONG\r\n");
    answer(&mut subscriber, "r", "{}").0.unwrap();
    assert_eq!(subscriber.wakes_after(), None);
    assert_eq!(answer(&mut subscriber, "r", "{\"name\":\"c1\"}"), happened("Ready"));
    assert_eq!(subscriber.wakes_after(), Some(LOOKS));
    let mut out = Vec::new();
    subscriber.wake(&mut out);
    let asked = format!("PUB $JS.API.CONSUMER.INFO.S.c1 {}l 0\r\n\r\n", subscriber.inbox);
    assert_eq!(String::from_utf8(out).unwrap(), asked);
    let mut answered = |said: &str| answer(&mut subscriber, "l", said).0;
    assert_eq!(answered("{\"name\":\"c1\"}").unwrap(), "Nothing");
    // That JetStream cannot say at present does not end what goes on.
    assert_eq!(
        answered("{\"error\":{\"err_code\":10008,\"description\":\"not available\"}}").unwrap(),
        "Nothing"
    );
    for code in [10_014, 10_059] {
        let gone = format!("{{\"error\":{{\"err_code\":{code},\"description\":\"not found\"}}}}");
        let gone = answered(&gone).unwrap_err();
        assert!(!gone.lasting && gone.reason.contains("our consumer any more: not found"), "{gone:?}");
    }
}

#[test]
fn a_subscriber_goes_on_behind_the_last_message_that_came() {
    let alone = settings_for("2", STREAM);
    let mut subscriber = Session::new(Client::Subscriber(1), &["a/#".to_owned()], &alone);
    let mut connect = |stream: &str, consumer: &str| {
        subscriber.begin(&mut Vec::new());
        went_on(&mut subscriber, INFO);
        went_on(&mut subscriber, "PONG\r\n");
        let (_, asked) = answer(&mut subscriber, "r", stream);
        assert_eq!(answer(&mut subscriber, "r", consumer), happened("Ready"));
        went_on(&mut subscriber, "MSG a.1 2 $JS.ACK.S.c.1.12.1.1.0 2\r\nhi\r\n");
        asked
    };
    let stream =
        |created: &str, last: u64| format!("{{\"created\":\"{created}\",\"state\":{{\"last_seq\":{last}}}}}");
    let asked = connect(&stream("noon", 9), "{\"delivered\":{\"stream_seq\":9}}");
    assert!(asked.contains("\"deliver_policy\":\"new\""), "{asked}");
    let asked = connect(&stream("noon", 20), "{}");
    assert!(asked.contains("\"opt_start_seq\":13"), "{asked}");
    let asked = connect(&stream("noon", 3), "{}");
    assert!(asked.contains("\"deliver_policy\":\"new\""), "the stream has lost its last ones: {asked}");
    // It was made again, and may have outgrown the last message that came: all in it is new.
    for last in [0, 20] {
        let asked = connect(&stream(&format!("later {last}"), last), "{}");
        assert!(asked.contains("\"opt_start_seq\":1,") || asked.contains("\"opt_start_seq\":1}"), "{asked}");
    }
}

#[test]
fn what_a_server_cannot_do_is_told_when_a_client_connects() {
    for (more, info, told) in [
        (CORE, "INFO {\"tls_required\":true}\r\n", "the platform wants TLS"),
        (CORE, "INFO {\"max_payload\":4}\r\n", "takes contents of 4 bytes at most"),
        (STREAM, "INFO {}\r\n", "has no JetStream"),
        (CORE, "INFO nothing\r\n", "is no JSON"),
        (CORE, "PONG\r\n", "did not begin with what it is"),
    ] {
        let failure = receive(&mut session(Client::Device(0), &[], more), info).0.unwrap_err();
        assert!(failure.lasting && failure.reason.contains(told), "{failure:?}");
    }
    let mut device = session(Client::Device(0), &[], STREAM);
    went_on(&mut device, INFO);
    went_on(&mut device, "PONG\r\n");
    let missing = "{\"error\":{\"err_code\":10059,\"description\":\"stream not found\"}}";
    let failure = answer(&mut device, "r", missing).0.unwrap_err();
    assert!(failure.lasting && failure.reason.contains("stream not found (code 10059); make the stream"));
}

#[test]
fn errors_end_a_connection_unless_they_are_about_a_subject() {
    let mut device = session(Client::Device(0), &[], CORE);
    went_on(&mut device, INFO);
    let failure = receive(&mut device, "-ERR 'Authorization Violation'\r\n").0.unwrap_err();
    assert!(failure.lasting && failure.reason.contains("write `nats.username`"), "{failure:?}");
    for (shown, advice) in [
        ("username: me, password: { env: P }", "correct `nats.username` and `nats.password`, or write"),
        ("token: { env: T }", "correct `nats.token`, or write"),
    ] {
        let mut device = session(Client::Device(0), &[], &format!("nats: {{ {shown} }}\n"));
        went_on(&mut device, INFO);
        let failure = receive(&mut device, "-ERR 'Authorization Violation'\r\n").0.unwrap_err();
        assert!(failure.lasting && failure.reason.contains(advice), "{failure:?}");
    }
    device.begin(&mut Vec::new());
    went_on(&mut device, INFO);
    went_on(&mut device, "PONG\r\n");
    let complaint = happened("Complaint(\"Permissions Violation for Publish to \\\"a\\\"\")");
    assert_eq!(receive(&mut device, "-ERR 'Permissions Violation for Publish to \"a\"'\r\n"), complaint);
    let failure = receive(&mut device, "-ERR 'Slow Consumer'\r\n").0.unwrap_err();
    assert_eq!(failure, Failure::passing("the platform ended the connection: Slow Consumer"));
}

#[test]
fn whatever_a_server_says_nothing_panics() {
    let say = |session: &Session, place: usize| {
        let (inbox, content) = (
            &session.inbox,
            "{\"created\":\"noon\",\"state\":{\"last_seq\":3},\"delivered\":{\"stream_seq\":3}}",
        );
        let answered = |to: &str, text: &str| format!("MSG {inbox}{to} 1 {}\r\n{text}\r\n", text.len());
        let missing = "{\"error\":{\"err_code\":10059}}";
        let said = match place {
            0 => INFO.to_owned(),
            1 => "PONG\r\n".to_owned(),
            2..=4 => answered("r", content),
            5 => answered("r", "{\"error\":{\"err_code\":10065}}"),
            6 => answered("0", content),
            7 => answered("1", missing),
            8 => format!("HMSG {inbox}1 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"),
            9 => "MSG a.1 2 $JS.ACK.S.c.1.12.1.1.0 2\r\nhi\r\n".to_owned(),
            10 => "MSG a.1 99 $JS.ACK.S 2\r\nhi\r\n".to_owned(),
            11 => "-ERR 'Permissions Violation for Publish to \"a\"'\r\n".to_owned(),
            12 => "PING\r\n".to_owned(),
            _ => "+OK\r\n".to_owned(),
        };
        said.into_bytes()
    };
    let filters = ["a/#".to_owned(), "b".to_owned()];
    for (more, subscribers) in [(CORE, "2"), (STREAM, "2"), (CREATED, "{ count: 2, share: g }")] {
        let settings = settings_for(subscribers, more);
        hostile::endure(|| Session::new(Client::Device(0), &[], &settings), 14, say);
        hostile::endure(|| Session::new(Client::Subscriber(1), &filters, &settings), 14, say);
    }
}
