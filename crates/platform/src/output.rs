//! What components say: the ends of their output.

use plimsoll_codec::hiding::cut;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How much of a component's output is looked at, in bytes, and how much of that an error shows.
const EXCERPT: u64 = 8 * 1024;
const LAST_LINES: usize = 12;
const LONGEST_LINE: usize = 200;

/// The end of a component's output for an error, however long that is.
pub(crate) fn last_words(log: &Path) -> String {
    let short = last_lines(log);
    if short.is_empty() { "  (it said nothing)".into() } else { format!("  {}", short.join("\n  ")) }
}

/// The last lines of a component's output.
pub(crate) fn last_lines(log: &Path) -> Vec<String> {
    let text = excerpt(log, true);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
    last.iter().map(|line| cut(line, LONGEST_LINE)).collect()
}

/// The first line of a command's output, if it has one.
pub(crate) fn first_line(log: &Path) -> Option<String> {
    let line = cut(excerpt(log, false).lines().next()?, LONGEST_LINE);
    (!line.is_empty()).then_some(line)
}

/// The end of a file, at most so many bytes of it; nothing where it cannot be read.
pub(crate) fn end_of(path: &Path, most: u64) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let before = file.metadata()?.len().saturating_sub(most);
        file.seek(SeekFrom::Start(before))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}

/// At most some thousand bytes from one end of a file, without what is left of a line that began before them.
fn excerpt(path: &Path, from_end: bool) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let before = if from_end { file.metadata()?.len().saturating_sub(EXCERPT) } else { 0 };
        file.seek(SeekFrom::Start(before))?;
        let mut bytes = Vec::new();
        file.take(EXCERPT).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>((String::from_utf8_lossy(&bytes).into_owned(), before > 0))
    };
    let (text, is_cut) = read().unwrap_or_default();
    let whole = text.split_once('\n').or(text.split_once(' ')).filter(|_| is_cut);
    whole.map_or(text.clone(), |(_, whole)| whole.to_owned())
}
