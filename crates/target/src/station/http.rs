//! The server's side of HTTP/1.1, as much as a calibrated target needs (RFC 9112): requests with a body of known length,
//! kept-alive connections, pipelined requests answered in order. No I/O.

use super::session::{LARGEST_MESSAGE, Message, Refused, Served};
use plimsoll_codec::mqtt::QoS;
use std::collections::VecDeque;

/// Largest head of a request, in bytes.
const LARGEST_HEAD: usize = 16 * 1024;
/// Most requests of a connection that wait for their answers.
const MOST_PIPELINED: usize = 1024;
const OK: [&str; 2] = ["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", "\r\nok\n"];
const NO_CONTENT: [&str; 2] = ["HTTP/1.1 204 No Content\r\n", "\r\n"];
const UNAVAILABLE: [&str; 2] = ["HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n", "\r\n"];
/// What a client of HTTP/1.0 must be told for its connection to stay (RFC 9112 appendix C.2.2).
const KEEP_ALIVE: &str = "Connection: keep-alive\r\n";
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
const NO_LENGTH: &[u8] = b"HTTP/1.1 411 Length Required\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
const TOO_LARGE: &[u8] = b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// One connection's requests.
#[derive(Default)]
pub struct Session {
    /// Requests that were not answered yet, in order.
    pending: VecDeque<Pending>,
    /// The number of the next request; numbers begin anew after 65,535, which more than are ever pending.
    next: u16,
    /// Nothing more is taken: the last request was wrong, or asked to close.
    closing: bool,
    /// Whether the request at the front of the input was told to go on with its body.
    told_to_continue: bool,
}

struct Pending {
    id: u16,
    get: bool,
    keep_alive: bool,
    served: Option<Served>,
}

/// The head of a request.
struct Head<'a> {
    method: &'a str,
    target: &'a str,
    body: usize,
    close: bool,
    /// The client of HTTP/1.0 asked for its connection to stay.
    keep_alive: bool,
    expects: bool,
}

impl Session {
    /// See [`super::session::Session::input`].
    pub fn input(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        messages: &mut Vec<Message>,
    ) -> Result<usize, Refused> {
        let mut taken = 0;
        while !self.closing {
            let rest = bytes.get(taken..).unwrap_or_default();
            let Some(end) = memchr::memmem::find(rest, b"\r\n\r\n") else {
                if rest.len() > LARGEST_HEAD {
                    self.give_up(BAD_REQUEST, out);
                }
                break;
            };
            let head = match head(rest.get(..end).unwrap_or_default()) {
                Ok(head) => head,
                Err(answer) => {
                    self.give_up(answer, out);
                    break;
                }
            };
            let Some(body) = rest.get(end + 4..end + 4 + head.body) else {
                if head.expects && !std::mem::replace(&mut self.told_to_continue, true) {
                    out.extend_from_slice(CONTINUE);
                }
                break;
            };
            self.told_to_continue = false;
            if self.pending.len() >= MOST_PIPELINED {
                return Err(Refused);
            }
            let id = self.next;
            self.next = self.next.wrapping_add(1);
            let get = head.method == "GET";
            self.pending.push_back(Pending { id, get, keep_alive: head.keep_alive, served: None });
            messages.push(Message {
                topic: head.target.to_owned(),
                payload: body.to_vec(),
                qos: QoS::AtMostOnce,
                id,
            });
            self.closing = head.close;
            taken += end + 4 + head.body;
        }
        // What comes after the end is thrown away.
        Ok(if self.closing { bytes.len() } else { taken })
    }

    /// Answers in the order of requests; one that is lost holds up those behind it, as a server that hangs does.
    pub fn answer(&mut self, message: &Message, served: Served, out: &mut Vec<u8>) {
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.id == message.id) {
            pending.served = Some(served);
        }
        while let Some(&Pending { get, keep_alive, served: Some(served), .. }) = self.pending.front() {
            let [head, rest] = match (served, get) {
                (Served::Lost, _) => return,
                (Served::Refused, _) => UNAVAILABLE,
                (Served::Well, true) => OK,
                (Served::Well, false) => NO_CONTENT,
            };
            out.extend_from_slice(head.as_bytes());
            if keep_alive {
                out.extend_from_slice(KEEP_ALIVE.as_bytes());
            }
            out.extend_from_slice(rest.as_bytes());
            self.pending.pop_front();
        }
    }

    /// Whether everything was answered and nothing more is taken.
    pub fn is_over(&self) -> bool {
        self.closing && self.pending.is_empty()
    }

    /// Bytes that requests without an answer hold.
    pub fn waiting_bytes(&self) -> usize {
        self.pending.len() * size_of::<Pending>()
    }

    fn give_up(&mut self, answer: &[u8], out: &mut Vec<u8>) {
        self.closing = true;
        out.extend_from_slice(answer);
    }
}

/// Reads the head of a request; what is wrong with it as the answer.
fn head(bytes: &[u8]) -> Result<Head<'_>, &'static [u8]> {
    let text = std::str::from_utf8(bytes).map_err(|_| BAD_REQUEST)?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some(version), None) = (method, target, version, words.next()) else {
        return Err(BAD_REQUEST);
    };
    if method.is_empty() || target.is_empty() || !version.starts_with("HTTP/1.") {
        return Err(BAD_REQUEST);
    }
    let old = version == "HTTP/1.0";
    let mut head = Head { method, target, body: 0, close: old, keep_alive: false, expects: false };
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(BAD_REQUEST)?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.body = value.parse().map_err(|_| BAD_REQUEST)?,
            "transfer-encoding" => return Err(NO_LENGTH),
            "connection" if value.eq_ignore_ascii_case("close") => head.close = true,
            "connection" if value.eq_ignore_ascii_case("keep-alive") => {
                head.close = false;
                head.keep_alive = old;
            }
            "expect" => head.expects = value.eq_ignore_ascii_case("100-continue"),
            _ => {}
        }
    }
    if head.body > LARGEST_MESSAGE { Err(TOO_LARGE) } else { Ok(head) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(session: &mut Session, bytes: &[u8]) -> (usize, String, Vec<Message>) {
        let (mut out, mut messages) = (Vec::new(), Vec::new());
        let taken = session.input(bytes, &mut out, &mut messages).unwrap();
        (taken, String::from_utf8(out).unwrap(), messages)
    }

    fn answer(session: &mut Session, message: &Message, served: Served) -> String {
        let mut out = Vec::new();
        session.answer(message, served, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn pipelined_requests_are_answered_in_order() {
        let mut session = Session::default();
        let bytes = b"POST /a HTTP/1.1\r\nHost: x\r\ncontent-length: 2\r\n\r\nhiGET /b HTTP/1.1\r\n\r\nPOST";
        let (taken, said, messages) = input(&mut session, bytes);
        assert_eq!((taken, said.as_str(), messages.len()), (bytes.len() - 4, "", 2));
        assert_eq!((messages[0].topic.as_str(), messages[0].payload.as_slice()), ("/a", &b"hi"[..]));
        assert_eq!(answer(&mut session, &messages[1], Served::Well), "");
        let both = answer(&mut session, &messages[0], Served::Well);
        assert!(both.starts_with("HTTP/1.1 204") && both.contains("HTTP/1.1 200 OK"), "{both}");
    }

    #[test]
    fn an_old_client_is_told_that_its_connection_stays() {
        let mut session = Session::default();
        let (_, _, messages) = input(&mut session, b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
        let said = answer(&mut session, &messages[0], Served::Well);
        assert!(said.contains("\r\nConnection: keep-alive\r\n\r\nok\n") && !session.is_over(), "{said}");
        let (_, _, messages) = input(&mut session, b"GET / HTTP/1.0\r\n\r\n");
        assert!(
            !answer(&mut session, &messages[0], Served::Well).contains("keep-alive") && session.is_over()
        );
    }

    #[test]
    fn a_full_queue_is_told_and_a_lost_answer_never_comes() {
        let mut session = Session::default();
        let (_, _, messages) = input(&mut session, b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n");
        assert!(answer(&mut session, &messages[0], Served::Refused).starts_with("HTTP/1.1 503"));
        assert_eq!(answer(&mut session, &messages[1], Served::Lost), "");
    }

    #[test]
    fn what_is_no_request_is_told_and_ends_the_connection() {
        for (bytes, code) in [
            ("GET\r\n\r\n", "400"),
            ("GET / SMTP/1.1\r\n\r\n", "400"),
            ("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "400"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "411"),
            ("POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", "413"),
        ] {
            let mut session = Session::default();
            let (taken, said, messages) = input(&mut session, bytes.as_bytes());
            assert!(said.starts_with(&format!("HTTP/1.1 {code}")), "{bytes:?}: {said}");
            assert_eq!((taken, messages.len()), (bytes.len(), 0));
        }
        let mut endless = Session::default();
        let (_, said, _) = input(&mut endless, &vec![b'a'; LARGEST_HEAD + 1]);
        assert!(said.starts_with("HTTP/1.1 400"));
    }

    #[test]
    fn a_body_that_is_waited_for_is_asked_for_once() {
        let mut session = Session::default();
        let head = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
        assert_eq!(input(&mut session, head).1, "HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(input(&mut session, head).1, "");
        let whole = [&head[..], b"x"].concat();
        assert_eq!(input(&mut session, &whole).2.len(), 1);
    }
}
