//! The CoAP driver against a scripted platform that answers late, twice, wrongly, in pieces or not at all.

// Helpers of tests may fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod context;

use context::context_of;
use plimsoll_codec::coap::{Block, Kind, Message, OptionList, code, option};
use plimsoll_load::clock::Clock;
use plimsoll_load::driver::{Client, Driver, Event};
use plimsoll_load::drivers::coap::CoapDriver;
use plimsoll_load::run_context::RunContext;
use plimsoll_model::Nanos;
use std::collections::{BTreeSet, HashMap};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A test that waits longer than this hangs.
const LONGEST: Nanos = Nanos::from_secs(20);

/// What the platform answers to each datagram that is no ping: any number of datagrams.
type Script = Box<dyn FnMut(&Message<'_>, SocketAddr) -> Vec<Vec<u8>> + Send>;

/// Who sent it, and what.
type Datagram = (SocketAddr, Vec<u8>);

/// A platform of one socket. Dropped, it is gone.
struct Platform {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// The datagrams that came, pings included.
    seen: Arc<Mutex<Vec<Datagram>>>,
    thread: Option<JoinHandle<()>>,
}

impl Platform {
    fn start(script: Script) -> Platform {
        Platform::at("127.0.0.1:0".parse().unwrap(), script)
    }

    fn at(address: SocketAddr, script: Script) -> Platform {
        Platform::with_pong(address, Kind::Reset, code::EMPTY, script)
    }

    /// One that answers pings by messages of that kind and code.
    fn with_pong(address: SocketAddr, kind: Kind, code: u8, mut script: Script) -> Platform {
        let socket = UdpSocket::bind(address).unwrap();
        let address = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<_>>>::default());
        let (stopped, record) = (Arc::clone(&stop), Arc::clone(&seen));
        let thread = std::thread::spawn(move || {
            let mut room = vec![0; 65_536];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut room) else { continue };
                let message = Message::decode(&room[..length]).unwrap();
                record.lock().unwrap().push((from, room[..length].to_vec()));
                let answers = match (message.kind, message.code) {
                    (Kind::Confirmable, code::EMPTY) => vec![bytes(Message { kind, code, ..message })],
                    _ => script(&message, from),
                };
                for answer in answers {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        Platform { address, stop, seen, thread: Some(thread) }
    }

    /// The requests that came, as bytes.
    fn requests(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(_, datagram)| datagram[1] != code::EMPTY).cloned().collect()
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn bytes(message: Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

fn options(list: &[(u16, u32)]) -> Vec<u8> {
    let (mut options, mut out) = (OptionList::new(), Vec::new());
    list.iter().for_each(|(number, value)| options.add_number(*number, *value));
    options.encode(&mut out);
    out
}

/// The answer in the acknowledgement of a request.
fn piggybacked(request: &Message<'_>, code: u8, list: &[(u16, u32)]) -> Vec<u8> {
    let (kind, options) = (Kind::Acknowledgement, options(list));
    bytes(Message { kind, code, options: &options, payload: b"", ..*request })
}

fn changed(request: &Message<'_>) -> Vec<u8> {
    piggybacked(request, code::CHANGED, &[])
}

struct Rig {
    driver: CoapDriver,
    run_context: Arc<RunContext>,
    clock: Clock,
    events: Vec<Event>,
}

impl Rig {
    /// A driver of that many devices, all connected.
    fn new(address: SocketAddr, devices: u32, more: &str) -> Rig {
        let mut rig = Rig::unconnected(address, devices, more);
        rig.connect(devices);
        rig.until(|events| count(events, |event| matches!(event, Event::Ready { .. })) == devices as usize);
        rig.events.clear();
        rig
    }

    fn unconnected(address: SocketAddr, devices: u32, more: &str) -> Rig {
        let text = format!(
            "name: scripted\nplatform: {{ profile: existing, address: \"coap://{address}/in/plimsoll/{{run}}/{{device}}\" }}\n\
             population: {{ devices: {devices} }}\nmqtt: {{ reconnect: {{ from: 10ms, to: 20ms }} }}\n\
             load: {{ levels: [1] }}\n{more}\n"
        );
        let context = context_of(text, None, address);
        let driver = CoapDriver::new(&context).unwrap();
        Rig { driver, run_context: context.run_context, clock: context.clock, events: Vec::new() }
    }

    fn connect(&mut self, devices: u32) {
        for device in 0..devices {
            assert!(self.driver.connect(Client::Device(device)));
        }
    }

    fn until(&mut self, mut done: impl FnMut(&[Event]) -> bool) {
        let end = self.clock.now() + LONGEST;
        while !done(&self.events) {
            assert!(self.clock.now() < end, "it never came: {:?}", self.events);
            self.driver.poll(self.clock.now() + Nanos::from_millis(5), &mut self.events);
        }
    }

    /// Sends a message and waits for its end; the events of that.
    fn say(&mut self, sequence: u32) -> Vec<Event> {
        self.driver.submit(0, sequence);
        self.until(|events| events.iter().any(is_end));
        std::mem::take(&mut self.events)
    }

    /// Lets time pass.
    fn go_on(&mut self, span: Nanos) {
        let end = self.clock.now() + span;
        while self.clock.now() < end {
            self.driver.poll(end, &mut self.events);
        }
    }
}

fn count(events: &[Event], wanted: impl Fn(&Event) -> bool) -> usize {
    events.iter().filter(|event| wanted(event)).count()
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Acknowledged { .. } | Event::Refused { .. } | Event::Abandoned { .. })
}

fn is_acknowledged(event: &Event) -> bool {
    matches!(event, Event::Acknowledged { .. })
}

fn is_round_trip(event: &Event) -> bool {
    matches!(event, Event::RoundTrip { .. })
}

const QUICK: &str = "coap: { ack_timeout: 60ms, timeout: 10s }";

#[test]
fn an_answer_in_the_acknowledgement_ends_the_exchange() {
    let platform = Platform::start(Box::new(|request, _| vec![changed(request)]));
    let events = Rig::new(platform.address, 1, "coap: { ack_timeout: 5s }").say(0);
    let (_, first) = platform.requests().swap_remove(0);
    let request = Message::decode(&first).unwrap();
    assert!(request.path().starts_with("/in/plimsoll/"), "{}", request.path());
    assert_eq!((request.kind, request.code, request.payload.len()), (Kind::Confirmable, code::POST, 64));
    let packet = first.len() as u32;
    let [
        Event::Sent { at, content: 64, packet: told, .. },
        Event::RoundTrip { took },
        Event::Acknowledged { at: done, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(*told, packet);
    assert_eq!(*done - *at, *took);
    assert!(*took > Nanos::ZERO);
}

#[test]
fn what_is_not_acknowledged_is_sent_again_as_it_was() {
    let mut times = 0;
    let platform = Platform::start(Box::new(move |request, _| {
        times += 1;
        if times < 3 { Vec::new() } else { vec![changed(request), changed(request)] }
    }));
    let mut rig = Rig::new(platform.address, 1, QUICK);
    let events = rig.say(0);
    let again = count(&events, |event| matches!(event, Event::Retransmitted { .. }));
    assert!(again >= 2, "{events:?}");
    // Nobody knows which of them was answered.
    assert_eq!(count(&events, is_round_trip), 0);
    let requests: BTreeSet<Vec<u8>> = platform.requests().into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(requests.len(), 1);
    rig.go_on(Nanos::from_millis(50));
    // The doubled answer is one of ours.
    assert_eq!(count(&rig.events, |event| is_end(event) || matches!(event, Event::Stray)), 0);
}

#[test]
fn a_message_that_is_never_acknowledged_is_given_up_after_the_last_repetition() {
    let platform = Platform::start(Box::new(|_, _| Vec::new()));
    let mut rig =
        Rig::new(platform.address, 1, "coap: { ack_timeout: 10ms, max_retransmit: 2, timeout: 20s }");
    let events = rig.say(0);
    assert!(matches!(events.last(), Some(Event::Abandoned { .. })), "{events:?}");
    assert_eq!(count(&events, |event| matches!(event, Event::Retransmitted { .. })), 2);
    assert_eq!(platform.requests().len(), 3);
}

#[test]
fn an_answer_by_itself_is_acknowledged_each_time_and_counts_once() {
    let platform = Platform::start(Box::new(|request, _| {
        if request.code == code::EMPTY {
            return Vec::new();
        }
        let answer =
            bytes(Message { kind: Kind::Confirmable, id: 77, code: code::CHANGED, options: &[], ..*request });
        vec![bytes(Message::empty(Kind::Acknowledgement, request.id)), answer.clone(), answer]
    }));
    let mut rig = Rig::new(platform.address, 1, "coap: { ack_timeout: 5s }");
    let mut events = rig.say(0);
    rig.go_on(Nanos::from_millis(100));
    events.append(&mut rig.events);
    assert_eq!(count(&events, is_acknowledged), 1, "{events:?}");
    assert_eq!(count(&events, is_round_trip), 1);
    assert_eq!(count(&events, |event| matches!(event, Event::Stray)), 0);
    let seen = platform.seen.lock().unwrap();
    let acknowledgements = seen.iter().filter(|(_, datagram)| datagram[..] == [0x60, 0, 0, 77]).count();
    assert_eq!(acknowledgements, 2);
}

#[test]
fn a_reset_refuses_and_answers_to_nobody_are_foreign() {
    let platform = Platform::start(Box::new(|request, _| match request.code {
        code::EMPTY => Vec::new(),
        _ => {
            let wrong = Message { token: b"no", ..*request };
            let nobody =
                Message { kind: Kind::Confirmable, id: 9, code: code::CHANGED, token: b"who", ..*request };
            vec![
                changed(&wrong),
                bytes(nobody),
                changed(&Message { id: request.id.wrapping_add(7), ..*request }),
                vec![1, 2, 3],
                bytes(Message::empty(Kind::Acknowledgement, request.id.wrapping_add(5))),
                bytes(Message::empty(Kind::Reset, request.id)),
            ]
        }
    }));
    let mut rig = Rig::new(platform.address, 1, "coap: { ack_timeout: 5s }");
    let events = rig.say(0);
    assert_eq!(count(&events, |event| matches!(event, Event::Stray)), 4, "{events:?}");
    let told = |event: &Event| matches!(event, Event::Incident { reason } if reason.contains("another id"));
    assert_eq!(count(&events, told), 1, "{events:?}");
    assert!(matches!(events.last(), Some(Event::Refused { reason, .. }) if reason.contains("reset")));
    // A confirmable answer to nobody is rejected.
    rig.until(|_| platform.seen.lock().unwrap().iter().any(|(_, datagram)| datagram[..] == [0x70, 0, 0, 9]));
}

#[test]
fn an_answer_to_a_ping_is_no_answer_to_nobody() {
    let address = "127.0.0.1:0".parse().unwrap();
    let platform = Platform::with_pong(
        address,
        Kind::Acknowledgement,
        code::NOT_FOUND,
        Box::new(|request, _| vec![changed(request)]),
    );
    let mut rig = Rig::unconnected(platform.address, 1, "coap: { ack_timeout: 5s }");
    rig.connect(1);
    rig.until(|events| count(events, |event| matches!(event, Event::Ready { .. })) == 1);
    let events = rig.say(0);
    assert_eq!(count(&events, |event| matches!(event, Event::Stray)), 0, "{events:?}");
    assert_eq!(count(&events, |event| matches!(event, Event::Acknowledged { .. })), 1, "{events:?}");
}

#[test]
fn an_answer_4_01_asks_for_another_access_token() {
    let platform = Platform::start(Box::new(|request, _| {
        let (kind, payload) = (Kind::Acknowledgement, b"no good: sesame".as_slice());
        vec![bytes(Message { kind, code: 0x81, options: &[], payload, ..*request })]
    }));
    let mut rig = Rig::new(platform.address, 1, QUICK);
    rig.run_context.token.renew("sesame");
    let events = rig.say(0);
    let told = |event: &Event| matches!(event, Event::Refused { reason, .. } if reason.contains("4.01: no good: sesame (POST coap://"));
    assert!(events.last().is_some_and(told), "{events:?}");
    assert!(rig.run_context.token.is_refused());
}

#[test]
fn non_confirmable_requests_are_sent_once() {
    let mut times = 0;
    let platform = Platform::start(Box::new(move |request, _| {
        times += 1;
        let kind = Kind::NonConfirmable;
        let answer = bytes(Message { kind, id: 500 + times, code: code::CHANGED, options: &[], ..*request });
        if times == 1 { Vec::new() } else { vec![answer.clone(), answer] }
    }));
    let mut rig =
        Rig::new(platform.address, 1, "coap: { confirmable: false, ack_timeout: 10ms, timeout: 200ms }");
    let first = rig.say(0);
    assert!(matches!(first.last(), Some(Event::Abandoned { .. })), "{first:?}");
    assert_eq!(platform.requests().len(), 1);
    let second = rig.say(1);
    assert_eq!(count(&second, is_acknowledged), 1);
    assert_eq!(count(&second, is_round_trip), 0);
    assert!(platform.requests().iter().all(|(_, datagram)| datagram[0] >> 4 == 0b0101));
}

#[test]
fn where_nobody_listens_it_is_told_at_once() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut rig = Rig::unconnected(free, 1, "");
    rig.connect(1);
    rig.until(|events| !events.is_empty());
    let failed = |event: &Event| matches!(event, Event::ConnectFailed { reason, .. } if reason.contains("nobody listens"));
    assert!(rig.events.iter().any(failed), "{:?}", rig.events);

    let platform = Platform::start(Box::new(|_, _| Vec::new()));
    let address = platform.address;
    let mut rig = Rig::new(address, 1, "coap: { outstanding: 2 }");
    rig.driver.submit(0, 0);
    rig.until(|events| events.iter().any(|event| matches!(event, Event::Sent { .. })));
    drop(platform);
    rig.driver.submit(0, 1);
    let began = rig.clock.now();
    rig.until(|events| events.iter().any(|event| matches!(event, Event::Disconnected { .. })));
    rig.until(|events| events.iter().any(is_end));
    assert!(rig.clock.now() - began < Nanos::from_secs(5));
    assert!(rig.events.iter().any(|event| matches!(event, Event::Abandoned { sequence: 0, .. })));
}

#[test]
fn a_large_message_goes_in_blocks_through_losses_and_smaller_sizes() {
    let whole = Arc::new(Mutex::new(Vec::new()));
    let (taken, mut asked) = (Arc::clone(&whole), 0);
    let platform = Platform::start(Box::new(move |request, _| {
        asked += 1;
        let mut body = taken.lock().unwrap();
        let block = request.block(option::BLOCK1).unwrap();
        assert_eq!(
            request.payload.len(),
            if block.more { usize::from(block.size()) } else { 300 % usize::from(block.size()) }
        );
        match asked {
            // Too large blocks, a lost one, one that was lost here, smaller blocks from the next on.
            1 => {
                return vec![piggybacked(
                    request,
                    code::TOO_LARGE,
                    &[(option::BLOCK1, Block::new(0, false, 64).to_number())],
                )];
            }
            2 => return Vec::new(),
            4 => {
                body.clear();
                return vec![piggybacked(request, code::INCOMPLETE, &[])];
            }
            _ => {}
        }
        assert_eq!(block.begin(), body.len(), "{block:?}");
        body.extend_from_slice(request.payload);
        let size = if asked < 6 { block.size() } else { 32 };
        let told = [(option::BLOCK1, Block::new(block.number, block.more, size).to_number())];
        vec![piggybacked(request, if block.more { code::CONTINUE } else { code::CHANGED }, &told)]
    }));
    let mut rig = Rig::new(
        platform.address,
        1,
        "coap: { ack_timeout: 60ms, timeout: 10s, block_size: 128 }\nmessage: { size: 300 }",
    );
    let events = rig.say(0);
    assert!(is_acknowledged(events.last().unwrap()), "{events:?}");
    assert_eq!(count(&events, |event| matches!(event, Event::Sent { content: 300, .. })), 1);
    assert!(count(&events, |event| matches!(event, Event::Retransmitted { .. })) >= 1);
    let body = whole.lock().unwrap();
    assert_eq!(body.len(), 300);
    assert!(body.ends_with(b"...."));
    let tokens: BTreeSet<Vec<u8>> =
        platform.requests().iter().map(|(_, bytes)| bytes[4..10].to_vec()).collect();
    assert!(tokens.len() > 5, "each request has its own token");
}

#[test]
fn what_fits_in_no_datagram_goes_in_blocks_and_its_size_is_told() {
    let platform = Platform::start(Box::new(|request, _| {
        let block = request.block(option::BLOCK1).unwrap();
        let told = [(option::BLOCK1, block.to_number())];
        vec![piggybacked(request, if block.more { code::CONTINUE } else { code::CREATED }, &told)]
    }));
    let mut rig = Rig::new(platform.address, 1, "message: { size: 70000 }\ncoap: { ack_timeout: 5s }");
    let events = rig.say(0);
    assert!(is_acknowledged(events.last().unwrap()), "{events:?}");
    let requests = platform.requests();
    assert_eq!(requests.len(), 69);
    let bytes: usize = requests.iter().map(|(_, datagram)| datagram.len()).sum();
    assert!(
        matches!(events[0], Event::Sent { content: 70_000, packet, .. } if packet as usize == bytes),
        "{:?} {bytes}",
        events[0]
    );
}

#[test]
fn a_large_answer_is_fetched_in_blocks() {
    let mut order = 0;
    let platform = Platform::start(Box::new(move |request, _| {
        let asked = request.block(option::BLOCK2).map_or(0, |block| block.number);
        assert_eq!(asked, order);
        order += 1;
        if asked > 0 {
            assert_eq!(request.payload, b"");
        }
        vec![piggybacked(
            request,
            code::CHANGED,
            &[(option::BLOCK2, Block::new(asked, asked < 3, 32).to_number())],
        )]
    }));
    let events = Rig::new(platform.address, 1, "coap: { ack_timeout: 5s }").say(0);
    assert_eq!(count(&events, is_acknowledged), 1, "{events:?}");
    assert_eq!(platform.requests().len(), 4);
}

#[test]
fn an_answer_without_an_end_is_refused() {
    let platform = Platform::start(Box::new(move |request, _| {
        let asked = request.block(option::BLOCK2).map_or(0, |block| block.number);
        vec![piggybacked(
            request,
            code::CHANGED,
            &[(option::BLOCK2, Block::new(asked, true, 32).to_number())],
        )]
    }));
    let events = Rig::new(platform.address, 1, "coap: { ack_timeout: 5s }").say(0);
    assert!(
        matches!(events.last(), Some(Event::Refused { reason, .. }) if reason.contains("goes on after 16384 blocks")),
        "{events:?}"
    );
    assert_eq!(platform.requests().len(), (1 << 14) + 1);
}

#[test]
fn message_ids_go_round_and_leave_out_what_is_under_way() {
    let held: Arc<Mutex<Option<u16>>> = Arc::default();
    let (keep, mut last) = (Arc::clone(&held), None);
    let platform = Platform::start(Box::new(move |request, _| {
        let held = *keep.lock().unwrap().get_or_insert(request.id);
        if held == request.id {
            assert!(last.is_none(), "the id of what is under way came again");
            return Vec::new();
        }
        let before = last.replace(request.id).unwrap_or(held);
        let next = before.wrapping_add(1);
        assert_eq!(request.id, if next == held { next.wrapping_add(1) } else { next });
        vec![changed(request)]
    }));
    let mut rig = Rig::new(platform.address, 1, "coap: { outstanding: 40, ack_timeout: 9m, timeout: 9m }");
    let (mut submitted, wanted) = (0, 66_000);
    let mut acknowledged = 0;
    while acknowledged < wanted {
        while submitted < acknowledged + 30 {
            rig.driver.submit(0, submitted);
            submitted += 1;
        }
        rig.until(|events| events.iter().any(is_acknowledged));
        acknowledged += count(&rig.events, is_acknowledged) as u32;
        rig.events.clear();
    }
    assert!(held.lock().unwrap().is_some());
}

#[test]
fn devices_share_sockets_and_have_so_many_requests_under_way() {
    let platform = Platform::start(Box::new(|_, _| Vec::new()));
    let mut rig =
        Rig::new(platform.address, 30, "coap: { sockets: 2, outstanding: 3, ack_timeout: 9m, timeout: 9m }");
    for device in 0..30 {
        (0..5).for_each(|sequence| rig.driver.submit(device, sequence));
    }
    rig.until(|_| platform.requests().len() == 90);
    rig.go_on(Nanos::from_millis(30));
    let requests = platform.requests();
    assert_eq!(requests.len(), 90);
    let from: BTreeSet<SocketAddr> = requests.iter().map(|(from, _)| *from).collect();
    assert_eq!(from.len(), 2);
    let mut tokens: HashMap<Vec<u8>, SocketAddr> = HashMap::new();
    for (from, datagram) in &requests {
        assert_eq!(tokens.insert(datagram[4..10].to_vec(), *from), None);
    }
    // What was sent and is taken back is abandoned; what waited is not told of.
    let mut events = Vec::new();
    rig.driver.withdraw(&mut events);
    assert_eq!((events.len(), count(&events, |event| matches!(event, Event::Abandoned { .. }))), (90, 90));
}

#[test]
fn what_goes_over_one_socket_in_one_turn_goes_together_and_each_message_has_its_own_answer() {
    let platform = Platform::start(Box::new(|request, _| vec![changed(request)]));
    let mut rig = Rig::new(platform.address, 100, "coap: { sockets: 1, ack_timeout: 9m, timeout: 9m }");
    rig.driver.take_traffic();
    (0..100).for_each(|device| rig.driver.submit(device, 0));
    rig.until(|events| count(events, is_acknowledged) == 100);
    let (mut sent, mut answered, mut sent_at) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for event in &rig.events {
        match event {
            Event::Sent { device, at, .. } => {
                assert!(sent.insert(*device));
                sent_at.insert(*at);
            }
            Event::Acknowledged { device, at, .. } => {
                assert!(sent.contains(device) && answered.insert(*device));
                assert!(sent_at.first().is_some_and(|first| at > first));
            }
            Event::RoundTrip { took } => assert!(*took > Nanos::ZERO),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((sent.len(), answered.len()), (100, 100));
    // Those of two digits and those of one, of the former 64 at once.
    assert_eq!(sent_at.len(), 3);
    let seen: BTreeSet<Vec<u8>> = platform.requests().into_iter().map(|(_, request)| request).collect();
    assert_eq!((seen.len(), platform.requests().len()), (100, 100));
    let bytes: usize = seen.iter().map(Vec::len).sum();
    let traffic = rig.driver.take_traffic();
    assert_eq!((traffic.sent, traffic.datagrams, traffic.request_packets), (bytes as u64, 200, 100));
}

/// Paths of different lengths: what is not of one size goes by itself, in the order of the messages.
#[test]
fn messages_of_several_sizes_go_over_one_socket_in_their_order() {
    let platform = Platform::start(Box::new(|request, _| vec![changed(request)]));
    let more = "coap: { sockets: 1, outstanding: 4, ack_timeout: 9m, timeout: 9m }";
    let mut rig = Rig::new(platform.address, 25, more);
    for device in 0..25 {
        (0..4).for_each(|sequence| rig.driver.submit(device, sequence));
    }
    rig.until(|events| count(events, is_acknowledged) == 100);
    let sizes: BTreeSet<usize> = platform.requests().iter().map(|(_, request)| request.len()).collect();
    assert_eq!(sizes.len(), 2);
    let mut next: HashMap<String, u16> = HashMap::new();
    for (_, request) in platform.requests() {
        let request = Message::decode(&request).unwrap();
        if let Some(last) = next.insert(request.path(), request.id) {
            assert!((1..30_000).contains(&request.id.wrapping_sub(last)), "{}", request.path());
        }
    }
    assert_eq!(next.len(), 25);
}

#[test]
fn a_platform_that_dies_under_a_shared_socket_loses_what_was_sent_and_gets_the_rest() {
    let platform = Platform::start(Box::new(|_, _| Vec::new()));
    let address = platform.address;
    let mut rig = Rig::new(address, 80, "coap: { sockets: 1, ack_timeout: 9m, timeout: 9m }");
    drop(platform);
    (0..50).for_each(|device| rig.driver.submit(device, 0));
    let lost = |event: &Event| matches!(event, Event::Disconnected { .. });
    rig.until(|events| count(events, lost) == 80);
    let sent = count(&rig.events, |event| matches!(event, Event::Sent { .. }));
    assert!(sent > 0);
    assert_eq!(count(&rig.events, |event| matches!(event, Event::Abandoned { .. })), sent);
    (50..80).for_each(|device| rig.driver.submit(device, 0));
    let _platform = Platform::at(address, Box::new(|request, _| vec![changed(request)]));
    rig.until(|events| count(events, is_end) == 80);
    assert_eq!(count(&rig.events, |event| matches!(event, Event::Sent { .. })), 80);
    assert_eq!(count(&rig.events, is_acknowledged), 80 - sent);
}
