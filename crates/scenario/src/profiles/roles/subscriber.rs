//! How subscribers receive, as written.

use super::{OptionConfig, Request, User, WebSocketConfig};
use serde::Deserialize;
use std::collections::BTreeMap;

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
    /// For a platform that sends the head of its answer with the first message only: a subscriber is ready if its request was not
    /// refused within this time, such as `1s`. By default, it is ready when the head has come.
    #[serde(default)]
    pub ready_after: Option<String>,
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
    /// what stands there alone: `/-/timestamp`. `*` is the greatest of an array without order, or what stands there alone; such a value
    /// never goes back.
    pub since: String,
    /// What is added to the date and time at `since`, such as `1ms`, where the platform repeats what came exactly then.
    #[serde(default)]
    pub plus: Option<String>,
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
