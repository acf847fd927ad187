use crate::dissect::Carrier;
use crate::script::{Transcript, once, play, survive};
use crate::side::Side;
use proptest::prelude::*;

const C: Side = Side::Client;
const S: Side = Side::Server;

fn nats(parts: &[(Side, &str)]) -> Transcript {
    let parts: Vec<(Side, &[u8])> = parts.iter().map(|(side, text)| (*side, text.as_bytes())).collect();
    play(Carrier::Stream, 4222, &parts)
}

#[test]
fn a_session_begins_and_messages_are_published_and_delivered() {
    let transcript = nats(&[
        (S, "INFO {\"server_id\":\"x\",\"max_payload\":1048576} \r\n"),
        (C, "CONNECT {\"verbose\":true}\r\nPING\r\n"),
        (S, "+OK\r\nPONG\r\n"),
        (
            C,
            "SUB t.> g 1\r\nsub u 2\r\nUNSUB 1 5\r\nPUB t.a 10\r\nplm1:d0:1;\r\nHPUB t.b 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
        ),
        (
            S,
            "MSG t.a 1 10\r\nplm1:d0:1;\r\nHMSG t.b 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n-ERR 'Stale Connection'\r\n",
        ),
    ]);
    assert_eq!(
        transcript.lines,
        [
            "! INFO",
            "! CONNECT",
            "! PING",
            "! +OK",
            "! PONG",
            "PUB one-way",
            "HPUB one-way",
            "! SUB",
            "! SUB",
            "! UNSUB",
            "! MSG",
            "! HMSG",
            "! -ERR"
        ]
    );
    assert_eq!(transcript.markers, [(C, 1), (S, 1)]);
}

#[test]
fn a_request_is_answered_on_its_reply_subject() {
    let transcript = nats(&[
        (
            C,
            "SUB _INBOX.a.* 1\r\nPUB svc _INBOX.a.1 2\r\nhi\r\nPUB svc _INBOX.a.2 2\r\nhi\r\nPUB mute _INBOX.a.3 2\r\nhi\r\n",
        ),
        (S, "MSG _INBOX.a.2 1 2\r\nho\r\nMSG other 7 2\r\nhm\r\n"),
        (S, "HMSG _INBOX.a.1 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\nMSG _INBOX.a.1 1 2\r\nho\r\n"),
    ]);
    assert_eq!(transcript.lines, ["PUB -> MSG", "PUB -> 503", "PUB unanswered", "! SUB", "! MSG", "! MSG"]);
    let failed = transcript
        .observations
        .exchanges
        .iter()
        .filter(|exchange| exchange.outcome.name() == "failed")
        .count();
    assert_eq!(failed, 1);
}

#[test]
fn who_replies_asks_nothing() {
    let transcript = nats(&[
        (C, "SUB svc 1\r\n"),
        (S, "MSG svc 1 reply.here 2\r\nhi\r\n"),
        (C, "PUB reply.here 2\r\nho\r\nPUB reply.here 2\r\nho\r\nPUB _INBOX.x 0\r\n\r\n"),
    ]);
    assert_eq!(transcript.lines, ["! SUB", "! MSG", "PUB one-way", "! PUB", "! PUB"]);
}

#[test]
fn jetstream_acknowledges_and_is_asked_for_messages() {
    let transcript = nats(&[
        (C, "SUB _INBOX.m.* 1\r\nSUB _INBOX.p.* 2\r\nPUB js.x _INBOX.m.1 1\r\nx\r\n"),
        (S, "MSG _INBOX.m.1 1 23\r\n{\"stream\":\"S\",\"seq\":1} \r\n"),
        (C, "PUB $JS.API.CONSUMER.MSG.NEXT.S.d _INBOX.p.9 1\r\n2\r\n"),
        (S, "MSG js.x 2 $JS.ACK.S.d.1 1\r\nx\r\nMSG js.x 2 $JS.ACK.S.d.2 1\r\nx\r\n"),
        (C, "PUB $JS.ACK.S.d.1 0\r\n\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.d _INBOX.p.10 1\r\n2\r\n"),
        (
            S,
            "HMSG _INBOX.p.10 2 21 21\r\nNATS/1.0 100 Idle\r\n\r\n\r\nHMSG _INBOX.p.10 2 21 21\r\nNATS/1.0 408 Late\r\n\r\n\r\n",
        ),
    ]);
    assert_eq!(
        transcript.lines,
        [
            "PUB -> MSG",
            "! SUB",
            "! SUB",
            "PUB $JS.API -> MSG",
            "! MSG",
            "PUB $JS.API -> 408",
            "! PUB",
            "! HMSG"
        ]
    );
}

#[test]
fn messages_may_be_asked_for_again_before_the_first_has_come() {
    let pull = "PUB $JS.API.CONSUMER.MSG.NEXT.S.d _INBOX.p 1\r\n2\r\n";
    let transcript = nats(&[
        (C, &["SUB _INBOX.p 2\r\n", pull, pull].concat()),
        (S, "MSG js.x 2 $JS.ACK.S.d.1 1\r\nx\r\n"),
        (C, pull),
    ]);
    assert_eq!(transcript.lines, ["PUB $JS.API -> MSG", "! SUB", "! PUB $JS.API", "PUB $JS.API unanswered"]);
}

#[test]
fn a_large_message_is_passed_and_its_marker_found() {
    let content = format!("{}plm1:d0:1;{}", "x".repeat(3 << 20), "y".repeat(100_000));
    let said = format!("PUB t {}\r\n{content}\r\nPING\r\n", content.len());
    let transcript = once(Carrier::Stream, 4222, &[(C, said.as_bytes())], 1460);
    assert_eq!(
        (transcript.lines, transcript.markers),
        (vec!["PUB one-way".into(), "! PING".into()], vec![(C, 1)])
    );
}

#[test]
fn hostile_bytes_are_breaches_with_their_reason() {
    let long = "x".repeat(70_000);
    for (bytes, reason) in [
        ("PUB t 99999999999\r\n", "a line that is none of NATS, or of a size that no message has"),
        ("PUB t 999999999\r\n", "a line that is none of NATS, or of a size that no message has"),
        ("HPUB t 9 8\r\n", "a line that is none of NATS, or of a size that no message has"),
        ("PUB t 2\r\nabcd\r\n", "a message that does not end where its size says"),
        ("MSG t 1 2\r\nab\r\n", "a line that this side does not say"),
        ("PUB a b c d e f\r\n", "a line that is none of NATS, or of a size that no message has"),
        (&long, "a line without an end"),
    ] {
        let parts: [(Side, &[u8]); 2] = [(C, b"SUB x 1\r\n"), (C, bytes.as_bytes())];
        let transcript = once(Carrier::Stream, 4222, &parts, usize::MAX);
        assert_eq!(transcript.lines, ["! SUB", &format!("breach: {reason}")], "{bytes:.40}");
    }
}

proptest! {
    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), side in any::<bool>()) {
        let side = if side { C } else { S };
        survive(4222, &[(C, b"SUB x 1\r\n"), (side, &bytes), (side, &bytes)]);
    }

    #[test]
    fn a_spoilt_conversation_ends_well(at in 0_usize..90, byte in any::<u8>(), cut in 0_usize..60) {
        let mut told = b"MSG t.a 1 10\r\nplm1:d0:1;\r\nHMSG t.b 1 r 12 13\r\nNATS/1.0\r\n\r\nx\r\n-ERR 'x'\r\n".to_vec();
        if let Some(place) = told.get_mut(at) {
            *place = byte;
        }
        told.truncate(told.len() - cut.min(told.len()));
        survive(4222, &[(C, b"PUB svc t.a 2\r\nhi\r\nSUB t.> 1\r\n"), (S, &told), (S, &told)]);
    }
}

#[test]
fn consumers_are_given_messages_and_stored_ones_are_read() {
    let ask = |api: &str| format!("SUB _INBOX.p.* 2\r\nPUB {api} _INBOX.p.9 1\r\n2\r\n");
    let told = "MSG _INBOX.p.9 2 10\r\nplm1:d0:4;\r\n";
    let manners = |api: &str| nats(&[(C, &ask(api)), (S, told)]).manners();
    assert_eq!(manners("$JS.API.CONSUMER.MSG.NEXT.S.d"), [(4, "taken")]);
    assert_eq!(manners("$JS.API.DIRECT.GET.KV_b.$KV.b.k"), [(4, "answered")]);
    assert_eq!(manners("$JS.API.STREAM.MSG.GET.S"), [(4, "answered")]);
    assert_eq!(manners("service"), [(4, "answered")]);
    let pushed = nats(&[(C, "SUB t 1\r\nPUB u 10\r\nplm1:d0:3;\r\n"), (S, "MSG t 1 10\r\nplm1:d0:4;\r\n")]);
    assert_eq!(pushed.manners(), [(3, "handed"), (4, "handed")]);
}

#[test]
fn what_a_client_publishes_is_told_without_its_headers() {
    let actions = nats(&[
        (C, "CONNECT {\"verbose\":false}\r\nPING\r\n"),
        (C, "SUB t.> 1\r\nPUB t.a 2\r\nxy\r\nHPUB t.b 12 13\r\nNATS/1.0\r\n\r\nx\r\n"),
        (C, "PUB $JS.API.INFO _INBOX.1 0\r\n\r\n"),
        (S, "MSG t.a 1 2\r\nxy\r\n"),
    ])
    .actions();
    assert_eq!(actions, ["subscribe t.> q0", "publish PUB t.a q0 2 B", "publish PUB t.b q0 1 B", "receive"]);
}
