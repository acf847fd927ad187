//! The feed of a scenario: rows of values from a file or of a city, one row a message.

use super::Context;
use crate::city::{self, City};
use crate::template::Columns;
use crate::written::{Feed, Message};
use std::sync::Arc;

/// A table of texts, in memory.
#[derive(Debug)]
struct Table {
    rows: Vec<Vec<String>>,
    longest: Vec<usize>,
    devices: u32,
}

impl Columns for Table {
    /// Messages take the rows in turn: the first messages of all devices, then their second ones; after the last row the
    /// first comes again.
    fn write(&self, column: usize, device: u32, sequence: u32, out: &mut Vec<u8>) {
        let message = u64::from(sequence) * u64::from(self.devices) + u64::from(device);
        let row = (message % self.rows.len().max(1) as u64) as usize;
        let value = self.rows.get(row).and_then(|row| row.get(column));
        out.extend_from_slice(value.map(String::as_bytes).unwrap_or_default());
    }

    fn longest(&self, column: usize) -> usize {
        self.longest.get(column).copied().unwrap_or_default()
    }
}

/// A feed that was read: its columns and its rows.
pub(super) struct Read {
    columns: Vec<String>,
    rows: Rows,
}

enum Rows {
    Texts(Vec<Vec<String>>),
    City(City),
}

/// A file that was read.
struct Texts {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Reads the feed that the scenario names; `None` without one, or where it cannot be read, which is reported.
pub(super) fn read(message: &Message, seed: u64, context: &mut Context<'_>) -> Option<Read> {
    const FEED: &str = "message.feed";
    let help = "write `feed: { file: rows.csv }` or `feed: { city: {} }`";
    match message.feed.as_ref()? {
        Feed { file: Some(file), city: None } => {
            let Texts { columns, rows } = read_file(file, context)?;
            Some(Read { columns, rows: Rows::Texts(rows) })
        }
        Feed { file: None, city: Some(written) } => {
            let city = City::new(written.segments, seed);
            Some(Read { columns: city::COLUMNS.map(str::to_owned).to_vec(), rows: Rows::City(city) })
        }
        Feed { file: Some(_), city: Some(_) } => {
            context.error_with_help(FEED, "a feed is either a file or a city", help);
            None
        }
        Feed { file: None, city: None } => {
            context.error_with_help(FEED, "the feed has neither a file nor a city", help);
            None
        }
    }
}

fn read_file(file: &str, context: &mut Context<'_>) -> Option<Texts> {
    const FILE: &str = "message.feed.file";
    let text = match (context.environment.profile)(file) {
        Ok(text) => text,
        Err(reason) => {
            context.error(FILE, format!("cannot read the feed `{file}`: {reason}"));
            return None;
        }
    };
    let read = match file.rsplit('.').next() {
        Some("jsonl" | "ndjson" | "json") => json_lines(&text),
        _ => csv(&text),
    };
    match read {
        Ok(read) if !read.rows.is_empty() => return Some(read),
        Ok(_) => context.error(FILE, format!("{file} has no rows")),
        Err(reason) => context.error(FILE, format!("{file}: {reason}")),
    }
    None
}

impl Read {
    /// The names of the columns.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows as so many devices take them.
    pub(super) fn table(self, devices: u32) -> Arc<dyn Columns> {
        let Read { columns, rows } = self;
        let rows = match rows {
            Rows::City(city) => return Arc::new(city::Rows { city, devices }),
            Rows::Texts(rows) => rows,
        };
        let length = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
        let longest = (0..columns.len()).map(|column| length(column).unwrap_or_default()).collect();
        Arc::new(Table { rows, longest, devices })
    }
}

/// Comma-separated values (RFC 4180) with a header line.
fn csv(text: &str) -> Result<Texts, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?;
    let columns = headers.iter().map(str::to_owned).collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        rows.push(record.iter().map(str::to_owned).collect());
    }
    Ok(Texts { columns, rows })
}

/// One JSON object a line. The columns are the keys of the first; a text stands without its quotes, any other value as
/// JSON writes it.
fn json_lines(text: &str) -> Result<Texts, String> {
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line)
            .map_err(|error| format!("line {number} is no JSON object: {error}"))?;
        if columns.is_empty() {
            columns = object.keys().cloned().collect();
        }
        let value = |name: &String| match object.get(name) {
            Some(serde_json::Value::String(text)) => Ok(text.clone()),
            Some(other) => Ok(other.to_string()),
            None => Err(format!("line {number} has no `{name}`, which the first has")),
        };
        rows.push(columns.iter().map(value).collect::<Result<_, _>>()?);
    }
    Ok(Texts { columns, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_taken_in_turn() {
        let Texts { columns, rows } = csv("id,text\n1,\"a, b\"\n2,c\n3,d\n").unwrap();
        assert_eq!(columns, ["id", "text"]);
        let table = Table { rows, longest: vec![1, 4], devices: 2 };
        let value = |column, device, sequence| {
            let mut out = Vec::new();
            table.write(column, device, sequence, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!([value(0, 0, 0), value(0, 1, 0), value(0, 0, 1), value(0, 1, 1)], ["1", "2", "3", "1"]);
        assert_eq!([value(1, 0, 0), value(9, 0, 0)], ["a, b", ""]);
    }

    #[test]
    fn lines_of_json_are_rows() {
        let Texts { columns, rows } =
            json_lines("{\"a\":1.50,\"b\":\"x\"}\n\n{\"b\":true,\"a\":null,\"c\":0}\n").unwrap();
        assert_eq!((columns, rows.len()), (vec!["a".to_owned(), "b".to_owned()], 2));
        assert_eq!(rows[1], ["null", "true"]);
        assert!(json_lines("{\"a\":1}\n{\"b\":1}\n").is_err_and(|error| error.contains("line 2 has no `a`")));
        assert!(json_lines("[1]\n").is_err_and(|error| error.contains("line 1 is no JSON object")));
        assert!(csv("a,b\n1\n").is_err());
    }
}
