//! Round trips of the network alone: a probe that asks the platform's host, and not the platform's application, for an
//! answer a few times a second, from a thread of its own.
//!
//! The kernel's smoothed round-trip time of a connection under load has the other side's delayed acknowledgements in it,
//! so that it cannot tell the network from the platform; the kernel's answer to a SYN has not. Where nobody listens, as over
//! UDP, that answer is a reset, which serves as well.

use plimsoll_model::{Histogram, Nanos};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From one probe to the next.
const INTERVAL: Duration = Duration::from_millis(250);
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

fn ask_on(address: SocketAddr, shared: &Shared) {
    while !shared.ended.load(Ordering::Relaxed) {
        if shared.begun.load(Ordering::Relaxed)
            && let Some(took) = round_trip(address)
        {
            let took = Nanos::from_secs_f64(took.as_secs_f64());
            shared.seen.lock().unwrap_or_else(PoisonError::into_inner).record(took);
        }
        std::thread::park_timeout(INTERVAL);
    }
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

    #[test]
    fn nothing_is_asked_before_the_beginning() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let probe = NetworkProbe::new(listener.local_addr().unwrap()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(listener.accept().is_err() && probe.take().is_none());
        probe.begin();
        first(&probe);
        assert!(listener.accept().is_ok());
    }
}
