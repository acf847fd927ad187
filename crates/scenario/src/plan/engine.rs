//! Files of the user's from which a container engine or a cluster brings the platform up.

use super::QuotaPlan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an engine brings up from files of the user's, and how devices reach it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnginePlan {
    /// Which one, and how it is called.
    pub engine: Engine,
    /// The files or folders, from the folder of the scenario on.
    pub files: Vec<String>,
    /// The service at which devices connect.
    pub service: String,
    /// Its port: of a container the one inside.
    pub port: u16,
    /// What the address begins with, before `://`.
    pub scheme: String,
    /// What follows the port in the address; empty for nothing.
    pub path: String,
    /// Whether devices send datagrams to the port.
    pub datagrams: bool,
    /// Services and their further ports, by the names that the profile gives those.
    pub ports: BTreeMap<String, (String, u16)>,
    /// How many containers or pods run, by the names of services or workloads; as the files say for the others.
    pub counts: BTreeMap<String, u16>,
    /// What each of those may use at most, by the same names.
    pub quotas: BTreeMap<String, QuotaPlan>,
    /// A folder that keeps their logs.
    pub logs: Option<String>,
}

/// What brings a platform up from files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// A container engine that understands compose files.
    Compose {
        /// Its program.
        program: String,
    },
    /// A cluster of Kubernetes.
    Kubernetes {
        /// The context that names it.
        context: String,
    },
}
