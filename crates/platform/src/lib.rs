//! Brings a platform up, checks its health, takes it down. A platform is data: what is started and how it is known
//! to be up stands in its profile.

mod balancers;
mod certificate;
mod clock;
mod command;
pub mod command_keeper;
mod component;
mod control_group;
mod data_limit;
pub mod engine;
mod environment;
pub mod folder;
pub mod free_port;
mod fronts;
pub mod guard;
mod guarding;
mod interruptible;
mod line;
mod occupier;
mod options;
mod output;
mod placeholders;
mod precedence;
mod quota_keeping;
mod relays;
mod replicas;
mod reset;
mod running;
mod slowing;
mod small_folder;
mod strays;
pub mod supervise;
mod tree;
mod user;

pub use command::{Commanded, check_commands};
pub use component::is_installed;
pub use interruptible::{pause, unless_stopped};
pub use options::Options;
pub use reset::{await_return, reset};
pub use running::{Death, Elsewhere, FaultOver, HttpAddresses, Planned, Platform, Site, check_faults};

use std::path::PathBuf;

/// Why a platform could not be brought up.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// The address does not resolve.
    #[error("cannot resolve {address}: {cause}")]
    Resolve {
        /// As given.
        address: String,
        /// Why.
        cause: String,
    },
    /// A component's command does not exist.
    #[error("component {component}: the command {command} is not installed{hint}")]
    Missing {
        /// The component.
        component: String,
        /// Its command.
        command: String,
        /// How to install it.
        hint: String,
    },
    /// A file could not be made or a process not be started.
    #[error("component {component}: {what}: {cause}")]
    Start {
        /// The component.
        component: String,
        /// What was attempted.
        what: String,
        /// Why it failed.
        cause: std::io::Error,
    },
    /// What goes before the start of a component failed.
    #[error(
        "component {component}: `{command}`, which goes before its start, {what}; its last words:\n{log}"
    )]
    Prepare {
        /// The component.
        component: String,
        /// The command.
        command: String,
        /// What became of it.
        what: String,
        /// The end of its output.
        log: String,
    },
    /// A component ended before it was healthy.
    #[error(
        "component {component} ended ({status}) before it accepted connections{help}; its last words:\n{log}"
    )]
    Died {
        /// The component.
        component: String,
        /// Its exit status.
        status: String,
        /// What to do; empty where that is not known.
        help: &'static str,
        /// The end of its output.
        log: String,
    },
    /// A component did not become healthy.
    #[error(
        "component {component} did not accept connections on port {port} within {seconds} s{quota}; \
         `ready_within` in its profile gives it longer; its last words:\n{log}"
    )]
    NotReady {
        /// The component.
        component: String,
        /// Where.
        port: u16,
        /// How long was waited.
        seconds: u64,
        /// What it may use at most, for people; empty where nothing is limited.
        quota: String,
        /// The end of its output.
        log: String,
    },
    /// What brings the platform up failed.
    #[error("`{command}`, which brings the platform up, {what}{log}")]
    Up {
        /// The command.
        command: String,
        /// What it did in place of bringing it up.
        what: String,
        /// The end of what it said on standard error, introduced; empty where it was not begun.
        log: String,
    },
    /// The command that resets the platform failed.
    #[error("the platform was not reset by `{command}`: {what}")]
    Reset {
        /// The command.
        command: String,
        /// Why.
        what: String,
    },
    /// The platform was reset or brought up, and nobody can connect to it.
    #[error("the platform at {address} did not accept connections within {seconds} s after it was {done}")]
    NotBack {
        /// Where.
        address: std::net::SocketAddr,
        /// What was done with it.
        done: &'static str,
        /// How long was waited.
        seconds: u64,
    },
    /// A worker does not start what stands there.
    #[error("worker {worker}: {reason}")]
    Elsewhere {
        /// The worker.
        worker: String,
        /// Why.
        reason: String,
    },
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
    /// A profile's placeholder or port makes no sense.
    #[error("platform profile {profile}: {what}")]
    Profile {
        /// The profile.
        profile: String,
        /// What is wrong.
        what: String,
    },
    /// The program's own file cannot be found, which starts the components.
    #[error("cannot start {path}: {cause}")]
    Program {
        /// The program.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
}
