//! TLS under a client's session, without I/O: what comes from the network and what goes to it are bytes.

use super::records::RecordMeter;
use crate::driver::{Client, Records, Traffic};
use crate::tls_refusal;
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{ClientIdentity, Identities, TlsPlan};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, KeyLog, NamedGroup,
    ProtocolVersion, RootCertStore, SignatureScheme,
};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// What all clients of a run have in common.
pub struct Terms {
    config: ClientConfig,
    identities: Identities,
    provider: Arc<CryptoProvider>,
    server_name: ServerName<'static>,
    resumption: bool,
}

impl Terms {
    /// Of a plan, with a log that sessions leave their keys in, where there is one.
    ///
    /// # Errors
    /// This host has no authorities to trust, or the key and the certificate of all clients do not belong together.
    pub fn new(plan: &TlsPlan, keys: Option<Arc<dyn KeyLog>>) -> Result<Terms, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| tls_refusal::told(&error, &plan.server_name.to_str()))?;
        let builder = if plan.verify {
            builder.with_root_certificates(authorities(plan)?)
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(Arc::clone(&provider))))
        };
        let mut config = builder.with_no_client_auth();
        let identities = plan.identities.clone();
        // One for all is known to be good before anybody connects.
        if let [identity] = &*identities.devices {
            config.client_auth_cert_resolver = shown(identity, &provider)?;
        }
        config.resumption = Resumption::disabled();
        if let Some(keys) = keys {
            config.key_log = keys;
        }
        let (server_name, resumption) = (plan.server_name.clone(), plan.resumption);
        Ok(Terms { config, identities, provider, server_name, resumption })
    }

    /// The terms of one client, who keeps its own tickets: clients are different machines, and one has no other's.
    ///
    /// # Errors
    /// The key and the certificate of this client do not belong together.
    pub fn of_client(&self, client: Client) -> Result<Arc<ClientConfig>, String> {
        let mut config = self.config.clone();
        let (all, kind, number) = match client {
            Client::Device(device) => (&self.identities.devices, "device", device),
            Client::Subscriber(subscriber) => (&self.identities.subscribers, "subscriber", subscriber),
        };
        let first = match client {
            Client::Device(_) => self.identities.first_device,
            Client::Subscriber(_) => self.identities.first_subscriber,
        };
        let place = number.saturating_sub(first) as usize;
        let shared = Arc::ptr_eq(all, &self.identities.devices) && all.len() == 1;
        if let Some(identity) = all.get(place).or(all.first()).filter(|_| !shared) {
            config.client_auth_cert_resolver =
                shown(identity, &self.provider).map_err(|reason| format!("{kind} {number}: {reason}"))?;
        }
        if self.resumption {
            config.resumption = Resumption::store(Arc::new(Tickets::default()));
        }
        Ok(Arc::new(config))
    }
}

/// How one client secures its connections, for those beside the load.
///
/// # Errors
/// Those of [`Terms::new`] and of [`Terms::of_client`].
pub fn of_client(plan: &TlsPlan, client: Client) -> Result<Arc<ClientConfig>, String> {
    Terms::new(plan, None)?.of_client(client)
}

/// Finds out whether the certificates and keys of a plan can be used, before anybody connects.
///
/// # Errors
/// Those of [`Terms::new`] and of [`Terms::of_client`].
pub fn check(plan: &TlsPlan) -> Result<(), String> {
    let terms = Terms::new(plan, None)?;
    let Identities { devices, subscribers, first_device, first_subscriber } = &plan.identities;
    let clients = |all: &[ClientIdentity], first: u32, client: fn(u32) -> Client| {
        (0..all.len() as u32).try_for_each(|place| terms.of_client(client(first + place)).map(drop))
    };
    clients(devices, *first_device, Client::Device)?;
    clients(subscribers, *first_subscriber, Client::Subscriber)
}

/// What is shown to a platform that asks.
fn shown(identity: &ClientIdentity, provider: &CryptoProvider) -> Result<Arc<SingleCertAndKey>, String> {
    let (chain, key) = (identity.chain.clone(), identity.key.clone_key());
    let key =
        CertifiedKey::from_der(chain, key, provider).map_err(|error| tls_refusal::told_of_ours(&error))?;
    Ok(Arc::new(SingleCertAndKey::from(key)))
}

/// Whom a plan trusts.
///
/// # Errors
/// This host trusts nobody, or an authority cannot be used: why, for people.
pub fn authorities(plan: &TlsPlan) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    if plan.authorities.is_empty() {
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if store.is_empty() {
            return Err(
                "this host trusts no certificate authority; give one in `connection.tls.ca`, or by --ca FILE"
                    .into(),
            );
        }
        return Ok(store);
    }
    for authority in &plan.authorities {
        store.add(authority.clone()).map_err(|error| tls_refusal::told_of_authority(&error))?;
    }
    Ok(store)
}

/// The client's side of one secured connection.
pub struct Tls {
    connection: ClientConnection,
    server_name: ServerName<'static>,
    to_platform: RecordMeter,
    from_platform: RecordMeter,
    sent: Records,
    received: Records,
    /// Bytes that were secured and are not handed down yet.
    sealing: u64,
}

/// A handshake that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// From the TCP connection to its end.
    pub took: Nanos,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
}

impl Tls {
    /// Before the handshake.
    ///
    /// # Errors
    /// The name cannot be asked for.
    pub fn new(terms: &Terms, config: &Arc<ClientConfig>) -> Result<Tls, String> {
        let server_name = terms.server_name.clone();
        let mut connection = ClientConnection::new(Arc::clone(config), server_name.clone())
            .map_err(|error| tls_refusal::told(&error, &server_name.to_str()))?;
        // What is secured is handed on at once, so that nothing piles up.
        connection.set_buffer_limit(None);
        Ok(Tls {
            connection,
            server_name,
            to_platform: RecordMeter::default(),
            from_platform: RecordMeter::default(),
            sent: Records::default(),
            received: Records::default(),
            sealing: 0,
        })
    }

    /// Whether the handshake is still going on.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the handshake resumed an earlier session.
    pub fn resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Ways there and back that the handshake took.
    pub fn round_trips(&self) -> u32 {
        let of_version = match self.connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => 1,
            _ if self.resumed() => 1,
            _ => 2,
        };
        let retried = self.connection.handshake_kind() == Some(HandshakeKind::FullWithHelloRetryRequest);
        of_version + u32::from(retried)
    }

    /// Takes in what came from the network, and appends what it says in clear.
    ///
    /// # Errors
    /// The platform broke the protocol, or one side does not trust the other: why, for people.
    pub fn incoming(&mut self, mut bytes: &[u8], clear: &mut Vec<u8>) -> Result<(), String> {
        let handshaking = self.is_handshaking();
        let (records, before) = (self.from_platform.passed(bytes), clear.len());
        let length = bytes.len();
        while !bytes.is_empty() {
            let taken = self.connection.read_tls(&mut bytes).map_err(|error| error.to_string())?;
            let state = self
                .connection
                .process_new_packets()
                .map_err(|error| tls_refusal::told(&error, &self.server_name.to_str()))?;
            let ready = state.plaintext_bytes_to_read();
            let from = clear.len();
            clear.resize(from + ready, 0);
            if let Some(room) = clear.get_mut(from..) {
                self.connection.reader().read_exact(room).map_err(|error| error.to_string())?;
            }
            if taken == 0 && ready == 0 {
                break;
            }
        }
        if !handshaking {
            let secured = (clear.len() - before) as u64;
            // Tickets, which come by themselves, secure nothing of ours.
            if secured > 0 {
                self.received += Records { count: records, bytes: length as u64, secured };
            }
        }
        Ok(())
    }

    /// Adds the records since the last call to the traffic.
    pub fn book(&mut self, traffic: &mut Traffic) {
        traffic.records_sent += std::mem::take(&mut self.sent);
        traffic.records_received += std::mem::take(&mut self.received);
    }

    /// Secures bytes.
    pub fn secure(&mut self, clear: &[u8]) {
        self.sealing += clear.len() as u64;
        // Without a limit, writing into memory neither fails nor stops half-way.
        let _ = self.connection.writer().write_all(clear);
    }

    /// Appends what is to go to the network.
    pub fn outgoing(&mut self, out: &mut Vec<u8>) {
        let (handshaking, before) = (self.is_handshaking(), out.len());
        self.encrypted(out);
        let made = out.get(before..).unwrap_or_default();
        let count = self.to_platform.passed(made);
        // The end of a handshake and goodbyes secure nothing of ours.
        let secured = std::mem::take(&mut self.sealing);
        if !handshaking && secured > 0 {
            self.sent += Records { count, bytes: made.len() as u64, secured };
        }
    }

    fn encrypted(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // A vector takes everything.
            if self.connection.write_tls(out).is_err() {
                return;
            }
        }
    }

    /// Says that nothing follows.
    pub fn close(&mut self) {
        self.connection.send_close_notify();
    }
}

/// The newest ticket of one client (RFC 8446, 4.6.1), or its session of TLS 1.2.
#[derive(Debug, Default)]
struct Tickets(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    group: Option<NamedGroup>,
    session: Option<Tls12ClientSessionValue>,
    ticket: Option<Tls13ClientSessionValue>,
}

impl Tickets {
    fn with<T>(&self, act: impl FnOnce(&mut Kept) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.with(|kept| kept.group = Some(group));
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.with(|kept| kept.group)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.with(|kept| kept.session = Some(value));
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.with(|kept| kept.session.clone())
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.with(|kept| kept.session = None);
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.with(|kept| kept.ticket = Some(value));
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.with(|kept| kept.ticket.take())
    }
}

/// Takes any certificate, as the scenario asks for. That the platform has its key is checked all the same, except where the
/// certificate has a form that the key cannot be read of (X.509 version 1).
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match unreadable(certificate) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => verify_tls12_signature(
                message,
                certificate,
                signed,
                &self.0.signature_verification_algorithms,
            ),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match unreadable(certificate) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => verify_tls13_signature(
                message,
                certificate,
                signed,
                &self.0.signature_verification_algorithms,
            ),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn unreadable(certificate: &CertificateDer<'_>) -> bool {
    webpki::EndEntityCert::try_from(certificate).is_err()
}
