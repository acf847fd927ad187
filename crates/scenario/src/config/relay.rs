//! Relays before components of the platform.

use crate::quantity::{AsText, BitRate, Duration, Share};
use serde::{Deserialize, Serialize};

/// A relay before a component: the network to it. Devices, controller and all other components reach the component through it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Relay {
    /// How long everything takes, each way; at most a minute. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// How much longer it takes at most, uniformly drawn. Connections keep their order. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Duration>,
    /// Bits a second of each way, which all connections share. Default any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<AsText<BitRate>>,
    /// Share of the packets that get lost, each way: datagrams, and segments of TCP, which are sent again. For TCP this needs root
    /// and `nft`. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<AsText<Share>>,
    /// When connections are reset and datagrams lost. Default never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// At each multiple of this time since its start, all connections lose the component, and clients see no end. Default never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_open: Option<Duration>,
}

/// A cut of the network that comes again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Cut {
    /// The time from one to the next; the first comes so long after the start of the relay.
    pub every: Duration,
    /// How long it lasts.
    #[serde(rename = "for")]
    pub length: Duration,
}
