//! What all processes that outlive Plimsoll do: they have a name of their own, and wait until its end of their line is closed.

use std::io::{self, Read};

/// The name of guards in lists of processes: who kills all that is called like Plimsoll leaves them to do their work.
const NAME: &std::ffi::CStr = c"platform-guard";

/// Gives this process the name of a guard.
pub(crate) fn take_name() {
    // It is only for people's lists.
    let _ = rustix::thread::set_name(NAME);
}

/// Returns when the other end of the line is closed.
pub(crate) fn await_close(mut line: io::Stdin) {
    let mut bytes = [0; 64];
    loop {
        match line.read(&mut bytes) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}
