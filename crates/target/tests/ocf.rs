//! The servers in the shape of an OCF cloud, over their sockets: what they answer, refuse and pass on.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll_codec::cbor;
use plimsoll_codec::coap::stream::{self, Frame, signal};
use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
use plimsoll_model::Nanos;
use plimsoll_target::ocf::{Csm, Kind as Server, OcfTarget, Queue, Seen, Settings, Upstreams};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MOST: usize = 1 << 24;
/// A test that waits longer than this hangs.
const LONGEST: Duration = Duration::from_secs(20);

/// A server that runs.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

impl Running {
    fn start(kind: Server) -> Running {
        Running::with(kind, Csm::First, None)
    }

    fn with(kind: Server, csm: Csm, record: Option<PathBuf>) -> Running {
        let settings = Settings { kind, host: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 0, csm, record };
        let target = OcfTarget::bind(&settings).unwrap();
        let (address, stop) = (target.address().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || target.run(&stopped).unwrap()));
        Running { address, stop, thread }
    }

    fn end(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All of them: an account server, a directory, a queue, and two interfaces.
struct Cloud {
    account: Running,
    directory: Running,
    queue: Running,
    devices: Running,
    controllers: Running,
}

impl Cloud {
    fn start(token_life: Option<u32>, queue: Queue) -> Cloud {
        let account = Running::start(Server::Account(token_life));
        let directory = Running::start(Server::Directory);
        let queue = Running::start(Server::Queue(queue));
        let upstreams = Upstreams {
            account: account.address,
            directory: directory.address,
            queue: queue.address,
            patience: Nanos::from_millis(300),
        };
        let interface = || Running::start(Server::Interface(upstreams));
        let (devices, controllers) = (interface(), interface());
        Cloud { account, directory, queue, devices, controllers }
    }
}

/// A message that came.
#[derive(Clone, Debug, PartialEq)]
struct Came {
    code: u8,
    token: Vec<u8>,
    path: String,
    observe: Option<u32>,
    payload: Vec<u8>,
}

impl Came {
    fn value(&self) -> Value {
        cbor::to_json(&self.payload).unwrap()
    }
}

/// A client, which has no more than a socket.
struct Client {
    socket: TcpStream,
    bytes: Vec<u8>,
    next: u64,
    /// What came that nobody waited for.
    beside: Vec<Came>,
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let mut client = Client::without_csm(address);
        assert_eq!(client.next_message().code, signal::CSM);
        client
    }

    fn without_csm(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        socket.set_nodelay(true).unwrap();
        Client { socket, bytes: Vec::new(), next: 1, beside: Vec::new() }
    }

    /// A client that has signed up and in as a device of a user.
    fn signed_in(address: SocketAddr, di: &str, user: &str) -> Client {
        let mut client = Client::connect(address);
        let up = json!({ "di": di, "authprovider": "p", "authcode": user });
        let up = client.ask(code::POST, "/oic/account", Some(up)).value();
        let session = json!({ "uid": up["uid"], "di": di, "accesstoken": up["accesstoken"], "login": true });
        assert_eq!(client.ask(code::POST, "/oic/account/session", Some(session)).code, code::CHANGED);
        client
    }

    fn send(&mut self, code: u8, token: &[u8], (path, observe): (&str, Option<u32>), payload: &[u8]) {
        let (mut list, mut options, mut out) = (OptionList::new(), Vec::new(), Vec::new());
        list.add_target(path.as_bytes());
        if let Some(observe) = observe {
            list.add_number(option::OBSERVE, observe);
        }
        list.encode(&mut options);
        let kind = Kind::NonConfirmable;
        stream::encode(&Message { kind, code, id: 0, token, options: &options, payload }, &mut out);
        self.socket.write_all(&out).unwrap();
    }

    fn token(&mut self) -> [u8; 8] {
        self.next += 1;
        self.next.to_be_bytes()
    }

    /// Asks, and takes the answer.
    fn ask(&mut self, code: u8, path: &str, body: Option<Value>) -> Came {
        let token = self.token();
        let mut payload = Vec::new();
        body.iter().for_each(|body| cbor::write_json(body, &mut payload));
        self.send(code, &token, (path, None), &payload);
        self.answer(&token)
    }

    /// Asks to be notified; the token, and the first answer.
    fn observe(&mut self, path: &str) -> ([u8; 8], Came) {
        let token = self.token();
        self.send(code::GET, &token, (path, Some(0)), &[]);
        (token, self.answer(&token))
    }

    fn answer(&mut self, token: &[u8]) -> Came {
        loop {
            if let Some(found) = self.beside.iter().position(|came| came.token == token) {
                return self.beside.remove(found);
            }
            let came = self.next_message();
            self.beside.push(came);
        }
    }

    fn next_message(&mut self) -> Came {
        let end = Instant::now() + LONGEST;
        loop {
            if let Some(came) = self.cut() {
                return came;
            }
            assert!(self.read(), "the connection was closed");
            assert!(Instant::now() < end, "nothing came; beside: {:?}", self.beside);
        }
    }

    /// Reads what is there; whether the connection still is.
    fn read(&mut self) -> bool {
        let mut room = [0; 65_536];
        match self.socket.read(&mut room) {
            Ok(0) => false,
            Ok(length) => {
                self.bytes.extend_from_slice(&room[..length]);
                true
            }
            Err(error) => {
                matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
            }
        }
    }

    /// Waits until the server has closed the connection.
    fn is_closed(&mut self) -> bool {
        let end = Instant::now() + LONGEST;
        while Instant::now() < end {
            if !self.read() {
                return true;
            }
        }
        false
    }

    fn cut(&mut self) -> Option<Came> {
        let Frame::Message(message, length) = stream::decode(&self.bytes, MOST).unwrap() else { return None };
        let came = Came {
            code: message.code,
            token: message.token.to_vec(),
            path: message.path(),
            observe: message.number(option::OBSERVE),
            payload: message.payload.to_vec(),
        };
        self.bytes.drain(..length);
        Some(came)
    }
}

const TOPIC: &str = "/oic/ps/t";

#[test]
fn who_has_not_signed_in_may_ask_for_nothing_else() {
    let cloud = Cloud::start(None, Queue::default());
    let mut client = Client::connect(cloud.devices.address);
    assert_eq!(client.ask(code::GET, "/oic/ping", None).code, code::CONTENT);
    for path in ["/oic/ps/t", "/oic/rd", "/oic/res", "/oic/route/d/r", "/oic/acl/verify"] {
        assert_eq!(client.ask(code::GET, path, None).code, code::UNAUTHORIZED, "{path}");
    }
    let wrong = json!({ "uid": "u", "di": "d", "accesstoken": "x", "login": true });
    assert_eq!(client.ask(code::POST, "/oic/account/session", Some(wrong)).code, code::UNAUTHORIZED);
    for wrong in [json!({ "di": "d" }), json!([1]), json!({ "di": "", "authprovider": "p", "authcode": "c" })]
    {
        assert_eq!(client.ask(code::POST, "/oic/account", Some(wrong)).code, code::BAD_REQUEST);
    }
    assert_eq!(client.ask(code::POST, "/oic/account/session", None).code, code::BAD_REQUEST);
    let mut client = Client::signed_in(cloud.devices.address, "d", "user");
    assert_eq!(client.ask(code::GET, "/oic/none", None).code, code::NOT_FOUND);
    assert_eq!(client.ask(code::GET, TOPIC, None).code, code::NOT_FOUND);
}

#[test]
fn a_token_that_has_ended_lets_nobody_do_anything() {
    let cloud = Cloud::start(Some(1), Queue::default());
    let mut client = Client::connect(cloud.devices.address);
    let up = json!({ "di": "d", "authprovider": "p", "authcode": "u" });
    let up = client.ask(code::POST, "/oic/account", Some(up)).value();
    assert_eq!(up["expiresin"], json!(1));
    let session = |token: &Value| json!({ "uid": up["uid"], "di": "d", "accesstoken": token, "login": true });
    let answer = client.ask(code::POST, "/oic/account/session", Some(session(&up["accesstoken"])));
    assert_eq!(answer.code, code::CHANGED);
    assert_eq!(client.ask(code::PUT, TOPIC, None).code, code::CREATED);
    let end = Instant::now() + LONGEST;
    while client.ask(code::GET, TOPIC, None).code != code::UNAUTHORIZED {
        assert!(Instant::now() < end, "the token never ends");
        std::thread::sleep(Duration::from_millis(20));
    }
    let again = client.ask(code::POST, "/oic/account/session", Some(session(&up["accesstoken"])));
    assert_eq!(again.code, code::UNAUTHORIZED);
    // A new one does.
    let refresh = json!({ "uid": up["uid"], "di": "d", "granttype": "refresh_token", "refreshtoken": up["refreshtoken"] });
    let renewed = client.ask(code::POST, "/oic/account/tokenrefresh", Some(refresh)).value();
    let answer = client.ask(code::POST, "/oic/account/session", Some(session(&renewed["accesstoken"])));
    assert_eq!(answer.code, code::CHANGED);
}

#[test]
fn a_message_reaches_those_that_observe_at_another_interface_byte_for_byte() {
    let cloud = Cloud::start(None, Queue::default());
    let mut device = Client::signed_in(cloud.devices.address, "d", "u");
    let mut controller = Client::signed_in(cloud.controllers.address, "c", "u");
    assert_eq!(controller.observe(TOPIC).1.code, code::NOT_FOUND, "there is no such topic yet");
    assert_eq!(device.ask(code::PUT, TOPIC, None).code, code::CREATED);
    assert_eq!(device.ask(code::PUT, TOPIC, None).code, code::FORBIDDEN);
    assert_eq!(device.ask(code::POST, TOPIC, Some(json!({}))).code, code::PRECONDITION_FAILED);
    assert_eq!(device.ask(code::POST, TOPIC, None).code, code::PRECONDITION_FAILED);
    let (token, first) = controller.observe(TOPIC);
    assert_eq!((first.code, first.observe, first.path.as_str()), (code::CONTENT, Some(0), TOPIC));
    let count = 500;
    for number in 0..count {
        let answer = device.ask(code::POST, TOPIC, Some(json!({ "n": number })));
        assert_eq!((answer.code, answer.path.as_str()), (code::CHANGED, TOPIC));
    }
    for number in 0..count {
        let came = controller.answer(&token);
        assert_eq!((came.observe, came.value()), (Some(number + 1), json!({ "n": number })));
    }
    assert_eq!(device.ask(code::GET, TOPIC, None).value(), json!({ "n": count - 1 }));
    // Whoever asks not to be told is told nothing more.
    controller.send(code::GET, &token, (TOPIC, Some(1)), &[]);
    assert_eq!(controller.answer(&token).code, code::CONTENT);
    device.ask(code::POST, TOPIC, Some(json!({ "n": -1 })));
    assert_eq!(controller.ask(code::GET, TOPIC, None).value(), json!({ "n": -1 }));
    assert!(controller.beside.is_empty(), "{:?}", controller.beside);
    let Cloud { queue, devices, controllers, .. } = cloud;
    let (queue, devices, controllers) = (queue.end(), devices.end(), controllers.end());
    assert_eq!((queue.published, queue.notified), (501, 500));
    assert_eq!(controllers.notified, 500);
    // Two more for the account, the topic twice, and what was refused.
    assert_eq!(devices.passed_on, 501 + 2 + 2 + 2 + 1);
}

#[test]
fn an_observer_that_is_gone_is_notified_of_nothing() {
    let cloud = Cloud::start(None, Queue::default());
    let mut device = Client::signed_in(cloud.devices.address, "d", "u");
    device.ask(code::PUT, TOPIC, None);
    let mut controller = Client::signed_in(cloud.controllers.address, "c", "u");
    controller.observe(TOPIC);
    device.ask(code::POST, TOPIC, Some(json!({ "n": 1 })));
    controller.socket.shutdown(Shutdown::Write).unwrap();
    assert!(controller.is_closed(), "the interface notices");
    // It says so to the queue before it passes on what another client asks.
    let mut other = Client::signed_in(cloud.controllers.address, "o", "u");
    assert_eq!(other.ask(code::GET, TOPIC, None).value(), json!({ "n": 1 }));
    device.ask(code::POST, TOPIC, Some(json!({ "n": 2 })));
    assert_eq!(cloud.queue.end().notified, 1);
}

#[test]
fn what_is_published_too_early_reaches_nobody_where_that_is_asked_for() {
    let starts_late = Nanos::from_millis(300);
    let cloud = Cloud::start(None, Queue { starts_late, ..Queue::default() });
    let mut device = Client::signed_in(cloud.devices.address, "d", "u");
    device.ask(code::PUT, TOPIC, None);
    let mut controller = Client::signed_in(cloud.controllers.address, "c", "u");
    let (token, _) = controller.observe(TOPIC);
    assert_eq!(device.ask(code::POST, TOPIC, Some(json!({ "n": 1 }))).code, code::CHANGED);
    std::thread::sleep(Duration::from_millis(500));
    device.ask(code::POST, TOPIC, Some(json!({ "n": 2 })));
    assert_eq!(controller.answer(&token).value(), json!({ "n": 2 }));
}

#[test]
fn a_request_is_relayed_to_the_device_over_its_own_connection() {
    let cloud = Cloud::start(None, Queue::default());
    let mut device = Client::signed_in(cloud.devices.address, "d1", "u");
    let mut controller = Client::signed_in(cloud.devices.address, "c", "u");
    let mut stranger = Client::signed_in(cloud.devices.address, "s", "somebody else");
    let path = "/oic/route/d1/light/1";
    let token = controller.token();
    controller.send(code::GET, &token, (path, Some(0)), &[]);
    let asked = device.next_message();
    assert_eq!((asked.code, asked.path.as_str(), asked.observe), (code::GET, "/light/1", Some(0)));
    // The device's answer must repeat the path; notifications follow with the same token.
    let mut say = |number: u32, payload: &[u8]| {
        device.send(code::CONTENT, &asked.token, ("/light/1", Some(number)), payload);
    };
    say(0, b"off");
    let answer = controller.answer(&token);
    assert_eq!((answer.path.as_str(), &answer.payload[..], answer.observe), (path, &b"off"[..], Some(0)));
    say(1, b"on");
    say(2, b"off");
    let came: Vec<Came> = (0..2).map(|_| controller.answer(&token)).collect();
    assert_eq!(came.iter().map(|came| came.observe).collect::<Vec<_>>(), [Some(1), Some(2)]);
    // Another user may not, a device that is not there cannot.
    assert_eq!(stranger.ask(code::GET, path, None).code, code::UNAUTHORIZED);
    let up = json!({ "di": "d2", "authprovider": "p", "authcode": "u" });
    controller.ask(code::POST, "/oic/account", Some(up));
    assert_eq!(controller.ask(code::GET, "/oic/route/d2/x", None).code, code::NOT_FOUND);
    // A device that does not answer is given up, and one that goes leaves nobody waiting.
    assert_eq!(controller.ask(code::GET, "/oic/route/d1/slow", None).code, code::GATEWAY_TIMEOUT);
    drop(device);
    assert_eq!(controller.answer(&token).code, code::SERVICE_UNAVAILABLE);
}

#[test]
fn the_directory_finds_resources_by_their_type() {
    let cloud = Cloud::start(None, Queue::default());
    let mut device = Client::signed_in(cloud.devices.address, "d", "u");
    let link = |href: &str, kind: &str, ins: u64| json!({ "href": href, "rt": [kind], "if": ["oic.if.baseline"], "ins": ins, "p": { "bm": 1 } });
    let publish = |ins: u64| json!({ "di": "d", "links": [link("/a", "x.a", ins), link("/b", "x.b", ins)] });
    assert_eq!(device.ask(code::POST, "/oic/rd", Some(publish(5))).code, code::BAD_REQUEST);
    let published = device.ask(code::POST, "/oic/rd", Some(publish(0)));
    assert_eq!(published.code, code::CHANGED);
    assert_eq!(published.value()["links"][1]["ins"], json!(2));
    let found = device.ask(code::GET, "/oic/res?rt=x.b", None).value();
    assert_eq!((found[0]["di"].clone(), found[0]["links"][0]["href"].clone()), (json!("d"), json!("/b")));
    assert_eq!(device.ask(code::GET, "/oic/res?rt=x.c", None).value(), json!([]));
    assert_eq!(device.ask(code::DELETE, "/oic/rd?di=d", None).code, code::DELETED);
    assert_eq!(device.ask(code::GET, "/oic/res", None).value(), json!([]));
    assert_eq!(cloud.directory.end().requests, 6);
    drop(cloud.account);
}

#[test]
fn a_server_says_what_it_takes_when_it_was_told_to() {
    let silent = Running::with(Server::Directory, Csm::Never, None);
    let mut client = Client::without_csm(silent.address);
    client.send(signal::CSM, &[], ("", None), &[]);
    assert_eq!(client.ask(code::GET, "/oic/res", None).value(), json!([]));
    assert!(client.beside.is_empty());
    let answering = Running::with(Server::Directory, Csm::Answer, None);
    let mut client = Client::without_csm(answering.address);
    assert_eq!(client.ask(code::GET, "/oic/res", None).value(), json!([]));
    client.send(signal::CSM, &[], ("", None), &[]);
    assert_eq!(client.next_message().code, signal::CSM);
    client.send(signal::PING, b"p", ("", None), &[]);
    let pong = client.next_message();
    assert_eq!((pong.code, &pong.token[..]), (signal::PONG, &b"p"[..]));
}

#[test]
fn hostile_clients_end_alone() {
    let queue = Running::start(Server::Queue(Queue::default()));
    let mut witness = Client::connect(queue.address);
    witness.ask(code::PUT, TOPIC, None);
    // A huge length, a token of nine bytes, an option that is cut off.
    for wrong in [&[0xf0, 0xff, 0xff, 0xff, 0xff, 0x02][..], &[0x09, 0x02], &[0x10, 0x02, 0xdd]] {
        let mut client = Client::connect(queue.address);
        client.socket.write_all(wrong).unwrap();
        assert!(client.is_closed(), "{wrong:x?}");
    }
    // One message, cut in its middle.
    let mut client = Client::connect(queue.address);
    client.socket.write_all(&[0x84, 0x02, 0, 0]).unwrap();
    drop(client);
    // An observer that reads nothing is closed when too much waits for it; others are served.
    let mut deaf = Client::connect(queue.address);
    deaf.observe(TOPIC);
    let large = json!({ "x": "y".repeat(1 << 20) });
    for _ in 0..64 {
        assert_eq!(witness.ask(code::POST, TOPIC, Some(large.clone())).code, code::CHANGED);
    }
    let seen = queue.end();
    assert_eq!((seen.unread, seen.published), (1, 64));
    drop(deaf);
}

#[test]
fn a_queue_that_goes_away_is_missed_and_found_again() {
    let account = Running::start(Server::Account(None));
    let directory = Running::start(Server::Directory);
    let queue = Running::start(Server::Queue(Queue::default()));
    let address = queue.address;
    let (account, directory, patience) = (account.address, directory.address, Nanos::from_secs(60));
    let upstreams = Upstreams { account, directory, queue: address, patience };
    let interface = Running::start(Server::Interface(upstreams));
    let mut client = Client::signed_in(interface.address, "d", "u");
    assert_eq!(client.ask(code::PUT, TOPIC, None).code, code::CREATED);
    let (token, _) = client.observe(TOPIC);
    queue.end();
    assert_eq!(client.answer(&token).code, code::SERVICE_UNAVAILABLE, "the observation has ended");
    assert_eq!(client.ask(code::GET, TOPIC, None).code, code::SERVICE_UNAVAILABLE);
    let settings = Settings {
        kind: Server::Queue(Queue::default()),
        host: address.ip(),
        port: address.port(),
        csm: Csm::First,
        record: None,
    };
    let end = Instant::now() + LONGEST;
    let target = loop {
        match OcfTarget::bind(&settings) {
            Ok(target) => break target,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || target.run(&stopped).unwrap());
    while client.ask(code::PUT, TOPIC, None).code != code::CREATED {
        assert!(Instant::now() < end, "the queue was not found again");
        std::thread::sleep(Duration::from_millis(50));
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
}

#[test]
fn a_record_says_what_was_done_and_a_path_begins_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("queue.csv");
    let queue = Running::with(Server::Queue(Queue::default()), Csm::First, Some(record.clone()));
    let mut client = Client::connect(queue.address);
    client.ask(code::PUT, "/oic/ps/a%0Ab", None);
    client.ask(code::PUT, "/oic/ps/a,b\n", None);
    client.ask(code::PUT, TOPIC, None);
    let (token, _) = client.observe(TOPIC);
    client.ask(code::POST, TOPIC, Some(json!({ "message": "value" })));
    client.answer(&token);
    queue.end();
    let text = std::fs::read_to_string(record).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "time_ns,what,connection,path,bytes,marker");
    assert!(lines.iter().all(|line| line.split(',').count() == 6), "{text}");
    let done: Vec<&str> = lines[1..].iter().map(|line| line.split(',').nth(1).unwrap()).collect();
    assert_eq!(done, ["created", "created", "created", "observed", "published", "notified"]);
}
