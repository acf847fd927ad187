//! The preemptive dispatcher: a thread for each connection.

use super::conversation::{Conversation, Crowd};
use super::{LINGER, LOOK, PAUSE, Slots};
use crate::configuration::PushProtocol;
use crate::dispatcher::preemptive::Handler;
use crate::handler::{Event, Shared};
use crate::push::{Reply, Said};
use crate::reactor::ReactorError;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Bytes that are read at once.
const READ: usize = 1 << 14;

pub(super) fn run(
    shared: &Arc<Shared>,
    protocol: PushProtocol,
    listener: TcpListener,
) -> Result<(), ReactorError> {
    let handler = Handler::of(shared)?;
    let slots = Mutex::new(Slots::new(shared.devices()));
    let crowd = Crowd::new();
    let of_slots = || slots.lock().unwrap_or_else(PoisonError::into_inner);
    listener.set_nonblocking(true)?;
    thread::scope(|scope| {
        while !shared.ends() {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    await_somebody(&listener);
                    continue;
                }
                Err(error) => {
                    shared.refused(&error.to_string());
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            let Some(slot) = of_slots().take() else {
                shared.refused("there are as many connections as there may be");
                continue;
            };
            let (handler, of_slots, crowd) = (&handler, &of_slots, &crowd);
            let serve = move || {
                let conversation = Conversation::new(protocol, crowd);
                Device { shared, handler, stream, slot, conversation }.serve();
                of_slots().give(slot);
            };
            let thread = thread::Builder::new().name("dispatcher".into());
            if let Err(error) = thread.spawn_scoped(scope, serve) {
                of_slots().give(slot);
                shared.refused(&format!("no thread: {error}"));
            }
        }
    });
    Ok(())
}

fn await_somebody(listener: &TcpListener) {
    let look = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
    // A signal ends the wait early, which does no harm.
    let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&look));
}

/// A connection and its thread.
struct Device<'a> {
    shared: &'a Shared,
    handler: &'a Handler,
    stream: TcpStream,
    slot: usize,
    conversation: Conversation<'a>,
}

impl Device<'_> {
    fn serve(mut self) {
        self.shared.own(self.slot);
        if let Err(reason) = self.events() {
            self.shared.complain(self.slot, &reason);
        }
    }

    /// Takes events until the device goes, or cannot be understood: why.
    fn events(&mut self) -> Result<(), String> {
        let said = |error: std::io::Error| error.to_string();
        // Who sends asks to be read; who accepts on a socket that does not wait may get one that does not.
        self.stream.set_nonblocking(false).map_err(said)?;
        self.stream.set_nodelay(true).map_err(said)?;
        self.stream.set_read_timeout(Some(LOOK)).map_err(said)?;
        self.stream.set_write_timeout(Some(LINGER)).map_err(said)?;
        let mut buffer = vec![0; READ];
        while !self.shared.ends() {
            if let Some(said) = self.conversation.next() {
                if !self.answer(said)? {
                    return Ok(());
                }
                continue;
            }
            if let Some(fault) = self.conversation.fault() {
                return Err(fault.to_owned());
            }
            match self.stream.read(&mut buffer) {
                Ok(read @ 1..) => self.conversation.add(&buffer[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) if !self.conversation.is_begun() => return Ok(()),
                Ok(0) => return Err("within a message: the connection was closed".to_owned()),
                Err(error) => return Err(format!("within a message: {error}")),
            }
        }
        Ok(())
    }

    /// Does what a device wants; whether it may want more.
    fn answer(&mut self, said: Said) -> Result<bool, String> {
        let Reply { bytes, is_last } = match said {
            Said::Call(bytes) => Reply { bytes, is_last: false },
            Said::Event(name) => self.handle(name),
            Said::Refused(answer, reason) => {
                // Why it was refused counts, and not whether it listens.
                let _ = self.stream.write_all(&answer);
                self.linger();
                return Err(reason);
            }
            Said::Farewell => return Ok(false),
        };
        if self.stream.write_all(&bytes).is_err() {
            // Who has gone needs no answer.
            return Ok(false);
        }
        if is_last {
            self.linger();
        }
        Ok(!is_last)
    }

    /// Has an event handled, and waits until that is over.
    fn handle(&mut self, name: Option<Arc<str>>) -> Reply {
        let event = Event { device: self.slot, id: name.unwrap_or_else(|| self.shared.name()) };
        self.shared.retrieved(&event);
        self.handler.handle(self.shared, event);
        while self.shared.is_busy(self.slot) {
            thread::park_timeout(LOOK);
        }
        self.conversation.over(self.shared.is_done(self.slot))
    }

    /// Reads what nobody wants to know until the other side closes, so that it can read the last word.
    fn linger(&mut self) {
        let begin = Instant::now();
        let mut buffer = [0; 4096];
        while begin.elapsed() < LINGER && !self.shared.ends() {
            match self.stream.read(&mut buffer) {
                Ok(1..) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}
