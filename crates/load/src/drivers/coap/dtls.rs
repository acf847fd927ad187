//! DTLS 1.2 under a client's messages, by a pre-shared key or a certificate (RFC 7252 sections 9.1.3.1 and 9.1.3.3), without I/O:
//! what comes from the network and what goes to it are datagrams.

mod given;
mod words;

use super::certificates::{Certificates, Check};
use dimpl::crypto::{CryptoProvider, Dtls12CipherSuite, rust_crypto};
use dimpl::{Config, ConfigBuilder, Dtls, DtlsCertificate, Error, Output, PskResolver};
use plimsoll_codec::dtls::{HandshakeRecords, LARGEST_HANDSHAKE_MESSAGE, records};
use plimsoll_model::Nanos;
use plimsoll_scenario::plan::{DtlsPlan, ProofPlan, PskPlan};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use words::Source;

pub use given::Credentials;

/// Repetitions of a part of the handshake: more than fit in its time, which is what ends it.
const REPETITIONS: usize = 30;
/// Room for what a session gives, in bytes; grows where a record is larger, for there may be many sessions.
const ROOM: usize = 256;

/// What the sessions of a shard's clients have in common.
pub struct Terms {
    proof: Proof,
    /// What sessions have in common whose certificates another server gave; made with the first of them.
    given: OnceLock<Arc<Config>>,
    timeout: Nanos,
    /// The instant at which the run's clock shows zero, as the sessions see it.
    origin: Instant,
}

/// What proves who the clients are.
enum Proof {
    Key(PskPlan),
    Certificate(Box<Certificates>),
}

impl Terms {
    /// Of devices.
    ///
    /// # Errors
    /// The certificates cannot be used: why, for people.
    pub fn of_devices(plan: &DtlsPlan) -> Result<Terms, String> {
        Terms::of(plan, false)
    }

    /// Of subscribers.
    ///
    /// # Errors
    /// Those of [`Terms::of_devices`].
    pub fn of_subscribers(plan: &DtlsPlan) -> Result<Terms, String> {
        Terms::of(plan, true)
    }

    fn of(plan: &DtlsPlan, are_subscribers: bool) -> Result<Terms, String> {
        let proof = match &plan.proof {
            ProofPlan::Keys { subscribers, .. } if are_subscribers => Proof::Key(subscribers.clone()),
            ProofPlan::Keys { devices, .. } => Proof::Key(devices.clone()),
            ProofPlan::Certificates(tls) => {
                let config = builder(plan.timeout);
                Proof::Certificate(Box::new(Certificates::new(tls, are_subscribers, config)?))
            }
        };
        Ok(Terms { proof, given: OnceLock::new(), timeout: plan.timeout, origin: Instant::now() })
    }

    /// A new session of the client of that number, which begins now.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn session(&self, number: u32, now: Nanos) -> Result<Session, String> {
        match &self.proof {
            Proof::Key(psk) => self.by_key((psk.identity(number), psk.key(number)?), Source::Scenario, now),
            Proof::Certificate(certificates) => {
                let (config, own) = (certificates.config(), certificates.of(number));
                Ok(self.by_certificate((config, own), certificates.check(), Source::Scenario, now))
            }
        }
    }

    fn by_key(
        &self,
        (identity, key): (Vec<u8>, Vec<u8>),
        source: Source,
        now: Nanos,
    ) -> Result<Session, String> {
        let name = String::from_utf8_lossy(&identity).into_owned();
        let config = builder(self.timeout)
            .with_crypto_provider(provider())
            .with_psk_client(identity, Arc::new(Key(key)))
            .build()
            .map_err(|error| format!("DTLS cannot begin: {error}"))?;
        let dtls = Dtls::new_12_psk(Arc::new(config), instant(self.origin, now));
        Ok(self.begun(dtls, (name, source), None, now))
    }

    fn by_certificate(
        &self,
        (config, own): (Arc<Config>, DtlsCertificate),
        check: Arc<Check>,
        source: Source,
        now: Nanos,
    ) -> Session {
        let dtls = Dtls::new_12(config, own, instant(self.origin, now));
        self.begun(dtls, (String::new(), source), Some(check), now)
    }

    fn begun(
        &self,
        mut dtls: Dtls,
        (name, source): (String, Source),
        check: Option<Arc<Check>>,
        now: Nanos,
    ) -> Session {
        dtls.set_active(true);
        // For a certificate the library does not ask for room. What is not written to takes no memory.
        let room = vec![0; if check.is_some() { LARGEST_HANDSHAKE_MESSAGE } else { ROOM }];
        Session {
            dtls,
            name,
            source,
            check,
            origin: self.origin,
            began: now,
            handshake: Some(HandshakeRecords::default()),
            heard: false,
            next_at: now,
            out: VecDeque::new(),
            clear: VecDeque::new(),
            room,
        }
    }
}

/// What all sessions have in common: the times of a handshake, and one version.
fn builder(timeout: Nanos) -> ConfigBuilder {
    let timeout = Duration::from_nanos(u64::try_from(timeout.0).unwrap_or(1));
    Config::builder().dtls13_cipher_suites(&[]).flight_retries(REPETITIONS).handshake_timeout(timeout)
}

/// The one suite for keys, without elliptic curves: the library tries out all that it is given before each session, which for
/// curves takes longer than the handshake.
fn provider() -> CryptoProvider {
    let all = rust_crypto::default_provider();
    let suites = all.cipher_suites;
    let at = suites.iter().position(|suite| suite.suite() == Dtls12CipherSuite::PSK_AES128_CCM_8);
    let one = at.and_then(|at| suites.get(at..=at)).unwrap_or(suites);
    CryptoProvider { cipher_suites: one, kx_groups: &[], ..all }
}

/// Whether a datagram begins as a record does (RFC 6347 section 4.1), which one of CoAP does not.
fn is_record(datagram: &[u8]) -> bool {
    matches!(datagram, [20..=23, 0xfe, ..])
}

fn instant(origin: Instant, now: Nanos) -> Instant {
    origin + Duration::from_nanos(u64::try_from(now.0).unwrap_or_default())
}

/// A key for whoever asks: the client knows one only.
struct Key(Vec<u8>);

impl PskResolver for Key {
    fn resolve(&self, _: &[u8]) -> Option<Vec<u8>> {
        Some(self.0.clone())
    }
}

/// The client's side of one session.
pub struct Session {
    dtls: Dtls,
    /// The identity, for people; empty where a certificate says who the client is.
    name: String,
    /// Who gave what proves it.
    source: Source,
    /// Whether the platform is who it should be, where certificates say that.
    check: Option<Arc<Check>>,
    origin: Instant,
    began: Nanos,
    /// What came of the handshake; `None` where that is over.
    handshake: Option<HandshakeRecords>,
    /// Whether anything of DTLS ever came.
    heard: bool,
    /// When its timer is due, while the handshake goes on.
    next_at: Nanos,
    /// Datagrams for the network, and messages that came.
    out: VecDeque<Vec<u8>>,
    clear: VecDeque<Vec<u8>>,
    room: Vec<u8>,
}

impl Session {
    /// Lets time pass: begins the handshake, and repeats what of it was not answered.
    ///
    /// # Errors
    /// The handshake took too long: why, for people.
    pub fn tick(&mut self, now: Nanos) -> Result<(), String> {
        let outcome = self.dtls.handle_timeout(instant(self.origin, now));
        self.drain(now, outcome).map(drop)
    }

    /// Takes in a datagram from the network. Returns how long the handshake took, if it came to its end by it.
    ///
    /// # Errors
    /// The session is of no use any more: why, for people.
    pub fn incoming(&mut self, datagram: &[u8], now: Nanos) -> Result<Option<Nanos>, String> {
        self.heard |= is_record(datagram);
        let refreshed = self.dtls.handle_timeout(instant(self.origin, now));
        if self.handshake.is_none() {
            let outcome = refreshed.and_then(|()| self.dtls.handle_packet(datagram));
            return self.drain(now, outcome);
        }
        // A server that is asked again may put what it repeats before what is new.
        let mut ended = self.drain(now, refreshed)?;
        for record in records(datagram) {
            if self.handshake.as_mut().is_none_or(|handshake| handshake.take(record)) {
                let outcome = self.dtls.handle_packet(record);
                ended = self.drain(now, outcome)?.or(ended);
            }
        }
        Ok(ended)
    }

    /// Secures a message.
    ///
    /// # Errors
    /// The session is of no use any more: why, for people.
    pub fn secure(&mut self, message: &[u8], now: Nanos) -> Result<(), String> {
        let outcome = self.dtls.send_application_data(message).map(drop);
        self.drain(now, outcome).map(drop)
    }

    /// Says that nothing follows (RFC 5246 section 7.2.1).
    pub fn close(&mut self, now: Nanos) {
        let outcome = self.dtls.close();
        // Whoever leaves does not ask whether that is possible.
        let _ = self.drain(now, outcome);
    }

    /// Takes a datagram that is to go to the network.
    pub fn outgoing(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// Takes a message that came.
    pub fn message(&mut self) -> Option<Vec<u8>> {
        self.clear.pop_front()
    }

    /// Whether a message waits to be taken.
    pub fn has_message(&self) -> bool {
        !self.clear.is_empty()
    }

    /// When to let time pass; `None` where nothing waits for it.
    pub fn wakes_at(&self) -> Option<Nanos> {
        self.handshake.is_some().then_some(self.next_at)
    }

    fn drain(&mut self, now: Nanos, outcome: Result<(), Error>) -> Result<Option<Nanos>, String> {
        let mut ended = None;
        let mut closed = false;
        let mut refused = Ok(());
        loop {
            match self.dtls.poll_output(&mut self.room) {
                Output::Packet(datagram) => self.out.push_back(datagram.to_vec()),
                Output::ApplicationData(message) => self.clear.push_back(message.to_vec()),
                Output::BufferTooSmall { needed } => self.room.resize(needed, 0),
                Output::Connected => {
                    self.handshake = None;
                    self.room = vec![0; ROOM];
                    ended = Some(now - self.began);
                }
                Output::PeerCert(certificate) => {
                    refused = self.check.as_ref().map_or(Ok(()), |check| check.verify(certificate));
                }
                Output::CloseNotify => closed = true,
                Output::Timeout(at) => {
                    let wait = at.saturating_duration_since(self.origin).as_nanos();
                    self.next_at = Nanos(i64::try_from(wait).unwrap_or(i64::MAX));
                    break;
                }
                _ => {}
            }
        }
        outcome.map_err(|error| self.told(&error))?;
        refused?;
        match closed {
            true => Err("the platform closed the DTLS session".into()),
            false => Ok(ended),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use plimsoll_scenario::plan::{KeyPlan, Piece, Template};
    use plimsoll_stats::distribution::random;

    /// So long a handshake may take here: long enough for sixteen repetitions, which are never all lost.
    const DAY: Nanos = Nanos::from_secs(86_400);

    /// The other side: a server that knows a key for everybody.
    pub struct Server {
        pub(super) dtls: Dtls,
        pub(super) origin: Instant,
        pub(super) heard: Vec<Vec<u8>>,
    }

    impl Server {
        pub(super) fn new(key: &str, origin: Instant) -> Server {
            let key = Arc::new(Key(key.into()));
            let timeout = Duration::from_nanos(DAY.0 as u64);
            let config = Config::builder().with_psk_server(None, key).flight_retries(REPETITIONS);
            let config = Arc::new(config.handshake_timeout(timeout).build().unwrap());
            Server { dtls: Dtls::new_12_psk(config, origin), origin, heard: Vec::new() }
        }

        /// Takes in a datagram; the datagrams that it answers with.
        pub fn incoming(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
            self.take(Some(datagram), self.origin)
        }

        /// Secures a message, as datagrams.
        pub fn secure(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
            self.dtls.send_application_data(message).unwrap();
            self.take(None, self.origin)
        }

        /// Takes a message that came.
        pub fn message(&mut self) -> Option<Vec<u8>> {
            (!self.heard.is_empty()).then(|| self.heard.remove(0))
        }

        fn take(&mut self, datagram: Option<&[u8]>, now: Instant) -> Vec<Vec<u8>> {
            let timed = self.dtls.handle_timeout(now);
            // One that gives up is silent from then on.
            let _ =
                timed.and_then(|()| datagram.map_or(Ok(()), |datagram| self.dtls.handle_packet(datagram)));
            let (mut room, mut out) = (vec![0; LARGEST_HANDSHAKE_MESSAGE], Vec::new());
            loop {
                match self.dtls.poll_output(&mut room) {
                    Output::Packet(datagram) => out.push(datagram.to_vec()),
                    Output::ApplicationData(message) => self.heard.push(message.to_vec()),
                    Output::Timeout(_) => return out,
                    _ => {}
                }
            }
        }
    }

    pub(super) fn terms(key: &str) -> Terms {
        let text = |text: &str| Template { pieces: vec![Piece::Text(text.into()), Piece::Device] };
        let psk = PskPlan { identity: text("device "), key: KeyPlan::Template(text(key)) };
        let proof = ProofPlan::Keys { devices: psk.clone(), subscribers: psk };
        Terms::of_devices(&DtlsPlan { proof, timeout: DAY }).unwrap()
    }

    fn session(key: &str) -> Session {
        terms(key).session(7, Nanos::ZERO).unwrap()
    }

    /// A client's side and the other one, which have the same key.
    pub fn pair() -> (Session, Server) {
        let session = session("key of ");
        let server = Server::new("key of 7", session.origin);
        (session, server)
    }

    /// Lets both speak over a network that loses what it is told to, until the handshake is over: how long it took.
    pub(super) fn speak(
        session: &mut Session,
        server: &mut Server,
        mut lost: impl FnMut() -> bool,
    ) -> Result<Nanos, String> {
        let mut now = Nanos::ZERO;
        loop {
            session.tick(now)?;
            let mut answers = server.take(None, instant(session.origin, now));
            while let Some(datagram) = session.outgoing() {
                if !lost() {
                    answers.extend(server.take(Some(&datagram), instant(session.origin, now)));
                }
            }
            for answer in answers {
                let ended = if lost() { None } else { session.incoming(&answer, now)? };
                if let Some(took) = ended {
                    return Ok(took);
                }
            }
            now += Nanos::from_millis(100);
        }
    }

    #[test]
    fn a_session_is_made_although_datagrams_are_lost() {
        let mut repeated = 0;
        for seed in 0..20 {
            let mut dice = random(seed, &[]);
            let mut session = session("key of ");
            let mut server = Server::new("key of 7", session.origin);
            let took = speak(&mut session, &mut server, || seed > 0 && dice.fraction() < 0.15).unwrap();
            // A part that was lost is repeated after a second, give or take a quarter.
            repeated += u32::from(took > Nanos::from_millis(700));
            assert!(seed > 0 || took < Nanos::from_secs(1), "{took:?}");
            assert_eq!(session.wakes_at(), None);
            session.secure(b"hello", took).unwrap();
            let now = instant(session.origin, took);
            let sealed = session.outgoing().unwrap();
            assert!(!sealed.windows(5).any(|window| window == b"hello"));
            server.take(Some(&sealed), now);
            // Twice on the way, it is heard once.
            server.take(Some(&sealed), now);
            assert_eq!(server.heard, [b"hello"], "seed {seed}");
            server.dtls.send_application_data(b"yes").unwrap();
            for answer in server.take(None, now) {
                session.incoming(&answer, took).unwrap();
            }
            assert_eq!((session.message(), session.message()), (Some(b"yes".to_vec()), None));
        }
        assert!(repeated > 3, "losses cost nothing: {repeated}");
    }

    /// As one does that repeats its part when it is asked, and not by a timer.
    #[test]
    fn a_server_may_put_what_it_repeats_before_what_is_new() {
        let (mut session, mut server) = pair();
        session.tick(Nanos::ZERO).unwrap();
        let hello = session.outgoing().unwrap();
        let verify = server.incoming(&hello);
        session.incoming(&verify[0], Nanos::ZERO).unwrap();
        assert!(session.outgoing().is_some(), "with the cookie, and lost");
        let later = Nanos::from_secs(2);
        session.tick(later).unwrap();
        let again = session.outgoing().unwrap();
        let answers = server.take(Some(&again), instant(session.origin, later));
        assert_eq!(answers.iter().map(|answer| records(answer).count()).collect::<Vec<_>>(), [3]);
        session.incoming(&answers[0], later).unwrap();
        let last = server.take(Some(&session.outgoing().unwrap()), instant(session.origin, later));
        assert_eq!(session.incoming(&last[0], later), Ok(Some(later)));
    }

    /// As an overloaded server sends them, late, to whoever has begun anew from the same address.
    #[test]
    fn records_of_an_earlier_session_do_not_end_a_handshake() {
        let (mut session, mut server) = pair();
        session.tick(Nanos::ZERO).unwrap();
        let hello = session.outgoing().unwrap();
        for kind in [20, 21, 22, 23] {
            for sequence in (0..100).chain(0..100) {
                let stale = [kind, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, sequence, 0, 4, 1, 2, 3, 4];
                let _ = session.incoming(&stale, Nanos::ZERO);
            }
        }
        let (mut to_server, mut ended) = (vec![hello], None);
        for _ in 0..3 {
            let answers: Vec<_> = to_server.iter().flat_map(|datagram| server.incoming(datagram)).collect();
            for answer in &answers {
                ended = session.incoming(answer, Nanos::ZERO).unwrap().or(ended);
            }
            to_server = std::iter::from_fn(|| session.outgoing()).collect();
        }
        assert_eq!(ended, Some(Nanos::ZERO));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_remedy() {
        let mut wrong = session("another ");
        let mut server = Server::new("key of 7", wrong.origin);
        let reason = speak(&mut wrong, &mut server, || false).unwrap_err();
        assert!(reason.contains("`device 7`") && reason.contains("`coap.dtls"), "{reason}");
        let mut alone = session("key of ");
        let reason = speak(&mut alone, &mut server, || true).unwrap_err();
        assert!(reason.contains("nobody answers"), "{reason}");
    }

    #[test]
    fn a_session_that_the_platform_closes_is_over() {
        let mut session = session("key of ");
        let mut server = Server::new("key of 7", session.origin);
        let took = speak(&mut session, &mut server, || false).unwrap();
        server.dtls.close().unwrap();
        let said: Vec<Vec<u8>> = server.take(None, instant(session.origin, took));
        let told: Vec<_> = said.iter().map(|datagram| session.incoming(datagram, took)).collect();
        assert_eq!(told, [Err("the platform closed the DTLS session".to_owned())]);
        assert!(session.secure(b"hello", took).is_err());
    }
}
