//! Requests over HTTP, by a plain client.

use super::{Answer, LARGEST_ANSWER, PARALLELISM, Rendered, Unanswered};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use plimsoll_load::tls_refusal;
use plimsoll_platform::unless_stopped;
use plimsoll_scenario::plan::{Plan, Protocol};
use rustls_pki_types::PrivateKeyDer;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A client that waits so long for an answer. `secured` says that it speaks TLS also where devices do not.
pub(crate) fn client(plan: &Plan, timeout: Duration, secured: bool) -> ureq::Agent {
    ureq::Agent::config_builder()
        .tls_config(tls(plan, secured))
        .http_status_as_error(false)
        .max_redirects(0)
        // A profile may know of methods that have a body although they seldom do.
        .allow_non_standard_methods(true)
        .max_idle_connections_per_host(PARALLELISM)
        .timeout_global(Some(timeout))
        // Devices go directly, too.
        .proxy(None)
        .build()
        .into()
}

/// How the controller secures its connections: as the devices do, with what the first of them shows.
fn tls(plan: &Plan, secured: bool) -> ureq::tls::TlsConfig {
    use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
    let terms = plan.connection.transport.tls.as_ref();
    if terms.is_none() && !secured {
        return TlsConfig::builder().build();
    }
    let authorities = match terms.map(|terms| terms.authorities.as_slice()) {
        None | Some([]) => rustls_native_certs::load_native_certs().certs,
        Some(given) => given.to_vec(),
    };
    let owned = |der: &[u8]| Certificate::from_der(der).to_owned();
    let roots: Vec<_> = authorities.iter().map(|der| owned(der)).collect();
    let identity = terms.and_then(|terms| terms.identities.devices.first()).and_then(|identity| {
        let chain: Vec<_> = identity.chain.iter().map(|der| owned(der)).collect();
        let label = match &*identity.key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        // The client takes keys as text only.
        let text = BASE64_STANDARD.encode(identity.key.secret_der());
        let text = format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n");
        Some(ClientCert::new_with_certs(&chain, PrivateKey::from_pem(text.as_bytes()).ok()?))
    });
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .client_cert(identity)
        .disable_verification(terms.is_some_and(|terms| !terms.verify))
        .build()
}

/// What stands before the paths of requests to a port of the platform.
pub(crate) fn origin(plan: &Plan, address: SocketAddr) -> String {
    let endpoint = plan.platform.address.as_ref();
    let base = endpoint.map(|endpoint| endpoint.path.trim_end_matches('/')).unwrap_or_default();
    let secured = endpoint.filter(|endpoint| endpoint.protocol == Protocol::Http && endpoint.wire.tls);
    let authority = match secured {
        // By the name that the certificate has.
        Some(endpoint) if endpoint.host.contains(':') => format!("[{}]:{}", endpoint.host, address.port()),
        Some(endpoint) => format!("{}:{}", endpoint.host, address.port()),
        None => address.to_string(),
    };
    let scheme = if secured.is_some() { "https" } else { "http" };
    format!("{scheme}://{authority}{base}")
}

/// Sends a request; `None` where the user stops the run before the answer has come.
pub(crate) fn send_unless_stopped(
    client: &ureq::Agent,
    method: &str,
    written: &Rendered,
    stop: &AtomicBool,
) -> Option<Result<Answer, Unanswered>> {
    let (client, method, written) = (client.clone(), method.to_owned(), written.clone());
    unless_stopped(stop, move || send(&client, &method, &written))
}

/// Sends a request.
///
/// # Errors
/// No answer came.
pub(crate) fn send(client: &ureq::Agent, method: &str, written: &Rendered) -> Result<Answer, Unanswered> {
    let mut request = ureq::http::Request::builder().method(method).uri(&written.url);
    for (name, value) in &written.headers {
        request = request.header(name, value.as_slice());
    }
    let request = request.body(written.body.as_slice()).map_err(|error| Unanswered::at(false)(&error))?;
    let host = request.uri().host().unwrap_or_default().to_owned();
    let mut answer = client.run(request).map_err(|error| {
        let refused =
            matches!(&error, ureq::Error::Io(cause) if cause.kind() == std::io::ErrorKind::ConnectionRefused);
        let nobody = refused || matches!(error, ureq::Error::ConnectionFailed | ureq::Error::HostNotFound);
        match of_tls(&error) {
            Some(error) => Unanswered::at(!nobody)(&tls_refusal::told(error, &host)),
            None => Unanswered::at(!nobody)(&error),
        }
    })?;
    let headers = answer.headers().iter().map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    let headers = headers.collect();
    let status = answer.status().as_u16();
    let body = answer.body_mut().with_config().limit(LARGEST_ANSWER).read_to_vec();
    Ok((status, headers, body.map_err(|error| Unanswered::at(true)(&error))?))
}

/// What TLS says, where it is that which failed.
fn of_tls(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}
