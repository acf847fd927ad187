//! Sessions for tests that rustls makes on both sides in memory, and the key log that its client writes.

use super::keys::Keys;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, KeyLog, RootCertStore, ServerConfig, ServerConnection,
    SupportedCipherSuite, SupportedProtocolVersion, version,
};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

/// A side's bytes on the wire.
pub type Said = (usize, Vec<u8>);

/// Keeps a key log as text.
#[derive(Debug, Default)]
pub struct Log(pub Mutex<String>);

impl KeyLog for Log {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        *self.0.lock().unwrap() += &format!("{label} {} {}\n", hex(random), hex(secret));
    }
}

/// Both ends of sessions, of which the client logs its keys.
pub struct Pair {
    pub client: Arc<ClientConfig>,
    pub server: Arc<ServerConfig>,
    pub log: Arc<Log>,
}

impl Pair {
    pub fn new(suite: SupportedCipherSuite, version: &'static SupportedProtocolVersion) -> Pair {
        let provider = ring::default_provider();
        let provider = Arc::new(rustls::crypto::CryptoProvider { cipher_suites: vec![suite], ..provider });
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let log = Arc::new(Log::default());
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.key_log = log.clone();
        client.enable_early_data = true;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        server.max_early_data_size = 1000;
        Pair { client: Arc::new(client), server: Arc::new(server), log }
    }

    pub fn keys(&self) -> Keys {
        let keys = Keys::default();
        keys.read(self.log.0.lock().unwrap().as_bytes(), "the log".into());
        assert!(keys.notes().is_empty(), "{:?}", keys.notes());
        keys
    }

    pub fn open(&self) -> Session {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::clone(&self.client), name).unwrap();
        let server = ServerConnection::new(Arc::clone(&self.server)).unwrap();
        let mut ends: [Connection; 2] = [client.into(), server.into()];
        ends.iter_mut().for_each(|end| end.set_buffer_limit(None));
        Session { ends, wire: Vec::new(), said: Vec::new() }
    }
}

/// A session on its way.
pub struct Session {
    pub ends: [Connection; 2],
    pub wire: Vec<Said>,
    /// What was said in clear, by whom.
    pub said: Vec<Said>,
}

impl Session {
    /// Lets both sides hand over what they have until there is no more.
    pub fn turn(&mut self) {
        loop {
            let mut moved = false;
            for from in [0, 1] {
                let mut bytes = Vec::new();
                while self.ends[from].wants_write() {
                    self.ends[from].write_tls(&mut bytes).unwrap();
                }
                if bytes.is_empty() {
                    continue;
                }
                moved = true;
                let to = &mut self.ends[1 - from];
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    to.read_tls(&mut rest).unwrap();
                    to.process_new_packets().unwrap();
                    let mut received = Vec::new();
                    let _ = to.reader().read_to_end(&mut received);
                }
                self.wire.push((from, bytes));
            }
            if !moved {
                return;
            }
        }
    }

    pub fn say(&mut self, from: usize, text: &[u8]) {
        self.ends[from].writer().write_all(text).unwrap();
        self.said.push((from, text.to_vec()));
        self.turn();
    }

    /// A dialogue with a handshake, of parts short and long.
    pub fn talk(&mut self) {
        self.turn();
        for round in 0..6_usize {
            let long = if round == 3 { 40_000 } else { 10 };
            self.say(0, format!("question {round} {}", "?".repeat(long)).as_bytes());
            self.say(1, format!("answer {round} {}", "!".repeat(2 * long)).as_bytes());
        }
    }

    pub fn update_keys(&mut self, from: usize) {
        match &mut self.ends[from] {
            Connection::Client(client) => client.refresh_traffic_keys().unwrap(),
            Connection::Server(server) => server.refresh_traffic_keys().unwrap(),
        }
    }
}

/// The suites of both versions that rustls has.
pub fn suites() -> Vec<(SupportedCipherSuite, &'static SupportedProtocolVersion)> {
    ring::ALL_CIPHER_SUITES
        .iter()
        .map(|suite| match suite {
            SupportedCipherSuite::Tls12(_) => (*suite, &version::TLS12),
            SupportedCipherSuite::Tls13(_) => (*suite, &version::TLS13),
        })
        // The certificates of the tests are signed with ECDSA.
        .filter(|(suite, _)| !format!("{suite:?}").contains("_RSA_"))
        .collect()
}
