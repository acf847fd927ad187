//! Serves the metrics over HTTP, one request a connection. A scraper asks every few seconds, so one at a time is enough; one
//! that says nothing is left after a moment.

use super::Live;
use plimsoll_codec::openmetrics::{self, OPENMETRICS, PROMETHEUS};
use rustix::net::Shutdown;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The path of the metrics.
const PATH: &str = "/metrics";
/// How long a request may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of a request.
const MOST: usize = 16 << 10;

/// The server. Dropped, it ends.
pub struct Endpoint {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    listener: TcpListener,
}

impl Endpoint {
    /// Listens there and nowhere else.
    ///
    /// # Errors
    /// The address is taken, is not one of this host, or needs a right that this process lacks.
    pub fn open(address: SocketAddr, live: Arc<Live>) -> std::io::Result<Endpoint> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let ends = Arc::new(AtomicBool::new(false));
        let (own, stop) = (listener.try_clone()?, Arc::clone(&ends));
        let serve = move || {
            for stream in own.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                match stream {
                    // A scraper that goes away is its own affair.
                    Ok(stream) => drop(answer(stream, &live)),
                    // Out of descriptors: the run needs them more.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        };
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(serve)?;
        Ok(Endpoint { address, ends, thread: Some(thread), listener })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes the thread out of waiting for a connection.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, live: &Live) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = head(&mut stream)?;
    let mut words = head.split_ascii_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let wants_openmetrics = head.to_ascii_lowercase().contains("application/openmetrics-text");
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", PATH) => {
            let kind = if wants_openmetrics { OPENMETRICS } else { PROMETHEUS };
            ("200 OK", kind, openmetrics::text(&live.families(), wants_openmetrics))
        }
        ("GET" | "HEAD", _) => {
            ("404 Not Found", "text/plain", format!("the metrics of the run are at {PATH}\n"))
        }
        _ => ("405 Method Not Allowed", "text/plain", "only GET is answered\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes())?;
    }
    Ok(())
}

/// The head of the request, as far as it came in time.
fn head(stream: &mut TcpStream) -> std::io::Result<String> {
    let begun = Instant::now();
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MOST {
        let left = PATIENCE.checked_sub(begun.elapsed()).filter(|left| !left.is_zero());
        let left = left.ok_or(std::io::ErrorKind::TimedOut)?;
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => break,
            count => head.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
