//! The event handler: what is done with an event once it is dispatched, and who is told when that is over.

use crate::configuration::{Configuration, Order};
use crate::log::{Log, Station, now};
use crate::reactor::{Happened, Reactor, ReactorError, Waker};
use crate::work::{Work, calculate};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread, ThreadId};

/// An event that the gateway has.
#[derive(Clone, Debug)]
pub struct Event {
    /// Whose.
    pub device: usize,
    /// Its name.
    pub id: Arc<str>,
}

/// What all parts of a gateway share.
pub struct Shared {
    /// What it is.
    pub configuration: Configuration,
    /// What events cause.
    pub work: Work,
    /// The life of events.
    pub log: Log,
    /// The end was asked for.
    pub stop: Arc<AtomicBool>,
    /// Events that are done, and those whose work failed.
    pub done: AtomicU64,
    /// See [`Shared::done`].
    pub failed: AtomicU64,
    /// Connections that could not be taken.
    pub refused: AtomicU64,
    /// Events that had no name.
    unnamed: AtomicU64,
    devices: Vec<Device>,
    /// Where a loop wants to know which devices are free again.
    freed: Mutex<Vec<usize>>,
    waker: OnceLock<(ThreadId, Waker)>,
}

/// One device's events are handled one after the other.
#[derive(Default)]
struct Device {
    busy: AtomicBool,
    /// The work of its last event failed.
    failed: AtomicBool,
    /// Who waits for it.
    owner: Mutex<Option<Thread>>,
}

impl Shared {
    /// Of so many devices.
    pub fn new(
        configuration: Configuration,
        work: Work,
        log: Log,
        devices: usize,
        stop: Arc<AtomicBool>,
    ) -> Shared {
        Shared {
            configuration,
            work,
            log,
            stop,
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unnamed: AtomicU64::new(0),
            devices: (0..devices).map(|_| Device::default()).collect(),
            freed: Mutex::default(),
            waker: OnceLock::new(),
        }
    }

    /// Whether the end was asked for.
    pub fn ends(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether an event of that device is being handled.
    pub fn is_busy(&self, device: usize) -> bool {
        self.devices[device].busy.load(Ordering::Acquire)
    }

    /// This thread is woken up when that device is free again.
    pub fn own(&self, device: usize) {
        *self.devices[device].owner.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
    }

    /// How many devices there are, or may be.
    pub fn devices(&self) -> usize {
        self.devices.len()
    }

    /// Whether the work of a device's last event was done.
    pub fn is_done(&self, device: usize) -> bool {
        !self.devices[device].failed.load(Ordering::Acquire)
    }

    /// A name for an event that has none.
    pub fn name(&self) -> Arc<str> {
        format!("unnamed-{}", self.unnamed.fetch_add(1, Ordering::Relaxed)).into()
    }

    /// A connection could not be taken. The first is told of; all are counted.
    pub fn refused(&self, reason: &str) {
        if self.refused.fetch_add(1, Ordering::Relaxed) == 0 {
            self.log.say("ERROR", &format!("a connection is refused: {reason}; others may follow"));
        }
    }

    /// A device's connection ends for that reason.
    pub fn complain(&self, device: usize, reason: &str) {
        self.log.say("ERROR", &format!("the connection of device {device} ends: {reason}"));
    }

    /// The loop on this thread is woken up when any device is free again.
    pub fn wakes(&self, waker: Waker) {
        let _ = self.waker.set((thread::current().id(), waker));
    }

    /// The devices that became free since the last call, for the loop that is woken up.
    pub fn freed(&self) -> Vec<usize> {
        std::mem::take(&mut self.freed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An event came to the gateway: no other one of its device is fetched until it is over.
    pub fn retrieved(&self, event: &Event) {
        self.devices[event.device].busy.store(true, Ordering::Release);
        self.log.event(Station::Retrieved, now(), &event.id);
    }

    /// The handler has it.
    fn dispatched(&self, event: &Event) {
        self.log.event(Station::Dispatched, now(), &event.id);
    }

    /// Its work is over.
    fn over(&self, event: &Event, result: &io::Result<()>) {
        match result {
            Ok(()) => {
                self.log.event(Station::Done, now(), &event.id);
                self.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                self.log.event(Station::Failed, now(), &event.id);
                if self.failed.fetch_add(1, Ordering::Relaxed) == 0 {
                    self.log.say("ERROR", &format!("the work of {} failed: {error}", event.id));
                }
            }
        }
        let device = &self.devices[event.device];
        device.failed.store(result.is_err(), Ordering::Release);
        device.busy.store(false, Ordering::Release);
        if let Some(owner) = &*device.owner.lock().unwrap_or_else(PoisonError::into_inner) {
            owner.unpark();
        }
        if let Some((own, waker)) = self.waker.get() {
            self.freed.lock().unwrap_or_else(PoisonError::into_inner).push(event.device);
            // On its own thread the loop is awake.
            if thread::current().id() != *own {
                waker();
            }
        }
    }

    /// The serial handler: works on an event on this thread, which waits for all of it.
    pub fn handle(&self, event: &Event) {
        self.dispatched(event);
        let task = self.work.task(&event.id);
        calculate(task.prime);
        let result = self.work.write(event.device, task.bytes);
        self.over(event, &result);
    }
}

/// The preemptive handler: a pool of threads. Who has an event for it waits until one of them is free.
pub struct Pool {
    door: Arc<Door>,
    threads: Vec<JoinHandle<()>>,
}

/// Where events are handed to the threads of a pool.
#[derive(Default)]
struct Door {
    state: Mutex<State>,
    /// A thread has become free.
    room: Condvar,
    /// There is something to do, or the pool ends.
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// Threads that wait for something to do.
    idle: usize,
    /// Handed over, and not taken up by one of those yet.
    parts: VecDeque<Part>,
    ended: bool,
}

/// What a thread of the pool does.
enum Part {
    /// All of it.
    Whole(Event),
    /// The I/O work, beside the CPU work on another thread.
    Io(Arc<Halves>),
}

/// An event whose two parts are done by two threads.
struct Halves {
    event: Event,
    bytes: usize,
    /// What came of the one that was done first.
    first: Mutex<Option<io::Result<()>>>,
}

impl Pool {
    /// With as many threads as the configuration says.
    pub fn new(shared: &Arc<Shared>) -> io::Result<Pool> {
        let mut pool = Pool { door: Arc::default(), threads: Vec::new() };
        for _ in 0..shared.configuration.pool_size {
            let (shared, door) = (Arc::clone(shared), Arc::clone(&pool.door));
            let work = move || {
                while let Some(part) = door.next() {
                    part.work(&shared, &door);
                }
            };
            pool.threads.push(thread::Builder::new().name("pool".into()).spawn(work)?);
        }
        Ok(pool)
    }

    /// Waits for a free thread and gives it the event.
    pub fn handle(&self, event: Event) {
        let full = |state: &mut State| state.parts.len() >= state.idle && !state.ended;
        let waited = self.door.room.wait_while(self.door.lock(), full);
        waited.unwrap_or_else(PoisonError::into_inner).parts.push_back(Part::Whole(event));
        self.door.work.notify_one();
    }
}

impl Drop for Pool {
    /// What was begun is brought to its end.
    fn drop(&mut self) {
        self.door.lock().ended = true;
        self.door.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Door {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a part to another thread, where one is free; else gives it back.
    fn offer(&self, part: Part) -> Option<Part> {
        let mut state = self.lock();
        if state.parts.len() >= state.idle {
            return Some(part);
        }
        state.parts.push_back(part);
        self.work.notify_one();
        None
    }

    /// What a thread does next; `None` at the end.
    fn next(&self) -> Option<Part> {
        let mut state = self.lock();
        state.idle += 1;
        self.room.notify_one();
        let nothing = |state: &mut State| state.parts.is_empty() && !state.ended;
        let mut state = self.work.wait_while(state, nothing).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        state.parts.pop_front()
    }
}

impl Part {
    fn work(self, shared: &Shared, door: &Door) {
        match self {
            Part::Whole(event) => {
                let task = shared.work.task(&event.id);
                if shared.work.order == Order::After || task.bytes == 0 || task.prime == 0 {
                    return shared.handle(&event);
                }
                shared.dispatched(&event);
                let halves = Arc::new(Halves { event, bytes: task.bytes, first: Mutex::default() });
                let alone = door.offer(Part::Io(Arc::clone(&halves)));
                calculate(task.prime);
                halves.over(shared, Ok(()));
                // Where no other thread was free, this one does both.
                if let Some(io) = alone {
                    io.work(shared, door);
                }
            }
            Part::Io(halves) => {
                let result = shared.work.write(halves.event.device, halves.bytes);
                halves.over(shared, result);
            }
        }
    }
}

impl Halves {
    fn over(&self, shared: &Shared, result: io::Result<()>) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        match first.take() {
            None => *first = Some(result),
            Some(other) => shared.over(&self.event, &other.and(result)),
        }
    }
}

/// The cooperative handler: CPU work on the thread of the loop, files by the loop.
#[derive(Default)]
pub struct Cooperative {
    writing: HashMap<u64, Event>,
    next: u64,
}

impl Cooperative {
    /// Begins an event; returns when its CPU work is done.
    pub fn handle(&mut self, shared: &Shared, reactor: &mut dyn Reactor, event: Event) {
        shared.dispatched(&event);
        self.begin(shared, reactor, event);
    }

    fn begin(&mut self, shared: &Shared, reactor: &mut dyn Reactor, event: Event) {
        let task = shared.work.task(&event.id);
        if task.bytes == 0 {
            calculate(task.prime);
            return shared.over(&event, &Ok(()));
        }
        let path = shared.work.file(event.device);
        let number = self.next;
        self.next += 1;
        self.writing.insert(number, event);
        if shared.work.order == Order::Beside {
            reactor.write(number, path, task.bytes);
            calculate(task.prime);
        } else {
            calculate(task.prime);
            reactor.write(number, path, task.bytes);
        }
    }

    /// A file is written: the device whose event is over.
    pub fn written(&mut self, shared: &Shared, number: u64, result: &io::Result<()>) {
        if let Some(event) = self.writing.remove(&number) {
            shared.over(&event, result);
        }
    }

    /// Whether files are being written.
    pub fn is_idle(&self) -> bool {
        self.writing.is_empty()
    }
}

/// The cooperative handler on a thread of its own, for dispatchers in threads of theirs.
pub struct Apart {
    events: Mutex<Sender<Event>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Apart {
    /// Starts the thread; `make` makes its loop there.
    pub fn start(
        shared: &Arc<Shared>,
        make: impl FnOnce() -> Result<Box<dyn Reactor>, ReactorError> + Send + 'static,
    ) -> Result<Apart, ReactorError> {
        let (events, waiting) = channel();
        let (made, told) = sync_channel(1);
        let shared = Arc::clone(shared);
        let thread = thread::Builder::new().name("handler".into()).spawn(move || {
            let mut reactor = match make() {
                Ok(reactor) => reactor,
                Err(error) => {
                    let _ = made.send(Err(error));
                    return;
                }
            };
            let _ = made.send(Ok(reactor.waker()));
            let mut handler = Cooperative::default();
            let mut happened = Vec::new();
            let mut open = true;
            while open || !handler.is_idle() {
                reactor.turn(true, &mut happened);
                for one in happened.drain(..) {
                    if let Happened::Written(number, result) = one {
                        handler.written(&shared, number, &result);
                    }
                }
                loop {
                    match waiting.try_recv() {
                        Ok(event) => handler.begin(&shared, &mut *reactor, event),
                        Err(TryRecvError::Empty) => break,
                        Err(TryRecvError::Disconnected) => {
                            open = false;
                            break;
                        }
                    }
                }
            }
        })?;
        match told.recv() {
            Ok(waker) => Ok(Apart { events: Mutex::new(events), waker: waker?, thread: Some(thread) }),
            Err(_) => Err(io::Error::other("its thread has ended without a word").into()),
        }
    }

    /// Hands an event over, and waits for nothing.
    pub fn handle(&self, shared: &Shared, event: Event) {
        shared.dispatched(&event);
        let _ = self.events.lock().unwrap_or_else(PoisonError::into_inner).send(event);
        (self.waker)();
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // The end of the channel must be seen.
        let (closed, _) = channel();
        *self.events.lock().unwrap_or_else(PoisonError::into_inner) = closed;
        (self.waker)();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
