//! Devices, and a server that the tests speak for.

use crate::context::context_of;
use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
use plimsoll_codec::lwm2m::{Path, payload};
use plimsoll_load::clock::Clock;
use plimsoll_load::driver::{Client, Driver, Event};
use plimsoll_load::drivers::DriverContext;
use plimsoll_load::drivers::lwm2m::Lwm2mDriver;
use plimsoll_model::Nanos;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// A test that waits longer than this hangs.
pub const LONGEST: Nanos = Nanos::from_secs(20);
pub const MESSAGE: &str = "/19/0/0";

/// Devices, and the server's socket, which the tests speak for.
pub struct Rig {
    pub driver: Lwm2mDriver,
    pub clock: Clock,
    pub events: Vec<Event>,
    pub server: UdpSocket,
    /// The bootstrap server's socket.
    pub bootstrap: UdpSocket,
}

impl Rig {
    pub fn new(devices: u32, more: &str) -> Rig {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let bootstrap = UdpSocket::bind("127.0.0.1:0").unwrap();
        bootstrap.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let (address, bootstrap_address) = (server.local_addr().unwrap(), bootstrap.local_addr().unwrap());
        let connection = match more.starts_with("connection") {
            true => "",
            false => "connection: { timeout: 400ms, reconnect: { from: 10ms, to: 20ms } }\n",
        };
        let text = format!(
            "name: scripted\nplatform: {{ profile: lwm2m, address: \"coap://{address}\", \
             ports: {{ bootstrap: {} }} }}\n\
             population: {{ devices: {devices} }}\n{connection}load: {{ levels: [1] }}\n{more}\n",
            bootstrap_address.port()
        );
        let profile = include_str!("../../../../platforms/lwm2m.yaml");
        let context = context_of(text, Some(profile), address);
        let context = DriverContext { bootstrap: Some(bootstrap_address), ..context };
        let driver = Lwm2mDriver::new(&context).unwrap();
        let mut rig = Rig { driver, clock: context.clock, events: Vec::new(), server, bootstrap };
        (0..devices).for_each(|device| assert!(rig.driver.connect(Client::Device(device))));
        rig
    }

    /// A device that is registered and observed.
    pub fn observed(more: &str) -> (Rig, SocketAddr) {
        let mut rig = Rig::new(1, more);
        let device = rig.register("rd/5");
        let answer = rig.ask(device, &request(code::GET, 1, b"obs", MESSAGE, &[(option::OBSERVE, 0)], b""));
        assert_eq!(Message::decode(&answer).unwrap().code, code::CONTENT);
        rig.until(|rig| rig.count(|event| matches!(event, Event::Ready { .. })) == 1);
        rig.events.clear();
        (rig, device)
    }

    pub fn turn(&mut self) {
        self.driver.poll(self.clock.now() + Nanos::from_millis(1), &mut self.events);
    }

    pub fn until(&mut self, done: impl Fn(&Rig) -> bool) {
        let end = self.clock.now() + LONGEST;
        while !done(self) {
            assert!(self.clock.now() < end, "it never came: {:?}", self.events);
            self.turn();
        }
    }

    /// The next datagram that comes to the server.
    pub fn next(&mut self) -> (SocketAddr, Vec<u8>) {
        let (end, mut room) = (self.clock.now() + LONGEST, [0; 2048]);
        loop {
            self.turn();
            if let Ok((length, from)) = self.server.recv_from(&mut room) {
                return (from, room[..length].to_vec());
            }
            assert!(self.clock.now() < end, "nothing came: {:?}", self.events);
        }
    }

    /// Nothing comes to the server for a while.
    pub fn is_silent(&mut self, span: Nanos) -> bool {
        let (end, mut room) = (self.clock.now() + span, [0; 2048]);
        while self.clock.now() < end {
            self.turn();
            if self.server.recv_from(&mut room).is_ok() {
                return false;
            }
        }
        true
    }

    pub fn send(&mut self, to: SocketAddr, datagram: &[u8]) {
        self.server.send_to(datagram, to).unwrap();
    }

    /// What a device answers to a request of the server.
    pub fn ask(&mut self, device: SocketAddr, request: &[u8]) -> Vec<u8> {
        self.send(device, request);
        let (from, answer) = self.next();
        assert_eq!(from, device);
        answer
    }

    /// Answers the registration that comes next; the device's address.
    pub fn register(&mut self, location: &str) -> SocketAddr {
        let (device, datagram) = self.next();
        let request = Message::decode(&datagram).unwrap();
        assert_eq!((request.code, request.path().as_str()), (code::POST, "/rd"));
        self.send(device, &created(&request, location));
        device
    }

    pub fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| wanted(event)).count()
    }
}

pub fn bytes(message: Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

pub fn request(
    code: u8,
    id: u16,
    token: &[u8],
    path: &str,
    numbers: &[(u16, u32)],
    payload: &[u8],
) -> Vec<u8> {
    let (mut list, mut options) = (OptionList::new(), Vec::new());
    list.add_target(path.as_bytes());
    numbers.iter().for_each(|(number, value)| list.add_number(*number, *value));
    list.encode(&mut options);
    bytes(Message { kind: Kind::Confirmable, code, id, token, options: &options, payload })
}

pub fn answer(request: &Message<'_>, code: u8, list: &OptionList) -> Vec<u8> {
    let mut options = Vec::new();
    list.encode(&mut options);
    bytes(Message { kind: Kind::Acknowledgement, code, options: &options, payload: b"", ..*request })
}

pub fn created(request: &Message<'_>, location: &str) -> Vec<u8> {
    let mut list = OptionList::new();
    location.split('/').for_each(|part| list.add(option::LOCATION_PATH, part.as_bytes()));
    answer(request, code::CREATED, &list)
}

pub fn queries(request: &Message<'_>) -> Vec<String> {
    let queries = request.options().filter(|(number, _)| *number == option::URI_QUERY);
    queries.map(|(_, value)| String::from_utf8(value.to_vec()).unwrap()).collect()
}

/// The bytes of a message in a notification.
pub fn notified(notification: &Message<'_>) -> Vec<u8> {
    let path = Path::parse(MESSAGE).unwrap();
    let content_format = notification.number(option::CONTENT_FORMAT).unwrap() as u16;
    let values = payload::read(content_format, path, notification.payload).unwrap();
    let value = values[0].1.as_kind(plimsoll_codec::lwm2m::Kind::Opaque);
    let Some(plimsoll_codec::lwm2m::Value::Opaque(bytes)) = value else { panic!("{values:?}") };
    bytes.to_vec()
}
