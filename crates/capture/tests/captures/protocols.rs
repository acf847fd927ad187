//! Which protocol a conversation is taken for, on ports at home and elsewhere.

use crate::{folder, read, truth};
use plimsoll_model::wire::Protocol;

/// What an endpoint of the truth may speak: WebSocket begins as HTTP, and MQTT may be carried in it.
fn spoken(endpoint: &str) -> &'static [Protocol] {
    match endpoint {
        "http" => &[Protocol::Http],
        "http2" => &[Protocol::Http2],
        "websocket" => &[Protocol::Http, Protocol::WebSocket],
        "mqtt" => &[Protocol::Mqtt],
        "mqtt-over-websocket" => &[Protocol::Http, Protocol::Mqtt],
        "coap" => &[Protocol::Coap],
        "redis" => &[Protocol::Redis],
        "mongodb" => &[Protocol::MongoDb],
        "postgres" => &[Protocol::Postgres],
        "kafka" => &[Protocol::Kafka],
        "nats" => &[Protocol::Nats],
        "amqp" => &[Protocol::Amqp],
        other => panic!("a protocol that no test knows: {other}"),
    }
}

#[test]
fn nobody_is_taken_for_another() {
    let mut seen = Vec::new();
    for file in std::fs::read_dir(folder()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(stem) = name.strip_suffix(".truth.json.zst") else { continue };
        let truth = truth(stem);
        // Edited captures are copies of others.
        let Some(endpoints) = truth["endpoints"].as_array() else { continue };
        let capture = truth["capture"].as_str().unwrap();
        let reading = read(capture);
        for exchange in &reading.exchanges {
            let port = exchange.server.port;
            let endpoint = endpoints.iter().find(|endpoint| endpoint["port"] == port);
            let endpoint = endpoint.unwrap_or_else(|| panic!("{capture}: a server on port {port}"));
            let protocol = exchange.heard.protocol;
            assert!(
                spoken(endpoint["protocol"].as_str().unwrap()).contains(&protocol),
                "{capture}: {endpoint} {protocol:?}"
            );
            if !seen.contains(&protocol) {
                seen.push(protocol);
            }
        }
    }
    // All but TLS and what is unknown.
    assert_eq!(seen.len(), Protocol::ALL.len() - 2, "{seen:?}");
}
