use crate::dissect::Carrier;
use crate::script::{Transcript, once, play, survive};
use crate::side::Side;
use proptest::prelude::*;

const C: Side = Side::Client;
const S: Side = Side::Server;

fn redis(parts: &[(Side, &str)]) -> Transcript {
    let parts: Vec<(Side, &[u8])> = parts.iter().map(|(side, text)| (*side, text.as_bytes())).collect();
    play(Carrier::Stream, 6379, &parts)
}

fn command(words: &[&str]) -> String {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{words}", words.matches("\r\n").count() / 2)
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let asked = command(&["SET", "k", "plm1:d0:7;"]) + &command(&["get", "k"]) + &command(&["INCR", "x"]);
    let transcript =
        redis(&[(C, &asked), (S, "+OK\r\n$10\r\nplm1:d0:7;\r\n-WRONGTYPE Operation against\r\n")]);
    assert_eq!(transcript.lines, ["SET -> OK", "GET -> string", "INCR -> WRONGTYPE"]);
    assert_eq!(transcript.markers, [(C, 7), (S, 7)]);
    assert_eq!(
        transcript
            .observations
            .exchanges
            .iter()
            .filter(|exchange| exchange.outcome.name() == "failed")
            .count(),
        1
    );
}

#[test]
fn replies_of_all_kinds_nest() {
    let asked = command(&["EVAL", "x", "0"]).repeat(8);
    let told = concat!(
        "*2\r\n*1\r\n*0\r\n$-1\r\n",
        "%2\r\n+a\r\n~2\r\n:1\r\n,1.5\r\n$1\r\nb\r\n_\r\n",
        "|1\r\n+ttl\r\n:5\r\n#t\r\n",
        "(3492890328409238509324850943850943825024385\r\n",
        "!21\r\nSYNTAX invalid syntax\r\n",
        "=8\r\ntxt:text\r\n",
        "*-1\r\n",
        "_\r\n",
    );
    let transcript = redis(&[(C, &asked), (S, told)]);
    let statuses: Vec<&str> =
        transcript.lines.iter().map(|line| line.trim_start_matches("EVAL -> ")).collect();
    assert_eq!(statuses, ["array", "map", "boolean", "integer", "SYNTAX", "string", "nil", "nil"]);
}

#[test]
fn the_last_confirmation_answers_a_subscription_and_messages_are_notices() {
    let told = concat!(
        "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
        "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n",
        "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n$2\r\nhi\r\n",
    );
    let unsubscribed =
        "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n";
    // Not subscribed any more, an array that looks like a message is a reply.
    let list = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n";
    let transcript = redis(&[
        (C, &command(&["SUBSCRIBE", "a", "b"])),
        (S, told),
        (C, &command(&["UNSUBSCRIBE"])),
        (S, unsubscribed),
        (C, &command(&["LRANGE", "l", "0", "2"])),
        (S, list),
    ]);
    assert_eq!(
        transcript.lines,
        [
            "SUBSCRIBE -> subscribe",
            "! subscribe",
            "! message",
            "! pmessage",
            "UNSUBSCRIBE -> unsubscribe",
            "! unsubscribe",
            "LRANGE -> array"
        ]
    );
}

#[test]
fn pushes_of_resp3_come_between_replies() {
    let told =
        "%1\r\n+proto\r\n:3\r\n>3\r\n+subscribe\r\n+a\r\n:1\r\n>3\r\n+message\r\n+a\r\n+x\r\n+PONG\r\n";
    let asked = command(&["HELLO", "3"]) + &command(&["SUBSCRIBE", "a"]) + &command(&["PING"]);
    let transcript = redis(&[(C, &asked), (S, told)]);
    assert_eq!(transcript.lines, ["HELLO -> map", "SUBSCRIBE -> subscribe", "PING -> PONG", "! message"]);
}

#[test]
fn a_transaction_queues_and_then_executes() {
    let asked = command(&["MULTI"]) + &command(&["SET", "a", "1"]) + &command(&["EXEC"]);
    let transcript = redis(&[(C, &asked), (S, "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n")]);
    assert_eq!(transcript.lines, ["MULTI -> OK", "SET -> QUEUED", "EXEC -> array"]);
}

#[test]
fn what_client_reply_silences_is_one_way() {
    let asked = [
        command(&["CLIENT", "REPLY", "SKIP"]),
        command(&["SET", "a", "1"]),
        command(&["GET", "a"]),
        command(&["CLIENT", "reply", "off"]),
        command(&["SET", "a", "2"]),
        command(&["CLIENT", "REPLY", "SKIP"]),
        command(&["SET", "a", "3"]),
        command(&["CLIENT", "REPLY", "ON"]),
        command(&["CLIENT", "REPLY", "OFF"]),
        command(&["RESET"]),
    ];
    let transcript = redis(&[(C, &asked.concat()), (S, "$1\r\n1\r\n+OK\r\n+RESET\r\n")]);
    let expected = [
        "CLIENT one-way",
        "SET one-way",
        "CLIENT one-way",
        "SET one-way",
        "CLIENT one-way",
        "SET one-way",
        "CLIENT one-way",
        "GET -> string",
        "CLIENT -> OK",
        "RESET -> RESET",
    ];
    assert_eq!(transcript.lines, expected);
}

#[test]
fn commands_in_a_line_are_known_by_their_answer() {
    let transcript = redis(&[
        (C, "PING\r\n"),
        (S, "+PONG\r\n"),
        (C, "\r\nSET a  b\n"),
        (S, "+OK\r\n"),
        (C, "GET nothing\r\n"),
    ]);
    assert_eq!(transcript.lines, ["PING -> PONG", "SET -> OK", "GET unanswered"]);
}

#[test]
fn a_blocking_command_without_an_answer_is_unanswered() {
    let transcript = redis(&[(C, &command(&["BLPOP", "q", "0"]))]);
    assert_eq!(transcript.lines, ["BLPOP unanswered"]);
}

#[test]
fn what_monitor_shows_and_what_nobody_asked_for_is_told_apart() {
    let transcript = redis(&[
        (C, &command(&["MONITOR"])),
        (S, "+OK\r\n"),
        (S, "+1339518083.107412 [0 127.0.0.1:60866] \"keys\" \"*\"\r\n"),
        (S, "-ERR max number of clients reached\r\n"),
    ]);
    assert_eq!(transcript.lines, ["MONITOR -> OK", "! MONITOR", "? ERR"]);
}

#[test]
fn a_large_value_is_passed_and_its_marker_found() {
    let value = format!("{}plm1:d0:1;{}", "x".repeat(3 << 20), "y".repeat(100_000));
    let asked = command(&["SET", "k", &value]);
    let parts: Vec<(Side, &str)> = vec![(C, &asked), (S, "+OK\r\n")];
    let bytes: Vec<(Side, &[u8])> = parts.iter().map(|(side, text)| (*side, text.as_bytes())).collect();
    let transcript = once(Carrier::Stream, 6379, &bytes, 1460);
    assert_eq!(transcript.lines, ["SET -> OK"]);
    assert_eq!(transcript.markers, [(C, 1)]);
    assert_eq!(transcript.observations.exchanges[0].request.bytes, asked.len() as u64);
}

#[test]
fn replication_is_not_read() {
    let transcript =
        redis(&[(C, &command(&["PSYNC", "?", "-1"])), (S, "+FULLRESYNC 0123 0\r\n$3\r\nabc*1\r\n")]);
    assert_eq!(transcript.lines, ["PSYNC one-way"]);
    assert!(transcript.observations.breaches.is_empty());
}

#[test]
fn hostile_bytes_are_breaches_with_their_reason() {
    let good = command(&["PING"]);
    for (bytes, reason) in [
        ("*1\r\n$99999999999999\r\n", "a length of too many digits"),
        ("*1\r\n$5000000000\r\n", "a string longer than any server takes"),
        ("*9999999999\r\n", "more elements than any server takes"),
        ("*1\r\n:1\r\n", "a command that is not an array of strings"),
        ("*1\r\n$3\r\nabcd\r\n", "a string that does not end where its length says"),
        ("*1\n", "a line that does not end in CRLF"),
        ("*\r\n", "a length without digits"),
        ("*x\r\n", "a length that is no number"),
        ("\x01\x02\n", "a command that is neither an array nor a line"),
    ] {
        let transcript = redis(&[(C, &good), (S, "+PONG\r\n"), (C, bytes)]);
        assert_eq!(transcript.lines, ["PING -> PONG", &format!("breach: {reason}")], "{bytes:?}");
    }
    let deep = "*1\r\n".repeat(100);
    for (bytes, reason) in [
        (deep.as_str(), "values nested too deeply"),
        ("?1\r\n", "a value of no known kind"),
        ("*?\r\n", "a streamed value, which no server sends"),
    ] {
        let transcript = redis(&[(C, &good), (S, bytes)]);
        assert_eq!(transcript.lines, ["PING unknown", &format!("breach: {reason}")], "{bytes:?}");
    }
}

#[test]
fn what_follows_a_breach_is_read_again() {
    let (ping, get) = (command(&["PING"]), command(&["GET", "a"]));
    let parts: [(Side, &[u8]); 6] = [
        (C, ping.as_bytes()),
        (S, b"+PONG\r\n"),
        (C, b"*1\r\n:1\r\n"),
        (C, b"more of it"),
        (C, get.as_bytes()),
        (S, b"$1\r\n1\r\n"),
    ];
    let transcript = once(Carrier::Stream, 6379, &parts, usize::MAX);
    let breach = "breach: a command that is not an array of strings";
    assert_eq!(transcript.lines, ["PING -> PONG", breach, "GET -> string"]);
    assert_eq!(transcript.observations.skipped, 18);
}

proptest! {
    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), side in any::<bool>()) {
        let side = if side { C } else { S };
        survive(6379, &[(C, b"*1\r\n$4\r\nPING\r\n"), (side, &bytes), (side, &bytes)]);
    }

    #[test]
    fn a_spoilt_conversation_ends_well(at in 0_usize..60, byte in any::<u8>(), cut in 0_usize..60) {
        let mut told = b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n%1\r\n+a\r\n$3\r\nxyz\r\n".to_vec();
        if let Some(place) = told.get_mut(at) {
            *place = byte;
        }
        told.truncate(told.len() - cut.min(told.len()));
        survive(6379, &[(C, b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n*1\r\n$3\r\nGET\r\n"), (S, &told)]);
    }
}

#[test]
fn values_are_read_elements_are_taken_and_messages_are_pushed() {
    let ask = |words: &[&str]| command(words);
    let manners = |asked: &str, told: &str| redis(&[(C, asked), (S, told)]).manners();
    let value = "$10\r\nplm1:d0:7;\r\n";
    assert_eq!(manners(&ask(&["SET", "k", "plm1:d0:7;"]), "+OK\r\n"), [(7, "handed")]);
    assert_eq!(manners(&ask(&["GET", "k"]), value), [(7, "answered")]);
    assert_eq!(manners(&ask(&["HGETALL", "k"]), &format!("*2\r\n$1\r\nf\r\n{value}")), [(7, "answered")]);
    assert_eq!(manners(&ask(&["LRANGE", "k", "0", "9"]), &format!("*1\r\n{value}")), [(7, "answered")]);
    for take in ["BLPOP", "BRPOP", "LPOP", "rpop", "XREADGROUP", "SPOP", "GETDEL", "BLMOVE"] {
        assert_eq!(manners(&ask(&[take, "k"]), &format!("*1\r\n{value}")), [(7, "taken")], "{take}");
    }
    let push = redis(&[
        (C, &ask(&["SUBSCRIBE", "c"])),
        (S, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"),
        (S, &format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n{value}")),
    ]);
    assert_eq!(push.manners(), [(7, "handed")]);
    assert_eq!(manners(&ask(&["ECHO", "plm1:d0:7;"]), value), [(7, "handed"), (7, "echoed")]);
}
