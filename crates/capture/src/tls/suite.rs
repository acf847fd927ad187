//! Cipher suites, and records opened with what is derived from a secret: TLS 1.2 (RFC 5246 sections 5 and 6.3, RFC 5288,
//! RFC 7905) and TLS 1.3 (RFC 8446 sections 5.2, 5.3 and 7).

use super::keys::Secret;
use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use ring::{hkdf, hmac};
use std::ops::Range;

/// Bytes before the content of a record.
pub const HEADER: usize = 5;
/// What authenticates a record, bytes: the same in all suites that are known.
const TAG: usize = 16;
/// Part of the nonce that stands in each record of TLS 1.2 with AES-GCM, bytes.
const EXPLICIT: usize = 8;
const NONCE: usize = 12;
/// Key and nonce of both sides at their longest, bytes.
const KEY_BLOCK: usize = 2 * (32 + NONCE);

/// Versions that can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
}

/// A cipher suite that can be opened.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// The version that it belongs to.
    pub version: Version,
    cipher: &'static Algorithm,
    hash: Hash,
}

impl Suite {
    /// By its number in IANA's registry of TLS cipher suites; whatever the exchange of keys, since the secrets are known.
    pub fn of(version: Version, number: u16) -> Option<Suite> {
        let (cipher, hash) = match (version, number) {
            (Version::Tls13, 0x1301) => (&AES_128_GCM, Hash::Sha256),
            (Version::Tls13, 0x1302) => (&AES_256_GCM, Hash::Sha384),
            (Version::Tls13, 0x1303) => (&CHACHA20_POLY1305, Hash::Sha256),
            // Of RSA, DHE-RSA, PSK, DHE-PSK, RSA-PSK; of ECDHE-ECDSA, ECDHE-RSA, ECDHE-PSK.
            (Version::Tls12, 0x009c | 0x009e | 0x00a8 | 0x00aa | 0x00ac | 0xc02b | 0xc02f | 0xd001) => {
                (&AES_128_GCM, Hash::Sha256)
            }
            (Version::Tls12, 0x009d | 0x009f | 0x00a9 | 0x00ab | 0x00ad | 0xc02c | 0xc030 | 0xd002) => {
                (&AES_256_GCM, Hash::Sha384)
            }
            (Version::Tls12, 0xcca8..=0xccae) => (&CHACHA20_POLY1305, Hash::Sha256),
            _ => return None,
        };
        Some(Suite { version, cipher, hash })
    }

    /// What opens one direction of TLS 1.3 under a traffic secret (RFC 8446 section 7.3). None where the secret is not as
    /// long as this suite's.
    pub fn of_traffic_secret(&self, secret: &Secret) -> Option<Cipher> {
        let mut key = [0; 32];
        let key = key.get_mut(..self.cipher.key_len())?;
        let mut nonce = [0; NONCE];
        self.expand(secret, "key", key)?;
        self.expand(secret, "iv", &mut nonce)?;
        self.cipher(key, nonce)
    }

    /// The traffic secret that follows a key update (RFC 8446 section 7.2).
    pub fn next_secret(&self, secret: &Secret) -> Option<Secret> {
        let mut next = [0; Secret::LONGEST];
        let next = next.get_mut(..secret.bytes().len())?;
        self.expand(secret, "traffic upd", next)?;
        Secret::new(next)
    }

    /// HKDF-Expand-Label without a context (RFC 8446 section 7.1).
    fn expand(&self, secret: &Secret, label: &str, out: &mut [u8]) -> Option<()> {
        let (algorithm, length) = match self.hash {
            Hash::Sha256 => (hkdf::HKDF_SHA256, 32),
            Hash::Sha384 => (hkdf::HKDF_SHA384, 48),
        };
        if secret.bytes().len() != length {
            return None;
        }
        let wanted = u16::try_from(out.len()).ok()?.to_be_bytes();
        let name = u8::try_from("tls13 ".len() + label.len()).ok()?;
        let info: [&[u8]; 5] = [&wanted, &[name], b"tls13 ", label.as_bytes(), &[0]];
        let key = hkdf::Prk::new_less_safe(algorithm, secret.bytes());
        key.expand(&info, Length(out.len())).ok()?.fill(out).ok()
    }

    /// What opens the client's and the server's direction of TLS 1.2 (RFC 5246 section 6.3).
    pub fn of_master_secret(
        &self,
        master: &Secret,
        client_random: &[u8; 32],
        server_random: &[u8; 32],
    ) -> Option<[Cipher; 2]> {
        let mut block = [0; KEY_BLOCK];
        let seed = [server_random.as_slice(), client_random].concat();
        self.pseudorandom(master, "key expansion", &seed, &mut block);
        let key = self.cipher.key_len();
        let fixed = if self.is_explicit() { NONCE - EXPLICIT } else { NONCE };
        let side = |number: usize| {
            let mut nonce = [0; NONCE];
            let begin = 2 * key + number * fixed;
            nonce.get_mut(..fixed)?.copy_from_slice(block.get(begin..begin + fixed)?);
            self.cipher(block.get(number * key..(number + 1) * key)?, nonce)
        };
        Some([side(0)?, side(1)?])
    }

    /// PRF of TLS 1.2 (RFC 5246 section 5).
    fn pseudorandom(&self, secret: &Secret, label: &str, seed: &[u8], out: &mut [u8]) {
        let algorithm = match self.hash {
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha384 => hmac::HMAC_SHA384,
        };
        let key = hmac::Key::new(algorithm, secret.bytes());
        let seed = [label.as_bytes(), seed].concat();
        let mut link = hmac::sign(&key, &seed);
        for part in out.chunks_mut(algorithm.digest_algorithm().output_len()) {
            let whole = hmac::sign(&key, &[link.as_ref(), &seed].concat());
            part.copy_from_slice(whole.as_ref().get(..part.len()).unwrap_or_default());
            link = hmac::sign(&key, link.as_ref());
        }
    }

    /// Whether a part of each nonce stands in the record.
    fn is_explicit(&self) -> bool {
        self.version == Version::Tls12 && self.cipher != &CHACHA20_POLY1305
    }

    fn cipher(&self, key: &[u8], nonce: [u8; NONCE]) -> Option<Cipher> {
        let key = LessSafeKey::new(UnboundKey::new(self.cipher, key).ok()?);
        Some(Cipher { key, nonce, version: self.version, explicit: self.is_explicit(), sequence: 0 })
    }
}

/// A length of what HKDF gives.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// What opens the records of one direction.
pub struct Cipher {
    key: LessSafeKey,
    nonce: [u8; NONCE],
    version: Version,
    explicit: bool,
    /// Of the next record.
    pub sequence: u64,
}

impl Cipher {
    /// Opens a record, its header included, in place: what kind of content it holds, and where. None where it was not
    /// made with this key and sequence number; it is void then.
    pub fn open(&self, sequence: u64, record: &mut [u8]) -> Option<(u8, Range<usize>)> {
        let header = *record.first_chunk::<HEADER>()?;
        let begin = HEADER + if self.explicit { EXPLICIT } else { 0 };
        let length = record.len().checked_sub(begin + TAG)?;
        let mut nonce = self.nonce;
        if self.explicit {
            nonce.get_mut(NONCE - EXPLICIT..)?.copy_from_slice(record.get(HEADER..begin)?);
        } else {
            let last = nonce.iter_mut().rev().zip(sequence.to_le_bytes());
            last.for_each(|(byte, number)| *byte ^= number);
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = record.get_mut(begin..)?;
        match self.version {
            Version::Tls13 => {
                let clear = self.key.open_in_place(nonce, Aad::from(header), sealed).ok()?;
                // The kind of content stands behind it, before padding of zeros.
                let end = clear.iter().rposition(|&byte| byte != 0)?;
                Some((*clear.get(end)?, begin..begin + end))
            }
            Version::Tls12 => {
                let [high, low] = u16::try_from(length).ok()?.to_be_bytes();
                let [content, major, minor, ..] = header;
                let mut data = [0, 0, 0, 0, 0, 0, 0, 0, content, major, minor, high, low];
                data.get_mut(..8)?.copy_from_slice(&sequence.to_be_bytes());
                self.key.open_in_place(nonce, Aad::from(data), sealed).ok()?;
                Some((content, begin..begin + length))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hexadecimal: &str) -> Vec<u8> {
        let digits: Vec<u8> = hexadecimal.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// RFC 8448 section 3, "Simple 1-RTT Handshake": the server's handshake traffic secret, and what is derived of it.
    #[test]
    fn keys_of_tls_13_are_those_of_the_rfc() {
        let suite = Suite::of(Version::Tls13, 0x1301).unwrap();
        let secret = "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38";
        let secret = Secret::new(&bytes(secret)).unwrap();
        let (mut key, mut nonce) = ([0; 16], [0; 12]);
        suite.expand(&secret, "key", &mut key).unwrap();
        suite.expand(&secret, "iv", &mut nonce).unwrap();
        assert_eq!(key.to_vec(), bytes("3fce516009c21727d0f2e4e86ee403bc"));
        assert_eq!(nonce.to_vec(), bytes("5d313eb2671276ee13000b30"));
    }

    #[test]
    fn suites_that_are_not_known_are_not_guessed() {
        // TLS_AES_128_CCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256.
        assert!(Suite::of(Version::Tls13, 0x1304).is_none() && Suite::of(Version::Tls12, 0xc027).is_none());
        let suite = Suite::of(Version::Tls13, 0x1302).unwrap();
        assert!(suite.of_traffic_secret(&Secret::new(&[1; 32]).unwrap()).is_none(), "another hash's");
    }
}
