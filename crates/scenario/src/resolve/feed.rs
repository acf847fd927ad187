//! The feed of a scenario: rows of values from a file or of a city, one row a message.

use super::Context;
use crate::city::{self, City};
use crate::outside::Answers;
use crate::template::Columns;
use crate::written::{Feed, Message};
use std::sync::Arc;

/// The feed files that were read: all plans of a matrix share their rows.
pub(crate) type Feeds = Answers<Result<Arc<Texts>, String>>;

/// A file that was read.
#[derive(Debug)]
pub(crate) struct Texts {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The longest text of each column, in bytes.
    longest: Vec<usize>,
}

/// The rows of a file as so many devices take them.
#[derive(Debug)]
struct Table {
    texts: Arc<Texts>,
    devices: u32,
}

impl Columns for Table {
    /// Messages take the rows in turn: the first messages of all devices, then their second ones; after the last row the
    /// first comes again.
    fn write(&self, column: usize, device: u32, sequence: u32, out: &mut Vec<u8>) {
        let message = u64::from(sequence) * u64::from(self.devices) + u64::from(device);
        let rows = &self.texts.rows;
        let row = (message % rows.len().max(1) as u64) as usize;
        let value = rows.get(row).and_then(|row| row.get(column));
        out.extend_from_slice(value.map(String::as_bytes).unwrap_or_default());
    }

    fn longest(&self, column: usize) -> usize {
        self.texts.longest.get(column).copied().unwrap_or_default()
    }
}

/// A feed that was read: its columns and its rows.
pub(super) struct Read {
    columns: Vec<String>,
    rows: Rows,
}

enum Rows {
    Texts(Arc<Texts>),
    City(City),
}

/// Reads the feed that the scenario names; `None` without one, or where it cannot be read, which is reported.
pub(super) fn read(message: &Message, seed: u64, context: &mut Context<'_>) -> Option<Read> {
    const FEED: &str = "message.feed";
    let help = "write `feed: { file: rows.csv }` or `feed: { city: {} }`";
    match message.feed.as_ref()? {
        Feed { file: Some(file), city: None } => {
            let texts = match context.feeds.get(file, || read_file(file, context)) {
                Ok(texts) => texts,
                Err(reason) => {
                    context.error("message.feed.file", reason);
                    return None;
                }
            };
            Some(Read { columns: texts.columns.clone(), rows: Rows::Texts(texts) })
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

fn read_file(file: &str, context: &Context<'_>) -> Result<Arc<Texts>, String> {
    let text = (context.environment.profile)(file);
    let text = text.map_err(|reason| format!("cannot read the feed `{file}`: {reason}"))?;
    let read = match file.rsplit('.').next() {
        Some("jsonl" | "ndjson" | "json") => json_lines(&text),
        _ => csv(&text),
    };
    match read {
        Ok(read) if read.rows.is_empty() => Err(format!("{file} has no rows")),
        Ok(read) => Ok(Arc::new(read)),
        Err(reason) => Err(format!("{file}: {reason}")),
    }
}

impl Read {
    /// The names of the columns.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows as so many devices take them.
    pub(super) fn table(self, devices: u32) -> Arc<dyn Columns> {
        match self.rows {
            Rows::City(city) => Arc::new(city::Rows { city, devices }),
            Rows::Texts(texts) => Arc::new(Table { texts, devices }),
        }
    }
}

impl Texts {
    fn new(columns: Vec<String>, rows: Vec<Vec<String>>) -> Texts {
        let length = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
        let longest = (0..columns.len()).map(|column| length(column).unwrap_or_default()).collect();
        Texts { columns, rows, longest }
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
    Ok(Texts::new(columns, rows))
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
    Ok(Texts::new(columns, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_taken_in_turn() {
        let texts = Arc::new(csv("id,text\n1,\"a, b\"\n2,c\n3,d\n").unwrap());
        assert_eq!(
            (texts.columns.as_slice(), &texts.longest),
            (["id", "text"].map(String::from).as_slice(), &vec![1, 4])
        );
        let table = Table { texts, devices: 2 };
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
        let Texts { columns, rows, .. } =
            json_lines("{\"a\":1.50,\"b\":\"x\"}\n\n{\"b\":true,\"a\":null,\"c\":0}\n").unwrap();
        assert_eq!((columns, rows.len()), (vec!["a".to_owned(), "b".to_owned()], 2));
        assert_eq!(rows[1], ["null", "true"]);
        assert!(json_lines("{\"a\":1}\n{\"b\":1}\n").is_err_and(|error| error.contains("line 2 has no `a`")));
        assert!(json_lines("[1]\n").is_err_and(|error| error.contains("line 1 is no JSON object")));
        assert!(csv("a,b\n1\n").is_err());
    }
}
