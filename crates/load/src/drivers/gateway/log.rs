//! The log of a gateway, read: what became of which event when, and what is missing.

use super::{FAILED, STAGE_SOURCE};
use crate::driver::{Event, StageOutcome, Stages};
use plimsoll_codec::hiding::cut;
use plimsoll_codec::marker::Marker;
use plimsoll_model::Nanos;
use plimsoll_stats::clock_offset::Line;
use std::collections::{BTreeMap, HashMap};

/// Events that are on their way at the gateway; above them the log is not one of this test.
const OPEN: usize = 1 << 21;

/// Datagrams that may be missing in a row; a larger number is none of this log.
const MOST_MISSING: u64 = 1 << 32;

/// Characters of a line that are shown to people.
const SHOWN: usize = 120;
/// Levels that are told apart, and characters of one.
const LEVELS: usize = 8;
const LONGEST_LEVEL: usize = 16;

/// The life of an event at the gateway: on its clock as it is read, on ours once it was [told by](Life::told_by) that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its device.
    pub device: u32,
    /// Its number.
    pub sequence: u32,
    /// When it was there; `None` where that line is missing.
    pub retrieved: Option<Nanos>,
    /// When the event handler had it; `None` where that line is missing.
    pub dispatched: Option<Nanos>,
    /// When its work was over.
    pub over: Nanos,
    /// Whether it failed.
    pub failed: bool,
    /// How well these times are known; zero on the gateway's own clock.
    pub within: Nanos,
}

impl Life {
    /// Its stages, as the engine knows them.
    pub fn told(&self, outcome: StageOutcome) -> Event {
        let Life { device, sequence, retrieved, dispatched, over, within, .. } = *self;
        let stages = Stages { retrieved, dispatched, done: over, within };
        Event::Stages { device, sequence, stages, outcome, source: &STAGE_SOURCE }
    }

    /// What it says of an event that nothing else acknowledges.
    pub fn end(&self) -> Event {
        let (device, sequence) = (self.device, self.sequence);
        match self.failed {
            true => Event::Refused { device, sequence, at: self.over, reason: FAILED.to_owned() },
            false => self.told(StageOutcome::Acknowledged),
        }
    }

    /// On our clock, as far as it is known how the gateway's stands to it.
    pub fn told_by(self, line: &Line) -> Life {
        let ours = |at| line.ours(at);
        Life {
            retrieved: self.retrieved.map(ours),
            dispatched: self.dispatched.map(ours),
            over: ours(self.over),
            within: line.within(),
            ..self
        }
    }
}

/// Puts lines together.
#[derive(Debug, Default)]
pub struct Reader {
    tag: u16,
    open: HashMap<(u32, u32), [Option<Nanos>; 2]>,
    /// The number of the next datagram, where they have numbers.
    next: u64,
    /// Whether numbers begin anew with the next datagram that has the first.
    begins_again: bool,
    /// Datagrams that did not come.
    pub missing: u64,
    /// Lines that name no event of this test, or cannot be read.
    pub foreign: u64,
    /// What the gateway says to people, at the level of errors.
    pub errors: Vec<String>,
    /// Other lines that tell of no event of this run, by level.
    pub others: Others,
}

/// Lines of a log that tell of no event, by level: how many, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others(BTreeMap<String, (u64, String)>);

impl Others {
    fn add(&mut self, level: &str, line: &str) {
        let harmless =
            |text: &str, most| text.chars().filter(|c| !c.is_control()).take(most).collect::<String>();
        let level = harmless(level, LONGEST_LEVEL);
        // Whoever invents levels fills no memory.
        let is_known = self.0.len() < LEVELS || self.0.contains_key(&level);
        let level = if is_known { level } else { "further".into() };
        self.0.entry(level).or_insert_with(|| (0, harmless(line, SHOWN))).0 += 1;
    }

    /// Adds those of another.
    pub fn append(&mut self, others: Others) {
        for (level, (times, first)) in others.0 {
            self.0.entry(level).or_insert((0, first)).0 += times;
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is told of them, for people.
    pub fn told(self) -> impl Iterator<Item = Event> {
        self.0.into_iter().map(|(level, (times, first))| {
            let reason = format!(
                "a line of the gateway's log that reports no event, at the level {level}, such as {first:?}"
            );
            Event::Incidents { reason, times }
        })
    }
}

impl Reader {
    /// Of a run with that tag.
    pub fn new(tag: u16) -> Reader {
        Reader { tag, ..Reader::default() }
    }

    /// Another process goes on with the log, whose datagrams have numbers of their own.
    pub fn begin_again(&mut self) {
        self.begins_again = true;
    }

    /// Reads a datagram and adds the lives that have ended in it.
    pub fn read(&mut self, datagram: &[u8], lives: &mut Vec<Life>) {
        let text = String::from_utf8_lossy(datagram);
        for line in text.lines() {
            if self.line(line, lives).is_none() {
                self.foreign += 1;
                self.others.add("unreadable", line);
                if self.foreign == 1 {
                    let line = cut(line, SHOWN);
                    self.errors.push(format!("its log names no event of this run, or nothing that became of it, in the line {line:?}"));
                }
            }
        }
    }

    /// `None` for a line that cannot be read.
    fn line(&mut self, line: &str, lives: &mut Vec<Life>) -> Option<()> {
        let (level, rest) = line.split_once(':')?;
        let (time, rest) = rest.split_once(':')?;
        let mut fields = rest.splitn(3, ':');
        let (function, keyword, event) = (fields.next()?, fields.next(), fields.next());
        let Some(station) = keyword.and_then(|keyword| keyword.strip_prefix("EVENT_LIFECYCLE_")) else {
            if let Some("LOG_BATCH" | "LOG_END") = keyword {
                // The number of this datagram, or how many there were in all.
                let number: u64 = event?.split(':').next()?.parse().ok()?;
                if number == 0 && std::mem::take(&mut self.begins_again) {
                    self.next = 0;
                    self.open.clear();
                }
                let missing = number.saturating_sub(self.next);
                if missing > MOST_MISSING {
                    return None;
                }
                self.missing += missing;
                let next = number + u64::from(keyword == Some("LOG_BATCH"));
                self.next = self.next.max(next);
            } else if level == "ERROR" && self.errors.len() < 64 {
                let words = [Some(function), keyword, event].into_iter().flatten().collect::<Vec<_>>();
                self.errors.push(words.join(":"));
            } else if event.is_none_or(|event| event_of(event, self.tag).is_none()) {
                let words = [Some(function), keyword, event].into_iter().flatten().collect::<Vec<_>>();
                self.others.add(level, &words.join(":"));
            }
            // Whoever names an event of this run wants to tell what became of it.
            return event.is_none_or(|event| event_of(event, self.tag).is_none()).then_some(());
        };
        let at = milliseconds(time)?;
        let (device, sequence) = event_of(event?, self.tag)?;
        let known = (device, sequence);
        match station {
            "RETRIEVED" | "DISPATCHED" => {
                if self.open.len() >= OPEN {
                    return None;
                }
                // The first counts of an event that came twice.
                self.open.entry(known).or_default()[usize::from(station == "DISPATCHED")].get_or_insert(at);
            }
            "DONE" | "FAILED" => {
                let [retrieved, dispatched] = self.open.remove(&known).unwrap_or_default();
                let failed = station == "FAILED";
                let within = Nanos::ZERO;
                lives.push(Life { device, sequence, retrieved, dispatched, over: at, failed, within });
            }
            _ => return None,
        }
        Some(())
    }
}

/// The name of an event: run, device and number.
pub fn name(tag: u16, device: u32, sequence: u32) -> String {
    format!("{tag:04x}-{device}-{sequence}")
}

/// The event of that name: as [`name`] calls it, or by its marker, which is the name of what a device sent by itself.
fn event_of(name: &str, tag: u16) -> Option<(u32, u32)> {
    if let Some(marker) = Marker::find_ascii(name.as_bytes()) {
        return (marker.run == tag).then_some((marker.device, marker.sequence));
    }
    let mut parts = name.split('-');
    let (run, device, sequence) = (parts.next()?, parts.next()?, parts.next()?);
    let ours = u16::from_str_radix(run, 16).ok()? == tag && parts.next().is_none();
    ours.then_some(())?;
    Some((device.parse().ok()?, sequence.parse().ok()?))
}

/// A time in milliseconds, with or without fractions, in nanoseconds.
fn milliseconds(text: &str) -> Option<Nanos> {
    // A clock may show less than nothing, which holds for its fractions, too.
    let (sign, size) = text.strip_prefix('-').map_or((1, text), |size| (-1, size));
    let (whole, fraction) = size.split_once('.').unwrap_or((size, ""));
    if !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    Some(Nanos(sign * whole.checked_mul(1_000_000)?.checked_add(digits.parse().ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_put_together_and_what_is_missing_is_counted() {
        let mut reader = Reader::new(0x4d);
        let mut lives = Vec::new();
        reader.read(
            b"VERBOSE:1.0:log:LOG_BATCH:0:2\nINFO:10.5:dispatcher:EVENT_LIFECYCLE_RETRIEVED:004d-3-7\n\
              INFO:11:dispatcher:EVENT_LIFECYCLE_DISPATCHED:004d-3-7\n",
            &mut lives,
        );
        assert!(lives.is_empty());
        reader.read(
            b"VERBOSE:1.0:log:LOG_BATCH:3:2\nINFO:12.000001:event_handler:EVENT_LIFECYCLE_DONE:004d-3-7\n\
              ERROR:13:event_handler:EVENT_LIFECYCLE_FAILED:004d-0-1\nERROR:14:gateway:device 4: closed\n",
            &mut lives,
        );
        let ms = |nanos: i64| Some(Nanos(nanos));
        assert_eq!(
            lives,
            [
                Life {
                    device: 3,
                    sequence: 7,
                    retrieved: ms(10_500_000),
                    dispatched: ms(11_000_000),
                    over: Nanos(12_000_001),
                    failed: false,
                    within: Nanos::ZERO
                },
                Life {
                    device: 0,
                    sequence: 1,
                    retrieved: None,
                    dispatched: None,
                    over: Nanos(13_000_000),
                    failed: true,
                    within: Nanos::ZERO
                },
            ]
        );
        assert_eq!((reader.missing, reader.foreign), (2, 0));
        assert_eq!(reader.errors, ["gateway:device 4: closed"]);
        assert!(reader.open.is_empty());
        // Of nine that were sent in all, five more have not come; said twice, they are counted once.
        reader.read(b"VERBOSE:15:log:LOG_END:9:12\nVERBOSE:15:log:LOG_END:9:12\n", &mut lives);
        assert_eq!(reader.missing, 7);
        // A gateway that was started again counts from the beginning.
        reader.begin_again();
        reader.read(b"VERBOSE:1.0:log:LOG_BATCH:0:0\nVERBOSE:1.0:log:LOG_BATCH:2:0\n", &mut lives);
        assert_eq!((reader.missing, reader.foreign), (8, 0));
        reader.read(b"VERBOSE:1.0:log:LOG_BATCH:18446744073709551615:0\n", &mut lives);
        assert_eq!((reader.missing, reader.foreign), (8, 1));
    }

    #[test]
    fn lines_of_others_and_garbage_are_counted() {
        let mut reader = Reader::new(0x4d);
        let mut lives = Vec::new();
        reader.read(b"INFO:1:f:EVENT_LIFECYCLE_DONE:0001-3-7\n\xff\xfe\nINFO:x:f:EVENT_LIFECYCLE_DONE:004d-3-7\nINFO:1:ready\n", &mut lives);
        assert!(lives.is_empty());
        assert_eq!(reader.foreign, 3);
        assert_eq!(
            reader.errors,
            [
                "its log names no event of this run, or nothing that became of it, in the line \"INFO:1:f:EVENT_LIFECYCLE_DONE:0001-3-7\""
            ]
        );
        reader.read(b"INFO:1:f:DONE:004d-3-7\n", &mut lives);
        assert_eq!((lives.len(), reader.foreign), (0, 4));
    }

    #[test]
    fn lines_that_tell_of_no_event_are_kept_by_level() {
        let mut reader = Reader::new(0x4d);
        let mut lives = Vec::new();
        for _ in 0..3 {
            reader.read(b"INFO:1:pool:grown to 4\nWARNING:2.5:disk:90 % full\nnonsense\n", &mut lives);
        }
        for level in 0..100 {
            reader.read(format!("L{level}:1:f:x\n").as_bytes(), &mut lives);
        }
        let last = b"VERBOSE:1:log:LOG_BATCH:0:0\nINFO:12:f:EVENT_LIFECYCLE_DONE:004d-3-7\n";
        reader.read(last, &mut lives);
        let events = std::mem::take(&mut reader.others).told();
        let told: Vec<(u64, String)> = events
            .filter_map(|event| match event {
                Event::Incidents { reason, times } => Some((times, reason)),
                _ => None,
            })
            .collect();
        let times =
            |text: &str| told.iter().find(|(_, reason)| reason.contains(text)).map(|(times, _)| *times);
        let found = ["\"pool:grown to 4\"", "level WARNING", "\"nonsense\""].map(times);
        assert_eq!(found, [Some(3); 3]);
        assert_eq!((told.len(), told.iter().map(|(times, _)| times).sum::<u64>()), (LEVELS + 1, 109));
        assert_eq!((lives.len(), reader.others.is_empty()), (1, true));
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        assert_eq!(event_of(&name(0xffff, 9, 4_000_000_000), 0xffff), Some((9, 4_000_000_000)));
        let mut marker = Vec::new();
        Marker { run: 0x4d, device: 3, sequence: 7 }.write_ascii(&mut marker);
        let marker = String::from_utf8(marker).unwrap();
        assert_eq!((event_of(&marker, 0x4d), event_of(&marker, 0x4e)), (Some((3, 7)), None));
        assert_eq!(milliseconds("-5"), Some(Nanos(-5_000_000)));
        assert_eq!(milliseconds("-5.25"), Some(Nanos(-5_250_000)));
        assert_eq!(milliseconds("-0.000001"), Some(Nanos(-1)));
        assert_eq!(["--5", "+5", "-", ""].map(milliseconds), [None; 4]);
        assert_eq!(milliseconds("1.5e3"), None);
    }
}
