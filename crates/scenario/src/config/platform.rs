//! The platform under test.

use super::balancer::Balancer;
use super::command::PlatformCommand;
use super::engine::{Compose, Manifests};
use super::quota::Quota;
use super::relay::Relay;
use super::with::With;
use crate::plan::Endpoint;
use crate::profiles::token::Token;
use crate::quantity::AsText;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The platform under test: the name of a profile, or a profile and an address.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Platform {
    /// Name of a platform profile, or path of a profile file (with a `/` in it or ending in `.yaml`).
    Name(String),
    /// A profile and the address of a platform that runs already.
    Attached(Box<AttachedPlatform>),
}

/// A profile and the address of a platform that runs already.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct AttachedPlatform {
    /// Name of a platform profile, or path of a profile file (with a `/` in it or ending in `.yaml`).
    pub profile: String,
    /// Where a platform that runs already is reached: `mqtt://host:port`, `mqtts://host:port` over TLS,
    /// `ws://host:port/path` or `wss://host:port/path` over WebSocket. Only for profiles that start nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<AsText<Endpoint>>,
    /// Commands that bring the platform up before each run and take it down after it, in place of an `address`. Only for
    /// profiles that start nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Box<PlatformCommand>>,
    /// A compose file from which a container engine brings the platform up, in place of an `address`. It does so before each run,
    /// and takes the platform down after it. Only for profiles that start nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compose: Option<Box<Compose>>,
    /// Manifests of Kubernetes from which `kubectl` brings the platform up, in place of an `address`. It does so before each run,
    /// and takes the platform down after it. Only for profiles that start nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifests: Option<Box<Manifests>>,
    /// What is spoken at an address that begins with `ws://` or `wss://`: `mqtt` (the default) or `websocket`. With
    /// `websocket`, each operation sends one message of the WebSocket, and one comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<OverWebSocket>,
    /// One of the profile's mappings: how messages become what the platform knows, or the protocol that says them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<String>,
    /// Values of the profile's variables, by name: texts, or `{ env: NAME }` for one that is a secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, With>,
    /// The access token (OAuth 2.0) that stands for `{token}` in the profile's requests, in the place of a variable of that
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Box<Token>>,
    /// Ports of a platform that runs already, by the names that its profile gives them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<String, u16>,
    /// Relays before components that the profile starts, by the names of the components.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub relays: BTreeMap<String, Relay>,
    /// How many of a component are started, by the names of the components that the profile starts. A relay spreads connections over
    /// them in turn, or one of `balancers` does. Each has a folder and ports of its own. Default 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replicas: BTreeMap<String, u16>,
    /// Load balancers before components that the profile starts, by the names of the components: the name of a balancer, or
    /// `{ by: NAME, policy: least_connections, mode: http }`. A component has one with or without `replicas`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub balancers: BTreeMap<String, Balancer>,
    /// What components may use at most, by the names of the components that the profile starts: processors (`0.5` is half of one),
    /// or `{ processors: 0.5, memory: 256 MiB }`. Control groups of the kernel keep them to it, which needs root. Beside `compose`
    /// and `manifests`, by the names of services and workloads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quotas: BTreeMap<String, Quota>,
    /// The processors that components may run on, by the names of the components that the profile starts: numbers from 0 on, such as
    /// `[1, 3]`. They must be among those that the platform has. Default all of those.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processors: BTreeMap<String, Vec<usize>>,
    /// Where components stand, by the names of the components that the profile starts: a worker's name, or a site with one worker. That
    /// worker starts, samples and stops the component. Default: what the profile says at `components[].at`, else this host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
    /// A folder that keeps the logs of the components that the profile starts. Each run has a folder in it, with a file for each
    /// component. Default: logs go with the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<String>,
    /// The processes of a platform that runs already on this host: what they use is sampled, and a capture knows their
    /// connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<RunningComponent>,
    /// Whether what the controller registers is taken away again after the run. Default no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clean_up: bool,
    /// What becomes of a platform that runs already before each run: `keep` (the default) or `reset`, by `reset_command` and
    /// by the profile's own steps. A platform that a profile starts is new in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_runs: Option<BetweenRuns>,
    /// The command that resets the platform and its database: a program and its arguments, run on this host to its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reset_command: Vec<String>,
    /// So many things the platform is filled with before the run, by the profile's steps. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preload: Option<u32>,
}

/// What becomes of a platform before each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum BetweenRuns {
    /// It stays as the run before it left it.
    Keep,
    /// It is brought back to its first state.
    Reset,
}

impl AttachedPlatform {
    /// The profile of that name, with nothing said of it.
    pub fn of(profile: String) -> AttachedPlatform {
        AttachedPlatform {
            profile,
            address: None,
            command: None,
            compose: None,
            manifests: None,
            protocol: None,
            mapping: None,
            with: BTreeMap::new(),
            token: None,
            ports: BTreeMap::new(),
            relays: BTreeMap::new(),
            replicas: BTreeMap::new(),
            balancers: BTreeMap::new(),
            quotas: BTreeMap::new(),
            processors: BTreeMap::new(),
            at: BTreeMap::new(),
            logs: None,
            components: Vec::new(),
            clean_up: false,
            between_runs: None,
            reset_command: Vec::new(),
            preload: None,
        }
    }
}

/// A process that runs already, with its descendants: one of `pid`, `port`, `unit` and `container` says which.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RunningComponent {
    /// What it is called in reports.
    pub name: String,
    /// Its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// A port of this host at which it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// systemd's unit, with or without `.service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// A container or pod, by its host name or the first 12 digits of its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

/// What is spoken over WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) enum OverWebSocket {
    #[serde(rename = "mqtt")]
    Mqtt,
    #[serde(rename = "websocket")]
    Plain,
}
