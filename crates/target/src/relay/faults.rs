//! Faults that a relay was ordered to have between two times: the server asks at each turn what begins and what ends.

use super::link::Disturbance;
use super::segments::SegmentLoss;
use plimsoll_model::Nanos;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use crate::clock::monotonic;

/// What is told of means.
const MEANS: &str = "by a relay before it";
/// The same where the kernel's packet filter loses segments of TCP.
const MEANS_OF_LOSS: &str = "by a relay before it, and for TCP by nftables";

/// What goes wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Connections are reset, new ones too, and datagrams are lost.
    Cut,
    /// What is sent vanishes, and connections stay open.
    HalfOpen,
    /// What is sent takes longer, or gets lost.
    Disturb(Disturbance),
}

impl Kind {
    fn loss(self) -> f64 {
        if let Kind::Disturb(disturbance) = self { disturbance.loss } else { 0.0 }
    }
}

/// A fault that was ordered.
pub struct Fault {
    kind: Kind,
    from: Nanos,
    to: Nanos,
    /// Who hears of it.
    by: PathBuf,
    began: Option<Nanos>,
    ended: Option<Nanos>,
    segments: Segments,
}

/// Segments of TCP that get lost.
enum Segments {
    /// None were asked for so far.
    Kept,
    /// The kernel is being asked, which takes some milliseconds.
    Asking(JoinHandle<(Result<SegmentLoss, String>, Nanos)>),
    /// They get lost until this is dropped.
    Lost(#[expect(dead_code, reason = "what counts is when it is dropped")] SegmentLoss),
    /// The kernel refused.
    Refused(String),
}

impl Fault {
    /// It is to be there between two times; `by` is the file at which it is to be told.
    pub fn new(kind: Kind, (from, to): (Nanos, Nanos), by: &Path) -> Fault {
        Fault { kind, from, to, by: by.to_owned(), began: None, ended: None, segments: Segments::Kept }
    }

    fn is_on(&self) -> bool {
        self.began.is_some() && self.ended.is_none()
    }
}

/// The faults that are not told as over.
#[derive(Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Takes one in, of at most so many.
    pub fn add(&mut self, fault: Fault, most: usize) {
        if self.0.len() < most {
            self.0.push(fault);
        }
    }

    /// When the next one begins or ends.
    pub fn next(&self, now: Nanos) -> Option<Nanos> {
        let open = self.0.iter().filter(|fault| fault.ended.is_none());
        open.map(|fault| if fault.began.is_none() { fault.from } else { fault.to }.max(now)).min()
    }

    /// What begins by now (`true`) and what ends by now (`false`). One that is over before it could begin is left out.
    pub fn turn(&mut self, now: Nanos) -> Vec<(Kind, bool)> {
        let mut changes = Vec::new();
        for fault in &mut self.0 {
            if fault.is_on() && now >= fault.to {
                fault.ended = Some(now);
                changes.push((fault.kind, false));
                // Their rules go with it.
                if let Segments::Lost(_) = &fault.segments {
                    fault.segments = Segments::Kept;
                    fault.ended = Some(monotonic().max(now));
                }
            }
            if fault.began.is_none() && fault.ended.is_none() && now >= fault.from {
                if now >= fault.to {
                    fault.ended = Some(now);
                } else {
                    fault.began = Some(now);
                    changes.push((fault.kind, true));
                }
            }
        }
        changes
    }

    /// Has the kernel lose segments to and from an address for those that are to lose packets. It is no failure that it refuses
    /// where nobody connects.
    pub fn lose_segments(&mut self, address: SocketAddr, has_connections: bool) {
        for fault in &mut self.0 {
            let share = fault.kind.loss();
            if fault.is_on() && share > 0.0 && matches!(fault.segments, Segments::Kept) {
                let asking = move || (SegmentLoss::begin(address, share), monotonic());
                fault.segments = Segments::Asking(thread::spawn(asking));
            }
            let is_answered = matches!(&fault.segments, Segments::Asking(asking) if asking.is_finished());
            if !is_answered {
                continue;
            }
            let Segments::Asking(asking) = std::mem::replace(&mut fault.segments, Segments::Kept) else {
                continue;
            };
            let answer =
                asking.join().unwrap_or_else(|_| (Err("nobody could ask for it".into()), fault.from));
            match answer {
                // Too late: the rules go at once.
                (Ok(_), _) if !fault.is_on() => {}
                (Ok(loss), at) => {
                    fault.segments = Segments::Lost(loss);
                    if has_connections {
                        fault.began = Some(at);
                    }
                }
                (Err(why), _) if has_connections => fault.segments = Segments::Refused(why),
                // Datagrams alone need no right to it; it is not asked again.
                (Err(_), _) => fault.segments = Segments::Refused(String::new()),
            }
        }
    }

    /// Whether connections are cut now.
    pub fn is_cut(&self) -> bool {
        self.0.iter().any(|fault| fault.is_on() && fault.kind == Kind::Cut)
    }

    /// Whether what is sent vanishes now.
    pub fn is_half_open(&self) -> bool {
        self.0.iter().any(|fault| fault.is_on() && fault.kind == Kind::HalfOpen)
    }

    /// Takes out those that are over: what is told of each, and to whom.
    pub fn take_over(&mut self) -> Vec<(String, PathBuf)> {
        let is_over =
            |fault: &mut Fault| fault.ended.is_some() && !matches!(fault.segments, Segments::Asking(_));
        let told = self.0.extract_if(.., is_over).map(|fault| {
            let Fault { from, began, ended, .. } = &fault;
            let means = if fault.kind.loss() > 0.0 { MEANS_OF_LOSS } else { MEANS };
            let line = match (began, ended, &fault.segments) {
                (_, _, Segments::Refused(why)) if !why.is_empty() => format!("failed {} {why}", from.0),
                (Some(began), Some(ended), Segments::Refused(_)) => {
                    format!("fault {} {} {} {MEANS}", from.0, began.0, ended.0)
                }
                (Some(began), Some(ended), _) => format!("fault {} {} {} {means}", from.0, began.0, ended.0),
                _ => format!("failed {} it came to the relay after its time", from.0),
            };
            (line, fault.by)
        });
        told.collect()
    }
}
