//! Round trips of the network alone: a probe that asks the kernel of the platform's host, and not the platform's application,
//! for an answer, from a thread of its own.
//!
//! The kernel's smoothed round-trip time of a connection under load has the other side's delayed acknowledgements in it,
//! so that it cannot tell the network from the platform; an echo of ICMP has not. Where echoes are not answered, the kernel's
//! answer to a SYN serves: a platform may log such connections, so that they are few. Where nobody listens, as over UDP, that
//! answer is a reset, which serves as well.

mod echo;

use echo::Echo;
use plimsoll_model::{Histogram, Nanos};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From one echo to the next, and from one connection to the next.
const ECHOES: Duration = Duration::from_millis(250);
const CONNECTIONS: Duration = Duration::from_secs(1);
/// Echoes without any answer after which connections take their place.
const UNANSWERED: u32 = 3;
/// How long an answer is awaited.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks from its beginning until it is dropped.
pub struct NetworkProbe {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    begun: AtomicBool,
    ended: AtomicBool,
    seen: Mutex<Histogram>,
}

impl NetworkProbe {
    /// A probe of that address that has not begun. Its thread has the precedence of the one that calls this.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn new(address: SocketAddr) -> std::io::Result<NetworkProbe> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("network-probe".into()).spawn(move || ask_on(address, &own))?;
        Ok(NetworkProbe { shared, thread: Some(thread) })
    }

    /// Begins to ask, unless it has.
    pub fn begin(&self) {
        if !self.shared.begun.swap(true, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// The round trips since the last call; `None` of none.
    pub fn take(&self) -> Option<Histogram> {
        let mut seen = self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.count() > 0).then(|| std::mem::take(&mut *seen))
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for NetworkProbe {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // It ends by itself once a last question is answered or given up.
            let _ = thread.join();
        }
    }
}

/// Whether an address is one of this host's own.
pub fn is_here(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

fn ask_on(address: SocketAddr, shared: &Shared) {
    let mut echo = Echo::to(address.ip()).ok();
    let (mut unanswered, mut is_answered) = (0, false);
    while !shared.ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        if shared.begun.load(Ordering::Relaxed) {
            let took = match &mut echo {
                Some(echo) => echo.round_trip(PATIENCE),
                None => round_trip(address),
            };
            match took {
                Some(took) => {
                    unanswered = 0;
                    let took = Nanos::from_secs_f64(took.as_secs_f64());
                    shared.seen.lock().unwrap_or_else(PoisonError::into_inner).record(took);
                }
                None => unanswered += 1,
            }
            is_answered |= took.is_some();
            // Echoes that were answered and are lost now say something of the network.
            if unanswered >= UNANSWERED && !is_answered {
                echo = None;
            }
        }
        let period = if echo.is_some() { ECHOES } else { CONNECTIONS };
        std::thread::park_timeout(pause(period, began.elapsed()));
    }
}

/// From an answer to the next question: of a network that became slow there are as many round trips as of a fast one.
fn pause(period: Duration, took: Duration) -> Duration {
    period.saturating_sub(took)
}

/// SYN to SYN-ACK, or to the reset of a host where nobody listens; `None` where nothing comes.
fn round_trip(address: SocketAddr) -> Option<Duration> {
    let began = Instant::now();
    let outcome = TcpStream::connect_timeout(&address, PATIENCE);
    let took = began.elapsed();
    match outcome {
        Ok(_) => Some(took),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Some(took),
        Err(_) => None,
    }
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
        let probe = NetworkProbe::new(listener.local_addr().unwrap()).unwrap();
        probe.begin();
        assert!(first(&probe).quantile(0.5).unwrap() > Nanos::ZERO);
    }

    #[test]
    fn a_host_where_nobody_listens_has_one_too() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(round_trip(address).is_some_and(|took| took > Duration::ZERO));
    }

    /// Brokers log each connection that says nothing: where the host answers echoes, none comes.
    #[test]
    fn a_host_that_answers_echoes_is_not_connected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        // Needs CAP_NET_RAW, or a group within net.ipv4.ping_group_range.
        assert!(Echo::to(listener.local_addr().unwrap().ip()).is_ok());
        let probe = NetworkProbe::new(listener.local_addr().unwrap()).unwrap();
        probe.begin();
        let begun = Instant::now();
        let mut seen = 0;
        while seen < 3 && begun.elapsed() < Duration::from_secs(30) {
            seen += first(&probe).count();
        }
        assert!(seen >= 3 && listener.accept().is_err());
    }

    #[test]
    fn a_slow_network_is_asked_as_often() {
        assert_eq!(pause(ECHOES, Duration::from_millis(130)), Duration::from_millis(120));
        assert_eq!(pause(ECHOES, PATIENCE), Duration::ZERO);
    }

    #[test]
    fn addresses_of_this_host_are_known() {
        assert!(is_here("127.0.0.1".parse().unwrap()) && is_here("127.9.9.9".parse().unwrap()));
        assert!(!is_here("192.0.2.1".parse().unwrap()), "RFC 5737: nobody has it");
    }

    #[test]
    fn nothing_is_asked_before_the_beginning() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let probe = NetworkProbe::new(listener.local_addr().unwrap()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(listener.accept().is_err() && probe.take().is_none());
        probe.begin();
        first(&probe);
    }
}
