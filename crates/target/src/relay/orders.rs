//! Orders to a relay that runs: for a time, everything takes longer, or a fault is there. An experiment or a schedule of faults gives
//! them, in a line of text for each, as a datagram to a socket that is a file. Who gave an order hears of the delay that there was,
//! or from when to when the fault was there, once it is over.

use super::faults::{Fault, Faults, Kind};
use super::link::Disturbance;
use plimsoll_model::Nanos;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

/// The id in epoll of the socket.
pub const ORDERS: u64 = u64::MAX - 2;
/// Orders that are not over, at most.
const MOST: usize = 64;
/// Readings before others get their turn.
const READINGS: usize = 64;
/// An order ends within this time.
const FURTHEST: Nanos = Nanos::from_secs(3600);
/// A longer line is no order.
const LONGEST_LINE: usize = 128;
/// The longest delay.
const LONGEST: Nanos = Nanos::from_secs(60);

/// The dose of a relay that was full: what it kept from being sent, it delayed without a bound.
const DOSE_OF_FULL: f64 = 1e9;

/// An order, and what was seen of it.
struct Order {
    from: Nanos,
    to: Nanos,
    each_way: Nanos,
    /// Who gave it.
    by: SocketAddr,
    /// What passed in its time, and by how much all of that together took longer than it should.
    passed: u64,
    late: Nanos,
    /// Whether the relay held as much as it can, so that it kept senders from sending.
    was_full: bool,
}

/// See the module.
pub struct Orders {
    socket: UnixDatagram,
    path: PathBuf,
    orders: Vec<Order>,
    /// The faults that are not over.
    pub faults: Faults,
}

impl Orders {
    /// Hears orders at a file, which nobody may have in use; it is there until this is dropped.
    pub fn at(path: &Path) -> io::Result<Orders> {
        let is_socket = path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
        let refuses = || -> io::Result<bool> {
            let connected = UnixDatagram::unbound()?.connect(path);
            Ok(connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
        };
        // One that was killed leaves its file, at which nobody hears.
        if is_socket && refuses()? {
            std::fs::remove_file(path)?;
        }
        let socket = UnixDatagram::bind(path)?;
        socket.set_nonblocking(true)?;
        Ok(Orders { socket, path: path.to_owned(), orders: Vec::new(), faults: Faults::default() })
    }

    /// Asks epoll for them.
    pub fn register(&self, epoll: &OwnedFd) -> rustix::io::Result<()> {
        epoll::add(epoll, &self.socket, EventData::new_u64(ORDERS), EventFlags::IN)
    }

    /// Reads what has come.
    pub fn read(&mut self, now: Nanos) {
        let mut line = [0; LONGEST_LINE];
        for _ in 0..READINGS {
            let Ok((count, by)) = self.socket.recv_from(&mut line) else { return };
            let text = line.get(..count).and_then(|line| std::str::from_utf8(line).ok());
            if let Some(fault) = text.and_then(parse_fault)
                && fault.1 > now
                && fault.1 - now < FURTHEST
                && let Some(by) = by.as_pathname()
            {
                let (from, to, kind) = fault;
                self.faults.add(Fault::new(kind, (from, to), by), MOST);
            } else if let Some((from, to, each_way)) = text.and_then(parse)
                && to > now
                && to - now < FURTHEST
                && self.orders.len() < MOST
            {
                self.orders.push(Order {
                    from,
                    to,
                    each_way,
                    by,
                    passed: 0,
                    late: Nanos::ZERO,
                    was_full: false,
                });
            }
        }
    }

    /// By how much what is sent at that time takes longer, each way.
    pub fn delay(&self, now: Nanos) -> Nanos {
        let own = self.orders.iter().filter(|order| (order.from..order.to).contains(&now));
        own.fold(Nanos::ZERO, |sum, order| sum + order.each_way)
    }

    /// What was to get to its end at a time does so now.
    pub fn see(&mut self, planned: Nanos, now: Nanos) {
        for order in &mut self.orders {
            if planned >= order.from + order.each_way && planned < order.to + order.each_way {
                order.passed += 1;
                order.late += now - planned;
            }
        }
    }

    /// The relay reads no more from a sender for now.
    pub fn see_full(&mut self, now: Nanos) {
        let is_on = |order: &&mut Order| now >= order.from && now < order.to + order.each_way;
        self.orders.iter_mut().filter(is_on).for_each(|order| order.was_full = true);
    }

    /// Tells of the orders that are over: the mean delay as a multiple of the ordered one. It is 0 where nothing passed, and
    /// [`DOSE_OF_FULL`] where the relay did more than to delay.
    pub fn tell(&mut self, now: Nanos) {
        for (line, path) in self.faults.take_over() {
            // Who has gone does not want to know.
            let _ = self.socket.send_to(line.as_bytes(), path);
        }
        let is_over = |order: &mut Order| now > order.to + order.each_way;
        for order in self.orders.extract_if(.., is_over) {
            let mean = order.late.0 as f64 / order.passed.max(1) as f64;
            let share = match order.passed {
                _ if order.was_full => DOSE_OF_FULL,
                0 => 0.0,
                _ => 1.0 + mean / order.each_way.0.max(1) as f64,
            };
            if let Some(path) = order.by.as_pathname() {
                // Who has gone does not want to know.
                let _ = self.socket.send_to(format!("dose {} {share}", order.from.0).as_bytes(), path);
            }
        }
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        // Where that fails, its folder is gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// `delay FROM TO LENGTH`, in nanoseconds of the host's monotonic clock.
fn parse(line: &str) -> Option<(Nanos, Nanos, Nanos)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["delay", from, to, length] = words[..] else { return None };
    let time = |word: &str| word.parse().ok().filter(|time| (0..i64::MAX / 4).contains(time)).map(Nanos);
    let (from, to, length) = (time(from)?, time(to)?, time(length)?);
    (from < to && length > Nanos::ZERO && length <= LONGEST).then_some((from, to, length))
}

/// `cut FROM TO`, `half-open FROM TO`, `slow FROM TO DELAY JITTER`, `rate FROM TO BITS` or `lose FROM TO SHARE`, times as above.
fn parse_fault(line: &str) -> Option<(Nanos, Nanos, Kind)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let time = |word: &str| word.parse().ok().filter(|time| (0..i64::MAX / 4).contains(time)).map(Nanos);
    let (from, to, kind) = match words[..] {
        ["cut", from, to] => (from, to, Kind::Cut),
        ["half-open", from, to] => (from, to, Kind::HalfOpen),
        ["slow", from, to, delay, jitter] => {
            let (delay, jitter) = (time(delay)?, time(jitter)?);
            if delay > LONGEST || jitter > LONGEST {
                return None;
            }
            (from, to, Kind::Disturb(Disturbance { delay, jitter, ..Disturbance::default() }))
        }
        ["rate", from, to, bits] => {
            let rate = Some(bits.parse().ok().filter(|bits| *bits > 0)?);
            (from, to, Kind::Disturb(Disturbance { rate, ..Disturbance::default() }))
        }
        ["lose", from, to, share] => {
            let loss = share.parse().ok().filter(|share| (0.0..=1.0).contains(share))?;
            (from, to, Kind::Disturb(Disturbance { loss, ..Disturbance::default() }))
        }
        _ => return None,
    };
    let (from, to) = (time(from)?, time(to)?);
    (from < to).then_some((from, to, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(seconds: i64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn an_order_delays_for_its_time_and_who_gave_it_hears_of_the_delay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("orders");
        let mut orders = Orders::at(&path).unwrap();
        let own = UnixDatagram::bind(dir.path().join("doses")).unwrap();
        own.send_to(b"delay 1000000000 2000000000 10000000", &path).unwrap();
        own.send_to(b"delay 5000000000 6000000000 1", &path).unwrap();
        for wrong in ["", "delay 1 2", "delay 2 1 1", "delay 1 2 0", "delay x 2 1", "delay 1 2 99999999999"] {
            own.send_to(wrong.as_bytes(), &path).unwrap();
        }
        orders.read(second(0));
        assert_eq!(orders.orders.len(), 2);
        let each_way = Nanos::from_millis(10);
        assert_eq!([0, 1, 2].map(|at| orders.delay(second(at))), [Nanos::ZERO, each_way, Nanos::ZERO]);
        for (planned, late) in [(1100, 1), (1500, 3), (2500, 500), (1000, 500)] {
            orders.see(Nanos::from_millis(planned), Nanos::from_millis(planned + late));
        }
        orders.tell(second(2));
        assert_eq!(orders.orders.len(), 2, "something may still be under way");
        orders.tell(second(3));
        let mut line = [0; 64];
        let count = own.recv(&mut line).unwrap();
        assert_eq!(&line[..count], b"dose 1000000000 1.2");
        // Nothing passed in the second one.
        orders.tell(second(7));
        let count = own.recv(&mut line).unwrap();
        assert_eq!(&line[..count], b"dose 5000000000 0");
    }

    #[test]
    fn a_relay_that_was_full_did_more_than_to_delay() {
        let dir = tempfile::tempdir().unwrap();
        let mut orders = Orders::at(&dir.path().join("orders")).unwrap();
        let own = UnixDatagram::bind(dir.path().join("doses")).unwrap();
        own.send_to(b"delay 1000000000 2000000000 10000000", dir.path().join("orders")).unwrap();
        orders.read(second(0));
        orders.see_full(Nanos::from_millis(500));
        orders.see(Nanos::from_millis(1100), Nanos::from_millis(1100));
        let is_full = |orders: &Orders| orders.orders[0].was_full;
        assert!(!is_full(&orders), "that was before");
        orders.see_full(Nanos::from_millis(2005));
        assert!(is_full(&orders), "what it delayed is still under way");
        orders.tell(second(3));
        let mut line = [0; 64];
        let count = own.recv(&mut line).unwrap();
        assert_eq!(&line[..count], b"dose 1000000000 1000000000");
    }

    #[test]
    fn orders_without_end_take_no_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut orders = Orders::at(&dir.path().join("orders")).unwrap();
        let own = UnixDatagram::unbound().unwrap();
        for end in [1_000_000_000_i64, 3_700_000_000_000] {
            own.send_to(format!("delay 0 {end} 5").as_bytes(), dir.path().join("orders")).unwrap();
        }
        orders.read(Nanos(1));
        assert_eq!(orders.orders.len(), 1);
    }

    #[test]
    fn faults_are_ordered_in_words_of_their_own_and_told_when_they_are_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut orders = Orders::at(&dir.path().join("orders")).unwrap();
        let own = UnixDatagram::bind(dir.path().join("told")).unwrap();
        for line in [
            "cut 1000000000 2000000000",
            "cut 2 1",
            "half-open 1",
            "slow 1 2 3",
            "slow 1 2 99999999999 0",
            "rate 1 2 0",
            "lose 1 2 1.5",
            "lose 1 2 NaN",
        ] {
            own.send_to(line.as_bytes(), dir.path().join("orders")).unwrap();
        }
        orders.read(second(0));
        assert_eq!(orders.faults.next(second(0)), Some(second(1)), "the others are no orders");
        let begun = orders.faults.turn(second(1));
        assert_eq!(
            begun.iter().map(|(kind, begins)| (*kind, *begins)).collect::<Vec<_>>(),
            [(Kind::Cut, true)]
        );
        assert!(orders.faults.is_cut() && orders.faults.turn(second(1)).is_empty());
        let over = orders.faults.turn(Nanos::from_millis(2001));
        assert_eq!(over, [(Kind::Cut, false)]);
        orders.tell(Nanos::from_millis(2001));
        let mut line = [0; 128];
        let count = own.recv(&mut line).unwrap();
        assert_eq!(&line[..count], b"fault 1000000000 1000000000 2001000000 by a relay before it");
    }

    #[test]
    fn a_file_that_nobody_hears_at_is_taken_over_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("orders");
        drop(UnixDatagram::bind(&path).unwrap());
        let first = Orders::at(&path).unwrap();
        assert!(Orders::at(&path).is_err(), "somebody hears there");
        drop(first);
        assert!(!path.exists());
        let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(Orders::at(&path).is_err() && path.exists(), "another kind of socket is somebody's");
        drop(other);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "mine").unwrap();
        assert!(Orders::at(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
