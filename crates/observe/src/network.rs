//! Round trips of the network alone: a probe that asks the platform's host, and not the platform's application, for an
//! answer a few times a second, from a thread of its own.
//!
//! The kernel's smoothed round-trip time of a connection under load has the other side's delayed acknowledgements in it,
//! so that it cannot tell the network from the platform; an answer to a SYN, or to a ping of CoAP, has not.

use plimsoll_codec::coap::{Kind, Message};
use plimsoll_model::{Histogram, Nanos};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From one probe to the next.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long an answer is awaited.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a probe asks with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// A connection of TCP, closed at once: SYN to SYN-ACK.
    Tcp,
    /// A ping of CoAP (RFC 7252 section 4.3) and its reset.
    Coap,
}

/// Asks until it is dropped.
pub struct NetworkProbe {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    seen: Mutex<Histogram>,
}

impl NetworkProbe {
    /// Begins to ask that address.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(asking: Asking, address: SocketAddr) -> std::io::Result<NetworkProbe> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("network-probe".into())
            .spawn(move || ask_on(asking, address, &own))?;
        Ok(NetworkProbe { shared, thread: Some(thread) })
    }

    /// The round trips since the last call; `None` of none.
    pub fn take(&self) -> Option<Histogram> {
        let mut seen = self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.count() > 0).then(|| std::mem::take(&mut *seen))
    }
}

impl Drop for NetworkProbe {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It ends by itself once a last question is answered or given up.
            let _ = thread.join();
        }
    }
}

fn ask_on(asking: Asking, address: SocketAddr, shared: &Shared) {
    let mut id = 0;
    while !shared.ended.load(Ordering::Relaxed) {
        let took = match asking {
            Asking::Tcp => connect(address),
            Asking::Coap => ping(address, id),
        };
        id = id.wrapping_add(1);
        // What is not answered is no round trip.
        if let Some(took) = took {
            let took = Nanos::from_secs_f64(took.as_secs_f64());
            shared.seen.lock().unwrap_or_else(PoisonError::into_inner).record(took);
        }
        std::thread::park_timeout(INTERVAL);
    }
}

fn connect(address: SocketAddr) -> Option<Duration> {
    let began = Instant::now();
    TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    Some(began.elapsed())
}

fn ping(address: SocketAddr, id: u16) -> Option<Duration> {
    let own = SocketAddr::new(if address.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() }, 0);
    let socket = UdpSocket::bind(own).ok()?;
    socket.connect(address).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut datagram = Vec::new();
    Message::empty(Kind::Confirmable, id).encode(&mut datagram);
    let began = Instant::now();
    socket.send(&datagram).ok()?;
    let mut room = [0; 64];
    let length = socket.recv(&mut room).ok()?;
    let took = began.elapsed();
    let answer = Message::decode(room.get(..length)?).ok()?;
    (answer.id == id && matches!(answer.kind, Kind::Reset | Kind::Acknowledgement)).then_some(took)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What a probe has seen when it has seen anything.
    fn first(probe: &NetworkProbe) -> Histogram {
        let began = Instant::now();
        loop {
            if let Some(seen) = probe.take() {
                return seen;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "nothing was seen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_platform_that_listens_but_never_accepts_still_has_a_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let probe = NetworkProbe::start(Asking::Tcp, listener.local_addr().unwrap()).unwrap();
        assert!(first(&probe).quantile(0.5).unwrap() > Nanos::ZERO);
    }

    #[test]
    fn a_ping_is_answered_by_its_reset_and_by_nothing_else() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let mut room = [0; 64];
            for kind in [Kind::NonConfirmable, Kind::Reset] {
                let (length, from) = server.recv_from(&mut room).unwrap();
                let asked = Message::decode(&room[..length]).unwrap();
                assert_eq!(asked.kind, Kind::Confirmable);
                let mut out = Vec::new();
                Message::empty(kind, asked.id).encode(&mut out);
                server.send_to(&out, from).unwrap();
            }
        });
        let probe = NetworkProbe::start(Asking::Coap, address).unwrap();
        assert_eq!(first(&probe).count(), 1);
        answering.join().unwrap();
    }

    #[test]
    fn where_nobody_listens_there_is_no_round_trip() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(connect(address), None);
        assert_eq!(ping(address, 0), None);
    }
}
