//! What servers rarely ask for, and what the standards say of it.

use crate::rig::*;
use plimsoll_codec::coap::{Kind, Message, OptionList, code, option};
use plimsoll_codec::lwm2m::format;
use plimsoll_load::driver::Event;
use plimsoll_model::Nanos;
use std::net::SocketAddr;

const TEXT: (u16, u32) = (option::ACCEPT, format::TEXT as u32);
const JSON: (u16, u32) = (option::CONTENT_FORMAT, format::SENML_JSON as u32);
const OBSERVED: (u16, u32) = (option::OBSERVE, 0);

/// A device, and the ids of the requests that a test sends to it.
struct Asked {
    rig: Rig,
    device: SocketAddr,
    id: u16,
}

impl Asked {
    fn new(more: &str) -> Asked {
        let (rig, device) = Rig::observed(more);
        Asked { rig, device, id: 100 }
    }

    /// The code and the payload of an answer.
    fn ask(
        &mut self,
        code: u8,
        token: &[u8],
        path: &str,
        options: &[(u16, u32)],
        body: &[u8],
    ) -> (u8, String) {
        self.id += 1;
        let answer = self.rig.ask(self.device, &request(code, self.id, token, path, options, body));
        let answer = Message::decode(&answer).unwrap();
        (answer.code, String::from_utf8_lossy(answer.payload).into_owned())
    }

    /// What comes next, acknowledged where it is a notification, and answered by 2.04 where it is a request.
    fn next(&mut self) -> Vec<u8> {
        let (_, datagram) = self.rig.next();
        let message = Message::decode(&datagram).unwrap();
        if message.is_request() {
            self.rig.send(self.device, &answer(&message, code::CHANGED, &OptionList::new()));
        } else if message.kind == Kind::Confirmable {
            self.rig.send(self.device, &bytes(Message::empty(Kind::Acknowledgement, message.id)));
        }
        datagram
    }
}

#[test]
fn each_instance_has_values_and_rights_of_its_own() {
    let mut asked = Asked::new(
        "lwm2m: { resources: { 3303/0/5700: 20, 3303/1/5700: 21.5, 3303/0/5750: roof, \
         3303/1/5750: { value: cellar, writable: true } } }",
    );
    assert_eq!(asked.ask(code::GET, b"r", "/3303/1/5700", &[TEXT], b""), (code::CONTENT, "21.5".into()));
    assert_eq!(asked.ask(code::PUT, b"w", "/3303/0/5750", &[], b"x").0, code::METHOD_NOT_ALLOWED);
    assert_eq!(asked.ask(code::PUT, b"w", "/3303/1/5750", &[], b"x").0, code::CHANGED);
}

#[test]
fn a_server_that_names_no_format_gets_one_that_carries_the_value() {
    let mut asked = Asked::new("lwm2m: { format: opaque }");
    asked.id += 1;
    let answer = asked.rig.ask(asked.device, &request(code::GET, asked.id, b"r", "/3/0/0", &[], b""));
    let answer = Message::decode(&answer).unwrap();
    assert_eq!((answer.code, answer.content_format()), (code::CONTENT, Some(format::TLV)));
    let refused = [(option::ACCEPT, u32::from(format::OPAQUE))];
    assert_eq!(asked.ask(code::GET, b"r", "/3/0/0", &refused, b"").0, code::NOT_ACCEPTABLE);
}

#[test]
fn who_observes_an_object_sees_its_instances_come_and_go() {
    let mut asked = Asked::new("lwm2m: { resources: { 3303/0/5750: { value: roof, writable: true } } }");
    let senml = (option::ACCEPT, u32::from(format::SENML_JSON));
    asked.ask(code::GET, b"all", "/3303", &[OBSERVED, senml], b"");
    asked.ask(code::GET, b"one", "/3303/0/5750", &[OBSERVED, TEXT], b"");
    assert_eq!(
        asked.ask(code::POST, b"c", "/3303", &[JSON], br#"[{"bn":"/3303/1/5750","vs":"yard"}]"#).0,
        code::CREATED
    );
    let came = [asked.next(), asked.next()];
    let of = |token: &[u8]| came.iter().any(|datagram| Message::decode(datagram).unwrap().token == token);
    assert!(of(b"all"), "an instance has come");
    assert_eq!(asked.ask(code::DELETE, b"d", "/3303/0", &[], b"").0, code::DELETED);
    let came = [asked.next(), asked.next(), asked.next()];
    let told = |token: &[u8], code: u8| {
        let of_it = |datagram: &Vec<u8>| {
            let message = Message::decode(datagram).unwrap();
            message.token == token && message.code == code
        };
        came.iter().any(of_it)
    };
    assert!(told(b"all", code::CONTENT) && told(b"one", code::NOT_FOUND), "{came:?}");
    // The object stays without its instances: a server may create one again.
    assert_eq!(asked.ask(code::DELETE, b"d", "/3303/1", &[], b"").0, code::DELETED);
    let update = loop {
        let datagram = asked.next();
        if Message::decode(&datagram).unwrap().is_request() {
            break datagram;
        }
    };
    let links = String::from_utf8_lossy(Message::decode(&update).unwrap().payload).into_owned();
    assert!(links.contains("</3303>") && !links.contains("/3303/"), "{links}");
}

#[test]
fn a_composite_write_may_begin_a_download_and_change_the_lifetime() {
    let mut asked = Asked::new("lwm2m: { version: 1.1, firmware: {} }");
    let uri = format!("coap://{}/fw", asked.rig.server.local_addr().unwrap());
    let body = format!(r#"[{{"n":"/1/0/1","v":60}},{{"n":"/5/0/1","vs":"{uri}"}}]"#);
    assert_eq!(asked.ask(code::IPATCH, b"p", "/", &[JSON], body.as_bytes()).0, code::CHANGED);
    let came = [asked.next(), asked.next()].map(|datagram| {
        let message = Message::decode(&datagram).unwrap();
        (message.path(), queries(&message))
    });
    assert!(came.iter().any(|(path, _)| path == "/fw"), "{came:?}");
    assert!(came.iter().any(|(_, queries)| queries.contains(&"lt=60".to_owned())), "{came:?}");
}

#[test]
fn an_instance_that_is_replaced_forgets_what_was_written() {
    let mut asked = Asked::new(
        "lwm2m: { resources: { 3303/0/5701: { value: Cel, writable: true }, 3303/0/5750: { value: roof, writable: true } } }",
    );
    let both = br#"[{"bn":"/3303/0/","n":"5701","vs":"Far"},{"n":"5750","vs":"yard"}]"#;
    assert_eq!(asked.ask(code::PUT, b"w", "/3303/0", &[JSON], both).0, code::CHANGED);
    let one = br#"[{"bn":"/3303/0/","n":"5750","vs":"cellar"}]"#;
    assert_eq!(asked.ask(code::POST, b"w", "/3303/0", &[JSON], one).0, code::CHANGED);
    assert_eq!(asked.ask(code::GET, b"r", "/3303/0/5701", &[TEXT], b"").1, "Far", "a partial update");
    assert_eq!(asked.ask(code::PUT, b"w", "/3303/0", &[JSON], one).0, code::CHANGED);
    assert_eq!(asked.ask(code::GET, b"r", "/3303/0/5701", &[TEXT], b"").1, "Cel");
    assert_eq!(asked.ask(code::GET, b"r", "/3303/0/5750", &[TEXT], b"").1, "cellar");
}

/// The value was another one in the quiet period, and is what it was when that ends.
#[test]
fn what_changed_within_pmin_is_notified_when_that_ends() {
    let mut asked = Asked::new("lwm2m: { resources: { 3303/0/5700: { value: 20.5, writable: true } } }");
    assert_eq!(asked.ask(code::PUT, b"a", "/3303/0/5700?pmin=1", &[], b"").0, code::CHANGED);
    asked.ask(code::GET, b"t", "/3303/0/5700", &[OBSERVED, TEXT], b"");
    asked.ask(code::PUT, b"w", "/3303/0/5700", &[], b"30.5");
    asked.ask(code::PUT, b"w", "/3303/0/5700", &[], b"20.5");
    let datagram = asked.next();
    let notified = Message::decode(&datagram).unwrap();
    assert_eq!((notified.token, notified.payload), (&b"t"[..], &b"20.5"[..]));
    assert!(asked.rig.is_silent(Nanos::from_millis(1200)), "once");
}

#[test]
fn an_answer_that_nobody_asked_for_is_reset() {
    let mut asked = Asked::new("");
    let strange = bytes(Message {
        kind: Kind::Confirmable,
        code: code::CONTENT,
        id: 9,
        token: b"what",
        options: &[],
        payload: b"",
    });
    let reset = asked.rig.ask(asked.device, &strange);
    let reset = Message::decode(&reset).unwrap();
    assert_eq!((reset.kind, reset.id), (Kind::Reset, 9));
    assert_eq!(asked.rig.count(|event| matches!(event, Event::Stray)), 1);
}

#[test]
fn a_message_that_the_server_wants_later_is_told_as_held_back() {
    let mut asked = Asked::new("");
    asked.ask(code::PUT, b"a", "/19/0/0?pmin=1", &[], b"");
    for sequence in 0..2 {
        plimsoll_load::driver::Driver::submit(&mut asked.rig.driver, 0, sequence);
    }
    asked.next();
    let is_told =
        |event: &Event| matches!(event, Event::Incident { reason } if reason.contains("holds them back"));
    asked.rig.until(|rig| rig.count(is_told) == 1);
}
