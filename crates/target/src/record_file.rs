//! A record while it is written.

use std::fmt::Arguments;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A record cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the record {path}: {cause}")]
pub struct Unwritable {
    /// Where.
    path: PathBuf,
    /// Why.
    cause: std::io::Error,
}

/// A record in lines of text.
pub struct RecordFile {
    out: BufWriter<File>,
    path: PathBuf,
}

impl RecordFile {
    /// Begins a record with its header, which ends a line.
    pub fn begin(path: &Path, header: &str) -> Result<RecordFile, Unwritable> {
        let path = path.to_owned();
        match File::create(&path) {
            Ok(file) => {
                let mut record = RecordFile { out: BufWriter::new(file), path };
                record.write(format_args!("{header}"))?;
                record.flush()?;
                Ok(record)
            }
            Err(cause) => Err(Unwritable { path, cause }),
        }
    }

    /// Appends a text.
    pub fn write(&mut self, text: Arguments<'_>) -> Result<(), Unwritable> {
        self.out.write_fmt(text).map_err(|cause| self.unwritable(cause))
    }

    /// Hands everything to the kernel, so that a killed process keeps it.
    pub fn flush(&mut self) -> Result<(), Unwritable> {
        self.out.flush().map_err(|cause| self.unwritable(cause))
    }

    fn unwritable(&self, cause: std::io::Error) -> Unwritable {
        Unwritable { path: self.path.clone(), cause }
    }
}
