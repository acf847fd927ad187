//! When requests go: each at once, or those of one turn over a shared socket together. A call of the kernel and a passage of
//! the network stack for each datagram cost more than all the rest of an exchange.

use super::tokens::token;
use super::{CoapDriver, Place, Wake};
use crate::driver::Event;
use plimsoll_model::Nanos;

/// ACK_RANDOM_FACTOR less one (RFC 7252 section 4.8).
const ACK_SPREAD: f64 = 0.5;

/// That message ids come round before a platform has to forget them, for people.
const TOO_SOON: &str = "the 65,536 message ids of a CoAP socket came round within 247 s, in which a platform may take a request for a \
                        repetition of the one before with its id (RFC 7252 section 4.8.2): keep below 265 messages/s on each \
                        socket";

impl CoapDriver {
    /// Writes and sends the request of an exchange that is next.
    pub(super) fn next_request(&mut self, slot: u32, events: &mut Vec<Event>) {
        let timeout = self.plan.ack_timeout.as_secs_f64() * (1.0 + ACK_SPREAD * self.random.fraction());
        let Some(place) = self.places.get_mut(slot as usize) else { return };
        let Some(socket) = self.sockets.get_mut(place.socket as usize) else { return };
        let Some(id) = socket.take_id(self.clock.now()) else { return };
        if socket.endpoint.came_round() {
            events.push(Event::Incident { reason: TOO_SOON.into() });
        }
        socket.exchanges.insert(id, slot);
        let token = token(slot, place.turn);
        place.exchange.write(id, &token, self.plan.confirmable, Nanos::from_secs_f64(timeout));
        self.send(slot, events);
    }

    /// Sends the datagram of an exchange, now or at the end of this turn.
    pub(super) fn send(&mut self, slot: u32, events: &mut Vec<Event>) {
        let Some(place) = self.places.get_mut(slot as usize) else { return };
        let socket_slot = place.socket;
        if !self.gathers {
            return self.hand_over(socket_slot, &[slot], events);
        }
        let Some(socket) = self.sockets.get_mut(socket_slot as usize) else { return };
        if socket.gathered.is_empty() {
            self.gathering.push(socket_slot);
        }
        place.waits = true;
        socket.gathered.push(slot);
    }

    /// Sends what was gathered in this turn.
    pub(super) fn send_gathered(&mut self, events: &mut Vec<Event>) {
        while let Some(slot) = self.gathering.pop() {
            let Some(socket) = self.sockets.get_mut(slot as usize) else { continue };
            let mut gathered = std::mem::take(&mut socket.gathered);
            // Of some the answer to an earlier sending may have come meanwhile,
            // and then their places may be those of requests over another socket.
            let own = |place: &mut Place| place.socket == slot && place.stop_waiting();
            gathered.retain(|place| self.places.get_mut(*place as usize).is_some_and(own));
            self.hand_over(slot, &gathered, events);
            gathered.clear();
            if let Some(socket) = self.sockets.get_mut(slot as usize) {
                // Its memory is used again.
                socket.gathered = gathered;
            }
        }
    }

    /// Hands the datagrams of these exchanges over one socket to the kernel, in order.
    fn hand_over(&mut self, slot: u32, mut places: &[u32], events: &mut Vec<Event>) {
        while !places.is_empty() {
            let Some(socket) = self.sockets.get_mut(slot as usize) else { return };
            let datagrams = places.iter().filter_map(|place| self.places.get(*place as usize));
            let datagrams = datagrams.map(|place| place.exchange.datagram.as_slice());
            // Before, not after: a platform on this host may have answered by the time that the call returns.
            let at = self.clock.now();
            let taken = match socket.endpoint.send_first(datagrams, at, &mut self.traffic) {
                Ok(0) => return self.wait_for_room(slot, places),
                Ok(taken) => taken,
                Err(reason) => return self.failed(slot, reason, events),
            };
            let (sent, rest) = places.split_at(taken.min(places.len()));
            sent.iter().for_each(|place| self.was_sent(*place, at, events));
            places = rest;
        }
    }

    fn wait_for_room(&mut self, slot: u32, places: &[u32]) {
        let Some(socket) = self.sockets.get_mut(slot as usize) else { return };
        for &place in places {
            if let Some(place) = self.places.get_mut(place as usize) {
                place.waits = true;
            }
        }
        socket.blocked.extend(places);
        socket.endpoint.wants_room(slot, true, self.readiness.epoll());
    }

    /// Notes that the kernel has a datagram, when the call that handed it over began, and tells it.
    fn was_sent(&mut self, slot: u32, at: Nanos, events: &mut Vec<Event>) {
        let Some(place) = self.places.get_mut(slot as usize) else { return };
        let exchange = &mut place.exchange;
        let after = exchange.was_sent(at);
        self.traffic.request_packets += u64::from(exchange.sendings == 1);
        if exchange.sendings > 1 {
            events.push(Event::Retransmitted { after });
        } else {
            events.extend(exchange.tell_sent(at));
        }
        // One timer watches over a place, for nearly all requests are answered long before.
        if exchange.next_at < place.watched {
            place.watched = exchange.next_at;
            self.timers.set(exchange.next_at, slot, Wake::Place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::driver::{Client, Driver};
    use crate::drivers::DriverContext;
    use crate::drivers::coap::channel::Channel;
    use crate::drivers::coap::tokens::TOKEN;
    use crate::drivers::readiness;
    use crate::drivers::socket::Socket;
    use crate::share::Share;
    use nix::sys::socket::{setsockopt, sockopt};
    use plimsoll_codec::coap::{Kind, Message, code};
    use plimsoll_model::RunId;
    use plimsoll_scenario::{Environment, SourceFile, load};
    use std::collections::BTreeSet;
    use std::net::UdpSocket;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use std::sync::Arc;
    use std::time::Duration;

    const DEVICES: u32 = 40;

    /// Devices that share a socket, and the platform's.
    struct Rig {
        driver: CoapDriver,
        platform: UdpSocket,
        events: Vec<Event>,
    }

    impl Rig {
        fn new() -> Rig {
            let platform = UdpSocket::bind("127.0.0.1:0").unwrap();
            platform.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let address = platform.local_addr().unwrap();
            let text = format!(
                "name: together\nplatform: {{ profile: existing, address: \"coap://{address}\" }}\n\
                 population: {{ devices: {DEVICES} }}\nmqtt: {{ reconnect: {{ from: 10ms, to: 20ms }} }}\n\
                 coap: {{ sockets: 1, ack_timeout: 9m, timeout: 9m }}\nload: {{ levels: [1] }}\n"
            );
            let environment = Environment { profile: &|_| Err("none".to_owned()), variable: &|_| None };
            let plan = load(&SourceFile { name: "test".into(), text }, &[], &environment).unwrap();
            let (run, clock) = (RunId::from_bits(7), Clock::start());
            let (plan, share, run_context) = (Arc::new(plan), Share::WHOLE, Arc::default());
            let context = DriverContext {
                plan,
                run,
                address,
                share,
                subscribers: (share, 0),
                clock,
                bootstrap: None,
                run_context,
                service: None,
            };
            let driver = CoapDriver::new(&context).unwrap();
            let mut rig = Rig { driver, platform, events: Vec::new() };
            (0..DEVICES).for_each(|device| assert!(rig.driver.connect(Client::Device(device))));
            rig.answer_ping();
            rig
        }

        /// Waits until all devices are connected.
        fn answer_ping(&mut self) {
            let mut room = [0; 1500];
            self.turn();
            let (length, from) = self.platform.recv_from(&mut room).unwrap();
            let id = Message::decode(&room[..length]).unwrap().id;
            let mut answer = Vec::new();
            Message::empty(Kind::Reset, id).encode(&mut answer);
            self.platform.send_to(&answer, from).unwrap();
            while self.count(|event| matches!(event, Event::Ready { .. })) < DEVICES as usize {
                self.turn();
            }
            self.events.retain(|event| !matches!(event, Event::Ready { .. }));
        }

        /// Puts a socket in the place of theirs that takes only a few datagrams until they are read at its other end.
        fn narrow(&mut self) -> UnixDatagram {
            let (ours, theirs) = UnixDatagram::pair().unwrap();
            theirs.set_nonblocking(true).unwrap();
            setsockopt(&ours, sockopt::SndBuf, &1).unwrap();
            let socket = Socket::bound(UdpSocket::from(OwnedFd::from(ours))).unwrap();
            let epoll = self.driver.readiness.epoll();
            let known = &mut self.driver.sockets[0];
            let data = readiness::data(0, known.generation());
            known.endpoint.replace_channel(Channel::over(socket, (epoll, data), None).unwrap().gathering());
            theirs
        }

        fn submit(&mut self, devices: std::ops::Range<u32>) {
            devices.for_each(|device| self.driver.submit(device, 0));
        }

        fn turn(&mut self) {
            let until = self.driver.now() + Nanos::from_millis(5);
            self.driver.poll(until, &mut self.events);
        }

        fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
            self.events.iter().filter(|event| wanted(event)).count()
        }

        /// Devices whose message was told as sent, in order.
        fn sent(&self) -> Vec<u32> {
            let device = |event: &Event| match event {
                Event::Sent { device, .. } => Some(*device),
                _ => None,
            };
            let mut sent: Vec<u32> = self.events.iter().filter_map(device).collect();
            sent.sort_unstable();
            sent
        }
    }

    fn is_abandoned(event: &Event) -> bool {
        matches!(event, Event::Abandoned { .. })
    }

    /// Tokens of the requests that came.
    fn tokens(platform: &UnixDatagram) -> Vec<Vec<u8>> {
        let mut room = [0; 1500];
        std::iter::from_fn(|| platform.recv(&mut room).ok().map(|_| room[4..4 + TOKEN].to_vec())).collect()
    }

    #[test]
    fn what_finds_no_room_is_told_when_it_goes_and_goes_once() {
        let mut rig = Rig::new();
        let platform = rig.narrow();
        rig.submit(0..DEVICES);
        rig.turn();
        let first = rig.sent().len();
        assert!((1..DEVICES as usize).contains(&first), "{first}");
        let mut came = tokens(&platform);
        assert_eq!(came.len(), first, "what was told is what the kernel took");
        while came.len() < DEVICES as usize {
            rig.turn();
            came.append(&mut tokens(&platform));
            assert_eq!(rig.sent().len(), came.len());
        }
        rig.turn();
        assert_eq!(rig.sent(), (0..DEVICES).collect::<Vec<u32>>());
        assert_eq!(rig.events.len(), DEVICES as usize, "{:?}", rig.events);
        assert_eq!(came.iter().collect::<BTreeSet<_>>().len(), came.len());
        assert!(tokens(&platform).is_empty());
    }

    /// A platform that has gone is told by the next call; what that did not take waits for the platform to be back.
    #[test]
    fn what_a_failing_call_did_not_take_is_sent_later() {
        let mut rig = Rig::new();
        let platform = rig.narrow();
        rig.submit(0..5);
        rig.turn();
        assert_eq!((rig.sent().len(), tokens(&platform).len()), (5, 5));
        drop(platform);
        rig.submit(5..DEVICES);
        rig.turn();
        assert_eq!(rig.sent().len(), 5);
        assert_eq!(rig.count(is_abandoned), 5, "{:?}", rig.events);
        assert_eq!(rig.count(|event| matches!(event, Event::Disconnected { .. })), DEVICES as usize);
        while rig.driver.sockets[0].state == super::super::State::Pausing {
            rig.turn();
        }
        rig.answer_ping();
        rig.turn();
        assert_eq!(rig.sent(), (0..DEVICES).collect::<Vec<u32>>());
        assert_eq!(rig.count(is_abandoned), 5);
        let mut room = [0; 1500];
        let mut came = BTreeSet::new();
        for _ in 5..DEVICES {
            let length = rig.platform.recv(&mut room).unwrap();
            assert_eq!(room[1], code::POST);
            came.insert(room[..length].to_vec());
        }
        assert_eq!(came.len(), DEVICES as usize - 5);
    }
}
