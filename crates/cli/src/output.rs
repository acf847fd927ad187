//! Standard output and standard error, where a reader who has gone away is no error: `plimsoll show | head` is fine.

use std::io::Write;

/// Writes to standard output.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes a line to standard error.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
