//! How devices speak CoAP, resolved.

use crate::plan::TlsPlan;
use crate::secret::Secret;
use plimsoll_model::Nanos;
use plimsoll_template::{Piece, Template, Variables};
use std::sync::Arc;

/// How devices speak CoAP.
#[derive(Clone, Debug)]
pub struct CoapPlan {
    /// Whether requests are repeated until they are acknowledged.
    pub confirmable: bool,
    /// Requests of a device that can be under way.
    pub outstanding: u32,
    /// Sockets that all devices share, over TCP connections, in place of their own.
    pub sockets: Option<u32>,
    /// The least time until a request is repeated for the first time.
    pub ack_timeout: Nanos,
    /// How often a request is repeated at most.
    pub max_retransmit: u32,
    /// How long an answer is awaited at most.
    pub timeout: Nanos,
    /// Bytes of a block in which larger messages are sent; `None` where only what fits in no datagram is.
    pub block_size: Option<u16>,
    /// Whether both sides of a TCP connection say what they take.
    pub csm: bool,
    /// How long nothing may come over a TCP connection before a ping asks whether the platform is still there; `None` for ever.
    pub ping: Option<Nanos>,
    /// How datagrams are secured; `None` where they are not.
    pub dtls: Option<Arc<DtlsPlan>>,
}

impl CoapPlan {
    /// Pre-shared keys that came from the environment.
    pub fn keys(&self) -> Vec<&Secret> {
        let Some(ProofPlan::Keys { devices, subscribers }) = self.dtls.as_ref().map(|dtls| &dtls.proof)
        else {
            return Vec::new();
        };
        let fixed = [&devices.key, &subscribers.key].into_iter().filter_map(|key| match key {
            KeyPlan::Fixed(secret) => Some(secret),
            KeyPlan::Template(_) => None,
        });
        fixed.collect()
    }
}

/// How datagrams are secured.
#[derive(Debug)]
pub struct DtlsPlan {
    /// Who clients say that they are, and what proves it.
    pub proof: ProofPlan,
    /// How long a handshake may take.
    pub timeout: Nanos,
}

/// What proves who a client is (RFC 7252 sections 9.1.3.1 and 9.1.3.3).
#[derive(Debug)]
pub enum ProofPlan {
    /// A pre-shared key.
    Keys {
        /// Of the devices.
        devices: PskPlan,
        /// Of the subscribers.
        subscribers: PskPlan,
    },
    /// A certificate.
    Certificates(TlsPlan),
}

/// An identity and its pre-shared key (RFC 4279), of each client or one for all.
#[derive(Clone, Debug, PartialEq)]
pub struct PskPlan {
    /// The identity, with the client's number as its variable.
    pub identity: Template,
    /// The key.
    pub key: KeyPlan,
}

/// A pre-shared key as it is written: text, or hexadecimal digits after `0x`.
#[derive(Clone, PartialEq)]
pub enum KeyPlan {
    /// With the client's number as its variable.
    Template(Template),
    /// As it stands.
    Fixed(Secret),
}

/// A key is not shown.
impl std::fmt::Debug for KeyPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPlan(..)")
    }
}

impl PskPlan {
    /// Whether clients have different identities or keys.
    pub fn is_of_each(&self) -> bool {
        let varies =
            |template: &Template| template.pieces.iter().any(|piece| !matches!(piece, Piece::Text(_)));
        let key = match &self.key {
            KeyPlan::Template(template) => varies(template),
            KeyPlan::Fixed(_) => false,
        };
        key || varies(&self.identity)
    }

    /// The identity of the client of that number.
    pub fn identity(&self, number: u32) -> Vec<u8> {
        rendered(&self.identity, number)
    }

    /// The key of the client of that number.
    ///
    /// # Errors
    /// What follows `0x` are no bytes; a plan that was resolved has no such key.
    pub fn key(&self, number: u32) -> Result<Vec<u8>, String> {
        let written = match &self.key {
            KeyPlan::Template(template) => rendered(template, number),
            KeyPlan::Fixed(secret) => secret.0.clone().into_bytes(),
        };
        match written.strip_prefix(b"0x") {
            Some(digits) => bytes(digits),
            None => Ok(written),
        }
    }
}

fn rendered(template: &Template, number: u32) -> Vec<u8> {
    let variables = Variables { device: number, subscriber: number, ..Variables::default() };
    let mut out = Vec::new();
    template.render(&variables, &mut || 0, &mut out);
    out
}

fn bytes(digits: &[u8]) -> Result<Vec<u8>, String> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(format!("the key has {} hexadecimal digits, and two make a byte", digits.len()));
    }
    let byte = |[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    let all: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    all.ok_or_else(|| "the key begins with `0x`, but not all that follows is hexadecimal".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_text_or_hexadecimal_and_may_differ_from_client_to_client() {
        let plan = |identity: &str, key: &str| PskPlan {
            identity: Template::compile(identity, &["device"]).unwrap(),
            key: KeyPlan::Template(Template::compile(key, &["device"]).unwrap()),
        };
        let each = plan("d{device}", "key of {device}");
        assert_eq!((each.identity(7), each.key(7)), (b"d7".to_vec(), Ok(b"key of 7".to_vec())));
        assert_eq!(plan("d", "0x00fFa{device}").key(1), Ok(vec![0, 255, 0xa1]));
        assert_eq!(plan("d", "0x").key(0), Ok(Vec::new()));
        assert!(plan("d", "0xabc").key(0).unwrap_err().contains("3 hexadecimal digits"));
        assert!(plan("d", "0xzz").key(0).unwrap_err().contains("not all"));
        assert!(!format!("{each:?}").contains("key of"), "a key is shown");
    }
}
