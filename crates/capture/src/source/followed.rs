//! A file that is read while it is written: whether anything can still come.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A second hold on a file that is being read, with the reader's place in it.
pub(super) struct Followed {
    path: PathBuf,
    file: File,
}

impl Followed {
    /// Of an open file.
    ///
    /// # Errors
    /// This process may open no more files.
    pub fn new(path: &Path, file: &File) -> io::Result<Followed> {
        Ok(Followed { path: path.to_owned(), file: file.try_clone()? })
    }

    /// Why nothing more will come of it. `None` where more may, and of a pipe.
    pub fn ended(&mut self) -> Option<&'static str> {
        let held = self.file.metadata().ok().filter(fs::Metadata::is_file)?;
        if self.file.stream_position().ok()? > held.len() {
            return Some("it was cut while it was followed");
        }
        let is_it = |named: &fs::Metadata| (named.dev(), named.ino()) == (held.dev(), held.ino());
        let still_there = fs::metadata(&self.path).is_ok_and(|named| is_it(&named));
        (!still_there).then_some("it was removed or replaced while it was followed")
    }
}
