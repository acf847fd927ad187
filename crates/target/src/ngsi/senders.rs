//! Threads that carry notifications to listeners over kept connections. A listener has one of them, so that its
//! notifications come in order; what waits is bounded, and what finds no room is counted.

use plimsoll_codec::http::{Reader, Side, Start};
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Threads.
const SENDERS: usize = 4;
/// Notifications that wait for one thread, and their bytes.
const MOST_WAITING: usize = 20_000;
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// How long a listener may take to accept or to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest answer of a listener, in bytes.
const LARGEST_ANSWER: usize = 64 * 1024;
/// Connections that a thread keeps.
const MOST_KEPT: usize = 256;

/// A notification on its way.
pub struct Notification {
    /// Host and port of the listener.
    pub authority: String,
    /// The path there.
    pub target: String,
    /// The whole request.
    pub request: Vec<u8>,
}

/// What became of notifications.
#[derive(Debug, Default)]
pub struct Told {
    /// Taken by their listeners.
    pub delivered: AtomicU64,
    /// The listener could not be reached, or answered with something else than success.
    pub failed: AtomicU64,
    /// No room to wait.
    pub dropped: AtomicU64,
}

/// The threads; dropped, they end.
pub struct Senders {
    queues: Vec<Arc<Queue>>,
    told: Arc<Told>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

#[derive(Default)]
struct Waiting {
    notifications: VecDeque<Notification>,
    bytes: usize,
    over: bool,
}

impl Senders {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn start() -> std::io::Result<Senders> {
        let told = Arc::new(Told::default());
        let mut senders = Senders { queues: Vec::new(), told: Arc::clone(&told) };
        for number in 0..SENDERS {
            let queue = Arc::new(Queue::default());
            senders.queues.push(Arc::clone(&queue));
            let told = Arc::clone(&told);
            let name = format!("notify{number}");
            std::thread::Builder::new().name(name).spawn(move || carry(&queue, &told))?;
        }
        Ok(senders)
    }

    /// Lets a notification wait for its turn.
    pub fn send(&self, notification: Notification) {
        let mut hasher = DefaultHasher::new();
        (&notification.authority, &notification.target).hash(&mut hasher);
        let turn = hasher.finish() as usize % self.queues.len().max(1);
        let Some(queue) = self.queues.get(turn) else { return };
        let mut waiting = queue.lock();
        let bytes = notification.request.len();
        if waiting.notifications.len() >= MOST_WAITING || waiting.bytes + bytes > MOST_BYTES {
            self.told.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.bytes += bytes;
        waiting.notifications.push_back(notification);
        queue.bell.notify_one();
    }

    /// What became of notifications so far.
    pub fn told(&self) -> &Told {
        &self.told
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.lock().over = true;
            queue.bell.notify_one();
        }
    }
}

impl Queue {
    /// What another thread left half done is no worse than what it had not begun.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next notification; `None` at the end.
    fn next(&self) -> Option<Notification> {
        let mut waiting = self.lock();
        loop {
            if waiting.over {
                return None;
            }
            if let Some(notification) = waiting.notifications.pop_front() {
                waiting.bytes -= notification.request.len();
                return Some(notification);
            }
            waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn carry(queue: &Queue, told: &Told) {
    let mut kept: HashMap<String, Line> = HashMap::new();
    while let Some(Notification { authority, request, .. }) = queue.next() {
        let mut line = kept.remove(&authority);
        let mut taken = line.as_mut().map(|line| line.carry(&request));
        // A kept connection may have been closed since; a listener that is slow must not be told twice.
        if taken.as_ref().is_none_or(|taken| taken.as_ref().is_err_and(was_closed)) {
            line = Line::open(&authority).ok();
            taken = line.as_mut().map(|line| line.carry(&request));
        }
        let taken = taken.and_then(Result::ok);
        let count = if taken.is_some_and(|taken| taken.success) { &told.delivered } else { &told.failed };
        count.fetch_add(1, Ordering::Relaxed);
        if let Some(line) = line.filter(|_| taken.is_some_and(|taken| taken.stays)) {
            if kept.len() >= MOST_KEPT {
                kept.clear();
            }
            kept.insert(authority, line);
        }
    }
}

fn was_closed(error: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// A connection to a listener.
struct Line {
    stream: TcpStream,
    reader: Reader,
}

#[derive(Clone, Copy)]
struct Taken {
    success: bool,
    stays: bool,
}

impl Line {
    fn open(authority: &str) -> std::io::Result<Line> {
        let mut failed = std::io::Error::from(ErrorKind::NotFound);
        for address in authority.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(Line { stream, reader: Reader::new(Side::Answer, LARGEST_ANSWER) });
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Sends a request and waits for its answer.
    fn carry(&mut self, request: &[u8]) -> std::io::Result<Taken> {
        self.stream.write_all(request)?;
        let mut scratch = [0; 4096];
        let mut ended = false;
        loop {
            match self.reader.take(ended, false) {
                Ok(Some(answer)) => {
                    let success = matches!(answer.head.start, Start::Status { code: 200..300, .. });
                    return Ok(Taken { success, stays: answer.stays && !ended });
                }
                Ok(None) if ended => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(None) => {}
                Err(error) => return Err(std::io::Error::other(error)),
            }
            match self.stream.read(&mut scratch) {
                Ok(0) => ended = true,
                Ok(count) => self.reader.push(scratch.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
