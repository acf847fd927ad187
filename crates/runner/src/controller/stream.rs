//! A connection that is waited for: TCP, and TLS where devices have it.

use super::LARGEST_ANSWER;
use plimsoll_load::driver::Client;
use plimsoll_load::drivers::tls_of_client;
use plimsoll_load::tls_refusal;
use plimsoll_scenario::plan::{Plan, TlsPlan, TransportPlan};
use rustls::{ClientConnection, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a wish to stop is looked for.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// Bytes that are read at once.
const READ_SIZE: usize = 16 * 1024;

/// How long an answer is awaited, and who may end that before.
#[derive(Clone, Copy)]
pub(super) struct Patience<'a> {
    pub timeout: Duration,
    pub stop: Option<&'a AtomicBool>,
}

impl<'a> Patience<'a> {
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// For making a connection, as long as a device waits for it: what is asked over it may take longer, since a platform may have
    /// much to do for it.
    pub fn to_connect(self, plan: &Plan) -> Patience<'a> {
        Patience { timeout: plan.connection.timeout.to_duration().min(self.timeout), ..self }
    }

    /// When it ends, if it begins now.
    pub fn end(&self) -> Instant {
        Instant::now() + self.timeout
    }
}

/// See the module.
pub(super) struct Stream {
    wire: Wire,
    room: Vec<u8>,
}

enum Wire {
    Clear(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects; `None` where the user stops the run before that is done.
    ///
    /// # Errors
    /// Why it cannot be, for people.
    pub fn open(
        address: SocketAddr,
        tls: Option<(&TlsPlan, u32)>,
        (connecting, patience): (Patience<'_>, Patience<'_>),
    ) -> Result<Option<Stream>, String> {
        let told = |error: std::io::Error| error.to_string();
        let until = connecting.end();
        let socket = TcpStream::connect_timeout(&address, connecting.timeout).map_err(told)?;
        let set = socket.set_nodelay(true).and_then(|()| socket.set_read_timeout(Some(LOOK)));
        set.and_then(|()| socket.set_write_timeout(Some(patience.timeout))).map_err(told)?;
        let wire = match tls {
            None => Wire::Clear(socket),
            Some((tls, device)) => match secured(tls, device, socket, (until, connecting))? {
                Some(stream) => Wire::Secured(Box::new(stream)),
                None => return Ok(None),
            },
        };
        Ok(Some(Stream { wire, room: vec![0; READ_SIZE] }))
    }

    fn read(&mut self) -> std::io::Result<usize> {
        match &mut self.wire {
            Wire::Clear(stream) => stream.read(&mut self.room),
            Wire::Secured(stream) => stream.read(&mut self.room),
        }
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<(), String> {
        let written = match &mut self.wire {
            Wire::Clear(stream) => stream.write_all(bytes),
            Wire::Secured(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        written.map_err(|error| error.to_string())
    }

    /// Appends what has come already; whether the other side has neither closed nor said more than anybody here takes.
    pub fn drain(&mut self, came: &mut Vec<u8>) -> bool {
        let _ = self.socket().set_nonblocking(true);
        let is_there = loop {
            match self.read() {
                Ok(0) => break false,
                Ok(_) if came.len() as u64 > LARGEST_ANSWER => break false,
                Ok(length) => came.extend_from_slice(self.room.get(..length).unwrap_or_default()),
                Err(error) => break error.kind() == ErrorKind::WouldBlock,
            }
        };
        let _ = self.socket().set_nonblocking(false);
        is_there
    }

    fn socket(&self) -> &TcpStream {
        match &self.wire {
            Wire::Clear(stream) => stream,
            Wire::Secured(stream) => &stream.sock,
        }
    }

    /// Waits for what comes next and appends it; how much that was, zero where the other side has closed, `None` where the user stops the
    /// run before.
    ///
    /// # Errors
    /// The connection is of no use, or nothing came in time, which `late` tells.
    pub fn next(
        &mut self,
        came: &mut Vec<u8>,
        (until, patience): (Instant, Patience<'_>),
        late: &dyn Fn(Duration) -> String,
    ) -> Result<Option<usize>, String> {
        loop {
            if patience.is_stopped() {
                return Ok(None);
            }
            if Instant::now() > until {
                return Err(late(patience.timeout));
            }
            match self.read() {
                Ok(length) => {
                    came.extend_from_slice(self.room.get(..length).unwrap_or_default());
                    return Ok(Some(length));
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

/// What secures what is said over a protocol to the devices' port, or to one of its own.
pub(super) fn tls_of<'a>(transport: &'a TransportPlan, plan: &Plan) -> Option<(&'a TlsPlan, u32)> {
    transport.tls.as_ref().map(|tls| (tls, plan.population.first_device))
}

/// That nothing was answered in time.
pub(super) fn no_answer(timeout: Duration) -> String {
    format!("no answer within {} s", timeout.as_secs())
}

/// Secures a connection, as a device does; `None` where the user stops the run before that is done.
fn secured(
    tls: &TlsPlan,
    device: u32,
    mut socket: TcpStream,
    (until, patience): (Instant, Patience<'_>),
) -> Result<Option<StreamOwned<ClientConnection, TcpStream>>, String> {
    let host = tls.server_name.to_str();
    let config = tls_of_client(tls, Client::Device(device))?;
    let client = ClientConnection::new(config, tls.server_name.clone());
    let mut client = client.map_err(|error| tls_refusal::told(&error, &host))?;
    while client.is_handshaking() {
        match client.complete_io(&mut socket) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err("the platform closed the connection within the TLS handshake".to_owned());
            }
            Err(error) => {
                let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                return Err(of_tls.map_or_else(|| error.to_string(), |inner| tls_refusal::told(inner, &host)));
            }
        }
        if patience.is_stopped() {
            return Ok(None);
        }
        if Instant::now() > until {
            return Err(format!(
                "the TLS handshake was not answered within {} s",
                patience.timeout.as_secs()
            ));
        }
    }
    Ok(Some(StreamOwned::new(client, socket)))
}
