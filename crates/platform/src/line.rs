//! What Plimsoll and a guard say to each other on the line between them: a line of text for each message. Times are those of the
//! host's monotonic clock, in nanoseconds.

use std::fmt;

/// A line that is longer is none of ours.
const LONGEST: usize = 1024;

/// What Plimsoll asks a guard to do once it has said the command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Request {
    /// Slow what it guards.
    Slow(Slowdown),
    /// Slow nothing any more, also where it does so right now.
    Release,
}

/// How the guard slows what it guards, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slowdown {
    /// From when.
    pub from: i64,
    /// Up to when; later than `from`.
    pub to: i64,
    /// How.
    pub how: How,
}

/// See [`plimsoll_model::experiment::Means`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum How {
    /// All processes are stopped at the beginning of each cycle. In nanoseconds.
    Stop {
        /// For how long, above 0.
        length: i64,
        /// From the beginning of one stop to that of the next: `length` at least.
        cycle: i64,
    },
    /// The quota of processor time is cut.
    Quota {
        /// By this share of it, from 0 to 1.
        share: f64,
    },
    /// All processes are stopped once, for the whole time: a planned fault.
    Pause,
    /// This share of the processor time is left, from 0 to 1: a planned fault.
    Squeeze {
        /// See there.
        keep: f64,
    },
    /// Each process may have no more data than so many bytes: a planned fault.
    Memory {
        /// See there.
        limit: u64,
    },
    /// The folder of the command is filled: a planned fault.
    Fill,
}

impl How {
    /// By which means, for people, where all goes well.
    pub fn in_words(self) -> &'static str {
        match self {
            How::Stop { .. } | How::Pause => "by SIGSTOP to all its processes",
            How::Quota { .. } | How::Squeeze { .. } => "by the quota of its control group",
            How::Memory { .. } => "by a limit of data of each of its processes (RLIMIT_DATA)",
            How::Fill => "by a file that fills its folder, a file system of its own",
        }
    }
}

/// What a guard tells Plimsoll, or a relay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    /// The command runs, in a process with that id.
    Started(i32),
    /// Its process has ended.
    Ended {
        /// When.
        at: i64,
    },
    /// A slowdown is over.
    Dose {
        /// When it was to begin: that tells which one.
        from: i64,
        /// The share of its time, or of the quota, that was taken in fact.
        share: f64,
    },
    /// A planned fault is over.
    Fault(ToldFault),
}

/// When a planned fault was there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToldFault {
    /// When it was to begin: that tells which one.
    pub from: i64,
    /// When it began and ended in fact; `None` where it was not there.
    pub span: Option<(i64, i64)>,
    /// By which means, or why it was not there, for people.
    pub words: String,
}

impl Request {
    /// Reads a line; `None` where it is no request.
    pub fn parse(line: &str) -> Option<Request> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (from, to, how) = match words[..] {
            ["stop", from, to, length, cycle] => {
                (from, to, How::Stop { length: length.parse().ok()?, cycle: cycle.parse().ok()? })
            }
            ["quota", from, to, share] => (from, to, How::Quota { share: share.parse().ok()? }),
            ["pause", from, to] => (from, to, How::Pause),
            ["squeeze", from, to, keep] => (from, to, How::Squeeze { keep: keep.parse().ok()? }),
            ["memory", from, to, limit] => (from, to, How::Memory { limit: limit.parse().ok()? }),
            ["fill", from, to] => (from, to, How::Fill),
            ["release"] => return Some(Request::Release),
            _ => return None,
        };
        let slowdown = Slowdown { from: from.parse().ok()?, to: to.parse().ok()?, how };
        slowdown.is_sound().then_some(Request::Slow(slowdown))
    }
}

impl Slowdown {
    /// Whether it has a length, and a share or stops that it may have.
    pub fn is_sound(&self) -> bool {
        let is_sound = match self.how {
            How::Stop { length, cycle } => 0 < length && length <= cycle,
            How::Quota { share } => (0.0..=1.0).contains(&share),
            How::Squeeze { keep } => keep > 0.0 && keep < 1.0,
            How::Pause | How::Memory { .. } | How::Fill => true,
        };
        is_sound && self.to.checked_sub(self.from).is_some_and(|length| length > 0)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request::Slow(Slowdown { from, to, how }) = self else { return f.write_str("release") };
        match how {
            How::Stop { length, cycle } => write!(f, "stop {from} {to} {length} {cycle}"),
            How::Quota { share } => write!(f, "quota {from} {to} {share}"),
            How::Pause => write!(f, "pause {from} {to}"),
            How::Squeeze { keep } => write!(f, "squeeze {from} {to} {keep}"),
            How::Memory { limit } => write!(f, "memory {from} {to} {limit}"),
            How::Fill => write!(f, "fill {from} {to}"),
        }
    }
}

impl Told {
    /// Reads a line; `None` where a guard tells no such thing.
    pub fn parse(line: &str) -> Option<Told> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some(match words[..] {
            ["started", process] => Told::Started(process.parse().ok()?),
            ["ended", at] => Told::Ended { at: at.parse().ok()? },
            ["dose", from, share] => Told::Dose { from: from.parse().ok()?, share: share.parse().ok()? },
            ["fault", from, began, ended, ref words @ ..] => {
                let span = Some((began.parse().ok()?, ended.parse().ok()?));
                Told::Fault(ToldFault { from: from.parse().ok()?, span, words: words.join(" ") })
            }
            ["failed", from, ref words @ ..] => {
                Told::Fault(ToldFault { from: from.parse().ok()?, span: None, words: words.join(" ") })
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Started(process) => write!(f, "started {process}"),
            Told::Ended { at } => write!(f, "ended {at}"),
            Told::Dose { from, share } => write!(f, "dose {from} {share}"),
            Told::Fault(ToldFault { from, span: Some((began, ended)), words }) => {
                write!(f, "fault {from} {began} {ended} {words}")
            }
            Told::Fault(ToldFault { from, span: None, words }) => write!(f, "failed {from} {words}"),
        }
    }
}

/// Makes lines of bytes, which come in pieces.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Lines {
    /// The lines that are whole with these bytes, without their ends.
    pub fn complete(&mut self, bytes: &[u8]) -> Vec<String> {
        self.begun.extend_from_slice(bytes);
        let Some(end) = self.begun.iter().rposition(|&byte| byte == b'\n') else {
            // Whoever never ends a line takes no memory.
            self.begun.truncate(LONGEST);
            return Vec::new();
        };
        let rest = self.begun.split_off(end + 1);
        let whole = std::mem::replace(&mut self.begun, rest);
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP: Request =
        Request::Slow(Slowdown { from: 7, to: 2_000_000_007, how: How::Stop { length: 50, cycle: 250 } });

    #[test]
    fn what_is_said_is_heard() {
        let quota = Request::Slow(Slowdown { from: -7, to: 9, how: How::Quota { share: 0.1 + 0.2 } });
        let fault = |how| Request::Slow(Slowdown { from: 1, to: 9, how });
        let faults =
            [How::Pause, How::Squeeze { keep: 0.2 }, How::Memory { limit: 1 << 26 }, How::Fill].map(fault);
        for request in [STOP, quota, Request::Release].into_iter().chain(faults) {
            assert_eq!(Request::parse(&request.to_string()), Some(request));
        }
        let fault = |span| Told::Fault(ToldFault { from: 7, span, words: "by a quota".into() });
        let told = [Told::Started(4711), Told::Ended { at: 17 }, Told::Dose { from: 7, share: 1.0 / 3.0 }];
        for told in told.into_iter().chain([fault(Some((8, 11))), fault(None)]) {
            assert_eq!(Told::parse(&told.to_string()), Some(told));
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_heard() {
        for line in [
            "",
            "stop",
            "stop 0 9 1",
            "stop 0 9 1 2 3",
            "stop 0 9 3 2",
            "stop 0 9 0 2",
            "stop 9 9 1 2",
            "stop x 9 1 2",
            "stop -9223372036854775808 9223372036854775807 1 2",
            "stop 0 99999999999999999999 1 2",
            "quota 0 9 1.1",
            "quota 0 9 NaN",
            "release now",
            "pause 9 9",
            "squeeze 0 9 0",
            "squeeze 0 9 1",
            "memory 0 9 -1",
            "fill 0",
            "dose 0 0.5",
        ] {
            assert_eq!(Request::parse(line), None, "{line}");
        }
        for line in ["", "4711", "started", "started x", "ended 1 2", "dose 1", "\u{fffd}"] {
            assert_eq!(Told::parse(line), None, "{line}");
        }
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let text = format!("{STOP}\ngarbage\n{}\n", Request::Release);
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let found: Vec<String> =
                text.as_bytes().chunks(size).flat_map(|piece| lines.complete(piece)).collect();
            let found: Vec<_> = found.iter().map(|line| Request::parse(line)).collect();
            assert_eq!(found, [Some(STOP), None, Some(Request::Release)], "in pieces of {size}");
        }
    }

    #[test]
    fn bytes_without_end_are_no_line() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            assert!(lines.complete(&[0xff; LONGEST]).is_empty());
        }
        assert_eq!(lines.begun.len(), LONGEST);
        let found = lines.complete(b"\nrelease\nrel");
        assert_eq!(found.last().map(String::as_str), Some("release"));
        assert_eq!((found.len(), lines.complete(b"ease\n")), (2, vec!["release".to_owned()]));
    }
}
