//! One connection of a client: requests in, answers out, in their order.

use super::Settings;
use super::broker::Broker;
use super::refusal::Refusal;
use super::request::{Answer, Request};
use super::store::Store;
use crate::threads::{Connections, lock};
use crate::workers::Workers;
use plimsoll_codec::http::{HttpError, Reader, Side};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a client may be silent, and how long it may take to read.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes read at once.
const READ_SIZE: usize = 16 * 1024;

/// What all connections share.
pub struct Shared {
    pub settings: Settings,
    pub broker: Mutex<Broker>,
    /// Where entities are kept; `None` for the broker itself.
    pub store: Option<Store>,
    pub workers: Workers,
    /// Requests that came so far.
    pub requests: AtomicU64,
    pub connections: Connections,
}

/// Serves a client in a thread of its own.
pub fn serve(stream: TcpStream, shared: &Arc<Shared>) {
    let of_thread = Arc::clone(shared);
    // A client that breaks off has nobody to tell.
    let served = shared.connections.spawn(stream, move |stream| drop(answer_all(stream, &of_thread)));
    if let Err(stream) = served {
        say_busy(&stream);
    }
}

fn say_busy(mut stream: &TcpStream) {
    let mut out = Vec::new();
    Answer::from(Refusal::busy()).write(false, &mut out);
    // It may be gone; it is not waited for.
    let _ = stream.write(&out);
}

fn answer_all(mut stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = Reader::new(Side::Request, shared.settings.max_body);
    let (mut scratch, mut out) = (vec![0; READ_SIZE], Vec::new());
    loop {
        let count = match stream.read(&mut scratch) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        reader.push(scratch.get(..count).unwrap_or_default());
        loop {
            let stays = match reader.take(false, false) {
                Ok(None) => break,
                Ok(Some(message)) => {
                    let request = Request::read(&message);
                    answer(request, shared).write(message.stays, &mut out);
                    message.stays
                }
                Err(error) => {
                    let refusal = match error {
                        HttpError::BodyTooLong(limit) => Refusal::too_large(limit),
                        error => Refusal::bad(error),
                    };
                    Answer::from(refusal).write(false, &mut out);
                    false
                }
            };
            stream.write_all(&out)?;
            out.clear();
            if !stays {
                return close(stream, &mut scratch);
            }
        }
    }
}

/// Closes after the answer: what the client still sends is read first, else the kernel would take the answer back.
fn close(mut stream: &TcpStream, scratch: &mut [u8]) -> std::io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut left = 4 * 1024 * 1024_usize;
    while left > 0 {
        match stream.read(scratch)? {
            0 => return Ok(()),
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}

fn answer(request: Result<Request<'_>, Refusal>, shared: &Shared) -> Answer {
    let Settings { token, fail_every, delay, .. } = &shared.settings;
    let _place = shared.workers.wait();
    if !delay.is_zero() {
        std::thread::sleep(*delay);
    }
    let number = shared.requests.fetch_add(1, Ordering::Relaxed) + 1;
    let request = match request {
        Ok(request) => request,
        Err(refusal) => return refusal.into(),
    };
    if token.as_ref().is_some_and(|token| !request.bears(token)) {
        return Refusal::unauthorized().into();
    }
    if fail_every.is_some_and(|every| every > 0 && number.is_multiple_of(every)) {
        return Refusal::planted().into();
    }
    match &shared.store {
        Some(store) => store.answer(&request, &shared.broker),
        None => lock(&shared.broker).answer(&request),
    }
}
