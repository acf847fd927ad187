//! Who takes part.

use super::{Duration, QosLevel};
use crate::quantity::AsText;
use plimsoll_model::Nanos;
use serde::{Deserialize, Serialize};

/// Who takes part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Population {
    /// Simulated publishers.
    #[cfg_attr(test, schemars(range(min = 1, max = 268_435_455)))]
    pub devices: u32,
    /// Receivers of deliveries: a count, or a count with settings. Default 0.
    #[serde(default)]
    pub subscribers: Subscribers,
    /// An emulated network between each device and the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Where devices stand, if workers have the load: at the workers of that site, or at the worker of that name. It holds for the
    /// population's own subscribers, too, unless they say otherwise. Default: at all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1, max = 63)))]
    pub at: Option<String>,
}

/// Receivers of deliveries: a count, or a count with settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Subscribers {
    /// How many.
    Count(#[cfg_attr(test, schemars(range(max = 1_000_000)))] u32),
    /// How many, and what they do.
    Group(SubscriberGroup),
}

impl Subscribers {
    /// How many.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Subscribers::Count(count) => *count,
            Subscribers::Group(group) => group.count,
        }
    }
}

impl Default for Subscribers {
    fn default() -> Subscribers {
        Subscribers::Count(0)
    }
}

/// Receivers of deliveries.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SubscriberGroup {
    /// How many.
    #[cfg_attr(test, schemars(range(max = 1_000_000)))]
    pub count: u32,
    /// The QoS that they ask for. Default: that of publishing.
    #[serde(default)]
    pub qos: Option<QosLevel>,
    /// Topic filters of each, with `{run}` and `{subscriber}` as possible variables. Default: one that matches the
    /// messages of every device.
    #[serde(default)]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub filters: Option<Vec<String>>,
    /// Name of the group in which they share their subscription (MQTT 5 only): each message goes to one of them. Filters
    /// written as `$share/GROUP/FILTER` say the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// Devices that each follows, where the profile has a subscription for each pair of device and subscriber. The first
    /// subscriber follows the first so many devices, the next one those after them. After the last device comes the first
    /// again. So `devices` divided by `subscribers` gives each device one subscriber, and more lets them overlap. Default: all
    /// follow all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub devices: Option<u32>,
    /// Time that a subscriber spends on a message before it reads the next.
    #[serde(default = "no_time")]
    pub work: Duration,
    /// An emulated network between each subscriber and the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Where they stand, if workers have the load: at the workers of that site, or at the worker of that name. Default: where the
    /// population says, else at all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(length(min = 1, max = 63)))]
    pub at: Option<String>,
    /// `devices`: each stands at the worker of the devices whose messages it receives, so that times of deliveries need no second
    /// clock. That must be known from `filters` with `{subscriber}` or from `devices: 1`, or all devices stand at one worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
}

/// Beside whom subscribers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Beside {
    /// The devices whose messages they receive.
    Devices,
}

impl SubscriberGroup {
    /// So many subscribers with every default.
    pub fn of(count: u32) -> SubscriberGroup {
        SubscriberGroup {
            count,
            qos: None,
            filters: None,
            share: None,
            devices: None,
            work: no_time(),
            link: None,
            at: None,
            beside: None,
        }
    }
}

/// An emulated network between a client and the platform: what either side sends arrives later. Loss, bandwidth and TCP's
/// own behaviour over a long way are not emulated.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    /// Mean delay of one way, at most a minute; a round trip takes two.
    pub delay: Duration,
    /// Half width of the even spread of each delay, at most the delay.
    #[serde(default = "no_time")]
    pub jitter: Duration,
}

fn no_time() -> Duration {
    AsText(Nanos::ZERO)
}
