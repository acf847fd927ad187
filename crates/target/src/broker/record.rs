//! The record of what really happened to each message, and the totals at its end.

use crate::record_file::{RecordFile, Unwritable};
use plimsoll_codec::marker::Marker;
use plimsoll_codec::mqtt::QoS;
use plimsoll_model::Nanos;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::path::Path;
use std::rc::Rc;

const HEADER: &str = "run,device,sequence,arrival,qos,subscribers,delivered,dropped,open,causes\n";

/// Why a message was not delivered to a subscriber that it matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The memory bound was reached and it had to wait.
    Memory,
    /// Its expiry interval was over.
    Expired,
    /// It is larger than the client takes.
    TooLarge,
    /// It has QoS 0 for a client that is not connected.
    Offline,
    /// The session ended.
    SessionEnded,
    /// It has QoS 0 and the connection ended before the socket took it.
    ConnectionLost,
    /// The client refused it by a reason code.
    Refused,
}

/// How many causes there are.
const CAUSES: usize = 7;

impl Cause {
    const ALL: [Cause; CAUSES] = [
        Cause::Memory,
        Cause::Expired,
        Cause::TooLarge,
        Cause::Offline,
        Cause::SessionEnded,
        Cause::ConnectionLost,
        Cause::Refused,
    ];

    fn name(self) -> &'static str {
        match self {
            Cause::Memory => "memory",
            Cause::Expired => "expired",
            Cause::TooLarge => "too_large",
            Cause::Offline => "offline",
            Cause::SessionEnded => "session_ended",
            Cause::ConnectionLost => "connection_lost",
            Cause::Refused => "refused",
        }
    }
}

/// What became of one message, or of all of them.
#[derive(Clone, Copy, Default)]
struct Fates {
    subscribers: u64,
    delivered: u64,
    dropped: [u64; CAUSES],
}

impl Fates {
    fn dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Deliveries that were neither done nor given up.
    fn open(&self) -> u64 {
        self.subscribers.saturating_sub(self.delivered + self.dropped())
    }

    fn add(&mut self, other: &Fates) {
        self.subscribers += other.subscribers;
        self.delivered += other.delivered;
        self.dropped.iter_mut().zip(&other.dropped).for_each(|(sum, count)| *sum += count);
    }

    fn causes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Cause::ALL.into_iter().zip(self.dropped).map(|(cause, count)| (cause.name(), count))
    }
}

/// One message in the record. Its line is written when the last delivery lets go of it.
pub struct Trace {
    marker: Option<Marker>,
    arrival: Nanos,
    qos: QoS,
    fates: Cell<Fates>,
    lines: Rc<RefCell<Lines>>,
}

/// Lines that are complete, and the sums over all.
#[derive(Default)]
pub struct Lines {
    text: String,
    messages: u64,
    sums: Fates,
}

impl Trace {
    /// A message that arrived.
    pub fn begin(payload: &[u8], arrival: Nanos, qos: QoS, lines: &Rc<RefCell<Lines>>) -> Rc<Trace> {
        let marker = Marker::read_binary(payload).or_else(|| Marker::find_ascii(payload));
        Rc::new(Trace { marker, arrival, qos, fates: Cell::default(), lines: Rc::clone(lines) })
    }

    /// It goes to one more subscriber.
    pub fn matched(&self) {
        self.change(|fates| fates.subscribers += 1);
    }

    /// It was delivered to a subscriber.
    pub fn delivered(&self) {
        self.change(|fates| fates.delivered += 1);
    }

    /// A subscriber does not get it.
    pub fn dropped(&self, cause: Cause) {
        self.change(|fates| {
            if let Some(count) = fates.dropped.get_mut(cause as usize) {
                *count += 1;
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Fates)) {
        let mut fates = self.fates.get();
        change(&mut fates);
        self.fates.set(fates);
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Nobody writes lines while a message ends.
        let Ok(mut lines) = self.lines.try_borrow_mut() else { return };
        let fates = self.fates.get();
        lines.messages += 1;
        lines.sums.add(&fates);
        lines.line(self, &fates);
    }
}

impl Lines {
    fn line(&mut self, trace: &Trace, fates: &Fates) {
        let out = &mut self.text;
        // Writing to a text does not fail.
        let _ = match trace.marker {
            Some(marker) => write!(out, "{},{},{},", marker.run, marker.device, marker.sequence),
            None => write!(out, ",,,"),
        };
        let (dropped, open) = (fates.dropped(), fates.open());
        let _ = write!(
            out,
            "{},{},{},{},{dropped},{open},",
            trace.arrival.0,
            trace.qos.level(),
            fates.subscribers,
            fates.delivered
        );
        let causes = fates.causes().filter(|(_, count)| *count > 0);
        for (position, (name, count)) in causes.enumerate() {
            let _ = write!(out, "{}{name}:{count}", if position > 0 { "+" } else { "" });
        }
        out.push('\n');
    }

    /// The end of the record: one line a total, begun with `#`.
    fn totals(&self) -> String {
        let mut out = String::new();
        let sums = &self.sums;
        for (name, count) in [
            ("messages", self.messages),
            ("subscribers", sums.subscribers),
            ("delivered", sums.delivered),
            ("dropped", sums.dropped()),
            ("open", sums.open()),
        ] {
            let _ = writeln!(out, "# {name} {count}");
        }
        for (name, count) in sums.causes() {
            let _ = writeln!(out, "# dropped {name} {count}");
        }
        out
    }
}

/// Writes the record.
pub struct Record {
    file: RecordFile,
    lines: Rc<RefCell<Lines>>,
}

impl Record {
    /// Begins a record at that path.
    pub fn begin(path: &Path) -> Result<Record, Unwritable> {
        Ok(Record { file: RecordFile::begin(path, HEADER)?, lines: Rc::default() })
    }

    /// Where messages write their lines.
    pub fn lines(&self) -> Rc<RefCell<Lines>> {
        Rc::clone(&self.lines)
    }

    /// Hands complete lines to the kernel, so that a killed broker keeps them.
    pub fn flush(&mut self) -> Result<(), Unwritable> {
        let mut lines = self.lines.borrow_mut();
        if lines.text.is_empty() {
            return Ok(());
        }
        self.file.write(format_args!("{}", lines.text))?;
        lines.text.clear();
        drop(lines);
        self.file.flush()
    }

    /// Writes the totals. Messages that are still kept must have been dropped before.
    pub fn finish(mut self) -> Result<(), Unwritable> {
        self.flush()?;
        let totals = self.lines.borrow().totals();
        self.file.write(format_args!("{totals}"))?;
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_when_the_last_delivery_ends() {
        let lines = Rc::default();
        let marker = Marker { run: 7, device: 8, sequence: 9 };
        let trace = Trace::begin(&marker.to_binary(), Nanos(5), QoS::AtLeastOnce, &lines);
        for _ in 0..4 {
            trace.matched();
        }
        let delivery = Rc::clone(&trace);
        drop(trace);
        delivery.delivered();
        delivery.dropped(Cause::Expired);
        delivery.dropped(Cause::Memory);
        assert_eq!(lines.borrow().text, "");
        drop(delivery);
        assert_eq!(lines.borrow().text, "7,8,9,5,1,4,1,2,1,memory:1+expired:1\n");
        drop(Trace::begin(b"no marker", Nanos(6), QoS::AtMostOnce, &lines));
        assert!(lines.borrow().text.ends_with("\n,,,6,0,0,0,0,0,\n"));
        let totals = lines.borrow().totals();
        assert!(totals.starts_with(
            "# messages 2\n# subscribers 4\n# delivered 1\n# dropped 2\n# open 1\n# dropped memory 1\n"
        ));
    }
}
