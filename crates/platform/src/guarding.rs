//! What all processes that outlive Plimsoll do: they have a name of their own, and listen until its end of their line is closed.

use plimsoll_observe::family::GUARD;
use std::ffi::CString;
use std::io::{self, Read};

/// Gives this process the name of a guard: who kills all that is called like Plimsoll leaves it to do its work.
pub(crate) fn take_name() {
    // People read it in lists, and observers find by it what a component has started and left.
    let _ = CString::new(GUARD).map(|name| rustix::thread::set_name(&name));
}

/// Returns when the other end of the line is closed.
pub(crate) fn await_close(line: io::Stdin) {
    hear(line, |_| {});
}

/// Hands over all that is said on the line, and returns when its other end is closed.
pub(crate) fn hear(mut line: io::Stdin, mut take: impl FnMut(&[u8])) {
    let mut bytes = [0; 1024];
    loop {
        match line.read(&mut bytes) {
            Ok(count @ 1..) => take(bytes.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}
