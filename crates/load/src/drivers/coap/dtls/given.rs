//! Sessions with what a bootstrap server of LwM2M gave to a device for its server.

use super::super::certificates::Check;
use super::words::Source;
use super::{Session, Terms, builder};
use dimpl::DtlsCertificate;
use dimpl::crypto::rust_crypto;
use plimsoll_model::Nanos;
use std::sync::Arc;

/// The longest identity and key that a server may give to a client, in bytes: far more than others have (RFC 4279
/// section 5.3).
const LONGEST_KEY: usize = 1024;
/// The same for a certificate and its private key.
const LONGEST_CERTIFICATE: usize = 8192;

/// What proves who a client is and who its server, where another server gave that to it. Certificates and their keys
/// are in DER.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A pre-shared key.
    Key {
        /// The identity that the server knows it by.
        identity: Vec<u8>,
        /// The key.
        key: Vec<u8>,
    },
    /// A certificate.
    Certificate {
        /// That of the client.
        own: Vec<u8>,
        /// Its private key (PKCS #8).
        private_key: Vec<u8>,
        /// That of the server, which shows this one and no other.
        server: Vec<u8>,
    },
}

/// What they are is not shown.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(..)")
    }
}

impl Terms {
    /// A new session with what another server gave to the client for it, which begins now.
    ///
    /// # Errors
    /// That cannot be used: why, for people.
    pub fn session_with(&self, credentials: &Credentials, now: Nanos) -> Result<Session, String> {
        match credentials {
            Credentials::Key { identity, key } => {
                if key.is_empty() || identity.len().max(key.len()) > LONGEST_KEY {
                    let (identity, key) = (identity.len(), key.len());
                    return Err(format!(
                        "the bootstrap server wrote an identity of {identity} bytes (0/x/3) and a key of {key} bytes \
                         (0/x/5); a key has 1 byte at least, and each has {LONGEST_KEY} at most"
                    ));
                }
                self.by_key((identity.clone(), key.clone()), Source::Bootstrap, now)
            }
            Credentials::Certificate { own, private_key, server } => {
                let lengths = [own, private_key, server].map(Vec::len);
                if lengths.contains(&0) || lengths.iter().any(|length| *length > LONGEST_CERTIFICATE) {
                    return Err(format!(
                        "the bootstrap server wrote a certificate (0/x/3), a private key (0/x/5) or a certificate of \
                         the server (0/x/4) that is empty or longer than {LONGEST_CERTIFICATE} bytes"
                    ));
                }
                let provider = rust_crypto::default_provider();
                if provider.key_provider.load_private_key(private_key).is_err() {
                    let reason = "the private key that the bootstrap server wrote (0/x/5) is none for the curve \
                                  P-256 or P-384 in DER (PKCS #8)";
                    return Err(reason.into());
                }
                let config = match self.given.get() {
                    Some(known) => Arc::clone(known),
                    None => {
                        let made = builder(self.timeout).with_crypto_provider(provider).build();
                        let made = made.map_err(|error| format!("DTLS cannot begin: {error}"))?;
                        Arc::clone(self.given.get_or_init(|| Arc::new(made)))
                    }
                };
                let own = DtlsCertificate { certificate: own.clone(), private_key: private_key.clone() };
                let check = Arc::new(Check::that_is(server));
                Ok(self.by_certificate((config, own), check, Source::Bootstrap, now))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Server, speak, terms};
    use super::*;
    use dimpl::{Config, Dtls};

    /// A certificate that it has signed itself, and its private key, in DER.
    fn certificate() -> (Vec<u8>, Vec<u8>) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["harbour".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().der().to_vec(), key.serialize_der())
    }

    #[test]
    fn what_a_bootstrap_server_gave_secures_a_session() {
        let terms = terms("another ");
        let key = Credentials::Key { identity: b"me".to_vec(), key: b"sesame".to_vec() };
        let mut server = Server::new("sesame", terms.origin);
        let mut session = terms.session_with(&key, Nanos::ZERO).unwrap();
        assert!(speak(&mut session, &mut server, || false).is_ok());
        let mut session = terms.session_with(&key, Nanos::ZERO).unwrap();
        let mut server = Server::new("open", terms.origin);
        let reason = speak(&mut session, &mut server, || false).unwrap_err();
        assert!(reason.contains("`me`") && reason.contains("bootstrap server wrote (0/x/"), "{reason}");
        for key in [Vec::new(), vec![7; LONGEST_KEY + 1]] {
            let reason =
                terms.session_with(&Credentials::Key { identity: b"me".to_vec(), key }, Nanos::ZERO).err();
            assert!(reason.unwrap().contains("0/x/5"));
        }
    }

    #[test]
    fn so_does_a_certificate_that_it_gave() {
        let terms = terms("another ");
        let ((own, private_key), (shown, server_key)) = (certificate(), certificate());
        let server = || {
            let config = Config::builder().dtls13_cipher_suites(&[]);
            let config = config.with_crypto_provider(rust_crypto::default_provider()).build().unwrap();
            let own = DtlsCertificate { certificate: shown.clone(), private_key: server_key.clone() };
            let dtls = Dtls::new_12(Arc::new(config), own, terms.origin);
            Server { dtls, origin: terms.origin, heard: Vec::new() }
        };
        let with = |private_key: &[u8], server: &[u8]| {
            let (own, private_key, server) = (own.clone(), private_key.to_vec(), server.to_vec());
            terms.session_with(&Credentials::Certificate { own, private_key, server }, Nanos::ZERO)
        };
        for _ in 0..2 {
            assert!(
                speak(&mut with(&private_key, &shown).unwrap(), &mut server(), || false).is_ok(),
                "those after the first one have the same configuration"
            );
        }
        let reason = speak(&mut with(&private_key, &own).unwrap(), &mut server(), || false).unwrap_err();
        assert!(reason.contains("another certificate than the bootstrap server wrote (0/x/4)"), "{reason}");
        for (key, known) in [(&b"none"[..], shown.as_slice()), (b"", &shown), (&private_key, b"")] {
            assert!(with(key, known).err().is_some_and(|reason| reason.contains("0/x/")));
        }
    }
}
