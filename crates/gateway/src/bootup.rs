//! Before and beside the test: the configuration is verified, the devices are learnt, the manager asks for the time and starts
//! the test.

use crate::calls::{Answer, Call, CallError, Caller, Messages, resolve};
use crate::configuration::Configuration;
use crate::log::now;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the manager may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections to the gateway's interface at once.
const CALLERS: usize = 64;
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
}

impl Manager {
    /// Connects to `HOST:PORT`, again and again until somebody listens there, or the end is asked for.
    pub fn connect(address: &str, stop: &AtomicBool) -> Result<Manager, BootupError> {
        let failed =
            |cause| BootupError::Manager { address: address.to_owned(), call: "a connection", cause };
        let found = resolve(address).map_err(failed)?;
        let begin = Instant::now();
        let caller = loop {
            match Caller::connect(found, PATIENCE) {
                Ok(caller) => break caller,
                Err(error) if begin.elapsed() > PATIENCE || stop.load(Ordering::Relaxed) => {
                    return Err(failed(error));
                }
                Err(_) => thread::sleep(LOOK),
            }
        };
        Ok(Manager { address: address.to_owned(), caller, host: found.ip() })
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
        let address = self.address.clone();
        self.caller.call(line, &|| false).map_err(|cause| BootupError::Manager { address, call: name, cause })
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
        let callers = Arc::new(AtomicUsize::new(0));
        thread::Builder::new().name("interface".into()).spawn(move || {
            for caller in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(caller), true) = (caller, callers.load(Ordering::Relaxed) < CALLERS) else {
                    continue;
                };
                let (started, count) = (Arc::clone(&started), Arc::clone(&callers));
                count.fetch_add(1, Ordering::Relaxed);
                let answering = thread::Builder::new().name("interface".into()).spawn(move || {
                    // Who closes, or says what is no call, is not answered any more.
                    let _ = answer(caller, &started);
                    count.fetch_sub(1, Ordering::Relaxed);
                });
                if answering.is_err() {
                    callers.fetch_sub(1, Ordering::Relaxed);
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

fn answer(mut caller: TcpStream, started: &(Mutex<bool>, Condvar)) -> std::io::Result<()> {
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
                Ok(Some(call)) => answer_to(&call, started),
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
