//! What the controller asks, as it goes out.

use super::messages::{Awaited, Door, Said};
use super::{Scene, Whom, http};
use plimsoll_codec::coap::OptionList;
use plimsoll_load::clock::wall_nanos;
use plimsoll_scenario::plan::{
    AnswerPlan, Ask, Captures, ControllerProtocol, OptionValue, RequestPlan, SaidPlan, Template, Variables,
};
use plimsoll_stats::distribution::{Random, random};
use std::net::SocketAddr;

/// Distinguishes the random numbers of set-up steps from others.
const STREAM: u64 = 0x7365_7475_7000_0000;

/// What a step asks, as it goes out.
pub(super) enum Written<'a> {
    /// A request, as it is planned and as it is sent.
    Request(&'a RequestPlan, Rendered),
    /// A message, and what is said at first over a new connection.
    Message(Box<(Said, Door)>),
}

impl Written<'_> {
    /// What is asked, and where, for people.
    pub fn asked(&self) -> String {
        match self {
            Written::Request(request, written) => format!("{} {}", request.method, written.url),
            Written::Message(message) => format!("the message to {}", message.0.place),
        }
    }
}

/// A request as it goes out.
#[derive(Clone)]
pub(crate) struct Rendered {
    /// The whole address, for HTTP and for people.
    pub url: String,
    /// Path and query, for CoAP.
    pub path: String,
    /// Header fields of HTTP.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Options of CoAP beside path and query.
    pub options: OptionList,
    /// The body.
    pub body: Vec<u8>,
}

/// Writes what a step asks about somebody.
pub(super) fn write<'a>(
    ask: &'a Ask,
    scene: &Scene<'_>,
    token: &str,
    address: SocketAddr,
    captures: &Captures,
    whom: Whom,
) -> Written<'a> {
    let (run, listener) = (scene.run.to_string(), (scene.listener)(whom.subscriber));
    let Whom { device, subscriber, item } = whom;
    let variables = Variables {
        run: &run,
        device,
        subscriber,
        item,
        listener: &listener,
        token,
        captures: Some(captures),
        feed: scene.plan.message.feed.as_deref(),
        time_ms: (wall_nanos() / 1_000_000) as u64,
        ..Variables::default()
    };
    let name = [STREAM, u64::from(device), u64::from(subscriber), u64::from(item)];
    let mut pen = Pen { variables, numbers: random(scene.plan.seed, &name) };
    match ask {
        Ask::Request(request) => Written::Request(request, pen.request(request, scene, address)),
        Ask::Message(said) => {
            let place = match &said.topic {
                Some(topic) => format!("mqtt://{address} at `{}`", pen.text(topic)),
                None => format!("ws://{address}"),
            };
            let message = (pen.said(said, place), pen.door(scene, address));
            Written::Message(Box::new(message))
        }
    }
}

/// Fills in what variables stand for.
struct Pen<'a> {
    variables: Variables<'a>,
    numbers: Random,
}

impl Pen<'_> {
    fn bytes(&mut self, template: &Template) -> Vec<u8> {
        let (numbers, mut out) = (&mut self.numbers, Vec::new());
        template.render(&self.variables, &mut || numbers.bits(), &mut out);
        out
    }

    fn text(&mut self, template: &Template) -> String {
        String::from_utf8_lossy(&self.bytes(template)).into_owned()
    }

    fn request(&mut self, request: &RequestPlan, scene: &Scene<'_>, address: SocketAddr) -> Rendered {
        let plan = scene.plan;
        let path = self.text(&request.path);
        let base = plan.platform.address.as_ref().map(|endpoint| endpoint.path.trim_end_matches('/'));
        let base = base.unwrap_or_default();
        let (url, base) = match plan.platform.roles.controller.requests {
            ControllerProtocol::Http => (format!("{}{path}", http::origin(plan, address)), ""),
            ControllerProtocol::Coap => (format!("coap://{address}{base}{path}"), base),
            ControllerProtocol::CoapTcp => {
                let scheme = if plan.connection.transport.tls.is_some() { "coaps+tcp" } else { "coap+tcp" };
                (format!("{scheme}://{address}{base}{path}"), base)
            }
        };
        let mut options = OptionList::new();
        for option in &request.options {
            match &option.value {
                OptionValue::Number(number) => options.add_number(option.number, *number),
                OptionValue::Text(text) => options.add(option.number, &self.bytes(text)),
            }
        }
        Rendered {
            url,
            path: format!("{base}{path}"),
            headers: request.headers.iter().map(|(name, value)| (name.clone(), self.bytes(value))).collect(),
            options,
            body: self.bytes(&request.body),
        }
    }

    fn said(&mut self, said: &SaidPlan, place: String) -> Said {
        Said {
            place,
            topic: said.topic.as_ref().map(|topic| self.text(topic)),
            content: self.bytes(&said.message),
            answer: said.answer.as_ref().map(|answer| self.awaited(answer)),
        }
    }

    fn awaited(&mut self, plan: &AnswerPlan) -> Awaited {
        Awaited {
            topic: plan.topic.as_ref().map(|topic| self.text(topic)).unwrap_or_default(),
            name: plan.name.as_ref().map(|name| self.bytes(&name.prefix)).unwrap_or_default(),
            plan: plan.clone(),
        }
    }

    fn door(&mut self, scene: &Scene<'_>, address: SocketAddr) -> Door {
        let role = &scene.plan.platform.roles.controller;
        let header = |(name, value): &(String, Template)| {
            // What was captured may have the end of a line in it.
            let value = self.text(value).replace(|c: char| c.is_control(), " ");
            format!("{name}: {value}\r\n")
        };
        let headers = role.websocket.headers.iter().map(header).collect();
        let opening = role.websocket.opening.iter().map(|said| Said {
            place: format!("ws://{address}"),
            topic: None,
            content: self.bytes(&said.message),
            answer: said.answer.as_ref().map(|answer| self.awaited(answer)),
        });
        let opening = opening.collect();
        let user = role.user.as_ref();
        Door {
            headers,
            opening,
            auth: role.websocket.socket_io.as_ref().map(|socket_io| self.bytes(&socket_io.auth)),
            user: user.map(|user| {
                (self.text(&user.name), user.password.as_ref().map(|password| self.bytes(password)))
            }),
        }
    }
}
