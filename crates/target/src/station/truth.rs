//! The record of what really happened.

use super::StationError;
use plimsoll_codec::marker::Marker;
use plimsoll_model::Nanos;
use plimsoll_stats::queue::Service;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const HEADER: &str = "run,device,sequence,arrival,begin,departure,fate\n";

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Acknowledged and delivered.
    Served {
        /// Delivered twice.
        twice: bool,
        /// Delivered behind a later message of the same connection.
        behind: bool,
    },
    /// Acknowledged and not delivered.
    Dropped,
    /// The queue was full.
    Refused,
    /// The station ended before its departure.
    Unserved,
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Fate::Served { twice: false, behind: false } => "served",
            Fate::Served { twice: true, behind: false } => "duplicated",
            Fate::Served { twice: false, behind: true } => "reordered",
            Fate::Served { twice: true, behind: true } => "duplicated+reordered",
            Fate::Dropped => "dropped",
            Fate::Refused => "refused",
            Fate::Unserved => "unserved",
        }
    }
}

/// Writes the record, one line a message, in the order in which fates become known. Stamps are `CLOCK_MONOTONIC` in
/// nanoseconds.
pub struct Truth {
    out: Option<(BufWriter<File>, PathBuf)>,
}

impl Truth {
    /// A record at that path, or none.
    pub fn begin(path: Option<&Path>) -> Result<Truth, StationError> {
        let Some(path) = path else { return Ok(Truth { out: None }) };
        let failed = |cause| StationError::Truth { path: path.to_owned(), cause };
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        out.write_all(HEADER.as_bytes()).and_then(|()| out.flush()).map_err(failed)?;
        Ok(Truth { out: Some((out, path.to_owned())) })
    }

    /// Writes one message; a refused one has no service.
    pub fn write(
        &mut self,
        marker: Option<Marker>,
        arrival: Nanos,
        service: Option<Service>,
        fate: Fate,
    ) -> Result<(), StationError> {
        let Some((out, path)) = &mut self.out else { return Ok(()) };
        let written = (|| {
            match marker {
                Some(marker) => write!(out, "{},{},{},", marker.run, marker.device, marker.sequence)?,
                None => write!(out, ",,,")?,
            }
            match service {
                Some(Service { begin, departure }) => {
                    writeln!(out, "{},{},{},{}", arrival.0, begin.0, departure.0, fate.name())
                }
                None => writeln!(out, "{},,,{}", arrival.0, fate.name()),
            }
        })();
        written.map_err(|cause| StationError::Truth { path: path.clone(), cause })
    }

    /// Hands everything to the kernel, so that a killed station keeps it.
    pub fn flush(&mut self) -> Result<(), StationError> {
        let Some((out, path)) = &mut self.out else { return Ok(()) };
        out.flush().map_err(|cause| StationError::Truth { path: path.clone(), cause })
    }
}
