//! What is spoken over a WebSocket: MQTT, unless the scenario says otherwise.

use crate::config::OverWebSocket;
use crate::context::Context;
use crate::plan::{Endpoint, Protocol};

/// The address, with what the user says is spoken there.
pub(crate) fn over_websocket(
    address: Option<Endpoint>,
    said: Option<OverWebSocket>,
    context: &mut Context<'_>,
) -> Option<Endpoint> {
    let websocket = address.as_ref().is_some_and(|address| address.wire.websocket);
    if said.is_some() && !websocket {
        context.error_with_help(
            "platform.protocol",
            "`protocol` says what is spoken over a WebSocket, and there is none",
            "write the address as `ws://host:port/path` or `wss://host/path`; other addresses begin with what is spoken",
        );
    }
    let address = address?;
    Some(match said {
        Some(OverWebSocket::Plain) if websocket => Endpoint { protocol: Protocol::WebSocket, ..address },
        _ => address,
    })
}
