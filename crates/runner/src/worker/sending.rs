//! Files that a worker sends to the coordinator, as fast as that takes them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// Bytes of a file that are sent as one message.
const PART: u64 = 1 << 20;

/// What is still to be sent, by numbers.
#[derive(Default)]
pub struct Sending(VecDeque<(u16, Option<File>)>);

impl Sending {
    /// These files.
    pub fn of(files: Vec<PathBuf>) -> Sending {
        // One that cannot be opened ends at once: its reader sees that it is empty.
        Sending((0..).zip(files.into_iter().map(|path| File::open(path).ok())).collect())
    }

    /// The next bytes, and of which file they are, none where it ends; `None` where all were given.
    pub fn part(&mut self) -> Option<(u16, Vec<u8>)> {
        let (number, file) = self.0.front_mut()?;
        let (number, mut bytes) = (*number, Vec::new());
        let read = file.as_mut().map(|file| file.take(PART).read_to_end(&mut bytes));
        if !matches!(read, Some(Ok(1..))) {
            // What could not be read is missing at the end.
            bytes.clear();
            self.0.pop_front();
        }
        Some((number, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_ends_with_a_part_of_no_bytes_and_one_that_is_missing_ends_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("large"), vec![7; PART as usize + 1]).unwrap();
        let mut sending = Sending::of(vec![path("large"), path("missing")]);
        let lengths = std::iter::from_fn(|| sending.part().map(|(number, bytes)| (number, bytes.len())));
        assert_eq!(lengths.collect::<Vec<_>>(), [(0, PART as usize), (0, 1), (0, 0), (1, 0)]);
    }
}
