//! Exchanges of a capture as rows, with names in place of addresses and markers: what exports write.

use plimsoll_capture::component::Components;
use plimsoll_capture::marker::Search;
use plimsoll_capture::observations::Exchange;
use plimsoll_capture::packet::Endpoint;
use plimsoll_capture::side::Side;
use plimsoll_capture::table::Located;
use plimsoll_model::Nanos;
use plimsoll_model::wire::{Outcome, Span};
use std::net::SocketAddr;

/// A request and what became of it. Times count from 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeRow {
    /// Who opened the connection, and from where.
    pub client: (String, SocketAddr),
    /// Who was called, and where.
    pub server: (String, SocketAddr),
    /// Whether the server asked, as in a notification over the client's connection.
    pub is_asked_by_server: bool,
    /// What was spoken.
    pub protocol: &'static str,
    /// What for.
    pub verb: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Of the response, empty without one.
    pub status: String,
    /// The request.
    pub request: Span,
    /// When a first sign of life came that did not end the exchange.
    pub first_sign: Option<Nanos>,
    /// The response, where there was one.
    pub response: Option<Span>,
    /// The message that it carried.
    pub message: Option<MessageName>,
}

/// A message by its marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageName {
    /// The number of its device, or what stands for it.
    pub number: u32,
    /// Its device.
    pub device: String,
    /// Its sequence within its device.
    pub sequence: u64,
}

impl ExchangeRow {
    /// The row of an exchange.
    pub fn of(exchange: &Located<Exchange>, components: &Components, search: &Search) -> ExchangeRow {
        let observed = &exchange.observed;
        let [client, server] = exchange.parties.map(|party| components.name(&party));
        let address = |end: Endpoint| SocketAddr::new(end.ip(), end.port);
        ExchangeRow {
            client: (client, address(exchange.client)),
            server: (server, address(exchange.server)),
            is_asked_by_server: observed.requester == Side::Server,
            protocol: exchange.protocol.name(),
            verb: observed.verb.as_str().to_owned(),
            outcome: observed.outcome,
            status: observed.status.as_str().to_owned(),
            request: observed.request,
            first_sign: observed.interim,
            response: observed.response,
            message: observed.marker.map(|marker| MessageName {
                number: marker.device,
                device: search.name(marker.device),
                sequence: marker.sequence,
            }),
        }
    }

    /// Who asked, and who was asked.
    pub fn asker_and_asked(&self) -> [&(String, SocketAddr); 2] {
        if self.is_asked_by_server { [&self.server, &self.client] } else { [&self.client, &self.server] }
    }

    /// Which end of the connection asked.
    pub fn requester(&self) -> &'static str {
        if self.is_asked_by_server { Side::Server.name() } else { Side::Client.name() }
    }
}
