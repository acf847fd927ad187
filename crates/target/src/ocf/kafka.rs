//! What keeps topics in Kafka: a thread that stores records, and one that reads them. Each waits for one answer at a time, so that records
//! keep their order; those that may have been stored are sent again with the same numbers, by which the broker knows them. Where the broker
//! is away, both try until it is back.

use plimsoll_codec::kafka::batch::{self, Entry, NOBODY, Producer};
use plimsoll_codec::kafka::{self, Malformed, Position, error};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long an answer may take, and connecting.
const TIMEOUT: Duration = Duration::from_secs(15);
const CONNECTING: Duration = Duration::from_secs(2);
/// Before the same is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a wish to stop is looked for where nothing is to be done.
const LOOK: Duration = Duration::from_millis(100);
/// How long a broker may say that it cannot do something at present.
const PATIENT: Duration = Duration::from_secs(30);
/// The longest record that brokers take by default, less what stands around it, in bytes.
pub const LARGEST_RECORD: usize = 1_000_000;
/// Records of one request at most, and the bytes from which on it has enough: brokers refuse batches of more than a mebibyte.
const MOST_RECORDS: usize = 2_000;
const ENOUGH_BYTES: usize = 256 << 10;
/// How long the broker waits for records, in milliseconds, and the bytes that it gives at once.
const WAIT: i32 = 50;
const MOST_BYTES: i32 = 8 << 20;
/// Topics have one partition, of which there is one copy.
const ALONE: (i32, i16) = (1, 1);
const PARTITION: i32 = 0;
/// The longest answer, in bytes.
const LONGEST: usize = 64 << 20;

/// What has come to its end.
pub enum Event {
    /// A topic is there; whether it is new.
    Created { number: u64, path: String, is_new: bool },
    /// A record is stored.
    Stored { number: u64 },
    /// What is stored in a topic from now on will come.
    Following { number: u64, path: String },
    /// A record.
    Came { path: String, value: Vec<u8> },
    /// The broker does not do it.
    Refused { number: u64, error: i16 },
    /// A thread cannot go on.
    Ended(io::Error),
}

enum Order {
    Create { number: u64, path: String },
    Publish { number: u64, path: String, value: Vec<u8> },
}

struct Follow {
    number: u64,
    path: String,
}

/// See the module.
pub struct Kafka {
    orders: Sender<Order>,
    follows: Sender<Follow>,
    events: Receiver<Event>,
    stop: Arc<AtomicBool>,
}

impl Kafka {
    /// Begins to work with the broker at an address, and wakes whoever waits for events by an alarm.
    ///
    /// # Errors
    /// Nobody is there.
    pub fn start(address: SocketAddr, alarm: Arc<OwnedFd>) -> io::Result<Kafka> {
        let stop = Arc::new(AtomicBool::new(false));
        let (orders, to_store) = channel();
        let (follows, to_follow) = channel();
        let (tell, events) = channel();
        let teller = Teller { events: tell, alarm };
        let mut storing = Link::open(address, Arc::clone(&stop))?;
        let mut reading = Link::open(address, Arc::clone(&stop))?;
        let (told, of_reading) = (teller.clone(), teller.clone());
        std::thread::Builder::new().name("kafka-store".into()).spawn(move || {
            told.until_end(store(&mut storing, &to_store, &told));
        })?;
        std::thread::Builder::new().name("kafka-read".into()).spawn(move || {
            of_reading.until_end(read(&mut reading, &to_follow, &of_reading));
        })?;
        Ok(Kafka { orders, follows, events, stop })
    }

    /// Makes a topic.
    pub fn create(&self, number: u64, path: String) {
        // A thread that has ended has told why.
        let _ = self.orders.send(Order::Create { number, path });
    }

    /// Stores a record.
    pub fn publish(&self, number: u64, path: String, value: Vec<u8>) {
        let _ = self.orders.send(Order::Publish { number, path, value });
    }

    /// Reads what is stored in a topic from now on.
    pub fn follow(&self, number: u64, path: String) {
        let _ = self.follows.send(Follow { number, path });
    }

    /// The next thing that has come to its end.
    pub fn next(&self) -> Option<Event> {
        self.events.try_recv().ok()
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct Teller {
    events: Sender<Event>,
    alarm: Arc<OwnedFd>,
}

impl Teller {
    fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }

    /// Wakes the loop.
    fn wake(&self) {
        let _ = rustix::io::write(&self.alarm, &1_u64.to_ne_bytes());
    }

    fn until_end(&self, outcome: Result<(), End>) {
        if let Err(End::Failed(cause)) = outcome {
            self.tell(Event::Ended(cause));
            self.wake();
        }
    }
}

/// The name that a topic has in Kafka, which takes letters, digits, dots, hyphens and low lines. What else stands in a path becomes its
/// number, so that two paths have two names.
fn topic_of(path: &str) -> String {
    let name = |c: char| match c {
        '/' => ".".to_owned(),
        c if c.is_ascii_alphanumeric() || c == '-' => c.to_string(),
        c => format!("_{:x}_", u32::from(c)),
    };
    path.trim_start_matches('/').chars().map(name).collect()
}

/// A connection to the broker, made again where it was lost.
struct Link {
    address: SocketAddr,
    stream: Option<TcpStream>,
    correlation: i32,
    stop: Arc<AtomicBool>,
    /// Whether it was told that the broker is away.
    is_told: bool,
}

/// Why a thread ends before its work.
enum End {
    /// The server ends.
    Stopped,
    /// It cannot go on.
    Failed(io::Error),
}

impl Link {
    fn open(address: SocketAddr, stop: Arc<AtomicBool>) -> io::Result<Link> {
        let mut link = Link { address, stream: None, correlation: 0, stop, is_told: false };
        link.connect()?;
        Ok(link)
    }

    fn connect(&mut self) -> io::Result<()> {
        let stream = TcpStream::connect_timeout(&self.address, CONNECTING)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        self.stream = Some(stream);
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Asks once.
    fn try_ask(&mut self, write: &dyn Fn(i32, &mut Vec<u8>)) -> io::Result<Vec<u8>> {
        if self.stream.is_none() {
            self.connect()?;
        }
        self.correlation = self.correlation.wrapping_add(1);
        let Some(stream) = &mut self.stream else { return Err(io::ErrorKind::NotConnected.into()) };
        let mut request = Vec::new();
        write(self.correlation, &mut request);
        stream.write_all(&request)?;
        let mut length = [0; kafka::LENGTH];
        stream.read_exact(&mut length)?;
        let size = usize::try_from(i32::from_be_bytes(length)).ok().filter(|size| *size <= LONGEST);
        let size = size.ok_or(io::ErrorKind::InvalidData)?;
        let mut bytes = length.to_vec();
        bytes.resize(kafka::LENGTH + size, 0);
        stream.read_exact(bytes.get_mut(kafka::LENGTH..).unwrap_or_default())?;
        match kafka::answer(&bytes, LONGEST) {
            Ok(Some(answer)) if answer.correlation == self.correlation => Ok(answer.body.to_vec()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Asks until the broker answers.
    fn ask(&mut self, write: &dyn Fn(i32, &mut Vec<u8>)) -> Result<Vec<u8>, End> {
        loop {
            match self.try_ask(write) {
                Ok(body) => {
                    self.is_told = false;
                    return Ok(body);
                }
                Err(_) if self.is_stopped() => return Err(End::Stopped),
                Err(cause) if cause.kind() == io::ErrorKind::InvalidData => {
                    let told =
                        format!("what answers at {} is no Kafka broker, or of another version", self.address);
                    return Err(End::Failed(io::Error::other(told)));
                }
                Err(cause) => {
                    if !std::mem::replace(&mut self.is_told, true) {
                        eprintln!(
                            "plimsoll target: Kafka at {} is away: {cause}; trying again",
                            self.address
                        );
                    }
                    self.stream = None;
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }
}

/// What was asked, as it is read; what cannot be read is of another protocol or version.
fn understood<T>(read: Result<T, kafka::Malformed>) -> Result<T, End> {
    read.map_err(|error| End::Failed(io::Error::other(format!("the broker's answer: {error}"))))
}

/// Waits while a broker cannot do something at present, but not for ever.
struct Patience(Instant);

impl Patience {
    fn new() -> Patience {
        Patience(Instant::now())
    }

    /// Pauses before it is tried again; whether it was tried for long enough.
    fn is_over(&self, link: &Link) -> Result<bool, End> {
        if link.is_stopped() {
            return Err(End::Stopped);
        }
        if self.0.elapsed() >= PATIENT {
            return Ok(true);
        }
        std::thread::sleep(PAUSE);
        Ok(false)
    }
}

/// Does orders until there will be none.
fn store(link: &mut Link, orders: &Receiver<Order>, teller: &Teller) -> Result<(), End> {
    let mut storing = Storing { producer: NOBODY, sequences: HashMap::new() };
    loop {
        let first = match orders.recv_timeout(LOOK) {
            Ok(order) => order,
            Err(RecvTimeoutError::Timeout) if link.is_stopped() => return Ok(()),
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let mut batches: BTreeMap<String, Batch> = BTreeMap::new();
        let (mut count, mut bytes) = (0, 0);
        for order in [first].into_iter().chain(orders.try_iter()) {
            match order {
                Order::Create { number, path } => create(link, number, path, teller)?,
                Order::Publish { number, path, value } => {
                    (count, bytes) = (count + 1, bytes + value.len());
                    let batch = batches.entry(topic_of(&path)).or_default();
                    batch.numbers.push(number);
                    batch.values.push(value);
                }
            }
            if count >= MOST_RECORDS || bytes >= ENOUGH_BYTES {
                break;
            }
        }
        storing.store(link, batches, teller)?;
        teller.wake();
    }
}

/// Makes a topic, and waits until somebody leads it.
fn create(link: &mut Link, number: u64, path: String, teller: &Teller) -> Result<(), End> {
    let (topic, patience) = (topic_of(&path), Patience::new());
    let is_new = loop {
        let body = link.ask(&|correlation, out| kafka::create_topic(&topic, ALONE, correlation, out))?;
        match understood(kafka::created_topic(&body))? {
            error::NONE => break true,
            error::TOPIC_EXISTS => break false,
            other if error::is_passing(other) && !patience.is_over(link)? => {}
            error => {
                teller.tell(Event::Refused { number, error });
                teller.wake();
                return Ok(());
            }
        }
    };
    loop {
        let body = link.ask(&|correlation, out| kafka::metadata(&[&topic], correlation, out))?;
        let partitions = understood(kafka::cluster(&body))?.partitions;
        if partitions.iter().any(|own| own.topic == topic && own.error == error::NONE && own.leader >= 0) {
            break;
        }
        if patience.is_over(link)? {
            teller.tell(Event::Refused { number, error: error::LEADER_NOT_AVAILABLE });
            teller.wake();
            return Ok(());
        }
    }
    teller.tell(Event::Created { number, path, is_new });
    teller.wake();
    Ok(())
}

#[derive(Default)]
struct Batch {
    numbers: Vec<u64>,
    values: Vec<Vec<u8>>,
}

/// By what the broker knows what it has stored.
struct Storing {
    producer: Producer,
    /// The next number of each topic.
    sequences: HashMap<String, i32>,
}

impl Storing {
    /// Stores batches, and tells what became of each record.
    fn store(
        &mut self,
        link: &mut Link,
        mut batches: BTreeMap<String, Batch>,
        teller: &Teller,
    ) -> Result<(), End> {
        let patience = Patience::new();
        while !batches.is_empty() {
            if self.producer == NOBODY {
                self.introduce(link)?;
            }
            let written: Vec<(&String, Vec<u8>)> =
                batches.iter().map(|(topic, batch)| (topic, self.written(topic, batch))).collect();
            let parts: Vec<(&str, &[u8])> =
                written.iter().map(|(topic, bytes)| (topic.as_str(), &bytes[..])).collect();
            let body = link.ask(&|correlation, out| kafka::produce(&parts, correlation, out))?;
            let mut waits = None;
            for produced in understood(kafka::produced(&body))? {
                match produced.error {
                    error::NONE | error::DUPLICATE_SEQUENCE => {
                        let Some(batch) = batches.remove(&produced.topic) else { continue };
                        let next = self.sequences.entry(produced.topic).or_default();
                        *next = next.wrapping_add(batch.values.len() as i32) & i32::MAX;
                        batch.numbers.into_iter().for_each(|number| teller.tell(Event::Stored { number }));
                    }
                    error::UNKNOWN_PRODUCER | error::OUT_OF_ORDER_SEQUENCE => {
                        (self.producer, waits) = (NOBODY, Some(produced.error));
                        self.sequences.clear();
                    }
                    other if error::is_passing(other) => waits = Some(other),
                    error => {
                        let Some(batch) = batches.remove(&produced.topic) else { continue };
                        batch
                            .numbers
                            .into_iter()
                            .for_each(|number| teller.tell(Event::Refused { number, error }));
                    }
                }
            }
            if let Some(error) = waits
                && patience.is_over(link)?
            {
                let left = std::mem::take(&mut batches).into_values().flat_map(|batch| batch.numbers);
                left.for_each(|number| teller.tell(Event::Refused { number, error }));
            }
        }
        Ok(())
    }

    fn written(&self, topic: &str, batch: &Batch) -> Vec<u8> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let sequence = self.sequences.get(topic).copied().unwrap_or_default();
        let mut out = Vec::new();
        let entries = batch.values.iter().map(|value| Entry { key: None, value });
        batch::write(entries, (self.producer, sequence), now.as_millis() as i64, &mut out);
        out
    }

    /// Asks for a number by which the broker knows this producer.
    fn introduce(&mut self, link: &mut Link) -> Result<(), End> {
        let patience = Patience::new();
        loop {
            let body = link.ask(&|correlation, out| kafka::init_producer(correlation, out))?;
            match understood(kafka::producer(&body))? {
                (error::NONE, producer) => {
                    self.producer = producer;
                    return Ok(());
                }
                (other, _) if error::is_passing(other) && !patience.is_over(link)? => {}
                (other, _) => {
                    let said = format!("the broker gives no producer id: error {other}");
                    return Err(End::Failed(io::Error::other(said)));
                }
            }
        }
    }
}

/// Reads the topics that are followed.
fn read(link: &mut Link, follows: &Receiver<Follow>, teller: &Teller) -> Result<(), End> {
    // Path, topic and next offset.
    let mut followed: Vec<(String, String, i64)> = Vec::new();
    loop {
        let first = match followed.is_empty() {
            true => match follows.recv_timeout(LOOK) {
                Ok(follow) => Some(follow),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            },
            false => None,
        };
        for Follow { number, path } in first.into_iter().chain(follows.try_iter()) {
            if !followed.iter().any(|(known, ..)| *known == path) {
                let topic = topic_of(&path);
                match latest(link, &topic)? {
                    Ok(offset) => followed.push((path.clone(), topic, offset)),
                    Err(error) => {
                        teller.tell(Event::Refused { number, error });
                        teller.wake();
                        continue;
                    }
                }
            }
            teller.tell(Event::Following { number, path });
            teller.wake();
        }
        if link.is_stopped() {
            return Ok(());
        }
        if followed.is_empty() {
            continue;
        }
        let positions: Vec<Position<'_>> = followed
            .iter()
            .map(|(_, topic, offset)| Position { topic, partition: PARTITION, offset: *offset })
            .collect();
        let body =
            link.ask(&|correlation, out| kafka::fetch(&positions, (WAIT, MOST_BYTES), correlation, out))?;
        let mut waits = false;
        for fetched in understood(kafka::fetched(&body))? {
            let Some((path, topic, next)) = followed.iter_mut().find(|(_, topic, _)| topic == fetched.topic)
            else {
                continue;
            };
            match fetched.error {
                error::NONE => {
                    let from = *next;
                    let behind = understood(batch::read(fetched.batches, &mut |record| {
                        // A batch may begin before what was asked for.
                        if let Some(value) = record.value.filter(|_| record.offset >= from) {
                            teller.tell(Event::Came { path: path.clone(), value: value.to_vec() });
                        }
                    }))?;
                    *next = behind.unwrap_or(from).max(from);
                }
                error::OFFSET_OUT_OF_RANGE => *next = latest(link, topic)?.unwrap_or(*next),
                _ => waits = true,
            }
        }
        teller.wake();
        if waits {
            std::thread::sleep(PAUSE);
        }
    }
}

/// The offset behind the newest record of a topic, or why the broker does not tell it.
fn latest(link: &mut Link, topic: &str) -> Result<Result<i64, i16>, End> {
    let patience = Patience::new();
    loop {
        let body = link.ask(&|correlation, out| {
            kafka::ask_offsets(topic, (&[PARTITION], kafka::End::Newest), correlation, out)
        })?;
        let found = understood(kafka::offsets(&body).and_then(|all| all.first().copied().ok_or(Malformed)))?;
        match found.error {
            error::NONE => return Ok(Ok(found.offset)),
            other if error::is_passing(other) && !patience.is_over(link)? => {}
            other => return Ok(Err(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_names_of_their_own() {
        let names = ["/oic/ps/a", "/oic/ps/a.b", "/oic/ps/a/b", "/oic/ps/a_b", "/oic/ps/ä"].map(topic_of);
        assert_eq!(names, ["oic.ps.a", "oic.ps.a_2e_b", "oic.ps.a.b", "oic.ps.a_5f_b", "oic.ps._e4_"]);
    }
}
