//! Which server a device turns to, and the DTLS session that it needs for that.

use super::{Devices, Event, Standing};
use crate::drivers::coap::dtls::Credentials;
use crate::drivers::lwm2m::bootstrap::account_of;
use plimsoll_model::Nanos;

/// A session that a device waits for.
pub struct Wanted {
    /// The device.
    pub slot: u32,
    /// The server's port.
    pub port: u16,
    /// What a bootstrap server gave to the device for it; `None` where the scenario says it.
    pub credentials: Option<Credentials>,
}

impl Devices {
    /// Turns to the bootstrap server where a device has one and knows no server yet, else to its server.
    pub(super) fn begin(&mut self, slot: u32, now: Nanos) {
        self.note_beginning(slot, now);
        self.turn_to_server(slot, now);
    }

    /// Notes when a device began to connect.
    pub(super) fn note_beginning(&mut self, slot: u32, now: Nanos) {
        if let Some(own) = self.devices.get_mut(slot as usize) {
            own.began = now;
        }
    }

    /// Waits for a session where datagrams are secured, then asks to be bootstrapped or registers. What a server asked
    /// before belongs to an earlier life.
    pub(super) fn turn_to_server(&mut self, slot: u32, now: Nanos) {
        let Some(own) = self.devices.get_mut(slot as usize) else { return };
        own.lives = own.lives.wrapping_add(1);
        let port = self.bootstrap_port.filter(|_| !own.knows_server).unwrap_or(own.port);
        own.has_session &= own.peer == port;
        own.peer = port;
        if !self.is_secured || own.has_session {
            return self.begin_to_speak(slot, now);
        }
        own.standing = Standing::Securing;
        own.sleep();
        own.observations.clear();
        self.insecure.push(slot);
        self.count(slot);
    }

    /// Asks to be bootstrapped or registers.
    fn begin_to_speak(&mut self, slot: u32, now: Nanos) {
        let knows_server = self.devices.get(slot as usize).is_some_and(|own| own.knows_server);
        match self.bootstrap_port.filter(|_| !knows_server) {
            Some(port) => self.ask_for_bootstrap(slot, port, now),
            None => self.register(slot, now),
        }
    }

    /// Takes a device that waits for a session. One that was released meanwhile does not wait any more.
    pub fn wants_session(&mut self) -> Option<Wanted> {
        while let Some(slot) = self.insecure.pop() {
            let own = self.devices.get(slot as usize);
            let Some(own) = own.filter(|own| own.standing == Standing::Securing) else { continue };
            let account = own.knows_server.then(|| account_of(&own.own, self.host, true).ok()).flatten();
            return Some(Wanted {
                slot,
                port: own.peer,
                credentials: account.and_then(|own| own.credentials),
            });
        }
        None
    }

    /// A device has a session with that port of the server: it goes on.
    pub fn secured(&mut self, (slot, port): (u32, u16), now: Nanos) {
        let Some(own) = self.devices.get_mut(slot as usize).filter(|own| own.peer == port) else { return };
        own.has_session = true;
        if own.standing == Standing::Securing {
            self.begin_to_speak(slot, now);
        }
    }

    /// A device has no session with that port of the server any more, or none came about.
    pub fn lost_session(
        &mut self,
        (slot, port): (u32, u16),
        reason: String,
        at: Nanos,
        events: &mut Vec<Event>,
    ) {
        // One with its bootstrap server may end when that has done its work.
        if self.peer(slot) != Some(port) {
            return;
        }
        self.forget_session(slot);
        let whose = match self.bootstrap_port {
            Some(own) if own == port => format!("at the port {port} of the bootstrap server: "),
            Some(_) => format!("at the port {port}, which the bootstrap server named: "),
            None => String::new(),
        };
        self.failed_to_send(slot, whose + &reason, at, events);
    }

    /// The port of the server that a device speaks to: it has a session with it, or wants one.
    pub fn peer(&self, slot: u32) -> Option<u16> {
        self.devices.get(slot as usize).map(|own| own.peer)
    }

    /// A new session is made when the device speaks next.
    pub(super) fn forget_session(&mut self, slot: u32) {
        if let Some(own) = self.devices.get_mut(slot as usize) {
            own.has_session = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::drivers::DriverContext;
    use crate::share::Share;
    use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
    use plimsoll_codec::lwm2m::{Path, Value, format, payload};
    use plimsoll_model::RunId;
    use plimsoll_scenario::{Environment, SourceFile, load};
    use std::net::SocketAddr;
    use std::sync::Arc;

    const SERVER: u16 = 5684;
    const BOOTSTRAP: u16 = 5784;
    const NOW: Nanos = Nanos::from_secs(1);

    /// One device that is to be bootstrapped over DTLS.
    fn device() -> Devices {
        let text = format!(
            "name: one\nplatform: {{ profile: lwm2m, address: \"coaps://127.0.0.1:{SERVER}\", \
             ports: {{ bootstrap: {BOOTSTRAP} }} }}\npopulation: {{ devices: 1 }}\nload: {{ levels: [1] }}\n\
             coap: {{ dtls: {{ identity: d, key: k }} }}\nlwm2m: {{ bootstrap: true }}\n"
        );
        let profile = |_: &str| Ok(include_str!("../../../../../../platforms/lwm2m.yaml").to_owned());
        let environment = Environment { profile: &profile, variable: &|_| None };
        let plan = load(&SourceFile { name: "test".into(), text }, &[], &environment).unwrap();
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Devices::new(&DriverContext {
            subscribers: (Share::WHOLE, 0),
            plan: Arc::new(plan),
            run: RunId::from_bits(7),
            address: at(SERVER),
            share: Share::WHOLE,
            clock: Clock::start(),
            bootstrap: Some(at(BOOTSTRAP)),
            run_context: Arc::default(),
            service: None,
        })
    }

    /// What it sends, each with the server's port.
    fn sent(devices: &mut Devices) -> Vec<(u16, Vec<u8>)> {
        let waiting = devices.take_outgoing();
        let found = waiting.iter().filter_map(|outgoing| devices.datagram(outgoing));
        let found = found.map(|(_, port, datagram)| (port, datagram.to_vec())).collect();
        waiting.iter().for_each(|outgoing| devices.was_sent(outgoing, NOW, &mut Vec::new()));
        devices.keep(Vec::new());
        found
    }

    fn paths(sent: &[(u16, Vec<u8>)]) -> Vec<(u16, String)> {
        sent.iter().map(|(port, datagram)| (*port, Message::decode(datagram).unwrap().path())).collect()
    }

    fn bytes(message: Message<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        message.encode(&mut out);
        out
    }

    /// The bootstrap server asks something; what the device answers, and what it reports.
    fn ask(devices: &mut Devices, (method, id, path): (u8, u16, &str), payload: &[u8]) -> (u8, Vec<Event>) {
        let (mut list, mut options, mut events) = (OptionList::new(), Vec::new(), Vec::new());
        list.add_target(path.as_bytes());
        list.add_number(option::CONTENT_FORMAT, u32::from(format::TLV));
        list.encode(&mut options);
        let token = &id.to_be_bytes();
        let request =
            Message { kind: Kind::Confirmable, code: method, id, token, options: &options, payload };
        devices.incoming((0, BOOTSTRAP), &bytes(request), NOW, &mut events);
        let answers = sent(devices);
        let (port, answer) = answers.first().unwrap();
        assert_eq!((answers.len(), *port), (1, BOOTSTRAP));
        (Message::decode(answer).unwrap().code, events)
    }

    /// A device that has asked its bootstrap server, which writes an account of that mode.
    fn told(mode: i64) -> Devices {
        let mut devices = device();
        assert!(devices.connect(0, NOW));
        assert_eq!(sent(&mut devices), [], "it waits for a session");
        let wanted = devices.wants_session().unwrap();
        assert_eq!((wanted.port, wanted.credentials), (BOOTSTRAP, None), "with the scenario's key");
        devices.secured((0, SERVER), NOW);
        assert_eq!(sent(&mut devices), [], "that is another one");
        devices.secured((0, BOOTSTRAP), NOW);
        let asked = sent(&mut devices);
        assert_eq!(paths(&asked), [(BOOTSTRAP, "/bs".to_owned())]);
        let asked = Message::decode(&asked[0].1).unwrap();
        let answer =
            Message { kind: Kind::Acknowledgement, code: code::CHANGED, options: &[], payload: &[], ..asked };
        devices.incoming((0, BOOTSTRAP), &bytes(answer), NOW, &mut Vec::new());
        let own = Path::parse("/0/1").unwrap();
        let of = |id| own.child(id).unwrap();
        let uri = format!("coaps://127.0.0.1:{SERVER}");
        let entries = [
            (of(0), Value::String(&uri)),
            (of(1), Value::Boolean(false)),
            (of(2), Value::Integer(mode)),
            (of(3), Value::Opaque(b"me")),
            (of(5), Value::Opaque(b"sesame")),
        ];
        let mut account = Vec::new();
        payload::write(format::TLV, own, &entries, &mut account);
        assert_eq!(ask(&mut devices, (code::PUT, 1, "/0/1"), &account).0, code::CHANGED);
        devices
    }

    /// Whether all that is reported is that the device could not connect, with these words.
    fn says(events: &[Event], words: &str) -> bool {
        matches!(events, [Event::ConnectFailed { reason, .. }] if reason.contains(words))
    }

    #[test]
    fn a_device_that_was_bootstrapped_takes_a_session_with_the_key_that_it_was_given() {
        let mut devices = told(0);
        for _ in 0..2 {
            // The bootstrap server may not have heard the answer.
            let (answer, events) = ask(&mut devices, (code::POST, 2, "/bs"), &[]);
            assert_eq!((answer, events.len()), (code::CHANGED, 0));
        }
        let wanted = devices.wants_session().unwrap();
        let key = Credentials::Key { identity: b"me".to_vec(), key: b"sesame".to_vec() };
        assert_eq!((wanted.port, wanted.credentials), (SERVER, Some(key)));
        let mut events = Vec::new();
        let reason = || "the platform closed the DTLS session".to_owned();
        devices.lost_session((0, BOOTSTRAP), reason(), NOW, &mut events);
        devices.secured((0, SERVER), NOW);
        assert_eq!(paths(&sent(&mut devices)), [(SERVER, "/rd".to_owned())]);
        assert!(events.is_empty() && devices.wants_session().is_none());
        let (answer, events) = ask(&mut devices, (code::POST, 2, "/bs"), &[]);
        assert_eq!((answer, events.len()), (code::CHANGED, 0), "the same once more");
        assert!(devices.wants_session().is_none(), "it registers already");
        // It asks the bootstrap server again where it cannot register.
        let mut events = Vec::new();
        devices.lost_session((0, SERVER), reason(), NOW, &mut events);
        assert!(says(&events, "5684, which the bootstrap server named"), "{events:?}");
        assert!(devices.connect(0, NOW));
        assert_eq!(devices.wants_session().map(|wanted| wanted.port), Some(BOOTSTRAP));
    }

    #[test]
    fn a_mode_that_is_unknown_is_a_reason() {
        let mut devices = told(1);
        let (answer, events) = ask(&mut devices, (code::POST, 2, "/bs"), &[]);
        assert_eq!(answer, code::CHANGED);
        assert!(says(&events, "mode 1, a raw public key"), "{events:?}");
        assert!(devices.wants_session().is_none());
    }

    /// What a registered device takes beside its session, without what a server changed at it. Few have the rest at a
    /// time.
    #[test]
    fn a_device_is_small() {
        let (device, rare) = (size_of::<super::super::Device>(), size_of::<super::super::Rare>());
        println!("a device: {device} bytes, what few have: {rare} bytes");
        assert!(device <= 256 && rare <= 256, "{device} and {rare} bytes");
    }
}
