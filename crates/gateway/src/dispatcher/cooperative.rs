//! The cooperative dispatcher: a state machine for each device, or for each socket where those are fewer, on one event loop.

use super::{Calls, PATIENCE, PAUSE, connections, event, has_event, is_empty, shares};
use crate::calls::{Answer, CallError, Messages, UNASKED};
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
    /// The last turn of the loop in which a connection of it was closed: what is still told in that turn is of the old one.
    closed_in: u64,
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
    /// Turns of the loop so far.
    turns: u64,
}

pub(super) fn run(shared: &Arc<Shared>, devices: &[SocketAddr]) -> Result<(), ReactorError> {
    let configuration = &shared.configuration;
    run_on(shared, devices, reactor::make(configuration.event_loop, configuration.pool_size)?)
}

fn run_on(
    shared: &Arc<Shared>,
    devices: &[SocketAddr],
    reactor: Box<dyn Reactor>,
) -> Result<(), ReactorError> {
    shared.wakes(reactor.waker());
    let shares = shares(devices.len(), connections(&shared.configuration, devices.len()));
    let mut machine_of = vec![0; devices.len()];
    for (number, own) in shares.iter().enumerate() {
        own.iter().for_each(|&device| machine_of[device] = number);
    }
    let machine = |devices| {
        let (state, since, messages) = (State::Paused, Instant::now(), Messages::default());
        Machine { devices, at: 0, state, since, messages, closed_in: 0 }
    };
    let machines: Vec<Machine> = shares.into_iter().map(machine).collect();
    let handler = Handler::of(shared)?;
    let look = machines.len();
    let addresses = devices;
    let (calls, turns) = (Calls::new(), 0);
    Dispatcher { shared, addresses, reactor, machines, machine_of, handler, calls, look, turns }.run();
    Ok(())
}

impl Dispatcher<'_> {
    fn run(&mut self) {
        (0..self.machines.len()).for_each(|number| self.connect(number));
        self.reactor.after(self.look, LOOK);
        let mut happened = Vec::new();
        while !self.shared.ends() || !self.is_idle() {
            self.reactor.turn(true, &mut happened);
            self.turns += 1;
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
            Happened::Connected(number)
            | Happened::Data(number, _)
            | Happened::Ended(number)
            | Happened::Closed(number, _)
                if self.machines[number].closed_in == self.turns => {}
            Happened::Connected(number) => self.ask(number),
            Happened::Data(number, bytes) => {
                self.machines[number].messages.add(&bytes);
                self.answer(number);
            }
            // Nobody listens.
            Happened::Incoming => {}
            // A device that says nothing more can give no answer.
            Happened::Ended(number) => self.fail(number, "the connection was closed"),
            Happened::Closed(number, reason) => self.failed(number, &reason),
            Happened::Written(number, result) => self.handler.written(self.shared, number, &result),
            Happened::Elapsed(slot) if slot == self.look => self.look_at_all(),
            Happened::Elapsed(number) => self.connect(number),
        }
    }

    fn connect(&mut self, number: usize) {
        if self.shared.ends() {
            return;
        }
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

    /// Takes the answer to a call, once it is whole.
    fn answer(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        let answer = match machine.messages.take() {
            Ok(Some(answer)) => answer,
            Ok(None) => return,
            Err(reason) => return self.fail(number, &format!("the answer is no answer: {reason}")),
        };
        let is_asked = matches!(machine.state, State::Asking | State::Fetching);
        if !is_asked || machine.messages.waiting() > 0 {
            return self.fail(number, UNASKED);
        }
        match (machine.state, answer) {
            (State::Fetching, Answer::Error(raised)) if is_empty(&raised) => self.turn(number),
            (_, Answer::Error(raised)) => self.fail(number, &CallError::Raised(raised).to_string()),
            (State::Fetching, Answer::Result(given)) => match event(machine.device(), given) {
                Ok(event) => self.dispatch(number, event),
                Err(reason) => self.fail(number, &reason),
            },
            (_, Answer::Result(status)) => match has_event(&status) {
                Ok(true) => {
                    machine.enter(State::Fetching);
                    self.reactor.send(number, &self.calls.next_event);
                }
                Ok(false) => self.turn(number),
                Err(reason) => self.fail(number, &reason),
            },
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
        self.close(number);
        self.connect(number);
    }

    fn close(&mut self, number: usize) {
        self.reactor.close(number);
        self.machines[number].closed_in = self.turns;
    }

    fn fail(&mut self, number: usize, reason: &str) {
        self.close(number);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{Configuration, Order, Spread};
    use crate::log::Log;
    use crate::reactor::Waker;
    use crate::work::Work;
    use std::io;
    use std::net::TcpListener;
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A loop in which happens what a test says, turn by turn; it notes what is asked of it.
    struct Told {
        turns: std::vec::IntoIter<Vec<Happened>>,
        asked: Arc<Mutex<Vec<String>>>,
        stop: Arc<AtomicBool>,
    }

    impl Told {
        fn note(&self, words: String) {
            self.asked.lock().unwrap().push(words);
        }
    }

    impl Reactor for Told {
        fn connect(&mut self, _: usize, address: SocketAddr) {
            self.note(format!("connect {}", address.port()));
        }

        fn send(&mut self, _: usize, bytes: &[u8]) {
            self.note(String::from_utf8_lossy(bytes).split('"').nth(3).unwrap().to_owned());
        }

        fn close(&mut self, _: usize) {
            self.note("close".into());
        }

        fn turn(&mut self, _: bool, happened: &mut Vec<Happened>) {
            match self.turns.next() {
                Some(turn) => happened.extend(turn),
                None => self.stop.store(true, Ordering::Relaxed),
            }
        }

        fn waker(&self) -> Waker {
            Arc::new(|| ())
        }

        fn name(&self) -> String {
            "told".into()
        }

        fn after(&mut self, _: usize, _: Duration) {}
        fn listen(&mut self, _: TcpListener) -> io::Result<()> {
            Ok(())
        }
        fn accept(&mut self, _: usize) -> io::Result<bool> {
            Ok(false)
        }
        fn hold(&mut self, _: usize, _: bool) {}
        fn unsent(&self, _: usize) -> usize {
            0
        }
        fn write(&mut self, _: u64, _: PathBuf, _: usize) {}
    }

    /// What is asked of the loop by a dispatcher of two devices that take turns on one socket.
    fn asked(turns: Vec<Vec<Happened>>) -> (Vec<String>, u64) {
        let configuration = Configuration {
            dispatcher: Model::Cooperative,
            event_handler: Model::Serial,
            cpu_intensity: 0.0,
            io_intensity: 0.0,
            pool_size: 1,
            cores: 0,
            cpu_spread: Spread::Constant,
            io_spread: Spread::Constant,
            io_order: Order::After,
            event_loop: crate::configuration::Reactor::Epoll,
            sockets: 1,
        };
        let (stop, asked) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<String>>>::default());
        let reactor = Box::new(Told { turns: turns.into_iter(), asked: asked.clone(), stop: stop.clone() });
        let work = Work::new(&configuration, Path::new(""));
        let shared = Arc::new(Shared::new(configuration, work, Log::none(), 2, stop));
        let addresses = [5000, 5001].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        run_on(&shared, &addresses, reactor).unwrap();
        let asked = asked.lock().unwrap().clone();
        (asked, shared.done.load(Ordering::Relaxed))
    }

    fn data(text: &str) -> Happened {
        Happened::Data(0, text.as_bytes().to_vec())
    }

    #[test]
    fn devices_of_one_socket_take_turns() {
        let (asked, done) = asked(vec![
            vec![Happened::Connected(0)],
            vec![data("{\"result\":1}")],
            vec![data("{\"result\":\"a-1\"}\n")],
            vec![Happened::Connected(0)],
        ]);
        let expected = ["connect 5000", "status", "next_event", "close", "connect 5001", "status"];
        assert_eq!((asked, done), (expected.map(str::to_owned).to_vec(), 1));
    }

    /// What the first device says beyond its answer, and that it closes, is told in the turn in which it was left already.
    #[test]
    fn what_is_told_late_of_a_device_is_not_taken_for_the_next_one() {
        let late =
            || [data("{\"result\":1}"), data("{\"result\":\"x-1\"}"), Happened::Closed(0, "gone".into())];
        let (asked, done) = asked(vec![
            vec![Happened::Connected(0)],
            std::iter::once(data("{\"result\":0}")).chain(late()).collect(),
            vec![Happened::Connected(0)],
            vec![data("{\"result\":1}")],
            vec![data("{\"result\":\"b-1\"}")],
        ]);
        let expected = [
            "connect 5000",
            "status",
            "close",
            "connect 5001",
            "status",
            "next_event",
            "close",
            "connect 5000",
        ];
        assert_eq!((asked, done), (expected.map(str::to_owned).to_vec(), 1));
    }

    /// An answer more than calls: the next call would be answered by it.
    #[test]
    fn a_device_that_answers_twice_is_left() {
        let (asked, done) =
            asked(vec![vec![Happened::Connected(0)], vec![data("{\"result\":1}\n{\"result\":\"x-1\"}\n")]]);
        assert_eq!((asked, done), (["connect 5000", "status", "close"].map(str::to_owned).to_vec(), 0));
    }
}
