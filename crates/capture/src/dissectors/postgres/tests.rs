use crate::dissect::Carrier;
use crate::script::{Transcript, once, play, survive};
use crate::side::Side;
use plimsoll_model::wire::WireProtocol;
use proptest::prelude::*;

const C: Side = Side::Client;
const S: Side = Side::Server;

/// One message.
fn m(kind: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [&[kind], &(content.len() as u32 + 4).to_be_bytes()[..], content].concat()
}

fn startup(code: u32, content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32 + 8).to_be_bytes()[..], &code.to_be_bytes(), content].concat()
}

fn row(value: &str) -> Vec<u8> {
    m(b'D', [&1_u16.to_be_bytes()[..], &(value.len() as u32).to_be_bytes(), value.as_bytes()].concat())
}

fn error(code: &str) -> Vec<u8> {
    m(b'E', format!("SERROR\0VERROR\0C{code}\0Mno\0\0"))
}

fn ready() -> Vec<u8> {
    m(b'Z', "I")
}

fn execute() -> Vec<u8> {
    [m(b'P', "\0select 1\0\0\0"), m(b'B', "\0\0\0\0\0\0\0\0"), m(b'D', "P\0"), m(b'E', "\0\0\0\0\0")].concat()
}

/// What a server says to [`execute`].
fn executed(value: &str) -> Vec<u8> {
    let columns = [&b"\0\x01x\0"[..], &[0; 18]].concat();
    [m(b'1', ""), m(b'2', ""), m(b'T', columns), row(value), m(b'C', "SELECT 1\0")].concat()
}

fn postgres(parts: &[(Side, Vec<u8>)]) -> Transcript {
    let parts: Vec<(Side, &[u8])> = parts.iter().map(|(side, bytes)| (*side, &bytes[..])).collect();
    play(Carrier::Stream, 5432, &parts)
}

/// Without the notices.
fn exchanges(transcript: &Transcript) -> Vec<&str> {
    transcript.lines.iter().map(String::as_str).filter(|line| !line.starts_with('!')).collect()
}

#[test]
fn a_simple_query_is_one_exchange_up_to_the_end_of_its_last_statement() {
    let told =
        [m(b'T', [&b"\0\x01x\0"[..], &[0; 18]].concat()), row("plm1:d0:3;"), m(b'C', "SELECT 1\0")].concat();
    let transcript = postgres(&[
        (C, startup(0x3_0000, b"user\0me\0\0")),
        (S, [m(b'R', [0; 4]), m(b'S', "TimeZone\0UTC\0"), m(b'K', [1; 8]), ready()].concat()),
        (C, m(b'Q', "select 'plm1:d0:2;'; insert into t values (1)\0")),
        (S, [told, m(b'C', "INSERT 0 1\0"), ready()].concat()),
        (C, m(b'Q', "\0")),
        (S, [m(b'I', ""), ready()].concat()),
        (C, m(b'X', "")),
    ]);
    assert_eq!(
        transcript.lines,
        [
            "! StartupMessage",
            "! Authentication",
            "! ParameterStatus",
            "! BackendKeyData",
            "! ReadyForQuery",
            "Query -> INSERT",
            "Query -> empty",
            "! Terminate"
        ]
    );
    assert_eq!(transcript.markers, [(C, 2), (S, 3)]);
}

#[test]
fn each_execute_is_answered_in_order() {
    let transcript = postgres(&[
        (C, [execute(), execute(), m(b'S', ""), execute(), m(b'S', "")].concat()),
        (S, [executed("1"), executed("2"), ready(), executed("3"), ready()].concat()),
        (C, [execute(), m(b'S', "")].concat()),
        (S, [m(b'1', ""), m(b'2', ""), row("x"), m(b's', ""), ready()].concat()),
    ]);
    let four = ["Execute -> SELECT", "Execute -> SELECT", "Execute -> SELECT", "Execute -> suspended"];
    assert_eq!(exchanges(&transcript), four);
    let notices = |name: &str| transcript.lines.iter().filter(|line| **line == format!("! {name}")).count();
    assert_eq!(
        (notices("Parse"), notices("Sync"), notices("ReadyForQuery"), notices("DataRow")),
        (4, 3, 3, 0)
    );
}

#[test]
fn after_an_error_the_rest_of_the_batch_is_withdrawn() {
    let transcript = postgres(&[
        (C, [execute(), execute(), execute(), m(b'S', ""), execute(), m(b'S', "")].concat()),
        (S, [executed("1"), error("22012"), ready(), executed("4"), ready()].concat()),
    ]);
    assert_eq!(
        exchanges(&transcript),
        ["Execute -> SELECT", "Execute -> 22012", "Execute one-way", "Execute -> SELECT"]
    );
}

#[test]
fn an_error_of_a_batch_without_execute_answers_nothing() {
    let transcript = postgres(&[
        (C, [m(b'P', "s\0selec 1\0\0\0"), m(b'S', ""), execute(), m(b'S', "")].concat()),
        (S, [error("42601"), ready(), executed("1"), ready()].concat()),
    ]);
    assert_eq!(exchanges(&transcript), ["Execute -> SELECT"]);
    assert!(transcript.lines.contains(&String::from("! ErrorResponse")));
}

#[test]
fn a_query_fails_with_its_sqlstate() {
    let transcript = postgres(&[
        (C, m(b'Q', "select 1/0\0")),
        (S, [m(b'N', "SNOTICE\0C00000\0Mhm\0\0"), error("22012"), ready()].concat()),
        (S, m(b'A', "\0\0\0\x01chan\0payload\0")),
    ]);
    assert_eq!(
        transcript.lines,
        ["Query -> 22012", "! NoticeResponse", "! ReadyForQuery", "! NotificationResponse"]
    );
}

#[test]
fn data_is_copied_both_ways() {
    let transcript = postgres(&[
        (C, m(b'Q', "copy t from stdin\0")),
        (S, m(b'G', [0, 0, 1, 0, 0])),
        (C, [m(b'd', "1\n"), m(b'd', "plm1:d0:9;\n"), m(b'c', "")].concat()),
        (S, [m(b'C', "COPY 2\0"), ready()].concat()),
        (C, m(b'Q', "copy t to stdout\0")),
        (
            S,
            [
                m(b'H', [0, 0, 1, 0, 0]),
                m(b'd', "1\n"),
                m(b'd', "2\n"),
                m(b'c', ""),
                m(b'C', "COPY 2\0"),
                ready(),
            ]
            .concat(),
        ),
        (C, m(b'Q', "START_REPLICATION SLOT s LOGICAL 0/0\0")),
        (S, [m(b'W', [0, 0, 0]), m(b'd', "w...")].concat()),
        (C, m(b'd', "r...")),
    ]);
    assert_eq!(
        transcript.lines,
        [
            "Query -> COPY",
            "! CopyInResponse",
            "! CopyData",
            "! CopyData",
            "! CopyDone",
            "Query -> COPY",
            "Query unanswered",
            "! CopyBothResponse",
            "! CopyData",
            "! CopyData"
        ]
    );
    assert!(transcript.observations.exchanges[0].interim.is_some());
    assert_eq!(transcript.markers, [(C, 9)]);
}

#[test]
fn encryption_is_refused_or_accepted() {
    let ssl = startup(80_877_103, b"");
    let refused = postgres(&[
        (C, ssl.clone()),
        (S, b"N".to_vec()),
        (C, startup(0x3_0000, b"user\0me\0\0")),
        (S, error("28P01")),
    ]);
    assert_eq!(refused.lines, ["! SSLRequest", "! EncryptionRefused", "! StartupMessage", "! ErrorResponse"]);
    let accepted = postgres(&[(C, ssl), (S, b"S".to_vec()), (C, b"\x16\x03\x01\x00\x05hello".to_vec())]);
    assert_eq!(accepted.lines, ["! SSLRequest", "! EncryptionAccepted"]);
    assert_eq!(accepted.protocol, WireProtocol::Tls);
    let gss = postgres(&[(C, startup(80_877_104, b"")), (S, b"G".to_vec()), (C, b"\0\0\0\x01x".to_vec())]);
    assert_eq!(gss.lines, ["! GSSENCRequest", "! EncryptionAccepted"]);
    let cancel = postgres(&[(C, startup(80_877_102, &[7; 8]))]);
    assert_eq!(cancel.lines, ["! CancelRequest"]);
}

#[test]
fn a_query_without_an_answer_is_unanswered() {
    assert_eq!(postgres(&[(C, m(b'Q', "select pg_sleep(9)\0"))]).lines, ["Query unanswered"]);
}

#[test]
fn a_long_row_is_passed_and_its_marker_found() {
    let value = format!("{}plm1:d0:1;", "x".repeat(3 << 20));
    let (asked, told) = (m(b'Q', "select x\0"), [row(&value), m(b'C', "SELECT 1\0"), ready()].concat());
    let transcript = once(Carrier::Stream, 5432, &[(C, &asked), (S, &told)], 1460);
    assert_eq!((transcript.lines, transcript.markers), (vec![String::from("Query -> SELECT")], vec![(S, 1)]));
}

#[test]
fn hostile_bytes_are_breaches_with_their_reason() {
    for (bytes, reason) in [
        (b"Q\0\0\0\x03".to_vec(), "a length that no message has"),
        (b"Q\xff\xff\xff\xff".to_vec(), "a length that no message has"),
        (b"!\0\0\0\x04".to_vec(), "a message of no known type"),
        (startup(0x2_0000, b"\0"), "a version of the protocol that is not known"),
        (b"\0\xff\xff\xff\0\x03\0\0".to_vec(), "a length that no startup packet has"),
    ] {
        let transcript = postgres(&[(C, m(b'S', "")), (C, bytes.clone())]);
        assert_eq!(transcript.lines, ["! Sync".into(), format!("breach: {reason}")], "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), side in any::<bool>()) {
        let side = if side { C } else { S };
        survive(5432, &[(C, &m(b'S', "")), (side, &bytes), (side, &bytes)]);
    }

    #[test]
    fn a_spoilt_conversation_ends_well(at in 0_usize..120, byte in any::<u8>(), cut in 0_usize..60) {
        let mut told = [executed("1"), error("22012"), ready(), m(b'A', "\0\0\0\x01chan\0payload\0")].concat();
        if let Some(place) = told.get_mut(at) {
            *place = byte;
        }
        told.truncate(told.len() - cut.min(told.len()));
        survive(5432, &[(C, &[execute(), execute(), m(b'S', "")].concat()), (S, &told), (S, &told)]);
    }
}

#[test]
fn rows_are_read_unless_they_are_deleted_and_notifications_are_pushed() {
    let open = || (C, startup(0x3_0000, b"user\0me\0\0"));
    let begun = || (S, [m(b'R', [0; 4]), ready()].concat());
    let columns = || m(b'T', [&b"\0\x01x\0"[..], &[0; 18]].concat());
    let manners =
        |asked: Vec<u8>, told: Vec<u8>| postgres(&[open(), begun(), (C, asked), (S, told)]).manners();
    let rows = |tag: &str| [columns(), row("plm1:d0:3;"), m(b'C', tag), ready()].concat();
    assert_eq!(manners(m(b'Q', "select x from t\0"), rows("SELECT 1\0")), [(3, "answered")]);
    assert_eq!(manners(m(b'Q', "delete from t returning x\0"), rows("DELETE 1\0")), [(3, "taken")]);
    let asked = [execute(), m(b'S', "")].concat();
    assert_eq!(manners(asked, [executed("plm1:d0:3;"), ready()].concat()), [(3, "answered")]);
    let insert = m(b'Q', "insert into t values ('plm1:d0:3;') returning x\0");
    assert_eq!(manners(insert, rows("INSERT 0 1\0")), [(3, "handed"), (3, "echoed")]);
    let notified = [m(b'A', [&[0; 4][..], b"t\0plm1:d0:3;\0"].concat()), ready()].concat();
    assert_eq!(manners(m(b'Q', "listen t\0"), [m(b'C', "LISTEN\0"), notified].concat())[0].0, 3);
}
