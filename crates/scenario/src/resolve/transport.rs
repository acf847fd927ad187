//! What lies between messages and TCP or UDP: the address says what, `connection.tls` how it is secured by certificates.

use super::identities;
use crate::config::{Connection, Population, Tls};
use crate::context::Context;
use crate::plan::{PlatformPlan, TlsPlan, TransportPlan, WebSocketPlan};
use rustls_pki_types::ServerName;

pub(super) fn resolve(
    connection: &Connection,
    population: &Population,
    platform: Option<&PlatformPlan>,
    context: &mut Context<'_>,
) -> Option<TransportPlan> {
    let endpoint = platform.map(PlatformPlan::endpoint);
    let address = endpoint.as_ref();
    let is_started = platform.is_some_and(|platform| platform.address.is_none());
    let over_datagrams = address.is_some_and(|address| address.protocol.uses_datagrams());
    if over_datagrams && connection.tls.is_none() {
        // In clear, or with the pre-shared keys of `coap.dtls`.
        return Some(TransportPlan::default());
    }
    let Some(address) = address.filter(|address| address.wire.tls || address.wire.websocket) else {
        if connection.tls.is_some() {
            context.error_with_help(
                "connection.tls",
                "the connections are not secured, so there is nothing to say of TLS",
                "write the address as `mqtts://host:8883`, `wss://host/mqtt`, `https://host`, `amqps://host`, `kafkas://host`, `tls://host` (NATS) or `coaps://host`, or take \
                 `tls` out",
            );
        }
        return Some(TransportPlan::default());
    };
    let tls = match (&connection.tls, address.wire.tls) {
        (written, true) => {
            let written = written.clone().unwrap_or_default();
            let mut plan = tls(&written, population, &address.host, context)?;
            if is_started {
                if written.ca.is_some() {
                    let message = "the platform that Plimsoll starts has a certificate that it signed itself";
                    context.error_with_help(
                        "connection.tls.ca",
                        message,
                        "remove `ca`: nobody looks who signed it",
                    );
                }
                plan.verify = false;
            }
            if over_datagrams && plan.identities.devices.is_empty() {
                context.error_with_help(
                    "connection.tls",
                    "over DTLS devices show a certificate (RFC 7252 section 9.1.3.3), and there is none",
                    "add `certificate: FILE` and `key: FILE`; `{device}` may stand in them",
                );
            }
            Some(plan)
        }
        (Some(_), false) => {
            context.error_with_help(
                "connection.tls",
                "a WebSocket of `ws://` is not secured, so there is nothing to say of TLS",
                "write the address as `wss://host/mqtt`, or take `tls` out",
            );
            None
        }
        (None, false) => None,
    };
    let websocket = address.wire.websocket.then(|| {
        let name =
            if address.host.contains(':') { format!("[{}]", address.host) } else { address.host.clone() };
        // The port of a platform that is started is not known before, and no server needs it here.
        let host = if is_started { name } else { format!("{name}:{}", address.port) };
        WebSocketPlan { host, path: address.path.clone() }
    });
    Some(TransportPlan { tls, websocket })
}

fn tls(tls: &Tls, population: &Population, host: &str, context: &mut Context<'_>) -> Option<TlsPlan> {
    if let (Some(_), false) = (&tls.ca, tls.verify) {
        context.error_with_help(
            "connection.tls.verify",
            "`ca` says who may have signed the platform's certificate, `verify: false` that nobody looks",
            "keep one of them",
        );
    }
    let authorities = match &tls.ca {
        Some(file) => match identities::certificates(file, context) {
            Ok(found) => Some(found),
            Err(trouble) => {
                trouble.report(0, "connection.tls.ca", context);
                None
            }
        },
        None => Some(Vec::new()),
    };
    let identities = identities::resolve(tls, population, context);
    let (name, path) = match &tls.server_name {
        Some(name) => (name.as_str(), "connection.tls.server_name"),
        None => (host, "platform.address"),
    };
    let server_name = ServerName::try_from(name.to_owned()).ok();
    if server_name.is_none() {
        context.error_with_help(
            path,
            format!("`{name}` is no name that a certificate can have"),
            "give a host name or an address in `connection.tls.server_name`",
        );
    }
    Some(TlsPlan {
        authorities: authorities?,
        identities: identities.ok()?,
        server_name: server_name?,
        verify: tls.verify,
        resumption: tls.resumption,
    })
}
