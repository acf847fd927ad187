//! The life of events, logged over UDP as in work E: `<level>:<timestamp>:<function>:<keyword>:<event>`. Many lines go in
//! one datagram, and every datagram carries a number, so that the other side knows which are missing.

use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a datagram: what one frame of Ethernet carries.
const DATAGRAM: usize = 1400;
/// Lines that go to standard error in a second.
const LINES: u64 = 10;

/// The gateway's clock: milliseconds since some moment, in nanoseconds' steps, never set.
pub fn now() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// A station in the life of an event, at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Station {
    /// The gateway has it.
    Retrieved,
    /// It was handed to the event handler.
    Dispatched,
    /// Its work is done.
    Done,
    /// Its work failed: it will never be done.
    Failed,
}

impl Station {
    /// The keyword of its lines.
    pub const fn keyword(self) -> &'static str {
        match self {
            Station::Retrieved => "EVENT_LIFECYCLE_RETRIEVED",
            Station::Dispatched => "EVENT_LIFECYCLE_DISPATCHED",
            Station::Done => "EVENT_LIFECYCLE_DONE",
            Station::Failed => "EVENT_LIFECYCLE_FAILED",
        }
    }

    const fn function(self) -> &'static str {
        match self {
            Station::Retrieved | Station::Dispatched => "dispatcher",
            Station::Done | Station::Failed => "event_handler",
        }
    }
}

/// Writes the log.
#[derive(Debug)]
pub struct Log {
    /// To the log server, if there is one.
    socket: Option<UdpSocket>,
    batch: Mutex<Batch>,
    spoken: Mutex<Spoken>,
}

/// What went to standard error.
#[derive(Debug, Default)]
struct Spoken {
    /// The second of the last line.
    second: i64,
    /// Lines in it.
    lines: u64,
    left_out: u64,
}

impl Spoken {
    /// Whether one more line may be said at that time. Whoever connects may give cause for any number.
    fn allows(&mut self, at: i64) -> bool {
        let second = at / 1_000_000_000;
        if second != self.second {
            (self.second, self.lines) = (second, 0);
        }
        self.lines += 1;
        self.left_out += u64::from(self.lines > LINES);
        self.lines <= LINES
    }
}

#[derive(Debug, Default)]
struct Batch {
    text: Vec<u8>,
    /// Of this datagram.
    number: u64,
    /// In it, its own first line apart.
    lines: u64,
    /// In all before it.
    before: u64,
}

impl Log {
    /// To that log server.
    pub fn to(server: SocketAddr) -> io::Result<Log> {
        let own = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(own)?;
        socket.connect(server)?;
        Ok(Log { socket: Some(socket), batch: Mutex::default(), spoken: Mutex::default() })
    }

    /// To nobody; what people may want to know goes to standard error, ten lines a second of it.
    pub fn none() -> Log {
        Log { socket: None, batch: Mutex::default(), spoken: Mutex::default() }
    }

    /// An event was there at that time.
    pub fn event(&self, station: Station, at: i64, event: &str) {
        if self.socket.is_none() {
            return;
        }
        let level = if station == Station::Failed { "ERROR" } else { "INFO" };
        self.line(at, |text| {
            write!(text, "{level}:{}:{}:{}:{event}", Milliseconds(at), station.function(), station.keyword())
        });
    }

    /// Something that people may want to know.
    pub fn say(&self, level: &str, words: &str) {
        let at = now();
        // A line is a line.
        let words = words.replace(['\n', '\r'], " ");
        if self.socket.is_none() {
            if self.spoken.lock().unwrap_or_else(PoisonError::into_inner).allows(at) {
                // Nobody may be there to read it.
                let _ = writeln!(io::stderr(), "gateway: {words}");
            }
            return;
        }
        self.line(at, |text| write!(text, "{level}:{}:gateway:{words}", Milliseconds(at)));
    }

    /// Sends what waits.
    pub fn flush(&self) {
        self.send(&mut self.lock(), now());
    }

    /// Sends what waits and says how much that was in all. The last word may be lost like any other: it is said three times. Of
    /// standard error, it is said how many lines were left out.
    pub fn end(&self) {
        self.flush();
        let Some(socket) = &self.socket else {
            let left_out = self.spoken.lock().unwrap_or_else(PoisonError::into_inner).left_out;
            if left_out > 0 {
                let _ = writeln!(io::stderr(), "gateway: {left_out} more lines like these were left out");
            }
            return;
        };
        let batch = self.lock();
        let at = now();
        let last = format!("VERBOSE:{}:log:LOG_END:{}:{}\n", Milliseconds(at), batch.number, batch.before);
        for _ in 0..3 {
            let _ = socket.send(last.as_bytes());
        }
    }

    fn line(&self, at: i64, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) {
        let mut batch = self.lock();
        let begin = batch.text.len();
        // Writing to memory does not fail.
        let _ = write(&mut batch.text);
        batch.text.push(b'\n');
        batch.lines += 1;
        if batch.text.len() > DATAGRAM {
            let line = batch.text.split_off(begin);
            batch.lines -= 1;
            self.send(&mut batch, at);
            batch.text.extend_from_slice(&line);
            batch.lines += 1;
        }
    }

    fn send(&self, batch: &mut Batch, at: i64) {
        let Some(socket) = self.socket.as_ref().filter(|_| batch.lines > 0) else { return };
        let first = format!("VERBOSE:{}:log:LOG_BATCH:{}:{}\n", Milliseconds(at), batch.number, batch.lines);
        let datagram = [first.as_bytes(), &batch.text].concat();
        // What the kernel does not take is missing at the other side by its number.
        let _ = socket.send(&datagram);
        batch.number += 1;
        batch.before += batch.lines;
        batch.lines = 0;
        batch.text.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Batch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nanoseconds, written as milliseconds with their fractions.
struct Milliseconds(i64);

impl std::fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, size) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        write!(f, "{sign}{}.{:06}", size / 1_000_000, size % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_before_the_clocks_epoch_are_written_as_they_are() {
        let written = [-5_250_000, -1, 0, 1_000_001].map(|at| Milliseconds(at).to_string());
        assert_eq!(written, ["-5.250000", "-0.000001", "0.000000", "1.000001"]);
    }

    #[test]
    fn standard_error_is_spared() {
        let mut spoken = Spoken::default();
        let in_second = |spoken: &mut Spoken, second: i64| {
            (0..25).filter(|line| spoken.allows(second * 1_000_000_000 + line)).count()
        };
        assert_eq!([in_second(&mut spoken, 7), in_second(&mut spoken, 8)], [10, 10]);
        assert_eq!(spoken.left_out, 30);
    }

    #[test]
    fn lines_are_those_of_the_work_and_datagrams_are_numbered() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let log = Log::to(server.local_addr().unwrap()).unwrap();
        for event in 0..100 {
            log.event(Station::Done, 1_234_567_890_123, &format!("event-{event}"));
        }
        log.end();
        let mut buffer = [0; 2048];
        let (mut lines, mut datagrams) = (Vec::new(), 0);
        loop {
            let length = server.recv(&mut buffer).unwrap();
            let text = std::str::from_utf8(&buffer[..length]).unwrap();
            let fields: Vec<&str> = text.lines().next().unwrap().split(':').collect();
            if fields[3] == "LOG_END" {
                assert_eq!(fields[4..], [datagrams.to_string(), "100".to_owned()]);
                break;
            }
            assert_eq!((fields[3], fields[4]), ("LOG_BATCH", datagrams.to_string().as_str()));
            let own: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
            assert_eq!(own.len().to_string(), fields[5]);
            lines.extend(own);
            datagrams += 1;
        }
        assert!(datagrams > 1);
        assert_eq!(lines.len(), 100);
        assert_eq!(lines[7], "INFO:1234567.890123:event_handler:EVENT_LIFECYCLE_DONE:event-7");
    }
}
