//! What each role says to a platform, compiled: set-up steps of the controller, requests of devices and queriers,
//! listeners of subscribers.

use super::{CapturedName, Each};
use super::{MarkerForm, Piece, Protocol, Template, TokenPlan, Wire};
use crate::protocols::lwm2m::config::MessageResource;
use plimsoll_model::Nanos;
use std::collections::BTreeMap;

/// What a profile says of the four roles. The default is a platform of plain messages.
#[derive(Clone, Debug, Default)]
pub struct RolePlan {
    /// The mapping that was chosen, where the profile has several.
    pub mapping: Option<String>,
    /// How the controller speaks to the platform.
    pub controller: ControllerRole,
    /// What brings the platform back to its first state, in order.
    pub reset: Vec<StepPlan>,
    /// What fills it, in order.
    pub preload: Vec<StepPlan>,
    /// The access token that stands in requests as `{token}`, where the platform wants one.
    pub token: Option<TokenPlan>,
    /// What the controller does before the run, in order.
    pub set_up: Vec<StepPlan>,
    /// What it does after the run where the scenario asks for it, in order.
    pub clean_up: Vec<StepPlan>,
    /// How a device says a message.
    pub device: DeviceRole,
    /// Where subscribers listen; `None` where they receive as clients of the protocol of the devices.
    pub listener: Option<ListenerRole>,
    /// How subscribers are notified as clients of the broker, of what set-up steps ask for; `None` where they are not.
    pub notified: Option<NotifiedRole>,
    /// Who each subscriber says it is over MQTT; `None` leaves it to the scenario.
    pub subscriber_user: Option<UserPlan>,
    /// What subscribers observe over CoAP; `None` where they do not.
    pub observes: Option<ObservePlan>,
    /// How subscribers receive over connections of their own; `None` where they do not.
    pub receives: Option<ReceiveRole>,
    /// What a querier asks.
    pub query: Option<QueryPlan>,
    /// What answers give to later requests; its position here is its slot in [`Captures`](super::Captures).
    pub captured: Vec<CapturedName>,
    /// What the platform promises to deliver.
    pub delivery: DeliveryContract,
    /// Why that promise may excuse real losses, where nothing shows that the platform gave it; for people.
    pub doubtful_delivery: Option<String>,
}

impl RolePlan {
    /// Whether subscribers receive in a way of their own: as servers, as observers, or over connections of their own. Else they speak
    /// what devices speak.
    pub fn have_receivers(&self) -> bool {
        self.listener.is_some() || self.observes.is_some() || self.receives.is_some()
    }

    /// Whether subscribers themselves ask for what each device sends.
    pub fn asks_for_each_device(&self) -> bool {
        self.observes.as_ref().is_some_and(|observes| observes.of_each_device)
            || self.receives.as_ref().is_some_and(ReceiveRole::is_of_each_device)
    }
}

/// How a device says a message.
#[derive(Clone, Debug, Default)]
pub struct DeviceRole {
    /// What it speaks; `None` leaves it to the platform's address.
    pub protocol: Option<Protocol>,
    /// Of a platform that is started: the name of the port to which devices connect; `None` for that at which it speaks the protocol.
    pub port: Option<String>,
    /// Of a platform that is started: what lies between the protocol and TCP, and the path of the WebSocket.
    pub wire: Wire,
    /// See `wire`.
    pub path: String,
    /// The request of HTTP or CoAP; `None` for a POST of the message to the topic.
    pub request: Option<RequestPlan>,
    /// The requests with which each connection begins.
    pub log_in: Vec<RequestPlan>,
    /// What it answers when it is asked itself; `None` where it serves nothing.
    pub serves: Option<ServePlan>,
    /// What stands around a message; `None` sends the message as it is.
    pub envelope: Option<Template>,
    /// Who each device says it is over MQTT; `None` leaves it to the scenario.
    pub user: Option<UserPlan>,
    /// What is said over a WebSocket beside messages.
    pub websocket: WebSocketRole,
    /// How the platform answers a message by a message of its own, over MQTT or WebSocket.
    pub answer: Option<AnswerPlan>,
    /// The largest content that the platform takes, in bytes; `None` where the profile does not say.
    pub largest: Option<u32>,
    /// The form of the marker that the platform leaves unharmed.
    pub marker: Option<MarkerForm>,
    /// The path of the interface for registrations of LwM2M.
    pub registration: Option<String>,
    /// The resource of messages of LwM2M that the platform passes on unharmed.
    pub(crate) message: Option<MessageResource>,
    /// What the configuration of a gateway must say, by its keys.
    pub configuration: BTreeMap<String, String>,
}

/// Who a client says it is over MQTT.
#[derive(Clone, Debug, PartialEq)]
pub struct UserPlan {
    /// The user name.
    pub name: Template,
    /// The password; `None` for none.
    pub password: Option<Template>,
}

/// How a querier asks.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryPlan {
    /// What queriers speak.
    pub protocol: Protocol,
    /// What is asked. The answer to a message repeats the number of the query, or comes in its order.
    pub ask: Ask,
    /// The requests with which their connections begin, over CoAP over TCP.
    pub log_in: Vec<RequestPlan>,
    /// What they say over WebSocket beside their queries.
    pub websocket: WebSocketRole,
    /// Who they say they are over MQTT; `None` leaves it to the scenario.
    pub user: Option<UserPlan>,
}

/// How the controller speaks to the platform.
#[derive(Clone, Debug, Default)]
pub struct ControllerRole {
    /// What its requests speak.
    pub requests: ControllerProtocol,
    /// What it says over WebSocket before its messages.
    pub websocket: WebSocketRole,
    /// Who it says it is over MQTT; `None` leaves it to the scenario.
    pub user: Option<UserPlan>,
}

/// What the controller's requests speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControllerProtocol {
    /// HTTP/1.1.
    #[default]
    Http,
    /// CoAP over UDP.
    Coap,
    /// CoAP over TCP, over one connection.
    CoapTcp,
}

impl ControllerProtocol {
    /// The protocol.
    pub fn protocol(self) -> Protocol {
        match self {
            ControllerProtocol::Http => Protocol::Http,
            ControllerProtocol::Coap => Protocol::Coap,
            ControllerProtocol::CoapTcp => Protocol::CoapTcp,
        }
    }
}

/// An answer that comes as a message of its own, with JSON in it: how it is known, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerPlan {
    /// Over MQTT: where answers are awaited, by each device or querier or by the controller.
    pub topic: Option<Template>,
    /// What it repeats of the message that it answers; `None` where it answers the oldest that is not answered.
    pub name: Option<AnswerName>,
    /// Which messages are answers, by their types; `None` where all are.
    pub types: Option<AnswerTypes>,
    /// Pointer to the status.
    pub status: Option<String>,
    /// Statuses that mean success; empty for all.
    pub expect: Vec<String>,
}

/// What a client says over a WebSocket without MQTT, beside messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebSocketRole {
    /// Name of the platform's port, where it is not the one that devices speak to.
    pub port: Option<String>,
    /// Path and query of the request, behind the path of the address; `None` for that alone.
    pub path: Option<String>,
    /// The subprotocol that is asked for.
    pub subprotocol: Option<String>,
    /// Header fields of the request.
    pub headers: Vec<(String, Template)>,
    /// Whether messages are compressed.
    pub is_compressed: bool,
    /// How messages are framed as events of Socket.IO; `None` where each goes as it is.
    pub socket_io: Option<SocketIoPlan>,
    /// Messages with which each connection begins, in order.
    pub opening: Vec<OpeningPlan>,
    /// Whether the platform answers no message.
    pub is_unanswered: bool,
}

/// How a client speaks Socket.IO.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketIoPlan {
    /// What lets it in, as JSON; empty for nothing.
    pub auth: Template,
    /// Whether it asks for an acknowledgement of each message.
    pub acknowledges: bool,
}

/// A message with which a WebSocket begins.
#[derive(Clone, Debug, PartialEq)]
pub struct OpeningPlan {
    /// What is said.
    pub message: Template,
    /// Whether it is about one device, so that a subscriber says it for each that it follows.
    pub of_each_device: bool,
    /// How its answer is known; `None` where none is awaited. A name in it is the whole name.
    pub answer: Option<AnswerPlan>,
}

/// How subscribers receive over connections of their own.
#[derive(Clone, Debug, PartialEq)]
pub enum ReceiveRole {
    /// Each has a WebSocket.
    WebSocket(WebSocketRole),
    /// Each makes requests over HTTP.
    Http(HttpReceiveRole),
}

impl ReceiveRole {
    /// Name of the platform's port, where it is not the one that devices speak to.
    pub fn port(&self) -> Option<&str> {
        match self {
            ReceiveRole::WebSocket(role) => role.port.as_deref(),
            ReceiveRole::Http(role) => role.request.port.as_deref(),
        }
    }

    /// Whether it is said for each device that a subscriber follows.
    pub fn is_of_each_device(&self) -> bool {
        match self {
            ReceiveRole::WebSocket(role) => role.opening.iter().any(|said| said.of_each_device),
            ReceiveRole::Http(role) => role.of_each_device,
        }
    }
}

/// What subscribers ask for over HTTP, to receive in the answers.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpReceiveRole {
    /// The request.
    pub request: RequestPlan,
    /// Whether it is about one device, so that a subscriber asks for each that it follows, over a connection each.
    pub of_each_device: bool,
    /// How it is asked again and again; `None` where one answer does not end.
    pub polls: Option<PollPlan>,
    /// How long after its request a subscriber of a stream is ready without the head of the answer; `None` where the head has to come.
    pub ready_after: Option<Nanos>,
}

impl HttpReceiveRole {
    /// Path and query of later requests, where these are others.
    pub fn next_path(&self) -> Option<&Template> {
        self.polls.as_ref()?.next.as_ref().map(|next| &next.path)
    }
}

/// How subscribers poll.
#[derive(Clone, Debug, PartialEq)]
pub struct PollPlan {
    /// How later requests go on where the last answer ended; `None` where each is the same.
    pub next: Option<NextPollPlan>,
    /// How long an answer may take.
    pub within: Nanos,
}

/// How a poll goes on where the last answer ended.
#[derive(Clone, Debug, PartialEq)]
pub struct NextPollPlan {
    /// Path and query, with `{since}`.
    pub path: Template,
    /// Where in an answer that stands, as a JSON pointer in which `-` is the last of an array and `*` the greatest, or either what stands
    /// there alone.
    pub since: String,
    /// What is added to that date and time; zero where the platform does not repeat what came then.
    pub plus: Nanos,
}

/// The name of a message, which its answer repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerName {
    /// Pointer (RFC 6901) to it in the answer.
    pub pointer: String,
    /// What it begins with; the rest of it is the sequence.
    pub prefix: Template,
}

/// The types of a platform's messages that answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerTypes {
    /// Pointer (RFC 6901) to the type.
    pub pointer: String,
    /// Those that answer.
    pub answers: Vec<String>,
    /// Those that refuse.
    pub refusals: Vec<String>,
}

/// A step of the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPlan {
    /// Its name, for progress and errors.
    pub name: String,
    /// How often it is done.
    pub each: Each,
    /// What is asked.
    pub ask: Ask,
    /// What is kept of the answers.
    pub captures: Vec<Capture>,
    /// Whether it is done again on each new connection of the controller.
    pub logs_in: bool,
}

/// What the controller or a querier asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// A request, of HTTP or CoAP.
    Request(RequestPlan),
    /// A message, over MQTT or WebSocket.
    Message(SaidPlan),
}

impl Ask {
    /// Name of the platform's port, where it is not the one that is asked by itself.
    pub fn port(&self) -> Option<&str> {
        match self {
            Ask::Request(request) => request.port.as_deref(),
            Ask::Message(message) => message.port.as_deref(),
        }
    }

    /// What variables may stand in.
    pub fn texts(&self) -> Vec<&Template> {
        match self {
            Ask::Request(request) => request.texts().collect(),
            Ask::Message(message) => message.topic.iter().chain([&message.message]).collect(),
        }
    }

    /// The message, where it is one.
    pub fn said(&self) -> Option<&SaidPlan> {
        match self {
            Ask::Request(_) => None,
            Ask::Message(said) => Some(said),
        }
    }

    /// The request, where it is one.
    pub fn request(&self) -> Option<&RequestPlan> {
        match self {
            Ask::Request(request) => Some(request),
            Ask::Message(_) => None,
        }
    }
}

/// A message that the platform answers by a message of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SaidPlan {
    /// Name of the platform's port, where it is not the one that devices speak to.
    pub port: Option<String>,
    /// Where it is published over MQTT; `None` where it goes over WebSocket.
    pub topic: Option<Template>,
    /// What is said.
    pub message: Template,
    /// How its answer is known; `None` where none is awaited.
    pub answer: Option<AnswerPlan>,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestPlan {
    /// Name of the platform's port, where it is not the one that devices speak to.
    pub port: Option<String>,
    /// The method, such as `POST`.
    pub method: String,
    /// Path and query.
    pub path: Template,
    /// Header fields of HTTP.
    pub headers: Vec<(String, Template)>,
    /// Options of CoAP beside path and query, in the order of their numbers.
    pub options: Vec<OptionPlan>,
    /// The body; empty for none. A device's is the message in its envelope instead.
    pub body: Template,
    /// Status codes that mean success; empty for any of 200 to 299. CoAP's are class and detail together: 2.04 is 204.
    pub expect: Vec<u16>,
    /// Status codes after which the same request is sent again, after a pause.
    pub retry: Vec<u16>,
    /// Whether a request whose connection was lost before its answer is sent again, too.
    pub retry_lost: bool,
}

impl RequestPlan {
    /// A POST of a message as it is.
    pub fn post(path: Template) -> RequestPlan {
        let content_type = Template { pieces: vec![Piece::Text("application/octet-stream".into())] };
        RequestPlan {
            port: None,
            method: "POST".into(),
            path,
            headers: vec![("Content-Type".into(), content_type)],
            options: Vec::new(),
            body: Template { pieces: Vec::new() },
            expect: Vec::new(),
            retry: Vec::new(),
            retry_lost: false,
        }
    }

    /// What variables may stand in: path, header fields and body.
    pub fn texts(&self) -> impl Iterator<Item = &Template> {
        let headers = self.headers.iter().map(|(_, value)| value);
        [&self.path, &self.body].into_iter().chain(headers)
    }

    /// Whether a status means success.
    pub fn is_success(&self, status: u16) -> bool {
        if self.expect.is_empty() { (200..300).contains(&status) } else { self.expect.contains(&status) }
    }
}

/// An option of a CoAP request.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionPlan {
    /// Its number.
    pub number: u16,
    /// Its value.
    pub value: OptionValue,
}

/// The value of a CoAP option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A whole number, in as few bytes as it needs.
    Number(u32),
    /// A text.
    Text(Template),
}

/// A resource of CoAP that subscribers observe (RFC 7641).
#[derive(Clone, Debug)]
pub struct ObservePlan {
    /// Name of the platform's port, where it is not the one that devices speak to.
    pub port: Option<String>,
    /// Path and query.
    pub path: Template,
    /// Further options, in the order of their numbers.
    pub options: Vec<OptionPlan>,
    /// Whether each device has its own.
    pub of_each_device: bool,
    /// The requests with which a connection begins, where there is one.
    pub log_in: Vec<RequestPlan>,
}

/// A resource of CoAP that a device has.
#[derive(Clone, Debug, PartialEq)]
pub struct ServePlan {
    /// Its path.
    pub path: Template,
    /// Options of the answer, in the order of their numbers.
    pub options: Vec<OptionPlan>,
    /// What it answers.
    pub body: Template,
}

/// A value taken out of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Where it goes: a position in [`RolePlan::captured`].
    pub slot: usize,
    /// Where it stands.
    pub from: CaptureFrom,
}

/// Where in an answer a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureFrom {
    /// In the body, JSON or CBOR, by pointer (RFC 6901).
    Pointer(String),
    /// A header field.
    Header(String),
    /// The last part of the path that the Location field names.
    LocationEnd,
}

/// Where subscribers listen, and what they answer.
#[derive(Clone, Debug)]
pub struct ListenerRole {
    /// What they speak.
    pub protocol: Protocol,
    /// The status that they answer with.
    pub status: u16,
    /// Header fields of their answers, over HTTP.
    pub headers: Vec<(String, String)>,
    /// Options of their answers over CoAP, by number, as bytes.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// Subscribers that are notified over MQTT of what set-up steps ask for, at their own filters.
#[derive(Clone, Debug)]
pub struct NotifiedRole {
    /// How they answer; `None` where no answer is wanted.
    pub answer: Option<NotificationAnswerPlan>,
}

/// How a subscriber answers a notification over MQTT.
#[derive(Clone, Debug)]
pub struct NotificationAnswerPlan {
    /// Where it publishes the answer, with `{run}` and `{subscriber}`.
    pub topic: Template,
    /// What it publishes, with `{id}` beside them.
    pub payload: Template,
    /// Pointer (RFC 6901) to the name of the notification.
    pub id: String,
}

/// What a platform promises to deliver of the messages of one device. What it does not deliver within its promise is
/// superseded, not lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryContract {
    /// Every message.
    #[default]
    Every,
    /// The newest message, as the profile says by itself: an older one may be left out where a newer one came within the time
    /// that a delivery may take.
    Latest,
    /// The newest state of what is observed (RFC 7641): an older one may be left out where a newer one came at all.
    Observed,
    /// The newest message, and to each subscriber at most one notification within this time: what falls into the silence
    /// around one may be left out, whichever device it is of.
    Throttled(Nanos),
}
