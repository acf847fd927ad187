//! Reads a station's record: what really happened, in figures to be held beside those that a generator reports.

use plimsoll_model::{Histogram, Nanos};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// What a station's record says of all its messages.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Messages that arrived.
    pub arrived: u64,
    /// Messages that were served and not lost afterwards.
    pub served: u64,
    /// Messages that were served, after which nothing came back.
    pub dropped: u64,
    /// Messages that found the queue full.
    pub refused: u64,
    /// Messages that were being served when the station ended.
    pub unserved: u64,
    /// First and last arrival, `CLOCK_MONOTONIC`.
    pub span: Option<(Nanos, Nanos)>,
    /// From arrival to departure of what was served.
    pub residence: Histogram,
}

impl Account {
    /// Arrivals per second, from the first to the last; `None` with fewer than two.
    pub fn rate(&self) -> Option<f64> {
        let (first, last) = self.span?;
        let seconds = (last - first).as_secs_f64();
        (seconds > 0.0).then(|| (self.arrived.saturating_sub(1)) as f64 / seconds)
    }
}

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file.
    #[error("cannot read the record {path}: {cause}")]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A line.
    #[error("{path}, line {line}: no line of a station's record")]
    Malformed {
        /// Where.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

/// Reads a record.
///
/// # Errors
/// The file cannot be read, or is no record.
pub fn read(path: &Path) -> Result<Account, RecordError> {
    let unreadable = |cause| RecordError::Unreadable { path: path.to_owned(), cause };
    let mut account = Account::default();
    for (index, line) in BufReader::new(File::open(path).map_err(unreadable)?).lines().enumerate().skip(1) {
        let line = line.map_err(unreadable)?;
        let malformed = RecordError::Malformed { path: path.to_owned(), line: index + 1 };
        let Line { arrival, departure, fate } = Line::read(&line).ok_or(malformed)?;
        account.arrived += 1;
        // Fates become known out of order.
        let (first, last) = account.span.unwrap_or((arrival, arrival));
        account.span = Some((first.min(arrival), last.max(arrival)));
        match fate {
            Fate::Served => account.served += 1,
            Fate::Dropped => account.dropped += 1,
            Fate::Refused => account.refused += 1,
            Fate::Unserved => account.unserved += 1,
        }
        if let (Some(departure), Fate::Served) = (departure, fate) {
            account.residence.record(departure - arrival);
        }
    }
    Ok(account)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Served,
    Dropped,
    Refused,
    Unserved,
}

struct Line {
    arrival: Nanos,
    departure: Option<Nanos>,
    fate: Fate,
}

impl Line {
    fn read(line: &str) -> Option<Line> {
        let mut cells = line.split(',').skip(3);
        let arrival = Nanos(cells.next()?.parse().ok()?);
        let departure = cells.nth(1)?.parse().ok().map(Nanos);
        let fate = match cells.next()? {
            "dropped" => Fate::Dropped,
            "refused" => Fate::Refused,
            "unserved" => Fate::Unserved,
            "served" | "duplicated" | "reordered" | "duplicated+reordered" => Fate::Served,
            _ => return None,
        };
        Some(Line { arrival, departure, fate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(lines: &str) -> Result<Account, RecordError> {
        // Tests run side by side.
        let name = format!("plimsoll-record-{}-{}", std::process::id(), lines.len());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, format!("run,device,sequence,arrival,begin,departure,fate\n{lines}")).unwrap();
        let account = read(&path);
        std::fs::remove_file(&path).unwrap();
        account
    }

    #[test]
    fn fates_are_counted_and_times_are_of_what_was_served() {
        let lines = "1,2,3,1000000,1000000,4000000,duplicated\n,,,0,0,500000,served\n,,,4600000,,,refused\n\
                     ,,,4000000,4000000,4500000,dropped\n";
        let account = account(lines).unwrap();
        assert_eq!((account.arrived, account.served, account.refused, account.dropped), (4, 2, 1, 1));
        assert_eq!(account.span, Some((Nanos(0), Nanos(4_600_000))));
        assert!((account.rate().unwrap() - 3.0 / 0.0046).abs() < 1e-9);
        let longest = account.residence.max().unwrap().0;
        assert!((3_000_000..3_003_000).contains(&longest) && account.residence.count() == 2, "{longest}");
    }

    #[test]
    fn what_is_no_record_is_told_with_its_line() {
        let wrong = account("garbage\n").unwrap_err();
        assert!(wrong.to_string().ends_with("line 2: no line of a station's record"), "{wrong}");
    }
}
