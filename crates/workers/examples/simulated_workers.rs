//! Workers without load threads: each is connected to the NATS server and speaks to a coordinator as a real one does, and reports
//! that all was sent and acknowledged. So one machine can try how many workers a coordinator holds (`bench/coordinator.py`).
//!
//!     simulated_workers nats://127.0.0.1:4222 2000 1 100
//!     simulated_workers nats://127.0.0.1:4222 1000 8 due 200000000 7
//!
//! The numbers are those of workers, of load threads of each, and of messages of a load thread in a sample. `due` computes when which
//! device is to send instead, as load threads do, of so many devices in all and with that seed; arrivals are Poisson. The workers end
//! with their first run, and print what it took, and with `due` also how many messages were due and a sum over all of them, both of the
//! workers and of one thread. Nobody receives, so that no receipts cross; that all was passed on is said as real workers say it.

use plimsoll_load::arrivals::{Arrival as Due, Arrivals, Process};
use plimsoll_load::clock::monotonic;
use plimsoll_load::engine::Part;
use plimsoll_load::recorder::Timeline;
use plimsoll_load::shard::{Command, Reply};
use plimsoll_load::share::Share;
use plimsoll_model::record::{LevelEnd, SamplePart, ThreadUsage};
use plimsoll_model::{Counts, Histogram, Metric, Nanos};
use plimsoll_scenario::plan::{ArrivalsPer, LevelPlan};
use plimsoll_stats::distribution::InterArrival;
use plimsoll_workers::announcement::Announcement;
use plimsoll_workers::frame::{Body, Frame, LinkFrame, ProcessId};
use plimsoll_workers::gathered_parts::GatheredParts;
use plimsoll_workers::link::Link;
use plimsoll_workers::message::{Message, Prepared};
use plimsoll_workers::post::{Arrival, Post, PostError, Server};
use plimsoll_workers::receipts::Receipts;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Bytes that may wait for the coordinator.
const SPOOL: usize = 64 * 1024 * 1024;
/// How often all workers are looked at.
const TURN: Nanos = Nanos::from_millis(20);
const ANNOUNCING: Nanos = Nanos::from_secs(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (url, workers, threads, messages) = match arguments.as_slice() {
        [url, workers, threads, "due", devices, seed] => (
            url,
            workers,
            threads,
            devices
                .parse()
                .ok()
                .zip(seed.parse().ok())
                .map(|(devices, seed)| Messages::Due { devices, seed }),
        ),
        [url, workers, threads, messages] => {
            (url, workers, threads, messages.parse().ok().map(Messages::InSample))
        }
        _ => return refused("URL, workers, load threads and messages are wanted"),
    };
    let (Ok(workers), Ok(threads), Some(messages)) = (workers.parse(), threads.parse(), messages) else {
        return refused("numbers are wanted");
    };
    match simulate(url, (workers, threads), messages) {
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

/// Which messages are sent.
#[derive(Clone, Copy)]
enum Messages {
    /// So many of each load thread in a sample.
    InSample(u64),
    /// Those that are due, of so many devices and with that seed.
    Due { devices: u32, seed: u64 },
}

impl Messages {
    /// When messages of a level are due, of what a load thread has; `None` where that is not asked.
    fn due(self, share: Share, timeline: Timeline, level: LevelPlan) -> Option<Arrivals> {
        let (Messages::Due { devices, seed }, LevelPlan::Rate(rate)) = (self, level) else { return None };
        let (gaps, per) = (InterArrival::Exponential, ArrivalsPer::Population);
        let process = Process { gaps, per, rate, devices, seed, level: timeline.level };
        Some(Arrivals::new(process, share, timeline.hold_end - timeline.start))
    }
}

/// Messages that were due in holds: how many, and a sum over all of them, in which their order does not matter.
#[derive(Clone, Copy, Default, PartialEq)]
struct Total {
    count: u64,
    sum: u64,
}

impl Total {
    fn add(&mut self, level: u16, Due { due, device }: Due) {
        let mixed =
            [u64::from(level), due.0 as u64, u64::from(device.0)].into_iter().fold(0_u64, |mixed, part| {
                let mixed = (mixed ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                mixed ^ (mixed >> 29)
            });
        self.count += 1;
        self.sum = self.sum.wrapping_add(mixed);
    }

    fn plus(self, other: Total) -> Total {
        Total { count: self.count + other.count, sum: self.sum.wrapping_add(other.sum) }
    }
}

/// Has so many workers, each with so many load threads, until all of them had a run.
fn simulate(url: &str, (workers, threads): (usize, u32), messages: Messages) -> Result<String, PostError> {
    let server = Server { url: url.to_owned(), ..Server::default() };
    let (arrive, arrivals) = channel();
    let (join, joined) = channel();
    let carrier = std::thread::spawn(move || carry(workers, &server, arrive, join));
    let posts: Result<Vec<Post>, PostError> = joined.iter().collect();
    let simulated = |(place, post)| Simulated::new(place, threads, post, messages);
    let mut all: Vec<Simulated> = posts?.into_iter().enumerate().map(simulated).collect();
    eprintln!("{workers} workers are there");
    let told = run(&mut all, &arrivals);
    drop(all);
    let _ = carrier.join();
    Ok(told)
}

/// Connects so many workers, and carries for all of them in this thread until their posts are dropped: threads of their own would take
/// most of a processor to wake each other.
fn carry(
    workers: usize,
    server: &Server,
    arrive: Sender<(usize, Arrival)>,
    join: Sender<Result<Post, PostError>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(join.send(Err(error.into()))),
    };
    let connecting = async move {
        for place in 0..workers {
            let process = ProcessId((u64::from(std::process::id()) << 32) | place as u64);
            let arrive = arrive.clone();
            // The loop may have ended.
            let deliver = move |arrival| drop(arrive.send((place, arrival)));
            let joined = Post::connect(server.clone(), process, false, deliver).await;
            let joined = joined.map(|(post, carrying)| {
                tokio::task::spawn_local(carrying);
                post
            });
            if join.send(joined).is_err() {
                break;
            }
        }
    };
    let all = tokio::task::LocalSet::new();
    runtime.block_on(async {
        all.run_until(connecting).await;
        all.await;
    });
}

/// Looks at all workers in turns, and takes what came for them only then, since each waking has its cost.
fn run(all: &mut [Simulated], arrivals: &Receiver<(usize, Arrival)>) -> String {
    let mut next_turn = monotonic();
    while !all.iter().all(|worker| worker.has_ended) {
        for (place, arrival) in arrivals.try_iter() {
            if let Arrival::Frame(frame, _) = arrival
                && let Some(worker) = all.get_mut(place)
            {
                worker.frame(frame);
            }
        }
        all.iter_mut().for_each(Simulated::turn);
        next_turn = (next_turn + TURN).max(monotonic());
        std::thread::sleep(Duration::from_nanos((next_turn - monotonic()).0.max(0) as u64));
    }
    // What was said last is to arrive.
    std::thread::sleep(Duration::from_secs(1));
    let sum = |of: fn(&Simulated) -> u64| all.iter().map(of).sum::<u64>();
    let due = all.iter().fold(Total::default(), |total, worker| total.plus(worker.due));
    // Every level went to the first worker, too.
    let levels: Vec<(Timeline, LevelPlan)> =
        all.first().map(|worker| worker.levels.clone()).unwrap_or_default();
    let mut of_one = Total::default();
    for (timeline, level) in &levels {
        let messages = all.first().and_then(|worker| worker.messages.due(Share::WHOLE, *timeline, *level));
        let warm_up = timeline.hold_start - timeline.start;
        messages
            .into_iter()
            .flatten()
            .filter(|message| message.due >= warm_up)
            .for_each(|message| of_one.add(timeline.level, message));
    }
    format!(
        "{{\"workers\": {}, \"bytes_up\": {}, \"bytes_down\": {}, \"levels\": {}, \"due\": [{}, {}], \"due_of_one\": [{}, {}]}}",
        all.len(),
        sum(|worker| worker.bytes_up),
        sum(|worker| worker.bytes_down),
        levels.len(),
        due.count,
        due.sum,
        of_one.count,
        of_one.sum
    )
}

struct Simulated {
    post: Post,
    announcement: Announcement,
    next_announcement: Nanos,
    messages: Messages,
    /// What each load thread of all workers has of the devices, by its number.
    shares: Vec<Share>,
    coordinator: Option<(ProcessId, Link)>,
    /// What the monotonic clock showed at time zero of the run.
    epoch: i64,
    shards: BTreeMap<u32, Shard>,
    receipts: Receipts,
    has_ended: bool,
    bytes_up: u64,
    bytes_down: u64,
    levels: Vec<(Timeline, LevelPlan)>,
    /// What was due here.
    due: Total,
}

#[derive(Default)]
struct Shard {
    connected: u32,
    timeline: Option<Timeline>,
    /// What is due in the level and does not belong to a sample that has ended.
    due: Option<Peekable<Arrivals>>,
    next_sample: u16,
    is_drained: bool,
}

impl Simulated {
    fn new(place: usize, threads: u32, post: Post, messages: Messages) -> Simulated {
        // Its clock is not known, so it counts as another one than the coordinator's.
        let announcement = Announcement {
            processors: threads,
            ..Announcement::of(post.own(), &format!("simulated-{place}"))
        };
        // They do not speak all at once.
        let next_announcement = monotonic() + Nanos(place as i64 * 7_919_000 % ANNOUNCING.0);
        Simulated {
            post,
            announcement,
            next_announcement,
            messages,
            shares: Vec::new(),
            coordinator: None,
            epoch: 0,
            shards: BTreeMap::new(),
            receipts: Receipts::default(),
            has_ended: false,
            bytes_up: 0,
            bytes_down: 0,
            levels: Vec::new(),
            due: Total::default(),
        }
    }

    fn frame(&mut self, Frame { from, body }: Frame) {
        let Body::Link(frame) = body else { return };
        if let Some(message) = self.taken(from, frame) {
            self.answer(message);
        }
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
            Message::Prepare(prepare) => {
                let Part { layout, process } = prepare.part();
                self.receipts = Receipts::new(layout.numbers_at(process).len());
                self.shares = layout.seats(0).iter().map(|seat| seat.devices).collect();
                self.tell(&Message::Prepared(Ok(Prepared { warnings: Vec::new(), host: BTreeMap::new() })));
            }
            Message::Begin(begin) => {
                self.epoch = begin.epoch;
                self.tell(&Message::Begun(Ok(())));
            }
            Message::Order(order) => self.order(order.shard, order.command),
            Message::Expect(expected) => {
                self.receipts.expect(expected);
                let replies = self.receipts.take_complete();
                (0..replies).for_each(|_| self.reply(Reply::PassedOn));
            }
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
            Command::Run { timeline, level, .. } => {
                let share = self.shares.get(number as usize).copied().unwrap_or(Share::NOTHING);
                let due = self.messages.due(share, timeline, level).map(Iterator::peekable);
                let connected = shard.connected;
                *shard = Shard { connected, timeline: Some(timeline), due, ..Shard::default() };
                if self.levels.last().is_none_or(|(last, _)| last.level != timeline.level) {
                    self.levels.push((timeline, level));
                }
            }
            Command::Release(_) | Command::Flush => self.reply(Reply::Flushed),
            Command::PassOn => {
                if self.receipts.thread_has_passed_on() {
                    let passed = self.receipts.round();
                    self.tell(&Message::PassedOn(passed));
                }
            }
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
        // As a real one, it tells at once what all of its load threads saw of a sample.
        let (mut parts, mut others) = (GatheredParts::default(), Vec::new());
        for (number, shard) in &mut self.shards {
            for reply in shard.measured(*number, of_run, self.messages, &mut self.due) {
                match reply {
                    Reply::Part(part) => parts.add(*part),
                    reply => others.push(reply),
                }
            }
        }
        let parts = parts.take().map(|part| Reply::Part(Box::new(part)));
        parts.chain(others).for_each(|reply| self.reply(reply));
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
    fn measured(&mut self, number: u32, now: Nanos, messages: Messages, total: &mut Total) -> Vec<Reply> {
        let Some(timeline) = self.timeline else { return Vec::new() };
        let mut replies = Vec::new();
        while self.next_sample < timeline.samples && now >= timeline.sample_end(self.next_sample) {
            let sample = self.next_sample;
            self.next_sample += 1;
            let count = match messages {
                Messages::InSample(count) => count,
                Messages::Due { .. } => self.take_due(timeline, timeline.sample_end(sample), total),
            };
            replies.push(Reply::Part(Box::new(part(timeline, sample, (u64::from(number), count)))));
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

impl Shard {
    /// How many messages are due in the hold before that time.
    fn take_due(&mut self, timeline: Timeline, end: Nanos, total: &mut Total) -> u64 {
        let mut count = 0;
        while let Some(due) =
            self.due.as_mut().and_then(|due| due.next_if(|next| timeline.start + next.due < end))
        {
            if timeline.start + due.due >= timeline.hold_start {
                total.add(timeline.level, due);
                count += 1;
            }
        }
        count
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
