use crate::dissect::Carrier;
use crate::script::{once, play, survives};
use crate::side::Side;
use plimsoll_model::wire::WireProtocol;
use std::io::Write;

const C: Side = Side::Client;
const S: Side = Side::Server;

fn lines_of(parts: &[(Side, &str)]) -> Vec<String> {
    let parts: Vec<_> = parts.iter().map(|&(side, text)| (side, text.as_bytes())).collect();
    play(Carrier::Stream, 8080, &parts).lines
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let lines = lines_of(&[
        (
            C,
            "GET /1 HTTP/1.1\r\n\r\nPOST /2 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcDELETE /3 HTTP/1.1\r\n\r\n",
        ),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        (
            S,
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n\r\nHTTP/1.1 500\r\nContent-Length: 0\r\n\r\n",
        ),
        (C, "GET /4 HTTP/1.1\r\n\r\n"),
    ]);
    assert_eq!(lines, ["GET -> 200", "POST -> 404", "DELETE -> 500", "GET unanswered"]);
}

#[test]
fn chunks_have_extensions_and_trailers() {
    let lines = lines_of(&[
        (C, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4;a=\"b\"\r\nGET \r\n"),
        (C, "1F\r\n0123456789012345678901234567890\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
        (
            S,
            "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
    ]);
    assert_eq!(lines, ["POST -> 204", "GET -> 200"]);
}

#[test]
fn interim_responses_end_nothing() {
    let lines = lines_of(&[
        (C, "GET / HTTP/1.1\r\n\r\n"),
        (S, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ]);
    assert_eq!(lines, ["GET -> 200", "! 103"]);
    let parts: [(Side, &[u8]); 3] = [
        (C, b"GET / HTTP/1.1\r\n\r\n"),
        (S, b"HTTP/1.1 102 Processing\r\n\r\n"),
        (S, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ];
    let observations = play(Carrier::Stream, 8080, &parts).observations;
    assert_eq!(observations.exchanges[0].interim.map(|at| at.0), Some(2_000_000));
}

#[test]
fn an_expected_body_is_sent_after_100_or_not_at_all() {
    let ask = "PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let sent = lines_of(&[
        (C, ask),
        (S, "HTTP/1.1 100 Continue\r\n\r\n"),
        (C, "hello"),
        (S, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"),
    ]);
    assert_eq!(sent, ["PUT -> 201", "! 100"]);
    let refused = lines_of(&[
        (C, ask),
        (S, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"),
        (C, "GET / HTTP/1.1\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ]);
    assert_eq!(refused, ["PUT -> 417", "GET -> 200"]);
    let sent_all_the_same = lines_of(&[
        (C, ask),
        (S, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"),
        (C, "hello"),
        (C, "GET / HTTP/1.1\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ]);
    assert_eq!(sent_all_the_same, ["PUT -> 417", "GET -> 200"]);
}

#[test]
fn a_request_may_be_answered_before_its_end() {
    let lines = lines_of(&[
        (C, "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n01234"),
        (S, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"),
        (C, "56789"),
        (C, "GET / HTTP/1.1\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ]);
    assert_eq!(lines, ["POST -> 413", "GET -> 200"]);
}

#[test]
fn responses_without_bodies_have_none() {
    let lines = lines_of(&[
        (C, "HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
        (S, "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n"),
        (S, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    ]);
    assert_eq!(lines, ["HEAD -> 200", "GET -> 304", "GET -> 200"]);
}

#[test]
fn a_body_without_length_lasts_until_the_end() {
    let lines = lines_of(&[
        (C, "GET / HTTP/1.0\r\n\r\n"),
        (S, "HTTP/1.0 200 OK\r\n\r\nHTTP/1.1 500 not a response"),
        (S, "\r\n\r\n more"),
    ]);
    assert_eq!(lines, ["GET -> 200"]);
}

#[test]
fn a_tunnel_is_opaque() {
    let parts: [(Side, &[u8]); 3] = [
        (C, b"CONNECT a:443 HTTP/1.1\r\n\r\n"),
        (S, b"HTTP/1.1 200 OK\r\n\r\n\x16\x03\x01"),
        (C, b"GET / HTTP/1.1\r\n\r\n"),
    ];
    let transcript = play(Carrier::Stream, 8080, &parts);
    assert_eq!(transcript.lines, ["CONNECT -> 200"]);
    assert_eq!(transcript.protocol, WireProtocol::Unknown);
}

fn gzip(text: &str) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn markers_are_found_in_bodies_plain_chunked_and_compressed() {
    let packed = gzip("plm1:a:3;");
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n",
        packed.len()
    )
    .into_bytes();
    answer.extend_from_slice(&packed);
    answer.extend_from_slice(b"\r\n0\r\n\r\n");
    let transcript = play(
        Carrier::Stream,
        8080,
        &[(C, b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nplm1:a:2;"), (S, &answer)],
    );
    assert_eq!(transcript.lines, ["POST -> 200"]);
    assert_eq!(transcript.markers, [(C, 2), (S, 3)]);
    let mut ask =
        format!("PUT / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", packed.len())
            .into_bytes();
    ask.extend_from_slice(&packed);
    assert_eq!(play(Carrier::Stream, 8080, &[(C, &ask)]).markers, [(C, 3)]);
}

#[test]
fn hostile_bytes_are_called_what_they_are() {
    let cases: [(&str, &str); 4] = [
        (
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "breach: a chunk whose size is no number",
        ),
        (
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
            "breach: a chunk whose size is no number",
        ),
        ("GET / HTTP/1.1\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "breach: a response of the client"),
        (
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
            "breach: a request whose Transfer-Encoding does not end in chunked",
        ),
    ];
    for (text, wanted) in cases {
        let lines = once(Carrier::Stream, 8080, &[(C, text.as_bytes())], usize::MAX).lines;
        assert!(lines.iter().any(|line| line == wanted), "{text}: {lines:?}");
    }
    // A length that nobody can keep is passed, not kept.
    let lines = lines_of(&[(C, "POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\nx")]);
    assert_eq!(lines, [""; 0]);
}

#[test]
fn after_a_breach_reading_goes_on_where_a_message_begins() {
    let parts: [(Side, &[u8]); 5] = [
        (C, b"GET /1 HTTP/1.1\r\n\r\n"),
        (S, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1rubbish\r\n"),
        (S, b"more of it"),
        (C, b"GET /2 HTTP/1.1\r\n\r\n"),
        (S, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"),
    ];
    let lines = once(Carrier::Stream, 8080, &parts, usize::MAX).lines;
    assert_eq!(lines, ["GET -> 200", "breach: no method at the beginning of a request", "GET -> 200"]);
}

#[test]
fn nothing_that_is_said_stops_the_reading() {
    let good: [(Side, &[u8]); 4] = [
        (C, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"),
        (C, b"3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
        (S, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00"),
        (S, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x03abc"),
    ];
    survives(Carrier::Stream, 8080, &good);
}

#[test]
fn what_a_response_holds_was_asked_for() {
    let parts: [(Side, &[u8]); 4] = [
        (Side::Client, b"POST /v HTTP/1.1\r\nContent-Length: 9\r\n\r\nplm1:d:1;"),
        (Side::Server, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nplm1:d:1;"),
        (Side::Client, b"GET /v HTTP/1.1\r\n\r\n"),
        (Side::Server, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nplm1:d:1;"),
    ];
    let transcript = play(Carrier::Stream, 80, &parts);
    assert_eq!(transcript.manners(), [(1, "handed"), (1, "echoed"), (1, "answered")]);
}

#[test]
fn what_a_client_sends_is_told_with_its_path_and_size() {
    let parts: [(Side, &[u8]); 4] = [
        (C, b"POST /in/7?k=1 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
        (C, b"PUT /in HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"),
        (C, b"GET /state HTTP/1.1\r\n\r\n"),
        (C, b"PATCH /none HTTP/1.1\r\n\r\n"),
    ];
    assert_eq!(
        play(Carrier::Stream, 8080, &parts).actions(),
        ["publish POST /in/7?k=1 q1 3 B", "publish PUT /in q1 5 B", "publish PATCH /none q1 0 B"]
    );
}
