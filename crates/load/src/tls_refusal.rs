//! Why TLS failed, for people who have to do something about it. The errors of the library are names of variants.

use rustls::{AlertDescription, CertificateError, Error, OtherError};

/// What gives another authority.
const AUTHORITY: &str = "give the certificate of its authority by --ca FILE (`connection.tls.ca`)";
/// What does without the check.
const UNCHECKED: &str = "--insecure (`connection.tls.verify: false`) does without the check";
/// What gives the clients a certificate.
const OURS: &str = "--cert FILE and --key FILE (`connection.tls.certificate`, `connection.tls.key`)";

/// What ended a handshake or session with a platform that goes by that name, and what to do about it.
pub fn told(error: &Error, name: &str) -> String {
    match error {
        Error::InvalidCertificate(error) => told_of_certificate(error, name),
        Error::NoCertificatesPresented => "the platform shows no certificate; configure one there".into(),
        Error::AlertReceived(alert) => told_of_alert(*alert),
        Error::InvalidMessage(_) => {
            "what answers does not speak TLS; is it the port for an address of this kind, or for one without TLS?".into()
        }
        Error::PeerIncompatible(_) => {
            "the platform and Plimsoll have no version, cipher suite or signature scheme of TLS in common; \
             enable TLS 1.2 or 1.3 at the platform"
                .into()
        }
        Error::DecryptError => {
            "a record of the platform cannot be decrypted; does something between change the bytes?".into()
        }
        Error::PeerMisbehaved(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerSentOversizedRecord => "the platform breaks the TLS protocol; look at its log".into(),
        Error::General(reason) => format!("TLS failed: {reason}"),
        Error::Other(reason) => format!("TLS failed: {reason}"),
        _ => "TLS failed within Plimsoll's library for it".into(),
    }
}

fn told_of_certificate(error: &CertificateError, name: &str) -> String {
    let (wrong, remedy) = match error {
        CertificateError::UnknownIssuer => {
            ("is signed by no authority that is trusted here".to_owned(), format!("{AUTHORITY}; {UNCHECKED}"))
        }
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => (
            format!(
                "names no host: it has no subjectAltName, so that it is not for the name {name}, \
                 and its common name does not count (RFC 9525)"
            ),
            format!("make one with a subjectAltName; {UNCHECKED}"),
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            let named = match error {
                CertificateError::NotValidForNameContext { presented, .. } => names(presented),
                _ => String::new(),
            };
            (
                format!("is not for the name {name}{named}"),
                format!(
                    "address the platform by a name that it has, or give one in `connection.tls.server_name`; {UNCHECKED}"
                ),
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("has expired".to_owned(), format!("renew it; {UNCHECKED}"))
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("is not valid yet".to_owned(), "are the clocks of both hosts right?".to_owned())
        }
        CertificateError::BadSignature => (
            "has a signature that the key of its authority did not make".to_owned(),
            format!("{AUTHORITY}: another authority may have the same name; {UNCHECKED}"),
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => (
            "is not for servers".to_owned(),
            format!("make one whose extendedKeyUsage has serverAuth; {UNCHECKED}"),
        ),
        CertificateError::Revoked => ("was revoked".to_owned(), "renew it".to_owned()),
        CertificateError::Other(other) if is_of_an_authority(other) => {
            (unusual(error), format!("let the authority sign one for the server; {UNCHECKED}"))
        }
        CertificateError::Other(other) if is_of_version_1(other) => {
            (unusual(error), format!("make one of version 3 with a subjectAltName; {UNCHECKED}"))
        }
        other => (unusual(other), format!("ask its authority to issue it again; {UNCHECKED}")),
    };
    format!("the platform's certificate {wrong}; {remedy}")
}

/// As `openssl req -x509` makes them, where nothing else is said.
fn is_of_an_authority(error: &OtherError) -> bool {
    matches!(error.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// As `openssl x509 -req` makes them, where nothing else is said.
fn is_of_version_1(error: &OtherError) -> bool {
    matches!(error.0.downcast_ref(), Some(webpki::Error::UnsupportedCertVersion))
}

/// What is wrong with a certificate, whosever it is, that verification does not even begin with.
fn unusual(error: &CertificateError) -> String {
    match error {
        CertificateError::BadEncoding => "is damaged",
        CertificateError::UnhandledCriticalExtension => "has a critical extension that is not known here",
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "has a key or signature of an algorithm that is not known here"
        }
        CertificateError::Other(other) => match other.0.downcast_ref() {
            Some(webpki::Error::UnsupportedCertVersion) => "is X.509 version 1, which has no subjectAltName",
            Some(webpki::Error::CaUsedAsEndEntity) => "is that of an authority, not of a server (CA:TRUE)",
            Some(webpki::Error::EndEntityUsedAsCa) => "is signed by a certificate of no authority (CA:FALSE)",
            Some(webpki::Error::NameConstraintViolation) => "has a name that its authority may not sign for",
            Some(webpki::Error::PathLenConstraintViolated) => {
                "is signed by an authority that its own authority did not allow to sign for others"
            }
            _ => "does not conform to RFC 5280",
        },
        _ => "cannot be verified",
    }
    .to_owned()
}

/// The names that a certificate has.
fn names(presented: &[String]) -> String {
    // DnsName("localhost") or IpAddress(127.0.0.1), as the library writes them.
    let name = |name: &String| {
        let inner = name.split_once('(').map_or(name.as_str(), |(_, rest)| rest.trim_end_matches(')'));
        inner.trim_matches('"').to_owned()
    };
    format!(", but for {}", presented.iter().map(name).collect::<Vec<_>>().join(", "))
}

/// Why clients cannot show the certificate that they were given.
pub fn told_of_ours(error: &Error) -> String {
    let wrong = match error {
        Error::InconsistentKeys(_) => "the key does not match the certificate".to_owned(),
        Error::InvalidCertificate(error) => format!("the certificate {}", unusual(error)),
        _ => "the key is not of RSA, ECDSA or EdDSA".to_owned(),
    };
    format!("the client certificate and its key cannot be used: {wrong}; look at {OURS}")
}

/// Why a certificate in the file of authorities is none that can be trusted.
pub fn told_of_authority(error: &Error) -> String {
    let wrong = match error {
        Error::InvalidCertificate(error) => unusual(error),
        _ => "cannot be read".to_owned(),
    };
    format!(
        "a certificate in the file of --ca (`connection.tls.ca`) {wrong}; it takes those of authorities, in PEM"
    )
}

fn told_of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            format!("the platform asks for a client certificate; give one by {OURS}")
        }
        AlertDescription::UnknownCA => {
            format!("the platform does not know the authority of our client certificate; look at {OURS}")
        }
        AlertDescription::CertificateExpired => {
            format!("the platform says that our client certificate has expired; renew that of {OURS}")
        }
        AlertDescription::ProtocolVersion => {
            "the platform speaks neither TLS 1.2 nor 1.3; enable one of them there".into()
        }
        _ => format!(
            "the platform ended the TLS handshake or session by alert {} (RFC 8446, 6); where it wants a client \
             certificate, give one by {OURS}",
            u8::from(alert)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::ServerName;
    use rustls::{InconsistentKeys, InvalidMessage, PeerIncompatible, PeerMisbehaved};
    use std::sync::Arc;

    fn other(error: webpki::Error) -> Error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_told_in_words_and_with_a_remedy() {
        let for_others = |presented: &[&str]| {
            Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                expected: ServerName::try_from("broker.lan").unwrap(),
                presented: presented.iter().map(|&name| name.to_owned()).collect(),
            })
        };
        for (error, wrong, remedy) in [
            (other(webpki::Error::UnsupportedCertVersion), "is X.509 version 1", "version 3"),
            (other(webpki::Error::CaUsedAsEndEntity), "that of an authority, not of a server", "sign one"),
            (other(webpki::Error::InvalidSerialNumber), "RFC 5280", "--insecure"),
            (CertificateError::UnknownIssuer.into(), "signed by no authority", "--ca FILE"),
            (CertificateError::Expired.into(), "has expired", "renew"),
            (CertificateError::BadSignature.into(), "has a signature", "--ca FILE"),
            (CertificateError::InvalidPurpose.into(), "not for servers", "serverAuth"),
            (CertificateError::BadEncoding.into(), "is damaged", "--insecure"),
            (for_others(&[]), "has no subjectAltName", "make one with a subjectAltName"),
            (
                for_others(&["DnsName(\"a.lan\")", "IpAddress(10.0.0.1)"]),
                "not for the name broker.lan, but for a.lan, 10.0.0.1;",
                "connection.tls.server_name",
            ),
        ] {
            let told = told(&error, "broker.lan");
            assert!(told.contains(wrong) && told.contains(remedy), "{told}");
        }
    }

    /// Names of variants, such as `KeyMismatch`, mean nothing to a user.
    #[test]
    fn no_name_of_the_library_is_told() {
        let errors = [
            other(webpki::Error::UnsupportedCertVersion),
            PeerIncompatible::NoCipherSuitesInCommon.into(),
            PeerMisbehaved::SelectedInvalidPsk.into(),
            Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge),
            Error::AlertReceived(AlertDescription::HandshakeFailure),
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch),
            Error::DecryptError,
            Error::EncryptError,
        ];
        for error in errors {
            for told in [told(&error, "x"), told_of_ours(&error), told_of_authority(&error)] {
                let camel = |word: &str| {
                    let inner = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
                    inner.chars().skip(1).any(|c| c.is_ascii_uppercase())
                        && inner.chars().any(|c| c.is_ascii_lowercase())
                        && inner != "subjectAltName"
                        && inner != "EdDSA"
                };
                assert!(!told.split_whitespace().any(camel), "{told}");
            }
        }
    }
}
