//! What a handshake says that is needed to open what follows it: who began, the randoms, the version and the suite (RFC 5246
//! section 7.4, RFC 8446 section 4).

use super::suite::Version;

/// Messages longer than this are not kept: no hello is.
const LONGEST: usize = 1 << 16;
/// Bytes before the content of a message: its kind and its length.
const HEAD: usize = 4;

/// Kinds of messages that say something here.
pub const CLIENT_HELLO: u8 = 1;
/// See [`CLIENT_HELLO`].
pub const SERVER_HELLO: u8 = 2;
/// What the server grants beside: of TLS 1.3, encrypted.
pub const ENCRYPTED_EXTENSIONS: u8 = 8;
/// The last of a side's handshake.
pub const FINISHED: u8 = 20;
/// The sender's next record has another key (RFC 8446 section 4.6.3).
pub const KEY_UPDATE: u8 = 24;

/// Extensions.
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;

/// The random of a ServerHello that asks for another ClientHello (RFC 8446 section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Puts the messages of one side together, which records cut anywhere.
#[derive(Default)]
pub struct Messages {
    kept: Vec<u8>,
    skip: usize,
}

impl Messages {
    /// The next message that says something: its kind and its content. None where those bytes end before it does.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<(u8, Vec<u8>)> {
        loop {
            let skipped = self.skip.min(bytes.len());
            *bytes = bytes.get(skipped..)?;
            self.skip -= skipped;
            self.keep(bytes, HEAD);
            let &[kind, high, middle, low, ..] = self.kept.as_slice() else { return None };
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            let says = [CLIENT_HELLO, SERVER_HELLO, ENCRYPTED_EXTENSIONS, FINISHED, KEY_UPDATE];
            if !says.contains(&kind) || length > LONGEST {
                self.skip = length;
                self.kept.clear();
                continue;
            }
            self.keep(bytes, HEAD + length);
            if self.kept.len() < HEAD + length {
                return None;
            }
            return Some((kind, std::mem::take(&mut self.kept).split_off(HEAD)));
        }
    }

    fn keep(&mut self, bytes: &mut &[u8], length: usize) {
        let more = length.saturating_sub(self.kept.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(more);
        self.kept.extend_from_slice(taken);
        *bytes = rest;
    }

    /// Memory held, bytes.
    pub fn kept(&self) -> usize {
        self.kept.capacity()
    }
}

/// What a client begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// Names the session in a key log.
    pub random: [u8; 32],
    /// Whether it means to send before the server has answered (RFC 8446 section 4.2.10).
    pub early: bool,
}

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerHello {
    /// Its part in the keys of TLS 1.2.
    pub random: [u8; 32],
    /// None where that is not known here.
    pub version: Option<Version>,
    /// The cipher suite's number.
    pub suite: u16,
    /// It asks for another ClientHello.
    pub retry: bool,
}

/// Bytes that are read from their front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk().map(|both| u16::from_be_bytes(*both))
    }

    fn random(&mut self) -> Option<[u8; 32]> {
        self.take(32)?.first_chunk().copied()
    }

    /// An extension's content, of a list of them that may be missing.
    fn extension(mut self, wanted: u16) -> Option<&'a [u8]> {
        let length = self.u16()?;
        let mut list = Fields(self.take(usize::from(length))?);
        loop {
            let (kind, length) = (list.u16()?, list.u16()?);
            let content = list.take(usize::from(length))?;
            if kind == wanted {
                return Some(content);
            }
        }
    }
}

impl ClientHello {
    /// Of a message's content (RFC 8446 section 4.1.2).
    pub fn read(content: &[u8]) -> Option<ClientHello> {
        let mut fields = Fields(content);
        fields.take(2)?;
        let random = fields.random()?;
        let session = fields.u8()?;
        fields.take(usize::from(session))?;
        let suites = fields.u16()?;
        fields.take(usize::from(suites))?;
        let compressions = fields.u8()?;
        fields.take(usize::from(compressions))?;
        Some(ClientHello { random, early: fields.extension(EARLY_DATA).is_some() })
    }
}

impl ServerHello {
    /// Of a message's content (RFC 8446 section 4.1.3).
    pub fn read(content: &[u8]) -> Option<ServerHello> {
        let mut fields = Fields(content);
        let legacy = fields.u16()?;
        let random = fields.random()?;
        let session = fields.u8()?;
        fields.take(usize::from(session))?;
        let suite = fields.u16()?;
        fields.u8()?;
        let version = match (fields.extension(SUPPORTED_VERSIONS), legacy) {
            (Some([3, 4]), 0x0303) => Some(Version::Tls13),
            (None, 0x0303) => Some(Version::Tls12),
            _ => None,
        };
        Some(ServerHello { random, version, suite, retry: random == RETRY })
    }
}

/// Whether the server takes what came early, by the content of its EncryptedExtensions.
pub fn takes_early_data(content: &[u8]) -> bool {
    Fields(content).extension(EARLY_DATA).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_the_same_however_records_cut_them() {
        // A Certificate of 300 bytes, which says nothing here, between a ServerHello and a Finished.
        let mut said = vec![SERVER_HELLO, 0, 0, 3, 1, 2, 3, 11, 0, 1, 44];
        said.extend([9; 300]);
        said.extend([FINISHED, 0, 0, 2, 7, 8]);
        for size in [1, 2, 3, 5, 100, said.len()] {
            let (mut messages, mut found) = (Messages::default(), Vec::new());
            for mut piece in said.chunks(size) {
                while let Some(message) = messages.next(&mut piece) {
                    found.push(message);
                }
            }
            assert_eq!(found, [(SERVER_HELLO, vec![1, 2, 3]), (FINISHED, vec![7, 8])], "by {size}");
        }
    }
}
