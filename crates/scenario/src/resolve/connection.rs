//! How clients connect, whatever they speak.

use super::transport;
use crate::config::{Connection, OfflinePolicy, Population};
use crate::context::Context;
use crate::plan::{ConnectionPlan, Offline, PlatformPlan};
use plimsoll_model::Nanos;
use std::net::IpAddr;

pub(super) fn resolve(
    connection: &Connection,
    population: &Population,
    platform: Option<&PlatformPlan>,
    context: &mut Context<'_>,
) -> Option<ConnectionPlan> {
    if connection.timeout.0 == Nanos::ZERO {
        context.error("connection.timeout", "no connection can be made within zero time");
    }
    let reconnect = (connection.reconnect.from.0, connection.reconnect.to.0);
    if reconnect.0 == Nanos::ZERO {
        context.error("connection.reconnect.from", "the first pause must be longer than zero");
    }
    if reconnect.0 > reconnect.1 {
        context.error("connection.reconnect.to", "the longest pause is shorter than the first");
    }
    let offline = match connection.offline {
        OfflinePolicy::Buffer => Offline::Buffer,
        OfflinePolicy::Drop => Offline::Drop,
        OfflinePolicy::KeepLatest => Offline::KeepLatest,
    };
    let source_addresses = source_addresses(connection, context);
    let transport = transport::resolve(connection, population, platform, context)?;
    Some(ConnectionPlan { transport, timeout: connection.timeout.0, reconnect, offline, source_addresses })
}

/// The addresses that connections leave from.
fn source_addresses(connection: &Connection, context: &mut Context<'_>) -> Vec<IpAddr> {
    let written = connection.source_addresses.iter().flatten().enumerate();
    let addresses = written.filter_map(|(position, written)| match written.parse() {
        Ok(address) => Some(address),
        Err(_) => {
            let message = format!("`{written}` is no IP address");
            let path = format!("connection.source_addresses.{position}");
            context.error_with_help(&path, message, "give addresses of this host, as 192.0.2.17");
            None
        }
    });
    addresses.collect()
}
