//! Exchanges as Parquet, one a row: the columns of the CSV, with times in nanoseconds since 1970.

use crate::parquet::{Cell, Column, Kind, Table};
use plimsoll_analysis::exchange::ExchangeRow;
use std::io::{self, Write};

const fn required(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, is_optional: false }
}

const fn optional(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, is_optional: true }
}

static COLUMNS: [Column; 19] = [
    required("client", Kind::Text),
    required("client_address", Kind::Text),
    required("server", Kind::Text),
    required("server_address", Kind::Text),
    required("protocol", Kind::Text),
    required("requester", Kind::Text),
    required("verb", Kind::Text),
    required("outcome", Kind::Text),
    required("status", Kind::Text),
    required("request_first", Kind::Time),
    required("request_last", Kind::Time),
    required("request_bytes", Kind::Number),
    optional("first_sign", Kind::Time),
    optional("response_first", Kind::Time),
    optional("response_last", Kind::Time),
    optional("response_bytes", Kind::Number),
    optional("response_time_ns", Kind::Number),
    optional("device", Kind::Text),
    optional("sequence", Kind::Number),
];

/// A file of exchanges that is being written.
pub struct Exchanges<W>(Table<W>);

impl<W: Write> Exchanges<W> {
    /// Begins a file.
    pub fn begin(out: W) -> io::Result<Exchanges<W>> {
        Table::begin(out, &COLUMNS).map(Exchanges)
    }

    /// Adds a row.
    pub fn write(&mut self, row: &ExchangeRow) -> io::Result<()> {
        let (client_address, server_address) = (row.client.1.to_string(), row.server.1.to_string());
        let number = |value: Option<i64>| value.map_or(Cell::Empty, Cell::Number);
        let (request, response, message) = (row.request, row.response, row.message.as_ref());
        self.0.write(&[
            Cell::Text(&row.client.0),
            Cell::Text(&client_address),
            Cell::Text(&row.server.0),
            Cell::Text(&server_address),
            Cell::Text(row.protocol),
            Cell::Text(row.requester()),
            Cell::Text(&row.verb),
            Cell::Text(row.outcome.name()),
            Cell::Text(&row.status),
            Cell::Number(request.first.0),
            Cell::Number(request.last.0),
            Cell::Number(request.bytes as i64),
            number(row.first_sign.map(|at| at.0)),
            number(response.map(|response| response.first.0)),
            number(response.map(|response| response.last.0)),
            number(response.map(|response| response.bytes as i64)),
            number(response.map(|response| (response.last - request.last).0)),
            message.map_or(Cell::Empty, |message| Cell::Text(message.device.as_str())),
            number(message.map(|message| message.sequence as i64)),
        ])
    }

    /// Writes what is left, and the end of the file.
    pub fn finish(self) -> io::Result<()> {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use plimsoll_analysis::exchange::MessageName;
    use plimsoll_model::Nanos;
    use plimsoll_model::wire::{Outcome, Span};
    use std::net::SocketAddr;

    #[test]
    fn an_exchange_is_a_row_with_the_columns_of_the_csv() {
        let end = |name: &str, port: u16| (name.to_owned(), SocketAddr::from(([127, 0, 0, 1], port)));
        let mut row = ExchangeRow {
            client: end("client", 50_000),
            server: end("redis", 6379),
            is_asked_by_server: false,
            protocol: "redis",
            verb: "GET".into(),
            outcome: Outcome::Answered,
            status: "OK".into(),
            request: Span { first: Nanos(1), last: Nanos(2), bytes: 3 },
            first_sign: Some(Nanos(4)),
            response: Some(Span { first: Nanos(5), last: Nanos(60), bytes: 7 }),
            message: Some(MessageName { device: "sensor".into(), number: 0, sequence: 8 }),
        };
        let mut file = Vec::new();
        let mut exchanges = Exchanges::begin(&mut file).unwrap();
        exchanges.write(&row).unwrap();
        (row.outcome, row.first_sign, row.response, row.message) = (Outcome::Unanswered, None, None, None);
        exchanges.write(&row).unwrap();
        exchanges.finish().unwrap();
        let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let names: Vec<&str> = rows[0].get_column_iter().map(|(name, _)| name.as_str()).collect();
        let csv = super::super::csv::HEADER.replace("response_time", "response_time_ns");
        assert_eq!(names.join(","), csv);
        let cells = |row: &parquet::record::Row| -> String {
            row.get_column_iter().map(|(_, cell)| cell.to_string()).collect::<Vec<_>>().join(" ")
        };
        let ends = "\"client\" \"127.0.0.1:50000\" \"redis\" \"127.0.0.1:6379\" \"redis\" \"client\"";
        let answered = format!("{ends} \"GET\" \"answered\" \"OK\" 1 2 3 4 5 60 7 58 \"sensor\" 8");
        let unanswered = format!("{ends} \"GET\" \"unanswered\" \"OK\" 1 2 3{}", " null".repeat(7));
        assert_eq!(rows.iter().map(cells).collect::<Vec<_>>(), [answered, unanswered]);
    }
}
