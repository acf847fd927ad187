//! What lies between messages and TCP: the address says what, `mqtt.tls` how it is secured.

use super::Context;
use crate::plan::{ClientIdentity, Endpoint, TlsPlan, TransportPlan, WebSocketPlan};
use crate::written::{Mqtt, Tls};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::sync::Arc;

pub(super) fn resolve(
    mqtt: &Mqtt,
    address: Option<&Endpoint>,
    context: &mut Context<'_>,
) -> Option<TransportPlan> {
    let Some(address) = address.filter(|address| address.wire.tls || address.wire.websocket) else {
        if mqtt.tls.is_some() {
            context.error_with_help(
                "mqtt.tls",
                "the connections are not secured, so there is nothing to say of TLS",
                "write the address as `mqtts://host:8883` or `wss://host/mqtt`, or take `tls` out",
            );
        }
        return Some(TransportPlan::default());
    };
    let tls = match (&mqtt.tls, address.wire.tls) {
        (written, true) => Some(tls(&written.clone().unwrap_or_default(), &address.host, context)?),
        (Some(_), false) => {
            context.error_with_help(
                "mqtt.tls",
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
        WebSocketPlan { host: format!("{name}:{}", address.port), path: address.path.clone() }
    });
    Some(TransportPlan { tls, websocket })
}

fn tls(tls: &Tls, host: &str, context: &mut Context<'_>) -> Option<TlsPlan> {
    if let (Some(_), false) = (&tls.ca, tls.verify) {
        context.error_with_help(
            "mqtt.tls.verify",
            "`ca` says who may have signed the platform's certificate, `verify: false` that nobody looks",
            "keep one of them",
        );
    }
    let authorities = match &tls.ca {
        Some(path) => certificates(path, "mqtt.tls.ca", context),
        None => Some(Vec::new()),
    };
    let identity = identity(tls, context);
    let (name, path) = match &tls.server_name {
        Some(name) => (name.as_str(), "mqtt.tls.server_name"),
        None => (host, "platform.address"),
    };
    let server_name = ServerName::try_from(name.to_owned()).ok();
    if server_name.is_none() {
        context.error_with_help(
            path,
            format!("`{name}` is no name that a certificate can have"),
            "give a host name or an address in `mqtt.tls.server_name`",
        );
    }
    Some(TlsPlan {
        authorities: authorities?,
        identity: identity.ok()?,
        server_name: server_name?,
        verify: tls.verify,
        resumption: tls.resumption,
    })
}

/// The client certificate and its key; the error was reported.
fn identity(tls: &Tls, context: &mut Context<'_>) -> Result<Option<ClientIdentity>, ()> {
    let (certificate, key) = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) => return Ok(None),
        (Some(_), None) => {
            context.error_with_help(
                "mqtt.tls.certificate",
                "a certificate without its private key proves nothing",
                "add `key: FILE`",
            );
            return Err(());
        }
        (None, Some(_)) => {
            context.error_with_help(
                "mqtt.tls.key",
                "the certificate of this key is missing",
                "add `certificate: FILE`",
            );
            return Err(());
        }
    };
    let chain = certificates(certificate, "mqtt.tls.certificate", context);
    let key = private_key(key, context);
    Ok(Some(ClientIdentity { chain: chain.ok_or(())?, key: Arc::new(key.ok_or(())?) }))
}

fn certificates(file: &str, path: &str, context: &mut Context<'_>) -> Option<Vec<CertificateDer<'static>>> {
    let text = read(file, path, context)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => return Some(found),
        Ok(_) => context.error_with_help(
            path,
            format!("`{file}` holds no certificate"),
            "a certificate in PEM begins with `-----BEGIN CERTIFICATE-----`; one in DER is turned into PEM by \
             `openssl x509 -inform der -in FILE`",
        ),
        Err(error) => context.error(path, format!("`{file}` is malformed: {error}")),
    }
    None
}

fn private_key(file: &str, context: &mut Context<'_>) -> Option<PrivateKeyDer<'static>> {
    const PATH: &str = "mqtt.tls.key";
    let text = read(file, PATH, context)?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
    if key.is_err() {
        context.error_with_help(
            PATH,
            format!("`{file}` holds no private key that can be read"),
            "it must be in PEM and not encrypted: `openssl pkey -in FILE` takes the password off",
        );
    }
    key.ok()
}

fn read(file: &str, path: &str, context: &mut Context<'_>) -> Option<String> {
    match (context.environment.profile)(file) {
        Ok(text) => Some(text),
        Err(reason) => {
            context.error(path, format!("cannot read `{file}`: {reason}"));
            None
        }
    }
}
