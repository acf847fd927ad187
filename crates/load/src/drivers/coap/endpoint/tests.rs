//! Endpoints over the loopback interface; the platform is the test.

use super::*;
use crate::drivers::coap::dtls::tests::{Server, pair};
use plimsoll_codec::coap::code;
use rustix::event::epoll::{self, CreateFlags};
use std::time::{Duration, Instant};

/// A test that waits longer than this hangs.
const LONGEST: Duration = Duration::from_secs(20);
const FIRST_ID: u16 = 500;

/// An endpoint, and what it sent and read.
struct Rig {
    endpoint: Endpoint,
    epoll: OwnedFd,
    traffic: Traffic,
}

/// What an endpoint read, as bytes.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    Message(Vec<u8>, Peer),
    Repeated,
}

impl Rig {
    fn new() -> Rig {
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        Rig { endpoint: Endpoint::default(), epoll, traffic: Traffic::default() }
    }

    /// Opens a socket to the platform; with a session it is secured.
    fn connected(platform: &mut Platform, session: Option<Session>) -> Rig {
        let mut rig = Rig::new();
        rig.connect(platform, session);
        rig
    }

    fn connect(&mut self, platform: &mut Platform, session: Option<Session>) {
        let secured = session.is_some();
        let address = platform.socket.local_addr().unwrap();
        let remote = Remote { address, source: None, session, gathers: false };
        let ids = MessageIds::beginning_at(FIRST_ID, Nanos::ZERO);
        self.endpoint.connect(remote, ids, (&self.epoll, 0)).unwrap();
        self.endpoint.tick(Nanos::ZERO, &mut self.traffic).unwrap();
        let (begun, mut room) = (Instant::now(), [0; 2048]);
        while secured && self.endpoint.wakes_at().is_some() {
            assert!(begun.elapsed() < LONGEST, "no handshake");
            platform.look();
            self.endpoint.read(&mut room, Nanos::ZERO, &mut self.traffic).unwrap();
        }
    }

    fn send(&mut self, message: Message<'_>, to: Peer) {
        assert_eq!(self.endpoint.send(&bytes(message), to, Nanos::ZERO, &mut self.traffic), Ok(true));
    }

    fn read(&mut self) -> Read {
        let (begun, mut room) = (Instant::now(), [0; 2048]);
        while begun.elapsed() < LONGEST {
            match self.endpoint.read(&mut room, Nanos::ZERO, &mut self.traffic).unwrap() {
                Incoming::Message { message, from, .. } => return Read::Message(bytes(message), from),
                Incoming::Repeated => return Read::Repeated,
                Incoming::Malformed(_) => panic!("no message"),
                Incoming::Nothing | Incoming::Part | Incoming::Secured(_) => {}
            }
        }
        panic!("nothing came");
    }

    /// Answers a request, while the message ids below `free` are under way.
    fn answer(&mut self, request: Message<'_>, from: Peer, payload: &[u8], free: u16) {
        let answer = Answer { code: code::CONTENT, payload, ..Answer::default() };
        self.endpoint.answer((&request, from), answer, |id| id < free, Nanos::ZERO, &mut self.traffic);
    }
}

/// The other side of one connected endpoint.
struct Platform {
    socket: UdpSocket,
    server: Option<Server>,
    endpoint: Option<SocketAddr>,
    heard: Vec<Vec<u8>>,
}

impl Platform {
    fn new(server: Option<Server>) -> Platform {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        Platform { socket, server, endpoint: None, heard: Vec::new() }
    }

    /// Takes in one datagram, if there is one.
    fn look(&mut self) {
        let mut room = [0; 2048];
        let Ok((length, from)) = self.socket.recv_from(&mut room) else { return };
        self.endpoint = Some(from);
        let Some(server) = &mut self.server else { return self.heard.push(room[..length].to_vec()) };
        for datagram in server.incoming(&room[..length]) {
            self.socket.send_to(&datagram, from).unwrap();
        }
        self.heard.extend(server.message());
    }

    fn hear(&mut self) -> Vec<u8> {
        let begun = Instant::now();
        while self.heard.is_empty() {
            assert!(begun.elapsed() < LONGEST, "nothing came");
            self.look();
        }
        self.heard.remove(0)
    }

    fn say(&mut self, message: Message<'_>) {
        let message = bytes(message);
        let datagrams = self.server.as_mut().map_or(vec![message.clone()], |server| server.secure(&message));
        for datagram in datagrams {
            self.socket.send_to(&datagram, self.endpoint.unwrap()).unwrap();
        }
    }
}

fn bytes(message: Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

fn request(kind: Kind, id: u16, token: &[u8]) -> Message<'_> {
    Message { kind, code: code::GET, id, token, options: &[], payload: &[] }
}

#[test]
fn an_endpoint_is_client_and_server_at_once_and_takes_no_request_twice() {
    for secured in [false, true] {
        let (session, server) = if secured { Some(pair()) } else { None }.unzip();
        let mut platform = Platform::new(server);
        let mut rig = Rig::connected(&mut platform, session);

        // A request of its own is under way.
        let id = rig.endpoint.take_id(Nanos::ZERO, |_| false).unwrap();
        assert_eq!(id, FIRST_ID);
        let own = request(Kind::Confirmable, id, b"own");
        rig.send(own, Peer::Connected);
        assert_eq!(platform.hear(), bytes(own));

        // The platform asks meanwhile, with the same id: ids are each side's own.
        let theirs = request(Kind::Confirmable, id, b"their");
        platform.say(theirs);
        assert_eq!(rig.read(), Read::Message(bytes(theirs), Peer::Connected));
        rig.answer(theirs, Peer::Connected, b"3300 mV", 0);
        let answer = platform.hear();
        let acknowledgement =
            Message { kind: Kind::Acknowledgement, code: code::CONTENT, payload: b"3300 mV", ..theirs };
        assert_eq!(answer, bytes(acknowledgement));

        // A repetition gets the same answer, and another request is another one.
        for _ in 0..2 {
            platform.say(theirs);
            assert_eq!(rig.read(), Read::Repeated);
            assert_eq!(platform.hear(), answer);
        }
        let other = request(Kind::NonConfirmable, 9, b"other");
        platform.say(other);
        assert_eq!(rig.read(), Read::Message(bytes(other), Peer::Connected));
        rig.answer(other, Peer::Connected, b"17", id + 5);
        let answer = platform.hear();
        let of_its_own = Message { id: id + 5, code: code::CONTENT, payload: b"17", ..other };
        assert_eq!(answer, bytes(of_its_own), "ids that are under way are left out");

        // The answer to its own request comes through all that.
        let answered = Message { kind: Kind::Acknowledgement, code: code::CHANGED, ..own };
        platform.say(answered);
        assert_eq!(rig.read(), Read::Message(bytes(answered), Peer::Connected));
        assert_eq!(rig.traffic.records_sent.count > 0, secured);
    }
}

#[test]
fn a_bound_endpoint_tells_its_peers_apart() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let here = socket.local_addr().unwrap();
    let mut rig = Rig::new();
    let ids = MessageIds::beginning_at(FIRST_ID, Nanos::ZERO);
    rig.endpoint.bind(socket, ids, (&rig.epoll, 0)).unwrap();
    let mut platforms = [0, 1].map(|_| Platform { endpoint: Some(here), ..Platform::new(None) });
    let asked = request(Kind::Confirmable, 1, b"same");
    let mut answers = Vec::new();
    for (platform, payload) in platforms.iter_mut().zip([b"one", b"two"]) {
        let from = Peer::At(platform.socket.local_addr().unwrap());
        platform.say(asked);
        assert_eq!(rig.read(), Read::Message(bytes(asked), from));
        rig.answer(asked, from, payload, 0);
        answers.push(platform.hear());
        assert!(answers.last().unwrap().ends_with(payload));
    }
    for (platform, answer) in platforms.iter_mut().zip(&answers) {
        platform.say(asked);
        assert_eq!(rig.read(), Read::Repeated);
        assert_eq!(&platform.hear(), answer);
    }
    // It can ask one of them, too.
    let to = Peer::At(platforms[1].socket.local_addr().unwrap());
    let own = request(Kind::Confirmable, FIRST_ID, b"own");
    rig.send(own, to);
    assert_eq!(platforms[1].hear(), bytes(own));
    platforms[1].say(Message::empty(Kind::Acknowledgement, FIRST_ID));
    assert_eq!(rig.read(), Read::Message(bytes(Message::empty(Kind::Acknowledgement, FIRST_ID)), to));
    rig.endpoint.say(Kind::Reset, 3, to, Nanos::ZERO, &mut rig.traffic);
    assert_eq!(platforms[1].hear(), bytes(Message::empty(Kind::Reset, 3)));
    // Sent: two answers, the same again, a request and a reset. Read: two requests, the same again, and an acknowledgement.
    assert_eq!(rig.traffic.datagrams, 6 + 5);
}

#[test]
fn a_new_socket_knows_nothing_of_what_an_earlier_one_answered() {
    let mut platform = Platform::new(None);
    let mut rig = Rig::connected(&mut platform, None);
    let asked = request(Kind::Confirmable, 1, b"a");
    for _ in 0..2 {
        rig.send(Message::empty(Kind::Confirmable, 2), Peer::Connected);
        platform.hear();
        platform.say(asked);
        assert_eq!(rig.read(), Read::Message(bytes(asked), Peer::Connected));
        rig.answer(asked, Peer::Connected, b"yes", 0);
        platform.hear();
        let generation = rig.endpoint.generation();
        rig.endpoint.leave(Nanos::ZERO, &mut rig.traffic);
        assert!(!rig.endpoint.is_open() && rig.endpoint.generation() != generation);
        rig.connect(&mut platform, None);
    }
}
