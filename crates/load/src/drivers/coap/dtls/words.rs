//! What is wrong with a session, and what to do about it, for people.

use super::Session;
use dimpl::{Error, SecurityError, TimeoutError};

/// Who gave a client what proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The scenario.
    Scenario,
    /// A bootstrap server of LwM2M.
    Bootstrap,
}

impl Source {
    fn of(self, scenario: &'static str, bootstrap: &'static str) -> &'static str {
        match self {
            Source::Scenario => scenario,
            Source::Bootstrap => bootstrap,
        }
    }

    fn of_all(self) -> &'static str {
        self.of("`coap.dtls`", "what the bootstrap server wrote (0/x/3 and 0/x/5)")
    }

    fn of_key(self) -> &'static str {
        self.of("`coap.dtls.key`", "the key that the bootstrap server wrote (0/x/5)")
    }

    fn of_identity(self) -> &'static str {
        self.of("`coap.dtls.identity`", "the identity that the bootstrap server wrote (0/x/3)")
    }

    fn of_certificate(self) -> &'static str {
        self.of("`connection.tls.certificate`", "the certificate that the bootstrap server wrote (0/x/3)")
    }
}

impl Session {
    /// What went wrong and what to do about it.
    pub(super) fn told(&self, error: &Error) -> String {
        let name = &self.name;
        let is_certified = self.check.is_some();
        match error {
            Error::Timeout(TimeoutError::Connect | TimeoutError::Handshake) if self.heard && is_certified => {
                "the platform does not end the DTLS handshake: it does not trust the client's certificate, or has no \
                 cipher suite in common with Plimsoll"
                    .into()
            }
            Error::Timeout(TimeoutError::Connect | TimeoutError::Handshake) if self.heard => format!(
                "the platform does not end the DTLS handshake of the identity `{name}`: it does not know it, or has \
                 another key for it; look at {}", self.source.of_all()
            ),
            Error::Timeout(_) => {
                "nobody answers the DTLS handshake; is it the platform's port for `coaps://`, usually 5684?".into()
            }
            Error::SecurityError(SecurityError::FatalAlert { description }) => self.told_of_alert(*description),
            Error::SecurityError(SecurityError::ServerFinishedVerificationFailed) if is_certified => {
                "the platform and Plimsoll do not agree on what was said in the DTLS handshake".into()
            }
            Error::SecurityError(SecurityError::ServerFinishedVerificationFailed) => format!(
                "the platform has another key for the identity `{name}` ({})", self.source.of_key()
            ),
            // A hello without any extension is said to be incomplete.
            Error::SecurityError(SecurityError::ExtendedMasterSecretNotNegotiated)
            | Error::IncompleteServerHello => {
                "the platform's DTLS lacks the extended master secret (RFC 7627), without which no session is made here"
                    .into()
            }
            other => format!("DTLS failed: {other}"),
        }
    }

    /// What an alert means where certificates say who is who (RFC 5246 section 7.2.2).
    fn told_of_alert_with_certificates(&self, description: u8) -> String {
        match description {
            _ if self.handshake.is_none() => {
                format!("the platform ended the DTLS session (alert {description})")
            }
            40 | 47 | 71 => format!(
                "the platform refused the DTLS handshake (alert {description}): it has no cipher suite of \
                 ECDHE_ECDSA with AES-GCM or ChaCha20, or wants no certificate"
            ),
            42..=46 | 48 | 49 => format!(
                "the platform refused the client's certificate (alert {description}); does it trust the authority of \
                 {}?",
                self.source.of_certificate()
            ),
            _ => format!("the platform refused the DTLS handshake (alert {description})"),
        }
    }

    /// What an alert means (RFC 5246 section 7.2, RFC 4279 section 2).
    fn told_of_alert(&self, description: u8) -> String {
        let name = &self.name;
        match description {
            _ if self.check.is_some() => self.told_of_alert_with_certificates(description),
            20 | 51 if self.handshake.is_some() => format!(
                "the platform has another key for the identity `{name}` (alert {description}); look at {}",
                self.source.of_key()
            ),
            115 => {
                format!(
                    "the platform does not know the identity `{name}` (alert 115); look at {}",
                    self.source.of_identity()
                )
            }
            40 | 47 | 71 if self.handshake.is_some() => format!(
                "the platform refused the DTLS handshake (alert {description}): it does not know the identity `{name}` \
                 of {}, or does not speak TLS_PSK_WITH_AES_128_CCM_8",
                self.source.of_all()
            ),
            _ if self.handshake.is_none() => {
                format!("the platform ended the DTLS session (alert {description})")
            }
            _ => format!("the platform refused the DTLS handshake (alert {description})"),
        }
    }
}
