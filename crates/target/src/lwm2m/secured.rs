//! The target's side of DTLS: a session with each device, by a pre-shared key that all have or by certificates.

use dimpl::crypto::{CryptoProvider, Dtls12CipherSuite, rust_crypto};
use dimpl::{Config, Dtls, DtlsCertificate, Output, PskResolver};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Room for what a session gives, in bytes: a record.
const ROOM: usize = 17 * 1024;

/// What proves who this server is, and secures datagrams.
#[derive(Clone)]
pub enum Secret {
    /// A key that all devices have.
    Key(String),
    /// A certificate and its private key, in PEM. Devices show theirs, and nobody looks who signed them.
    Certificate {
        /// The certificate.
        certificate: String,
        /// Its key.
        key: String,
    },
}

/// A secret is not shown.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// See the module.
pub struct Secured {
    config: Arc<Config>,
    /// What is shown to devices; `None` where a key proves everything.
    certificate: Option<DtlsCertificate>,
    sessions: HashMap<SocketAddr, Dtls>,
    room: Vec<u8>,
}

/// The one suite, without elliptic curves, which the library would try out before each session.
fn provider() -> CryptoProvider {
    let all = rust_crypto::default_provider();
    let is_it = |suite: Dtls12CipherSuite| suite == Dtls12CipherSuite::PSK_AES128_CCM_8;
    let at = all.cipher_suites.iter().position(|suite| is_it(suite.suite()));
    let suites = at.and_then(|at| all.cipher_suites.get(at..=at)).unwrap_or(all.cipher_suites);
    CryptoProvider { cipher_suites: suites, kx_groups: &[], ..all }
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
    /// The key or the certificate cannot be used: why, for people.
    pub fn new(secret: &Secret) -> Result<Secured, String> {
        let config = Config::builder().dtls13_cipher_suites(&[]);
        let (config, certificate) = match secret {
            Secret::Key(key) => {
                let resolver = Arc::new(Key(key.as_bytes().to_vec()));
                (config.with_crypto_provider(provider()).with_psk_server(None, resolver), None)
            }
            Secret::Certificate { certificate, key } => {
                let provider = rust_crypto::default_provider();
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
                let certificate = certificate.map_err(|_| "this is no certificate in PEM")?.to_vec();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
                let private_key = key.map_err(|_| "this is no private key in PEM")?.secret_der().to_vec();
                let loaded = provider.key_provider.load_private_key(&private_key);
                loaded.map_err(|_| "the private key is not for the curve P-256 or P-384")?;
                let certificate = DtlsCertificate { certificate, private_key };
                (config.with_crypto_provider(provider), Some(certificate))
            }
        };
        let config = Arc::new(config.build().map_err(|error| error.to_string())?);
        Ok(Secured { config, certificate, sessions: HashMap::new(), room: vec![0; ROOM] })
    }

    fn session(&self, now: Instant) -> Dtls {
        let config = Arc::clone(&self.config);
        match &self.certificate {
            Some(certificate) => Dtls::new_12(config, certificate.clone(), now),
            None => Dtls::new_12_psk(config, now),
        }
    }

    /// Takes in a datagram of a device. One that begins a handshake ends an earlier session of that address.
    pub fn incoming(&mut self, from: SocketAddr, datagram: &[u8], now: Instant) -> Outcome {
        // A record of a handshake in the clear, of epoch 0, with a ClientHello in it (RFC 6347 section 4.1). The first one of a
        // handshake has the number 0 (section 4.2.2): the device may have given up an earlier one half way.
        let is_hello = matches!(datagram, [22, _, _, 0, 0, ..]) && datagram.get(13) == Some(&1);
        if is_hello && datagram.get(17..19) == Some(&[0, 0]) {
            let session = self.session(now);
            self.sessions.insert(from, session);
        }
        let Some(session) = self.sessions.get_mut(&from) else { return Outcome::default() };
        let timed = session.handle_timeout(now);
        // What is repeated is not to share a datagram with what is new: who knows the one already may put both away.
        let repeated = self.collect(from).outgoing;
        let Some(session) = self.sessions.get_mut(&from) else { return Outcome::default() };
        // What cannot be read is put away (section 4.1.2.7).
        let _ = timed.and_then(|()| session.handle_packet(datagram));
        let outcome = self.collect(from);
        Outcome { outgoing: [repeated, outcome.outgoing].concat(), ..outcome }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const DEVICES: u16 = 40;

    fn device(now: Instant) -> Dtls {
        let config = Config::builder()
            .with_crypto_provider(provider())
            .dtls13_cipher_suites(&[])
            .with_psk_client(b"device".to_vec(), Arc::new(Key(b"sesame".to_vec())))
            .flight_retries(30)
            .build()
            .unwrap();
        let mut device = Dtls::new_12_psk(Arc::new(config), now);
        device.set_active(true);
        device
    }

    /// How long the handshake takes with the slowest of many devices, over a network that loses one of so many datagrams.
    fn slowest(secured: &mut Secured, every: u64, first: u16) -> Duration {
        let began = Instant::now();
        let mut room = vec![0; ROOM];
        let mut waiting: Vec<(Instant, u16, Dtls)> =
            (0..DEVICES).map(|port| (began, port, device(began))).collect();
        let (mut now, mut count) = (began, 0_u64);
        while let Some((at, port, mut device)) = waiting.pop() {
            now = at;
            device.handle_timeout(now).unwrap();
            let from = SocketAddr::from(([127, 0, 0, 1], first + port));
            let wakes = loop {
                match device.poll_output(&mut room) {
                    Output::Packet(datagram) => {
                        count += 1;
                        let answers = match count.is_multiple_of(every) {
                            true => Vec::new(),
                            false => secured.incoming(from, datagram, now).outgoing,
                        };
                        answers.iter().for_each(|answer| device.handle_packet(answer).unwrap());
                    }
                    Output::Connected => break None,
                    Output::Timeout(at) => break Some(at),
                    _ => {}
                }
            };
            if let Some(wakes) = wakes {
                waiting.push((wakes, port, device));
                waiting.sort_by_key(|(at, port, _)| std::cmp::Reverse((*at, *port)));
            }
        }
        now - began
    }

    /// A loss delays a handshake by the time to the repetition, which doubles from 1 s (RFC 6347 section 4.2.4.1): three losses one
    /// after the other, which are rare, take 7 s.
    #[test]
    fn losses_delay_handshakes_by_their_repetition_alone() {
        for every in [7, 11] {
            let mut secured = Secured::new(&Secret::Key("sesame".into())).unwrap();
            let mut all: Vec<Duration> =
                (0..21).map(|round| slowest(&mut secured, every, 1000 + round * DEVICES)).collect();
            all.sort();
            assert!(all[10] < Duration::from_secs(8), "one of {every} lost: {all:?}");
        }
    }
}
