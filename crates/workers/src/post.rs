//! Carries frames and announcements through a NATS server, outside the load threads.

use crate::announcement::Announcement;
use crate::frame::{Body, Frame, ProcessId};
use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use plimsoll_codec::credentials::hide_credentials;
use plimsoll_load::clock::{monotonic, wall_ahead};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What all subjects begin with; the number changes where their forms do. Frames have a version of their own.
const SUBJECTS: &str = "plimsoll.1";
/// The port of a server whose address says none.
const PORT: u16 = 4222;
/// How long the server may take to let us in.
const CONNECTING: Duration = Duration::from_secs(10);
/// From one attempt to connect again to the next: often, since a lease is short.
const AGAIN: Duration = Duration::from_millis(250);
/// A server must take frames of so many bytes.
const LARGEST_FRAME: usize = 160 * 1024;

/// A NATS server, and how it lets us in.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// `nats://[USER[:PASSWORD]@]HOST[:PORT]`, or `tls://...`.
    pub url: String,
    /// A token.
    pub token: Option<String>,
    /// A seed of an nkey.
    pub nkey: Option<String>,
    /// A file with credentials (a JWT and a seed), as `nsc` writes it.
    pub credentials: Option<PathBuf>,
    /// A file with the authority that signed the server's certificate.
    pub authority: Option<PathBuf>,
    /// Files with a certificate of our own and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl Server {
    /// Where this host is reached by others that use the server: its address on the way there.
    pub fn own_address(&self) -> IpAddr {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let after = self.url.split_once("://").map_or(self.url.as_str(), |(_, after)| after);
        let server = after.split(['/', ',']).next().and_then(|server| server.rsplit('@').next());
        let server = server.unwrap_or_default();
        let port = server.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let with_port = if port.is_some() { server.to_owned() } else { format!("{server}:{PORT}") };
        // Connecting a socket for datagrams sends nothing; it shows which of our addresses would be used.
        let address = with_port.to_socket_addrs().ok().and_then(|mut found| found.next());
        let own = address.and_then(|address| {
            let any: IpAddr = if address.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
            let probe = UdpSocket::bind((any, 0)).ok()?;
            probe.connect(address).ok()?;
            probe.local_addr().ok()
        });
        own.map_or(here, |own| own.ip())
    }

    /// Its address, for people.
    pub fn shown(&self) -> String {
        hide_credentials(&self.url)
    }
}

/// Why frames cannot be carried.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// The server does not let us in, or is not there.
    #[error("cannot use the NATS server {server}: {reason}")]
    Server {
        /// Its address.
        server: String,
        /// Why, for people.
        reason: String,
    },
    /// The operating system refuses a thread.
    #[error("cannot start the thread for NATS: {0}")]
    Thread(#[from] std::io::Error),
}

/// What comes from the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival {
    /// A frame for this process, with what our monotonic clock showed when it was read.
    Frame(Frame, i64),
    /// A worker is there.
    Announced(Box<Announcement>),
}

enum Outgoing {
    Frame(ProcessId, Frame),
    Announcement(Announcement),
}

/// See the module. It ends when it is dropped.
pub struct Post {
    own: ProcessId,
    outgoing: Option<UnboundedSender<Outgoing>>,
    thread: Option<JoinHandle<()>>,
}

impl Post {
    /// Connects, and hands over what comes from then on, in a thread of its own. Announcements are heard where they are wanted.
    ///
    /// # Errors
    /// [`PostError`].
    pub fn join(
        server: &Server,
        own: ProcessId,
        hears_announcements: bool,
        deliver: impl Fn(Arrival) + Send + 'static,
    ) -> Result<Post, PostError> {
        let (told, ready) = sync_channel(1);
        let of = server.clone();
        let carry = move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(async {
                match Post::connect(of, own, hears_announcements, deliver).await {
                    Ok((post, carrying)) => {
                        let _ = told.send(Ok(post));
                        carrying.await;
                    }
                    Err(error) => drop(told.send(Err(error))),
                }
            }),
            Err(error) => drop(told.send(Err(error.into()))),
        };
        let thread = std::thread::Builder::new().name("nats".into()).spawn(carry)?;
        let mut post = ready.recv().unwrap_or_else(|_| {
            let reason = "its thread ended unexpectedly; this is a defect of plimsoll".to_owned();
            Err(PostError::Server { server: server.shown(), reason })
        })?;
        post.thread = Some(thread);
        Ok(post)
    }

    /// The same for a thread that the caller has: it drives what comes with the post until that is dropped. So a thread may carry for
    /// many.
    ///
    /// # Errors
    /// [`PostError::Server`].
    pub async fn connect(
        server: Server,
        own: ProcessId,
        hears_announcements: bool,
        deliver: impl Fn(Arrival) + 'static,
    ) -> Result<(Post, impl Future<Output = ()>), PostError> {
        let carrier = Carrier { server, own, hears_announcements, deliver: Box::new(deliver) };
        let refused = |reason| PostError::Server { server: carrier.server.shown(), reason };
        let connection = carrier.join().await.map_err(refused)?;
        let (outgoing, queue) = unbounded_channel();
        let post = Post { own, outgoing: Some(outgoing), thread: None };
        Ok((post, carrier.carry(connection, queue)))
    }

    /// This process.
    pub fn own(&self) -> ProcessId {
        self.own
    }

    /// Sends a frame to a process. It is lost where there is no connection.
    pub fn send(&self, to: ProcessId, body: Body) {
        self.put(Outgoing::Frame(to, Frame { from: self.own, body }));
    }

    /// Says that a worker is there.
    pub fn announce(&self, announcement: Announcement) {
        self.put(Outgoing::Announcement(announcement));
    }

    fn put(&self, outgoing: Outgoing) {
        if let Some(queue) = &self.outgoing {
            // The thread ends only after this end is dropped.
            let _ = queue.send(outgoing);
        }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.outgoing = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Carrier {
    server: Server,
    own: ProcessId,
    hears_announcements: bool,
    deliver: Box<dyn Fn(Arrival)>,
}

/// A connection to the server, and what comes over it.
struct Connection {
    client: Client,
    inbox: Subscriber,
    announcements: Option<Subscriber>,
}

impl Carrier {
    async fn carry(self, connection: Connection, mut queue: UnboundedReceiver<Outgoing>) {
        let Connection { client, mut inbox, mut announcements } = connection;
        loop {
            tokio::select! {
                outgoing = queue.recv() => match outgoing {
                    Some(outgoing) => self.publish(&client, outgoing).await,
                    None => break,
                },
                Some(message) = inbox.next() => self.take(&client, &message.payload).await,
                Some(message) = next(&mut announcements) => {
                    if let Ok(announcement) = serde_json::from_slice(&message.payload) {
                        (self.deliver)(Arrival::Announced(Box::new(announcement)));
                    }
                }
            }
        }
        // What was said last is to arrive, if the server is there.
        let _ = tokio::time::timeout(Duration::from_secs(1), client.flush()).await;
    }

    async fn join(&self) -> Result<Connection, String> {
        let text = |error: &dyn std::error::Error| advised(error.to_string());
        let client = self.options()?.connect(&self.server.url).await.map_err(|error| text(&error))?;
        let most = client.server_info().max_payload;
        if most < LARGEST_FRAME {
            return Err(format!(
                "it takes messages of {most} bytes at most (`max_payload`): {LARGEST_FRAME} are needed"
            ));
        }
        let inbox = client.subscribe(subject_of(self.own)).await.map_err(|error| text(&error))?;
        let announcements = match self.hears_announcements {
            true => Some(client.subscribe(announced()).await.map_err(|error| text(&error))?),
            false => None,
        };
        client.flush().await.map_err(|error| text(&error))?;
        Ok(Connection { client, inbox, announcements })
    }

    fn options(&self) -> Result<ConnectOptions, String> {
        let Server { token, nkey, credentials, authority, certificate, .. } = &self.server;
        let mut options = ConnectOptions::new()
            .name("plimsoll")
            .connection_timeout(CONNECTING)
            // The first attempt waits for as long as this says, too.
            .reconnect_delay_callback(|attempt| if attempt <= 1 { Duration::ZERO } else { AGAIN })
            .ping_interval(Duration::from_secs(2));
        if let Some(token) = token {
            options = options.token(token.clone());
        }
        if let Some(seed) = nkey {
            options = options.nkey(seed.trim().to_owned());
        }
        if let Some(path) = credentials {
            let text =
                std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            options = options.credentials(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        if let Some(path) = authority {
            options = options.add_root_certificates(path.clone()).require_tls(true);
        }
        if let Some((certificate, key)) = certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        Ok(options)
    }

    async fn publish(&self, client: &Client, outgoing: Outgoing) {
        // Without a connection it would wait, and be of no use later: links repeat what matters.
        if client.connection_state() != State::Connected {
            return;
        }
        let (subject, payload) = match outgoing {
            Outgoing::Frame(to, frame) => (subject_of(to), frame.encode()),
            Outgoing::Announcement(announcement) => {
                (announced(), serde_json::to_vec(&announcement).unwrap_or_default())
            }
        };
        let _ = client.publish(subject, Bytes::from(payload)).await;
    }

    async fn take(&self, client: &Client, payload: &[u8]) {
        let read = monotonic().0;
        // Whoever may publish on the server may send anything.
        let Ok(frame) = Frame::decode(payload) else { return };
        match frame.body {
            Body::Ping { asked } => {
                let body = Body::Pong { asked, theirs: read, wall_ahead: wall_ahead() };
                let answer = Frame { from: self.own, body };
                self.publish(client, Outgoing::Frame(frame.from, answer)).await;
            }
            _ => (self.deliver)(Arrival::Frame(frame, read)),
        }
    }
}

/// The next message of a subscription; never one without a subscription.
async fn next(subscriber: &mut Option<Subscriber>) -> Option<async_nats::Message> {
    match subscriber {
        Some(subscriber) => subscriber.next().await,
        None => std::future::pending().await,
    }
}

/// Why the server cannot be used, with what to do where that is known.
fn advised(reason: String) -> String {
    let lower = reason.to_lowercase();
    if lower.contains("authorization") || lower.contains("authentication") {
        // The library says the same twice.
        return "it does not let us in: give the token, nkey or credentials that it wants (`--nats-token-file FILE` and the like)"
            .to_owned();
    }
    if lower.contains("connection refused") {
        return "nobody listens there: start it first, as with `nats-server --addr HOST`".to_owned();
    }
    reason
}

fn subject_of(process: ProcessId) -> String {
    format!("{SUBJECTS}.to.{process}")
}

fn announced() -> String {
    format!("{SUBJECTS}.workers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_refuses_says_what_to_do() {
        let refused = advised("authorization violation: nats: authorization violation".to_owned());
        assert!(refused.contains("--nats-token-file") && !refused.contains("violation"), "{refused}");
        assert!(advised("IO error: Connection refused (os error 111)".to_owned()).contains("nats-server"));
        assert_eq!(advised("another reason".to_owned()), "another reason");
    }
}
