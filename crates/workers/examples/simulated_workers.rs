//! Workers without load threads: each is connected to the NATS server and speaks to a coordinator as a real one does, and reports
//! that all was sent and acknowledged. So one machine can try how many workers a coordinator holds (`bench/coordinator.py`).
//!
//!     simulated_workers nats://127.0.0.1:4222 2000 100
//!
//! The numbers are those of workers, and of messages of each in a sample. They end with their first run, and print what it took.

use plimsoll_load::clock::monotonic;
use plimsoll_load::recorder::Timeline;
use plimsoll_load::shard::{Command, Reply};
use plimsoll_model::record::{LevelEnd, SamplePart, ThreadUsage};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use plimsoll_workers::announcement::Announcement;
use plimsoll_workers::frame::{Body, Frame, LinkFrame, ProcessId};
use plimsoll_workers::link::Link;
use plimsoll_workers::message::{Message, Prepared};
use plimsoll_workers::post::{Arrival, Post, Server};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Bytes that may wait for the coordinator.
const SPOOL: usize = 64 * 1024 * 1024;
/// How often all workers are looked at.
const TURN: Nanos = Nanos::from_millis(20);
const ANNOUNCING: Nanos = Nanos::from_secs(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, workers, messages] = arguments.as_slice() else {
        return refused("URL, workers and messages are wanted");
    };
    let (Ok(workers), Ok(messages)) = (workers.parse(), messages.parse()) else {
        return refused("numbers are wanted");
    };
    match simulate(url, workers, messages) {
        Ok(told) => {
            println!("{told}");
            ExitCode::SUCCESS
        }
        Err(error) => refused(&error.to_string()),
    }
}

fn refused(why: &str) -> ExitCode {
    eprintln!("simulated_workers: {why}");
    ExitCode::FAILURE
}

/// Has so many workers until all of them had a run.
fn simulate(url: &str, workers: usize, messages: u64) -> Result<String, plimsoll_workers::post::PostError> {
    let server = Server { url: url.to_owned(), ..Server::default() };
    let (arrive, arrivals) = channel();
    let mut all = Vec::with_capacity(workers);
    for place in 0..workers {
        let process = ProcessId((u64::from(std::process::id()) << 32) | place as u64);
        let arrive = arrive.clone();
        // The loop may have ended.
        let deliver = move |arrival| drop(arrive.send((place, arrival)));
        let post = Post::join(&server, process, false, deliver)?;
        all.push(Simulated::new(place, process, post, messages));
    }
    eprintln!("{workers} workers are there");
    Ok(run(&mut all, &arrivals))
}

fn run(all: &mut [Simulated], arrivals: &Receiver<(usize, Arrival)>) -> String {
    let mut next_turn = monotonic();
    while !all.iter().all(|worker| worker.has_ended) {
        let patience = Duration::from_nanos((next_turn - monotonic()).0.max(0) as u64);
        if let Ok((place, Arrival::Frame(frame, _))) = arrivals.recv_timeout(patience)
            && let Some(worker) = all.get_mut(place)
        {
            worker.frame(frame);
        }
        if monotonic() >= next_turn {
            next_turn = monotonic() + TURN;
            all.iter_mut().for_each(Simulated::turn);
        }
    }
    // What was said last is to arrive.
    std::thread::sleep(Duration::from_secs(1));
    let sum = |of: fn(&Simulated) -> u64| all.iter().map(of).sum::<u64>();
    format!(
        "{{\"workers\": {}, \"bytes_up\": {}, \"bytes_down\": {}, \"levels\": {}}}",
        all.len(),
        sum(|worker| worker.bytes_up),
        sum(|worker| worker.bytes_down),
        all.iter().map(|worker| worker.levels).max().unwrap_or_default()
    )
}

struct Simulated {
    post: Post,
    announcement: Announcement,
    next_announcement: Nanos,
    /// Messages of a shard in a sample.
    messages: u64,
    coordinator: Option<(ProcessId, Link)>,
    /// What the monotonic clock showed at time zero of the run.
    epoch: i64,
    shards: BTreeMap<u32, Shard>,
    has_ended: bool,
    bytes_up: u64,
    bytes_down: u64,
    levels: u64,
}

#[derive(Default)]
struct Shard {
    connected: u32,
    timeline: Option<Timeline>,
    next_sample: u16,
    is_drained: bool,
}

impl Simulated {
    fn new(place: usize, process: ProcessId, post: Post, messages: u64) -> Simulated {
        // Its clock is not known, so it counts as another one than the coordinator's.
        let announcement = Announcement::of(process, &format!("simulated-{place}"));
        // They do not speak all at once.
        let next_announcement = monotonic() + Nanos(place as i64 * 7_919_000 % ANNOUNCING.0);
        Simulated {
            post,
            announcement,
            next_announcement,
            messages,
            coordinator: None,
            epoch: 0,
            shards: BTreeMap::new(),
            has_ended: false,
            bytes_up: 0,
            bytes_down: 0,
            levels: 0,
        }
    }

    fn frame(&mut self, Frame { from, body }: Frame) {
        let Body::Link(frame) = body else { return };
        if let Some(message) = self.taken(from, frame) {
            self.answer(message);
        }
        self.send();
    }

    /// The message that is whole with that frame.
    fn taken(&mut self, from: ProcessId, frame: LinkFrame) -> Option<Message> {
        let (coordinator, link) =
            self.coordinator.get_or_insert_with(|| (from, Link::new(frame.run, SPOOL, monotonic())));
        if *coordinator != from {
            return None;
        }
        let bytes = link.take(frame, monotonic()).ok()??;
        self.bytes_down += bytes.len() as u64;
        Message::decode(&bytes).ok()
    }

    fn tell(&mut self, message: &Message) {
        let bytes = message.encode();
        self.bytes_up += bytes.len() as u64;
        if let Some((_, link)) = &mut self.coordinator {
            // A link that is broken ends the run at the coordinator.
            let _ = link.push(&bytes);
        }
    }

    fn reply(&mut self, reply: Reply) {
        self.tell(&Message::Reply(reply));
    }

    fn answer(&mut self, message: Message) {
        match message {
            Message::Prepare(_) => {
                self.tell(&Message::Prepared(Ok(Prepared { warnings: Vec::new(), host: BTreeMap::new() })));
            }
            Message::Begin(begin) => {
                self.epoch = begin.epoch;
                self.tell(&Message::Begun(Ok(())));
            }
            Message::Order(order) => self.order(order.shard, order.command),
            Message::End => self.has_ended = true,
            _ => {}
        }
    }

    fn order(&mut self, number: u32, command: Command) {
        let shard = self.shards.entry(number).or_default();
        match command {
            Command::Connect { clients, awaited, .. } => {
                let count = clients.count();
                shard.connected += count;
                if count > 0 {
                    self.reply(Reply::Ready(count));
                }
                if awaited {
                    self.reply(Reply::AllReady);
                }
            }
            Command::Run { timeline, .. } => {
                *shard = Shard { connected: shard.connected, timeline: Some(timeline), ..Shard::default() };
            }
            Command::Release(_) | Command::Flush => self.reply(Reply::Flushed),
            Command::PassOn => self.reply(Reply::PassedOn),
            Command::Close => {
                let at = Nanos(monotonic().0 - self.epoch);
                let timeline = shard.timeline.take();
                let end = LevelEnd {
                    index: timeline.map(|timeline| timeline.level).unwrap_or_default(),
                    at,
                    first_sent: timeline.map(|timeline| timeline.hold_start),
                    last_done: timeline.map(|timeline| timeline.hold_end),
                    connected: shard.connected,
                    ..LevelEnd::default()
                };
                self.levels += 1;
                self.reply(Reply::Closed(0, Box::new(end)));
            }
            Command::Stop => self.reply(Reply::Stopped),
        }
    }

    /// What is to be done again and again.
    fn turn(&mut self) {
        let now = monotonic();
        if self.next_announcement <= now && !self.has_ended {
            self.next_announcement += ANNOUNCING;
            self.announcement.run = self.coordinator.as_ref().map(|_| "simulated".to_owned());
            self.post.announce(self.announcement.clone());
        }
        let of_run = Nanos(now.0 - self.epoch);
        let (mut shards, messages) = (std::mem::take(&mut self.shards), self.messages);
        for (number, shard) in &mut shards {
            for reply in shard.measured(*number, of_run, messages) {
                self.reply(reply);
            }
        }
        self.shards = shards;
        self.send();
    }

    fn send(&mut self) {
        let now = monotonic();
        if let Some((coordinator, link)) = &mut self.coordinator {
            while let Some(frame) = link.next(now) {
                self.post.send(*coordinator, Body::Link(frame));
            }
        }
    }
}

impl Shard {
    /// What it has to report of samples that have ended.
    fn measured(&mut self, number: u32, now: Nanos, messages: u64) -> Vec<Reply> {
        let Some(timeline) = self.timeline else { return Vec::new() };
        let mut replies = Vec::new();
        while self.next_sample < timeline.samples && now >= timeline.sample_end(self.next_sample) {
            let sample = self.next_sample;
            self.next_sample += 1;
            replies.push(Reply::Part(Box::new(part(timeline, sample, (u64::from(number), messages)))));
            let wall = (timeline.hold_end - timeline.hold_start).0 / i64::from(timeline.samples.max(1));
            replies.push(Reply::Thread(ThreadUsage {
                level: timeline.level,
                sample,
                thread: number as u16,
                wall: Nanos(wall),
                cpu: Nanos(wall / 10),
                run_delay: Nanos::ZERO,
                timeslices: 1,
                steal: Nanos::ZERO,
            }));
        }
        if now >= timeline.hold_end && !self.is_drained {
            self.is_drained = true;
            replies.push(Reply::Drained);
        }
        replies
    }
}

/// A sample in which all was sent and acknowledged, in times that are spread over two decades.
fn part(timeline: Timeline, sample: u16, (seed, messages): (u64, u64)) -> SamplePart {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(sample);
    let mut times = |longest: i64| {
        let mut histogram = Histogram::new();
        for _ in 0..messages {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let share = (state >> 40) as f64 / (1_u64 << 24) as f64;
            histogram.record(Nanos((longest as f64 * 0.01_f64.powf(share)) as i64));
        }
        histogram
    };
    let histograms = vec![
        (Metric::PublishTime, times(20_000_000)),
        (Metric::PublishTimeFromSend, times(20_000_000)),
        (Metric::Lateness, times(100_000)),
    ];
    let counts = Counts {
        due: messages,
        sent: messages,
        acknowledged: messages,
        completed: messages,
        ..Counts::default()
    };
    SamplePart { population: 0, level: timeline.level, sample: Some(sample), counts, histograms }
}
