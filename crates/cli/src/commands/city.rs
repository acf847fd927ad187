//! `plimsoll city`: the street segments that `message.feed.city` makes, as a file.

use crate::exit_code;
use crate::failure::Failure;
use clap::Args;
use plimsoll_template::city::{COLUMNS, City as Segments, MOST_SEGMENTS, SEGMENTS};
use std::io::{ErrorKind, Write};

/// Prints the data set of work B as CSV: street segments and speeds
///
/// A row holds a segment and the average speed on it in one hour. The feed
/// `message.feed: { city: {} }` has the same rows.
#[derive(Args)]
#[command(after_help = "Example:
  plimsoll city --segments 1000 --hours 24 > speeds.csv

A scenario takes the file with `message: { feed: { file: speeds.csv } }`. The
rows of an hour stand together; hour 0 is the first of a Monday. Speeds are in
metres per second.")]
pub struct City {
    /// Number of street segments
    #[arg(long, value_name = "N", default_value_t = SEGMENTS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SEGMENTS)))]
    segments: u32,
    /// Number of hours
    #[arg(long, value_name = "H", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    hours: u32,
    /// Makes one city or another; scenarios have `seed`
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl City {
    pub fn perform(self) -> Result<u8, Failure> {
        match self.print(&mut std::io::BufWriter::new(std::io::stdout().lock())) {
            // A reader who has seen enough is no error.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Undoable(error.to_string())),
            _ => Ok(exit_code::MET),
        }
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let city = Segments::new(self.segments, self.seed);
        writeln!(out, "{}", COLUMNS.join(","))?;
        let mut row = Vec::new();
        for hour in 0..u64::from(self.hours) {
            for segment in 0..city.segments() {
                row.clear();
                for column in 0..COLUMNS.len() {
                    if column > 0 {
                        row.push(b',');
                    }
                    city.write(column, segment, hour, &mut row);
                }
                row.push(b'\n');
                out.write_all(&row)?;
            }
        }
        out.flush()
    }
}
