//! What a profile says of the four roles, as written: controller, device, subscriber, querier.

use crate::plan::Protocol;
use crate::protocols::lwm2m::config::MessageResource;
use crate::quantity::{AsText, Size};
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;

/// How each role speaks to the platform. In every text, `{NAME}` stands for a variable of the profile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Roles {
    /// What registers devices and subscriptions before the run.
    #[serde(default)]
    pub(crate) controller: Option<Controller>,
    /// What a device says.
    #[serde(default)]
    pub(crate) device: Option<Device>,
    /// How a subscriber receives.
    #[serde(default)]
    pub(crate) subscriber: Option<Subscriber>,
    /// What a querier asks.
    #[serde(default)]
    pub(crate) querier: Option<Querier>,
}

impl Roles {
    /// These, with those of a profile for what they do not say.
    pub(crate) fn or(self, profile: &Roles) -> Roles {
        // A mapping that registers in a way of its own is reset and filled like all others, unless it says how.
        let controller = match (self.controller, profile.controller.clone()) {
            (Some(mut own), Some(common)) => {
                own.reset = if own.reset.is_empty() { common.reset } else { own.reset };
                own.preload = if own.preload.is_empty() { common.preload } else { own.preload };
                Some(own)
            }
            (own, common) => own.or(common),
        };
        Roles {
            controller,
            device: self.device.or_else(|| profile.device.clone()),
            subscriber: self.subscriber.or_else(|| profile.subscriber.clone()),
            querier: self.querier.or_else(|| profile.querier.clone()),
        }
    }

    /// Whether they have a role of that name.
    pub(crate) fn has(&self, role: &str) -> bool {
        match role {
            "controller" => self.controller.is_some(),
            "device" => self.device.is_some(),
            "subscriber" => self.subscriber.is_some(),
            "querier" => self.querier.is_some(),
            _ => false,
        }
    }
}

/// What registers devices and subscriptions before the run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Controller {
    /// What its requests speak: `http`, or `coap_tcp`, by which they share one connection, one after the other. Default `http`.
    #[serde(default = "http")]
    pub speaks: Speaks,
    /// What brings a platform that runs already back to its first state, in order, where the scenario asks for it.
    #[serde(default)]
    pub reset: Vec<Step>,
    /// What fills the platform before the run, in order, where the scenario asks for it: a step with `each: item` is done
    /// as often as `platform.preload` says.
    #[serde(default)]
    pub preload: Vec<Step>,
    /// What is done before the run, in order. Make steps idempotent: a platform that has something already
    /// says so with a status that `expect` lists.
    #[serde(default)]
    pub set_up: Vec<Step>,
    /// What undoes it after the run, in order, where the scenario asks for it.
    #[serde(default)]
    pub clean_up: Vec<Step>,
}

fn http() -> Speaks {
    Speaks(Protocol::Http)
}

/// A request of the controller.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// Its name, for progress and errors.
    pub name: String,
    /// How often it is done: once, for each device, for each subscriber, for each pair of both, or for each item.
    #[serde(default)]
    pub each: EachConfig,
    /// What is asked. Variables: `{run}`, `{device}`, `{subscriber}`, `{listener}` (where the subscriber listens),
    /// `{feed:COLUMN}`, and what earlier steps captured.
    pub request: Request,
    /// Values taken out of the answer, by name: `/json/pointer`, which is for CBOR, too, `header:NAME`, or `location` for the last
    /// part of the path in the Location field.
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
    /// With `speaks: coap_tcp`: whether the step lets in the connection, so that it is done again, too, when that was lost.
    #[serde(default)]
    pub logs_in: bool,
}

/// How often a step is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum EachConfig {
    /// Once.
    #[default]
    Once,
    /// For each device.
    Device,
    /// For each subscriber.
    Subscriber,
    /// For each pair of a device and a subscriber.
    Pair,
    /// Of `preload` alone: for each thing that the platform is filled with, which `{item}` numbers.
    Item,
}

/// A request of HTTP or CoAP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Name of the port, where it is not the one that devices speak to.
    #[serde(default)]
    pub port: Option<String>,
    /// The method.
    #[serde(default = "post")]
    #[cfg_attr(test, schemars(regex(pattern = "^[A-Z]+$")))]
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header fields, of HTTP. Host and Content-Length are added; one whose value is empty is left out.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Options of CoAP beside path and query, by number: a whole number, or a text with variables.
    #[serde(default)]
    pub options: BTreeMap<String, OptionConfig>,
    /// The body. A device's must have `{message}` in it, or `{message:json}` within a string of JSON.
    #[serde(default)]
    pub body: Option<String>,
    /// What the body becomes on the way: nothing else, or CBOR, for which it is written as JSON.
    #[serde(default)]
    pub body_format: BodyFormat,
    /// Status codes that mean success; default any of 200 to 299. CoAP's are written without the point: 2.04 is 204.
    #[serde(default)]
    pub expect: Vec<u16>,
    /// Status codes after which the same request is sent again after a pause, such as 503.
    #[serde(default)]
    pub retry: Vec<u16>,
    /// HTTP: whether a request whose connection was lost before its answer is sent again after a pause. The platform may
    /// then take it twice.
    #[serde(default)]
    pub retry_lost: bool,
}

impl Request {
    /// A GET of nothing yet.
    pub(crate) fn get() -> Request {
        Request {
            port: None,
            method: "GET".into(),
            path: String::new(),
            headers: BTreeMap::new(),
            options: BTreeMap::new(),
            body: None,
            body_format: BodyFormat::Text,
            expect: Vec::new(),
            retry: Vec::new(),
            retry_lost: false,
        }
    }
}

fn post() -> String {
    "POST".into()
}

/// What a body becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum BodyFormat {
    /// It goes as it is written.
    #[default]
    Text,
    /// It is written as JSON and goes as CBOR (RFC 8949). What is the same in each message is encoded once. Its content format (60,
    /// `application/cbor`) is added.
    Cbor,
}

/// The value of a CoAP option.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum OptionConfig {
    /// A whole number.
    Number(u32),
    /// A text with variables.
    Text(String),
}

/// What a device says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Device {
    /// The protocol of its messages.
    pub speaks: Speaks,
    /// HTTP and CoAP: the request that says a message. Variables: `{run}`, `{device}`, `{sequence}`, `{marker}`,
    /// `{time}`, `{random:..}`, `{feed:COLUMN}`, `{message}`, and what set-up steps captured.
    #[serde(default)]
    pub request: Option<Request>,
    /// CoAP over TCP: the requests with which each connection begins, in order, before any message. Of a connection that several
    /// devices share, they are those of its first device. Variables: `{run}`, `{device}`, and what set-up steps captured.
    #[serde(default)]
    pub log_in: Vec<Request>,
    /// CoAP over TCP: what it answers when it is asked itself, over its own connection.
    #[serde(default)]
    pub serves: Option<Serves>,
    /// MQTT: who each device says it is. A scenario's own user takes its place. Variables: `{run}`, `{device}`, `{token}`, and what
    /// set-up steps captured.
    #[serde(default)]
    pub user: Option<User>,
    /// MQTT: the topic of its messages. A scenario that writes `message.target` has its own.
    #[serde(default)]
    pub topic: Option<String>,
    /// MQTT and WebSocket: what stands around the message, with `{message}` in it.
    #[serde(default)]
    pub payload: Option<String>,
    /// WebSocket: what is said beside messages.
    #[serde(default)]
    pub websocket: Option<WebSocketConfig>,
    /// MQTT and WebSocket: how the platform answers a message by a message of its own. Without it, over MQTT the protocol's
    /// acknowledgement is all that is awaited, and over WebSocket any message that comes back.
    #[serde(default)]
    pub answer: Option<Answer>,
    /// The largest content that the platform takes, with what stands around the message, as `1MiB`: a scenario whose messages
    /// may be larger is warned before anything is sent.
    #[serde(default)]
    pub largest: Option<AsText<Size>>,
    /// The form of the marker that the platform leaves unharmed, where the scenario names none.
    #[serde(default)]
    pub marker: Option<MarkerConfig>,
    /// LwM2M: the path of the interface for registrations. Default `/rd`.
    #[serde(default)]
    pub registration: Option<String>,
    /// LwM2M: the resource of a device's messages that the server passes on unharmed, where the scenario names none.
    #[serde(default)]
    pub message: Option<MessageResource>,
    /// Of a gateway with a test manager: what its configuration must say, by its keys; a gateway that says something else is
    /// refused.
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
}

/// Who a client says it is over MQTT.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct User {
    /// The user name.
    pub name: String,
    /// The password; none by default.
    #[serde(default)]
    pub password: Option<String>,
}

/// What a client says over a WebSocket without MQTT, beside messages.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct WebSocketConfig {
    /// Of subscribers: name of the port, where it is not the one that devices speak to.
    #[serde(default)]
    pub port: Option<String>,
    /// Path and query, behind the path of the platform's address.
    #[serde(default)]
    pub path: Option<String>,
    /// The subprotocol that is asked for (RFC 6455 section 1.9), without which none is.
    #[serde(default)]
    pub subprotocol: Option<String>,
    /// Header fields of the request for the WebSocket. Variables: `{run}`, `{device}` or `{subscriber}`, `{token}`, and what set-up
    /// steps captured.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether messages are compressed (RFC 7692), each by itself. Default false. A platform that does not agree is an error.
    #[serde(default)]
    pub compression: bool,
    /// What frames messages. Default: nothing.
    #[serde(default)]
    pub framing: FramingConfig,
    /// With `framing: socket_io`: what lets a client in, as JSON. Variables are those of `headers`.
    #[serde(default)]
    pub auth: Option<String>,
    /// Messages with which each connection begins, in order, before any other.
    #[serde(default)]
    pub opening: Vec<Opening>,
    /// Of devices: whether the platform answers each message. Default true. Without answers, only deliveries show what it took.
    #[serde(default)]
    pub answered: Option<bool>,
}

/// What frames messages over a WebSocket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum FramingConfig {
    /// Nothing: each message goes as it is.
    #[default]
    None,
    /// Socket.IO 5 over Engine.IO 4: each message is an event, an array of JSON whose first value is the event's name. Where nothing is
    /// said of answers, the acknowledgement of each event is awaited.
    SocketIo,
}

/// A message with which a WebSocket begins.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Opening {
    /// What is said. Variables: `{run}`, `{device}`, `{token}`, `{time}`, `{random:..}`, and what set-up steps captured; of subscribers
    /// `{subscriber}`, too. One with `{device}` is said by a subscriber once for each device that it follows.
    pub message: String,
    /// How its answer is known, which must come before the next message goes. Without it, none is awaited.
    #[serde(default)]
    pub answer: Option<Answer>,
}

/// A resource that a device has, which the platform may ask for with GET. The answer repeats the path, and the number of an observation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Serves {
    /// Its path. Variables: `{run}` and `{device}`.
    pub path: String,
    /// What it answers. Variables: `{run}`, `{device}`, `{random:..}`, `{time}`, and what set-up steps captured.
    pub body: String,
    /// What the body becomes on the way.
    #[serde(default)]
    pub body_format: BodyFormat,
}

/// How a platform answers by a message of its own, with JSON in it. It is known by the name of the request, which it repeats, or by
/// its type: then it answers the oldest message that is not answered.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    /// MQTT: the topic that the device subscribes to, with `{run}` and `{device}`: one of its own, else each device reads the
    /// answers to all.
    #[serde(default)]
    pub topic: Option<String>,
    /// Where in the answer the name of the request stands, as a JSON pointer (RFC 6901): `/requestId`, or `/0` for the first of an
    /// array.
    #[serde(default)]
    pub id: Option<String>,
    /// That name as the request has it, such as `{run}-{device}-{sequence}`; it ends with `{sequence}`.
    #[serde(default)]
    pub is: Option<String>,
    /// WebSocket: where the type of a message stands, as a JSON pointer.
    #[serde(default, rename = "type")]
    pub of_type: Option<String>,
    /// With `type`: the types that answer.
    #[serde(default)]
    pub types: Vec<String>,
    /// With `type`: the types that refuse.
    #[serde(default)]
    pub refusals: Vec<String>,
    /// Where in the answer its status stands, as a JSON pointer.
    #[serde(default)]
    pub status: Option<String>,
    /// The numbers or texts there that mean success; default all.
    #[serde(default)]
    pub expect: Vec<Word>,
}

/// A text, or a number as one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Word {
    /// A whole number.
    Number(u64),
    /// A text.
    Text(String),
}

impl Word {
    /// As a text.
    pub(crate) fn text(&self) -> String {
        match self {
            Word::Number(number) => number.to_string(),
            Word::Text(text) => text.clone(),
        }
    }
}

/// What devices speak, by the word for it in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speaks(pub Protocol);

impl<'de> Deserialize<'de> for Speaks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let found = Protocol::ALL.into_iter().find(|protocol| protocol.key() == word);
        found.map(Speaks).ok_or_else(|| de::Error::custom(format!("`{word}` is no protocol")))
    }
}

/// The form of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum MarkerConfig {
    /// Ten bytes.
    Binary,
    /// Letters, digits, dot and hyphen.
    Ascii,
    /// A whole number below 2^53.
    Integer,
}

/// How a subscriber receives.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Subscriber {
    /// How it is notified of what set-up steps ask the platform for; `{listener}` in them says where. Without it
    /// subscribers are MQTT clients that get what devices publish to topics that their filters match.
    #[serde(default)]
    pub listens: Option<Listens>,
    /// The resource of CoAP, over UDP or TCP as devices speak it, that it observes (RFC 7641) at the port of the devices: with
    /// `{device}` in its path one for each device.
    #[serde(default)]
    pub observes: Option<Observes>,
    /// With `observes` over CoAP over TCP: the requests with which its connection begins, in order. Variables: `{run}`,
    /// `{subscriber}`, and what set-up steps captured.
    #[serde(default)]
    pub log_in: Vec<Request>,
    /// The status that it answers notifications with; CoAP's is written without the point: 2.04 is 204. Default 200,
    /// over CoAP 204.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 200, max = 599)))]
    pub status: Option<u16>,
    /// Header fields of its answers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Options of its answers over CoAP, by number: a whole number, or a text.
    #[serde(default)]
    pub options: BTreeMap<String, OptionConfig>,
    /// It receives over a WebSocket of its own: what it asks for, and what it says at first. Each message that comes with markers is a
    /// delivery.
    #[serde(default)]
    pub websocket: Option<WebSocketConfig>,
    /// It receives over HTTP, in an answer that does not end.
    #[serde(default)]
    pub streams: Option<Streams>,
    /// It receives over HTTP, in answers that wait for messages (long polling).
    #[serde(default)]
    pub polls: Option<Polls>,
    /// MQTT: who each subscriber says it is. A scenario's own user takes its place. Variables: `{run}`, `{subscriber}`, `{token}`, and
    /// what set-up steps captured, unless it `listens`: then it connects before the set-up.
    #[serde(default)]
    pub user: Option<User>,
    /// MQTT: the filters that it subscribes to, with `{run}` and `{subscriber}`. A scenario's own take their place.
    #[serde(default)]
    pub filters: Vec<String>,
    /// With `listens: mqtt`: how it answers a notification, where the platform wants that.
    #[serde(default)]
    pub answer: Option<NotificationAnswer>,
    /// What the platform promises to deliver.
    #[serde(default)]
    pub delivery: DeliveryConfig,
}

/// An answer over HTTP that does not end, with messages in it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Streams {
    /// The request. An answer of the type `text/event-stream` has server-sent events. In any other, each object of JSON is a message,
    /// and so is each line of another kind. Variables: `{run}`, `{subscriber}`, `{device}`, `{token}`, `{time}`, `{random:..}`, and what
    /// set-up steps captured. Where it is about a device, the subscriber asks for each device that it follows, over a connection each.
    pub request: Request,
}

/// Answers over HTTP that wait for messages.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Polls {
    /// The request, which follows each answer. Its variables are those of `streams`.
    pub request: Request,
    /// How later requests go on where the last answer ended, so that nothing between two of them is missed.
    #[serde(default)]
    pub next: Option<NextPoll>,
    /// How long an answer may take, such as `60s`, which is the default: longer than the platform waits for messages. The connection is
    /// given up then.
    #[serde(default)]
    pub within: Option<String>,
}

/// How a poll goes on where the last answer ended.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct NextPoll {
    /// Path and query, once an answer had a value at `since`. Variables: `{since}` and those of the request.
    pub path: String,
    /// Where in an answer `{since}` stands, as a JSON pointer (RFC 6901) to a text or a number. In it, `-` is the last of an array, or
    /// what stands there alone: `/-/timestamp`.
    pub since: String,
}

/// How a subscriber answers a notification over MQTT: by a message at QoS 0 that names it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct NotificationAnswer {
    /// Where the answer is published, with `{run}` and `{subscriber}`.
    pub topic: String,
    /// Its payload, with `{run}`, `{subscriber}` and `{id}`, the name of the notification, escaped as within a string of
    /// JSON.
    pub payload: String,
    /// Where in the notification its name stands, as a JSON pointer (RFC 6901) to a text or a number. What has no name
    /// is not answered.
    pub id: String,
}

/// A resource of CoAP that is observed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Observes {
    /// Name of the port, where it is not the one that devices speak to.
    #[serde(default)]
    pub port: Option<String>,
    /// Path and query. Variables: `{run}`, `{device}`, `{subscriber}`, and what set-up steps captured.
    pub path: String,
    /// Further options, by number: a whole number, or a text with variables.
    #[serde(default)]
    pub options: BTreeMap<String, OptionConfig>,
}

/// In what a subscriber listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Listens {
    /// HTTP/1.1: notifications are requests to the subscriber.
    Http,
    /// CoAP over UDP: its requests.
    Coap,
    /// MQTT: notifications are messages at the broker of the devices, where the subscriber is a client that has
    /// subscribed to `filters` before the set-up begins.
    Mqtt,
}

/// What the platform promises to deliver of the messages of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum DeliveryConfig {
    /// Every message.
    #[default]
    Every,
    /// The newest: an older one may be left out where a newer one of its device came. What is observed over CoAP promises that; of
    /// other platforms `check` warns, since a real loss passes for it.
    Latest,
    /// The newest, and to each subscriber at most one notification within this time, such as `1s` or a text with variables that a
    /// step of the set-up sends, too: what falls into the silence after one may be left out, whichever device it is of. A time
    /// of zero promises every message.
    Throttled(String),
}

/// What a querier asks.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Querier {
    /// Over CoAP over TCP: the requests with which a connection begins, in order. Variables: `{run}`, and what set-up steps captured.
    #[serde(default)]
    pub log_in: Vec<Request>,
    /// The request, over HTTP, or over CoAP over TCP where devices speak that. Variables: `{run}`, `{device}` (one of the
    /// devices, by chance), `{random:..}`, `{feed:COLUMN}`, and what set-up steps captured.
    pub request: Request,
}
