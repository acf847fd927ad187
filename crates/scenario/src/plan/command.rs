//! What brings a platform up before a run and takes it down after it: commands of the user's, or an engine with files of theirs.

use super::{Engine, EnginePlan};
use plimsoll_model::Nanos;
use std::path::PathBuf;

/// Commands that bring the platform up before a run and take it down after it: each a program and its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandPlan {
    /// Brings the platform up, and prints where it is. Of an engine, in few words for people.
    pub up: Vec<String>,
    /// Takes it down. Of an engine, in few words for people.
    pub down: Vec<String>,
    /// The engine that does both, where no commands of the user's do.
    pub engine: Option<EnginePlan>,
    /// How long `up` may take.
    pub within: Nanos,
    /// How long `down` may take.
    pub down_within: Nanos,
    /// The folder in which both run: that of the scenario file; empty for the one that this program runs in.
    pub folder: PathBuf,
}

impl CommandPlan {
    /// The key of the scenario that names what brings the platform up.
    pub fn key(&self) -> &'static str {
        match self.engine.as_ref().map(|plan| &plan.engine) {
            None => "platform.command",
            Some(Engine::Compose { .. }) => "platform.compose",
            Some(Engine::Kubernetes { .. }) => "platform.manifests",
        }
    }
}
