//! Another engine of `target broker`: rumqttd, with every limit that it lets be set set by the caller.

use crate::broker::Settings;
use ::rumqttd::{Broker, Config, ConnectionSettings, RouterConfig, ServerSettings};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};

/// Room for messages that a slow subscriber has not taken yet, per topic filter: segments of this many bytes.
const SEGMENT_SIZE: usize = 64 * 1024 * 1024;
/// How many segments are kept before the oldest is forgotten.
const SEGMENTS: usize = 64;
/// Longest wait for CONNECT on a new connection, the most that rumqttd can be told.
const CONNECT_TIMEOUT_MS: u16 = 60_000;

/// Why the broker ended.
#[derive(Debug, thiserror::Error)]
#[error("rumqttd ended: {0}")]
pub struct BrokerError(String);

/// Runs the broker until it fails; it is ended from outside. Its ports must be given, and it has no record.
///
/// # Errors
/// A port is taken, or a thread could not start.
pub fn run(settings: &Settings) -> Result<(), BrokerError> {
    // rumqttd ends without a word where a port is taken.
    for port in [Some(settings.port), settings.port_v5].into_iter().flatten() {
        let address = SocketAddr::new(settings.host, port);
        TcpListener::bind(address).map_err(|error| {
            BrokerError(format!("cannot listen on {address}: {error}; choose another port"))
        })?;
    }
    let router = RouterConfig {
        max_connections: settings.max_connections,
        max_outgoing_packet_count: settings.max_outgoing,
        max_segment_size: SEGMENT_SIZE,
        max_segment_count: SEGMENTS,
        ..RouterConfig::default()
    };
    let config = Config {
        router,
        v4: Some(server(settings, "v4", settings.port)),
        v5: settings.port_v5.map(|port| server(settings, "v5", port)),
        ..Config::default()
    };
    Broker::new(config).start().map_err(|error| BrokerError(error.to_string()))
}

fn server(settings: &Settings, name: &str, port: u16) -> HashMap<String, ServerSettings> {
    let connections = ConnectionSettings {
        connection_timeout_ms: CONNECT_TIMEOUT_MS,
        max_payload_size: settings.max_payload,
        max_inflight_count: usize::from(u16::MAX),
        auth: None,
        external_auth: None,
        dynamic_filters: true,
    };
    let server = ServerSettings {
        name: name.to_owned(),
        listen: SocketAddr::new(settings.host, port),
        tls: None,
        next_connection_delay_ms: 0,
        connections,
    };
    HashMap::from([(name.to_owned(), server)])
}
