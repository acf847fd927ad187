//! Files of rows from which messages take values.

use crate::template::Columns;
use std::sync::Arc;

/// A file that was read.
#[derive(Debug)]
pub struct Texts {
    /// The names of the columns.
    pub columns: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The longest text of each column, in bytes.
    longest: Vec<usize>,
}

/// The rows of a file as so many devices take them.
#[derive(Debug)]
pub struct Table {
    texts: Arc<Texts>,
    first_device: u32,
    devices: u32,
}

impl Table {
    /// Those rows for so many devices, the first of which has that number.
    pub fn new(texts: Arc<Texts>, first_device: u32, devices: u32) -> Table {
        Table { texts, first_device, devices }
    }
}

impl Columns for Table {
    /// Messages take the rows in turn: the first messages of all devices, then their second ones; after the last row the
    /// first comes again.
    fn write(&self, column: usize, device: u32, sequence: u32, out: &mut Vec<u8>) {
        let own = device.saturating_sub(self.first_device);
        let message = u64::from(sequence) * u64::from(self.devices) + u64::from(own);
        let rows = &self.texts.rows;
        let row = (message % rows.len().max(1) as u64) as usize;
        let value = rows.get(row).and_then(|row| row.get(column));
        out.extend_from_slice(value.map(String::as_bytes).unwrap_or_default());
    }

    fn longest(&self, column: usize) -> usize {
        self.texts.longest.get(column).copied().unwrap_or_default()
    }
}

impl Texts {
    fn new(columns: Vec<String>, rows: Vec<Vec<String>>) -> Texts {
        let length = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
        let longest = (0..columns.len()).map(|column| length(column).unwrap_or_default()).collect();
        Texts { columns, rows, longest }
    }

    /// The rows, each with a text for each column; rows of JSON may have fewer.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }
}

/// The rows of a file, by the ending of its name, or why there are none.
pub fn read_texts(file: &str, text: &str) -> Result<Texts, String> {
    let read = match file.rsplit('.').next() {
        Some("jsonl" | "ndjson" | "json") => json_lines(text),
        _ => csv(text),
    };
    match read {
        Ok(read) if read.rows.is_empty() => Err(format!("{file} has no rows")),
        Ok(read) => Ok(read),
        Err(reason) => Err(format!("{file}: {reason}")),
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
        let table = Table { texts, first_device: 0, devices: 2 };
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
