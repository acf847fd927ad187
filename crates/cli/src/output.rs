//! Standard output and standard error, where a reader who has gone away is no error: `plimsoll show | head` is fine.

use crate::failure::Failure;
use clap::builder::{PathBufValueParser, TypedValueParser};
use plimsoll_model::text::is_harmful;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Why standard output has not taken all that was said.
static UNSAID: OnceLock<std::io::Error> = OnceLock::new();

/// Writes to standard output. What it does not take is told by [`unsaid`] at the end, since files that are still to be
/// written do not depend on it.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // Where no terminal is, nobody needs colours, and those of a peer could not be told from ours.
    let coloured = out.is_terminal();
    said(out.write_all(harmless(text, coloured).as_bytes()).and_then(|()| out.flush()));
}

/// Remembers how a write to standard output ended.
pub fn said(result: std::io::Result<()>) {
    if let Err(error) = result {
        let _ = UNSAID.set(error);
    }
}

/// The first failure to write to standard output, if that was not its reader's going away.
pub fn unsaid() -> Option<Failure> {
    let error = UNSAID.get().filter(|error| error.kind() != ErrorKind::BrokenPipe)?;
    Some(Failure::unwritable(Path::new("standard output"), error))
}

/// Reads the name of a file that is to be written. `-` would make a file of that name where standard output may be meant.
pub fn file() -> impl TypedValueParser<Value = PathBuf> {
    let named = |path: PathBuf| match path.as_os_str() == "-" {
        true => Err("standard output is taken by what the command says: name a file"),
        false => Ok(path),
    };
    PathBufValueParser::new().try_map(named)
}

/// Writes a line to standard error, which has no colours.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", harmless(text, false));
}

/// Names, reasons and logs come from files and peers: what could command a terminal or turn its text around is replaced.
/// Our own colours (`ESC [ 3 digit m`, also in bold, and back) stay in a text that is `coloured`.
pub fn harmless(text: &str, coloured: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let colour = colour_length(rest).filter(|_| coloured);
        let taken = colour.unwrap_or(character.len_utf8());
        if colour.is_none() && is_harmful(character) && !matches!(character, '\n' | '\t') {
            out.push(char::REPLACEMENT_CHARACTER);
        } else {
            out.push_str(rest.get(..taken).unwrap_or_default());
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// The length of a colour sequence at the beginning of the text.
fn colour_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let ours = match parameters.as_bytes() {
        [b'0', b'm', ..] => 2,
        [b'3', digit, b'm', ..] if digit.is_ascii_digit() => 3,
        [b'1', b';', b'3', digit, b'm', ..] if digit.is_ascii_digit() => 5,
        _ => return None,
    };
    Some(2 + ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_colours_reach_the_terminal() {
        assert_eq!(harmless("\x1b[1;32mMET\x1b[0m\n", true), "\x1b[1;32mMET\x1b[0m\n");
        assert_eq!(harmless("\x1b[1;32mMET", false), "\u{fffd}[1;32mMET");
        // Text that cannot be seen.
        assert_eq!(harmless("\x1b[8m\x1b[30;40mx", true), "\u{fffd}[8m\u{fffd}[30;40mx");
        assert_eq!(harmless("a\x1b]0;title\x07b\x1b[2Jc", true), "a\u{fffd}]0;title\u{fffd}b\u{fffd}[2Jc");
        assert_eq!(harmless("gnp.\u{202e}exe \u{b5}s", true), "gnp.\u{fffd}exe \u{b5}s");
    }
}
