//! How a platform is brought up.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How to bring a platform up.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program: it starts components (`guard`) and stands for `{plimsoll}`.
    pub program: PathBuf,
    /// Processors for the platform; empty for any.
    pub processors: Vec<usize>,
    /// A folder that keeps the logs of components, which is made; `None` where they go with the platform.
    pub logs: Option<PathBuf>,
    /// Whether devices speak MQTT 5, for which a platform may have a port of its own.
    pub mqtt5: bool,
    /// Set to give up while components are awaited.
    pub stop: Arc<AtomicBool>,
}
