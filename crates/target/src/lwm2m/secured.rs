//! The target's side of DTLS: a session with each device, by a pre-shared key that all have or by certificates.

use dimpl::crypto::{CryptoProvider, Dtls12CipherSuite, rust_crypto};
use dimpl::{Config, Dtls, DtlsCertificate, Output, PskResolver};
use plimsoll_codec::dtls::{HandshakeRecords, LARGEST_HANDSHAKE_MESSAGE, records};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

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
    sessions: HashMap<SocketAddr, Session>,
    room: Vec<u8>,
}

struct Session {
    dtls: Dtls,
    /// What came of the handshake; `None` where that is over.
    handshake: Option<HandshakeRecords>,
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
    /// Whether it has closed the session.
    is_closed: bool,
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
        let room = vec![0; LARGEST_HANDSHAKE_MESSAGE];
        Ok(Secured { config, certificate, sessions: HashMap::new(), room })
    }

    fn session(&self, now: Instant) -> Session {
        let config = Arc::clone(&self.config);
        let dtls = match &self.certificate {
            Some(certificate) => Dtls::new_12(config, certificate.clone(), now),
            None => Dtls::new_12_psk(config, now),
        };
        Session { dtls, handshake: Some(HandshakeRecords::default()) }
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
        let mut outcome = Outcome::default();
        let Some(session) = self.sessions.get_mut(&from) else { return outcome };
        let mut is_open = session.dtls.handle_timeout(now).is_ok();
        if session.handshake.is_none() {
            // What cannot be read is put away (section 4.1.2.7).
            let _ = is_open.then(|| session.dtls.handle_packet(datagram));
            session.collect(&mut self.room, &mut outcome);
        } else {
            // What is repeated is not to share a datagram with what is new: who knows the one already may put both away.
            session.collect(&mut self.room, &mut outcome);
            for record in records(datagram) {
                if session.handshake.as_mut().is_none_or(|handshake| handshake.take(record)) {
                    is_open = is_open && session.dtls.handle_packet(record).is_ok();
                    session.collect(&mut self.room, &mut outcome);
                }
            }
        }
        if outcome.is_closed {
            self.sessions.remove(&from);
        }
        outcome
    }

    /// Secures a message for a device; nothing where it has no session.
    pub fn secure(&mut self, to: SocketAddr, message: &[u8]) -> Vec<Vec<u8>> {
        let mut outcome = Outcome::default();
        if let Some(session) = self.sessions.get_mut(&to) {
            let _ = session.dtls.send_application_data(message);
            session.collect(&mut self.room, &mut outcome);
        }
        outcome.outgoing
    }
}

impl Session {
    /// Adds what a session gives.
    fn collect(&mut self, room: &mut Vec<u8>, outcome: &mut Outcome) {
        loop {
            match self.dtls.poll_output(room) {
                Output::Packet(datagram) => outcome.outgoing.push(datagram.to_vec()),
                Output::ApplicationData(message) => outcome.messages.push(message.to_vec()),
                Output::BufferTooSmall { needed } => room.resize(needed, 0),
                Output::Connected => self.handshake = None,
                Output::CloseNotify => outcome.is_closed = true,
                Output::Timeout(_) => return,
                _ => {}
            }
        }
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
        let mut room = vec![0; LARGEST_HANDSHAKE_MESSAGE];
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

    /// As they come late of a device that has begun again from the same address.
    #[test]
    fn records_of_an_earlier_session_do_not_end_a_handshake() {
        let mut secured = Secured::new(&Secret::Key("sesame".into())).unwrap();
        let (now, from) = (Instant::now(), SocketAddr::from(([127, 0, 0, 1], 1000)));
        let (mut device, mut room) = (device(now), vec![0; LARGEST_HANDSHAKE_MESSAGE]);
        device.handle_timeout(now).unwrap();
        let mut is_connected = false;
        while !is_connected {
            match device.poll_output(&mut room) {
                Output::Packet(datagram) => {
                    let answers = secured.incoming(from, datagram, now).outgoing;
                    for kind in [21, 22, 23] {
                        let stale = [kind, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, 9, 0, 4, 1, 2, 3, 4];
                        (0..3).for_each(|_| drop(secured.incoming(from, &stale, now)));
                    }
                    answers.iter().for_each(|answer| device.handle_packet(answer).unwrap());
                }
                Output::Connected => is_connected = true,
                Output::Timeout(_) => panic!("the handshake does not go on"),
                _ => {}
            }
        }
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
