//! The record of what really happened.

use crate::record_file::{RecordFile, Unwritable};
use plimsoll_codec::marker::Marker;
use plimsoll_model::Nanos;
use plimsoll_stats::queue::Service;
use std::path::Path;

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
    out: Option<RecordFile>,
}

impl Truth {
    /// A record at that path, or none.
    pub fn begin(path: Option<&Path>) -> Result<Truth, Unwritable> {
        let out = path.map(|path| RecordFile::begin(path, HEADER)).transpose()?;
        Ok(Truth { out })
    }

    /// Writes one message; a refused one has no service.
    pub fn write(
        &mut self,
        marker: Option<Marker>,
        arrival: Nanos,
        service: Option<Service>,
        fate: Fate,
    ) -> Result<(), Unwritable> {
        let Some(out) = &mut self.out else { return Ok(()) };
        match marker {
            Some(marker) => {
                out.write(format_args!("{},{},{},", marker.run, marker.device, marker.sequence))?;
            }
            None => out.write(format_args!(",,,"))?,
        }
        match service {
            Some(Service { begin, departure }) => {
                out.write(format_args!("{},{},{},{}\n", arrival.0, begin.0, departure.0, fate.name()))
            }
            None => out.write(format_args!("{},,,{}\n", arrival.0, fate.name())),
        }
    }

    /// Hands everything to the kernel, so that a killed station keeps it.
    pub fn flush(&mut self) -> Result<(), Unwritable> {
        self.out.as_mut().map_or(Ok(()), RecordFile::flush)
    }
}
