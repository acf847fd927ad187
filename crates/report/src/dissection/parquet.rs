//! Exchanges as Parquet, one a row: the columns of the CSV, with times in nanoseconds since 1970.

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use plimsoll_analysis::exchange::ExchangeRow;
use plimsoll_model::Nanos;
use std::io::{self, Write};
use std::sync::Arc;

const SCHEMA: &str = "message exchange {
    required binary client (STRING);
    required binary client_address (STRING);
    required binary server (STRING);
    required binary server_address (STRING);
    required binary protocol (STRING);
    required binary requester (STRING);
    required binary verb (STRING);
    required binary outcome (STRING);
    required binary status (STRING);
    required int64 request_first (TIMESTAMP(NANOS,true));
    required int64 request_last (TIMESTAMP(NANOS,true));
    required int64 request_bytes;
    optional int64 first_sign (TIMESTAMP(NANOS,true));
    optional int64 response_first (TIMESTAMP(NANOS,true));
    optional int64 response_last (TIMESTAMP(NANOS,true));
    optional int64 response_bytes;
    optional int64 response_time_ns;
    optional binary device (STRING);
    optional int64 sequence;
}";

/// Rows that are kept until they are written as one group.
const GROUP: usize = 1 << 16;
const TEXTS: usize = 9;
const NUMBERS: usize = 3;
const OPTIONS: usize = 5;

/// A file of exchanges that is being written.
pub struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    texts: [Vec<ByteArray>; TEXTS],
    numbers: [Vec<i64>; NUMBERS],
    options: [Optional<i64>; OPTIONS],
    device: Optional<ByteArray>,
    sequence: Optional<i64>,
}

/// A column in which values may be missing.
struct Optional<T> {
    values: Vec<T>,
    /// 1 where there is one.
    levels: Vec<i16>,
}

impl<T> Default for Optional<T> {
    fn default() -> Optional<T> {
        Optional { values: Vec::new(), levels: Vec::new() }
    }
}

impl<T> Optional<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

impl<W: Write + Send> Table<W> {
    /// Begins a file.
    pub fn begin(out: W) -> io::Result<Table<W>> {
        let schema = parse_message_type(SCHEMA).map_err(broken)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer =
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(broken)?;
        Ok(Table {
            writer,
            texts: Default::default(),
            numbers: Default::default(),
            options: Default::default(),
            device: Optional::default(),
            sequence: Optional::default(),
        })
    }

    /// Adds a row.
    pub fn write(&mut self, row: &ExchangeRow) -> io::Result<()> {
        let (client_address, server_address) = (row.client.1.to_string(), row.server.1.to_string());
        let texts = [
            &row.client.0,
            &client_address,
            &row.server.0,
            &server_address,
            row.protocol,
            row.requester(),
            &row.verb,
            row.outcome.name(),
            &row.status,
        ];
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(ByteArray::from(text));
        }
        let request = row.request;
        for (column, number) in
            self.numbers.iter_mut().zip([request.first.0, request.last.0, request.bytes as i64])
        {
            column.push(number);
        }
        let response = row.response;
        let options = [
            row.first_sign.map(|Nanos(at)| at),
            response.map(|response| response.first.0),
            response.map(|response| response.last.0),
            response.map(|response| response.bytes as i64),
            response.map(|response| (response.last - request.last).0),
        ];
        for (column, option) in self.options.iter_mut().zip(options) {
            column.push(option);
        }
        let message = row.message.as_ref();
        self.device.push(message.map(|message| ByteArray::from(message.device.as_str())));
        self.sequence.push(message.map(|message| message.sequence as i64));
        if self.sequence.levels.len() < GROUP { Ok(()) } else { self.write_group().map_err(broken) }
    }

    /// Writes what is left, and the end of the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_group().map_err(broken)?;
        self.writer.close().map(drop).map_err(broken)
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.sequence.levels.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        let mut place = 0_usize;
        while let Some(mut column) = group.next_column()? {
            let option = place.checked_sub(TEXTS + NUMBERS).and_then(|place| self.options.get(place));
            if let Some(texts) = self.texts.get(place) {
                column.typed::<ByteArrayType>().write_batch(texts, None, None)?;
            } else if let Some(numbers) = place.checked_sub(TEXTS).and_then(|place| self.numbers.get(place)) {
                column.typed::<Int64Type>().write_batch(numbers, None, None)?;
            } else if let Some(option) = option {
                column.typed::<Int64Type>().write_batch(&option.values, Some(&option.levels), None)?;
            } else if place == TEXTS + NUMBERS + OPTIONS {
                column.typed::<ByteArrayType>().write_batch(
                    &self.device.values,
                    Some(&self.device.levels),
                    None,
                )?;
            } else {
                column.typed::<Int64Type>().write_batch(
                    &self.sequence.values,
                    Some(&self.sequence.levels),
                    None,
                )?;
            }
            column.close()?;
            place += 1;
        }
        group.close()?;
        self.texts.iter_mut().for_each(Vec::clear);
        self.numbers.iter_mut().for_each(Vec::clear);
        self.options.iter_mut().for_each(Optional::clear);
        self.device.clear();
        self.sequence.clear();
        Ok(())
    }
}

fn broken(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => io::Error::other(error),
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use plimsoll_model::wire::{Outcome, Span};
    use std::net::SocketAddr;

    fn exchange(number: i64) -> ExchangeRow {
        let end = |name: &str, port: u16| (name.to_owned(), SocketAddr::from(([127, 0, 0, 1], port)));
        let span = |at: i64| Span { first: Nanos(at), last: Nanos(at + 5), bytes: 10 };
        let answered = number % 2 == 0;
        ExchangeRow {
            client: end("client", 50_000),
            server: end("redis", 6379),
            is_asked_by_server: false,
            protocol: "redis",
            verb: "GET".into(),
            outcome: if answered { Outcome::Answered } else { Outcome::Unanswered },
            status: String::new(),
            request: span(number),
            first_sign: None,
            response: answered.then(|| span(number + 100)),
            message: None,
        }
    }

    #[test]
    fn what_is_written_is_read_back_over_several_groups() {
        let rows = GROUP as i64 + 3;
        let path = std::env::temp_dir().join(format!("plimsoll-{}.parquet", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        let mut table = Table::begin(file).unwrap();
        (0..rows).for_each(|number| table.write(&exchange(number)).unwrap());
        table.finish().unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            (reader.metadata().num_row_groups(), reader.metadata().file_metadata().num_rows()),
            (2, rows)
        );
        for (number, row) in reader.get_row_iter(None).unwrap().map(Result::unwrap).enumerate() {
            assert_eq!(
                (row.get_string(3).unwrap().as_str(), row.get_string(6).unwrap().as_str()),
                ("127.0.0.1:6379", "GET")
            );
            assert_eq!(row.get_long(16).ok(), (number % 2 == 0).then_some(100), "row {number}");
        }
    }
}
