//! A worker: waits for coordinators, makes ready for a run, and has load threads for it.

mod components;
mod sending;
mod wire;
mod work;

use crate::fleet::new_process;
use plimsoll_load::clock::monotonic;
use plimsoll_load::shard::Reply;
use plimsoll_model::Nanos;
use plimsoll_observe::limits::{Limits, raise_open_files};
use plimsoll_scenario::plan::Plan;
use plimsoll_workers::announcement::Announcement;
use plimsoll_workers::frame::{Body, Frame, LinkFrame, ProcessId};
use plimsoll_workers::link::{LEASE, Link};
use plimsoll_workers::message::Message;
use plimsoll_workers::post::{Arrival, Post, PostError, Server};
use plimsoll_workers::prepare::Source;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use work::{Host, Work};

/// How often a worker says that it is there.
const ANNOUNCING: Nanos = Nanos::from_secs(1);
/// The longest wait for whatever comes next: below what links wait before they send again.
const TURN: Nanos = Nanos::from_millis(100);
/// Bytes that may wait for a coordinator, and for another worker.
const SPOOL: usize = 64 * 1024 * 1024;
/// Coordinators at once that are told why this worker does not work for them.
const MOST_REFUSED: usize = 8;
/// A worker may have so many open files, as far as it may raise their number.
const FILES: u64 = 1_048_576;

/// How a worker works.
pub struct WorkerOptions {
    /// The NATS server.
    pub server: Server,
    /// Its name.
    pub name: String,
    /// Its site.
    pub site: Option<String>,
    /// Processors of its load threads, one each.
    pub processors: Vec<Option<usize>>,
    /// It ends when no run has needed it for so long; `None` for never.
    pub idle: Option<Nanos>,
    /// This program.
    pub program: PathBuf,
    /// Whether it may start components of a platform.
    pub starts_components: bool,
    /// Whether it may capture packets.
    pub captures: bool,
    /// Where others reach what listens on this host; `None` where the way to the server says so.
    pub address: Option<IpAddr>,
    /// Set to end it.
    pub stop: Arc<AtomicBool>,
}

/// Makes a plan of what a coordinator sends, without reading a file, or says what is wrong.
pub type PlanOf<'a> = &'a dyn Fn(&Source) -> Result<Plan, String>;

/// Told of what a worker does, for people.
pub type Tell<'a> = &'a dyn Fn(&str);

/// What comes to a worker.
enum Input {
    /// From the server.
    Arrival(Arrival),
    /// From a load thread.
    Reply(Reply),
    /// From the components of a run, to its coordinator.
    Said(u64, Box<Message>),
}

/// Works for one coordinator after the other, until it is stopped.
///
/// # Errors
/// The NATS server cannot be used.
pub fn serve(options: WorkerOptions, plan_of: PlanOf<'_>, tell: Tell<'_>) -> Result<(), PostError> {
    raise_open_files(FILES);
    keep_to(&options.processors);
    let (input, inputs) = channel();
    let arriving = input.clone();
    let deliver = move |arrival| {
        // The worker may be ending.
        let _ = arriving.send(Input::Arrival(arrival));
    };
    let process = new_process();
    let post = Post::join(&options.server, process, false, deliver)?;
    tell(&format!("{} waits at {} for runs", options.name, options.server.shown()));
    let announcement = announcement(&options, process);
    let next_announcement = monotonic();
    let worker = Worker {
        options,
        plan_of,
        tell,
        post,
        input,
        inputs,
        announcement,
        next_announcement,
        idle_since: next_announcement,
        work: None,
        refused: BTreeMap::new(),
    };
    worker.serve();
    Ok(())
}

/// What a worker says of itself.
fn announcement(options: &WorkerOptions, process: ProcessId) -> Announcement {
    let limits = Limits::read();
    Announcement {
        process,
        name: options.name.clone(),
        site: options.site.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        processors: options.processors.len().max(1) as u32,
        memory: limits.memory,
        descriptors: limits.open_files,
        ports: limits.local_ports,
        clock: plimsoll_observe::host::clock_identity(),
        network: plimsoll_observe::host::network_identity(),
        host: plimsoll_observe::host::facts(),
        run: None,
        address: options.address.unwrap_or_else(|| options.server.own_address()),
        starts_components: options.starts_components,
        captures: options.captures,
    }
}

fn host_of<'a>(options: &'a WorkerOptions, input: &'a Sender<Input>, address: IpAddr) -> Host<'a> {
    Host {
        processors: &options.processors,
        input,
        program: &options.program,
        starts_components: options.starts_components,
        captures: options.captures,
        address,
    }
}

/// Keeps this process and what it starts to the processors of its load threads, if all of these have one: memory is taken near to the
/// processor that first uses it, also by who makes load threads.
fn keep_to(processors: &[Option<usize>]) {
    if processors.iter().all(Option::is_some) {
        let mut set = CpuSet::new();
        processors.iter().flatten().for_each(|processor| set.set(*processor));
        // Where the kernel refuses, load threads find out.
        let _ = sched_setaffinity(None, &set);
    }
}

struct Worker<'a> {
    options: WorkerOptions,
    plan_of: PlanOf<'a>,
    tell: Tell<'a>,
    post: Post,
    input: Sender<Input>,
    inputs: Receiver<Input>,
    announcement: Announcement,
    next_announcement: Nanos,
    idle_since: Nanos,
    work: Option<Work>,
    /// Links to coordinators for which it does not work.
    refused: BTreeMap<ProcessId, (Link, Nanos)>,
}

impl Worker<'_> {
    fn serve(mut self) {
        while !self.options.stop.load(Ordering::Relaxed) && !self.is_idle_for_long() {
            match self.inputs.recv_timeout(self.patience()) {
                Ok(Input::Arrival(Arrival::Frame(frame, _))) => self.frame(frame),
                Ok(Input::Arrival(Arrival::Announced(_))) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Input::Reply(reply)) => self.work.iter_mut().for_each(|work| work.reply(reply.clone())),
                Ok(Input::Said(run, message)) => {
                    self.work.iter_mut().for_each(|work| work.say(run, &message))
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.turn();
        }
        if let Some(mut work) = self.work.take() {
            work.halt("the worker was stopped");
            work.send(&self.post);
            work.end();
        }
    }

    /// How long it waits for what comes next. Load threads wake nobody, because that would cost time of theirs.
    fn patience(&self) -> Duration {
        let wait = self.work.as_ref().and_then(Work::next_look).map_or(TURN, |next| next - monotonic());
        Duration::from_nanos(wait.clamp(Nanos::ZERO, TURN).0.unsigned_abs())
    }

    /// Whether no run has needed it for as long as it was to wait.
    fn is_idle_for_long(&mut self) -> bool {
        let now = monotonic();
        if self.work.is_some() {
            self.idle_since = now;
        }
        let Some(idle) = self.options.idle.filter(|idle| now - self.idle_since >= *idle) else {
            return false;
        };
        (self.tell)(&format!("no run came for {idle}"));
        true
    }

    /// What is to be done again and again.
    fn turn(&mut self) {
        let now = monotonic();
        if self.next_announcement <= now {
            self.next_announcement = now + ANNOUNCING;
            self.announcement.run = self.work.as_ref().map(|work| work.run.to_string());
            self.post.announce(self.announcement.clone());
        }
        if let Some(work) = &mut self.work {
            work.turn(now);
            work.send(&self.post);
            if work.is_over(now) {
                (self.tell)(&format!("run {} is over", work.run));
                if let Some(work) = self.work.take() {
                    work.end();
                }
            }
        }
        self.refused.retain(|coordinator, (link, until)| {
            while let Some(frame) = link.next(now) {
                self.post.send(*coordinator, Body::Link(frame));
            }
            now < *until && !link.is_idle()
        });
    }

    fn frame(&mut self, Frame { from, body }: Frame) {
        let Body::Link(frame) = body else { return };
        match &mut self.work {
            Some(work) if work.is_from(from, &frame) => {
                let host = host_of(&self.options, &self.input, self.announcement.address);
                work.frame(from, frame, self.plan_of, &host);
            }
            Some(work) => {
                let reason = format!("it works for run {}", work.run);
                self.refuse(from, frame, reason);
            }
            None => self.begin(from, frame),
        }
    }

    /// The first frame of a coordinator asks for work.
    fn begin(&mut self, from: ProcessId, frame: LinkFrame) {
        let mut link = Link::new(frame.run, SPOOL, monotonic());
        let run = frame.run;
        // A plan with large files comes in several pieces.
        if frame.piece.as_ref().is_none_or(|piece| piece.number != 0) {
            return;
        }
        let Ok(taken) = link.take(frame, monotonic()) else { return };
        let Some(bytes) = taken else {
            self.work = Some(Work::to_come(from, run, link));
            return;
        };
        let mut work = Work::to_come(from, run, link);
        if let Ok(Message::Prepare(prepare)) = Message::decode(&bytes) {
            let host = host_of(&self.options, &self.input, self.announcement.address);
            work.prepare(*prepare, self.plan_of, &host);
            (self.tell)(&format!("run {}: {}", work.run, work.told()));
            self.work = Some(work);
        }
    }

    /// Tells a coordinator why this worker does not work for it.
    fn refuse(&mut self, from: ProcessId, frame: LinkFrame, reason: String) {
        let is_first = frame.piece.as_ref().is_some_and(|piece| piece.number == 0);
        if !self.refused.contains_key(&from) {
            if !is_first || self.refused.len() >= MOST_REFUSED {
                return;
            }
            let mut link = Link::new(frame.run, SPOOL, monotonic());
            let _ = link.push(&Message::Prepared(Err(reason)).encode());
            self.refused.insert(from, (link, monotonic() + LEASE));
        }
        if let Some((link, _)) = self.refused.get_mut(&from) {
            let _ = link.take(frame, monotonic());
        }
    }
}
