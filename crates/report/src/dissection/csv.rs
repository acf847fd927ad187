//! Exchanges as CSV, one a line: times in seconds since 1970 with nanoseconds.

use crate::plain;
use plimsoll_analysis::exchange::ExchangeRow;
use plimsoll_model::Nanos;
use std::io::{self, Write};

/// The first line.
pub const HEADER: &str = "client,client_address,server,server_address,protocol,requester,verb,outcome,status,\
request_first,request_last,request_bytes,first_sign,response_first,response_last,response_bytes,\
response_time,device,sequence";

/// Writes one line.
pub fn write(out: &mut dyn Write, row: &ExchangeRow) -> io::Result<()> {
    write!(
        out,
        "{},{},{},{},{},{},{},{},{},{},{},{},{},",
        plain::csv(&row.client.0),
        row.client.1,
        plain::csv(&row.server.0),
        row.server.1,
        row.protocol,
        row.requester(),
        plain::csv(&row.verb),
        row.outcome.name(),
        plain::csv(&row.status),
        seconds(row.request.first),
        seconds(row.request.last),
        row.request.bytes,
        row.first_sign.map(seconds).unwrap_or_default(),
    )?;
    match row.response {
        Some(response) => write!(
            out,
            "{},{},{},{:.9}",
            seconds(response.first),
            seconds(response.last),
            response.bytes,
            (response.last - row.request.last).as_secs_f64()
        )?,
        None => write!(out, ",,,")?,
    }
    match &row.message {
        Some(message) => writeln!(out, ",{},{}", plain::csv(&message.device), message.sequence),
        None => writeln!(out, ",,"),
    }
}

/// A float would lose the nanoseconds.
fn seconds(at: Nanos) -> String {
    let (whole, part) = (at.0.div_euclid(1_000_000_000), at.0.rem_euclid(1_000_000_000));
    format!("{whole}.{part:09}")
}
