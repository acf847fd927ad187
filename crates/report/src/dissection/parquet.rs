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
    use parquet::record::RowAccessor;
    use plimsoll_model::Nanos;
    use plimsoll_model::wire::{Outcome, Span};
    use std::net::SocketAddr;

    #[test]
    fn an_exchange_is_a_row() {
        let end = |name: &str, port: u16| (name.to_owned(), SocketAddr::from(([127, 0, 0, 1], port)));
        let span = |at: i64| Span { first: Nanos(at), last: Nanos(at + 5), bytes: 10 };
        let mut file = Vec::new();
        let mut exchanges = Exchanges::begin(&mut file).unwrap();
        for response in [Some(span(101)), None] {
            let outcome = if response.is_some() { Outcome::Answered } else { Outcome::Unanswered };
            let row = ExchangeRow {
                client: end("client", 50_000),
                server: end("redis", 6379),
                is_asked_by_server: false,
                protocol: "redis",
                verb: "GET".into(),
                outcome,
                status: String::new(),
                request: span(1),
                first_sign: None,
                response,
                message: None,
            };
            exchanges.write(&row).unwrap();
        }
        exchanges.finish().unwrap();
        let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows[0].get_string(3).unwrap(), "127.0.0.1:6379");
        assert_eq!(rows[0].get_string(6).unwrap(), "GET");
        assert_eq!(rows[0].get_long(10).unwrap(), 6);
        let times: Vec<_> = rows.iter().map(|row| row.get_long(16).ok()).collect();
        assert_eq!(times, [Some(100), None]);
    }
}
