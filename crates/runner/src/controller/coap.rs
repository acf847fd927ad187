//! Requests over CoAP over UDP (RFC 7252), confirmable, in blocks where they must be (RFC 7959): one at a time over a socket.

use super::answers::{headers, next_block};
use super::messages::Idle;
use super::stream::{LOOK, Patience, no_answer};
use super::{Answer, LARGEST_ANSWER, Rendered, Unanswered};
use plimsoll_codec::coap::{Block, Kind, Message, OptionList, code, option};
use plimsoll_load::clock::wall_nanos;
use plimsoll_scenario::plan::CoapPlan;
use plimsoll_stats::distribution::random;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The largest datagram.
const LARGEST_DATAGRAM: usize = 64 * 1024;
/// Bytes of a block.
const BLOCK_SIZE: u16 = 1024;

/// The sockets of a population's steps, made when they are needed.
#[derive(Default)]
pub(super) struct Sockets(Idle<Socket>);

impl Sockets {
    /// Asks, and takes the answer; `None` where the user stops the run before it has come.
    pub fn send(
        &self,
        method: &str,
        written: &Rendered,
        (plan, address): (&CoapPlan, SocketAddr),
        patience: Patience<'_>,
    ) -> Result<Option<Answer>, Unanswered> {
        let unsent = Unanswered::at(false);
        let code = code::method(method).ok_or_else(|| unsent(&format!("CoAP has no method {method}")))?;
        self.0.with(
            |kept| kept.address == address,
            || Socket::open(address).map(Some).map_err(|error| Unanswered::at(false)(&error)),
            |socket| {
                socket.ask(code, written, plan, patience).map_err(|failed| match failed {
                    Failed::Unreached(cause) => Unanswered::at(false)(&cause),
                    Failed::Lost(cause) => Unanswered::at(true)(&cause),
                })
            },
        )
    }
}

/// Why there is no answer, for people.
enum Failed {
    /// Nobody is there.
    Unreached(String),
    /// The platform may have had the request.
    Lost(String),
}

impl From<String> for Failed {
    fn from(cause: String) -> Failed {
        Failed::Lost(cause)
    }
}

struct Socket {
    address: SocketAddr,
    socket: UdpSocket,
    next_id: u16,
    next_token: u64,
    room: Vec<u8>,
}

/// An answer, or a part of one.
struct Came {
    code: u8,
    options: Vec<(u16, Vec<u8>)>,
    payload: Vec<u8>,
    asks_for: Option<Block>,
    brings: Option<Block>,
}

impl Socket {
    fn open(address: SocketAddr) -> std::io::Result<Socket> {
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(LOOK))?;
        // A platform remembers the ids of an address for minutes, and ours may have had another owner.
        let mut random = random(wall_nanos() as u64, &[u64::from(socket.local_addr()?.port())]);
        let (next_id, next_token) = (random.bits() as u16, random.bits());
        Ok(Socket { address, socket, next_id, next_token, room: vec![0; LARGEST_DATAGRAM] })
    }

    /// Asks, with all blocks of the request and of the answer; `None` where the user stops the run before that is done.
    fn ask(
        &mut self,
        code: u8,
        written: &Rendered,
        plan: &CoapPlan,
        patience: Patience<'_>,
    ) -> Result<Option<Answer>, Failed> {
        let until = patience.end();
        let whole = written.body.as_slice();
        let mut size = plan.block_size.unwrap_or(BLOCK_SIZE);
        let in_blocks = whole.len() > usize::from(size);
        let (mut sent, mut wanted, mut body) = (0, None, Vec::new());
        loop {
            let mut list = written.options.clone();
            list.add_target(written.path.as_bytes());
            let end = (sent + usize::from(size)).min(whole.len());
            let payload = match wanted {
                Some(_) => &[],
                None if in_blocks => {
                    let block = Block::new((sent / usize::from(size)) as u32, end < whole.len(), size);
                    list.add_number(option::BLOCK1, block.to_number());
                    whole.get(sent..end).unwrap_or_default()
                }
                None => whole,
            };
            if let Some(block) = wanted {
                list.add_number(option::BLOCK2, block);
            }
            let Some(came) = self.exchange(code, &list, payload, (until, plan, patience))? else {
                return Ok(None);
            };
            let has_more = in_blocks && wanted.is_none() && end < whole.len();
            if came.code == code::CONTINUE && !has_more {
                return Err("the platform asks for more of a request that it has in full".to_owned().into());
            }
            if came.code == code::CONTINUE {
                // The platform may want smaller blocks, from the first byte that it has not got.
                size = came.asks_for.map_or(size, |block| block.size().min(size));
                sent = end;
                continue;
            }
            body.extend_from_slice(&came.payload);
            match came.brings.filter(|block| block.more) {
                Some(block) if (body.len() as u64) < LARGEST_ANSWER => {
                    wanted = Some(next_block(block, came.payload.len())?);
                }
                _ => return Ok(Some((code::status(came.code), headers(&came.options), body))),
            }
        }
    }

    /// One request and its answer.
    fn exchange(
        &mut self,
        code: u8,
        list: &OptionList,
        payload: &[u8],
        (until, plan, patience): (Instant, &CoapPlan, Patience<'_>),
    ) -> Result<Option<Came>, Failed> {
        let (id, token) = (self.next_id, self.next_token.to_be_bytes());
        (self.next_id, self.next_token) = (id.wrapping_add(1), self.next_token.wrapping_add(1));
        let (mut options, mut datagram) = (Vec::new(), Vec::new());
        list.encode(&mut options);
        let request =
            Message { kind: Kind::Confirmable, code, id, token: &token, options: &options, payload };
        request.encode(&mut datagram);
        let mut wait = plan.ack_timeout.to_duration();
        let (mut sendings, mut again_at, mut is_acknowledged) = (0, Instant::now(), false);
        loop {
            let now = Instant::now();
            if patience.is_stopped() {
                return Ok(None);
            }
            if now > until {
                return Err(no_answer(patience.timeout).into());
            }
            if !is_acknowledged && now >= again_at {
                if sendings > plan.max_retransmit {
                    return Err(format!("no answer to {sendings} sendings").into());
                }
                self.socket.send(&datagram).map_err(failed)?;
                (sendings, again_at, wait) = (sendings + 1, now + wait, wait * 2);
            }
            let left = if is_acknowledged { LOOK } else { LOOK.min(again_at.saturating_duration_since(now)) };
            // None at all would be to wait for ever.
            let _ = self.socket.set_read_timeout(Some(left.max(Duration::from_millis(1))));
            let length = match self.socket.recv(&mut self.room) {
                Ok(length) => length,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            let Ok(message) = Message::decode(self.room.get(..length).unwrap_or_default()) else { continue };
            let is_answer = message.token == token && message.code >> 5 != 0;
            let say = |kind, id| {
                let mut empty = Vec::new();
                Message::empty(kind, id).encode(&mut empty);
                // One that is lost is asked for again.
                let _ = self.socket.send(&empty);
            };
            match message.kind {
                Kind::Reset if message.id == id => {
                    return Err("the platform rejected the request (RST)".to_owned().into());
                }
                Kind::Acknowledgement if message.id == id && message.code == code::EMPTY => {
                    is_acknowledged = true;
                    continue;
                }
                Kind::Confirmable if is_answer => say(Kind::Acknowledgement, message.id),
                // An answer to an earlier request, or something that nobody here has asked for.
                Kind::Confirmable => say(Kind::Reset, message.id),
                _ => {}
            }
            if is_answer {
                return Ok(Some(Came {
                    code: message.code,
                    options: message.options().map(|(number, value)| (number, value.to_vec())).collect(),
                    payload: message.payload.to_vec(),
                    asks_for: message.block(option::BLOCK1),
                    brings: message.block(option::BLOCK2),
                }));
            }
        }
    }
}

fn failed(error: std::io::Error) -> Failed {
    match error.kind() {
        ErrorKind::ConnectionRefused => Failed::Unreached(error.to_string()),
        _ => Failed::Lost(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::Nanos;
    use std::sync::atomic::AtomicBool;

    fn written(body: &[u8]) -> Rendered {
        Rendered {
            url: "coap://platform/things".into(),
            path: "/things".into(),
            headers: Vec::new(),
            options: OptionList::new(),
            body: body.to_vec(),
        }
    }

    fn plan() -> CoapPlan {
        CoapPlan {
            confirmable: true,
            outstanding: 1,
            sockets: None,
            ack_timeout: Nanos::from_millis(100),
            max_retransmit: 4,
            timeout: Nanos::from_secs(5),
            block_size: None,
            csm: false,
            ping: None,
            dtls: None,
        }
    }

    /// Answers the requests that come as `answer` says, until it says nothing; what was asked for.
    fn served(
        requests: &[(&str, &[u8])],
        mut answer: impl FnMut(usize, &Message<'_>) -> Option<Vec<Vec<u8>>> + Send,
    ) -> Vec<Result<Option<Answer>, String>> {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let address = server.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut room = vec![0; LARGEST_DATAGRAM];
                for turn in 0.. {
                    let Ok((length @ 1.., from)) = server.recv_from(&mut room) else { return };
                    let Some(answers) = answer(turn, &Message::decode(&room[..length]).unwrap()) else {
                        return;
                    };
                    for datagram in answers {
                        server.send_to(&datagram, from).unwrap();
                    }
                }
            });
            let (sockets, stop) = (Sockets::default(), AtomicBool::new(false));
            let patience = Patience { timeout: Duration::from_secs(5), stop: Some(&stop) };
            let ask = |(method, body): &(&str, &[u8])| {
                sockets
                    .send(method, &written(body), (&plan(), address), patience)
                    .map_err(|error| error.cause)
            };
            let answers = requests.iter().map(ask).collect();
            // Nothing at all tells the server that nothing follows.
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"", address).unwrap();
            answers
        })
    }

    fn bytes(kind: Kind, code: u8, id: u16, token: &[u8], list: &OptionList, payload: &[u8]) -> Vec<u8> {
        let (mut options, mut out) = (Vec::new(), Vec::new());
        list.encode(&mut options);
        Message { kind, code, id, token, options: &options, payload }.encode(&mut out);
        out
    }

    #[test]
    fn a_request_and_its_answer_go_in_blocks_where_they_must() {
        let long = vec![b'x'; 2500];
        let (mut had, mut requests) = (Vec::new(), 0);
        let answers = served(&[("POST", &long), ("GET", b"")], |_, request| {
            let mut list = OptionList::new();
            had.extend_from_slice(request.payload);
            requests += 1;
            let code = match (request.block(option::BLOCK1), request.code) {
                (Some(block), _) => {
                    list.add_number(option::BLOCK1, block.to_number());
                    if block.more { code::CONTINUE } else { code::CREATED }
                }
                _ => code::CONTENT,
            };
            let payload: &[u8] = match request.block(option::BLOCK2).map_or(0, |block| block.number) {
                _ if code != code::CONTENT => b"",
                0 => {
                    list.add_number(option::BLOCK2, Block::new(0, true, 16).to_number());
                    b"0123456789abcdef"
                }
                _ => {
                    list.add_number(option::BLOCK2, Block::new(1, false, 16).to_number());
                    b"the end"
                }
            };
            let answer = bytes(Kind::Acknowledgement, code, request.id, request.token, &list, payload);
            Some(vec![answer])
        });
        assert_eq!((had, requests), (long.clone(), 5));
        let read: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
        assert_eq!(read[0].0, 201);
        assert_eq!((read[1].0, read[1].2.as_slice()), (205, &b"0123456789abcdefthe end"[..]));
    }

    #[test]
    fn an_answer_may_come_apart_and_a_lost_request_is_sent_again() {
        let answers = served(&[("PUT", b"1"), ("PUT", b"2")], |turn, request| {
            let (none, token) = (OptionList::new(), request.token);
            let apart = |kind| bytes(kind, code::CHANGED, 9, token, &none, b"");
            Some(match turn {
                // It is lost, and comes again.
                0 => Vec::new(),
                1 => vec![
                    bytes(Kind::Acknowledgement, code::EMPTY, request.id, b"", &none, b""),
                    bytes(Kind::NonConfirmable, code::CHANGED, 8, b"another", &none, b""),
                    b"\xff\xff".to_vec(),
                    apart(Kind::Confirmable),
                ],
                // What we say of that.
                2 => Vec::new(),
                _ => vec![bytes(Kind::Reset, code::EMPTY, request.id, b"", &none, b"")],
            })
        });
        assert_eq!(answers[0].as_ref().unwrap().as_ref().unwrap().0, 204);
        assert_eq!(answers[1].as_ref().unwrap_err(), "the platform rejected the request (RST)");
    }
}
