//! The test manager: the name service that a gateway asks, the log that it writes to, and the clock that it is asked for.

use super::calls::{self, Input};
use super::log::{Life, Others, Reader};
use crate::clock::Clock;
use crate::share::Share;
use plimsoll_codec::hiding::cut;
use plimsoll_model::Nanos;
use plimsoll_model::record::ClockRecord;
use plimsoll_stats::clock_offset::{Offset, Reading};
use rustix::event::{EventfdFlags, eventfd};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the gateway may take until it has come and its clock is known.
const BOOTUP: Nanos = Nanos::from_secs(60);
/// Connections to the name service at once; a gateway has one.
const CALLERS: usize = 64;
/// How often those look whether they should end.
const LISTEN: Duration = Duration::from_millis(200);
/// Characters of an answer that are shown to people.
const SHOWN: usize = 200;
/// How often threads look whether they should end.
const LOOK: Duration = Duration::from_millis(20);
/// How long a gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Readings of the gateway's clock before the test, and the pause between two; the work waits a second.
const READINGS: usize = 5;
const BETWEEN: Duration = Duration::from_millis(50);
/// From one reading to the next while the test goes on.
const EVERY: Duration = Duration::from_secs(1);
/// What the kernel keeps of the log until it is read, bytes; it may give less.
const LOG_BUFFER: usize = 8 << 20;
/// Different words of the gateway that are passed on.
const WORDS: usize = 32;

/// How far the bootup has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// No gateway has shown its configuration.
    Waiting,
    /// One has, and it is another one, or it cannot be spoken to.
    Failed(String),
    /// The clocks are being compared.
    Verified,
    /// The test goes on.
    Started,
    /// The test goes on without the gateway, which may come again.
    Gone,
}

/// The run that a manager belongs to.
#[derive(Clone, Debug, Default)]
pub struct ManagedRun {
    /// Its tag.
    pub tag: u16,
    /// What the gateway must show.
    pub configuration: BTreeMap<String, String>,
    /// Devices that the gateway polls; none where they send by themselves.
    pub polled: u32,
    /// Whether the gateway answers events, and not its log alone.
    pub is_answered: bool,
    /// Shards that the devices belong to.
    pub shards: u32,
}

/// See the module. Dropped, it ends its threads.
pub struct Manager {
    service: Arc<Service>,
    threads: Vec<JoinHandle<()>>,
}

/// What its threads share with the load threads.
struct Service {
    clock: Clock,
    stop: AtomicBool,
    expected: BTreeMap<String, String>,
    is_answered: bool,
    /// Whether a gateway has come after another one, or the same anew.
    came_again: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    offset: Mutex<Offset>,
    inboxes: Vec<Inbox>,
}

struct State {
    phase: Phase,
    /// Where each device listens, once its shard has told.
    ports: Vec<Option<u16>>,
    /// The interface of the gateway.
    gateway: Option<SocketAddr>,
    /// What the gateway says to people, and what is missing of its log.
    incidents: Vec<String>,
    /// The last of that.
    said: Option<String>,
    /// What its log says besides events, by level.
    others: Others,
}

/// What one of its threads does.
type Work = Box<dyn FnOnce(&Arc<Service>) + Send>;

/// What has come for one shard.
struct Inbox {
    lives: Mutex<Vec<Life>>,
    /// Whether something is there, or words for people.
    has_news: AtomicBool,
    /// Ready to be read when that is so.
    wake: OwnedFd,
}

impl Manager {
    /// Listens at that address, over TCP for calls and over UDP for the log.
    ///
    /// # Errors
    /// The address cannot be used, or a thread cannot be started.
    pub fn start(address: SocketAddr, run: ManagedRun, clock: Clock) -> std::io::Result<Manager> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let log = UdpSocket::bind(address)?;
        log.set_read_timeout(Some(LOOK))?;
        rustix::net::sockopt::set_socket_recv_buffer_size(&log, LOG_BUFFER)?;
        let inbox = |_| {
            let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok(Inbox { lives: Mutex::default(), has_news: AtomicBool::new(false), wake })
        };
        let state = State {
            phase: Phase::Waiting,
            ports: vec![None; run.polled as usize],
            gateway: None,
            incidents: Vec::new(),
            said: None,
            others: Others::default(),
        };
        let service = Arc::new(Service {
            clock,
            stop: AtomicBool::new(false),
            expected: run.configuration,
            is_answered: run.is_answered,
            came_again: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
            offset: Mutex::default(),
            inboxes: (0..run.shards.max(1)).map(inbox).collect::<std::io::Result<_>>()?,
        });
        let start = |name: &str, work: Work| {
            let service = Arc::clone(&service);
            thread::Builder::new().name(name.into()).spawn(move || work(&service))
        };
        let threads = vec![
            start("names", Box::new(move |service| service.serve_names(&listener)))?,
            start("log", Box::new(move |service| service.read_log(&log, Reader::new(run.tag))))?,
            start("clock", Box::new(|service| service.compare_clocks()))?,
        ];
        Ok(Manager { service, threads })
    }

    /// Where a device listens.
    pub fn listens(&self, device: u32, port: u16) {
        if let Some(place) = self.service.state().ports.get_mut(device as usize) {
            *place = Some(port);
        }
        self.service.changed.notify_all();
    }

    fn phase(&self) -> Phase {
        self.service.state().phase.clone()
    }

    /// Whether the test has begun, or why it cannot; `None` while a gateway is still awaited, for which so much time has
    /// been spent.
    pub fn begun(&self, waited: Nanos) -> Option<Result<(), String>> {
        match self.phase() {
            Phase::Started => Some(Ok(())),
            Phase::Failed(reason) => Some(Err(reason)),
            Phase::Waiting | Phase::Verified | Phase::Gone if waited < BOOTUP => None,
            Phase::Waiting | Phase::Gone => Some(Err("no gateway has called verify_gateway".to_owned())),
            Phase::Verified => Some(Err("the gateway's clock could not be compared in time".to_owned())),
        }
    }

    /// Takes the lives that have ended, of a shard's events.
    pub fn take(&self, shard: u32, into: &mut Vec<Life>) {
        let Some(inbox) = self.service.inboxes.get(shard as usize) else { return };
        // Before the look: what comes during it wakes again.
        inbox.has_news.store(false, Ordering::Release);
        let _ = rustix::io::read(&inbox.wake, &mut [0; 8]);
        into.append(&mut inbox.lives.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether there is something to take, lives or words; costs next to nothing.
    pub fn has_news(&self, shard: u32) -> bool {
        let inbox = self.service.inboxes.get(shard as usize);
        inbox.is_some_and(|inbox| inbox.has_news.load(Ordering::Acquire))
    }

    /// What becomes ready to be read when there is something to [take](Manager::take).
    pub fn wake(&self, shard: u32) -> Option<&OwnedFd> {
        self.service.inboxes.get(shard as usize).map(|inbox| &inbox.wake)
    }

    /// Takes what is to be told to people.
    pub fn take_incidents(&self) -> Vec<String> {
        std::mem::take(&mut self.service.state().incidents)
    }

    /// Takes what the log said besides events.
    pub fn take_others(&self) -> Others {
        std::mem::take(&mut self.service.state().others)
    }

    /// How the clocks stand to each other.
    pub fn clocks(&self) -> ClockRecord {
        self.service.offset().told()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.service.stop.store(true, Ordering::Relaxed);
        self.service.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Service {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offset(&self) -> MutexGuard<'_, Offset> {
        self.offset.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn serve_names(self: &Arc<Self>, listener: &TcpListener) {
        let callers = Arc::new(());
        while !self.ends() {
            match listener.accept() {
                // Who comes then is sent away, and says so.
                Ok(_) if Arc::strong_count(&callers) > CALLERS => {}
                Ok((stream, _)) => {
                    let (service, caller) = (Arc::clone(self), Arc::clone(&callers));
                    // Where no thread can be had, the gateway is not answered and says so.
                    let _ = thread::Builder::new().name("names".into()).spawn(move || {
                        let _ = service.answer(stream);
                        drop(caller);
                    });
                }
                Err(_) => thread::sleep(LOOK),
            }
        }
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LISTEN))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut input = Input::default();
        let mut buffer = [0; 4096];
        let (begin, mut has_called) = (Instant::now(), false);
        while !self.ends() && (has_called || begin.elapsed() < PATIENCE) {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => input.add(&buffer[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
            loop {
                match input.object() {
                    Ok(None) => break,
                    Ok(Some(call)) => {
                        has_called = true;
                        stream.write_all(&self.answer_to(&call))?;
                    }
                    Err(reason) => return stream.write_all(&calls::error("ValueError", &[reason])),
                }
            }
        }
        Ok(())
    }

    fn answer_to(&self, call: &Value) -> Vec<u8> {
        match call["name"].as_str() {
            Some("verify_gateway") => self.verify(&call["args"]),
            Some("hostnames") => self.hostnames(),
            _ => calls::UNKNOWN.to_vec(),
        }
    }

    /// A gateway shows its configuration.
    fn verify(&self, args: &Value) -> Vec<u8> {
        let address = args[1].as_str().and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let words = format!(
                "the second argument is the gateway's interface as ADDRESS:PORT, and not {}",
                args[1]
            );
            return calls::error("ValueError", &[words]);
        };
        let different = differences(&self.expected, &args[0]);
        let mut state = self.state();
        if !different.is_empty() {
            let words = format!("the gateway's configuration is another one: {}", different.join("; "));
            // A stranger that comes while the test goes on does not end it.
            if matches!(state.phase, Phase::Waiting | Phase::Failed(_)) {
                state.phase = Phase::Failed(words);
            }
            return calls::error("ConfigurationError", &different);
        }
        if state.phase == Phase::Started {
            return calls::error("RuntimeError", &["the test has begun, with another gateway".to_owned()]);
        }
        self.came_again.store(state.phase == Phase::Gone, Ordering::Relaxed);
        (state.phase, state.gateway) = (Phase::Verified, Some(address));
        self.changed.notify_all();
        calls::result(&json!(true))
    }

    /// Where the devices are; waits until all are there.
    fn hostnames(&self) -> Vec<u8> {
        let mut state = self.state();
        while state.ports.iter().any(Option::is_none) && !self.ends() {
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        let ports: Vec<u16> = state.ports.iter().copied().flatten().collect();
        calls::result(&json!(ports))
    }

    /// Compares the clocks, starts the test, and goes on comparing.
    fn compare_clocks(&self) {
        let mut has_started = false;
        while let Some(address) = self.await_gateway() {
            // One that is started again in the test shall not wait for more than it must.
            let between = if has_started { Duration::ZERO } else { BETWEEN };
            let Err(reason) = self.follow(address, between) else { return };
            let words = format!("the gateway's interface at {address}: {reason}");
            has_started |= self.state().phase == Phase::Started;
            if has_started {
                self.tell(format!("{words}; its clock is not followed any more"));
                self.state().phase = Phase::Gone;
                continue;
            }
            // Its last words may still be on their way.
            thread::sleep(LOOK);
            let mut state = self.state();
            let said = state.said.take().map(|said| format!("; it said: {said}"));
            state.phase = Phase::Failed(words + &said.unwrap_or_default());
            return;
        }
    }

    fn await_gateway(&self) -> Option<SocketAddr> {
        let mut state = self.state();
        while !self.ends() {
            if state.phase == Phase::Verified && state.ports.iter().all(Option::is_some) {
                return state.gateway;
            }
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Reads its clock some times, so far from each other, and starts the test.
    fn follow(&self, address: SocketAddr, between: Duration) -> Result<(), String> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(|error| error.to_string())?;
        let set_up = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(LOOK)))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        set_up.map_err(|error| error.to_string())?;
        // Another process may have another clock; what the log of the last one still says is told by the old.
        let mut offset = Offset::default();
        for _ in 0..READINGS {
            offset.add(self.read_clock(&mut stream)?);
            thread::sleep(between);
        }
        *self.offset() = offset;
        self.call(&mut stream, "start_test", || ())?;
        self.state().phase = Phase::Started;
        let mut waited = Duration::ZERO;
        while !self.ends() {
            thread::sleep(LOOK);
            waited += LOOK;
            let read = match waited >= EVERY {
                true => self.read_clock(&mut stream).map(Some),
                false if is_closed(&stream) => Err("it has closed the connection".to_owned()),
                false => continue,
            };
            waited = Duration::ZERO;
            match read {
                Ok(reading) => reading.into_iter().for_each(|reading| self.offset().add(reading)),
                // A gateway that was asked to end answers no more.
                Err(_) if self.ends() => {}
                Err(reason) => return Err(reason),
            }
        }
        Ok(())
    }

    fn read_clock(&self, stream: &mut TcpStream) -> Result<Reading, String> {
        let mut asked = Nanos::ZERO;
        let shown = self.call(stream, "get_timestamp", || asked = self.clock.now())?;
        let answered = self.clock.now();
        let shown = shown.as_f64().filter(|shown| shown.is_finite());
        let shown = shown.ok_or("get_timestamp gives no number")?;
        let theirs = Nanos((shown * 1e6) as i64);
        Ok(Reading { asked, answered, theirs })
    }

    /// Calls a function without arguments; `before` is done right before it is sent. The gateway has its patience for the whole
    /// answer, however it comes.
    fn call(&self, stream: &mut TcpStream, name: &str, before: impl FnOnce()) -> Result<Value, String> {
        let told = |words: &dyn Display| format!("{name}: {words}");
        let line = format!("{{\"name\":\"{name}\",\"args\":[]}}\n");
        before();
        stream.write_all(line.as_bytes()).map_err(|error| told(&error))?;
        let begin = Instant::now();
        let mut input = Input::default();
        let mut buffer = [0; 1024];
        while !self.ends() {
            match stream.read(&mut buffer) {
                Ok(0) => return Err(told(&"the connection was closed")),
                Ok(read) => input.add(&buffer[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(told(&error)),
            }
            if let Some(mut answer) = input.object().map_err(|reason| told(&reason))? {
                return match answer.get_mut("result") {
                    Some(result) => Ok(result.take()),
                    None => Err(told(&cut(&answer.to_string(), SHOWN))),
                };
            }
            if begin.elapsed() > PATIENCE {
                return Err(told(&format_args!("there was no answer within {PATIENCE:?}")));
            }
        }
        Err(told(&"the run is over"))
    }

    fn read_log(&self, socket: &UdpSocket, mut reader: Reader) {
        let mut buffer = vec![0; 1 << 16];
        let mut lives: Vec<Life> = Vec::new();
        let mut missing = 0;
        while !self.ends() {
            let Ok(read) = socket.recv(&mut buffer) else { continue };
            if self.came_again.swap(false, Ordering::Relaxed) {
                reader.begin_again();
            }
            reader.read(&buffer[..read], &mut lives);
            if !lives.is_empty() {
                self.pass_on(&mut lives);
            }
            if reader.missing > missing {
                missing = reader.missing;
                let means = if self.is_answered {
                    "the lives of events in them are unknown"
                } else {
                    "events in them count as not done"
                };
                self.tell(format!("datagrams of the gateway's log are missing: {means}"));
            }
            reader.errors.drain(..).for_each(|words| self.tell(words));
            if !reader.others.is_empty() {
                self.state().others.append(std::mem::take(&mut reader.others));
            }
        }
    }

    fn pass_on(&self, lives: &mut Vec<Life>) {
        let line = self.offset().line();
        for life in lives.drain(..) {
            let shard = Share::owner(life.device, self.inboxes.len() as u32);
            let Some(inbox) = self.inboxes.get(shard as usize) else { continue };
            let mut waiting = inbox.lives.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(life.told_by(&line));
            if waiting.len() == 1 {
                inbox.wake_up();
            }
        }
    }

    /// Leaves words for people with the first shard.
    fn tell(&self, words: String) {
        let mut state = self.state();
        state.said = Some(words.clone());
        if state.incidents.len() < WORDS {
            state.incidents.push(words);
        }
        self.inboxes.first().inspect(|inbox| inbox.wake_up());
    }
}

impl Inbox {
    fn wake_up(&self) {
        self.has_news.store(true, Ordering::Release);
        // Where it is full, the load thread is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

/// Whether the other side has closed, or broken, the connection.
fn is_closed(stream: &TcpStream) -> bool {
    let looked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let restored = stream.set_nonblocking(false);
    let is_open = looked.map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |read| read > 0);
    !is_open || restored.is_err()
}

/// What the gateway says otherwise than it should, each with both values.
fn differences(expected: &BTreeMap<String, String>, shown: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let same = |one: &str, other: &str| match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    };
    let different = |(key, wanted): (&String, &String)| {
        let shown = shown.get(key).map(text)?;
        (!same(wanted, &shown)).then(|| format!("{key}: the gateway has {shown}, the scenario {wanted}"))
    };
    expected.iter().filter_map(different).collect()
}

#[cfg(test)]
mod tests;
