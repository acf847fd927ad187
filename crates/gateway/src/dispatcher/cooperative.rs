//! The cooperative dispatcher: a state machine for each device, or for each socket where those are fewer, on one event loop.

use super::{Calls, PATIENCE, PAUSE, event, has_event, is_empty, shares};
use crate::calls::{Answer, Messages};
use crate::configuration::Model;
use crate::handler::{Cooperative, Event, Pool, Shared};
use crate::reactor::{self, Happened, Reactor, ReactorError};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the machines are looked at that wait for too long.
const LOOK: Duration = Duration::from_millis(200);

/// Where a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its device failed, and is left alone.
    Paused,
    Connecting,
    /// `status` was called.
    Asking,
    /// `next_event` was called.
    Fetching,
    /// An event of its device is being handled.
    Handling,
}

/// Asks the devices of one socket in turn.
struct Machine {
    devices: Vec<usize>,
    at: usize,
    state: State,
    since: Instant,
    messages: Messages,
}

/// How a loop has events handled.
pub(super) enum Handler {
    Serial,
    Preemptive(Pool),
    Cooperative(Cooperative),
}

impl Handler {
    /// As the configuration says.
    pub fn of(shared: &Arc<Shared>) -> std::io::Result<Handler> {
        Ok(match shared.configuration.event_handler {
            Model::Serial => Handler::Serial,
            Model::Preemptive => Handler::Preemptive(Pool::new(shared)?),
            Model::Cooperative => Handler::Cooperative(Cooperative::default()),
        })
    }

    pub fn handle(&mut self, shared: &Shared, reactor: &mut dyn Reactor, event: Event) {
        match self {
            Handler::Serial => shared.handle(&event),
            // The loop waits while the pool is full, and all machines with it: so it is in the work.
            Handler::Preemptive(pool) => pool.handle(event),
            Handler::Cooperative(handler) => handler.handle(shared, reactor, event),
        }
    }

    /// A file is written.
    pub fn written(&mut self, shared: &Shared, number: u64, result: &std::io::Result<()>) {
        if let Handler::Cooperative(handler) = self {
            handler.written(shared, number, result);
        }
    }
}

struct Dispatcher<'a> {
    shared: &'a Shared,
    addresses: &'a [SocketAddr],
    reactor: Box<dyn Reactor>,
    machines: Vec<Machine>,
    /// The machine of each device.
    machine_of: Vec<usize>,
    handler: Handler,
    calls: Calls,
    /// The slot of the timer that looks at all; those of machines have their numbers.
    look: usize,
}

pub(super) fn run(shared: &Arc<Shared>, devices: &[SocketAddr]) -> Result<(), ReactorError> {
    let configuration = &shared.configuration;
    let reactor = reactor::make(configuration.event_loop, configuration.pool_size)?;
    shared.wakes(reactor.waker());
    let shares = shares(devices.len(), configuration.sockets);
    let mut machine_of = vec![0; devices.len()];
    for (number, own) in shares.iter().enumerate() {
        own.iter().for_each(|&device| machine_of[device] = number);
    }
    let machine = |devices| {
        let (state, since, messages) = (State::Paused, Instant::now(), Messages::default());
        Machine { devices, at: 0, state, since, messages }
    };
    let machines: Vec<Machine> = shares.into_iter().map(machine).collect();
    let handler = Handler::of(shared)?;
    let look = machines.len();
    let addresses = devices;
    Dispatcher { shared, addresses, reactor, machines, machine_of, handler, calls: Calls::new(), look }.run();
    Ok(())
}

impl Dispatcher<'_> {
    fn run(&mut self) {
        (0..self.machines.len()).for_each(|number| self.connect(number));
        self.reactor.after(self.look, LOOK);
        let mut happened = Vec::new();
        while !self.shared.ends() || !self.is_idle() {
            self.reactor.turn(true, &mut happened);
            for one in happened.drain(..) {
                self.take(one);
            }
            for device in self.shared.freed() {
                self.go_on(self.machine_of[device]);
            }
        }
    }

    fn is_idle(&self) -> bool {
        match &self.handler {
            Handler::Cooperative(handler) => handler.is_idle(),
            Handler::Serial | Handler::Preemptive(_) => true,
        }
    }

    fn take(&mut self, happened: Happened) {
        match happened {
            Happened::Connected(number) => self.ask(number),
            Happened::Data(number, bytes) => {
                self.machines[number].messages.add(&bytes);
                self.answers(number);
            }
            // Nobody listens.
            Happened::Incoming => {}
            Happened::Closed(number, reason) => self.failed(number, &reason),
            Happened::Written(number, result) => self.handler.written(self.shared, number, &result),
            Happened::Elapsed(slot) if slot == self.look => self.look_at_all(),
            Happened::Elapsed(number) => self.connect(number),
        }
    }

    fn connect(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        if self.shared.is_busy(machine.device()) {
            // Its connection failed while its event is being handled: the next one must wait.
            return self.reactor.after(number, PAUSE);
        }
        machine.enter(State::Connecting);
        machine.messages = Messages::default();
        self.reactor.connect(number, self.addresses[machine.device()]);
    }

    fn ask(&mut self, number: usize) {
        self.machines[number].enter(State::Asking);
        self.reactor.send(number, &self.calls.status);
    }

    fn answers(&mut self, number: usize) {
        loop {
            let machine = &mut self.machines[number];
            let answer = match machine.messages.take() {
                Ok(Some(answer)) => answer,
                Ok(None) => return,
                Err(reason) => return self.fail(number, &format!("the answer is no answer: {reason}")),
            };
            match (machine.state, answer) {
                (State::Asking, Answer::Result(status)) if has_event(&status) => {
                    machine.enter(State::Fetching);
                    self.reactor.send(number, &self.calls.next_event);
                }
                (State::Asking, Answer::Result(_)) => self.turn(number),
                (State::Fetching, Answer::Result(given)) => match event(machine.device(), &given) {
                    Ok(event) => self.dispatch(number, event),
                    Err(reason) => return self.fail(number, &reason),
                },
                (State::Fetching, Answer::Error(raised)) if is_empty(&raised) => self.turn(number),
                (State::Asking | State::Fetching, Answer::Error(raised)) => {
                    return self.fail(number, &format!("{} was raised", raised.name));
                }
                (State::Paused | State::Connecting | State::Handling, _) => {
                    return self.fail(number, "it answers what nobody has asked");
                }
            }
        }
    }

    fn dispatch(&mut self, number: usize, event: Event) {
        self.machines[number].enter(State::Handling);
        self.shared.retrieved(&event);
        self.handler.handle(self.shared, &mut *self.reactor, event);
    }

    /// The event that its machine has waited for is over.
    fn go_on(&mut self, number: usize) {
        if self.machines[number].state == State::Handling {
            self.turn(number);
        }
    }

    /// The next device of a machine, which may be the same.
    fn turn(&mut self, number: usize) {
        if self.shared.ends() {
            return;
        }
        let machine = &mut self.machines[number];
        if machine.devices.len() == 1 {
            return self.ask(number);
        }
        machine.at = (machine.at + 1) % machine.devices.len();
        self.reactor.close(number);
        self.connect(number);
    }

    fn fail(&mut self, number: usize, reason: &str) {
        self.reactor.close(number);
        self.failed(number, reason);
    }

    fn failed(&mut self, number: usize, reason: &str) {
        let machine = &mut self.machines[number];
        let device = machine.device();
        self.shared.log.say("ERROR", &format!("device {device} at {}: {reason}", self.addresses[device]));
        machine.at = (machine.at + 1) % machine.devices.len();
        machine.enter(State::Paused);
        self.reactor.after(number, PAUSE);
    }

    fn look_at_all(&mut self) {
        let late = |machine: &Machine| {
            let waits = matches!(machine.state, State::Connecting | State::Asking | State::Fetching);
            waits && machine.since.elapsed() > PATIENCE
        };
        for number in 0..self.machines.len() {
            if late(&self.machines[number]) {
                self.fail(number, "it does not answer in time");
            }
        }
        self.reactor.after(self.look, LOOK);
    }
}

impl Machine {
    fn device(&self) -> usize {
        self.devices[self.at]
    }

    fn enter(&mut self, state: State) {
        (self.state, self.since) = (state, Instant::now());
    }
}
