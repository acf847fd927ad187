//! From what a profile says of the roles to what they send: variables filled in, templates compiled.

mod answers;
mod delivery;
mod queries;
mod receives;
mod secrets;
mod steps;
pub(crate) mod token;
mod users;
mod websocket;

use crate::plan::{
    CapturedName, DeviceRole, ListenerRole, MarkerForm, NotificationAnswerPlan, NotifiedRole, ObservePlan,
    OptionPlan, OptionValue, Piece, Protocol, RequestPlan, RolePlan, ServePlan, Template,
};
use crate::profiles::roles::{
    BodyFormat, Device, Listens, MarkerConfig, OptionConfig, Over, Request, Roles, Serves, Speaks, Subscriber,
};
use plimsoll_codec::cbor;
use plimsoll_codec::coap::option;
use plimsoll_template::Names;
use std::collections::BTreeMap;

/// Something wrong in the roles of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoleError {
    /// Where, from the roles on: `device.request.body`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
}

const OBSERVE: &[&str] = &["run", "device", "subscriber"];
/// What connections of devices, of subscribers, and of the controller and queriers begin with, and what devices answer.
const OF_DEVICE: &[&str] = &["run", "device", "random", "time"];
const OF_SUBSCRIBER: &[&str] = &["run", "subscriber", "random", "time"];
const OF_ALL: &[&str] = &["run", "random", "time"];
/// What is wrong where one connection has something of a device, and what to do.
const ABOUT_ONE: &str = "there is one connection for all devices";
const HELP_ABOUT_ONE: &str = "let a step that is done once capture it";
const MESSAGE: &[&str] = &["run", "device", "sequence", "marker", "time", "random", "feed", "message"];
const TOKEN: &str = "token";
const QUERY: &[&str] = &["run", "device", "random", "feed", "time"];

/// What compiling needs to know.
pub(crate) struct Compiler<'a> {
    /// Variables of the profile with their values.
    pub variables: &'a BTreeMap<String, String>,
    /// Whether `{token}` is the access token; it takes the place of a variable of that name.
    pub token: bool,
    /// Columns of the scenario's feed; `None` takes any.
    pub columns: Option<&'a [String]>,
    /// What the platform's address says is spoken there; `None` where no scenario says an address.
    pub address: Option<Protocol>,
    /// What was found to be wrong.
    pub errors: Vec<RoleError>,
}

impl Compiler<'_> {
    /// Compiles the roles. Where something is wrong, it is among the errors, and the result is of no use.
    pub fn roles(&mut self, roles: &Roles) -> RolePlan {
        let mut plan = RolePlan::default();
        let of_devices = roles.device.as_ref().map(|device| self.spoken(device.speaks)).or(self.address);
        if let Some(controller) = &roles.controller {
            self.controller(controller, &mut plan);
        }
        if let Some(device) = &roles.device {
            plan.device = self.device(device, &plan.captured);
        }
        if let Some(subscriber) = &roles.subscriber {
            plan.listener = self.listener(subscriber);
            plan.notified = self.notified(subscriber, roles.device.as_ref());
            plan.receives = self.receives(subscriber, &plan.captured);
            if let Some(observes) = &subscriber.observes {
                let (path, options) = (observes.path.clone(), observes.options.clone());
                let request = Request { path, options, ..Request::get() };
                let request = (&request, Protocol::Coap);
                let request = self.request(request, OBSERVE, "subscriber.observes", &plan.captured);
                let of_each_device = request.path.pieces.contains(&Piece::Device);
                let whose = ("subscriber.log_in", OF_SUBSCRIBER, of_devices);
                let log_in = self.log_in(&subscriber.log_in, whose, &plan.captured);
                let RequestPlan { path, options, .. } = request;
                let port = observes.port.clone();
                plan.observes = Some(ObservePlan { port, path, options, of_each_device, log_in });
            } else if !subscriber.log_in.is_empty() {
                let help = "write `observes`, too, or remove it".to_owned();
                self.error(
                    "subscriber.log_in",
                    "only subscribers that observe have a connection for it",
                    help,
                );
            }
            plan.subscriber_user = self.user_of_subscribers(subscriber, of_devices, &plan);
            (plan.delivery, plan.doubtful_delivery) = self.delivery(subscriber, roles.controller.as_ref());
        }
        if let Some(querier) = &roles.querier {
            plan.query = Some(self.query(querier, of_devices, &plan.captured));
        }
        for slot in secrets::slots(&plan) {
            if let Some(captured) = plan.captured.get_mut(slot) {
                captured.secret = true;
            }
        }
        plan
    }

    /// What a profile says of CoAP holds over TCP, too: the platform's address says which it is.
    fn spoken(&self, Speaks(protocol): Speaks) -> Protocol {
        match (protocol, self.address) {
            (Protocol::Coap, Some(Protocol::CoapTcp)) => Protocol::CoapTcp,
            _ => protocol,
        }
    }

    /// How subscribers listen as servers of their own.
    fn listener(&mut self, subscriber: &Subscriber) -> Option<ListenerRole> {
        let (protocol, usual) = match subscriber.listens? {
            Listens::Http => (Protocol::Http, 200),
            Listens::Coap => (Protocol::Coap, 204),
            Listens::Mqtt => return None,
        };
        let status = subscriber.status.unwrap_or(usual);
        if protocol == Protocol::Coap && plimsoll_codec::coap::code::of_status(status).is_none() {
            let message = format!("CoAP has no response code {status}");
            let help = "write class and detail together: 2.04 is 204".to_owned();
            self.error("subscriber.status", message, help);
        }
        let headers = subscriber.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), self.fill(value))).collect();
        Some(ListenerRole { protocol, status, headers, options: self.answer_options(&subscriber.options) })
    }

    /// How subscribers are notified as clients of the devices' broker.
    fn notified(&mut self, subscriber: &Subscriber, device: Option<&Device>) -> Option<NotifiedRole> {
        if subscriber.listens != Some(Listens::Mqtt) {
            if subscriber.answer.is_some() {
                let help = "write `listens: mqtt` too, or remove it".to_owned();
                self.error(
                    "subscriber.answer",
                    "only notifications over MQTT are answered by a message",
                    help,
                );
            }
            return None;
        }
        if device.is_none_or(|device| device.speaks != Speaks(Protocol::Mqtt)) {
            let help = "let devices speak MQTT too, or listen over HTTP or CoAP".to_owned();
            self.error(
                "subscriber.listens",
                "notifications over MQTT come by the broker of the devices",
                help,
            );
        }
        if subscriber.filters.is_empty() {
            let help = "write the filters at which they come, such as `notify/{run}/{subscriber}`".to_owned();
            self.error(
                "subscriber.filters",
                "notifications over MQTT come to topics, and none is named",
                help,
            );
        }
        let answer = subscriber.answer.as_ref().map(|answer| {
            const PATH: &str = "subscriber.answer";
            if !answer.id.starts_with('/') {
                self.error(&format!("{PATH}.id"), "a JSON pointer begins with a slash", String::new());
            }
            let mut compiled = |key: &str, text: &str, names: &[&str]| {
                Template::compile(&self.fill(text), names).unwrap_or_else(|error| {
                    self.error(&format!("{PATH}.{key}"), error.message, error.help);
                    Template { pieces: Vec::new() }
                })
            };
            let topic = compiled("topic", &answer.topic, &["run", "subscriber"]);
            let payload = compiled("payload", &answer.payload, &["run", "subscriber", "id"]);
            NotificationAnswerPlan { topic, payload, id: answer.id.clone() }
        });
        Some(NotifiedRole { answer })
    }

    /// A text with the profile's variables filled in.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        let is_token = |name: &str| self.token && name == TOKEN;
        for (name, value) in self.variables.iter().filter(|(name, _)| !is_token(name)) {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        filled
    }

    /// The options of answers, which have no variables but the profile's.
    fn answer_options(&mut self, written: &BTreeMap<String, OptionConfig>) -> Vec<(u16, Vec<u8>)> {
        let mut options = Vec::new();
        for (number, value) in written {
            let Ok(number) = number.parse() else {
                let at = format!("subscriber.options.{number}");
                self.error(&at, format!("`{number}` is no option number"), "0 to 65535".into());
                continue;
            };
            let value = match value {
                OptionConfig::Number(number) => {
                    let zeros = number.leading_zeros() as usize / 8;
                    number.to_be_bytes().get(zeros..).unwrap_or_default().to_vec()
                }
                OptionConfig::Text(text) => self.fill(text).into_bytes(),
            };
            options.push((number, value));
        }
        options
    }

    fn device(&mut self, device: &Device, captured: &[CapturedName]) -> DeviceRole {
        let protocol = self.spoken(device.speaks);
        let has_requests = !protocol.has_topics() && protocol != Protocol::WebSocket;
        if device.request.is_some() && !has_requests {
            let help = "write `payload`".to_owned();
            self.error("device.request", format!("{protocol} has no requests"), help);
        }
        if device.payload.is_some() && has_requests {
            let help = "write `request` with a path and a body".to_owned();
            self.error("device.payload", "it is for devices that send no requests", help);
        }
        if device.topic.is_some() && !protocol.has_topics() {
            self.error("device.topic", format!("messages have no topic over {protocol}"), "remove it".into());
        }
        let (body, at) = match &device.request {
            Some(request) => (request.body.as_ref(), "device.request.body"),
            None => (device.payload.as_ref(), "device.payload"),
        };
        let format = device.request.as_ref().map(|request| request.body_format).unwrap_or_default();
        let errors = self.errors.len();
        let envelope = body.map(|text| self.body(text, format, MESSAGE, at, captured));
        let is_compiled = self.errors.len() == errors;
        let says_it =
            |template: &Template| template.has(&|piece| matches!(piece, Piece::Message(_) | Piece::Marker));
        if is_compiled && envelope.as_ref().is_some_and(|envelope| !says_it(envelope)) {
            let help = "without it Plimsoll cannot match a delivery to its message".to_owned();
            self.error(at, "neither `{message}` nor `{marker}` stands in it", help);
        }
        let marker = device.marker.map(|marker| match marker {
            MarkerConfig::Binary => MarkerForm::Binary,
            MarkerConfig::Ascii => MarkerForm::Ascii,
            MarkerConfig::Integer => MarkerForm::Integer,
        });
        let request = device.request.as_ref().map(|request| {
            let request = Request { body: None, ..request.clone() };
            let request = self.request((&request, protocol), MESSAGE, "device.request", captured);
            let wrong = crate::protocols::coap::wrong_in(&request)
                .filter(|_| matches!(protocol, Protocol::Coap | Protocol::CoapTcp));
            if let Some((at, message, help)) = wrong {
                self.error(&format!("device.request.{at}"), message, help);
            }
            request
        });
        let websocket = self.websocket_of_device(device, protocol, captured);
        if websocket.socket_io.is_some() {
            let payload = envelope.clone().unwrap_or(Template { pieces: Vec::new() });
            self.check_event(&payload, "device.payload");
            if !matches!(device.marker, Some(MarkerConfig::Ascii | MarkerConfig::Integer)) {
                let help = "write `marker: ascii`".to_owned();
                self.error("device.marker", "an event of Socket.IO is a text", help);
            }
        }
        let are_awaited = !websocket.is_unanswered;
        let answer = device
            .answer
            .as_ref()
            .and_then(|answer| self.answer(answer, ("device.answer", protocol), are_awaited));
        let whose = ("device.log_in", OF_DEVICE, Some(protocol));
        let log_in = self.log_in(&device.log_in, whose, captured);
        DeviceRole {
            protocol: Some(protocol),
            port: device.port.clone(),
            wire: device.over.map(Over::wire).unwrap_or_default(),
            path: device.path.clone().unwrap_or_else(|| "/".to_owned()),
            request,
            log_in,
            user: self.user_of_devices(device, protocol, captured),
            serves: device.serves.as_ref().map(|serves| self.serves(serves, protocol, captured)),
            envelope,
            websocket,
            answer,
            largest: device.largest.as_ref().map(|largest| largest.0.0),
            marker,
            registration: device.registration.as_ref().map(|path| self.fill(path)),
            message: device.message.clone(),
            configuration: device
                .configuration
                .iter()
                .map(|(key, value)| (key.clone(), self.fill(value)))
                .collect(),
        }
    }

    /// What a device answers.
    fn serves(&mut self, serves: &Serves, protocol: Protocol, captured: &[CapturedName]) -> ServePlan {
        if protocol != Protocol::CoapTcp {
            let help = "remove it, or let devices speak `coap_tcp`".to_owned();
            self.error(
                "device.serves",
                "only devices of CoAP over TCP are asked over their connection",
                help,
            );
        }
        let Serves { path, body, body_format } = serves.clone();
        let request = Request { path, body: Some(body), body_format, ..Request::get() };
        let request = (&request, Protocol::CoapTcp);
        let RequestPlan { path, options, body, .. } =
            self.request(request, OF_DEVICE, "device.serves", captured);
        ServePlan { path, options, body }
    }

    /// The requests with which a connection begins.
    fn log_in(
        &mut self,
        requests: &[Request],
        (path, variables, protocol): (&str, &[&str], Option<Protocol>),
        captured: &[CapturedName],
    ) -> Vec<RequestPlan> {
        if !requests.is_empty() && protocol != Some(Protocol::CoapTcp) {
            let help = "remove it, or let devices speak `coap_tcp`".to_owned();
            self.error(path, "only connections of CoAP over TCP begin with requests", help);
        }
        let mut plans = Vec::new();
        for (position, request) in requests.iter().enumerate() {
            let path = format!("{path}.{position}");
            let plan = self.request((request, Protocol::CoapTcp), variables, &path, captured);
            if let Some((at, message, help)) = crate::protocols::coap::wrong_in(&plan) {
                self.error(&format!("{path}.{at}"), message, help);
            }
            plans.push(plan);
        }
        plans
    }

    fn request(
        &mut self,
        (request, protocol): (&Request, Protocol),
        variables: &[&str],
        path: &str,
        captured: &[CapturedName],
    ) -> RequestPlan {
        let target = self.template(&request.path, variables, &format!("{path}.path"), captured);
        if !self.fill(&request.path).starts_with('/') {
            self.error(&format!("{path}.path"), "a path begins with a slash", String::new());
        }
        if has(&target, |c| c.is_control() || c == ' ') {
            let help = "write `%20` for a blank; look at the values of variables, too";
            self.error(&format!("{path}.path"), "a path has no blank and no end of line in it", help.into());
        }
        let mut headers = self.headers(&request.headers, variables, path, captured);
        let mut options = Vec::new();
        for (number, value) in &request.options {
            let at = format!("{path}.options.{number}");
            let Ok(number) = number.parse() else {
                self.error(&at, format!("`{number}` is no option number"), "0 to 65535".into());
                continue;
            };
            let value = match value {
                OptionConfig::Number(number) => OptionValue::Number(*number),
                OptionConfig::Text(text) => OptionValue::Text(self.template(text, variables, &at, captured)),
            };
            options.push(OptionPlan { number, value });
        }
        if request.body_format == BodyFormat::Cbor {
            let is_http = protocol == Protocol::Http;
            if !is_http && !options.iter().any(|option: &OptionPlan| option.number == option::CONTENT_FORMAT)
            {
                let value = OptionValue::Number(cbor::CONTENT_FORMAT);
                options.push(OptionPlan { number: option::CONTENT_FORMAT, value });
            }
            if is_http && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                let value = Template { pieces: vec![Piece::Text("application/cbor".into())] };
                headers.push(("Content-Type".into(), value));
            }
        }
        options.sort_by_key(|option| option.number);
        let body = match request.body.as_deref() {
            None => Template { pieces: Vec::new() },
            Some(body) => self.body(body, request.body_format, variables, &format!("{path}.body"), captured),
        };
        RequestPlan {
            port: request.port.clone(),
            method: request.method.clone(),
            path: target,
            headers,
            options,
            body,
            expect: request.expect.clone(),
            retry: request.retry.clone(),
            retry_lost: request.retry_lost,
        }
    }

    /// Header fields of a request.
    fn headers(
        &mut self,
        written: &BTreeMap<String, String>,
        variables: &[&str],
        path: &str,
        captured: &[CapturedName],
    ) -> Vec<(String, Template)> {
        let mut headers = Vec::new();
        for (name, value) in written {
            let at = format!("{path}.headers.{name}");
            if !is_http_token(name) || self.fill(value).contains(['\r', '\n', '\0']) {
                let help = "names have no blanks, values stand on one line".to_owned();
                self.error(&at, format!("`{name}: {value}` is no header field"), help);
            }
            if ["host", "content-length", "transfer-encoding", "connection"]
                .contains(&name.to_ascii_lowercase().as_str())
            {
                self.error(&at, format!("`{name}` is added by itself"), "remove it".into());
            }
            // A variable that a scenario leaves empty: there is nothing to say.
            if !self.fill(value).is_empty() {
                let value = self.template(value, variables, &at, captured);
                // It would be another header, or the end of all of them.
                if has(&value, char::is_control) {
                    let help = "look at the values of variables, too";
                    self.error(&at, "a header has no end of line in it", help.into());
                }
                headers.push((name.clone(), value));
            }
        }
        headers
    }

    fn template(&mut self, text: &str, built_in: &[&str], path: &str, captured: &[CapturedName]) -> Template {
        self.body(text, BodyFormat::Text, built_in, path, captured)
    }

    fn body(
        &mut self,
        text: &str,
        format: BodyFormat,
        built_in: &[&str],
        path: &str,
        captured: &[CapturedName],
    ) -> Template {
        let captured: Vec<&str> = captured.iter().map(|known| known.name.as_str()).collect();
        let token = self.token.then_some(TOKEN);
        let built_in: Vec<&str> = built_in.iter().copied().chain(token).collect();
        let names = Names { built_in: &built_in, captured: &captured, columns: self.columns };
        let filled = self.fill(text);
        let compiled = match format {
            BodyFormat::Text => Template::compile_with(&filled, &names),
            BodyFormat::Cbor => plimsoll_template::cbor::compile(&filled, &names),
        };
        match compiled {
            Ok(template) => template,
            Err(error) => {
                self.error(path, error.message, error.help);
                Template { pieces: Vec::new() }
            }
        }
    }

    pub(super) fn error(&mut self, path: &str, message: impl Into<String>, help: String) {
        self.errors.push(RoleError { path: path.to_owned(), message: message.into(), help });
    }
}

/// Whether a text is a token, as names of header fields and of subprotocols are (RFC 9110 section 5.6.2).
fn is_http_token(text: &str) -> bool {
    let is_of_tokens = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_tokens)
}

/// Whether the text of a template has such a character.
fn has(template: &Template, is_such: impl Fn(char) -> bool) -> bool {
    let texts = template.pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text),
        _ => None,
    });
    texts.flat_map(|text| text.chars()).any(is_such)
}
