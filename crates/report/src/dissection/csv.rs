//! Exchanges as CSV, one a line: times in seconds since 1970 with nanoseconds.

use crate::plain;
use plimsoll_capture::component::Components;
use plimsoll_capture::heard::Exchange;
use plimsoll_capture::marker::Search;
use plimsoll_capture::table::Located;
use plimsoll_model::Nanos;
use std::io::{self, Write};

/// The first line.
pub const HEADER: &str = "client,client_address,server,server_address,protocol,requester,verb,outcome,status,\
request_first,request_last,request_bytes,first_sign,response_first,response_last,response_bytes,\
response_time,device,sequence";

/// Writes one line.
pub fn write(
    out: &mut dyn Write,
    exchange: &Located<Exchange>,
    components: &Components,
    search: &Search,
) -> io::Result<()> {
    let heard = &exchange.heard;
    let [client, server] = exchange.parties.map(|party| components.name(&party));
    write!(
        out,
        "{},{},{},{},{},{},{},{},{},{},{},{},{},",
        plain::csv(&client),
        exchange.client,
        plain::csv(&server),
        exchange.server,
        exchange.protocol.name(),
        heard.requester.name(),
        plain::csv(heard.verb.as_str()),
        heard.outcome.name(),
        plain::csv(heard.status.as_str()),
        seconds(heard.request.first),
        seconds(heard.request.last),
        heard.request.bytes,
        heard.interim.map(seconds).unwrap_or_default(),
    )?;
    match heard.response {
        Some(response) => write!(
            out,
            "{},{},{},{:.9}",
            seconds(response.first),
            seconds(response.last),
            response.bytes,
            (response.last - heard.request.last).as_secs_f64()
        )?,
        None => write!(out, ",,,")?,
    }
    match heard.marker {
        Some(marker) => writeln!(out, ",{},{}", plain::csv(&search.name(marker.device)), marker.sequence),
        None => writeln!(out, ",,"),
    }
}

/// A float would lose the nanoseconds.
fn seconds(at: Nanos) -> String {
    let (whole, part) = (at.0.div_euclid(1_000_000_000), at.0.rem_euclid(1_000_000_000));
    format!("{whole}.{part:09}")
}
