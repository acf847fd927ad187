//! The test manager: the name service that a gateway asks, the log that it writes to, and the clock that it is asked for.

use super::calls;
use super::log::{Life, Reader};
use super::offset::{Offset, Reading};
use crate::clock::Clock;
use plimsoll_model::Nanos;
use plimsoll_model::record::ClockRecord;
use rustix::event::{EventfdFlags, eventfd};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

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
pub enum Phase {
    /// No gateway has shown its configuration.
    Waiting,
    /// One has, and it is another one, or it cannot be spoken to.
    Failed(String),
    /// The clocks are being compared.
    Verified,
    /// The test goes on.
    Started,
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
}

/// What one of its threads does.
type Work = Box<dyn FnOnce(&Arc<Service>) + Send>;

/// What has come for one shard.
struct Inbox {
    lives: Mutex<Vec<Life>>,
    /// Ready to be read when something is there.
    wake: OwnedFd,
}

impl Manager {
    /// Listens at that address, over TCP for calls and over UDP for the log, for so many devices that belong to so many shards.
    ///
    /// # Errors
    /// The address cannot be used, or a thread cannot be started.
    pub fn start(
        address: SocketAddr,
        expected: BTreeMap<String, String>,
        tag: u16,
        (devices, shards): (u32, u32),
        clock: Clock,
    ) -> std::io::Result<Manager> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let log = UdpSocket::bind(address)?;
        log.set_read_timeout(Some(LOOK))?;
        rustix::net::sockopt::set_socket_recv_buffer_size(&log, LOG_BUFFER)?;
        let inbox = |_| {
            let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok(Inbox { lives: Mutex::default(), wake })
        };
        let state = State {
            phase: Phase::Waiting,
            ports: vec![None; devices as usize],
            gateway: None,
            incidents: Vec::new(),
            said: None,
        };
        let service = Arc::new(Service {
            clock,
            stop: AtomicBool::new(false),
            expected,
            state: Mutex::new(state),
            changed: Condvar::new(),
            offset: Mutex::default(),
            inboxes: (0..shards.max(1)).map(inbox).collect::<std::io::Result<_>>()?,
        });
        let start = |name: &str, work: Work| {
            let service = Arc::clone(&service);
            thread::Builder::new().name(name.into()).spawn(move || work(&service))
        };
        let threads = vec![
            start("names", Box::new(move |service| service.serve_names(&listener)))?,
            start("log", Box::new(move |service| service.read_log(&log, Reader::new(tag))))?,
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

    /// How far the bootup has come.
    pub fn phase(&self) -> Phase {
        self.service.state().phase.clone()
    }

    /// Takes the lives that have ended, of a shard's events.
    pub fn take(&self, shard: u32, into: &mut Vec<Life>) {
        let Some(inbox) = self.service.inboxes.get(shard as usize) else { return };
        let _ = rustix::io::read(&inbox.wake, &mut [0; 8]);
        into.append(&mut inbox.lives.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What becomes ready to be read when there is something to [take](Manager::take).
    pub fn wake(&self, shard: u32) -> Option<&OwnedFd> {
        self.service.inboxes.get(shard as usize).map(|inbox| &inbox.wake)
    }

    /// Takes what is to be told to people.
    pub fn take_incidents(&self) -> Vec<String> {
        std::mem::take(&mut self.service.state().incidents)
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
        while !self.ends() {
            match listener.accept() {
                Ok((stream, _)) => {
                    let service = Arc::clone(self);
                    // Where no thread can be had, the gateway is not answered and says so.
                    let _ = thread::Builder::new().name("names".into()).spawn(move || {
                        let _ = service.answer(stream);
                    });
                }
                Err(_) => thread::sleep(LOOK),
            }
        }
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        let mut input = Vec::new();
        let mut buffer = [0; 4096];
        while !self.ends() {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => input.extend_from_slice(&buffer[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
            loop {
                match calls::next(&mut input) {
                    Ok(None) => break,
                    Ok(Some(call)) => stream.write_all(&self.answer_to(&call))?,
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
            state.phase = Phase::Failed(words);
            return calls::error("ConfigurationError", &different);
        }
        if state.phase == Phase::Started {
            return calls::error("RuntimeError", &["the test has begun, with another gateway".to_owned()]);
        }
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
        let Some(address) = self.await_gateway() else { return };
        if let Err(reason) = self.follow(address) {
            let words = format!("the gateway's interface at {address}: {reason}");
            if self.state().phase == Phase::Started {
                return self.tell(format!("{words}; its clock is not followed any more"));
            }
            // Its last words may still be on their way.
            thread::sleep(LOOK);
            let mut state = self.state();
            let said = state.said.take().map(|said| format!("; it said: {said}"));
            state.phase = Phase::Failed(words + &said.unwrap_or_default());
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

    fn follow(&self, address: SocketAddr) -> Result<(), String> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(|error| error.to_string())?;
        let set_up = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        set_up.map_err(|error| error.to_string())?;
        for _ in 0..READINGS {
            self.read_clock(&mut stream)?;
            thread::sleep(BETWEEN);
        }
        call(&mut stream, "start_test", || ())?;
        self.state().phase = Phase::Started;
        let mut waited = Duration::ZERO;
        while !self.ends() {
            thread::sleep(LOOK);
            waited += LOOK;
            if waited >= EVERY {
                waited = Duration::ZERO;
                // A gateway that was asked to end answers no more.
                self.read_clock(&mut stream)
                    .or_else(|reason| if self.ends() { Ok(()) } else { Err(reason) })?;
            }
        }
        Ok(())
    }

    fn read_clock(&self, stream: &mut TcpStream) -> Result<(), String> {
        let mut asked = Nanos::ZERO;
        let shown = call(stream, "get_timestamp", || asked = self.clock.now())?;
        let answered = self.clock.now();
        let shown = shown.as_f64().filter(|shown| shown.is_finite());
        let shown = shown.ok_or("get_timestamp gives no number")?;
        let theirs = Nanos((shown * 1e6) as i64);
        self.offset().add(Reading { asked, answered, theirs });
        Ok(())
    }

    fn read_log(&self, socket: &UdpSocket, mut reader: Reader) {
        let mut buffer = vec![0; 1 << 16];
        let mut lives: Vec<Life> = Vec::new();
        let mut missing = 0;
        while !self.ends() {
            let Ok(read) = socket.recv(&mut buffer) else { continue };
            reader.read(&buffer[..read], &mut lives);
            if !lives.is_empty() {
                self.pass_on(&mut lives);
            }
            if reader.missing > missing {
                missing = reader.missing;
                self.tell(
                    "datagrams of the gateway's log are missing: events in them count as not done".to_owned(),
                );
            }
            reader.errors.drain(..).for_each(|words| self.tell(words));
        }
    }

    fn pass_on(&self, lives: &mut Vec<Life>) {
        let line = self.offset().line();
        for life in lives.drain(..) {
            let shard = life.device as usize % self.inboxes.len();
            let inbox = &self.inboxes[shard];
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
        // Where it is full, the load thread is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

/// Calls a function without arguments; `before` is done right before it is sent.
fn call(stream: &mut TcpStream, name: &str, before: impl FnOnce()) -> Result<Value, String> {
    let line = format!("{{\"name\":\"{name}\",\"args\":[]}}\n");
    before();
    stream.write_all(line.as_bytes()).map_err(|error| format!("{name}: {error}"))?;
    let mut input = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let read = stream.read(&mut buffer).map_err(|error| format!("{name}: {error}"))?;
        if read == 0 {
            return Err(format!("{name}: the connection was closed"));
        }
        input.extend_from_slice(&buffer[..read]);
        if let Some(answer) = calls::next(&mut input).map_err(|reason| format!("{name}: {reason}"))? {
            return match answer.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(format!("{name}: {answer}")),
            };
        }
    }
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
mod tests {
    use super::*;

    fn connect(manager: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(manager).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn ask(stream: &mut TcpStream, call: &Value) -> Value {
        writeln!(stream, "{call}").unwrap();
        let mut buffer = [0; 1024];
        let read = stream.read(&mut buffer).unwrap();
        serde_json::from_slice(&buffer[..read]).unwrap()
    }

    fn manager(expected: &[(&str, &str)]) -> (Manager, SocketAddr) {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let expected = expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        (Manager::start(free, expected, 0x4d, (2, 1), Clock::start()).unwrap(), free)
    }

    #[test]
    fn a_configuration_that_differs_is_refused_with_both_values() {
        let (manager, address) =
            manager(&[("POOL_SIZE", "10"), ("CPU_INTENSITY", "0.10"), ("DISPATCHER", "serial")]);
        let mut stream = connect(address);
        let shown = json!({"POOL_SIZE": 3, "CPU_INTENSITY": 0.1, "SOMETHING": 1});
        let answer = ask(&mut stream, &json!({"name": "verify_gateway", "args": [shown, "127.0.0.1:9"]}));
        assert_eq!(answer["error"]["name"], "ConfigurationError");
        assert_eq!(answer["error"]["args"], json!(["POOL_SIZE: the gateway has 3, the scenario 10"]));
        assert!(matches!(manager.phase(), Phase::Failed(words) if words.contains("POOL_SIZE")));
        let answer = ask(&mut stream, &json!({"name": "verify_gateway", "args": [{}, 7]}));
        assert_eq!(answer["error"]["name"], "ValueError");
        assert_eq!(ask(&mut stream, &json!({"name": "reboot"}))["error"]["name"], "AttributeError");
    }

    #[test]
    fn a_gateway_is_led_through_its_bootup() {
        let (manager, address) = manager(&[]);
        manager.listens(0, 5000);
        manager.listens(1, 5001);
        let interface = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = connect(address);
        let place = interface.local_addr().unwrap().to_string();
        let answer = ask(&mut stream, &json!({"name": "verify_gateway", "args": [{}, place]}));
        assert_eq!(answer["result"], true);
        assert_eq!(
            ask(&mut stream, &json!({"name": "hostnames", "args": []}))["result"],
            json!([5000, 5001])
        );
        let (mut caller, _) = interface.accept().unwrap();
        let mut asked = Vec::new();
        while asked.last().is_none_or(|name| name != "start_test") {
            let mut buffer = [0; 1024];
            let read = caller.read(&mut buffer).unwrap();
            let call: Value = serde_json::from_slice(&buffer[..read]).unwrap();
            asked.push(call["name"].as_str().unwrap().to_owned());
            let result = if asked.len() <= READINGS { json!(1_000.5) } else { json!(true) };
            caller.write_all(&calls::result(&result)).unwrap();
        }
        assert_eq!(asked.len(), READINGS + 1);
        while manager.phase() != Phase::Started {
            thread::sleep(Duration::from_millis(5));
        }
        let log = UdpSocket::bind("127.0.0.1:0").unwrap();
        log.send_to(
            b"INFO:1000.7:h:EVENT_LIFECYCLE_DONE:004d-1-0\nERROR:1:gateway:device 0: gone\n",
            address,
        )
        .unwrap();
        let mut lives = Vec::new();
        while lives.is_empty() {
            manager.take(0, &mut lives);
        }
        assert_eq!((lives[0].device, lives[0].sequence, lives[0].retrieved), (1, 0, None));
        while manager.take_incidents().is_empty() {}
        assert_eq!(manager.clocks().readings, READINGS);
    }
}
