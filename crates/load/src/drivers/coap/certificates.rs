//! Certificates under DTLS (RFC 7252 section 9.1.3.3): which one a client shows, and whether that of the platform is good.

use crate::drivers::stream::layers::authorities;
use crate::tls_refusal;
use dimpl::crypto::rust_crypto;
use dimpl::{Config, ConfigBuilder, DtlsCertificate};
use plimsoll_scenario::plan::{ClientIdentity, DtlsPlan, ProofPlan, TlsPlan};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;

/// Those of a shard's clients of one kind.
pub struct Certificates {
    config: Arc<Config>,
    shown: Arc<[ClientIdentity]>,
    /// The number of the client that the first of them is for.
    first: u32,
    check: Arc<Check>,
}

/// Whether the platform is who it should be.
pub enum Check {
    /// Nobody looks.
    Nothing,
    /// An authority says that it has this name.
    Name(Arc<WebPkiServerVerifier>, ServerName<'static>),
    /// It shows this certificate, in DER, whoever signed it.
    Certificate(Box<[u8]>),
}

impl Certificates {
    /// As the plan says it; what the sessions have in common beside that is configured already.
    ///
    /// # Errors
    /// A certificate or key cannot be used: why, for people.
    pub fn new(plan: &TlsPlan, are_subscribers: bool, config: ConfigBuilder) -> Result<Certificates, String> {
        let identities = &plan.identities;
        let (shown, first, kind) = match are_subscribers {
            true => (&identities.subscribers, identities.first_subscriber, "subscriber"),
            false => (&identities.devices, identities.first_device, "device"),
        };
        let provider = rust_crypto::default_provider();
        for (number, identity) in (first..).zip(shown.iter()) {
            let is_known = provider.key_provider.load_private_key(identity.key.secret_der()).is_ok();
            if !is_known {
                let of_whom = if shown.len() > 1 { format!(" of {kind} {number}") } else { String::new() };
                return Err(format!(
                    "the private key{of_whom} is not for the curve P-256 or P-384, which DTLS needs here; `openssl genpkey \
                     -algorithm EC -pkeyopt ec_paramgen_curve:P-256` makes one"
                ));
            }
        }
        let config = config.with_crypto_provider(provider).build();
        let config = config.map_err(|error| format!("DTLS cannot begin: {error}"))?;
        let check = match plan.verify {
            true => {
                let crypto = Arc::new(rustls::crypto::ring::default_provider());
                let built =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(authorities(plan)?), crypto).build();
                let verifier = built.map_err(|error| format!("the authorities cannot be used: {error}"))?;
                Check::Name(verifier, plan.server_name.clone())
            }
            false => Check::Nothing,
        };
        let (config, check) = (Arc::new(config), Arc::new(check));
        Ok(Certificates { config, shown: Arc::clone(shown), first, check })
    }

    /// What all sessions have in common.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config)
    }

    /// What the client of that number shows, which is its own certificate without those that lead to its authority: the library
    /// sends one.
    pub fn of(&self, number: u32) -> DtlsCertificate {
        let own = self.shown.get(number.saturating_sub(self.first) as usize).or(self.shown.first());
        let certificate =
            own.and_then(|identity| identity.chain.first()).map(|certificate| certificate.to_vec());
        let private_key = own.map(|identity| identity.key.secret_der().to_vec());
        DtlsCertificate {
            certificate: certificate.unwrap_or_default(),
            private_key: private_key.unwrap_or_default(),
        }
    }

    /// How the platform is checked.
    pub fn check(&self) -> Arc<Check> {
        Arc::clone(&self.check)
    }
}

impl Check {
    /// That it shows that certificate, in DER.
    pub fn that_is(certificate: &[u8]) -> Check {
        Check::Certificate(certificate.into())
    }

    /// Looks at the platform's certificate.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn verify(&self, certificate: &[u8]) -> Result<(), String> {
        match self {
            Check::Nothing => Ok(()),
            Check::Name(verifier, name) => {
                let certificate = CertificateDer::from(certificate);
                let verified = verifier.verify_server_cert(&certificate, &[], name, &[], UnixTime::now());
                verified.map(drop).map_err(|error| tls_refusal::told(&error, &name.to_str()))
            }
            Check::Certificate(known) if **known == *certificate => Ok(()),
            Check::Certificate(_) => {
                Err("the server shows another certificate than the bootstrap server wrote (0/x/4)".into())
            }
        }
    }
}

/// Finds out whether the certificates and keys of a plan can be used for DTLS, before anybody connects.
///
/// # Errors
/// Those of [`Certificates::new`].
pub fn check_certificates(plan: &DtlsPlan) -> Result<(), String> {
    let ProofPlan::Certificates(tls) = &plan.proof else { return Ok(()) };
    [false, true].iter().try_for_each(|kind| Certificates::new(tls, *kind, Config::builder()).map(drop))
}
