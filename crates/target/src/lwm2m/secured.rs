//! The target's side of DTLS: a session with each device, all by the same pre-shared key.

use dimpl::crypto::{CryptoProvider, Dtls12CipherSuite, rust_crypto};
use dimpl::{Config, Dtls, Output, PskResolver};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Room for what a session gives, in bytes: a record.
const ROOM: usize = 17 * 1024;

/// See the module.
pub struct Secured {
    config: Arc<Config>,
    sessions: HashMap<SocketAddr, Dtls>,
    room: Vec<u8>,
}

/// What came of a datagram or a message.
#[derive(Default)]
pub struct Outcome {
    /// Datagrams for the device.
    pub outgoing: Vec<Vec<u8>>,
    /// What it says.
    pub messages: Vec<Vec<u8>>,
}

/// The key of whoever asks.
struct Key(Vec<u8>);

impl PskResolver for Key {
    fn resolve(&self, _: &[u8]) -> Option<Vec<u8>> {
        Some(self.0.clone())
    }
}

impl Secured {
    /// No session yet.
    ///
    /// # Errors
    /// The library refuses the key: why, for people.
    pub fn new(key: &str) -> Result<Secured, String> {
        // Without elliptic curves, which the library would try out before each session.
        let all = rust_crypto::default_provider();
        let of_keys = |suite: Dtls12CipherSuite| suite == Dtls12CipherSuite::PSK_AES128_CCM_8;
        let at = all.cipher_suites.iter().position(|suite| of_keys(suite.suite()));
        let suites = at.and_then(|at| all.cipher_suites.get(at..=at)).unwrap_or(all.cipher_suites);
        let provider = CryptoProvider { cipher_suites: suites, kx_groups: &[], ..all };
        let config = Config::builder()
            .with_crypto_provider(provider)
            .dtls13_cipher_suites(&[])
            .with_psk_server(None, Arc::new(Key(key.into())))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Secured { config: Arc::new(config), sessions: HashMap::new(), room: vec![0; ROOM] })
    }

    /// Takes in a datagram of a device. One that begins a handshake ends an earlier session of that address.
    pub fn incoming(&mut self, from: SocketAddr, datagram: &[u8]) -> Outcome {
        let now = Instant::now();
        // A record of a handshake in the clear, of epoch 0, with a ClientHello in it (RFC 6347 section 4.1). The first one of a
        // handshake has the number 0 (section 4.2.2): the device may have given up an earlier one half way.
        let is_hello = matches!(datagram, [22, _, _, 0, 0, ..]) && datagram.get(13) == Some(&1);
        if is_hello && datagram.get(17..19) == Some(&[0, 0]) {
            self.sessions.insert(from, Dtls::new_12_psk(Arc::clone(&self.config), now));
        }
        let Some(session) = self.sessions.get_mut(&from) else { return Outcome::default() };
        let timed = session.handle_timeout(now);
        // What cannot be read is put away (section 4.1.2.7).
        let _ = timed.and_then(|()| session.handle_packet(datagram));
        self.collect(from)
    }

    /// Secures a message for a device; nothing where it has no session.
    pub fn secure(&mut self, to: SocketAddr, message: &[u8]) -> Vec<Vec<u8>> {
        let Some(session) = self.sessions.get_mut(&to) else { return Vec::new() };
        let _ = session.send_application_data(message);
        self.collect(to).outgoing
    }

    fn collect(&mut self, of: SocketAddr) -> Outcome {
        let (mut outcome, mut is_closed) = (Outcome::default(), false);
        let Some(session) = self.sessions.get_mut(&of) else { return outcome };
        loop {
            match session.poll_output(&mut self.room) {
                Output::Packet(datagram) => outcome.outgoing.push(datagram.to_vec()),
                Output::ApplicationData(message) => outcome.messages.push(message.to_vec()),
                Output::BufferTooSmall { needed } => self.room.resize(needed, 0),
                Output::CloseNotify => is_closed = true,
                Output::Timeout(_) => break,
                _ => {}
            }
        }
        if is_closed {
            self.sessions.remove(&of);
        }
        outcome
    }
}
