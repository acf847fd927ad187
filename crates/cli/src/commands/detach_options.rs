//! How a run stands to whoever started it, and to other runs of this host.

use crate::failure::Failure;
use clap::Args;
use plimsoll_runner::host_lock::{HostLock, LockError, VARIABLE};

/// See the module.
#[derive(Args, Debug, Default)]
pub struct DetachOptions {
    /// Refuse to start while another run with this option measures on this host
    #[arg(long)]
    exclusive: bool,
    /// Goes on when the terminal or the program ends that started it: begins a session of its own
    #[arg(long, hide = true)]
    detach: bool,
}

impl DetachOptions {
    /// Leaves the session of its parent, and takes the lock of this host, where either is asked for. The lock holds while it lives.
    pub fn begin(&self) -> Result<Option<HostLock>, Failure> {
        if self.detach {
            rustix::process::setsid().map_err(|error| {
                Failure::Undoable(format!("cannot begin a session of its own (--detach): {error}"))
            })?;
        }
        if !self.exclusive {
            return Ok(None);
        }
        let name = std::env::var(VARIABLE).unwrap_or_default();
        HostLock::take(&name).map(Some).map_err(|error| match error {
            LockError::Held | LockError::Name => Failure::Usage(error.to_string()),
            LockError::Refused(_) => Failure::Undoable(error.to_string()),
        })
    }
}
