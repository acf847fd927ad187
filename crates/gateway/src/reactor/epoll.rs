//! An event loop of our own on epoll(7), with threads that write files.

use super::{Happened, Reactor, Waker};
use crate::work::write_letters;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What is woken by, among the slots.
const WOKEN: u64 = u64::MAX;
/// Who listens, among the slots.
const LISTENER: u64 = u64::MAX - 1;

/// The loop.
pub struct Epoll {
    poll: OwnedFd,
    wake: Arc<OwnedFd>,
    listener: Option<TcpListener>,
    connections: HashMap<usize, Connection>,
    /// Sockets that are looked at in a turn.
    at_once: usize,
    /// By their time, and when each is due.
    timers: BTreeSet<(Instant, usize)>,
    due: HashMap<usize, Instant>,
    jobs: Sender<Job>,
    results: Receiver<(u64, io::Result<()>)>,
    /// Connections that failed since the last turn: why.
    failed: BTreeMap<usize, String>,
    buffer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    connected: bool,
    /// Nothing is read.
    held: bool,
    /// The other side says nothing more.
    ended: bool,
    /// What the socket would not take yet.
    unsent: Vec<u8>,
    /// What epoll was asked for.
    asked: EventFlags,
}

struct Job {
    number: u64,
    path: PathBuf,
    bytes: usize,
}

impl Epoll {
    /// With so many threads for files; each turn looks at so many sockets that are ready, and at the others in later ones.
    pub fn new(threads: usize, at_once: usize) -> io::Result<Epoll> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&poll, &*wake, EventData::new_u64(WOKEN), EventFlags::IN)?;
        let (jobs, waiting) = channel::<Job>();
        let (done, results) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let (waiting, done, wake) = (Arc::clone(&waiting), done.clone(), Arc::clone(&wake));
            thread::Builder::new().name("files".into()).spawn(move || write_files(&waiting, &done, &wake))?;
        }
        Ok(Epoll {
            poll,
            wake,
            listener: None,
            connections: HashMap::new(),
            at_once,
            timers: BTreeSet::new(),
            due: HashMap::new(),
            jobs,
            results,
            failed: BTreeMap::new(),
            buffer: vec![0; 1 << 16],
        })
    }

    fn begin(&mut self, slot: usize, address: SocketAddr) -> io::Result<()> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match connect(&socket, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        self.add(slot, TcpStream::from(socket), false)
    }

    fn add(&mut self, slot: usize, stream: TcpStream, connected: bool) -> io::Result<()> {
        let asked = if connected { EventFlags::IN } else { EventFlags::OUT };
        epoll::add(&self.poll, &stream, EventData::new_u64(slot as u64), asked)?;
        let (held, ended, unsent) = (false, false, Vec::new());
        self.connections.insert(slot, Connection { stream, connected, held, ended, unsent, asked });
        Ok(())
    }

    /// Asks epoll for what a connection waits for now.
    fn ask(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(&slot) else { return };
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, connection.connected && connection.is_read());
        wanted.set(EventFlags::OUT, !connection.connected || !connection.unsent.is_empty());
        if wanted == connection.asked {
            return;
        }
        connection.asked = wanted;
        let data = EventData::new_u64(slot as u64);
        if let Err(error) = epoll::modify(&self.poll, &connection.stream, data, wanted) {
            self.connections.remove(&slot);
            self.failed.insert(slot, io::Error::from(error).to_string());
        }
    }

    /// Does what a socket is ready for.
    fn ready(&mut self, slot: usize, flags: EventFlags, happened: &mut Vec<Happened>) {
        let Some(connection) = self.connections.get_mut(&slot) else { return };
        let mut over = None;
        if !connection.connected {
            match connection.stream.take_error() {
                Ok(None) if flags.contains(EventFlags::OUT) && !flags.contains(EventFlags::HUP) => {
                    connection.connected = true;
                    happened.push(Happened::Connected(slot));
                }
                Ok(None) if !flags.contains(EventFlags::HUP) => return,
                Ok(None) => over = Some("the connection was closed".to_owned()),
                Ok(Some(error)) | Err(error) => over = Some(error.to_string()),
            }
        }
        if over.is_none() && flags.contains(EventFlags::OUT) && !connection.unsent.is_empty() {
            let unsent = std::mem::take(&mut connection.unsent);
            over = connection.send(&unsent).err().map(|error| error.to_string());
        }
        // Once in a turn, so that nobody who sends without end keeps the others waiting.
        let ends = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if over.is_none() && !connection.is_read() && ends {
            over = Some("the connection was closed".to_owned());
        }
        if over.is_none() && connection.is_read() && (ends || flags.contains(EventFlags::IN)) {
            match connection.stream.read(&mut self.buffer) {
                Ok(0) => {
                    connection.ended = true;
                    happened.push(Happened::Ended(slot));
                }
                Ok(read) => happened.push(Happened::Data(slot, self.buffer[..read].to_vec())),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => over = Some(error.to_string()),
            }
        }
        if let Some(reason) = over {
            self.connections.remove(&slot);
            happened.push(Happened::Closed(slot, reason));
        }
        self.ask(slot);
    }

    /// How long there is nothing to do but wait.
    fn patience(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| at.saturating_duration_since(Instant::now()))
    }
}

impl Connection {
    fn is_read(&self) -> bool {
        !self.held && !self.ended
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent.extend_from_slice(bytes);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Reactor for Epoll {
    fn connect(&mut self, slot: usize, address: SocketAddr) {
        if let Err(error) = self.begin(slot, address) {
            self.failed.insert(slot, error.to_string());
        }
    }

    fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        // Once, until somebody was accepted.
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        epoll::add(&self.poll, &listener, EventData::new_u64(LISTENER), flags)?;
        self.listener = Some(listener);
        Ok(())
    }

    fn accept(&mut self, slot: usize) -> io::Result<bool> {
        let Some(listener) = &self.listener else { return Ok(false) };
        let accepted = match listener.accept() {
            Ok((stream, _)) => Some(stream),
            // The other side has gone in the meantime.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        epoll::modify(&self.poll, listener, EventData::new_u64(LISTENER), flags)?;
        let Some(stream) = accepted else { return Ok(false) };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.add(slot, stream, true)?;
        Ok(true)
    }

    fn hold(&mut self, slot: usize, is_held: bool) {
        if let Some(connection) = self.connections.get_mut(&slot) {
            connection.held = is_held;
            self.ask(slot);
        }
    }

    fn unsent(&self, slot: usize) -> usize {
        self.connections.get(&slot).map_or(0, |connection| connection.unsent.len())
    }

    fn send(&mut self, slot: usize, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&slot) else { return };
        if !connection.connected || !connection.unsent.is_empty() {
            return connection.unsent.extend_from_slice(bytes);
        }
        if let Err(error) = connection.send(bytes) {
            self.connections.remove(&slot);
            self.failed.insert(slot, error.to_string());
            return;
        }
        self.ask(slot);
    }

    fn close(&mut self, slot: usize) {
        self.connections.remove(&slot);
        // Nothing more is told of it.
        self.failed.remove(&slot);
    }

    fn write(&mut self, number: u64, path: PathBuf, bytes: usize) {
        // The threads live as long as this end of their queue.
        let _ = self.jobs.send(Job { number, path, bytes });
    }

    fn after(&mut self, slot: usize, time: Duration) {
        let at = Instant::now() + time;
        if let Some(before) = self.due.insert(slot, at) {
            self.timers.remove(&(before, slot));
        }
        self.timers.insert((at, slot));
    }

    fn turn(&mut self, wait: bool, happened: &mut Vec<Happened>) {
        let before = happened.len();
        let failed = std::mem::take(&mut self.failed);
        happened.extend(failed.into_iter().map(|(slot, reason)| Happened::Closed(slot, reason)));
        let patience = if wait && happened.len() == before { self.patience() } else { Some(Duration::ZERO) };
        let timeout = patience.map(|patience| rustix::time::Timespec {
            tv_sec: patience.as_secs().min(3600) as i64,
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        let mut events = Vec::with_capacity(self.at_once);
        // A signal ends the wait early, which does no harm.
        let _ = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
        for event in &events {
            match event.data.u64() {
                WOKEN => {
                    let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
                }
                LISTENER => happened.push(Happened::Incoming),
                slot => self.ready(slot as usize, event.flags, happened),
            }
        }
        while let Ok((number, result)) = self.results.try_recv() {
            happened.push(Happened::Written(number, result));
        }
        let now = Instant::now();
        while let Some(&(at, slot)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, slot));
            self.due.remove(&slot);
            happened.push(Happened::Elapsed(slot));
        }
    }

    fn waker(&self) -> Waker {
        let wake = Arc::clone(&self.wake);
        Arc::new(move || signal(&wake))
    }

    fn name(&self) -> String {
        "epoll".to_owned()
    }
}

fn signal(wake: &OwnedFd) {
    // Where it is full, the loop is awake.
    let _ = rustix::io::write(wake.as_fd(), &1_u64.to_ne_bytes());
}

fn write_files(jobs: &Mutex<Receiver<Job>>, done: &Sender<(u64, io::Result<()>)>, wake: &OwnedFd) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let result = write_letters(&job.path, job.bytes);
        if done.send((job.number, result)).is_err() {
            return;
        }
        signal(wake);
    }
}
