//! Before and beside the test: the configuration is verified, the devices are learnt, the manager asks for the time and starts
//! the test.

use crate::calls::{Answer, Call, CallError, Caller, Messages, resolve};
use crate::configuration::Configuration;
use crate::log::now;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the manager may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it is tried to connect to it before that is begun anew: the end is looked for in between.
const ATTEMPT: Duration = Duration::from_secs(1);
/// Connections to the gateway's interface at once; with more, the one that was silent for longest makes way. They are among the
/// files that devices leave open for others.
const CALLERS: usize = 16;
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Why a test did not begin.
#[derive(Debug, thiserror::Error)]
pub enum BootupError {
    /// The manager cannot be spoken to.
    #[error("the test manager at {address} cannot be asked for {call}: {cause}")]
    Manager {
        /// Where.
        address: String,
        /// What.
        call: &'static str,
        /// Why.
        cause: CallError,
    },
    /// It is started with other values.
    #[error("the test manager at {address} refuses this configuration: {reason}")]
    Refused {
        /// Where.
        address: String,
        /// What it says.
        reason: String,
    },
    /// What it calls devices are none.
    #[error("the test manager at {address} names a device that has no place: {given}")]
    NoDevice {
        /// Where.
        address: String,
        /// What it says.
        given: Value,
    },
}

/// The name service of the test manager.
pub struct Manager {
    address: String,
    caller: Caller,
    host: IpAddr,
    stop: Arc<AtomicBool>,
}

impl Manager {
    /// Connects to `HOST:PORT`, again and again until somebody listens there, or the end is asked for. That also gives up each
    /// call that is not answered yet.
    pub fn connect(address: &str, stop: &Arc<AtomicBool>) -> Result<Manager, BootupError> {
        let failed =
            |cause| BootupError::Manager { address: address.to_owned(), call: "a connection", cause };
        let found = resolve(address).map_err(failed)?;
        let begin = Instant::now();
        let caller = loop {
            match Caller::connect(found, ATTEMPT, PATIENCE) {
                Ok(caller) => break caller,
                Err(_) if stop.load(Ordering::Relaxed) => return Err(failed(CallError::GivenUp)),
                Err(error) if begin.elapsed() > PATIENCE => return Err(failed(error)),
                Err(_) => thread::sleep(LOOK),
            }
        };
        Ok(Manager { address: address.to_owned(), caller, host: found.ip(), stop: Arc::clone(stop) })
    }

    /// Where the gateway is as the manager sees it, on that port.
    pub fn own_address(&self, port: u16) -> Result<SocketAddr, BootupError> {
        let local = self.caller.local_address();
        let failed =
            |cause| BootupError::Manager { address: self.address.clone(), call: "a connection", cause };
        Ok(SocketAddr::new(local.map_err(failed)?.ip(), port))
    }

    /// Whether the manager is started with the same configuration.
    pub fn verify(&mut self, configuration: &Configuration, own: SocketAddr) -> Result<(), BootupError> {
        let configuration = serde_json::to_value(configuration).unwrap_or_default();
        let call = Call::line("verify_gateway", vec![configuration, json!(own.to_string())]);
        match self.call("verify_gateway", &call) {
            Ok(Value::Bool(false)) => Err(self.refused("its own is another one".to_owned())),
            Ok(_) => Ok(()),
            Err(BootupError::Manager { cause: CallError::Raised(raised), .. }) => {
                let words: Vec<String> = raised
                    .args
                    .iter()
                    .map(|arg| arg.as_str().map_or_else(|| arg.to_string(), str::to_owned))
                    .collect();
                Err(self.refused(words.join("; ")))
            }
            Err(error) => Err(error),
        }
    }

    /// Where the devices are: numbers are ports on the manager's host.
    pub fn devices(&mut self) -> Result<Vec<SocketAddr>, BootupError> {
        let given = self.call("hostnames", &Call::line("hostnames", vec![]))?;
        let nowhere =
            |given: &Value| BootupError::NoDevice { address: self.address.clone(), given: given.clone() };
        let all = given.as_array().ok_or_else(|| nowhere(&given))?;
        let place = |one: &Value| match one {
            Value::Number(port) => {
                let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
                port.map(|port| SocketAddr::new(self.host, port))
            }
            Value::String(address) => resolve(address).ok(),
            _ => None,
        };
        all.iter().map(|one| place(one).ok_or_else(|| nowhere(one))).collect()
    }

    fn call(&mut self, name: &'static str, line: &[u8]) -> Result<Value, BootupError> {
        let (address, ends) = (self.address.clone(), || self.stop.load(Ordering::Relaxed));
        self.caller.call(line, &ends).map_err(|cause| BootupError::Manager { address, call: name, cause })
    }

    fn refused(&self, reason: String) -> BootupError {
        BootupError::Refused { address: self.address.clone(), reason }
    }
}

/// The interface of the gateway: the time, and the start of the test. It answers also while the test goes on, so that the
/// manager can follow how the clocks drift.
pub struct Interface {
    started: Arc<(Mutex<bool>, Condvar)>,
}

impl Interface {
    /// Answers on that socket until the end is asked for.
    pub fn serve(listener: TcpListener, stop: Arc<AtomicBool>) -> std::io::Result<Interface> {
        let interface = Interface { started: Arc::default() };
        let started = Arc::clone(&interface.started);
        let callers = Arc::new(Callers::default());
        thread::Builder::new().name("interface".into()).spawn(move || {
            for number in 0.. {
                let accepted = listener.accept();
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let Ok((stream, _)) = accepted else {
                    // No file may be left for it, and that is so for a while.
                    thread::sleep(LOOK);
                    continue;
                };
                let (started, callers) = (Arc::clone(&started), Arc::clone(&callers));
                let stream = callers.enter(number, stream);
                let others = Arc::clone(&callers);
                let answering = thread::Builder::new().name("interface".into()).spawn(move || {
                    // Who closes, or says what is no call, is not answered any more.
                    let _ = answer(&stream, &started, || callers.has_called(number));
                    callers.leave(number);
                });
                if answering.is_err() {
                    others.leave(number);
                }
            }
        })?;
        Ok(interface)
    }

    /// Waits for the start; whether it came before the end was asked for.
    pub fn await_start(&self, stop: &AtomicBool) -> bool {
        let (started, changed) = &*self.started;
        let mut is_started = started.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_started && !stop.load(Ordering::Relaxed) {
            is_started = changed.wait_timeout(is_started, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_started
    }
}

/// Who is connected to the interface, by the order in which they came.
#[derive(Default)]
struct Callers(Mutex<BTreeMap<u64, Connected>>);

struct Connected {
    stream: Arc<TcpStream>,
    /// Whether it has called, and since when it is silent: who never called makes way before the manager does.
    silent: (bool, Instant),
}

impl Callers {
    fn enter(&self, number: u64, stream: TcpStream) -> Arc<TcpStream> {
        let mut all = self.all();
        if all.len() >= CALLERS
            && let Some(first) = all.iter().min_by_key(|(_, one)| one.silent).map(|(&number, _)| number)
            && let Some(one) = all.remove(&first)
        {
            // Its thread reads the end, and goes.
            let _ = one.stream.shutdown(Shutdown::Both);
        }
        let stream = Arc::new(stream);
        all.insert(number, Connected { stream: Arc::clone(&stream), silent: (false, Instant::now()) });
        stream
    }

    fn has_called(&self, number: u64) {
        if let Some(one) = self.all().get_mut(&number) {
            one.silent = (true, Instant::now());
        }
    }

    fn leave(&self, number: u64) {
        self.all().remove(&number);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Connected>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(
    mut caller: &TcpStream,
    started: &(Mutex<bool>, Condvar),
    has_called: impl Fn(),
) -> std::io::Result<()> {
    caller.set_nodelay(true)?;
    let mut messages = Messages::default();
    let mut buffer = [0; 4096];
    loop {
        let read = caller.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        messages.add(&buffer[..read]);
        loop {
            let answer = match messages.take::<Call>() {
                Ok(Some(call)) => {
                    has_called();
                    answer_to(&call, started)
                }
                Ok(None) => break,
                Err(reason) => {
                    caller.write_all(&Answer::error("ValueError", reason).line())?;
                    return Ok(());
                }
            };
            caller.write_all(&answer.line())?;
        }
    }
}

fn answer_to(call: &Call, started: &(Mutex<bool>, Condvar)) -> Answer {
    match call.name.as_str() {
        "get_timestamp" => Answer::Result(json!(now() as f64 / 1e6)),
        "start_test" => {
            *started.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            started.1.notify_all();
            Answer::Result(json!(true))
        }
        _ => Answer::error("AttributeError", "The API-function is not available."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{Model, Order, Reactor, Spread};

    fn configuration() -> Configuration {
        Configuration {
            dispatcher: Model::Serial,
            event_handler: Model::Serial,
            cpu_intensity: 0.0,
            io_intensity: 0.0,
            pool_size: 1,
            cores: 0,
            cpu_spread: Spread::Constant,
            io_spread: Spread::Constant,
            io_order: Order::After,
            event_loop: Reactor::Epoll,
            sockets: 0,
        }
    }

    /// The end is asked for while the manager says nothing, or nothing but spaces: nobody waits for the half minute that it has.
    #[test]
    fn the_end_is_not_kept_by_a_manager_that_does_not_answer() {
        for words in [&b""[..], b" "] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let end = Arc::clone(&stop);
            let manager = thread::spawn(move || {
                let (mut caller, _) = listener.accept().unwrap();
                assert!(caller.read(&mut [0; 4096]).unwrap() > 0);
                end.store(true, Ordering::Relaxed);
                if words.is_empty() {
                    let _ = caller.read(&mut [0]);
                    return;
                }
                while caller.write_all(words).is_ok() {
                    thread::sleep(Duration::from_millis(5));
                }
            });
            let mut manager_of = Manager::connect(&address.to_string(), &stop).unwrap();
            let begin = Instant::now();
            let error = manager_of.verify(&configuration(), address).unwrap_err().to_string();
            assert!(error.contains("verify_gateway: the end was asked for"), "{error}");
            assert!(begin.elapsed() < PATIENCE);
            drop(manager_of);
            manager.join().unwrap();
        }
    }

    fn ask(mut interface: &TcpStream) -> Option<Value> {
        interface.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        interface.write_all(&Call::line("get_timestamp", vec![])).ok()?;
        let mut answer = [0; 256];
        let read = interface.read(&mut answer).ok()?;
        serde_json::from_slice(&answer[..read]).ok()
    }

    /// Whoever connects and says nothing makes way for others; who has called stays before those.
    #[test]
    fn silent_callers_make_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _interface = Interface::serve(listener, Arc::default()).unwrap();
        let connect = || TcpStream::connect(address).unwrap();
        let manager = connect();
        assert!(ask(&manager).is_some());
        let silent: Vec<TcpStream> = (0..2 * CALLERS).map(|_| connect()).collect();
        let late = connect();
        assert!(ask(&late).is_some());
        assert!(ask(&manager).is_some());
        // Accepted in their order, so the first of them had to go.
        assert_eq!((&silent[0]).read(&mut [0]).unwrap(), 0);
    }
}
