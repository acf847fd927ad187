//! Names that a user gives, which stand in lists, reports and paths.

use plimsoll_model::text::is_harmful;
use std::path::{Component, Path};

/// Whether a name stands in one line, and reads as it is written.
pub(crate) fn is_line(name: &str) -> bool {
    !name.contains(is_harmful)
}

/// Whether it is the name of a file as well.
pub(crate) fn is_file_name(name: &str) -> bool {
    is_line(name) && !name.contains('/') && !matches!(name.trim(), "" | "." | "..")
}

/// Whether a path names something below a folder, wherever that is.
pub(crate) fn is_below(path: &str) -> bool {
    let named = |part| matches!(part, Component::Normal(_));
    !path.is_empty()
        && !path.contains(['\\', '\0'])
        && !path.ends_with('/')
        && Path::new(path).components().all(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_line_and_their_folder() {
        assert!(is_line("Gerät 5 (µs)") && is_file_name("my broker.2"));
        for name in ["a\nb", "a\x1b[2J", "a\u{202e}b", "a\u{2028}b"] {
            assert!(!is_line(name) && !is_file_name(name), "{name:?}");
        }
        assert!(["", " ", "..", "../a", "/etc/passwd"].iter().all(|name| !is_file_name(name)));
    }
}
