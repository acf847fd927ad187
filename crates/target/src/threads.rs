//! Servers with a thread for each connection: how they accept clients, and how they end.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Most connections at once: each has a thread.
const MOST_CONNECTIONS: usize = 1000;
/// Stack of such a thread, in bytes: JSON is read at most 128 levels deep, and BSON 200.
const STACK: usize = 512 * 1024;
/// How often a wish to stop is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The connections that are open.
#[derive(Clone, Default)]
pub struct Connections(Arc<Open>);

#[derive(Default)]
struct Open {
    streams: Mutex<HashMap<u64, Arc<TcpStream>>>,
    next: AtomicU64,
}

impl Connections {
    /// Serves a client in a thread of its own. The connection comes back where there is no room for one more.
    pub fn spawn(
        &self,
        stream: TcpStream,
        serve: impl FnOnce(&TcpStream) + Send + 'static,
    ) -> Result<(), Arc<TcpStream>> {
        let stream = Arc::new(stream);
        let Some(number) = self.add(&stream) else { return Err(stream) };
        let (all, own) = (self.clone(), Arc::clone(&stream));
        let thread = thread::Builder::new().stack_size(STACK).spawn(move || {
            serve(&own);
            all.remove(number);
        });
        if thread.is_err() {
            self.remove(number);
            return Err(stream);
        }
        Ok(())
    }

    /// Closes all of them, so that their threads end.
    pub fn close_all(&self) {
        for stream in lock(&self.0.streams).values() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn add(&self, stream: &Arc<TcpStream>) -> Option<u64> {
        let mut open = lock(&self.0.streams);
        if open.len() >= MOST_CONNECTIONS {
            return None;
        }
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        open.insert(number, Arc::clone(stream));
        Some(number)
    }

    fn remove(&self, number: u64) {
        lock(&self.0.streams).remove(&number);
    }
}

/// Accepts clients until `stop` is set, which is looked at twenty times a second.
///
/// # Errors
/// The system fails.
pub fn accept(
    listener: &TcpListener,
    stop: &AtomicBool,
    mut serve: impl FnMut(TcpStream),
) -> std::io::Result<()> {
    let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
    listener.set_nonblocking(true)?;
    while !stop.load(Ordering::Relaxed) {
        let mut wanted = [rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN)];
        // The only error is an interrupting signal, after which we look again anyway.
        let _ = rustix::event::poll(&mut wanted, Some(&timeout));
        loop {
            match listener.accept() {
                Ok((stream, _)) => serve(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    // No descriptors left, or a peer that is gone: asking again at once would burn the processor.
                    thread::sleep(LOOK);
                    break;
                }
            }
        }
    }
    Ok(())
}

/// What another thread left half done is no worse than what it had not begun.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
