//! Files of the user's from which a container engine or a cluster brings the platform up.

use super::Duration;
use super::command::{down_within, within};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One file or folder, or several.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Files {
    /// One.
    One(String),
    /// Several, of which later ones add to earlier ones.
    Several(#[cfg_attr(test, schemars(length(min = 1)))] Vec<String>),
}

/// A compose file from which a container engine brings the platform up before each run, and takes it down after it
/// (docs/bringing-up.md). Each run has a project of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Compose {
    /// The compose file, or several of which later ones add to earlier ones. Paths begin in the folder of the scenario file.
    pub file: Files,
    /// The service at which devices connect. One container of it runs.
    pub service: String,
    /// The port of that service inside its container. The file publishes it.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub port: u16,
    /// What the address begins with, such as `mqtts`. Default: what devices of the profile speak, without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// What follows the port in the address, such as `/ingest/{device}`. Default nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How many containers of a service run, by the names of the services. Default as the file says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scale: BTreeMap<String, u16>,
    /// Further ports, by the names that the profile gives them: `broker:8080` is port 8080 inside the container of the service
    /// `broker`. The file publishes each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<String, String>,
    /// The program of the engine: `docker`, `podman`, or the path of one. It is called with the word `compose`.
    #[serde(default = "docker")]
    pub with: String,
    /// A folder that keeps the logs of all services, in a folder for each run. Default: they go with the containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<String>,
    /// How long it may take until all containers run and are healthy. Default 10m.
    #[serde(default = "within")]
    pub within: Duration,
    /// How long it may take until all of them are gone. Default 5m.
    #[serde(default = "down_within")]
    pub down_within: Duration,
}

/// Manifests of Kubernetes from which `kubectl` brings the platform up before each run, and takes it down after it
/// (docs/bringing-up.md). Each run has a namespace of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifests {
    /// Files of manifests, or folders with a `kustomization.yaml`. Paths begin in the folder of the scenario file.
    pub files: Files,
    /// The service at which devices connect: a load balancer, a node port, or else by a port-forward to this host.
    pub service: String,
    /// The port of that service.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub port: u16,
    /// What the address begins with, such as `mqtts`. Default: what devices of the profile speak, without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// What follows the port in the address, such as `/ingest/{device}`. Default nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How many pods of a deployment or stateful set run, by their names. Default as the files say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replicas: BTreeMap<String, u16>,
    /// Further ports of the same service, by the names that the profile gives them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<String, u16>,
    /// The context of kubectl, which names the cluster. There is no default, so that no run reaches a cluster that nobody meant.
    pub context: String,
    /// A folder that keeps the logs of all pods, in a folder for each run. Default: they go with the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<String>,
    /// How long it may take until all pods are ready. Default 10m.
    #[serde(default = "within")]
    pub within: Duration,
    /// How long it may take until all of them are gone. Default 5m.
    #[serde(default = "down_within")]
    pub down_within: Duration,
}

fn docker() -> String {
    "docker".to_owned()
}
