//! One measuring run at a time on a host: two would measure each other.
//!
//! The lock is an address in the kernel's abstract namespace of sockets (unix(7)). It needs no file and no right, it holds for all users
//! of a network namespace, children do not inherit it, and the kernel lets go of it however its holder ends.

use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable that names another lock: runs with different names do not exclude each other, as where a host is divided.
pub const VARIABLE: &str = "PLIMSOLL_HOST_LOCK";
/// What all locks begin with.
const PREFIX: &str = "plimsoll/measures/";
/// Longest name, in bytes: an address has 108.
const LONGEST_NAME: usize = 80;

/// Why the lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run has it.
    #[error(
        "another run measures on this host, and two would measure each other: wait until it ends, or stop it"
    )]
    Held,
    /// The name is too long.
    #[error("the lock that {VARIABLE} names has more than {LONGEST_NAME} bytes: choose a shorter name")]
    Name,
    /// The kernel refuses.
    #[error("cannot lock this host for a run: {0}")]
    Refused(io::Error),
}

/// The lock of this host. It is held until it is dropped.
#[derive(Debug)]
pub struct HostLock {
    _socket: UnixDatagram,
}

impl HostLock {
    /// Takes the lock of that name; an empty name is the host's own.
    ///
    /// # Errors
    /// Another run has it.
    pub fn take(name: &str) -> Result<HostLock, LockError> {
        if name.len() > LONGEST_NAME {
            return Err(LockError::Name);
        }
        let address =
            SocketAddr::from_abstract_name(format!("{PREFIX}{name}")).map_err(LockError::Refused)?;
        match UnixDatagram::bind_addr(&address) {
            Ok(socket) => Ok(HostLock { _socket: socket }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(LockError::Held),
            Err(error) => Err(LockError::Refused(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_and_names_are_locks_of_their_own() {
        let name = format!("test {}", std::process::id());
        let lock = HostLock::take(&name).unwrap();
        assert!(matches!(HostLock::take(&name), Err(LockError::Held)));
        let other = HostLock::take(&format!("{name} other")).unwrap();
        drop(lock);
        drop(HostLock::take(&name).unwrap());
        drop(other);
        assert!(matches!(HostLock::take(&"x".repeat(81)), Err(LockError::Name)));
    }
}
